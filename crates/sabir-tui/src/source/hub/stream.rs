//! Server-sent events, as a hub tells them.

use std::io::{self, BufRead as _, BufReader, ErrorKind, Read as _};

/// A line of a stream that is longer than this is none.
const LONGEST: u64 = 64 << 20;

/// One event of a stream. A comment is one without data.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Told {
    pub(super) kind: String,
    pub(super) id: Option<u64>,
    pub(super) data: String,
    /// Another one is at hand already.
    pub(super) more: bool,
}

/// Hands out the events of a stream. True when the stream ended, false when the taker had enough.
pub(super) fn events<R: io::Read>(mut from: BufReader<R>, take: &mut dyn FnMut(&Told) -> bool) -> io::Result<bool> {
    let mut line = Vec::new();
    let mut told = Told::default();
    loop {
        line.clear();
        match (&mut from).take(LONGEST).read_until(b'\n', &mut line) {
            Ok(0) => return Ok(true),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            read => read?,
        };
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end_matches(['\n', '\r']);
        let (name, value) = text.split_once(':').unwrap_or((text, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "event" => value.clone_into(&mut told.kind),
            "id" => told.id = value.parse().ok(),
            "data" => {
                if !told.data.is_empty() {
                    told.data.push('\n');
                }
                told.data.push_str(value);
            }
            "" if text.is_empty() => {
                told.more = from.buffer().contains(&b'\n');
                let kind = if told.data.is_empty() { "comment".to_owned() } else { std::mem::take(&mut told.kind) };
                if !take(&Told { kind, ..std::mem::take(&mut told) }) {
                    return Ok(false);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::{Told, events};

    #[test]
    fn events_have_a_kind_an_id_and_data() {
        let stream = ":\n\nevent: live\ndata: {\"last\":7}\n\nid: 7\ndata: [\ndata: ]\n\n";
        let mut seen = Vec::new();
        let ended = events(BufReader::new(stream.as_bytes()), &mut |told: &Told| {
            seen.push((told.kind.clone(), told.id, told.data.clone(), told.more));
            true
        });
        assert!(ended.expect("read"));
        let expected = [
            ("comment".to_owned(), None, String::new(), true),
            ("live".to_owned(), None, "{\"last\":7}".to_owned(), true),
            (String::new(), Some(7), "[\n]".to_owned(), false),
        ];
        assert_eq!(seen, expected);
        assert!(!events(BufReader::new(stream.as_bytes()), &mut |_| false).expect("read"));
    }
}
