//! Bytes to lines.
//!
//! Agents print one message per line, and a line ends at LF and nowhere else: U+2028 is text, a lone CR is text, and
//! a CR right before the LF is dropped. The last line counts even when no LF ends it.
//!
//! ```text
//! read()──► space() ──filled(n)──► [ … line LF line LF half a li ] ──next_line()──► RawLine
//!                                                       └ stays for the next chunk; finish() gives it out at the end
//! ```
//!
//! A line longer than the cap is given out as its first `cap` bytes with [`RawLine::cut`] set to the number of bytes
//! that were dropped; the stream goes on with the line after it.

use std::borrow::Cow;

use crate::time::Timestamp;

/// Which pipe of the agent a line came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Source {
    /// The dialect's own lines.
    #[default]
    Stdout,
    /// Warnings and progress for people.
    Stderr,
}

/// One line of an agent's output, as text, ready for a dialect.
#[derive(Debug, Clone, PartialEq)]
pub struct Line<'a> {
    /// 1-based number of the line in its stream.
    pub number: u64,
    /// The text without its line end. Bytes that are not UTF-8 are replaced by U+FFFD.
    pub text: Cow<'a, str>,
    /// When the line was read; `None` for a file that is parsed later.
    pub at: Option<Timestamp>,
    /// The pipe it came from.
    pub source: Source,
    /// Whether an LF ended it. The last line of a stream that was cut off has none.
    pub terminated: bool,
}

impl<'a> Line<'a> {
    /// A terminated standard-output line with no read time: what tests and examples need.
    pub fn of(number: u64, text: impl Into<Cow<'a, str>>) -> Self {
        Self { number, text: text.into(), at: None, source: Source::Stdout, terminated: true }
    }

    /// The text for as long as the bytes that it lies in; `None` when it had to be copied.
    pub fn borrowed(&self) -> Option<&'a str> {
        match self.text {
            Cow::Borrowed(text) => Some(text),
            Cow::Owned(_) => None,
        }
    }

    /// The same line with a text of its own.
    pub fn into_owned(self) -> Line<'static> {
        let Self { number, text, at, source, terminated } = self;
        Line { number, text: Cow::Owned(text.into_owned()), at, source, terminated }
    }
}

/// One line as it lies in the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawLine<'a> {
    /// 1-based number of the line.
    pub number: u64,
    /// The bytes without LF (and without the CR before it).
    pub bytes: &'a [u8],
    /// Whether an LF ended it.
    pub terminated: bool,
    /// Whether a CR stood before the LF; it is not among the bytes.
    pub cr: bool,
    /// How many bytes beyond the cap were dropped.
    pub cut: u64,
}

impl<'a> RawLine<'a> {
    /// The line as text: borrowed when it is UTF-8, else with U+FFFD for what is not.
    pub fn text(&self) -> Cow<'a, str> {
        text_of(self.bytes)
    }

    /// The line as a dialect reads it.
    pub fn to_line(&self, at: Option<Timestamp>, source: Source) -> Line<'a> {
        Line { number: self.number, text: self.text(), at, source, terminated: self.terminated }
    }
}

