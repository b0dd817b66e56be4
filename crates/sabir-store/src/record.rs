//! One record, byte by byte. Numbers are little-endian.
//!
//! ```text
//!   0        4        8  9       13             21             29
//!   ┌────────┬────────┬──┬───────┬──────────────┬──────────────┬─────────┄
//!   │ length │ crc32c │k │ epoch │ seq          │ time         │ payload
//!   │ u32    │ u32    │u8│ u32   │ u64          │ u64, ms      │
//!   └────────┴────────┴──┴───────┴──────────────┴──────────────┴─────────┄
//!                     └──────────── length bytes ──────────────────────┄
//! ```
//!
//! The checksum is over the run id, the length, and everything after the checksum. Because the run id is in it, a piece of
//! another run's journal that an agent happens to print is never taken for a record.
//!
//! The payload of a raw line, kind 2:
//!
//! ```text
//!   0  1  2              10             18
//!   ┌──┬──┬──────────────┬──────────────┬─────────┄
//!   │s │e │ number       │ cut          │ bytes
//!   │u8│u8│ u64          │ u64          │
//!   └──┴──┴──────────────┴──────────────┴─────────┄
//!   s: 0 standard output, 1 standard error      e: bit 0 an LF ended it, bit 1 a CR stood before the LF
//!   number: of the line in its stream, from 1   cut: how many bytes beyond the cap on a line were dropped
//! ```

use sabir_core::line::{RawLine, Source};

use crate::cursor::Cursor;

/// Bytes before the payload.
pub const HEAD: usize = 29;
/// The bytes that `length` counts beside the payload.
const COUNTED: usize = HEAD - 8;
/// No payload is larger: a line of 1 GiB, which is where the runner cuts lines, with room for what is told about it.
pub const MAX_PAYLOAD: usize = (1 << 30) + 4096;

const RAW_HEAD: usize = 18;
const ENDED_BY_LF: u8 = 1;
const CR_BEFORE_LF: u8 = 2;

/// What a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// What was known when the run began: a [`Meta`](crate::Meta) as JSON.
    Meta,
    /// A line that the agent printed; [`raw_line`] takes it apart.
    Raw,
    /// An event as JSON.
    Event,
    /// The session result as JSON.
    Result,
    /// Nothing more was written in this epoch: an [`End`](crate::End) as JSON.
    End,
    /// A message of a session's log, as JSON; its number is in it.
    Message,
    /// One that this version does not know.
    Other(u8),
}

impl Kind {
    pub(crate) fn to_byte(self) -> u8 {
        match self {
            Self::Meta => 1,
            Self::Raw => 2,
            Self::Event => 3,
            Self::Result => 4,
            Self::End => 5,
            Self::Message => 6,
            Self::Other(byte) => byte,
        }
    }

    pub(crate) fn of_byte(byte: u8) -> Self {
        match byte {
            1 => Self::Meta,
            2 => Self::Raw,
            3 => Self::Event,
            4 => Self::Result,
            5 => Self::End,
            6 => Self::Message,
            other => Self::Other(other),
        }
    }
}

/// A whole record as it lies in a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// What it is.
    pub kind: Kind,
    /// Where it stands among the records of the run.
    pub cursor: Cursor,
    /// When it was appended, in milliseconds since 1970; a raw line: when it was read. 0 when that is not known.
    pub at: u64,
    /// Its bytes.
    pub payload: &'a [u8],
}

/// The fixed part of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    /// Bytes of the whole record.
    pub(crate) size: usize,
    pub(crate) crc: u32,
    pub(crate) kind: Kind,
    pub(crate) cursor: Cursor,
    pub(crate) at: u64,
}

impl Head {
    /// Reads the fixed part; `None` when no record has such a length.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let length = usize::try_from(u32::from_le_bytes(field(bytes, 0)?)).ok()?;
        if !(COUNTED..=COUNTED + MAX_PAYLOAD).contains(&length) {
            return None;
        }
        Some(Self {
            size: 8 + length,
            crc: u32::from_le_bytes(field(bytes, 4)?),
            kind: Kind::of_byte(*bytes.get(8)?),
            cursor: Cursor { epoch: u32::from_le_bytes(field(bytes, 9)?), seq: u64::from_le_bytes(field(bytes, 13)?) },
            at: u64::from_le_bytes(field(bytes, 21)?),
        })
    }

    /// Whether these bytes, the whole record, are what was written.
    pub(crate) fn holds(&self, bytes: &[u8], seed: u32) -> bool {
        checksum(seed, bytes) == Some(self.crc)
    }
}

