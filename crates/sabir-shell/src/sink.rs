//! Delivery to a folder or an S3 bucket.
//!
//! ```text
//!  PREFIX/sessions/SESSION/
//!    epochs/00000001.json                                    epoch claim: {writer, epoch, after}
//!    log/00000001-000000000001-000000000812-SHA256.jsonl     messages 1 to 812
//!    messages.json, messages-0001.json, …                    compacted: a new part every 50 MB, and at the end
//! ```
//!
//! Object stores cannot append, so messages are stored as immutable segments by conditional create. The name contains the hash
//! of the content: if a response is lost, the object is ours once a HEAD finds it (a 409 alone may mean that nothing was
//! stored). The end of the log is derived from the listing.
//!
//! A writer claims its epoch with the sequence number after which it writes. Messages of earlier epochs count only up to there,
//! so a fenced writer does no harm, and stops when it sees the claim. Messages that the earlier writer delivered to the hub but
//! not here are backfilled from the hub.

mod artifacts;
mod backfill;
mod compact;
mod names;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::TryStreamExt as _;
use object_store::aws::AmazonS3Builder;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, PutPayload, RetryConfig};
use sabir_protocol::envelope::read;
use sabir_protocol::{Code, Refusal, SessionId};
use sabir_store::private;
use tokio::sync::watch;
use tokio::time::{sleep, timeout_at};

use crate::delivery::Backoff;
use crate::error::{RunnerError, Source};
use crate::hub::Hub;
use crate::outbox::{Outbox, Page, PageReader, Position};
use crate::timer::deadline_elapsed;
use crate::uploader::DeliveryOutcome;
use names::{EpochClaim, ObjectNames, Segment};

/// A segment is written at this number of messages, size or age.
const MAX_SEGMENT_MESSAGES: u32 = 5_000;
const MAX_SEGMENT_BYTES: usize = 4 << 20;
const MAX_SEGMENT_AGE: Duration = Duration::from_secs(5);
/// Attempts to read the start position.
const POSITION_ATTEMPTS: u32 = 5;
/// Size of a compacted part.
const PART_BYTES: usize = 50_000_000;

/// A folder or bucket that stores the session.
#[derive(Debug, Clone)]
pub struct StorageSink {
    store: Arc<dyn ObjectStore>,
    /// Root of a local store.
    folder: Option<PathBuf>,
    names: ObjectNames,
    /// Display name.
    title: String,
    /// Size of a compacted part.
    part_bytes: usize,
    /// Source for backfilling.
    hub: Option<Hub>,
}

/// Why delivery stopped.
enum SinkError {
    Retry,
    Refused(Refusal),
    Failed(RunnerError),
}

impl From<Error> for SinkError {
    fn from(_: Error) -> Self {
        Self::Retry
    }
}

impl StorageSink {
    /// A local folder, created if missing.
    pub fn folder(path: &std::path::Path, session: &SessionId) -> Result<Self, RunnerError> {
        let failed = |source| RunnerError::SinkFolder { path: path.to_owned(), source };
        let own = path.join("sessions").join(session.in_address());
        private::create_folder(&own).map_err(|error| failed(Source::new(error)))?;
        let subfolders = std::fs::read_dir(&own).into_iter().flatten().flatten().map(|entry| entry.path());
        subfolders.chain([own.clone()]).filter(|path| path.is_dir()).for_each(|folder| private::tighten_folder(&folder));
        let store = LocalFileSystem::new_with_prefix(path).map_err(|error| failed(Source::new(error)))?.with_fsync(true);
        let sink = Self::new(Arc::new(store), "", session, path.display().to_string());
        Ok(Self { folder: Some(path.to_owned()), ..sink })
    }

