//! The bytes of artifacts on disk.
//!
//! ```text
//!   artifacts/
//!     0f/0f3c…          whole, and looked at
//!     parts/3f9c…-0f3c… begun; by session and digest, so that no session can spoil what another one sends
//! ```

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures_util::{Stream, StreamExt as _, stream};
use ring::digest::{Context, SHA256, digest};
use sabir_protocol::{Code, Refusal, SessionId};
use sabir_store::private;
use tokio::fs::{self, File, OpenOptions};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use super::too_large;
use crate::auth::token::hexadecimal;
use crate::error::StoreError;
use crate::hub::{Asker, Hub, Refused, malformed};
use crate::quota::{Part, Quota};
use crate::store::Artifact;

/// So much of a file is read at once.
const CHUNK: usize = 64 << 10;
const PARTS: &str = "parts";

/// Bytes of an upload that nobody went on with for so long are removed when the hub starts.
const ABANDONED: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Where artifacts are.
#[derive(Debug, Clone)]
pub(crate) struct Folder {
    path: PathBuf,
    quota: Arc<Quota>,
}

/// What became of some bytes.
pub(super) enum Taken {
    /// They do not go on where the ones before end, which is here.
    Elsewhere(u64),
    /// There are more to come.
    Part(u64),
    /// That was all of it.
    Whole,
}

impl Folder {
    /// The artifacts of a hub. Counts their bytes.
    pub(crate) fn open(folder: &Path, quota: Arc<Quota>) -> io::Result<Self> {
        let path = folder.join("artifacts");
        let mut bytes = 0;
        if path.exists() {
            private::tighten_folder(&path);
            for folder in std::fs::read_dir(&path)? {
                for file in std::fs::read_dir(folder?.path()).into_iter().flatten().flatten() {
                    bytes += kept(&file.path(), &path.join(PARTS));
                }
            }
        }
        quota.set(Part::Artifacts, bytes);
        Ok(Self { path, quota })
    }

    /// Whether an artifact of this size could be kept now.
    pub(super) fn has_room(&self, size: u64) -> bool {
        let has_room = self.quota.reserve(Part::Artifacts, size);
        if has_room {
            self.quota.release(Part::Artifacts, size);
        }
        has_room
    }

    /// Removes bytes that turned out to be useless.
    async fn remove(&self, part: &Path) -> io::Result<()> {
        let size = fs::metadata(part).await?.len();
        fs::remove_file(part).await?;
        self.quota.release(Part::Artifacts, size);
        Ok(())
    }

    fn whole(&self, digest: &str) -> PathBuf {
        self.path.join(digest.get(..2).unwrap_or_default()).join(digest)
    }

    fn part(&self, session: &SessionId, name: &str) -> PathBuf {
        let session = hexadecimal(digest(&SHA256, session.as_str().as_bytes()).as_ref());
        self.path.join(PARTS).join(format!("{session}-{name}"))
    }

    /// The size of a whole artifact.
    pub(super) async fn size(&self, digest: &str) -> Option<u64> {
        fs::metadata(self.whole(digest)).await.ok().map(|about| about.len())
    }

    /// How many bytes of an artifact have come.
    pub(super) async fn begun(&self, session: &SessionId, digest: &str) -> u64 {
        fs::metadata(self.part(session, digest)).await.map_or(0, |about| about.len())
    }

    /// The bytes of a whole artifact.
    pub(super) async fn read(&self, digest: &str) -> Option<impl Stream<Item = io::Result<Bytes>> + Send + use<>> {
        let file = File::open(self.whole(digest)).await.ok()?;
        let chunks = stream::try_unfold(file, async |mut file| {
            let mut chunk = vec![0; CHUNK];
            let count = file.read(&mut chunk).await?;
            chunk.truncate(count);
            Ok::<_, io::Error>((count > 0).then_some((Bytes::from(chunk), file)))
        });
        Some(chunks)
    }
}

/// The bytes that a file takes after an abandoned upload was removed.
fn kept(file: &Path, parts: &Path) -> u64 {
    let Ok(about) = std::fs::metadata(file) else { return 0 };
    let age = about.modified().ok().and_then(|modified| modified.elapsed().ok()).unwrap_or_default();
    let is_removed = file.starts_with(parts) && age > ABANDONED && std::fs::remove_file(file).is_ok();
    if is_removed { 0 } else { about.len() }
}

