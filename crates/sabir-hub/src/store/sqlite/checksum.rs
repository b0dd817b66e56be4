//! CRC-32C checksums of rows, so that values which the disk changed are detected.
//!
//! SQLite detects damage to the structure of its file, but not to values. A session has two checksums: one over its own columns
//! (writer, progress) and one over the columns that are derived from its messages and can be rebuilt. Rows of earlier versions have
//! none until they are written again.

use std::ops::Range;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, params};

/// A session's own columns and their checksum.
pub(super) const OWN: &str = "id, name, writer, epoch, start, last, orders, shell, takes, created, updated, checksum";
/// The columns that are derived from messages, and their checksum.
const DERIVED: &str = "folded, agent, phase, workspace, overview, derived";
/// Both.
pub(super) const COLUMNS: &str = "id, name, writer, epoch, start, last, orders, shell, takes, created, updated, checksum, \
                                  folded, agent, phase, workspace, overview, derived";
/// Positions of the checked columns in [`COLUMNS`]; the checksum follows them.
const OWN_COLUMNS: Range<usize> = 0..11;
const DERIVED_COLUMNS: Range<usize> = 12..17;

/// Which parts of a row match their checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Intact {
    pub(super) own: bool,
    pub(super) derived: bool,
}

/// The checksum of a message. It covers the session and the number, so a misplaced message counts as damaged.
pub(super) fn message(session: i64, seq: i64, line: &[u8]) -> i64 {
    let key = crc32c::crc32c_append(crc32c::crc32c(&session.to_le_bytes()), &seq.to_le_bytes());
    i64::from(crc32c::crc32c_append(key, line))
}

/// Checks a row of [`COLUMNS`].
pub(super) fn check(row: &Row<'_>) -> rusqlite::Result<Intact> {
    Ok(Intact { own: is_own_intact(row)?, derived: is_intact(row, DERIVED_COLUMNS)? })
}

/// Checks the own columns of a row of [`OWN`] or [`COLUMNS`].
pub(super) fn is_own_intact(row: &Row<'_>) -> rusqlite::Result<bool> {
    is_intact(row, OWN_COLUMNS)
}

/// Checks the derived columns of a session.
pub(super) fn is_derived_intact(database: &Connection, id: i64) -> rusqlite::Result<bool> {
    let mut select = database.prepare_cached(&format!("SELECT {DERIVED} FROM session WHERE id = ?1"))?;
    select.query_row([id], |row| is_intact(row, 0..5))
}

fn is_intact(row: &Row<'_>, columns: Range<usize>) -> rusqlite::Result<bool> {
    match row.get_ref(columns.end)? {
        ValueRef::Null => Ok(true),
        ValueRef::Integer(stored) => Ok(checksum(row, columns)? == stored),
        _ => Ok(false),
    }
}

/// Updates the checksum of a session's own columns.
pub(super) fn update_own(database: &Connection, id: i64) -> rusqlite::Result<()> {
    let mut select = database.prepare_cached(&format!("SELECT {OWN} FROM session WHERE id = ?1"))?;
    let checksum = select.query_row([id], |row| checksum(row, OWN_COLUMNS))?;
    database.prepare_cached("UPDATE session SET checksum = ?2 WHERE id = ?1")?.execute(params![id, checksum]).map(drop)
}

/// Updates the checksum of a session's derived columns.
pub(super) fn update_derived(database: &Connection, id: i64) -> rusqlite::Result<()> {
    let mut select = database.prepare_cached(&format!("SELECT {DERIVED} FROM session WHERE id = ?1"))?;
    let checksum = select.query_row([id], |row| checksum(row, 0..5))?;
    database.prepare_cached("UPDATE session SET derived = ?2 WHERE id = ?1")?.execute(params![id, checksum]).map(drop)
}

fn checksum(row: &Row<'_>, columns: Range<usize>) -> rusqlite::Result<i64> {
    let mut sum = 0;
    for column in columns {
        // Type and length separate values whose bytes would otherwise be the same.
        let mut add = |kind: u8, bytes: &[u8]| {
            sum = crc32c::crc32c_append(crc32c::crc32c_append(sum, &[kind]), &bytes.len().to_le_bytes());
            sum = crc32c::crc32c_append(sum, bytes);
        };
        match row.get_ref(column)? {
            ValueRef::Null => add(0, &[]),
            ValueRef::Integer(value) => add(1, &value.to_le_bytes()),
            ValueRef::Real(value) => add(2, &value.to_bits().to_le_bytes()),
            ValueRef::Text(text) | ValueRef::Blob(text) => add(3, text),
        }
    }
    Ok(i64::from(sum))
}
