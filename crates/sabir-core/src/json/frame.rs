//! JSON values that are printed over several lines, joined to one line each.
//!
//! ```text
//! [                       ──►  (nothing: the list is taken apart)
//!   {                     ──►  …
//!     "type": "system"    ──►  …
//!   },                    ──►  {"type":"system"}
//!   { "type": "result" }  ──►  {"type":"result"}
//! ]                       ──►  (nothing)
//! ```
//!
//! White space between tokens is dropped, so that a joined value looks like one that was printed on one line. Of a list of
//! objects one element is in memory at a time. Lines are checked against the grammar: prose that begins with a brace, or with
//! `[DEBUG]`, is not taken for JSON.

use serde::de::IgnoredAny;

/// Joins the values of a stream of lines.
#[derive(Debug)]
pub struct Frame {
    cap: usize,
    state: State,
    /// The open value is a list, which is taken apart.
    in_list: bool,
    /// An element of the list was complete, so it is surely a list.
    committed: bool,
    /// The value so far, without white space.
    text: String,
    /// How many bytes of the value were dropped.
    cut: u64,
    /// The line on which the value begins …
    first_line: u64,
    /// … and the last one that is of it.
    last_line: u64,
}

/// What a line is to the values that are printed over several lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// It is not part of one; a value that is complete on this line is not.
    Outside,
    /// It is part of one.
    Inside,
    /// The open value cannot go on like this, so the lines so far are not JSON. The frame is empty again, and has not taken
    /// this line.
    Broken,
}

/// A joined value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Framed<'a> {
    /// Its text without white space between tokens.
    pub text: &'a str,
    /// The line on which it ends.
    pub line: u64,
    /// Whether its end has come.
    pub complete: bool,
    /// How many of its bytes were dropped because it is longer than the cap.
    pub cut: u64,
}

impl Default for Frame {
    fn default() -> Self {
        Self::new(Self::DEFAULT_CAP)
    }
}

impl Frame {
    /// Values of up to 64 MiB are kept.
    pub const DEFAULT_CAP: usize = 64 * 1024 * 1024;

    /// A frame that keeps up to `cap` bytes of a value.
    pub fn new(cap: usize) -> Self {
        let state = State { depth: 0, lists: 0, expect: Expect::Start };
        Self { cap, state, in_list: false, committed: false, text: String::new(), cut: 0, first_line: 0, last_line: 0 }
    }

    /// Whether lines wait for the rest of a value that may still turn out not to be JSON.
    pub fn is_open(&self) -> bool {
        self.state.depth > 0 && !self.committed
    }

    /// Whether no object or list is open.
    pub fn is_empty(&self) -> bool {
        self.state.depth == 0
    }

