//! Encoded forms of known secrets.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use super::unescape;

/// Shorter literals would match everywhere.
const MIN_FORM_BYTES: usize = 6;

/// Forms to find in verbatim text: the value; in a JSON string, once and twice; percent-encoded; and the base64 of any text
/// that contains it, once and twice.
pub(super) fn encoded_forms(value: &str) -> Vec<Vec<u8>> {
    let mut forms = vec![value.as_bytes().to_vec()];
    let escaped = escape(value);
    forms.push(escape(&escaped).into_bytes());
    forms.push(escaped.into_bytes());
    // Some encoders escape every slash.
    forms.push(value.replace('/', "\\/").into_bytes());
    for (upper, space) in [(true, "%20"), (false, "%20"), (true, "+")] {
        forms.push(percent_encode(value, upper, space));
    }
    let once = base64(value.as_bytes());
    forms.extend(once.iter().flat_map(|once| base64(once)));
    forms.extend(once);
    forms.retain(|form| form.len() >= MIN_FORM_BYTES);
    forms
}

/// Forms to find in unescaped text.
pub(super) fn unescaped_forms(value: &str) -> Vec<Vec<u8>> {
    // HTML forms encode a space as a plus sign.
    let mut forms = vec![unescape::canonical(value.as_bytes()), unescape::canonical(value.replace(' ', "+").as_bytes())];
    let once = base64(value.as_bytes());
    forms.extend(once.iter().flat_map(|once| base64(once)));
    forms.extend(once);
    forms.retain(|form| form.len() >= MIN_FORM_BYTES);
    forms
}

/// Base64 letters common to every text that contains the value, at each of the three offsets.
fn base64(value: &[u8]) -> Vec<Vec<u8>> {
    let mut forms = Vec::new();
    for offset in 0..3 {
        let padded = [&[0; 2][..offset], value].concat();
        // Letters that mix in neighbouring bytes are excluded.
        let (from, to) = ((offset * 8).div_ceil(6), padded.len() * 8 / 6);
        for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
            let text = engine.encode(&padded);
            forms.extend(text.get(from..to).map(|text| text.as_bytes().to_vec()));
        }
    }
    forms.dedup();
    forms
}

fn escape(text: &str) -> String {
    let quoted = serde_json::to_string(text).unwrap_or_default();
    quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text).to_owned()
}

fn percent_encode(value: &str, upper: bool, space: &str) -> Vec<u8> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
    let each = |byte: u8| match byte {
        b' ' => space.to_owned(),
        byte if plain(byte) => char::from(byte).to_string(),
        byte if upper => format!("%{byte:02X}"),
        byte => format!("%{byte:02x}"),
    };
    value.bytes().map(each).collect::<String>().into_bytes()
}
