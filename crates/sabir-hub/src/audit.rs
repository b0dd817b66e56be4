//! The audit log: who logged in, made or revoked a token, gave a command, and who was refused. `audit.jsonl` in the folder of the hub.
//!
//! A line is synced before the request is answered. Refusals are counted and written once per client and interval, so that an
//! attacker cannot flood the log. Full files are renamed to `audit.jsonl.1` and so on; the oldest is removed.
//!
//! The text of a prompt is not in it: that is in the log of the session, for those who may read it.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use sabir_core::time::Timestamp;
use sabir_store::private;
use serde::Serialize;

use crate::auth::token::Token;
use crate::clock::now;
use crate::lock::locked;
use crate::quota::{Part, Quota};

const FILE: &str = "audit.jsonl";
/// Full files that are kept.
const OLD_FILES: u32 = 5;
/// A file is full at this size, or at this share of the limit of the hub.
const FILE_BYTES: u64 = 8 << 20;
const SHARE: u64 = 64;
const LEAST_BYTES: u64 = 64 << 10;
/// Clients whose refusals are counted apart in one interval; all further ones are counted together.
const CLIENTS: usize = 32;
const OTHERS: &str = "others";

/// What happened.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Entry<'a> {
    /// Who did it: a token, an address, or `cli` for somebody at the machine of the hub.
    pub who: &'a str,
    /// `prompt`, `cancel`, `permission`, `taken`, `login`, `token_created`, `token_revoked` or `refused`.
    pub what: &'a str,
    /// In which session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<&'a str>,
    /// The number of a command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<u64>,
    /// Whether a command is carried out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted: Option<bool>,
    /// The id of a token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<&'a str>,
    /// The scopes of a token.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// Refused requests by status.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub refused: BTreeMap<u16, u64>,
    /// When the first of them was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

impl<'a> Entry<'a> {
    /// Something about a token.
    pub fn of_token(who: &'a str, what: &'a str, token: &'a Token) -> Self {
        let scopes = token.scopes.iter().map(ToString::to_string).collect();
        Self { who, what, token: Some(&token.id), scopes, ..Self::default() }
    }
}

#[derive(Serialize)]
struct Line<'a> {
    at: Timestamp,
    #[serde(flatten)]
    entry: &'a Entry<'a>,
}

/// The audit log in a folder.
#[derive(Debug, Clone)]
pub struct Audit(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    /// Only the hub renames files; other processes append.
    quota: Option<Arc<Quota>>,
    write: Mutex<()>,
    refused: Mutex<BTreeMap<String, Refused>>,
}

#[derive(Debug)]
struct Refused {
    since: Timestamp,
    by_status: BTreeMap<u16, u64>,
}

impl Audit {
    /// The audit log of the hub that owns the folder.
    pub(crate) fn open(folder: &Path, quota: Arc<Quota>) -> io::Result<Self> {
        let audit = Self::new(folder, Some(quota));
        let file = audit.0.file()?;
        audit.0.report(file.metadata()?.len());
        Ok(audit)
    }

    /// The audit log in the folder of a hub that may be running.
    pub fn open_beside(folder: &Path) -> Self {
        Self::new(folder, None)
    }

    fn new(folder: &Path, quota: Option<Arc<Quota>>) -> Self {
        let path = folder.join(FILE);
        Self(Arc::new(Inner { path, quota, write: Mutex::default(), refused: Mutex::default() }))
    }

    /// Writes a line and syncs it.
    pub fn write(&self, entry: &Entry<'_>) -> io::Result<()> {
        self.0.append(&line(entry)?)
    }

    /// The same on a thread that may wait for the disk.
    pub(crate) async fn note(&self, entry: &Entry<'_>) -> io::Result<()> {
        let line = line(entry)?;
        let inner = Arc::clone(&self.0);
        tokio::task::spawn_blocking(move || inner.append(&line)).await.map_err(io::Error::other)?
    }

    /// Counts an answer to a client, if it is a refusal that the log has: no valid token, not allowed, too many requests.
    pub(crate) fn answered(&self, client: &str, status: u16) {
        if !matches!(status, 401 | 403 | 429) {
            return;
        }
        let mut refused = locked(&self.0.refused);
        let client = if refused.len() < CLIENTS || refused.contains_key(client) { client } else { OTHERS };
        let new = || Refused { since: now(), by_status: BTreeMap::new() };
        let counts = refused.entry(client.to_owned()).or_insert_with(new);
        *counts.by_status.entry(status).or_default() += 1;
    }