/// Bytes as text: borrowed when they are UTF-8, else with U+FFFD for what is not.
pub fn text_of(bytes: &[u8]) -> Cow<'_, str> {
    // Almost every line is UTF-8, and finding that out alone is much faster than replacing what is not.
    utf8(bytes).map_or_else(|| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

/// Bytes as text, if they are UTF-8. Long lines are looked at many bytes at a time.
pub fn utf8(bytes: &[u8]) -> Option<&str> {
    simdutf8::basic::from_utf8(bytes).ok()
}

/// Splits a byte stream into lines without copying what is already in its buffer.
#[derive(Debug)]
pub struct LineBuffer {
    buffer: Vec<u8>,
    /// Where the next line starts.
    start: usize,
    /// Up to where no LF was found yet.
    scanned: usize,
    /// Up to where the buffer holds bytes of the stream.
    end: usize,
    number: u64,
    cap: usize,
    /// Bytes dropped from the line that is too long, while its LF has not come.
    dropped: Option<u64>,
}

impl Default for LineBuffer {
    fn default() -> Self {
        Self::new(Self::DEFAULT_CAP)
    }
}

impl LineBuffer {
    /// Lines of up to 1 GiB are whole.
    pub const DEFAULT_CAP: usize = 1 << 30;
    /// How much room [`LineBuffer::space`] offers at least.
    pub const CHUNK: usize = 256 * 1024;

    /// A buffer that gives out lines of at most `cap` bytes whole.
    pub fn new(cap: usize) -> Self {
        Self { buffer: Vec::new(), start: 0, scanned: 0, end: 0, number: 0, cap: cap.max(1), dropped: None }
    }

    /// Room to read the next bytes into; tell how many came with [`LineBuffer::filled`].
    pub fn space(&mut self) -> &mut [u8] {
        // All whole lines have been given out, so what is held, and moves here, is at most one unfinished line.
        let held = self.end - self.start;
        if self.buffer.len() > RETAIN && held < Self::CHUNK {
            // One huge line does not keep its memory for the rest of the run.
            self.move_to(0);
            self.buffer.truncate(Self::CHUNK);
            self.buffer.shrink_to_fit();
        }
        if self.buffer.len() < held + Self::CHUNK + ALIGNMENT {
            self.move_to(0);
            // Growing by doubling keeps the copying of a long line linear.
            let size = (held + Self::CHUNK).max(held.saturating_mul(2).min(self.cap.saturating_add(Self::CHUNK)));
            self.buffer.resize(size + ALIGNMENT, 0);
        }
        let address = self.buffer.as_ptr().addr();
        if self.start >= ALIGNMENT || held < Self::CHUNK && SLOW.contains(&((address + self.end) % PAGE)) {
            self.move_to((address + held).wrapping_neg() % ALIGNMENT);
        }
        &mut self.buffer[self.end..]
    }

    /// Moves what is held to that place in the buffer.
    fn move_to(&mut self, place: usize) {
        self.buffer.copy_within(self.start..self.end, place);
        self.scanned = self.scanned - self.start + place;
        self.end = self.end - self.start + place;
        self.start = place;
    }

    /// Says that the first `count` bytes of the space now hold the stream's next bytes.
    pub fn filled(&mut self, count: usize) {
        self.end = (self.end + count).min(self.buffer.len());
    }

    /// How many bytes came after the last line end: those of a line that is not whole yet.
    pub fn pending(&self) -> u64 {
        (self.end - self.start) as u64 + self.dropped.unwrap_or(0)
    }

    /// Forgets what it holds and begins with another stream, in the same memory.
    pub fn restart(&mut self) {
        (self.start, self.scanned, self.end, self.number, self.dropped) = (0, 0, 0, 0, None);
    }

    /// The last `count` bytes that came; ask before the next line is taken.
    pub fn latest(&self, count: usize) -> &[u8] {
        &self.buffer[self.end.saturating_sub(count)..self.end]
    }

    /// Appends bytes that are already in memory.
    pub fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let space = self.space();
            let count = space.len().min(bytes.len());
            space[..count].copy_from_slice(&bytes[..count]);
            self.filled(count);
            bytes = &bytes[count..];
        }
    }

    /// The next whole line, or `None` until more bytes come.
    pub fn next_line(&mut self) -> Option<RawLine<'_>> {
        if let Some(dropped) = self.dropped {
            // The head of a line that was too long waits at `start`; look for its end.
            match memchr::memchr(b'\n', &self.buffer[self.scanned..self.end]) {
                Some(offset) => {
                    let line_end = self.scanned + offset;
                    let head = self.start..self.start + self.cap;
                    self.dropped = None;
                    self.start = line_end + 1;
                    self.scanned = self.start;
                    self.number += 1;
                    return Some(RawLine {
                        number: self.number,
                        bytes: &self.buffer[head],
                        terminated: true,
                        cr: false,
                        cut: dropped + offset as u64,
                    });
                }
                None => {
                    self.dropped = Some(dropped + (self.end - self.scanned) as u64);
                    self.end = self.scanned;
                    return None;
                }
            }
        }
        match memchr::memchr(b'\n', &self.buffer[self.scanned..self.end]) {
            Some(offset) => {
                let line_end = self.scanned + offset;
                let range = self.start..line_end;
                self.start = line_end + 1;
                self.scanned = self.start;
                self.number += 1;
                let (bytes, cr, cut) = capped(&self.buffer[range], self.cap);
                Some(RawLine { number: self.number, bytes, terminated: true, cr, cut })
            }
            None => {
                self.scanned = self.end;
                if self.end - self.start > self.cap {
                    self.dropped = Some((self.end - self.start - self.cap) as u64);
                    self.end = self.start + self.cap;
                    self.scanned = self.end;
                }
                None
            }
        }
    }

    /// The bytes after the last LF, once the stream has ended; call after [`LineBuffer::next_line`] gave `None`.
    pub fn finish(&mut self) -> Option<RawLine<'_>> {
        if self.start == self.end {
            return None;
        }
        let cut = self.dropped.take().unwrap_or(0);
        let range = self.start..self.end;
        self.start = self.end;
        self.scanned = self.end;
        self.number += 1;
        Some(RawLine { number: self.number, bytes: &self.buffer[range], terminated: false, cr: false, cut })
    }
}

