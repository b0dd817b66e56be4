//! Files of artifacts.
//!
//! ```text
//!   artifacts/
//!     0f/0f3c…          complete and verified
//!     parts/3f9c…-0f3c… incomplete, by session and digest, so that no session can corrupt the upload of another
//! ```

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures_util::{Stream, StreamExt as _, stream};
use ring::digest::{Context, SHA256};
use sabir_protocol::{Code, Refusal, SessionId};
use sabir_store::private;
use tokio::fs::{self, File, OpenOptions};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use super::too_large;
use crate::auth::token::{hex, sha256_hex};
use crate::error::{ApiError, StoreError, malformed};
use crate::extract::Runner;
use crate::quota::{Part, Quota};
use crate::state::AppState;
use crate::store::Artifact;

/// Size of one read.
const CHUNK: usize = 64 << 10;
/// Folder of incomplete uploads.
const PARTS: &str = "parts";
/// Age at which incomplete uploads are removed when the hub starts.
const MAX_PART_AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The folder of a hub's artifacts.
#[derive(Debug, Clone)]
pub(crate) struct ArtifactFiles {
    path: PathBuf,
    quota: Arc<Quota>,
}

/// Result of an upload request.
pub(super) enum WriteResult {
    /// The upload continues at this offset.
    WrongOffset(u64),
    /// This many bytes are stored.
    Partial(u64),
    /// All bytes are stored and verified.
    Complete,
}

impl ArtifactFiles {
    /// Opens the artifacts in the folder of a hub, removes abandoned uploads, and counts the bytes.
    pub(crate) fn open(folder: &Path, quota: Arc<Quota>) -> io::Result<Self> {
        let path = folder.join("artifacts");
        let mut bytes = 0;
        if path.exists() {
            private::tighten_folder(&path);
            for folder in std::fs::read_dir(&path)? {
                for file in std::fs::read_dir(folder?.path()).into_iter().flatten().flatten() {
                    bytes += size_on_open(&file.path(), &path.join(PARTS));
                }
            }
        }
        quota.set(Part::Artifacts, bytes);
        Ok(Self { path, quota })
    }

    /// Returns whether the size limit has space for this many bytes.
    pub(super) fn has_space(&self, size: u64) -> bool {
        let has_space = self.quota.reserve(Part::Artifacts, size);
        if has_space {
            self.quota.release(Part::Artifacts, size);
        }
        has_space
    }

    async fn remove_part(&self, part: &Path) -> io::Result<()> {
        let size = fs::metadata(part).await?.len();
        fs::remove_file(part).await?;
        self.quota.release(Part::Artifacts, size);
        Ok(())
    }

    fn complete_path(&self, digest: &str) -> PathBuf {
        self.path.join(digest.get(..2).unwrap_or_default()).join(digest)
    }

    fn part_path(&self, session: &SessionId, digest: &str) -> PathBuf {
        let session = sha256_hex(session.as_str().as_bytes());
        self.path.join(PARTS).join(format!("{session}-{digest}"))
    }

    /// Size of a complete artifact.
    pub(super) async fn size(&self, digest: &str) -> Option<u64> {
        fs::metadata(self.complete_path(digest)).await.ok().map(|metadata| metadata.len())
    }

    /// Size of an incomplete upload.
    pub(super) async fn partial_size(&self, session: &SessionId, digest: &str) -> u64 {
        fs::metadata(self.part_path(session, digest)).await.map_or(0, |metadata| metadata.len())
    }

    /// Bytes of a complete artifact.
    pub(super) async fn read(&self, digest: &str) -> Option<impl Stream<Item = io::Result<Bytes>> + Send + use<>> {
        let file = File::open(self.complete_path(digest)).await.ok()?;
        let chunks = stream::try_unfold(file, async |mut file| {
            let mut chunk = vec![0; CHUNK];
            let count = file.read(&mut chunk).await?;
            chunk.truncate(count);
            Ok::<_, io::Error>((count > 0).then_some((Bytes::from(chunk), file)))
        });
        Some(chunks)
    }
}

