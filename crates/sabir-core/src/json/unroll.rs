//! A file that is one JSON object with a long list in it, as lines.
//!
//! ```text
//! { "sessionId": "s",          ──►  {"sessionId":"s"}
//!   "messages": [ { … },       ──►  { … }
//!                 { … } ],     ──►  { … }
//!   "more": 1 }                ──►  {"more":1}
//! ```
//!
//! Some logs are written so, over many lines, and grow with the session; what is in memory is one item of the list. White
//! space between values is left out, so that a line looks as one that was written as a line. Nothing is checked: what is
//! no JSON comes out as something that is none.

use crate::line::RawLine;

/// Makes lines of an object that comes in chunks.
#[derive(Debug)]
pub struct Unroll {
    /// The key of the list that is taken apart, with its quotes and the colon.
    list: Option<Vec<u8>>,
    cap: usize,
    line: Vec<u8>,
    cut: u64,
    number: u64,
    /// How many objects and lists are open.
    depth: usize,
    place: Place,
    is_in_list: bool,
}

/// What the next byte is a part of.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    Plain,
    String,
    /// Behind a backslash.
    Escape,
}

/// The object itself, and the list in it.
const OBJECT: usize = 1;
const LIST: usize = 2;

impl Unroll {
    /// Takes apart the list of that name; without one, all is one line. Of a line that is longer than the cap the beginning is
    /// given out.
    pub fn new(list: Option<&str>, cap: usize) -> Self {
        let list = list.map(|name| format!("\"{name}\":").into_bytes());
        let (line, place) = (Vec::new(), Place::Plain);
        Self { list, cap, line, cut: 0, number: 0, depth: 0, place, is_in_list: false }
    }

