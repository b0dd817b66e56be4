//! Artifacts: files that a session leaves. They are announced in the log at once and uploaded later, addressed by SHA-256.
//!
//! Content that the target has is not uploaded again, and interrupted uploads are resumed.

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

use crate::RunnerError;
use crate::delivery::Backoff;
use crate::hub::Hub;
use crate::sink::{StorageSink, hex};
use crate::timer::deadline_elapsed;
use crate::transport::http;

/// Size of an upload request.
const CHUNK_BYTES: usize = 8 << 20;
/// Limit of files per search.
const MAX_ARTIFACTS: usize = 10_000;

/// Finds artifacts by glob patterns.
#[derive(Debug, Clone)]
pub struct ArtifactFinder {
    root: PathBuf,
    globs: GlobSet,
}

/// An artifact on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactFile {
    /// Path of the file.
    pub file: PathBuf,
    /// Its description in the log.
    pub artifact: Artifact,
}

impl ArtifactFinder {
    /// Matches files below `root` against patterns such as `dist/*.tgz` or `**/*.log`.
    pub fn new(root: PathBuf, patterns: &[String]) -> Result<Self, RunnerError> {
        let mut globs = GlobSetBuilder::new();
        let invalid = |error: globset::Error| RunnerError::ArtifactPattern(error.to_string());
        for pattern in patterns {
            globs.add(GlobBuilder::new(pattern).literal_separator(true).build().map_err(invalid)?);
        }
        Ok(Self { root, globs: globs.build().map_err(invalid)? })
    }

    /// Finds the files that exist now. Symlinks are not followed: they may point outside of `root`.
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
                    // Unreadable files are skipped.
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

/// Reads up to [`CHUNK_BYTES`] from `offset`.
pub(crate) fn read_chunk(path: &Path, offset: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::new();
    file.take(CHUNK_BYTES as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Why an upload failed.
pub(crate) enum UploadError {
    /// Temporary.
    Retry,
    /// The file changed, or the target rejects it.
    Permanent,
}

/// Uploads artifacts to the hub and the sink.
#[derive(Debug)]
pub struct ArtifactUploader {
    /// Hub, if it stores artifacts.
    pub hub: Option<Hub>,
    /// Folder or bucket.
    pub sink: Option<StorageSink>,
    /// Artifacts to upload. Closing the channel ends the uploader.
    pub files: mpsc::UnboundedReceiver<ArtifactFile>,
    /// Deadline, once the session ends.
    pub finish: watch::Receiver<Option<Instant>>,
}

impl ArtifactUploader {
    /// Uploads artifacts until the channel is closed. Returns the paths of those that failed.
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
            }
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

/// Upload progress at the hub.
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
        // The hub reports a different offset.
        (StatusCode::OK | StatusCode::CONFLICT, Ok(progress)) => Ok(progress),
        (StatusCode::BAD_REQUEST | StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::PAYLOAD_TOO_LARGE, _) => {
            Err(UploadError::Permanent)
        }
        // Includes 404: the hub knows the session only after its first message.
        _ => Err(UploadError::Retry),
    }
}
