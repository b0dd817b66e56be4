//! What is known to be wrong with the database.

use std::collections::BTreeMap;
use std::sync::Mutex;

use rusqlite::ErrorCode;
use sabir_protocol::SessionId;

use crate::lock::locked;

/// More damaged sessions than this are not told apart.
const MOST: usize = 10_000;

/// Damage that was found since the hub began.
#[derive(Debug, Default)]
pub(super) struct Damage(Mutex<Found>);

#[derive(Debug, Default)]
struct Found {
    sessions: BTreeMap<SessionId, String>,
    /// What is wrong with the database itself.
    database: Option<String>,
    /// The last read failed.
    unreadable: Option<String>,
}

impl Damage {
    /// Something of a session can't be read any more.
    pub(super) fn of_session(&self, session: &SessionId, what: &str) {
        let mut found = locked(&self.0);
        if found.sessions.len() < MOST {
            found.sessions.entry(session.clone()).or_insert_with(|| what.to_owned());
        }
    }

    /// Something else of the database.
    pub(super) fn of_database(&self, what: &str) {
        locked(&self.0).database.get_or_insert_with(|| what.to_owned());
    }

    /// What is wrong with a session.
    pub(super) fn known(&self, session: &SessionId) -> Option<String> {
        locked(&self.0).sessions.get(session).cloned()
    }

    /// Takes note of how a read went.
    pub(super) fn read<T>(&self, result: &rusqlite::Result<T>) {
        let mut found = locked(&self.0);
        match result {
            Ok(_) => found.unreadable = None,
            Err(error) if is_damage(error) => {
                found.database.get_or_insert_with(|| error.to_string());
            }
            Err(error) if is_unreadable(error) => found.unreadable = Some(error.to_string()),
            Err(_) => {}
        }
    }

    /// Whether the last read failed.
    pub(super) fn is_unreadable(&self) -> bool {
        locked(&self.0).unreadable.is_some()
    }

    /// What is wrong, without the names of sessions.
    pub(super) fn reasons(&self) -> Vec<String> {
        let found = locked(&self.0);
        let sessions = found.sessions.len();
        let sessions = (sessions > 0).then(|| format!("{sessions} sessions are damaged"));
        let database = found.database.as_ref().map(|_| "the database is damaged".to_owned());
        sessions.into_iter().chain(database).collect()
    }
}

/// Whether a part of the file is not what was written to it.
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error};
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
        || matches!(error, FromSqlConversionFailure(..) | IntegralValueOutOfRange(..) | InvalidColumnType(..) | Utf8Error(..))
}

fn is_unreadable(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen | ErrorCode::PermissionDenied))
}