    /// Takes the next line and hands out the values that it completes.
    pub fn line(&mut self, number: u64, line: &str, take: &mut dyn FnMut(Framed<'_>)) -> Fit {
        let opens = self.state.depth == 0;
        if opens && !line.trim_ascii_start().starts_with(['{', '[']) {
            return Fit::Outside;
        }
        let (state, length, cut) = (self.state, self.text.len(), self.cut);
        let mut completed = false;
        match self.tokens(number, line, &mut completed, take) {
            Ok(()) if self.state.expect != Expect::End => Fit::Inside,
            Ok(()) => {
                self.reset();
                // An object that is whole on one line needs no joining.
                if completed { Fit::Inside } else { Fit::Outside }
            }
            // The line breaks off behind a value that is whole.
            Err(rest) if completed => {
                let text = rest.trim_start_matches([',', ' ', '\t']);
                if !text.is_empty() {
                    take(Framed { text, line: number, complete: false, cut: 0 });
                }
                if self.state.depth > 0 {
                    self.text.clear();
                    self.cut = 0;
                    self.state = State { depth: 1, lists: 1, expect: Expect::CommaOrEnd };
                } else {
                    self.reset();
                }
                Fit::Inside
            }
            Err(_) if self.committed => {
                (self.state, self.cut) = (state, cut);
                self.text.truncate(length);
                Fit::Outside
            }
            Err(_) => {
                self.reset();
                if opens { Fit::Outside } else { Fit::Broken }
            }
        }
    }

    /// The stream is over: hands out the beginning of a value whose end did not come.
    pub fn finish(&mut self, take: &mut dyn FnMut(Framed<'_>)) {
        if !self.text.is_empty() {
            take(Framed { text: &self.text, line: self.last_line, complete: false, cut: self.cut });
        }
        self.reset();
    }

    fn reset(&mut self) {
        *self = Self::new(self.cap);
    }

    /// Takes the tokens of a line. Where they do not fit, the error is what follows the last value that is whole.
    fn tokens<'l>(
        &mut self,
        number: u64,
        line: &'l str,
        completed: &mut bool,
        take: &mut dyn FnMut(Framed<'_>),
    ) -> Result<(), &'l str> {
        let (mut at, mut whole) = (0, 0);
        while let Some(&byte) = line.as_bytes().get(at) {
            if byte.is_ascii_whitespace() {
                at += 1;
                continue;
            }
            let before = self.state;
            let next = before.after(byte).zip(token_end(line, at));
            // A list of anything but objects is no stream of messages.
            let fits = !self.in_list || self.committed || before.depth != 1 || byte == b'{';
            let Some((state, end)) = next.filter(|_| fits) else { return Err(&line[whole..]) };
            if before.expect == Expect::Start {
                self.in_list = byte == b'[';
            }
            // Of a list that is taken apart, brackets and commas are no part of a value.
            let of_list = before.depth == 0 || state.depth == 0 || before.depth == 1 && byte == b',';
            if !(self.in_list && of_list) {
                self.keep(number, &line[at..end]);
            }
            (self.state, at) = (state, end);
            let ends_element = self.in_list && state.depth == 1 && state.expect == Expect::CommaOrEnd;
            let ends_object = !self.in_list && state.expect == Expect::End && number != self.first_line;
            if ends_element || ends_object {
                take(Framed { text: &self.text, line: number, complete: true, cut: self.cut });
                self.text.clear();
                self.cut = 0;
                self.committed |= ends_element;
                *completed = true;
                whole = at;
            } else if state.expect == Expect::End && self.in_list {
                *completed = true;
                whole = at;
            }
        }
        Ok(())
    }

    fn keep(&mut self, number: u64, token: &str) {
        if self.text.is_empty() {
            self.first_line = number;
        }
        self.last_line = number;
        if self.cut == 0 && self.text.len() + token.len() <= self.cap {
            self.text.push_str(token);
        } else {
            self.cut += token.len() as u64;
        }
    }
}

/// The position in the grammar between two tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
struct State {
    /// How many objects and lists are open.
    depth: u32,
    /// Which of them are lists: a bit each, the innermost is the last one.
    lists: u128,
    expect: Expect,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Expect {
    Start,
    Value,
    ValueOrEnd,
    Key,
    KeyOrEnd,
    Colon,
    CommaOrEnd,
    End,
}

impl State {
    /// The position behind a token that begins with that byte; `None` where it may not stand.
    fn after(self, byte: u8) -> Option<Self> {
        use Expect::{Colon, CommaOrEnd, End, Key, KeyOrEnd, Start, Value, ValueOrEnd};
        let is_list = self.lists & 1 == 1;
        match (self.expect, byte) {
            (Start | Value | ValueOrEnd, b'{') => self.open(0, KeyOrEnd),
            (Start | Value | ValueOrEnd, b'[') => self.open(1, ValueOrEnd),
            (ValueOrEnd, b']') | (KeyOrEnd, b'}') => Some(self.close()),
            (CommaOrEnd, b']') if is_list => Some(self.close()),
            (CommaOrEnd, b'}') if !is_list => Some(self.close()),
            (CommaOrEnd, b',') => Some(Self { expect: if is_list { Value } else { Key }, ..self }),
            (Colon, b':') => Some(Self { expect: Value, ..self }),
            (Key | KeyOrEnd, b'"') => Some(Self { expect: Colon, ..self }),
            (Start | Key | KeyOrEnd | Colon | CommaOrEnd | End, _) | (Value | ValueOrEnd, b'}' | b']' | b',' | b':') => None,
            (Value | ValueOrEnd, _) => Some(Self { expect: CommaOrEnd, ..self }),
        }
    }

    fn open(self, list: u128, expect: Expect) -> Option<Self> {
        // As deep as `serde_json` reads.
        (self.depth < u128::BITS - 1).then(|| Self { depth: self.depth + 1, lists: self.lists << 1 | list, expect })
    }