/// Refuses an artifact that there is no space for.
pub(super) fn full(hub: &Hub) -> Refused {
    let what = "the hub has no room for this artifact; what was sent stays, and the rest can be sent when there is room";
    let limit = hub.store.write.as_ref().and_then(|write| write.quota.limit()).unwrap_or_default();
    // The operator hears of it as of a full disk.
    let _ = hub.trouble(StoreError::Unavailable(format!("an artifact was refused: the hub keeps at most {limit} bytes")));
    Refusal::new(Code::Unavailable, what).into()
}

fn failed(hub: &Hub, error: &io::Error) -> Refused {
    hub.trouble(StoreError::Unavailable(format!("an artifact could not be written: {error}"))).into()
}

/// Takes bytes from an offset on, and looks at the whole when it is there.
pub(super) async fn take(
    hub: &Hub,
    session: &SessionId,
    asker: &Asker,
    artifact: &Artifact,
    offset: u64,
    body: Body,
) -> Result<Taken, Refused> {
    let folder = &hub.artifacts;
    let part = folder.part(session, &artifact.digest);
    let begun = folder.begun(session, &artifact.digest).await;
    if offset != begun {
        return Ok(Taken::Elsewhere(begun));
    }
    let wrong = |error: io::Error| failed(hub, &error);
    private::create_folder(&folder.path.join(PARTS)).map_err(wrong)?;
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    options.mode(0o600);
    let mut file = options.open(&part).await.map_err(wrong)?;
    // One writer at a time, whoever asks; the other one hears that it goes on elsewhere.
    let lock = file.try_clone().await.map_err(wrong)?.into_std().await;
    if lock.try_lock().is_err() || folder.begun(session, &artifact.digest).await != begun {
        return Ok(Taken::Elsewhere(folder.begun(session, &artifact.digest).await));
    }
    let mut here = begun;
    let mut chunks = body.into_data_stream();
    // What came stays, also when the rest does not come.
    loop {
        let chunk = tokio::select! {
            biased;
            refusal = hub.gate.turned_away(&asker.visitor) => return Err(refusal.into()),
            chunk = timeout(3 * hub.limits.patience, chunks.next()) => chunk,
        };
        let Ok(Some(Ok(chunk))) = chunk else { break };
        here += chunk.len() as u64;
        if here > artifact.size {
            // Nobody knows which of the bytes are wrong.
            folder.remove(&part).await.map_err(wrong)?;
            return Err(if artifact.size < hub.limits.artifact_bytes {
                Refusal::new(Code::TooLarge, "there are more bytes than were declared").into()
            } else {
                too_large(hub)
            });
        }
        if !folder.quota.reserve(Part::Artifacts, chunk.len() as u64) {
            file.flush().await.map_err(wrong)?;
            return Err(full(hub));
        }
        file.write_all(&chunk).await.map_err(wrong)?;
        hub.counts.artifact_bytes.add(chunk.len() as u64);
    }
    file.flush().await.map_err(wrong)?;
    if here < artifact.size {
        return Ok(Taken::Part(here));
    }
    file.sync_data().await.map_err(wrong)?;
    if digest_of(&part).await.map_err(wrong)? != artifact.digest {
        folder.remove(&part).await.map_err(wrong)?;
        return Err(malformed("the bytes do not have this digest"));
    }
    let whole = folder.whole(&artifact.digest);
    if let Some(parent) = whole.parent() {
        private::create_folder(parent).map_err(wrong)?;
    }
    // Another session may have brought the same bytes.
    let replaced = folder.size(&artifact.digest).await.unwrap_or_default();
    fs::rename(&part, &whole).await.map_err(wrong)?;
    folder.quota.release(Part::Artifacts, replaced);
    Ok(Taken::Whole)
}

async fn digest_of(path: &Path) -> io::Result<String> {
    let mut file = File::open(path).await?;
    let mut context = Context::new(&SHA256);
    let mut chunk = vec![0; CHUNK];
    loop {
        let count = file.read(&mut chunk).await?;
        if count == 0 {
            return Ok(hexadecimal(context.finish().as_ref()));
        }
        context.update(&chunk[..count]);
    }
}
