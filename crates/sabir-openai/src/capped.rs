//! Output that the model can take in: the head and the tail of what is too long, and how much lies between.

use std::collections::VecDeque;

/// How much of the beginning and of the end is kept.
const SIDE: usize = 16 * 1024;

/// Bytes that grow without growing in memory.
#[derive(Debug, Default)]
pub(crate) struct Capped {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    cut: u64,
}

impl Capped {
    /// Appends bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let (head, rest) = bytes.split_at(bytes.len().min(SIDE - self.head.len()));
        self.head.extend_from_slice(head);
        self.tail.extend(rest);
        let excess = self.tail.len().saturating_sub(SIDE);
        self.tail.drain(..excess);
        self.cut += excess as u64;
    }

    /// The text; bytes that are not UTF-8 are replaced.
    pub(crate) fn into_text(self) -> String {
        let tail: Vec<u8> = self.tail.into();
        if self.cut == 0 {
            return String::from_utf8_lossy(&[self.head, tail].concat()).into_owned();
        }
        // What is cut is cut between characters, so that no half of one is left.
        let head_end = self.head.iter().rposition(|byte| !is_inside(*byte)).unwrap_or(0);
        let tail_start = tail.iter().position(|byte| !is_inside(*byte)).unwrap_or(tail.len());
        let cut = self.cut + (self.head.len() - head_end + tail_start) as u64;
        let (head, tail) = (String::from_utf8_lossy(&self.head[..head_end]), String::from_utf8_lossy(&tail[tail_start..]));
        format!("{head}\n[… {cut} bytes left out …]\n{tail}")
    }
}

/// Whether a byte is the second or a later one of a character.
fn is_inside(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

/// The text, capped.
pub(crate) fn text(text: &str) -> String {
    let mut capped = Capped::default();
    capped.push(text.as_bytes());
    capped.into_text()
}

#[cfg(test)]
mod tests {
    use super::{Capped, SIDE, text};

    #[test]
    fn what_fits_is_whole() {
        assert_eq!(text("a\u{e9}b"), "a\u{e9}b");
        let exact = "x".repeat(2 * SIDE);
        assert_eq!(text(&exact), exact);
    }

    #[test]
    fn what_is_left_out_is_counted_whatever_the_pieces() {
        let long = "é0123456789".repeat(100_000);
        for size in [1, 7, 4_096, long.len()] {
            let mut capped = Capped::default();
            long.as_bytes().chunks(size).for_each(|chunk| capped.push(chunk));
            let text = capped.into_text();
            assert!(!text.contains('\u{fffd}') && text.len() < 2 * SIDE + 64);
            let (head, rest) = text.split_once("\n[… ").expect("the mark");
            let (cut, tail) = rest.split_once(" bytes left out …]\n").expect("the mark");
            assert_eq!(head.len() + cut.parse::<usize>().expect("a number") + tail.len(), long.len());
            assert!(long.starts_with(head) && long.ends_with(tail));
        }
    }
}
