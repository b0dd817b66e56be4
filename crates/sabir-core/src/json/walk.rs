//! A few fields out of millions of lines.
//!
//! Reading a log in short, most of a line is stepped over, and what is wanted is a handful of names and numbers. A
//! [`Walk`] goes over the bytes of a line once, from key to key; it makes no values of its own and does not ask whether
//! texts that nobody wants are UTF-8.
//!
//! ```text
//! {"type":"x","usage":{"input":5}}
//! └ enter ┘ key, text └ key, enter, key, number
//! ```
//!
//! Of what is stepped over only the quotes have to be right, and the brackets to add up. A value of another kind than is asked for
//! counts as absent. Of a key given twice the last one counts, for whoever reads it overwrites what it has.

use std::borrow::Cow;

use super::{Str, scan};
use crate::line::text_of;
use crate::time::Timestamp;

/// A place in a JSON text.
#[derive(Debug, Clone, Copy)]
pub struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// The text is not JSON, or is only the beginning of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotJson;

impl<'a> Walk<'a> {
    /// The beginning of a text.
    pub fn over(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The next byte that is not white space; 0 at the end.
    #[inline]
    fn peek(&mut self) -> u8 {
        match self.bytes.get(self.at) {
            Some(byte) if *byte > b' ' => *byte,
            _ => self.peek_beyond_space(),
        }
    }

    #[cold]
    fn peek_beyond_space(&mut self) -> u8 {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.bytes.get(self.at) {
            self.at += 1;
        }
        self.bytes.get(self.at).copied().unwrap_or(0)
    }

    /// Steps into the object that comes next. False when it is something else, which is stepped over.
    #[inline]
    pub fn enter(&mut self) -> Result<bool, NotJson> {
        self.enter_at(b'{')
    }

    #[inline]
    fn enter_at(&mut self, bracket: u8) -> Result<bool, NotJson> {
        if self.peek() == bracket {
            self.at += 1;
            return Ok(true);
        }
        self.skip().map(|()| false)
    }

    /// The next key of the object, its value being next; `None` behind the end of the object. The value has to be read
    /// or [stepped over](Self::skip).
    #[allow(clippy::inline_always, reason = "there are dozens on every line, and a call costs as much as a short key")]
    #[inline(always)]
    pub fn key(&mut self) -> Result<Option<&'a [u8]>, NotJson> {
        // Nearly all lines are written without white space.
        let comma = usize::from(self.bytes.get(self.at) == Some(&b','));
        let start = self.at + comma;
        if self.bytes.get(start) == Some(&b'"')
            && let Some(end) = scan::end(self.bytes, start)
            && self.bytes.get(end) == Some(&b':')
        {
            self.at = end + 1;
            return Ok(Some(&self.bytes[start + 1..end - 1]));
        }
        self.spaced_key()
    }

