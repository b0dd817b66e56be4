//! Patterns of the text after a key's prefix.

use super::{Candidate, Match};

/// Pattern after a prefix.
#[derive(Debug)]
pub(super) enum Suffix {
    /// `min..=max` letters. The prefix is part of the secret.
    Token { letter: fn(u8) -> bool, min: usize, max: usize, digit: bool },
    /// At least `min` letters. The prefix is not secret.
    Rest { letter: fn(u8) -> bool, min: usize },
    /// A separator, then a value of `min..=max` letters.
    Assigned { letter: fn(u8) -> bool, min: usize, max: usize },
    /// Dot-separated parts of minimum lengths.
    Dotted { parts: &'static [usize] },
    /// A PEM block.
    PrivateKey,
    /// `user:password@`.
    UserInfo,
    /// Value of a header.
    Header,
}

pub(super) fn alphanumeric(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

pub(super) fn name_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

pub(super) fn url_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

pub(super) fn dotted(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.')
}

pub(super) fn hex(byte: u8) -> bool {
    byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)
}

pub(super) fn upper_or_digit(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit()
}

pub(super) fn base64_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

pub(super) fn token_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'+' | b'/' | b'=')
}

/// End of a run of letters.
fn run(bytes: &[u8], from: usize, letter: fn(u8) -> bool) -> usize {
    bytes[from..].iter().position(|byte| !letter(*byte)).map_or(bytes.len(), |count| from + count)
}

impl Suffix {
    pub(super) fn matches(&self, candidate: &Candidate<'_>) -> Match {
        let Candidate { bytes, start, after, .. } = *candidate;
        match *self {
            Self::Token { letter, min, max, digit } => {
                let to = run(bytes, after, letter);
                let has_digit = || bytes[after..to].iter().any(u8::is_ascii_digit);
                letters(candidate, after, to, min, max, start).unless(digit && !has_digit())
            }
            Self::Rest { letter, min } => letters(candidate, after, run(bytes, after, letter), min, usize::MAX, after),
            Self::Assigned { letter, min, max } => match find_value(candidate, after) {
                Ok(from) => letters(candidate, from, run(bytes, from, letter), min, max, from),
                Err(matches) => matches,
            },
            Self::Dotted { parts } => dotted_parts(candidate, parts),
            Self::PrivateKey => private_key(candidate),
            Self::UserInfo => user_info(candidate),
            Self::Header => header(candidate),
        }
    }
}

impl Match {
    fn unless(self, excluded: bool) -> Self {
        if excluded && self != Self::Undecided { Self::No } else { self }
    }
}

/// Matches a run of letters.
fn letters(candidate: &Candidate<'_>, from: usize, to: usize, min: usize, max: usize, secret_from: usize) -> Match {
    let count = to - from;
    if count > max {
        return Match::No;
    }
    if to == candidate.bytes.len() && !candidate.is_final {
        return Match::Undecided;
    }
    // A fixed-length key does not continue in other letters.
    let continues = min == max && candidate.bytes.get(to).is_some_and(u8::is_ascii_alphanumeric);
    if count < min || continues { Match::No } else { Match::Yes { from: secret_from, to } }
}

/// Start of a value after `=` or `:`, quotes and spaces.
fn find_value(candidate: &Candidate<'_>, after: usize) -> Result<usize, Match> {
    /// Length of `": \"`, escaped twice.
    const MAX_SEPARATOR_BYTES: usize = 12;
    let is_separator = |byte: u8| matches!(byte, b' ' | b'\t' | b'"' | b'\'' | b'=' | b':' | b'\\' | b'>');
    let to = run(candidate.bytes, after, is_separator);
    if to - after > MAX_SEPARATOR_BYTES {
        return Err(Match::No);
    }
    if to == candidate.bytes.len() {
        return Err(if candidate.is_final { Match::No } else { Match::Undecided });
    }
    let has_separator = candidate.bytes[after..to].iter().any(|byte| matches!(byte, b'=' | b':'));
    if has_separator { Ok(to) } else { Err(Match::No) }
}

fn dotted_parts(candidate: &Candidate<'_>, parts: &[usize]) -> Match {
    let mut at = candidate.after;
    for (index, min) in parts.iter().enumerate() {
        if index > 0 {
            match candidate.bytes.get(at) {
                Some(b'.') => at += 1,
                Some(_) => return Match::No,
                None => return if candidate.is_final { Match::No } else { Match::Undecided },
            }
        }
        let to = run(candidate.bytes, at, url_letter);
        if to == candidate.bytes.len() && !candidate.is_final {
            return Match::Undecided;
        }
        if to - at < *min {
            return Match::No;
        }
        at = to;
    }
    Match::Yes { from: candidate.start, to: at }
}

