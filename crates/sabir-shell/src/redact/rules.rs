//! Rules for strings that look like keys: a prefix and what must follow it.

mod patterns;

use patterns::{Suffix, alphanumeric, base64_letter, hex, name_letter, upper_or_digit, url_letter};

/// Rule for one kind of key.
#[derive(Debug)]
pub struct Rule {
    /// Name in the marker.
    pub name: &'static str,
    /// Prefixes of the key.
    pub(super) prefixes: &'static [&'static str],
    /// The prefix must not start within a word.
    at_word_start: bool,
    suffix: Suffix,
}

/// A place where a prefix occurs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate<'t> {
    pub(super) bytes: &'t [u8],
    /// Byte before the text.
    pub(super) before: Option<u8>,
    /// No more text follows.
    pub(super) is_final: bool,
    /// Start of the prefix.
    pub(super) start: usize,
    /// End of the prefix.
    pub(super) after: usize,
}

/// Result of evaluating a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Match {
    No,
    Yes {
        from: usize,
        to: usize,
    },
    /// Further text decides.
    Undecided,
}

impl Rule {
    const fn token(
        name: &'static str,
        prefixes: &'static [&'static str],
        letter: fn(u8) -> bool,
        min: usize,
        max: usize,
    ) -> Self {
        Self { name, prefixes, at_word_start: true, suffix: Suffix::Token { letter, min, max, digit: false } }
    }

    const fn of(name: &'static str, prefixes: &'static [&'static str], at_word_start: bool, suffix: Suffix) -> Self {
        Self { name, prefixes, at_word_start, suffix }
    }

    /// Returns whether a prefix may start at `at`.
    pub(super) fn may_start(&self, bytes: &[u8], before: Option<u8>, at: usize) -> bool {
        let previous = at.checked_sub(1).map_or(before, |index| bytes.get(index).copied());
        !self.at_word_start || !previous.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            // The `n` of `\n` before a key belongs to an escape.
            || previous.is_some_and(|byte| matches!(byte, b'n' | b't' | b'r'))
                && at.checked_sub(2).and_then(|index| bytes.get(index)) == Some(&b'\\')
    }

    pub(super) fn matches(&self, candidate: &Candidate<'_>) -> Match {
        if !self.may_start(candidate.bytes, candidate.before, candidate.start) {
            return Match::No;
        }
        self.suffix.matches(candidate)
    }
}

/// Maximum length of a token.
const MAX_TOKEN_BYTES: usize = 4096;

/// All rules; within a family, longer prefixes come first.
pub const ALL: &[Rule] = &[
    Rule::token("anthropic-key", &["sk-ant-"], url_letter, 24, MAX_TOKEN_BYTES),
    Rule::token("openai-key", &["sk-proj-", "sk-svcacct-", "sk-admin-", "sk-None-"], url_letter, 20, MAX_TOKEN_BYTES),
    Rule::token("openrouter-key", &["sk-or-v1-"], hex, 32, MAX_TOKEN_BYTES),
    Rule::of("api-key", &["sk-"], true, Suffix::Token { letter: alphanumeric, min: 24, max: 128, digit: true }),
    Rule::token("github-token", &["ghp_", "gho_", "ghu_", "ghs_", "ghr_"], alphanumeric, 30, 255),
    Rule::token("github-token", &["github_pat_"], name_letter, 22, 255),
    Rule::token(
        "gitlab-token",
        &["glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glft-", "glsoat-", "glagent-", "glimt-", "gloas-"],
        url_letter,
        20,
        300,
    ),
    Rule::token("aws-key-id", &["AKIA", "ASIA", "ABIA", "ACCA"], upper_or_digit, 16, 16),
    Rule::of(
        "aws-secret-key",
        &["aws_secret_access_key", "AWS_SECRET_ACCESS_KEY", "SecretAccessKey", "secretAccessKey"],
        false,
        Suffix::Assigned { letter: base64_letter, min: 40, max: 40 },
    ),
    Rule::token("google-key", &["AIza"], url_letter, 35, 35),
    Rule::token("google-token", &["ya29."], url_letter, 20, MAX_TOKEN_BYTES),
    Rule::token("google-secret", &["GOCSPX-"], url_letter, 28, 28),
    Rule::token(
        "slack-token",
        &["xoxb-", "xoxp-", "xoxa-", "xoxr-", "xoxs-", "xoxe-", "xoxe.", "xapp-"],
        patterns::dotted,
        20,
        MAX_TOKEN_BYTES,
    ),
    Rule::of("slack-webhook", &["hooks.slack.com/services/"], false, Suffix::Rest { letter: base64_letter, min: 24 }),
    Rule::token("npm-token", &["npm_"], alphanumeric, 36, 36),
    Rule::token("pypi-token", &["pypi-"], url_letter, 50, MAX_TOKEN_BYTES),
    Rule::token("stripe-key", &["sk_live_", "sk_test_", "rk_live_", "rk_test_", "whsec_"], alphanumeric, 16, 255),
    Rule::token("huggingface-token", &["hf_"], alphanumeric, 30, 64),
    Rule::token("groq-key", &["gsk_"], alphanumeric, 40, 80),
    Rule::token("xai-key", &["xai-"], alphanumeric, 60, 100),
    Rule::token("perplexity-key", &["pplx-"], alphanumeric, 40, 80),
    Rule::token("replicate-token", &["r8_"], alphanumeric, 37, 37),
    Rule::token("digitalocean-token", &["dop_v1_", "doo_v1_", "dor_v1_"], hex, 64, 64),
    Rule::token("docker-token", &["dckr_pat_"], url_letter, 20, 64),
    Rule::token("vault-token", &["hvs.", "hvb."], url_letter, 24, MAX_TOKEN_BYTES),
    Rule::token("databricks-token", &["dapi"], hex, 32, 32),
    Rule::token("linear-key", &["lin_api_"], alphanumeric, 32, 64),
    Rule::token("notion-token", &["ntn_"], alphanumeric, 40, 60),
    Rule::token("shopify-token", &["shpat_", "shpca_", "shppa_", "shpss_"], hex, 32, 32),
    Rule::token("supabase-key", &["sbp_"], hex, 40, 40),
    Rule::of("sendgrid-key", &["SG."], true, Suffix::Dotted { parts: &[16, 32] }),
    Rule::of("azure-key", &["AccountKey="], false, Suffix::Rest { letter: base64_letter, min: 40 }),
    Rule::of("jwt", &["eyJ"], true, Suffix::Dotted { parts: &[8, 8, 16] }),
    Rule::of("private-key", &["-----BEGIN "], false, Suffix::PrivateKey),
    Rule::of("url-password", &["://"], false, Suffix::UserInfo),
    Rule::of("authorization", &["uthorization", "AUTHORIZATION"], false, Suffix::Header),
    Rule::of("api-key", &["x-api-key", "X-Api-Key", "X-API-Key", "X-API-KEY"], true, Suffix::Header),
    Rule::of("authorization", &["Bearer ", "bearer "], true, Suffix::Rest { letter: patterns::token_letter, min: 24 }),
];
