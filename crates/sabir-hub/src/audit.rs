//! Audit log: logins, changes of tokens, commands and their outcomes, and refused requests. `audit.jsonl` in the folder of the hub.
//!
//! A line is synced before the request is answered. Refusals are counted and written once per client and interval, so that an
//! attacker cannot flood the log. Full files are renamed to `audit.jsonl.1` and so on; the oldest is removed.
//!
//! The text of a prompt is only in the messages of its session, to which access is limited.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use sabir_core::time::Timestamp;
use sabir_store::private;
use serde::Serialize;

use crate::auth::token::Token;
use crate::quota::{Part, Quota};
use crate::{lock, now};

const FILE: &str = "audit.jsonl";
/// Number of rotated files.
const ROTATED_FILES: u32 = 5;
/// Size at which a file is rotated, or with a size limit, the fraction of the limit at which it is.
const MAX_FILE_BYTES: u64 = 8 << 20;
const QUOTA_FRACTION: u64 = 64;
const MIN_FILE_BYTES: u64 = 64 << 10;
/// Number of clients whose refusals are counted separately in one interval; further ones share an entry.
const MAX_CLIENTS: usize = 32;
const OTHERS: &str = "others";

/// An audited action.
#[derive(Debug, Clone, Default, Serialize)]
pub struct AuditEntry<'a> {
    /// The actor: a token, an address, or `cli` for a command on the machine of the hub.
    pub who: &'a str,
    /// The action: `prompt`, `cancel`, `permission`, `taken`, `login`, `token_created`, `token_revoked` or `refused`.
    pub what: &'a str,
    /// The session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<&'a str>,
    /// Number of the command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<u64>,
    /// Whether the runner accepted the command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted: Option<bool>,
    /// Id of the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<&'a str>,
    /// Scopes of the token.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// Number of refused requests by status.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub refused: BTreeMap<u16, u64>,
    /// Time of the first refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

impl<'a> AuditEntry<'a> {
    /// An action that concerns a token.
    pub fn for_token(who: &'a str, what: &'a str, token: &'a Token) -> Self {
        let scopes = token.scopes.iter().map(ToString::to_string).collect();
        Self { who, what, token: Some(&token.id), scopes, ..Self::default() }
    }
}

#[derive(Serialize)]
struct Line<'a> {
    at: Timestamp,
    #[serde(flatten)]
    entry: &'a AuditEntry<'a>,
}

/// The audit log in a folder.
#[derive(Debug, Clone)]
pub struct AuditLog(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    /// Set for the hub, which rotates files; other processes only append.
    quota: Option<Arc<Quota>>,
    write: Mutex<()>,
    refused: Mutex<BTreeMap<String, RefusedCounts>>,
}

#[derive(Debug)]
struct RefusedCounts {
    since: Timestamp,
    by_status: BTreeMap<u16, u64>,
}

impl AuditLog {
    /// The audit log of the hub in a folder.
    pub(crate) fn open(folder: &Path, quota: Arc<Quota>) -> io::Result<Self> {
        let audit = Self::new(folder, Some(quota));
        let file = audit.0.file()?;
        audit.0.report(file.metadata()?.len());
        Ok(audit)
    }

    /// The audit log of a hub that another process may be running.
    pub fn open_unlocked(folder: &Path) -> Self {
        Self::new(folder, None)
    }

    fn new(folder: &Path, quota: Option<Arc<Quota>>) -> Self {
        let path = folder.join(FILE);
        Self(Arc::new(Inner { path, quota, write: Mutex::default(), refused: Mutex::default() }))
    }

    /// Writes an entry and syncs it.
    pub fn append_blocking(&self, entry: &AuditEntry<'_>) -> io::Result<()> {
        self.0.append(&line(entry)?)
    }

    /// Writes an entry and syncs it, on a blocking thread.
    pub(crate) async fn append(&self, entry: &AuditEntry<'_>) -> io::Result<()> {
        let line = line(entry)?;
        let inner = Arc::clone(&self.0);
        tokio::task::spawn_blocking(move || inner.append(&line)).await.map_err(io::Error::other)?
    }

    /// Counts a response if it is a refusal: unauthenticated, forbidden, or rate-limited.
    pub(crate) fn count_response(&self, client: &str, status: u16) {
        if !matches!(status, 401 | 403 | 429) {
            return;
        }
        let mut refused = lock(&self.0.refused);
        let client = if refused.len() < MAX_CLIENTS || refused.contains_key(client) { client } else { OTHERS };
        let new = || RefusedCounts { since: now(), by_status: BTreeMap::new() };
        let counts = refused.entry(client.to_owned()).or_insert_with(new);
        *counts.by_status.entry(status).or_default() += 1;
    }