    fn close(self) -> Self {
        let expect = if self.depth == 1 { Expect::End } else { Expect::CommaOrEnd };
        Self { depth: self.depth - 1, lists: self.lists >> 1, expect }
    }
}

/// The end of the token that begins there. No token goes on in the next line.
fn token_end(line: &str, start: usize) -> Option<usize> {
    let bytes = line.as_bytes();
    match bytes[start] {
        b'{' | b'}' | b'[' | b']' | b',' | b':' => Some(start + 1),
        b'"' => {
            let mut at = start + 1;
            loop {
                at += memchr::memchr2(b'"', b'\\', bytes.get(at..)?)?;
                if bytes[at] == b'"' {
                    return Some(at + 1);
                }
                at += 2;
            }
        }
        _ => {
            let is_inside = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
            let end = start + bytes[start..].iter().take_while(|byte| is_inside(byte)).count();
            serde_json::from_str::<IgnoredAny>(&line[start..end]).is_ok().then_some(end)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Fit, Frame};

    /// The values that come out, and the lines that are outside of any (`-`) or make the open value no JSON (`!`).
    fn framed(text: &str, cap: usize) -> Vec<String> {
        let mut frame = Frame::new(cap);
        let mut out = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let fit = frame.line(index as u64 + 1, line, &mut |value| {
                let end = if value.complete { "" } else { "…" };
                out.push(format!("{} {}{end}{}", value.line, value.text, if value.cut > 0 { " cut" } else { "" }));
            });
            match fit {
                Fit::Outside => out.push(format!("- {line}")),
                Fit::Broken => out.push(format!("! {line}")),
                Fit::Inside => {}
            }
        }
        frame.finish(&mut |value| out.push(format!("{} {}…", value.line, value.text)));
        out
    }

    #[test]
    fn joins_objects_and_takes_lists_apart() {
        let text = "{\n  \"a\" : { \"b\": [ 1, -2.5e3, true ] },\n\n\t\"c\": \"x } \\\" ]\"\n}\n";
        assert_eq!(framed(text, 1000), [r#"5 {"a":{"b":[1,-2.5e3,true]},"c":"x } \" ]"}"#]);
        assert_eq!(
            framed("[\n  {\n    \"a\": []\n  },\n  {\"b\": 2}, {\"c\":\n3}\n]\n{\"d\":4}", 1000),
            [r#"4 {"a":[]}"#, r#"5 {"b":2}"#, r#"6 {"c":3}"#, r#"- {"d":4}"#]
        );
        assert_eq!(framed(r#"[{"a":1}, {"b":[{}]} ,7]"#, 1000), [r#"1 {"a":1}"#, r#"1 {"b":[{}]}"#, "1 7"]);
        assert_eq!(framed("{\n}\n{\n}", 1000), ["2 {}", "4 {}"]);
    }

    #[test]
    fn leaves_other_lines_alone() {
        for line in [
            "[DEBUG] a",
            "[1/5] Building",
            "[]",
            "[1, 2]",
            "{ a",
            "{}",
            r#"{"a":1}"#,
            r#"{"a":1} b"#,
            "text",
            " ",
            "[2026-11-19] x",
        ] {
            assert_eq!(framed(line, 1000), [format!("- {line}")], "{line}");
        }
    }

    #[test]
    fn gives_up_a_value_that_cannot_go_on() {
        assert_eq!(framed("{\n  int x;\n}", 1000), ["!   int x;", "- }"]);
        assert_eq!(framed("[\n{\n]", 1000), ["! ]"]);
        assert_eq!(framed("{\n\"a\": \"cut", 1000), ["! \"a\": \"cut"]);
        assert_eq!(framed("{\n\"a\":", 1000), ["2 {\"a\":…"]);
        let deep = "[{\"a\":".repeat(100);
        assert_eq!(framed(&deep, 1000), [format!("- {deep}")]);
    }

    #[test]
    fn passes_noise_in_a_list_and_hands_out_what_was_cut_off() {
        assert_eq!(
            framed("[\n{\"a\":1},\n[WARN] x\n{\n[WARN] y\n\"b\":2}\n]", 1000),
            [r#"2 {"a":1}"#, "- [WARN] x", "- [WARN] y", r#"6 {"b":2}"#]
        );
        assert_eq!(framed("[{\"a\":1}] x\n,2", 1000), [r#"1 {"a":1}"#, "1 x…", "- ,2"]);
        assert_eq!(framed(r#"[{"a":1},{"b":"cu"#, 1000), [r#"1 {"a":1}"#, r#"1 {"b":"cu…"#]);
        assert_eq!(framed("[{\"a\":1},\n{\"b\":", 1000), [r#"1 {"a":1}"#, r#"2 {"b":…"#]);
    }

    #[test]
    fn a_value_beyond_the_cap_is_cut_and_the_next_one_is_whole() {
        let text = format!("[{{\"a\":\n\"{}\"}},\n{{\"b\":1}}]", "x".repeat(100));
        assert_eq!(framed(&text, 20), [r#"2 {"a": cut"#, r#"3 {"b":1}"#]);
    }
}