    /// The same of a key with white space around it, of none, and of what is no key.
    #[inline(never)]
    fn spaced_key(&mut self) -> Result<Option<&'a [u8]>, NotJson> {
        if !self.more(b'}')? {
            return Ok(None);
        }
        let start = self.at;
        if self.peek() != b'"' {
            return Err(NotJson);
        }
        self.at = scan::end(self.bytes, start).ok_or(NotJson)?;
        let key = &self.bytes[start + 1..self.at - 1];
        if self.peek() != b':' {
            return Err(NotJson);
        }
        self.at += 1;
        Ok(Some(key))
    }

    /// Whether something comes before that bracket, which is stepped over when nothing does.
    #[inline]
    fn more(&mut self, close: u8) -> Result<bool, NotJson> {
        match self.peek() {
            byte if byte == close => {
                self.at += 1;
                Ok(false)
            }
            b',' => {
                self.at += 1;
                match self.peek() {
                    b',' | b'}' | b']' | 0 => Err(NotJson),
                    _ => Ok(true),
                }
            }
            b'}' | b']' | 0 => Err(NotJson),
            _ => Ok(true),
        }
    }

    /// Reads the object that comes next, key by key. Something else is stepped over. Who is given a key has to read its
    /// value or to [step over it](Self::skip).
    #[inline]
    pub fn fields(&mut self, mut read: impl FnMut(&mut Self, &'a [u8]) -> Result<(), NotJson>) -> Result<(), NotJson> {
        if self.enter()? {
            while let Some(key) = self.key()? {
                read(self, key)?;
            }
        }
        Ok(())
    }

    /// Reads the list that comes next, item by item. Something else is stepped over.
    #[inline]
    pub fn items(&mut self, mut read: impl FnMut(&mut Self) -> Result<(), NotJson>) -> Result<(), NotJson> {
        if self.enter_at(b'[')? {
            while self.more(b']')? {
                read(self)?;
            }
        }
        Ok(())
    }

    /// The next value as it is written between its quotes, if it is a text: for words that are only compared.
    #[inline]
    pub fn word(&mut self) -> Result<Option<&'a [u8]>, NotJson> {
        if self.peek() != b'"' {
            return self.skip().map(|()| None);
        }
        let start = self.at;
        self.at = scan::end(self.bytes, start).ok_or(NotJson)?;
        Ok(Some(&self.bytes[start + 1..self.at - 1]))
    }

    /// The next value, if it is a text.
    #[inline]
    pub fn text(&mut self) -> Result<Option<Str<'a>>, NotJson> {
        self.word()?.map(text).transpose()
    }

    /// The next value, if it is a moment: in milliseconds since 1970.
    #[inline]
    pub fn time(&mut self) -> Result<Option<i64>, NotJson> {
        Ok(self.word()?.and_then(|written| Timestamp::millis_of(written).or_else(|| escaped_time(written))))
    }

    /// The next text, of a long one only how it begins: so many bytes of what is written, or a few more.
    pub fn text_up_to(&mut self, enough: usize) -> Result<Option<Str<'a>>, NotJson> {
        let Some(inside) = self.word()? else { return Ok(None) };
        let mut end = 0;
        // Not inside an escape, and not inside a character.
        while let Some(escape) = inside.get(end..enough).and_then(|rest| memchr::memchr(b'\\', rest)) {
            end += escape + if inside.get(end + escape + 1) == Some(&b'u') { 6 } else { 2 };
        }
        end = end.max(enough);
        while inside.get(end).is_some_and(|byte| byte & 0xC0 == 0x80) {
            end += 1;
        }
        text(inside.get(..end).unwrap_or(inside)).map(Some)
    }

    /// The next value, if it is a whole number that is not negative.
    #[inline]
    pub fn number(&mut self) -> Result<Option<u64>, NotJson> {
        self.peek();
        let start = self.at;
        let mut number: u64 = 0;
        while let Some(digit @ b'0'..=b'9') = self.bytes.get(self.at) {
            number = number.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
            self.at += 1;
        }
        // More digits might not fit, and another sign makes it another number.
        if matches!(self.at - start, 1..=19) && matches!(self.peek(), b',' | b'}' | b']' | 0) {
            return Ok(Some(number));
        }
        self.at = start;
        self.parse()
    }

    /// The next value, if it is a whole number, of a size that moments have.
    #[inline]
    pub fn integer(&mut self) -> Result<Option<i64>, NotJson> {
        if self.peek() == b'-' {
            return self.parse();
        }
        Ok(self.number()?.and_then(|number| i64::try_from(number).ok()))
    }

    /// The value behind a key of the object that comes next, if there is one of that kind.
    pub fn parse_in<T: std::str::FromStr>(&mut self, wanted: &[u8]) -> Result<Option<T>, NotJson> {
        self.value_in(wanted, Self::parse)
    }

    /// The same of a whole number that is not negative.
    #[inline]
    pub fn number_in(&mut self, wanted: &[u8]) -> Result<Option<u64>, NotJson> {
        self.value_in(wanted, Self::number)
    }

    #[inline]
    fn value_in<T>(
        &mut self,
        wanted: &[u8],
        read: impl Fn(&mut Self) -> Result<Option<T>, NotJson>,
    ) -> Result<Option<T>, NotJson> {
        let mut value = None;
        self.fields(|walk, key| {
            if key == wanted {
                value = read(walk)?;
                return Ok(());
            }
            walk.skip()
        })?;
        Ok(value)
    }

    /// Whether the next value is `true`.
    #[inline]
    pub fn is_true(&mut self) -> Result<bool, NotJson> {
        self.value().map(|value| value == b"true")
    }

    /// Whether an object comes next.
    #[inline]
    pub fn is_at_object(&mut self) -> bool {
        self.peek() == b'{'
    }

    /// Whether a text comes next.
    #[inline]
    pub fn is_at_text(&mut self) -> bool {
        self.peek() == b'"'
    }

    /// The next value, if it is of that kind.
    pub fn parse<T: std::str::FromStr>(&mut self) -> Result<Option<T>, NotJson> {
        let json = self.value()?;
        Ok(std::str::from_utf8(json).ok().and_then(|json| json.parse().ok()))
    }

    /// The next value as it is written.
    #[inline]
    pub fn value(&mut self) -> Result<&'a [u8], NotJson> {
        self.peek();
        let start = self.at;
        self.skip()?;
        Ok(&self.bytes[start..self.at])
    }

    /// Steps over the next value. How deep it is nested does not matter.
    #[inline]
    pub fn skip(&mut self) -> Result<(), NotJson> {
        match self.peek() {
            b'"' => self.at = scan::end(self.bytes, self.at).ok_or(NotJson)?,
            b'{' | b'[' => self.skip_nested()?,
            _ => {
                let start = self.at;
                while let Some(b'a'..=b'z' | b'0'..=b'9' | b'-' | b'+' | b'.' | b'E') = self.bytes.get(self.at) {
                    self.at += 1;
                }
                if self.at == start {
                    return Err(NotJson);
                }
            }
        }
        Ok(())
    }

    #[inline(never)]
    fn skip_nested(&mut self) -> Result<(), NotJson> {
        let mut depth = 0_usize;
        loop {
            match self.bytes.get(self.at).ok_or(NotJson)? {
                b'"' => {
                    self.at = scan::end(self.bytes, self.at).ok_or(NotJson)?;
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Ok(());
            }
        }
    }

    /// All that comes.
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    /// Whether nothing comes any more.
    pub fn end(&mut self) -> Result<(), NotJson> {
        if self.peek() == 0 && self.at == self.bytes.len() { Ok(()) } else { Err(NotJson) }
    }
}