    /// Takes the next bytes and hands out the lines that are whole.
    pub fn feed(&mut self, bytes: &[u8], take: &mut dyn FnMut(RawLine<'_>)) {
        let mut rest = bytes;
        while let [byte, others @ ..] = rest {
            rest = match self.place {
                Place::Plain => {
                    self.plain(*byte, take);
                    others
                }
                Place::String => {
                    let end = memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
                    let (text, rest) = rest.split_at(end);
                    self.keep(text);
                    rest.split_first().map_or(rest, |(byte, others)| {
                        self.place = if *byte == b'"' { Place::Plain } else { Place::Escape };
                        self.keep(&[*byte]);
                        others
                    })
                }
                Place::Escape => {
                    self.place = Place::String;
                    self.keep(&[*byte]);
                    others
                }
            };
        }
    }

    /// Hands out what has no end.
    pub fn finish(&mut self, take: &mut dyn FnMut(RawLine<'_>)) {
        if !(self.depth == OBJECT && self.is_blank() || self.line.is_empty()) {
            self.give(false, take);
        }
    }

    fn plain(&mut self, byte: u8, take: &mut dyn FnMut(RawLine<'_>)) {
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' => {}
            b'{' | b'[' => {
                self.depth += 1;
                let before = self.list.as_ref().and_then(|list| self.line.strip_suffix(list.as_slice())).map(<[u8]>::len);
                match before.filter(|_| byte == b'[' && self.depth == LIST) {
                    Some(before) => {
                        self.is_in_list = true;
                        self.line.truncate(before);
                        self.end_object(take);
                    }
                    None => self.keep(&[byte]),
                }
            }
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                if self.is_in_list && self.depth < LIST {
                    // A last item that is no object ends with the list.
                    if !self.line.is_empty() {
                        self.give(true, take);
                    }
                    self.is_in_list = false;
                    self.line.push(b'{');
                } else if self.depth == 0 && self.line.first() == Some(&b'{') {
                    self.end_object(take);
                } else {
                    self.keep(&[byte]);
                    if self.depth == 0 || self.is_in_list && self.depth == LIST {
                        self.give(true, take);
                    }
                }
            }
            b',' if self.is_in_list && self.depth == LIST => {
                if !self.line.is_empty() {
                    self.give(true, take);
                }
            }
            // Behind the list.
            b',' if self.depth == OBJECT && self.is_blank() => {}
            b'"' => {
                self.place = Place::String;
                self.keep(b"\"");
            }
            other => self.keep(&[other]),
        }
    }

    /// Whether nothing of the object has come that was not given out.
    fn is_blank(&self) -> bool {
        self.line == b"{"
    }

    /// Gives out what the object holds beside the list, if it is anything.
    fn end_object(&mut self, take: &mut dyn FnMut(RawLine<'_>)) {
        if self.line.last() == Some(&b',') {
            self.line.pop();
        }
        if self.is_blank() || self.line.is_empty() {
            return self.line.clear();
        }
        self.line.push(b'}');
        self.give(true, take);
    }

    fn keep(&mut self, bytes: &[u8]) {
        let kept = bytes.len().min(self.cap.saturating_sub(self.line.len()));
        self.line.extend_from_slice(&bytes[..kept]);
        self.cut += (bytes.len() - kept) as u64;
    }

    fn give(&mut self, terminated: bool, take: &mut dyn FnMut(RawLine<'_>)) {
        self.number += 1;
        take(RawLine { number: self.number, bytes: &self.line, terminated, cr: false, cut: self.cut });
        self.line.clear();
        self.cut = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::Unroll;

    fn unrolled(json: &str, chunk: usize) -> Vec<String> {
        let mut unroll = Unroll::new(Some("messages"), 1000);
        let mut lines = Vec::new();
        let mut take = |line: crate::line::RawLine<'_>| {
            lines.push(String::from_utf8_lossy(line.bytes).into_owned());
            assert_eq!(line.number, lines.len() as u64);
        };
        json.as_bytes().chunks(chunk).for_each(|bytes| unroll.feed(bytes, &mut take));
        unroll.finish(&mut take);
        lines
    }

    #[test]
    fn a_list_is_taken_apart_however_the_bytes_come() {
        let json = r#"
            { "sessionId": "a \"messages\":[{ b", "directories": [ "x y" ],
              "messages": [ { "id": 1, "messages": [ { "a": 2 } ] }, {"b": "\\" } , 7, "é , ]" ],
              "summary": "s" }
        "#;
        let expected = [
            r#"{"sessionId":"a \"messages\":[{ b","directories":["x y"]}"#,
            r#"{"id":1,"messages":[{"a":2}]}"#,
            r#"{"b":"\\"}"#,
            "7",
            "\"é , ]\"",
            r#"{"summary":"s"}"#,
        ];
        for chunk in [1, 2, 3, 7, 1000] {
            assert_eq!(unrolled(json, chunk), expected);
        }
    }

    #[test]
    fn what_is_nothing_is_no_line() {
        for json in ["", " \n", "{}", r#"{"messages":[]}"#, r#"{ "messages": [ ] , }"#] {
            assert!(unrolled(json, 100).is_empty(), "{json}");
        }
    }

    #[test]
    fn what_is_broken_comes_as_far_as_it_goes() {
        assert_eq!(unrolled(r#"{"a":1,"messages":[{"b":2},{"c":"#, 100), [r#"{"a":1}"#, r#"{"b":2}"#, r#"{"c":"#]);
        assert_eq!(unrolled("[1, 2]", 100), ["[1,2]"]);
        assert_eq!(unrolled("no JSON", 100), ["noJSON"]);
        assert_eq!(unrolled("]]}}{", 100), ["]", "]", "}", "}"]);
        assert_eq!(unrolled(r#"{"messages":[{"a":1}}]"#, 100), [r#"{"a":1}"#]);
    }

    #[test]
    fn a_long_item_is_cut_and_the_next_one_is_whole() {
        let mut unroll = Unroll::new(Some("messages"), 20);
        let mut lines = Vec::new();
        let json = format!(r#"{{"messages":[{{"a":"{}"}},{{"b":1}}]}}"#, "x".repeat(100));
        unroll.feed(json.as_bytes(), &mut |line| lines.push((line.bytes.len(), line.cut)));
        assert_eq!(lines, [(20, 88), (7, 0)]);
    }
}
