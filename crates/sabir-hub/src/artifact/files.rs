//! The bytes of artifacts on disk.
//!
//! ```text
//!   artifacts/
//!     0f/0f3c…          whole, and looked at
//!     parts/3f9c…-0f3c… begun; by session and digest, so that no session can spoil what another one sends
//! ```

use std::io;
use std::path::{Path, PathBuf};

use axum::body::Body;
use futures_util::StreamExt as _;
use futures_util::stream;
use ring::digest::{Context, SHA256, digest};
use sabir_protocol::{Code, Refusal, SessionId};
use tokio::fs::{self, File, OpenOptions};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use super::too_large;
use crate::auth::token::hexadecimal;
use crate::hub::{Hub, Refused, malformed};
use crate::log::{Artifact, Trouble};

/// So much of a file is read at once.
const CHUNK: usize = 64 << 10;

/// Where artifacts are.
#[derive(Debug, Clone)]
pub(crate) struct Folder(PathBuf);

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
    pub(crate) fn new(folder: &Path) -> Self {
        Self(folder.join("artifacts"))
    }

    fn whole(&self, digest: &str) -> PathBuf {
        self.0.join(digest.get(..2).unwrap_or_default()).join(digest)
    }

    fn part(&self, session: &SessionId, name: &str) -> PathBuf {
        let session = hexadecimal(digest(&SHA256, session.as_str().as_bytes()).as_ref());
        self.0.join("parts").join(format!("{session}-{name}"))
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
    pub(super) async fn open(&self, digest: &str) -> Option<Body> {
        let file = File::open(self.whole(digest)).await.ok()?;
        let chunks = stream::try_unfold(file, async |mut file| {
            let mut chunk = vec![0; CHUNK];
            let count = file.read(&mut chunk).await?;
            chunk.truncate(count);
            Ok::<_, io::Error>((count > 0).then_some((chunk, file)))
        });
        Some(Body::from_stream(chunks))
    }
}

fn failed(hub: &Hub, error: &io::Error) -> Refused {
    hub.trouble(Trouble::Unavailable(format!("an artifact could not be written: {error}"))).into()
}

/// Takes bytes from an offset on, and looks at the whole when it is there.
pub(super) async fn take(hub: &Hub, session: &SessionId, artifact: &Artifact, offset: u64, body: Body) -> Result<Taken, Refused> {
    let folder = &hub.artifacts;
    let part = folder.part(session, &artifact.digest);
    let begun = folder.begun(session, &artifact.digest).await;
    if offset != begun {
        return Ok(Taken::Elsewhere(begun));
    }
    let wrong = |error: io::Error| failed(hub, &error);
    fs::create_dir_all(folder.0.join("parts")).await.map_err(wrong)?;
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
    while let Ok(Some(Ok(chunk))) = timeout(3 * hub.limits.patience, chunks.next()).await {
        here += chunk.len() as u64;
        if here > artifact.size {
            // Nobody knows which of the bytes are wrong.
            fs::remove_file(&part).await.map_err(wrong)?;
            return Err(if artifact.size < hub.limits.artifact_bytes {
                Refusal::new(Code::TooLarge, "there are more bytes than were declared").into()
            } else {
                too_large(hub)
            });
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
        fs::remove_file(&part).await.map_err(wrong)?;
        return Err(malformed("the bytes do not have this digest"));
    }
    let whole = folder.whole(&artifact.digest);
    if let Some(parent) = whole.parent() {
        fs::create_dir_all(parent).await.map_err(wrong)?;
    }
    fs::rename(&part, &whole).await.map_err(wrong)?;
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
