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

use crate::Failure;
use crate::delivery::Backoff;
use crate::hub::Hub;
use crate::sink::{StorageSink, hex};
use crate::timer::deadline_elapsed;
use crate::transport::http;

/// So much is read and sent at once.
const CHUNK_BYTES: usize = 8 << 20;
/// More files are not looked for.
const MAX_ARTIFACTS: usize = 10_000;

/// The files that are artifacts.
#[derive(Debug, Clone)]
pub struct ArtifactFinder {
    root: PathBuf,
    globs: GlobSet,
}

/// A file, as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactFile {
    /// Where it is.
    pub file: PathBuf,
    /// What is told about it.
    pub artifact: Artifact,
}

impl ArtifactFinder {
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
    pub fn find(&self) -> Vec<ArtifactFile> {
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
                if kind.is_file() && self.globs.is_match(path) && found.len() < MAX_ARTIFACTS {
                    let path = path.to_string_lossy().replace('\\', "/");
                    // One that can't be read now is not there now.
                    found.extend(
                        hash(&file).ok().map(|(sha256, bytes)| ArtifactFile { file, artifact: Artifact { path, sha256, bytes } }),
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
pub(crate) fn read_chunk(path: &Path, offset: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::new();
    file.take(CHUNK_BYTES as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Why a file is not brought.
pub(crate) enum UploadError {
    /// It may work later.
    Retry,
    /// It is not what it was any more, or nobody wants it.
    Permanent,
}

/// Brings files to where the log goes.
#[derive(Debug)]
pub struct ArtifactUploader {
    /// The hub, if it has a place for them.
    pub hub: Option<Hub>,
    /// The folder or bucket.
    pub sink: Option<StorageSink>,
    /// What to bring; closed when nothing more comes.
    pub files: mpsc::UnboundedReceiver<ArtifactFile>,
    /// Until when to go on.
    pub finish: watch::Receiver<Option<Instant>>,
}

impl ArtifactUploader {
    /// Brings files until no more come; the paths of those that could not be brought.
    pub async fn run(mut self) -> Vec<String> {
        let mut missing = Vec::new();
        while let Some(found) = self.files.recv().await {
            let finish = self.finish.clone();
            let uploaded = tokio::select! {
                uploaded = self.upload(&found) => uploaded,
                () = deadline_elapsed(finish) => false,
            };
            if !uploaded {
                missing.push(found.artifact.path);
            }
        }
        missing
    }

    async fn upload(&self, found: &ArtifactFile) -> bool {
        let mut backoff = Backoff::default();
        loop {
            match self.try_upload(found).await {
                Ok(()) => return true,
                Err(UploadError::Permanent) => return false,
                Err(UploadError::Retry) => {}
            };
            tokio::time::sleep(backoff.next_delay(fastrand::f64())).await;
        }
    }

    async fn try_upload(&self, found: &ArtifactFile) -> Result<(), UploadError> {
        if let Some(sink) = &self.sink {
            sink.upload_artifact(&found.file, &found.artifact).await?;
        }
        if let Some(hub) = &self.hub
            && let Some(address) = hub.artifacts_url()
        {
            upload_to_hub(hub, &address, found).await?;
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

async fn upload_to_hub(hub: &Hub, address: &reqwest::Url, found: &ArtifactFile) -> Result<(), UploadError> {
    let Artifact { path, sha256, bytes } = &found.artifact;
    let client = http::client(hub).map_err(|_| UploadError::Retry)?;
    let declared = serde_json::json!({ "digest": sha256, "size": bytes, "name": path });
    let request = client.post(address.clone()).header(CONTENT_TYPE, "application/json").body(declared.to_string());
    let mut progress = send(request).await?;
    while !progress.complete {
        let body = read_chunk(&found.file, progress.offset).map_err(|_| UploadError::Permanent)?;
        if body.is_empty() && *bytes > 0 {
            return Err(UploadError::Permanent);
        }
        let mut url = address.clone();
        url.set_path(&format!("{}/{sha256}", address.path()));
        url.query_pairs_mut().append_pair("offset", &progress.offset.to_string());
        progress = send(client.put(url).header(CONTENT_TYPE, "application/octet-stream").body(body)).await?;
    }
    Ok(())
}

async fn send(request: reqwest::RequestBuilder) -> Result<Progress, UploadError> {
    let (status, body) = http::send(request).await.map_err(|_| UploadError::Retry)?;
    let progress = serde_json::from_slice(&body);
    match (status, progress) {
        // It goes on elsewhere than we thought.
        (StatusCode::OK | StatusCode::CONFLICT, Ok(progress)) => Ok(progress),
        (StatusCode::BAD_REQUEST | StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::PAYLOAD_TOO_LARGE, _) => {
            Err(UploadError::Permanent)
        }
        // The session is known there once its first message is.
        _ => Err(UploadError::Retry),
    }
}
