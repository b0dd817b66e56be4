//! Messages that go together.
//!
//! ```text
//!   0        4  5        8                 16       20       24
//!   ┌────────┬──┬────────┬─────────────────┬────────┬────────┬─────────┄
//!   │ "SBB1" │z │ zeros  │ first           │ count  │ bytes  │ messages, each with a line feed
//!   │        │u8│        │ u64             │ u32    │ u32    │ z 0: as they are; 1: one zstd frame
//!   └────────┴──┴────────┴─────────────────┴────────┴────────┴─────────┄
//! ```
//!
//! Numbers are little-endian. `bytes` is the size of the messages before compression.

use std::borrow::Cow;
use std::fmt;
use std::io::Read as _;

/// Bytes before the messages.
pub const HEAD: usize = 24;
const MAGIC: &[u8; 4] = b"SBB1";
/// Below this many bytes a zstd frame costs more than it saves.
const WORTH_IT: usize = 512;
const LEVEL: i32 = 1;

/// A batch that was taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch<'a> {
    /// The number of its first message.
    pub first: u64,
    /// How many messages it has.
    pub count: u32,
    body: Cow<'a, [u8]>,
}

impl Batch<'_> {
    /// Its messages, without their line ends. Their own numbers are not looked at here.
    pub fn messages(&self) -> impl Iterator<Item = &[u8]> {
        self.body.strip_suffix(b"\n").into_iter().flat_map(|body| body.split(|byte| *byte == b'\n'))
    }
}

/// Why bytes are no batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotABatch {
    /// They do not look like one.
    Malformed(&'static str),
    /// There are more of them, or would be after expansion, than are taken.
    TooLarge,
}

impl fmt::Display for NotABatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(what) => write!(f, "not a batch: {what}"),
            Self::TooLarge => f.write_str("the batch is too large"),
        }
    }
}

impl std::error::Error for NotABatch {}

/// Writes a batch. `messages` are whole lines, each with its line feed; `None` when they are too long for the format.
pub fn encode(first: u64, count: u32, messages: &[u8]) -> Option<Vec<u8>> {
    let bytes = u32::try_from(messages.len()).ok()?;
    let small = (messages.len() >= WORTH_IT).then(|| zstd::bulk::compress(messages, LEVEL).ok()).flatten();
    let small = small.filter(|small| small.len() < messages.len());
    let body = small.as_deref().unwrap_or(messages);
    let mut out = Vec::with_capacity(HEAD + body.len());
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&[u8::from(small.is_some()), 0, 0, 0]);
    out.extend_from_slice(&first.to_le_bytes());
    out.extend_from_slice(&count.to_le_bytes());
    out.extend_from_slice(&bytes.to_le_bytes());
    out.extend_from_slice(body);
    Some(out)
}

/// Takes a batch apart. Never more than `limit` bytes come out of it, nor more than its head says.
pub fn decode(frame: &[u8], limit: usize) -> Result<Batch<'_>, NotABatch> {
    use NotABatch::{Malformed, TooLarge};
    let (head, body) = frame.split_at_checked(HEAD).ok_or(Malformed("it is shorter than its head"))?;
    if head[..4] != *MAGIC {
        return Err(Malformed("it does not begin with SBB1"));
    }
    let number = |from: usize| head[from..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let first = head[8..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let (count, bytes) = (number(16), number(20) as usize);
    if frame.len() > limit.saturating_add(HEAD) || bytes > limit {
        return Err(TooLarge);
    }
    let body = match head[4..8] {
        [0, 0, 0, 0] => Cow::Borrowed(body),
        [1, 0, 0, 0] => Cow::Owned(expand(body, bytes)?),
        _ => return Err(Malformed("its flags are not known")),
    };
    if body.len() != bytes {
        return Err(Malformed("it is not as long as its head says"));
    }
    let batch = Batch { first, count, body };
    if count == 0 || first == 0 || first.checked_add(u64::from(count)).is_none() || batch.messages().count() != count as usize {
        return Err(Malformed("it does not have as many messages as its head says"));
    }
    Ok(batch)
}

fn expand(body: &[u8], bytes: usize) -> Result<Vec<u8>, NotABatch> {
    let broken = |_| NotABatch::Malformed("its zstd frame is broken");
    let mut out = Vec::new();
    // One byte more than there may be, so that more is noticed and not expanded.
    zstd::Decoder::new(body).map_err(broken)?.single_frame().take(bytes as u64 + 1).read_to_end(&mut out).map_err(broken)?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::{NotABatch, decode, encode};

    fn lines(count: usize) -> Vec<u8> {
        (0..count).flat_map(|number| format!("{{\"seq\":{number}}}\n").into_bytes()).collect()
    }

    #[test]
    fn a_batch_comes_back() {
        for count in [1, 3, 500] {
            let lines = lines(count);
            let frame = encode(7, u32::try_from(count).expect("small"), &lines).expect("fits");
            let batch = decode(&frame, 1 << 20).expect("a batch");
            assert_eq!((batch.first, batch.count as usize), (7, count));
            let back: Vec<u8> = batch.messages().flat_map(|line| [line, b"\n"].concat()).collect();
            assert_eq!(back, lines);
        }
    }

    #[test]
    fn what_is_no_batch_is_refused_and_never_expanded_beyond_the_limit() {
        let frame = encode(1, 500, &lines(500)).expect("fits");
        for end in 0..frame.len() {
            assert!(decode(&frame[..end], 1 << 20).is_err(), "{end}");
        }
        assert_eq!(decode(&frame, 100), Err(NotABatch::TooLarge));
        for (at, byte) in [(0, b'X'), (4, 2), (5, 1), (8, 0), (16, 1), (20, 9)] {
            let mut wrong = frame.clone();
            if wrong[at] == byte {
                wrong[at] = 77;
            } else {
                wrong[at] = byte;
            }
            if at == 8 {
                wrong[8..16].fill(0);
            }
            assert!(decode(&wrong, 1 << 20).is_err(), "{at}");
        }
        // A bomb: the head says little, the frame holds much.
        let mut bomb = encode(1, 1, &[vec![b' '; 1 << 20], vec![b'\n']].concat()).expect("fits");
        bomb[20..24].copy_from_slice(&100_u32.to_le_bytes());
        assert!(decode(&bomb, 1 << 20).is_err());
    }
}
