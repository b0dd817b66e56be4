//! Recall and false positives of redaction, on a generated corpus.
//!
//! `cargo nextest run redaction --no-capture` prints the numbers in docs/redaction.md for this corpus and the repository's
//! files.

use std::collections::BTreeMap;

use sabir_shell::Redactor;

/// Deterministic pseudo-random numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % end as u64).expect("small")
    }

    fn letters(&mut self, alphabet: &str, count: usize) -> String {
        (0..count).map(|_| char::from(alphabet.as_bytes()[self.below(alphabet.len())])).collect()
    }
}

const ALNUM: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const URL: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const B64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const HEX: &str = "0123456789abcdef";
const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// One key of each kind: name, text with the key, and the part that must be redacted.
fn keys(n: &mut Numbers) -> Vec<(&'static str, String, String)> {
    let mut keys = Vec::new();
    let mut plain = |name, key: String| keys.push((name, key.clone(), key));
    plain("anthropic", format!("sk-ant-api03-{}AA", n.letters(URL, 93)));
    plain("openai", format!("sk-proj-{}", n.letters(URL, 120)));
    plain("openai, old", format!("sk-{}T3BlbkFJ{}", n.letters(ALNUM, 20), n.letters(ALNUM, 20)));
    plain("deepseek", format!("sk-{}", n.letters(HEX, 32)));
    plain("openrouter", format!("sk-or-v1-{}", n.letters(HEX, 64)));
    plain("github", format!("ghp_{}", n.letters(ALNUM, 36)));
    plain("github app", format!("ghs_{}", n.letters(ALNUM, 36)));
    plain("github, fine", format!("github_pat_{}_{}", n.letters(ALNUM, 22), n.letters(ALNUM, 59)));
    plain("gitlab", format!("glpat-{}", n.letters(URL, 20)));
    plain("aws id", format!("AKIA{}", n.letters(UPPER, 16)));
    plain("google", format!("AIza{}", n.letters(URL, 35)));
    plain("google oauth", format!("ya29.{}", n.letters(URL, 100)));
    plain("slack", format!("xoxb-{}-{}-{}", n.letters("0123456789", 12), n.letters("0123456789", 12), n.letters(ALNUM, 24)));
    plain("npm", format!("npm_{}", n.letters(ALNUM, 36)));
    plain("pypi", format!("pypi-AgEIcHlwaS5vcmc{}", n.letters(URL, 100)));
    plain("stripe", format!("sk_live_{}", n.letters(ALNUM, 24)));
    plain("hugging face", format!("hf_{}", n.letters(ALNUM, 34)));
    plain("groq", format!("gsk_{}", n.letters(ALNUM, 52)));
    plain("xai", format!("xai-{}", n.letters(ALNUM, 80)));
    plain("digitalocean", format!("dop_v1_{}", n.letters(HEX, 64)));
    plain("docker", format!("dckr_pat_{}", n.letters(URL, 27)));
    plain("vault", format!("hvs.{}", n.letters(URL, 90)));
    plain("databricks", format!("dapi{}", n.letters(HEX, 32)));
    plain("sendgrid", format!("SG.{}.{}", n.letters(URL, 22), n.letters(URL, 43)));
    plain("jwt", format!("eyJ{}.eyJ{}.{}", n.letters(URL, 33), n.letters(URL, 80), n.letters(URL, 43)));
    let lines: Vec<String> = (0..6).map(|_| n.letters(B64, 64)).collect();
    plain("private key", format!("-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----", lines.join("\n")));
    let lines: Vec<String> = (0..4).map(|_| n.letters(B64, 70)).collect();
    plain("ssh key", format!("-----BEGIN OPENSSH PRIVATE KEY-----\n{}\n-----END OPENSSH PRIVATE KEY-----", lines.join("\n")));
    let secret = n.letters(B64, 40);
    keys.push(("aws secret", format!("aws_secret_access_key = {secret}"), secret));
    let secret = n.letters(ALNUM, 16);
    keys.push(("password in an address", format!("postgres://app:{secret}@db.internal:5432/app"), secret));
    let secret = n.letters(URL, 40);
    keys.push(("bearer", format!("Authorization: Bearer {secret}"), secret));
    let secret = n.letters(B64, 32);
    keys.push(("basic", format!("authorization: Basic {secret}"), secret));
    let secret = n.letters(ALNUM, 32);
    keys.push(("x-api-key", format!("x-api-key: {secret}"), secret));
    keys
}

/// Contexts in which a key occurs.
fn surroundings(key: &str) -> Vec<String> {
    let json = serde_json::to_string(&serde_json::json!({ "command": format!("run {key} now") })).expect("JSON");
    let twice = serde_json::to_string(&serde_json::json!({ "output": json })).expect("JSON");
    vec![
        key.to_owned(),
        format!("The key is {key}."),
        format!("export KEY='{key}'\n"),
        format!("a,b\n{key}\nc"),
        format!("({key})"),
        json,
        twice,
    ]
}