    /// Writes the refusals since the last call.
    pub(crate) async fn flush(&self) -> io::Result<()> {
        let refused = std::mem::take(&mut *lock(&self.0.refused));
        let mut lines = Vec::new();
        for (who, RefusedCounts { since, by_status }) in refused {
            let entry =
                AuditEntry { who: &who, what: "refused", refused: by_status, since: Some(since), ..AuditEntry::default() };
            lines.append(&mut line(&entry)?);
        }
        if lines.is_empty() {
            return Ok(());
        }
        let inner = Arc::clone(&self.0);
        tokio::task::spawn_blocking(move || inner.append(&lines)).await.map_err(io::Error::other)?
    }
}

fn line(entry: &AuditEntry<'_>) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(&Line { at: now(), entry })?;
    line.push(b'\n');
    Ok(line)
}

impl Inner {
    fn file(&self) -> io::Result<fs::File> {
        private::options(OpenOptions::new().append(true).create(true)).open(&self.path)
    }

    fn rotated(&self, number: u32) -> PathBuf {
        let mut path = self.path.clone();
        path.as_mut_os_string().push(format!(".{number}"));
        path
    }

    /// Opens the file for each write, so that other processes do not write to a rotated one.
    fn append(&self, lines: &[u8]) -> io::Result<()> {
        let _guard = lock(&self.write);
        let mut file = self.file()?;
        let mut size = file.metadata()?.len();
        if let Some(quota) = &self.quota {
            let share =
                quota.limit().map_or(MAX_FILE_BYTES, |limit| limit / QUOTA_FRACTION).clamp(MIN_FILE_BYTES, MAX_FILE_BYTES);
            if size > 0 && size + lines.len() as u64 > share {
                self.rotate()?;
                (file, size) = (self.file()?, 0);
            }
        }
        file.write_all(lines)?;
        file.sync_data()?;
        self.report(size + lines.len() as u64);
        Ok(())
    }

    fn rotate(&self) -> io::Result<()> {
        for number in (1..ROTATED_FILES).rev() {
            match fs::rename(self.rotated(number), self.rotated(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        fs::rename(&self.path, self.rotated(1))
    }

    /// Reports the size of all files.
    fn report(&self, current: u64) {
        let Some(quota) = &self.quota else { return };
        let rotated = (1..=ROTATED_FILES).filter_map(|number| fs::metadata(self.rotated(number)).ok());
        quota.set(Part::Audit, current + rotated.map(|metadata| metadata.len()).sum::<u64>());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::Value;

    use super::{AuditEntry, AuditLog, MAX_CLIENTS, MIN_FILE_BYTES, ROTATED_FILES};
    use crate::quota::{Part, Quota};

    #[tokio::test]
    async fn audit_log_rotates_files_within_a_bound() {
        let folder = tempfile::tempdir().expect("a folder");
        let quota = Arc::new(Quota::default());
        quota.set_limit(Some(1 << 20));
        let audit = AuditLog::open(folder.path(), Arc::clone(&quota)).expect("opened");
        let session = "s".repeat(4_000);
        for order in 0..200 {
            let entry =
                AuditEntry { who: "a", what: "prompt", session: Some(&session), order: Some(order), ..AuditEntry::default() };
            audit.append(&entry).await.expect("written");
        }
        let names: Vec<_> = std::fs::read_dir(folder.path()).expect("a folder").map(|entry| entry.expect("an entry")).collect();
        assert_eq!(names.len(), 1 + ROTATED_FILES as usize);
        let sizes: Vec<u64> = names.iter().map(|entry| entry.metadata().expect("a file").len()).collect();
        assert!(sizes.iter().all(|size| *size <= MIN_FILE_BYTES), "{sizes:?}");
        assert_eq!(quota.share(Part::Messages), Some((1 << 20) - sizes.iter().sum::<u64>()));
        // The newest lines remain, and each is complete.
        let text = std::fs::read_to_string(folder.path().join("audit.jsonl")).expect("a file");
        let last: Value = serde_json::from_str(text.lines().last().expect("a line")).expect("JSON");
        assert_eq!(last["order"], 199);
    }

    #[tokio::test]
    async fn audit_log_aggregates_refusals_of_many_clients() {
        let folder = tempfile::tempdir().expect("a folder");
        let audit = AuditLog::open(folder.path(), Arc::default()).expect("opened");
        for number in 0..1_000 {
            audit.count_response(&format!("10.0.{}.{}", number / 256, number % 256), 401);
            audit.count_response("10.0.0.0", 429);
            audit.count_response("10.0.0.0", 404);
        }
        audit.flush().await.expect("written");
        audit.flush().await.expect("nothing to write");
        let text = std::fs::read_to_string(folder.path().join("audit.jsonl")).expect("a file");
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(lines.len(), MAX_CLIENTS + 1);
        let sum = |status: &str| lines.iter().filter_map(|line| line["refused"][status].as_u64()).sum::<u64>();
        assert_eq!((sum("401"), sum("429"), sum("404")), (1_000, 1_000, 0));
        let first = lines.iter().find(|line| line["who"] == "10.0.0.0").expect("the first client");
        assert_eq!((&first["what"], &first["refused"]["429"]), (&"refused".into(), &1_000.into()));
    }
}