    /// A bucket of S3 or a compatible store, configured by the standard AWS environment variables.
    pub fn bucket(bucket: &str, prefix: &str, session: &SessionId) -> Result<Self, RunnerError> {
        crate::hub::install_crypto_provider();
        let is_plain = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"]
            .iter()
            .any(|name| std::env::var(name).is_ok_and(|value| value.starts_with("http://")));
        let retry = RetryConfig { max_retries: 3, retry_timeout: Duration::from_secs(20), ..RetryConfig::default() };
        // Like `AmazonS3Builder::from_env`, but `sabir_run::secrets::protect` removed the keys from the environment.
        let variables = sabir_run::secrets::variables()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(name, _)| name.starts_with("AWS_"))
            .filter_map(|(name, value)| Some((name.to_ascii_lowercase().parse().ok()?, value)));
        let builder = variables.fold(AmazonS3Builder::new(), |builder, (key, value)| builder.with_config(key, value));
        let store = builder.with_bucket_name(bucket).with_allow_http(is_plain).with_retry(retry).build();
        let store = store.map_err(|error| RunnerError::SinkBucket { bucket: bucket.to_owned(), source: Source::new(error) })?;
        Ok(Self::new(Arc::new(store), prefix, session, format!("s3://{bucket}")))
    }

    fn new(store: Arc<dyn ObjectStore>, prefix: &str, session: &SessionId, title: String) -> Self {
        Self { store, folder: None, names: ObjectNames::new(prefix, session), title, part_bytes: PART_BYTES, hub: None }
    }

    /// Restricts a local file and its folder to the owner.
    fn tighten(&self, name: &Path) {
        let Some(folder) = &self.folder else { return };
        let file = folder.join(name.as_ref());
        file.parent().into_iter().chain([file.as_path()]).for_each(private::tighten);
    }

    /// Sets the size of compacted parts.
    #[must_use]
    pub fn with_part_bytes(self, bytes: usize) -> Self {
        Self { part_bytes: bytes, ..self }
    }

    /// Sets the hub to backfill from.
    #[must_use]
    pub fn with_hub(self, hub: Option<Hub>) -> Self {
        Self { hub, ..self }
    }

    /// Display name.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Start of a new outbox, after all stored messages; `None` if there are none. Errors are retried and then returned: a
    /// runner with a wrong start would be fenced later.
    pub async fn start_position(&self) -> Result<Option<Position>, RunnerError> {
        let mut backoff = Backoff::default();
        for _ in 1..POSITION_ATTEMPTS {
            if let Ok(position) = self.read_position().await {
                return Ok(position);
            }
            sleep(backoff.next_delay(fastrand::f64())).await;
        }
        let failed = |error| RunnerError::SinkUnreadable { sink: self.title.clone(), source: Source::new(error) };
        self.read_position().await.map_err(failed)
    }

    async fn read_position(&self) -> Result<Option<Position>, Error> {
        let claims = self.claims().await?;
        let last = names::last(&claims, &self.segments().await?);
        Ok(claims.last().map(|claim| Position { epoch: claim.epoch + 1, after: last.max(claim.after) }))
    }

    /// Delivers until everything is stored after `finish` was set, its deadline passes, or the writer is fenced.
    pub async fn run(self, outbox: Arc<Outbox>, mut finish: watch::Receiver<Option<Instant>>) -> DeliveryOutcome {
        let mut reader = PageReader::new(Arc::clone(&outbox));
        let mut acked = None;
        let mut backoff = Backoff::default();
        loop {
            let before = acked;
            let done = tokio::select! {
                done = self.deliver(&outbox, &mut reader, &mut acked, finish.clone()) => done,
                () = deadline_elapsed(finish.clone()) => return unsent(&outbox, acked),
            };
            match done {
                Ok(()) => return DeliveryOutcome::Delivered,
                Err(SinkError::Refused(refusal)) => return DeliveryOutcome::Refused(refusal),
                Err(SinkError::Failed(failure)) => return DeliveryOutcome::Failed(failure),
                Err(SinkError::Retry) => {}
            }
            if acked > before {
                // Progress resets the backoff.
                backoff = Backoff::default();
            }
            let delay = backoff.next_delay(fastrand::f64());
            tokio::select! {
                () = sleep(delay) => {}
                () = deadline_elapsed(finish.clone()) => return unsent(&outbox, acked),
            }
            finish.borrow_and_update();
        }
    }

    async fn deliver(
        &self,
        outbox: &Arc<Outbox>,
        reader: &mut PageReader,
        acked: &mut Option<u64>,
        mut finish: watch::Receiver<Option<Instant>>,
    ) -> Result<(), SinkError> {
        let mut last = self.claim(outbox).await?;
        if last < outbox.after() {
            last = self.backfill(outbox, last).await?;
        }
        *acked = Some(last);
        let mut since_compaction = 0;
        loop {
            let is_finishing = finish.borrow_and_update().is_some();
            if !is_finishing {
                self.wait_for_batch(outbox, last, &mut finish).await;
            }
            while let Some(page) =
                reader.read_page(last + 1, MAX_SEGMENT_MESSAGES, MAX_SEGMENT_BYTES).map_err(SinkError::Failed)?
            {
                self.put_segment(outbox, &page).await?;
                last = page.last();
                *acked = Some(last);
                since_compaction += page.lines.len();
                self.check_fence(outbox).await?;
                if since_compaction >= self.part_bytes {
                    self.compact(false).await?;
                    since_compaction = 0;
                }
            }
            // After a disk failure, only durable messages are delivered.
            if is_finishing && last >= outbox.last_durable() {
                self.check_fence(outbox).await?;
                return self.compact(true).await;
            }
            // Lets the caller check the deadline.
            tokio::task::yield_now().await;
        }
    }

    /// Waits until a segment is full, messages reach their maximum age, or delivery finishes.
    async fn wait_for_batch(&self, outbox: &Outbox, last: u64, finish: &mut watch::Receiver<Option<Instant>>) {
        let mut synced = outbox.synced();
        while outbox.last() <= last {
            tokio::select! {
                cursor = outbox.synced_after(synced), if outbox.write_error().is_none() => synced = cursor,
                _ = finish.changed() => return,
            }
        }
        let due = tokio::time::Instant::now() + MAX_SEGMENT_AGE;
        while outbox.last().saturating_sub(last) < u64::from(MAX_SEGMENT_MESSAGES) {
            tokio::select! {
                more = timeout_at(due, outbox.synced_after(synced)), if outbox.write_error().is_none() => match more {
                    Ok(cursor) => synced = cursor,
                    Err(_) => return,
                },
                _ = finish.changed() => return,
                () = sleep(MAX_SEGMENT_AGE) => return,
            }
        }
    }

    /// Claims the epoch. Returns the last stored sequence number.
    async fn claim(&self, outbox: &Outbox) -> Result<u64, SinkError> {
        let (claims, segments) = (self.claims().await?, self.segments().await?);
        let stored = names::last(&claims, &segments);
        if let Some(claim) = claims.iter().find(|claim| claim.epoch >= outbox.epoch()) {
            // Our claim, from before a disconnect.
            let is_own = claim.writer == outbox.writer() && claim.epoch == outbox.epoch();
            return if is_own { Ok(stored.max(claim.after)) } else { Err(fenced(claim.epoch)) };
        }
        // Messages that an earlier version cut at line breaks are stored again.
        let stored = stored.min(self.last_valid(&claims, &segments).await?.max(outbox.after()));
        // A session continued from another machine is stored without a gap if the hub can backfill.
        let is_contiguous = stored >= outbox.after() || self.can_backfill(stored).await?;
        let after = if is_contiguous { stored } else { outbox.after() };
        let own = EpochClaim { writer: outbox.writer().to_owned(), epoch: outbox.epoch(), after, checked: true };
        let bytes = serde_json::to_vec(&own).unwrap_or_default();
        match self.create(&self.names.claim(own.epoch).ok_or_else(invalid_name)?, bytes).await {
            // Another runner claimed the epoch at the same time.
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Err(SinkError::Retry),
            created => Ok(created.map(|()| after)?),
        }
    }

    /// Checks that no later epoch is claimed.
    async fn check_fence(&self, outbox: &Outbox) -> Result<(), SinkError> {
        let claims = self.claim_names().await?;
        match claims.iter().find(|epoch| **epoch > outbox.epoch()) {
            None => Ok(()),
            Some(epoch) => Err(fenced(*epoch)),
        }
    }

    /// Stores a segment.
    async fn put_segment(&self, outbox: &Outbox, page: &Page) -> Result<(), SinkError> {
        let segment = Segment { epoch: outbox.epoch(), first: page.first, last: page.last(), sha256: sha256(&page.lines) };
        let name = self.names.segment(&segment).ok_or_else(invalid_name)?;
        match self.create(&name, page.lines.clone()).await {
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => self.verify_object(&name, page.lines.len()).await,
            created => Ok(created?),
        }
    }

    /// Verifies that an object exists that the store reported as existing. Its name contains the hash of its content, so it is
    /// ours and only a response was lost. A store may also answer 409 for concurrent requests and store nothing.
    async fn verify_object(&self, name: &Path, size: usize) -> Result<(), SinkError> {
        match self.store.head(name).await {
            Ok(found) if found.size == size as u64 => Ok(()),
            Ok(found) => Err(SinkError::Failed(RunnerError::SinkObjectSize {
                sink: self.title.clone(),
                object: name.to_string(),
                actual: found.size,
                expected: size as u64,
            })),
            Err(error) => Err(error.into()),
        }
    }

    /// Last message before the first invalid line. Reads only segments of versions that did not validate.
    async fn last_valid(&self, claims: &[EpochClaim], segments: &[Segment]) -> Result<u64, SinkError> {
        let is_checked = |epoch| claims.iter().any(|claim| claim.epoch == epoch && claim.checked);
        for segment in segments.iter().filter(|segment| !is_checked(segment.epoch)) {
            let to = segment.last.min(names::limit(claims, segment.epoch));
            let name = self.names.segment(segment).ok_or_else(invalid_name)?;
            let bytes = self.store.get(&name).await?.bytes().await?;
            let lines = bytes.split(|byte| *byte == b'\n');
            let mut lines_by_seq = (segment.first..=to).zip(lines);
            let wrong = lines_by_seq.find(|(seq, line)| read::check(line, self.names.session()) != Ok(*seq));
            if let Some((seq, _)) = wrong {
                return Ok(seq - 1);
            }
        }
        Ok(u64::MAX)
    }

    async fn create(&self, name: &Path, bytes: Vec<u8>) -> Result<(), Error> {
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        self.store.put_opts(name, PutPayload::from(bytes), options).await?;
        self.tighten(name);
        Ok(())
    }

    async fn claim_names(&self) -> Result<Vec<u32>, Error> {
        let Some(folder) = self.names.claims() else { return Ok(Vec::new()) };
        let found: Vec<_> = self.store.list(Some(&folder)).try_collect().await?;
        let mut epochs: Vec<u32> = found.iter().filter_map(|meta| names::epoch_of(&meta.location)).collect();
        epochs.sort_unstable();
        Ok(epochs)
    }

    /// All claims, by epoch.
    async fn claims(&self) -> Result<Vec<EpochClaim>, Error> {
        let mut claims = Vec::new();
        for name in self.claim_names().await?.into_iter().filter_map(|epoch| self.names.claim(epoch)) {
            let bytes = self.store.get(&name).await?.bytes().await?;
            claims.extend(serde_json::from_slice::<EpochClaim>(&bytes).ok());
        }
        Ok(claims)
    }

    /// All segments, in order.
    async fn segments(&self) -> Result<Vec<Segment>, Error> {
        let Some(folder) = self.names.log() else { return Ok(Vec::new()) };
        let found: Vec<_> = self.store.list(Some(&folder)).try_collect().await?;
        let mut segments: Vec<Segment> = found.iter().filter_map(|meta| Segment::of(&meta.location)).collect();
        segments.sort_by_key(|segment| (segment.epoch, segment.first, std::cmp::Reverse(segment.last)));
        Ok(segments)
    }
}

fn fenced(epoch: u32) -> SinkError {
    SinkError::Refused(Refusal::new(Code::Fenced, format!("somebody else writes this session, from epoch {epoch} on")))
}

fn invalid_name() -> SinkError {
    SinkError::Failed(RunnerError::InvalidObjectName)
}

fn unsent(outbox: &Outbox, acked: Option<u64>) -> DeliveryOutcome {
    DeliveryOutcome::Unsent(outbox.last().saturating_sub(acked.unwrap_or(outbox.after())))
}

/// SHA-256 in hexadecimal.
fn sha256(bytes: &[u8]) -> String {
    hex(ring::digest::digest(&ring::digest::SHA256, bytes).as_ref())
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}
