//! Server-sent events: the data of each, in order.

use std::io::{BufRead, ErrorKind};

use crate::trouble::{Broken, Trouble};

/// An event longer than this is not one.
const LONGEST: usize = 64 * 1024 * 1024;

/// Hands over the data of every event. `[DONE]` ends the stream like its end does.
pub(crate) fn read(mut from: impl BufRead, mut event: impl FnMut(&str) -> Result<(), Broken>) -> Result<(), Broken> {
    let mut line = Vec::new();
    let mut data = String::new();
    loop {
        line.clear();
        let read = match from.read_until(b'\n', &mut line) {
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(Trouble::network(format!("the stream was cut: {error}")).into()),
        };
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end_matches(['\n', '\r']);
        if let Some(more) = text.strip_prefix("data:") {
            if !data.is_empty() {
                data.push('\n');
            }
            data.push_str(more.strip_prefix(' ').unwrap_or(more));
        }
        if data.len() > LONGEST {
            return Err(Trouble::fatal(sabir_core::event::Cause::Unknown, "an event of the stream has no end").into());
        }
        // A blank line ends an event, and so does the end of the stream.
        if (text.is_empty() || read == 0) && !data.is_empty() {
            if data.trim() == "[DONE]" {
                return Ok(());
            }
            event(&data)?;
            data.clear();
        }
        if read == 0 {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn data_is_joined_and_the_rest_is_passed_over() {
        let stream =
            ": hello\r\nevent: x\r\ndata: {\"a\":\r\ndata: 1}\r\n\r\ndata:two\n\nid: 7\n\ndata: [DONE]\n\ndata: late\n\n";
        let mut events = Vec::new();
        read(stream.as_bytes(), |data| {
            events.push(data.to_owned());
            Ok(())
        })
        .expect("read");
        assert_eq!(events, ["{\"a\":\n1}", "two"]);
    }

    #[test]
    fn the_last_event_counts_without_a_blank_line() {
        let mut events = Vec::new();
        read("data: one".as_bytes(), |data| {
            events.push(data.to_owned());
            Ok(())
        })
        .expect("read");
        assert_eq!(events, ["one"]);
    }
}