/// From the BEGIN line to the END line, or to the end of the body.
fn private_key(candidate: &Candidate<'_>) -> Match {
    const MAX_LABEL_BYTES: usize = 64;
    const END: &[u8] = b"-----END ";
    let undecided = if candidate.is_final { Match::No } else { Match::Undecided };
    let rest = &candidate.bytes[candidate.after..];
    let label = &rest[..rest.len().min(MAX_LABEL_BYTES)];
    let Some(length) = memchr::memmem::find(label, b"-----") else {
        let may_be = label.iter().all(|byte| byte.is_ascii_uppercase() || matches!(byte, b' ' | b'-'));
        return if may_be && label.len() < MAX_LABEL_BYTES { undecided } else { Match::No };
    };
    if memchr::memmem::find(&label[..length], b"PRIVATE KEY").is_none() {
        return Match::No;
    }
    let body = candidate.after + length + 5;
    let is_body =
        |byte: u8| token_letter(byte) || byte.is_ascii_whitespace() || matches!(byte, b'\\' | b':' | b',' | b'"' | b'|');
    if let Some(end) = memchr::memmem::find(&candidate.bytes[body..], END) {
        let line = body + end + END.len();
        return match memchr::memmem::find(&candidate.bytes[line..], b"-----") {
            Some(length) if length < MAX_LABEL_BYTES => Match::Yes { from: candidate.start, to: line + length + 5 },
            None if !candidate.is_final && candidate.bytes.len() - line < MAX_LABEL_BYTES => Match::Undecided,
            _ => Match::Yes { from: candidate.start, to: line },
        };
    }
    let to = run(candidate.bytes, body, is_body);
    if to == candidate.bytes.len() && !candidate.is_final { Match::Undecided } else { Match::Yes { from: candidate.start, to } }
}

fn user_info(candidate: &Candidate<'_>) -> Match {
    const MAX_USER_INFO_BYTES: usize = 256;
    let is_part =
        |byte: u8| byte > b' ' && !matches!(byte, b'/' | b'@' | b'"' | b'\'' | b'<' | b'>' | b'\\' | b'`' | b'?' | b'#');
    let to = run(candidate.bytes, candidate.after, is_part);
    if to - candidate.after > MAX_USER_INFO_BYTES {
        return Match::No;
    }
    match candidate.bytes.get(to) {
        None if !candidate.is_final => Match::Undecided,
        Some(b'@') => {
            let part = &candidate.bytes[candidate.after..to];
            let Some(colon) = memchr::memchr(b':', part) else { return Match::No };
            let from = candidate.after + colon + 1;
            // Placeholders are not passwords: `${PASSWORD}`, `***`.
            let is_placeholder = matches!(candidate.bytes.get(from), None | Some(b'$' | b'{' | b'*' | b'['));
            if from == to || is_placeholder { Match::No } else { Match::Yes { from, to } }
        }
        _ => Match::No,
    }
}

/// `Authorization: Bearer TOKEN`, with or without a scheme.
fn header(candidate: &Candidate<'_>) -> Match {
    const SCHEMES: &[&[u8]] = &[b"bearer", b"basic", b"token", b"apikey", b"api-key", b"digest", b"negotiate"];
    let from = match find_value(candidate, candidate.after) {
        Ok(from) => from,
        Err(matches) => return matches,
    };
    let undecided = if candidate.is_final { Match::No } else { Match::Undecided };
    let word = run(candidate.bytes, from, token_letter);
    if word == candidate.bytes.len() && !candidate.is_final {
        return Match::Undecided;
    }
    let has_scheme = SCHEMES.iter().any(|scheme| candidate.bytes[from..word].eq_ignore_ascii_case(scheme));
    let (from, min) = if has_scheme && candidate.bytes.get(word).is_some_and(|byte| *byte == b' ') {
        (run(candidate.bytes, word, |byte| byte == b' '), 8)
    } else {
        (from, 16)
    };
    if from == candidate.bytes.len() {
        return undecided;
    }
    let to = run(candidate.bytes, from, token_letter);
    let value = &candidate.bytes[from..to];
    // Prose and constant names are not tokens.
    let is_word = value.iter().all(|byte| byte.is_ascii_lowercase() || matches!(byte, b'-' | b'_' | b'.'));
    let is_name = value.iter().all(|byte| byte.is_ascii_uppercase() || matches!(byte, b'_' | b'.' | b'-'));
    letters(candidate, from, to, min, usize::MAX, from).unless(is_word || is_name)
}