fn recall() -> BTreeMap<&'static str, (u32, u32)> {
    let redactor = Redactor::new([]).expect("a redactor");
    let mut n = Numbers(20_261_116);
    let mut found: BTreeMap<&'static str, (u32, u32)> = BTreeMap::new();
    for _ in 0..200 {
        for (name, key, secret) in keys(&mut n) {
            // JSON escapes line feeds, so check a single line of the block.
            let longest_line = secret.lines().max_by_key(|line| line.len()).expect("a line").to_owned();
            for text in surroundings(&key) {
                let redacted = redactor.text(&text);
                let entry = found.entry(name).or_default();
                entry.0 += u32::from(!redacted.contains(&longest_line));
                entry.1 += 1;
            }
        }
    }
    found
}

/// Texts that look like secrets but are not.
fn innocent(n: &mut Numbers) -> Vec<(&'static str, String)> {
    let uuid = format!(
        "{}-{}-4{}-a{}-{}",
        n.letters(HEX, 8),
        n.letters(HEX, 4),
        n.letters(HEX, 3),
        n.letters(HEX, 3),
        n.letters(HEX, 12)
    );
    vec![
        ("uuid", uuid.clone()),
        ("sha-1", format!("commit {}", n.letters(HEX, 40))),
        ("sha-256", format!("sha256:{}", n.letters(HEX, 64))),
        ("npm integrity", format!("\"integrity\": \"sha512-{}==\"", n.letters(B64, 86))),
        ("cargo checksum", format!("checksum = \"{}\"", n.letters(HEX, 64))),
        ("picture", format!("data:image/png;base64,iVBORw0KGgo{}", n.letters(B64, 2_000))),
        ("id of a message", format!("msg_{}", n.letters(ALNUM, 24))),
        ("id of a call", format!("toolu_{}", n.letters(ALNUM, 24))),
        ("id of a request", format!("req_{}", n.letters(ALNUM, 24))),
        ("class names", format!("<div class=\"sk-spinner sk-circle-{}\">", n.below(99))),
        ("words", format!("the task-force asked risk-management, disk-{} and desk-top", n.below(99))),
        ("address", format!("http://localhost:{}/path?x=1&y=2 and user@example.com", 1_000 + n.below(60_000))),
        ("address with a port", format!("redis://cache:{}/0, git@github.com:a/b.git", 1_000 + n.below(9_000))),
        ("address of a package", format!("https://registry.example.org/@scope/name/-/name-{}.tgz", n.below(99))),
        ("header in prose", "Set Authorization: Bearer <token>, or Authorization: Bearer YOUR_TOKEN_HERE.".to_owned()),
        ("header in code", "headers[\"Authorization\"] = `Bearer ${token}`; x-api-key: process.env.KEY".to_owned()),
        ("public key", format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----", n.letters(B64, 200))),
        ("certificate", format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----", n.letters(B64, 300))),
        ("arn", format!("arn:aws:iam::{}:role/AKIAROLE", n.letters("0123456789", 12))),
        ("snake", format!("npm_config_cache npm_package_version_{} hf_hub_download gsk_value", n.below(99))),
        ("name of a model", "claude-opus-4-5-20251101 gpt-5-codex sk-learn scikit-learn==1.5".to_owned()),
        ("file", format!("/home/dev/.cargo/registry/src/index-{}/serde-1.0.0/src/lib.rs", n.letters(HEX, 16))),
    ]
}

#[test]
#[allow(clippy::print_stdout)]
fn redacts_keys_of_each_kind() {
    let found = recall();
    let (hits, all) = found.values().fold((0, 0), |sum, (hits, all)| (sum.0 + hits, sum.1 + all));
    for (name, (hits, all)) in &found {
        println!("{name:<24} {hits:>5} of {all}");
        assert!(f64::from(*hits) >= 0.99 * f64::from(*all), "{name}: {hits} of {all}");
    }
    println!("recall: {hits} of {all}, {:.2} %", 100.0 * f64::from(hits) / f64::from(all));
}

#[test]
#[allow(clippy::print_stdout)]
fn keeps_texts_similar_to_keys() {
    let redactor = Redactor::new([]).expect("a redactor");
    let mut n = Numbers(7);
    let (mut wrong, mut count) = (Vec::new(), 0);
    for _ in 0..500 {
        for (name, text) in innocent(&mut n) {
            count += 1;
            if redactor.text(&text) != text {
                wrong.push((name, redactor.text(&text).into_owned()));
            }
        }
    }
    println!("false positives: {} of {count} texts that look like keys", wrong.len());
    assert!(wrong.len() * 1_000 <= count, "{:?}", &wrong[..wrong.len().min(5)]);
}