    /// Writes what was refused since the last time.
    pub(crate) async fn flush(&self) -> io::Result<()> {
        let refused = std::mem::take(&mut *locked(&self.0.refused));
        let mut lines = Vec::new();
        for (who, Refused { since, by_status }) in refused {
            let entry = Entry { who: &who, what: "refused", refused: by_status, since: Some(since), ..Entry::default() };
            lines.append(&mut line(&entry)?);
        }
        if lines.is_empty() {
            return Ok(());
        }
        let inner = Arc::clone(&self.0);
        tokio::task::spawn_blocking(move || inner.append(&lines)).await.map_err(io::Error::other)?
    }
}

fn line(entry: &Entry<'_>) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(&Line { at: now(), entry })?;
    line.push(b'\n');
    Ok(line)
}

impl Inner {
    fn file(&self) -> io::Result<fs::File> {
        private::options(OpenOptions::new().append(true).create(true)).open(&self.path)
    }

    fn old(&self, number: u32) -> PathBuf {
        let mut path = self.path.clone();
        path.as_mut_os_string().push(format!(".{number}"));
        path
    }

    /// The file is opened for each write, so that a process beside the hub never writes to one that was renamed long ago.
    fn append(&self, lines: &[u8]) -> io::Result<()> {
        let _turn = locked(&self.write);
        let mut file = self.file()?;
        let mut size = file.metadata()?.len();
        if let Some(quota) = &self.quota {
            let share = quota.limit().map_or(FILE_BYTES, |limit| limit / SHARE).clamp(LEAST_BYTES, FILE_BYTES);
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
        for number in (1..OLD_FILES).rev() {
            match fs::rename(self.old(number), self.old(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        fs::rename(&self.path, self.old(1))
    }

    fn report(&self, current: u64) {
        let Some(quota) = &self.quota else { return };
        let old = (1..=OLD_FILES).filter_map(|number| fs::metadata(self.old(number)).ok());
        quota.set(Part::Audit, current + old.map(|about| about.len()).sum::<u64>());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::Value;

    use super::{Audit, CLIENTS, Entry, LEAST_BYTES, OLD_FILES};
    use crate::quota::{Part, Quota};

    #[tokio::test]
    async fn files_are_rotated_and_bounded() {
        let folder = tempfile::tempdir().expect("a folder");
        let quota = Arc::new(Quota::default());
        quota.set_limit(Some(1 << 20));
        let audit = Audit::open(folder.path(), Arc::clone(&quota)).expect("opened");
        let session = "s".repeat(4_000);
        for order in 0..200 {
            let entry = Entry { who: "a", what: "prompt", session: Some(&session), order: Some(order), ..Entry::default() };
            audit.note(&entry).await.expect("written");
        }
        let names: Vec<_> = std::fs::read_dir(folder.path()).expect("a folder").map(|entry| entry.expect("an entry")).collect();
        assert_eq!(names.len(), 1 + OLD_FILES as usize);
        let sizes: Vec<u64> = names.iter().map(|entry| entry.metadata().expect("a file").len()).collect();
        assert!(sizes.iter().all(|size| *size <= LEAST_BYTES), "{sizes:?}");
        assert_eq!(quota.share(Part::Messages), Some((1 << 20) - sizes.iter().sum::<u64>()));
        // The newest lines are those that stay, and each is whole.
        let text = std::fs::read_to_string(folder.path().join("audit.jsonl")).expect("a file");
        let last: Value = serde_json::from_str(text.lines().last().expect("a line")).expect("JSON");
        assert_eq!(last["order"], 199);
    }

    #[tokio::test]
    async fn refusals_of_many_clients_are_few_lines_and_every_one_counts() {
        let folder = tempfile::tempdir().expect("a folder");
        let audit = Audit::open(folder.path(), Arc::default()).expect("opened");
        for number in 0..1_000 {
            audit.answered(&format!("10.0.{}.{}", number / 256, number % 256), 401);
            audit.answered("10.0.0.0", 429);
            audit.answered("10.0.0.0", 404);
        }
        audit.flush().await.expect("written");
        audit.flush().await.expect("nothing to write");
        let text = std::fs::read_to_string(folder.path().join("audit.jsonl")).expect("a file");
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(lines.len(), CLIENTS + 1);
        let sum = |status: &str| lines.iter().filter_map(|line| line["refused"][status].as_u64()).sum::<u64>();
        assert_eq!((sum("401"), sum("429"), sum("404")), (1_000, 1_000, 0));
        let first = lines.iter().find(|line| line["who"] == "10.0.0.0").expect("the first client");
        assert_eq!((&first["what"], &first["refused"]["429"]), (&"refused".into(), &1_000.into()));
    }
}