pub(crate) fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

/// What the checksums of a run's records begin with.
pub(crate) fn seed(run_id: &str) -> u32 {
    crc32c::crc32c(run_id.as_bytes())
}

fn checksum(seed: u32, record: &[u8]) -> Option<u32> {
    Some(crc32c::crc32c_append(crc32c::crc32c_append(seed, record.get(..4)?), record.get(8..)?))
}

/// Appends a record whose payload is written in place. False, and nothing is appended, when it would be too large.
pub(crate) fn encode(
    out: &mut Vec<u8>,
    seed: u32,
    kind: Kind,
    cursor: Cursor,
    at: u64,
    payload: impl FnOnce(&mut Vec<u8>),
) -> bool {
    let start = out.len();
    out.extend_from_slice(&[0; 8]);
    out.push(kind.to_byte());
    out.extend_from_slice(&cursor.epoch.to_le_bytes());
    out.extend_from_slice(&cursor.seq.to_le_bytes());
    out.extend_from_slice(&at.to_le_bytes());
    payload(out);
    let length = u32::try_from(out.len() - start - 8).ok().filter(|_| out.len() - start - HEAD <= MAX_PAYLOAD);
    let Some(length) = length else {
        out.truncate(start);
        return false;
    };
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    let crc = checksum(seed, &out[start..]).unwrap_or_default();
    out[start + 4..start + 8].copy_from_slice(&crc.to_le_bytes());
    true
}

/// Appends the payload of a raw line.
pub fn encode_raw_line(line: &RawLine<'_>, source: Source, out: &mut Vec<u8>) {
    let source = match source {
        Source::Stdout => 0,
        Source::Stderr => 1,
    };
    let ending = if line.terminated { ENDED_BY_LF } else { 0 } | if line.cr { CR_BEFORE_LF } else { 0 };
    out.extend_from_slice(&[source, ending]);
    out.extend_from_slice(&line.number.to_le_bytes());
    out.extend_from_slice(&line.cut.to_le_bytes());
    out.extend_from_slice(line.bytes);
}

/// The line in the payload of a raw record, and the pipe it came from.
pub fn raw_line(payload: &[u8]) -> Option<(RawLine<'_>, Source)> {
    let source = match payload.first()? {
        0 => Source::Stdout,
        _ => Source::Stderr,
    };
    let ending = *payload.get(1)?;
    let line = RawLine {
        number: u64::from_le_bytes(field(payload, 2)?),
        bytes: payload.get(RAW_HEAD..)?,
        terminated: ending & ENDED_BY_LF != 0,
        cr: ending & CR_BEFORE_LF != 0,
        cut: u64::from_le_bytes(field(payload, 10)?),
    };
    Some((line, source))
}

#[cfg(test)]
mod tests {
    use sabir_core::line::{RawLine, Source};

    use super::{HEAD, Head, Kind, encode, encode_raw_line, raw_line, seed};
    use crate::cursor::Cursor;

    #[test]
    fn a_record_is_laid_out_as_drawn() {
        let mut out = Vec::new();
        let cursor = Cursor { epoch: 0x0102_0304, seq: 5 };
        assert!(encode(&mut out, seed("run"), Kind::Event, cursor, 6, |out| out.extend_from_slice(b"{}")));
        assert_eq!(out.len(), HEAD + 2);
        assert_eq!(out[..4], [23, 0, 0, 0]);
        assert_eq!(out[8..], [3, 4, 3, 2, 1, 5, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, b'{', b'}']);
        // Castagnoli's polynomial over "run", the length and the rest.
        let sum = crc32c::crc32c(&[b"run", &out[..4], &out[8..]].concat());
        assert_eq!(out[4..8], sum.to_le_bytes());
        let head = Head::parse(&out).expect("a head");
        assert!(head.holds(&out, seed("run")) && !head.holds(&out, seed("other run")));
    }

    #[test]
    fn a_raw_line_comes_back() {
        for (bytes, terminated, cr, cut, source) in
            [(&b"\xff\0x"[..], true, true, 0, Source::Stdout), (b"", false, false, 7, Source::Stderr)]
        {
            let line = RawLine { number: 9, bytes, terminated, cr, cut };
            let mut payload = Vec::new();
            encode_raw_line(&line, source, &mut payload);
            assert_eq!(raw_line(&payload), Some((line, source)));
            assert!((0..18).all(|length| raw_line(&payload[..length]).is_none()));
        }
    }
}
