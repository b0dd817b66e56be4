//! The hub's side of the runner protocol, see `docs/shell-protocol.md`.
//!
//! ```text
//!   frame ──► batch memory ──► decode ──► check numbers ──► MessageWriter::append ─ ─ ─► ack
//!             (limits all batches)                          (pipelined, in order)        (after the commit)
//! ```

pub(crate) mod http;
pub(crate) mod websocket;

use std::sync::Arc;

use axum::body::Bytes;
use sabir_protocol::batch::{self, NotABatch};
use sabir_protocol::envelope::read;
use sabir_protocol::{Code, Hello, MAX_MESSAGE, Order, Refusal, SessionId, Taken, VERSION, Welcome};
use tokio::sync::OwnedSemaphorePermit;

use crate::audit::AuditEntry;
use crate::error::StoreError;
use crate::extract::Runner;
use crate::now;
use crate::state::{AppState, ReportError as _, stopping};
use crate::store::{AppendRequest, AppendResult, OpenResult, encoded_size};

/// Maximum size of the pending commands in one welcome. Only sessions of earlier versions can have more.
const MAX_WELCOME_BYTES: usize = MAX_MESSAGE + MAX_MESSAGE / 2;
/// Maximum length of the reason in the outcome of a command, in characters.
const MAX_REASON_CHARS: usize = 2_000;

fn unsupported_version() -> Refusal {
    let refusal = Refusal::new(Code::Version, "the hub does not support this protocol version");
    Refusal { versions: vec![VERSION], ..refusal }
}

fn check_hello(hello: &Hello, session: &SessionId) -> Result<(), Refusal> {
    let invalid = |message: &str| Err(Refusal::new(Code::Malformed, message));
    if hello.session != *session {
        return invalid("the hello is for another session than the path");
    }
    check_writer(&hello.writer)?;
    if hello.takes.len() > 32 || hello.takes.iter().any(|kind| kind.len() > 64) {
        return invalid("takes has too many or too long kinds");
    }
    if [&hello.agent, &hello.shell].into_iter().flatten().any(|name| name.len() > 256) {
        return invalid("agent or shell is too long");
    }
    Ok(())
}

fn check_writer(writer: &str) -> Result<(), Refusal> {
    let is_valid = (1..=64).contains(&writer.len()) && writer.bytes().all(|byte| byte.is_ascii_graphic());
    is_valid.then_some(()).ok_or_else(|| Refusal::new(Code::Malformed, "a writer id has 1 to 64 visible ASCII characters"))
}

/// An opened session.
struct Opened {
    welcome: Welcome,
    /// Number of the connection.
    connection: u64,
}

/// Opens the session of a runner.
async fn open(runner: &Runner, hello: Hello, connection: bool) -> Result<Opened, Refusal> {
    let state = &runner.state;
    check_hello(&hello, &runner.session)?;
    match runner.store.messages.open_session(hello, connection).await.report(state)? {
        OpenResult::Welcome { epoch, last, connection, commands } => {
            let heartbeat_seconds = u32::try_from(state.limits.heartbeat.as_secs().max(1)).unwrap_or(u32::MAX);
            let max_batch_bytes = u32::try_from(state.limits.batch_bytes).unwrap_or(u32::MAX);
            let welcome = Welcome { epoch, last, heartbeat_seconds, max_batch_bytes, orders: fit_welcome(commands) };
            Ok(Opened { welcome, connection })
        }
        OpenResult::Refused(refusal) => {
            state.metrics.refused.add(1);
            Err(refusal)
        }
    }
}

/// The first commands that fit in a welcome, at least one.
fn fit_welcome(mut commands: Vec<Order>) -> Vec<Order> {
    let mut bytes = 0;
    let fits = |command: &&Order| {
        let is_first = bytes == 0;
        bytes += encoded_size(command);
        is_first || bytes <= MAX_WELCOME_BYTES
    };
    let count = commands.iter().take_while(fits).count();
    commands.truncate(count);
    commands
}

/// A checked batch, and its share of the batch memory.
struct CheckedBatch {
    request: AppendRequest,
    memory: OwnedSemaphorePermit,
}

/// Decodes a batch and checks its messages.
async fn check_batch(runner: &Runner, frame: &[u8], writer: &str, epoch: u32) -> Result<CheckedBatch, Refusal> {
    let Runner { state, session, .. } = runner;
    let limit = state.limits.batch_bytes;
    // Reserve memory for the uncompressed messages, whose size is in the header.
    let size = frame.get(20..24).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let kib = u32::try_from((size as usize).min(limit).div_ceil(1 << 10).max(1)).unwrap_or(u32::MAX);
    let memory = Arc::clone(&state.batch_memory).acquire_many_owned(kib).await.map_err(|_| stopping())?;
    let batch = batch::decode(frame, limit).map_err(|error| match error {
        NotABatch::Malformed(_) => Refusal::new(Code::Malformed, error.to_string()),
        NotABatch::TooLarge => Refusal::new(Code::TooLarge, format!("a batch may have at most {limit} bytes")),
    })?;
    let mut messages = Vec::with_capacity(batch.count as usize);
    for (seq, line) in (batch.first..).zip(batch.messages()) {
        check_message(line, session, seq).map_err(|error| Refusal::new(Code::Malformed, format!("message {seq}: {error}")))?;
        messages.push(Bytes::copy_from_slice(line));
    }
    let request = AppendRequest { session: session.clone(), writer: writer.to_owned(), epoch, first: batch.first, messages };
    Ok(CheckedBatch { request, memory })
}

fn check_message(line: &[u8], session: &SessionId, seq: u64) -> Result<(), &'static str> {
    if line.len() > MAX_MESSAGE {
        return Err("too long");
    }
    let number = read::check(line, session.as_str())?;
    if number == seq { Ok(()) } else { Err("wrong number") }
}

/// Counts the result of an append, and publishes new messages to the live cache.
fn finish_append(
    state: &AppState,
    request: &AppendRequest,
    result: Result<AppendResult, StoreError>,
) -> Result<AppendResult, Refusal> {
    let result = result.report(state)?;
    match &result {
        AppendResult::Stored { new, .. } => {
            let repeated = request.messages.len() - new;
            state.metrics.repeated_messages.add(repeated as u64);
            if let Some(lines) = request.messages.get(repeated..).filter(|lines| !lines.is_empty()) {
                state.metrics.batches.add(1);
                state.metrics.messages.add(lines.len() as u64);
                state.metrics.message_bytes.add(lines.iter().map(|line| line.len() as u64).sum());
                state.live.publish(&request.session, request.first + repeated as u64, lines);
            }
        }
        AppendResult::Gap { .. } => state.metrics.gaps.add(1),
        AppendResult::Refused(_) => state.metrics.refused.add(1),
    }
    Ok(result)
}

/// Stores and audits the outcome of a command.
async fn resolve_command(runner: &Runner, mut taken: Taken) -> Result<(), Refusal> {
    let state = &runner.state;
    if let Some(reason) = taken.reason.take() {
        taken.reason = Some(reason.chars().take(MAX_REASON_CHARS).collect());
    }
    let (number, accepted) = (taken.order, taken.accepted);
    // Outcomes of unknown or resolved commands are ignored, because runners may send them again after reconnecting.
    if runner.store.commands.resolve_command(&runner.session, taken, now()).await.report(state)? {
        let (session, order) = (Some(runner.session.as_str()), Some(number));
        let (who, what, accepted) = ("shell", "taken", Some(accepted));
        let entry = AuditEntry { who, what, session, order, accepted, ..AuditEntry::default() };
        state.check_audit(state.audit.append(&entry).await);
    }
    Ok(())
}