/// The text of what is written between the quotes of a JSON string.
#[inline]
pub fn text(inside: &[u8]) -> Result<Str<'_>, NotJson> {
    match std::str::from_utf8(inside) {
        Ok(text) if memchr::memchr(b'\\', inside).is_none() => Ok(Str(Cow::Borrowed(text))),
        _ => unescaped(inside),
    }
}

/// The same where it has escapes or bytes that are no text.
#[cold]
fn unescaped(inside: &[u8]) -> Result<Str<'static>, NotJson> {
    let inside = text_of(inside);
    let is_plain = inside.bytes().all(|byte| byte >= b' ');
    if let Some(text) = scan::unescaped_inside(&inside).filter(|_| is_plain) {
        return Ok(Str(Cow::Owned(text)));
    }
    let json = format!("\"{inside}\"");
    let text: String = serde_json::from_str(&super::without_lone_surrogates(&json)).map_err(|_| NotJson)?;
    Ok(Str(Cow::Owned(text)))
}

/// A moment some of whose characters are escaped, which nobody does.
#[cold]
fn escaped_time(written: &[u8]) -> Option<i64> {
    let text = text(written).ok().filter(|text| text.len() < written.len())?;
    Timestamp::millis_of(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::{NotJson, Walk};

    const LINE: &str = r#" {"a" : "x\n\"é\"" ,"n":12,"list":[1,-2.5,"t",{"deep":[[{}]]},[]],"o":{"n":7,"n":8},"none":null} "#;

    #[derive(Debug, PartialEq, Default)]
    struct Read {
        a: Option<String>,
        n: Option<u64>,
        inner: Option<u64>,
        items: usize,
        none: Option<String>,
    }

    fn read(line: &[u8]) -> Result<Read, NotJson> {
        let mut walk = Walk::over(line);
        let mut read = Read::default();
        walk.fields(|walk, key| {
            match key {
                b"a" => read.a = walk.text()?.map(|text| text.to_string()),
                b"n" => read.n = walk.number()?,
                b"o" => read.inner = walk.parse_in(b"n")?,
                b"list" => walk.items(|walk| {
                    read.items += 1;
                    walk.skip()
                })?,
                b"none" => read.none = walk.text()?.map(|text| text.to_string()),
                _ => walk.skip()?,
            }
            Ok(())
        })?;
        walk.end().map(|()| read)
    }

    #[test]
    fn a_line_is_walked() {
        let read = read(LINE.as_bytes()).expect("JSON");
        let wanted = Read { a: Some("x\n\"é\"".to_owned()), n: Some(12), inner: Some(8), items: 5, none: None };
        assert_eq!(read, wanted);
    }

    #[test]
    fn the_beginning_of_a_line_is_not_one() {
        let line = LINE.trim().as_bytes();
        for end in 1..line.len() {
            assert_eq!(read(&line[..end]), Err(NotJson), "{}", String::from_utf8_lossy(&line[..end]));
        }
        for wrong in ["{}}", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{,}", "{\"list\":[1,]}", "{\"list\":[1}}", "{} x"] {
            assert_eq!(read(wrong.as_bytes()), Err(NotJson), "{wrong}");
        }
    }

    #[test]
    fn numbers_that_are_none_here_count_as_absent() {
        let number = |json: &str| Walk::over(json.as_bytes()).number().expect("JSON");
        assert_eq!(number("18446744073709551615"), Some(u64::MAX));
        for json in ["-1", "1.5", "1e3", "null", "\"1\"", "{\"n\":1}", "18446744073709551616", "true"] {
            assert_eq!(number(json), None, "{json}");
        }
        assert_eq!(Walk::over(b"0.25").parse::<f64>(), Ok(Some(0.25)));
        let integers = ["-7", "7", "-7.5", "9223372036854775807", "9223372036854775808", "null"];
        let read = integers.map(|json| Walk::over(json.as_bytes()).integer().expect("JSON"));
        assert_eq!(read, [Some(-7), Some(7), None, Some(i64::MAX), None, None]);
    }

    #[test]
    fn moments_are_read_however_they_are_written() {
        let time = |json: &str| Walk::over(json.as_bytes()).time().expect("JSON");
        for json in [r#""1970-01-01T00:00:01.500Z""#, r#""1970-01-01T01:00:01.5+01:00""#, r#""1970-01-01\u005400:00:01.500Z""#] {
            assert_eq!(time(json), Some(1_500), "{json}");
        }
        for json in [r#""yesterday""#, r#""\n""#, "1500", "null"] {
            assert_eq!(time(json), None, "{json}");
        }
    }

    #[test]
    fn what_is_not_utf8_costs_only_the_text_it_is_in() {
        let read = read(b"{\"a\":\"x\xff\\n\",\"b\":\"\xff\\\"\",\"n\":3}").expect("JSON");
        assert_eq!((read.a.as_deref(), read.n), (Some("x\u{fffd}\n"), Some(3)));
    }

    #[test]
    fn how_a_text_begins_is_a_text() {
        let json = r#""aé\n\"\u00e9\ud83d\ude00\\z日""#;
        let whole: String = serde_json::from_str(json).expect("JSON");
        for enough in 0..json.len() + 3 {
            let head = Walk::over(json.as_bytes()).text_up_to(enough).expect("JSON").expect("a text");
            // Half of a pair is not a character.
            let head = head.trim_end_matches('\u{fffd}');
            assert!(whole.starts_with(head), "{enough}: {head}");
            assert!(head.len() >= enough.min(2), "{enough}: {head}");
            assert!(enough < json.len() || head == whole);
        }
        assert_eq!(Walk::over(b"7").text_up_to(1).expect("JSON").as_deref(), None);
    }

    #[test]
    fn depth_does_not_matter() {
        let line = format!("{{\"x\":{}1{},\"n\":3}}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(read(line.as_bytes()).map(|read| read.n), Ok(Some(3)));
    }
}
