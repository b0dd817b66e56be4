//! Files that a session leaves: told in the log at once, brought later, by the hash of their bytes.
//!
//! Bytes that are there already are not brought again, and what broke off goes on where it was.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Instant;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use reqwest::StatusCode;
use reqwest::header::CONTENT_TYPE;
use ring::digest::{Context, SHA256};
use sabir_protocol::envelope::notes::Artifact;
use serde::Deserialize;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep_until;

use crate::deliver::{Delivery, Lost, Next};
use crate::hub::Hub;
use crate::sink::{Sink, deadline, hex};
use crate::{Failure, http};

/// So much is read and sent at once.
const PIECE: usize = 8 << 20;
/// More files are not looked for.
const MOST: usize = 10_000;

/// The files that are artifacts.
#[derive(Debug, Clone)]
pub struct Files {
    root: PathBuf,
    globs: GlobSet,
}

/// A file, as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Where it is.
    pub file: PathBuf,
    /// What is told about it.
    pub artifact: Artifact,
}

impl Files {
    /// The files beneath a folder that have one of these patterns, like `dist/*.tgz` or `**/*.log`.
    pub fn new(root: PathBuf, patterns: &[String]) -> Result<Self, Failure> {
        let mut globs = GlobSetBuilder::new();
        let bad = |error: globset::Error| Failure::usage(format!("{error}")).hint("--artifact takes a pattern like dist/*.tgz");
        for pattern in patterns {
            globs.add(GlobBuilder::new(pattern).literal_separator(true).build().map_err(bad)?);
        }
        Ok(Self { root, globs: globs.build().map_err(bad)? })
    }

    /// Those that are there now. Links are not followed: they lead elsewhere.
    pub fn find(&self) -> Vec<Found> {
        let mut found = Vec::new();
        let mut folders = vec![self.root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
                let (file, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
                if kind.is_dir() && entry.file_name() != ".git" {
                    folders.push(file);
                    continue;
                }
                let Ok(path) = file.strip_prefix(&self.root) else { continue };
                if kind.is_file() && self.globs.is_match(path) && found.len() < MOST {
                    let path = path.to_string_lossy().replace('\\', "/");
                    // One that can't be read now is not there now.
                    found.extend(
                        hash(&file).ok().map(|(sha256, bytes)| Found { file, artifact: Artifact { path, sha256, bytes } }),
                    );
                }
            }
        }
        found.sort_by(|a, b| a.artifact.path.cmp(&b.artifact.path));
        found
    }
}

fn hash(path: &Path) -> io::Result<(String, u64)> {
    let mut file = File::open(path)?;
    let mut context = Context::new(&SHA256);
    let (mut piece, mut bytes) = (vec![0; 64 << 10], 0);
    loop {
        match file.read(&mut piece)? {
            0 => return Ok((hex(context.finish().as_ref()), bytes)),
            count => {
                context.update(&piece[..count]);
                bytes += count as u64;
            }
        }
    }
}

/// The bytes of a file from a place on, as many as are sent at once.
pub(crate) fn piece(path: &Path, offset: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::new();
    file.take(PIECE as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Why a file is not brought.
pub(crate) enum Stop {
    /// It may work later.
    Later(String),
    /// It is not what it was any more, or nobody wants it.
    Never,
}

/// Brings files to where the log goes.
#[derive(Debug)]
pub struct Porter {
    /// The hub, if it has a place for them.
    pub hub: Option<Hub>,
    /// The folder or bucket.
    pub sink: Option<Sink>,
    /// What to bring; closed when nothing more comes.
    pub files: mpsc::UnboundedReceiver<Found>,
    /// Until when to go on.
    pub finish: watch::Receiver<Option<Instant>>,
}

impl Porter {
    /// Brings files until no more come; the paths of those that could not be brought.
    pub async fn run(mut self) -> Vec<String> {
        let mut missing = Vec::new();
        while let Some(found) = self.files.recv().await {
            let finish = self.finish.clone();
            let brought = tokio::select! {
                brought = self.bring(&found) => brought,
                () = deadline(finish) => false,
            };
            if !brought {
                missing.push(found.artifact.path);
            }
        }
        missing
    }

    async fn bring(&self, found: &Found) -> bool {
        let mut backoff = Delivery::default();
        loop {
            let why = match self.once(found).await {
                Ok(()) => return true,
                Err(Stop::Never) => return false,
                Err(Stop::Later(why)) => why,
            };
            if let Next::Again(at) = backoff.lost(&Lost::Broken(why), Instant::now(), fastrand::f64()) {
                sleep_until(at.into()).await;
            }
        }
    }

    async fn once(&self, found: &Found) -> Result<(), Stop> {
        if let Some(sink) = &self.sink {
            sink.bring(&found.file, &found.artifact).await?;
        }
        if let Some(hub) = &self.hub
            && let Some(address) = hub.artifacts()
        {
            to_hub(hub, &address, found).await?;
        }
        Ok(())
    }
}

/// How far the hub is.
#[derive(Deserialize)]
struct Progress {
    offset: u64,
    complete: bool,
}

async fn to_hub(hub: &Hub, address: &reqwest::Url, found: &Found) -> Result<(), Stop> {
    let Artifact { path, sha256, bytes } = &found.artifact;
    let client = http::client(hub).map_err(|lost| Stop::Later(lost.what().to_owned()))?;
    let declared = serde_json::json!({ "digest": sha256, "size": bytes, "name": path });
    let request = client.post(address.clone()).header(CONTENT_TYPE, "application/json").body(declared.to_string());
    let mut progress = ask(request).await?;
    while !progress.complete {
        let body = piece(&found.file, progress.offset).map_err(|_| Stop::Never)?;
        if body.is_empty() && *bytes > 0 {
            return Err(Stop::Never);
        }
        let mut url = address.clone();
        url.set_path(&format!("{}/{sha256}", address.path()));
        url.query_pairs_mut().append_pair("offset", &progress.offset.to_string());
        progress = ask(client.put(url).header(CONTENT_TYPE, "application/octet-stream").body(body)).await?;
    }
    Ok(())
}

async fn ask(request: reqwest::RequestBuilder) -> Result<Progress, Stop> {
    let (status, body) = http::send(request).await.map_err(|lost| Stop::Later(lost.what().to_owned()))?;
    let progress = serde_json::from_slice(&body);
    match (status, progress) {
        // It goes on elsewhere than we thought.
        (StatusCode::OK | StatusCode::CONFLICT, Ok(progress)) => Ok(progress),
        (StatusCode::BAD_REQUEST | StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::PAYLOAD_TOO_LARGE, _) => {
            Err(Stop::Never)
        }
        // The session is known there once its first message is.
        _ => Err(Stop::Later(format!("the hub answered {status}"))),
    }
}
