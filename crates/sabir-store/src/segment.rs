//! The head of a segment, byte by byte. Numbers are little-endian. Records follow it to the end of the file.
//!
//! ```text
//!   0             8   10  12       16       20      24             32             40  42
//!   ┌─────────────┬───┬───┬────────┬────────┬───────┬──────────────┬──────────────┬───┬─────────┄
//!   │ "SABIRJNL"  │ v │ n │ crc32c │ number │ epoch │ first seq    │ created, ms  │ i │ run id
//!   │ 8 bytes     │u16│u16│ u32    │ u32    │ u32   │ u64          │ u64          │u16│ i bytes
//!   └─────────────┴───┴───┴────────┴────────┴───────┴──────────────┴──────────────┴───┴─────────┄
//!   v: version of the schema    n: bytes of the whole head    crc32c: over the head without these four bytes
//! ```
//!
//! The first 16 bytes mean the same in every version, so that an older program can tell a newer file from a damaged one.
//! A segment is written by one opening of the journal, so all its records have the epoch of its head.

use crate::cursor::Cursor;
use crate::record::field;

/// The version of the schema that is written.
pub const VERSION: u16 = 1;
const MAGIC: &[u8; 8] = b"SABIRJNL";
/// What means the same in every version.
pub(crate) const FIXED: usize = 16;
const RUN_ID_AT: usize = 42;

/// What the head of a segment says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The number of the segment, as in its file's name.
    pub number: u32,
    /// The epoch of all its records.
    pub epoch: u32,
    /// The number of its first record.
    pub first_seq: u64,
    /// When it was made, in milliseconds since 1970.
    pub created: u64,
    /// The run.
    pub run_id: String,
}

/// What the first bytes of a file turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opening {
    /// A head, and how many bytes it takes.
    Whole(Header, usize),
    /// More bytes than these are needed: this many.
    Short(usize),
    /// A head of a newer version.
    Newer(u16),
    /// Not a head.
    Damaged,
}

impl Header {
    /// The cursor just before the first record.
    pub fn before(&self) -> Cursor {
        Cursor { epoch: self.epoch, seq: self.first_seq.saturating_sub(1) }
    }

    /// The bytes of the head.
    pub fn encode(&self) -> Vec<u8> {
        let id = self.run_id.as_bytes();
        // A longer id can't be the name of a folder, so there is none.
        let id = &id[..id.len().min(usize::from(u16::MAX) - RUN_ID_AT)];
        let size = u16::try_from(RUN_ID_AT + id.len()).unwrap_or(u16::MAX);
        let id_size = size - u16::try_from(RUN_ID_AT).unwrap_or_default();
        let mut out = Vec::with_capacity(usize::from(size));
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&size.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&self.epoch.to_le_bytes());
        out.extend_from_slice(&self.first_seq.to_le_bytes());
        out.extend_from_slice(&self.created.to_le_bytes());
        out.extend_from_slice(&id_size.to_le_bytes());
        out.extend_from_slice(id);
        let crc = checksum(&out).to_le_bytes();
        out[12..FIXED].copy_from_slice(&crc);
        out
    }

    /// Reads the head of a file from its first bytes.
    pub fn parse(bytes: &[u8]) -> Opening {
        let (Some(magic), Some(version), Some(size), Some(crc)) =
            (field::<8>(bytes, 0), field(bytes, 8), field(bytes, 10), field(bytes, 12))
        else {
            return if bytes.starts_with(&MAGIC[..bytes.len().min(MAGIC.len())]) {
                Opening::Short(FIXED)
            } else {
                Opening::Damaged
            };
        };
        let (version, size) = (u16::from_le_bytes(version), usize::from(u16::from_le_bytes(size)));
        if &magic != MAGIC || size < FIXED {
            return Opening::Damaged;
        }
        let Some(head) = bytes.get(..size) else { return Opening::Short(size) };
        if checksum(head) != u32::from_le_bytes(crc) {
            return Opening::Damaged;
        }
        if version > VERSION {
            return Opening::Newer(version);
        }
        read(head).map_or(Opening::Damaged, |header| Opening::Whole(header, size))
    }
}

fn read(head: &[u8]) -> Option<Header> {
    let id_size = usize::from(u16::from_le_bytes(field(head, 40)?));
    Some(Header {
        number: u32::from_le_bytes(field(head, 16)?),
        epoch: u32::from_le_bytes(field(head, 20)?),
        first_seq: u64::from_le_bytes(field(head, 24)?),
        created: u64::from_le_bytes(field(head, 32)?),
        run_id: String::from_utf8(head.get(RUN_ID_AT..RUN_ID_AT + id_size)?.to_vec()).ok()?,
    })
}

fn checksum(head: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&head[..12]), &head[FIXED..])
}

#[cfg(test)]
mod tests {
    use super::{Header, Opening};

    fn header() -> Header {
        Header { number: 2, epoch: 3, first_seq: 4, created: 5, run_id: "0199-ü".to_owned() }
    }

    #[test]
    fn a_head_comes_back_and_every_flipped_bit_is_noticed() {
        let bytes = header().encode();
        assert_eq!(Header::parse(&bytes), Opening::Whole(header(), bytes.len()));
        for length in 0..bytes.len() {
            assert!(matches!(Header::parse(&bytes[..length]), Opening::Short(_)), "{length}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(Header::parse(&bytes), Opening::Damaged | Opening::Short(_)), "bit {bit}");
        }
    }

    #[test]
    fn a_newer_version_is_told_from_damage() {
        let mut bytes = header().encode();
        bytes[8] = 2;
        let crc = super::checksum(&bytes).to_le_bytes();
        bytes[12..16].copy_from_slice(&crc);
        assert_eq!(Header::parse(&bytes), Opening::Newer(2));
    }
}