/// Where bytes are read to, where that can be chosen: see [`SLOW`].
const ALIGNMENT: usize = 64;
const PAGE: usize = 4096;
/// Some processors copy whole pages four times slower to addresses that are a little beyond the beginning of a page, and
/// that is where large pieces of memory begin.
const SLOW: std::ops::Range<usize> = 1..32;

/// A buffer that a long line blew up beyond this is given back.
const RETAIN: usize = 4 * 1024 * 1024;

/// The line's bytes without the CR at their end, and whether there was one.
fn without_cr(bytes: &[u8]) -> (&[u8], bool) {
    bytes.strip_suffix(b"\r").map_or((bytes, false), |bytes| (bytes, true))
}

/// The line's bytes, whether a CR was at their end, and how many were cut. The CR of a line that is cut is among those.
fn capped(bytes: &[u8], cap: usize) -> (&[u8], bool, u64) {
    if bytes.len() > cap {
        return (&bytes[..cap], false, (bytes.len() - cap) as u64);
    }
    let (bytes, cr) = without_cr(bytes);
    (bytes, cr, 0)
}

/// All lines of a stream that is in memory.
pub fn split(bytes: &[u8]) -> impl Iterator<Item = RawLine<'_>> {
    let mut rest = bytes;
    let mut number = 0;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        number += 1;
        let ((line, cr), terminated) = match memchr::memchr(b'\n', rest) {
            Some(end) => {
                let line = without_cr(&rest[..end]);
                rest = &rest[end + 1..];
                (line, true)
            }
            None => ((std::mem::take(&mut rest), false), false),
        };
        Some(RawLine { number, bytes: line, terminated, cr, cut: 0 })
    })
}

#[cfg(test)]
mod tests {
    use super::{LineBuffer, split};

    fn lines(cap: usize, chunks: &[&[u8]]) -> Vec<(String, bool, u64)> {
        let mut buffer = LineBuffer::new(cap);
        let mut all = Vec::new();
        for chunk in chunks {
            buffer.push(chunk);
            while let Some(line) = buffer.next_line() {
                all.push((line.text().into_owned(), line.terminated, line.cut));
            }
        }
        if let Some(line) = buffer.finish() {
            all.push((line.text().into_owned(), line.terminated, line.cut));
        }
        all
    }

    #[test]
    fn only_lf_ends_a_line_and_the_tail_counts() {
        let got = lines(100, &["a\r\nb\u{2028}c\rd\n".as_bytes(), b"\nta", b"il"]);
        let want =
            [("a", true, 0), ("b\u{2028}c\rd", true, 0), ("", true, 0), ("tail", false, 0)].map(|(t, e, c)| (t.to_owned(), e, c));
        assert_eq!(got, want);
    }

    #[test]
    fn a_character_split_over_two_chunks_is_whole() {
        let bytes = "é\n".as_bytes();
        assert_eq!(lines(100, &[&bytes[..1], &bytes[1..]]), [("é".to_owned(), true, 0)]);
    }

    #[test]
    fn bytes_that_are_not_utf8_are_replaced_and_counted() {
        let mut buffer = LineBuffer::default();
        buffer.push(b"a\xff\xfeb\n");
        let line = buffer.next_line().expect("a line");
        assert_eq!((line.bytes.len(), line.text().as_ref()), (4, "a\u{fffd}\u{fffd}b"));
    }

    #[test]
    fn a_line_beyond_the_cap_is_cut_and_the_next_one_is_whole() {
        for chunk in 1..12 {
            let bytes = b"0123456789\nnext\n012345\r\n01234567";
            let chunks: Vec<&[u8]> = bytes.chunks(chunk).collect();
            let want = [("0123", true, 6), ("next", true, 0), ("0123", true, 3), ("0123", false, 4)]
                .map(|(text, terminated, cut)| (text.to_owned(), terminated, cut));
            assert_eq!(lines(4, &chunks), want, "chunks of {chunk}");
        }
    }

    #[test]
    fn a_huge_line_gives_its_memory_back() {
        let mut buffer = LineBuffer::default();
        buffer.push(&vec![b'x'; 20 << 20]);
        buffer.push(b"\nsmall\n");
        assert_eq!(buffer.next_line().map(|line| line.bytes.len()), Some(20 << 20));
        assert_eq!(buffer.next_line().map(|line| line.bytes.len()), Some(5));
        buffer.space();
        assert!(buffer.buffer.capacity() <= super::RETAIN);
    }

    #[test]
    fn splitting_in_memory_is_the_same() {
        let bytes = b"a\r\n\nb";
        let got: Vec<_> = split(bytes).map(|line| (line.number, line.bytes, line.terminated)).collect();
        assert_eq!(got, [(1, &b"a"[..], true), (2, &b""[..], true), (3, &b"b"[..], false)]);
    }
}
