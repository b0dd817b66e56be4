//! What must follow the first letters of a key.

use super::{Look, Verdict};

/// A form behind its first letters.
#[derive(Debug)]
pub(super) enum Shape {
    /// So many letters, and then none. The first letters belong to the secret.
    Token { letter: fn(u8) -> bool, least: usize, most: usize, digit: bool },
    /// So many letters at least; the first letters are no secret.
    Rest { letter: fn(u8) -> bool, least: usize },
    /// A sign between a name and a value, then the value.
    Assigned { letter: fn(u8) -> bool, least: usize, most: usize },
    /// Parts of letters with dots between them, each of so many at least.
    Dotted { parts: &'static [usize] },
    /// A block with a line before and a line behind it.
    PrivateKey,
    /// `user:password@`.
    UserInfo,
    /// A header's value.
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

/// Where a run of letters ends.
fn run(bytes: &[u8], from: usize, letter: fn(u8) -> bool) -> usize {
    bytes[from..].iter().position(|byte| !letter(*byte)).map_or(bytes.len(), |count| from + count)
}

impl Shape {
    pub(super) fn verdict(&self, look: &Look<'_>) -> Verdict {
        let Look { bytes, start, after, .. } = *look;
        match *self {
            Self::Token { letter, least, most, digit } => {
                let to = run(bytes, after, letter);
                let has_digit = || bytes[after..to].iter().any(u8::is_ascii_digit);
                letters(look, after, to, least, most, start).unless(digit && !has_digit())
            }
            Self::Rest { letter, least } => letters(look, after, run(bytes, after, letter), least, usize::MAX, after),
            Self::Assigned { letter, least, most } => match sign(look, after) {
                Ok(from) => letters(look, from, run(bytes, from, letter), least, most, from),
                Err(verdict) => verdict,
            },
            Self::Dotted { parts } => parts_with_dots(look, parts),
            Self::PrivateKey => private_key(look),
            Self::UserInfo => user_info(look),
            Self::Header => header(look),
        }
    }
}

impl Verdict {
    fn unless(self, not: bool) -> Self {
        if not && self != Self::Open { Self::No } else { self }
    }
}

/// The verdict on a run of letters.
fn letters(look: &Look<'_>, from: usize, to: usize, least: usize, most: usize, secret_from: usize) -> Verdict {
    let count = to - from;
    if count > most {
        return Verdict::No;
    }
    if to == look.bytes.len() && !look.whole {
        return Verdict::Open;
    }
    // A form of a fixed length that goes on in other letters is something else.
    let goes_on = least == most && look.bytes.get(to).is_some_and(u8::is_ascii_alphanumeric);
    if count < least || goes_on { Verdict::No } else { Verdict::Yes { from: secret_from, to } }
}

/// Where a value begins behind `=` or `:`, quotes and spaces.
fn sign(look: &Look<'_>, after: usize) -> Result<usize, Verdict> {
    /// As much as `": \"` takes, escaped twice.
    const MOST: usize = 12;
    let is_sign = |byte: u8| matches!(byte, b' ' | b'\t' | b'"' | b'\'' | b'=' | b':' | b'\\' | b'>');
    let to = run(look.bytes, after, is_sign);
    if to - after > MOST {
        return Err(Verdict::No);
    }
    if to == look.bytes.len() {
        return Err(if look.whole { Verdict::No } else { Verdict::Open });
    }
    let has_sign = look.bytes[after..to].iter().any(|byte| matches!(byte, b'=' | b':'));
    if has_sign { Ok(to) } else { Err(Verdict::No) }
}

fn parts_with_dots(look: &Look<'_>, parts: &[usize]) -> Verdict {
    let mut at = look.after;
    for (index, least) in parts.iter().enumerate() {
        if index > 0 {
            match look.bytes.get(at) {
                Some(b'.') => at += 1,
                Some(_) => return Verdict::No,
                None => return if look.whole { Verdict::No } else { Verdict::Open },
            }
        }
        let to = run(look.bytes, at, url_letter);
        if to == look.bytes.len() && !look.whole {
            return Verdict::Open;
        }
        if to - at < *least {
            return Verdict::No;
        }
        at = to;
    }
    Verdict::Yes { from: look.start, to: at }
}

/// From the line that begins it to the line that ends it, or as far as it goes.
fn private_key(look: &Look<'_>) -> Verdict {
    const LABEL: usize = 64;
    const END: &[u8] = b"-----END ";
    let open = if look.whole { Verdict::No } else { Verdict::Open };
    let rest = &look.bytes[look.after..];
    let label = &rest[..rest.len().min(LABEL)];
    let Some(length) = memchr::memmem::find(label, b"-----") else {
        let may_be = label.iter().all(|byte| byte.is_ascii_uppercase() || matches!(byte, b' ' | b'-'));
        return if may_be && label.len() < LABEL { open } else { Verdict::No };
    };
    if memchr::memmem::find(&label[..length], b"PRIVATE KEY").is_none() {
        return Verdict::No;
    }
    let body = look.after + length + 5;
    let is_body =
        |byte: u8| token_letter(byte) || byte.is_ascii_whitespace() || matches!(byte, b'\\' | b':' | b',' | b'"' | b'|');
    if let Some(end) = memchr::memmem::find(&look.bytes[body..], END) {
        let line = body + end + END.len();
        return match memchr::memmem::find(&look.bytes[line..], b"-----") {
            Some(length) if length < LABEL => Verdict::Yes { from: look.start, to: line + length + 5 },
            None if !look.whole && look.bytes.len() - line < LABEL => Verdict::Open,
            _ => Verdict::Yes { from: look.start, to: line },
        };
    }
    let to = run(look.bytes, body, is_body);
    if to == look.bytes.len() && !look.whole { Verdict::Open } else { Verdict::Yes { from: look.start, to } }
}

fn user_info(look: &Look<'_>) -> Verdict {
    const LONGEST: usize = 256;
    let is_part =
        |byte: u8| byte > b' ' && !matches!(byte, b'/' | b'@' | b'"' | b'\'' | b'<' | b'>' | b'\\' | b'`' | b'?' | b'#');
    let to = run(look.bytes, look.after, is_part);
    if to - look.after > LONGEST {
        return Verdict::No;
    }
    match look.bytes.get(to) {
        None if !look.whole => Verdict::Open,
        Some(b'@') => {
            let part = &look.bytes[look.after..to];
            let Some(colon) = memchr::memchr(b':', part) else { return Verdict::No };
            let from = look.after + colon + 1;
            // A place for a password is none: `${PASSWORD}`, `***`.
            let is_placeholder = matches!(look.bytes.get(from), None | Some(b'$' | b'{' | b'*' | b'['));
            if from == to || is_placeholder { Verdict::No } else { Verdict::Yes { from, to } }
        }
        _ => Verdict::No,
    }
}

/// `Authorization: Bearer TOKEN`, with or without a scheme.
fn header(look: &Look<'_>) -> Verdict {
    const SCHEMES: &[&[u8]] = &[b"bearer", b"basic", b"token", b"apikey", b"api-key", b"digest", b"negotiate"];
    let from = match sign(look, look.after) {
        Ok(from) => from,
        Err(verdict) => return verdict,
    };
    let open = if look.whole { Verdict::No } else { Verdict::Open };
    let word = run(look.bytes, from, token_letter);
    if word == look.bytes.len() && !look.whole {
        return Verdict::Open;
    }
    let has_scheme = SCHEMES.iter().any(|scheme| look.bytes[from..word].eq_ignore_ascii_case(scheme));
    let (from, least) = if has_scheme && look.bytes.get(word).is_some_and(|byte| *byte == b' ') {
        (run(look.bytes, word, |byte| byte == b' '), 8)
    } else {
        (from, 16)
    };
    if from == look.bytes.len() {
        return open;
    }
    let to = run(look.bytes, from, token_letter);
    let value = &look.bytes[from..to];
    // A word is a description, and no token.
    let is_word = value.iter().all(|byte| byte.is_ascii_lowercase() || matches!(byte, b'-' | b'_' | b'.'));
    let is_name = value.iter().all(|byte| byte.is_ascii_uppercase() || matches!(byte, b'_' | b'.' | b'-'));
    letters(look, from, to, least, usize::MAX, from).unless(is_word || is_name)
}
