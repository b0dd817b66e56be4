//! Where a reader stands.

use std::fmt;
use std::io;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::reader::Reader;
use crate::record::{Kind, Record};

/// The last record that was dealt with. Records are in the order of their cursors.
///
/// `seq` numbers the records of a run without a gap. `epoch` says in which opening of the journal a record was written:
/// when a crash took records that were not synced, their numbers come again with a higher epoch, so no two records of a run
/// have the same cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Cursor {
    /// Which opening of the journal, from 1.
    pub epoch: u32,
    /// Which record, from 1.
    pub seq: u64,
}

impl Cursor {
    /// Before the first record.
    pub const START: Self = Self { epoch: 0, seq: 0 };
}

/// `EPOCH.SEQ`, as in `1.4711`.
impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch, self.seq)
    }
}

impl FromStr for Cursor {
    type Err = NotACursor;

    fn from_str(text: &str) -> Result<Self, NotACursor> {
        let (epoch, seq) = text.split_once('.').ok_or(NotACursor)?;
        Ok(Self { epoch: epoch.parse().map_err(|_| NotACursor)?, seq: seq.parse().map_err(|_| NotACursor)? })
    }
}

/// A text that is not `EPOCH.SEQ`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotACursor;

impl fmt::Display for NotACursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a cursor is two numbers, like 1.42")
    }
}

impl std::error::Error for NotACursor {}

/// A record with bytes of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// What it is.
    pub kind: Kind,
    /// Where it stands.
    pub cursor: Cursor,
    /// When it was appended, in milliseconds since 1970; 0 when that is not known.
    pub at: u64,
    /// Its bytes.
    pub payload: Vec<u8>,
}

impl From<Record<'_>> for Kept {
    fn from(record: Record<'_>) -> Self {
        Self { kind: record.kind, cursor: record.cursor, at: record.at, payload: record.payload.to_vec() }
    }
}

/// How large a batch may become. A record that is larger than all of it comes alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchSize {
    /// How many records at most.
    pub records: usize,
    /// How many bytes of payload after which no more is added.
    pub bytes: usize,
}

impl Reader {
    /// The next records, for one who sends them on: as many as are there and fit. None: nothing more is there for now.
    /// [`Reader::cursor`] is then what to keep once they have arrived, and [`Reader::resume`] goes on from there.
    pub fn next_batch(&mut self, size: BatchSize) -> io::Result<Vec<Kept>> {
        let mut batch = Vec::new();
        let mut bytes = 0;
        while batch.len() < size.records.max(1) && bytes < size.bytes.max(1) {
            let Some(record) = self.next()? else { break };
            bytes += record.payload.len();
            batch.push(Kept::from(record));
        }
        Ok(batch)
    }
}

#[cfg(test)]
mod tests {
    use super::Cursor;

    #[test]
    fn cursors_are_ordered_and_come_back_from_text() {
        let [early, late] = [Cursor { epoch: 1, seq: 100 }, Cursor { epoch: 2, seq: 95 }];
        assert!(Cursor::START < early && early < late);
        assert_eq!("2.95".parse(), Ok(late));
        assert_eq!(early.to_string(), "1.100");
        assert!(["", "1", "1.", "a.b", "1.2.3", "-1.2"].iter().all(|text| text.parse::<Cursor>().is_err()));
    }
}
