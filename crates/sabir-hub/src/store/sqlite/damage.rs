//! Damage that was found in the database since it was opened.

use std::collections::BTreeMap;
use std::sync::Mutex;

use rusqlite::ErrorCode;
use sabir_protocol::SessionId;

use crate::lock;

/// Maximum number of damaged sessions that are remembered.
const MAX_SESSIONS: usize = 10_000;

/// Known damage.
#[derive(Debug, Default)]
pub(super) struct Damage(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    sessions: BTreeMap<SessionId, String>,
    /// Damage to the database itself.
    database: Option<String>,
    /// Error of the last read, if it failed.
    read_error: Option<String>,
}

impl Damage {
    /// Records damage to a session.
    pub(super) fn add_session(&self, session: &SessionId, description: &str) {
        let mut state = lock(&self.0);
        if state.sessions.len() < MAX_SESSIONS {
            state.sessions.entry(session.clone()).or_insert_with(|| description.to_owned());
        }
    }

    /// Records damage to the database itself.
    pub(super) fn add_database(&self, description: &str) {
        lock(&self.0).database.get_or_insert_with(|| description.to_owned());
    }

    /// The recorded damage of a session.
    pub(super) fn of_session(&self, session: &SessionId) -> Option<String> {
        lock(&self.0).sessions.get(session).cloned()
    }

    /// Records the result of a read.
    pub(super) fn record_read<T>(&self, result: &rusqlite::Result<T>) {
        let mut state = lock(&self.0);
        match result {
            Ok(_) => state.read_error = None,
            Err(error) if is_damage(error) => {
                state.database.get_or_insert_with(|| error.to_string());
            }
            Err(error) if is_read_error(error) => state.read_error = Some(error.to_string()),
            Err(_) => {}
        }
    }

    /// Returns whether the last read failed because the file could not be read.
    pub(super) fn is_unreadable(&self) -> bool {
        lock(&self.0).read_error.is_some()
    }

    /// A description of all damage without session names.
    pub(super) fn summary(&self) -> Vec<String> {
        let state = lock(&self.0);
        let sessions = state.sessions.len();
        let sessions = (sessions > 0).then(|| format!("{sessions} sessions are damaged"));
        let database = state.database.as_ref().map(|_| "the database is damaged".to_owned());
        sessions.into_iter().chain(database).collect()
    }
}

/// Returns whether an error is caused by damaged data.
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error};
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
        || matches!(error, FromSqlConversionFailure(..) | IntegralValueOutOfRange(..) | InvalidColumnType(..) | Utf8Error(..))
}

fn is_read_error(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen | ErrorCode::PermissionDenied))
}
