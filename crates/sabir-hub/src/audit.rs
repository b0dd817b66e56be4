//! Who did what, line by line: `audit.jsonl` in the folder of the hub.
//!
//! What a prompt says is not in it: it is in the log of the session, for those who may see that.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex};

use sabir_core::time::Timestamp;
use serde::Serialize;

use crate::clock::now;
use crate::lock::locked;

const FILE: &str = "audit.jsonl";

/// One line.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    at: Timestamp,
    who: &'a str,
    what: &'a str,
    session: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    accepted: Option<bool>,
}

#[derive(Debug, Clone)]
pub(crate) struct Audit(Arc<Mutex<File>>);

impl Audit {
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        Ok(Self(Arc::new(Mutex::new(options.open(folder.join(FILE))?))))
    }

    /// Writes a line.
    pub(crate) async fn note(
        &self,
        who: &str,
        what: &str,
        session: &str,
        order: Option<u64>,
        accepted: Option<bool>,
    ) -> io::Result<()> {
        let mut line = serde_json::to_vec(&Line { at: now(), who, what, session, order, accepted })?;
        line.push(b'\n');
        let file = Arc::clone(&self.0);
        let write = move || locked(&file).write_all(&line);
        tokio::task::spawn_blocking(write).await.map_err(io::Error::other)?
    }
}
