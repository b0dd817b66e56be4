//! Checksums of rows, so that what a disk changed is never taken for what was written.
//!
//! `SQLite` finds damage to the structure of its file, and none to the values in it. A session has two checksums: one over
//! what only it says (who writes it, how far it is), and one over what is derived from its messages, which can be made
//! anew. Rows of earlier versions have none until they are written again.

use std::ops::Range;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, params};

/// The columns that only a session itself says, and their checksum.
pub(super) const OWN: &str = "id, name, writer, epoch, start, last, orders, shell, takes, created, updated, checksum";
/// The columns that are derived from its messages, and their checksum.
const DERIVED: &str = "folded, agent, phase, workspace, overview, derived";
/// All of them.
pub(super) const COLUMNS: &str = "id, name, writer, epoch, start, last, orders, shell, takes, created, updated, checksum, \
                                  folded, agent, phase, workspace, overview, derived";
/// The places of what checksums go over, in those of all columns. The checksum comes after them.
const OWN_PLACES: Range<usize> = 0..11;
const DERIVED_PLACES: Range<usize> = 12..17;

/// Whether a row is what was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Intact {
    pub(super) own: bool,
    pub(super) derived: bool,
}

/// The checksum of a message. It covers its place, so that a message in another place is damage too.
pub(super) fn message(session: i64, seq: i64, line: &[u8]) -> i64 {
    let place = crc32c::crc32c_append(crc32c::crc32c(&session.to_le_bytes()), &seq.to_le_bytes());
    i64::from(crc32c::crc32c_append(place, line))
}

/// Whether a row of [`COLUMNS`] is what was written.
pub(super) fn check(row: &Row<'_>) -> rusqlite::Result<Intact> {
    Ok(Intact { own: is_own_intact(row)?, derived: is_intact(row, DERIVED_PLACES)? })
}

/// Whether a row of [`OWN`] or [`COLUMNS`] is what was written, in what only it says.
pub(super) fn is_own_intact(row: &Row<'_>) -> rusqlite::Result<bool> {
    is_intact(row, OWN_PLACES)
}

/// Whether what is derived of a session is what was written.
pub(super) fn is_derived_intact(database: &Connection, id: i64) -> rusqlite::Result<bool> {
    let mut find = database.prepare_cached(&format!("SELECT {DERIVED} FROM session WHERE id = ?1"))?;
    find.query_row([id], |row| is_intact(row, 0..5))
}

fn is_intact(row: &Row<'_>, places: Range<usize>) -> rusqlite::Result<bool> {
    match row.get_ref(places.end)? {
        ValueRef::Null => Ok(true),
        ValueRef::Integer(kept) => Ok(sum(row, places)? == kept),
        _ => Ok(false),
    }
}

/// Writes the checksum over what only the row says, after that was changed.
pub(super) fn seal_own(database: &Connection, id: i64) -> rusqlite::Result<()> {
    let mut find = database.prepare_cached(&format!("SELECT {OWN} FROM session WHERE id = ?1"))?;
    let sum = find.query_row([id], |row| sum(row, OWN_PLACES))?;
    database.prepare_cached("UPDATE session SET checksum = ?2 WHERE id = ?1")?.execute(params![id, sum]).map(drop)
}

/// Writes the checksum over what is derived from messages, after that was changed.
pub(super) fn seal_derived(database: &Connection, id: i64) -> rusqlite::Result<()> {
    let mut find = database.prepare_cached(&format!("SELECT {DERIVED} FROM session WHERE id = ?1"))?;
    let sum = find.query_row([id], |row| sum(row, 0..5))?;
    database.prepare_cached("UPDATE session SET derived = ?2 WHERE id = ?1")?.execute(params![id, sum]).map(drop)
}

fn sum(row: &Row<'_>, places: Range<usize>) -> rusqlite::Result<i64> {
    let mut sum = 0;
    for place in places {
        // The kind and the length tell apart what would be the same bytes.
        let mut add = |kind: u8, bytes: &[u8]| {
            sum = crc32c::crc32c_append(crc32c::crc32c_append(sum, &[kind]), &bytes.len().to_le_bytes());
            sum = crc32c::crc32c_append(sum, bytes);
        };
        match row.get_ref(place)? {
            ValueRef::Null => add(0, &[]),
            ValueRef::Integer(value) => add(1, &value.to_le_bytes()),
            ValueRef::Real(value) => add(2, &value.to_bits().to_le_bytes()),
            ValueRef::Text(text) | ValueRef::Blob(text) => add(3, text),
        }
    }
    Ok(i64::from(sum))
}