/// Size of a file; 0 if it was an abandoned upload, which is removed.
fn size_on_open(file: &Path, parts: &Path) -> u64 {
    let Ok(metadata) = std::fs::metadata(file) else { return 0 };
    let age = metadata.modified().ok().and_then(|modified| modified.elapsed().ok()).unwrap_or_default();
    let is_removed = file.starts_with(parts) && age > MAX_PART_AGE && std::fs::remove_file(file).is_ok();
    if is_removed { 0 } else { metadata.len() }
}

/// Refusal of bytes beyond the size limit.
pub(super) fn quota_exceeded(state: &AppState) -> ApiError {
    let limit = state.store.write.as_ref().and_then(|store| store.quota.limit()).unwrap_or_default();
    state.report(StoreError::Unavailable(format!("an artifact was refused: the size limit of {limit} bytes is reached")));
    let message = "no space for this artifact; the uploaded bytes are kept, and the upload can be continued later";
    Refusal::new(Code::Unavailable, message).into()
}

/// Appends bytes to an upload, and verifies the digest when it is complete.
pub(super) async fn write(
    Runner { state, client, session, .. }: &Runner,
    artifact: &Artifact,
    offset: u64,
    body: Body,
) -> Result<WriteResult, ApiError> {
    let files = &state.artifacts;
    let part = files.part_path(session, &artifact.digest);
    let stored = files.partial_size(session, &artifact.digest).await;
    if offset != stored {
        return Ok(WriteResult::WrongOffset(stored));
    }
    let io_error =
        |error: io::Error| ApiError(state.report(StoreError::Unavailable(format!("an artifact could not be written: {error}"))));
    private::create_folder(&files.path.join(PARTS)).map_err(io_error)?;
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    options.mode(0o600);
    let mut file = options.open(&part).await.map_err(io_error)?;
    // One request at a time appends; a concurrent one gets the offset at which the upload continues.
    let lock = file.try_clone().await.map_err(io_error)?.into_std().await;
    if lock.try_lock().is_err() || files.partial_size(session, &artifact.digest).await != stored {
        return Ok(WriteResult::WrongOffset(files.partial_size(session, &artifact.digest).await));
    }
    let mut size = stored;
    let mut chunks = body.into_data_stream();
    // Received bytes are kept even if the rest does not arrive.
    loop {
        let chunk = tokio::select! {
            biased;
            refusal = state.authenticator.until_revoked(&client.principal) => return Err(refusal.into()),
            chunk = timeout(3 * state.limits.request_timeout, chunks.next()) => chunk,
        };
        let Ok(Some(Ok(chunk))) = chunk else { break };
        size += chunk.len() as u64;
        if size > artifact.size {
            // Any of the bytes may be wrong.
            files.remove_part(&part).await.map_err(io_error)?;
            return Err(if artifact.size < state.limits.artifact_bytes {
                Refusal::new(Code::TooLarge, "more bytes than announced").into()
            } else {
                too_large(state)
            });
        }
        if !files.quota.reserve(Part::Artifacts, chunk.len() as u64) {
            file.flush().await.map_err(io_error)?;
            return Err(quota_exceeded(state));
        }
        file.write_all(&chunk).await.map_err(io_error)?;
        state.metrics.artifact_bytes.add(chunk.len() as u64);
    }
    file.flush().await.map_err(io_error)?;
    if size < artifact.size {
        return Ok(WriteResult::Partial(size));
    }
    file.sync_data().await.map_err(io_error)?;
    if digest_of(&part).await.map_err(io_error)? != artifact.digest {
        files.remove_part(&part).await.map_err(io_error)?;
        return Err(malformed("the bytes do not have this digest"));
    }
    let complete = files.complete_path(&artifact.digest);
    if let Some(parent) = complete.parent() {
        private::create_folder(parent).map_err(io_error)?;
    }
    // Another session may have uploaded the same bytes.
    let replaced = files.size(&artifact.digest).await.unwrap_or_default();
    fs::rename(&part, &complete).await.map_err(io_error)?;
    files.quota.release(Part::Artifacts, replaced);
    Ok(WriteResult::Complete)
}

async fn digest_of(path: &Path) -> io::Result<String> {
    let mut file = File::open(path).await?;
    let mut context = Context::new(&SHA256);
    let mut chunk = vec![0; CHUNK];
    loop {
        let count = file.read(&mut chunk).await?;
        if count == 0 {
            return Ok(hex(context.finish().as_ref()));
        }
        context.update(&chunk[..count]);
    }
}
