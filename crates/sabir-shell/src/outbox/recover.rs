//! Recovery scan: derives the state of a session from its outbox.

use memchr::memmem::Finder;
use sabir_core::event::{EventKind, Final, Session, Started};
use sabir_protocol::SessionId;
use sabir_protocol::envelope::read::{Events, Message};
use sabir_store::{Cursor, Damage, Kind, Reader, Record, RunFolder};

use super::repair::{MessageAssembler, Rebuild, Repair, Slot, SlotVisitor};
use super::{INDEX_INTERVAL, IndexEntry, Meta, SCHEMA};
use crate::error::{RunnerError, Source};

/// State of an outbox when it was opened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OutboxState {
    /// Sequence number of the last message.
    pub last: u64,
    /// Number of the last command handled.
    pub last_command: u64,
    /// The last run.
    pub run: Option<LastRun>,
    /// The earlier runner had delivered everything.
    pub delivered: bool,
}

/// The last run in an outbox.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LastRun {
    /// Run id in its events.
    pub run_id: String,
    /// Agent id.
    pub agent: String,
    /// Number of events.
    pub events: u64,
    /// The agent's own session id.
    pub agent_session: Option<String>,
    /// Prompt, if logged.
    pub prompt: Option<String>,
    /// Final answer.
    pub answer: Option<String>,
    /// The `exited` event as JSON.
    pub exited: Option<String>,
    /// The run's last message is present. A run with `exited` that is not complete lacks only derived messages.
    pub is_complete: bool,
}

impl LastRun {
    /// The runner was killed during the run.
    pub fn is_interrupted(&self) -> bool {
        self.exited.is_none()
    }
}

/// Returns whether there is any record.
pub(super) fn has_records(folder: &RunFolder) -> Result<bool, RunnerError> {
    let mut reader = Reader::of(folder.clone())?;
    let first = reader.next().map_err(|error| unreadable(folder, error))?;
    Ok(first.is_some())
}

fn unreadable(folder: &RunFolder, error: std::io::Error) -> RunnerError {
    RunnerError::OutboxScan { path: folder.path().to_owned(), source: Source::new(error) }
}

/// Result of a scan.
pub(super) struct ScannedOutbox {
    pub(super) meta: Meta,
    pub(super) state: OutboxState,
    pub(super) index: Vec<IndexEntry>,
    /// Record before the first valid message: the last finished rebuild.
    pub(super) origin: Cursor,
    /// Needs a rebuild before it can be read.
    pub(super) is_damaged: bool,
    /// Unreadable bytes at the end.
    pub(super) torn_bytes: u64,
}

/// A section of the outbox: all of it, or a rebuild.
struct Section {
    meta: Meta,
    origin: Cursor,
    messages: MessageAssembler,
    scanner: StateScanner,
    index: Vec<IndexEntry>,
}

impl Section {
    fn new(meta: Meta, origin: Cursor) -> Self {
        let (messages, mut scanner) = (MessageAssembler::new(&meta), StateScanner::new());
        scanner.state.last = meta.after;
        Self { meta, origin, messages, scanner, index: Vec::new() }
    }

    /// Calls `visit` with the assembler and a visitor that updates the state and index of this section.
    fn with(
        &mut self,
        before: Cursor,
        visit: impl FnOnce(&mut MessageAssembler, &mut SlotVisitor<'_>) -> Result<(), RunnerError>,
    ) -> Result<(), RunnerError> {
        let Self { messages, scanner, index, .. } = self;
        visit(messages, &mut |item| {
            scanner.state.last += 1;
            scanner.state.delivered = false;
            if scanner.state.last.is_multiple_of(INDEX_INTERVAL) {
                index.push(IndexEntry { message: scanner.state.last, before });
            }
            match item {
                Slot::Message(payload) => scanner.message(payload),
                Slot::Lost => Ok(()),
            }
        })
    }
}

/// Scans an outbox from its beginning.
pub(super) fn scan(folder: &RunFolder, session: &SessionId) -> Result<ScannedOutbox, RunnerError> {
    let (mut log, mut rebuild): (Option<Section>, Option<Section>) = (None, None);
    let mut before = Cursor::START;
    let damage = each_record(folder, Cursor::START, |record, missing| {
        if let Some(section) = rebuild.as_mut().or(log.as_mut()) {
            section.messages.missing(missing);
        }
        match (record.kind, rebuild.as_mut().or(log.as_mut())) {
            (Kind::Meta, _) => match serde_json::from_slice::<Meta>(record.payload) {
                Ok(meta) if meta.schema != SCHEMA || meta.session != *session => {
                    return Err(RunnerError::OutboxMismatch { path: folder.path().to_owned(), session: session.clone() });
                }
                Ok(meta) if meta.rebuild == Some(Rebuild::Begun) => rebuild = Some(Section::new(meta, record.cursor)),
                Ok(meta) if meta.rebuild == Some(Rebuild::Done) && rebuild.is_some() => log = rebuild.take(),
                meta => {
                    rebuild = None;
                    let delivered = meta.as_ref().is_ok_and(|meta| meta.delivered);
                    if let (None, Ok(meta)) = (&log, &meta) {
                        log = Some(Section::new(meta.clone(), Cursor::START));
                    }
                    if let (Some(log), Ok(meta)) = (&mut log, &meta) {
                        log.with(before, |messages, visit_slot| messages.start_epoch(meta, visit_slot))?;
                    }
                    log.iter_mut().for_each(|log| log.scanner.state.delivered = delivered);
                }
            },
            (Kind::Message, Some(section)) => {
                section.with(before, |messages, visit_slot| messages.record(record.payload, visit_slot))?;
            }
            (Kind::Message, None) => return Err(missing_meta(folder)),
            _ => {}
        }
        before = record.cursor;
        Ok(())
    })?;
    let mut log = log.ok_or_else(|| missing_meta(folder))?;
    log.with(before, MessageAssembler::end)?;
    let Section { meta, origin, messages, scanner, index } = log;
    let torn_bytes = damage.torn_bytes + damage.zero_bytes;
    Ok(ScannedOutbox { meta, state: scanner.state, index, origin, is_damaged: messages.is_damaged, torn_bytes })
}

/// Passes all messages of a damaged outbox before `epoch` to `visit_slot`. Returns the repair.
pub(super) fn replay(
    folder: &RunFolder,
    log: &ScannedOutbox,
    epoch: u32,
    visit_slot: &mut SlotVisitor<'_>,
) -> Result<Repair, RunnerError> {
    let mut messages = MessageAssembler::new(&log.meta);
    // Unfinished rebuilds are ignored.
    let mut is_counted = true;
    each_record(folder, log.origin, |record, missing| {
        if record.cursor.epoch >= epoch {
            return Ok(());
        }
        messages.missing(missing);
        match record.kind {
            Kind::Meta => {
                if let Ok(meta) = serde_json::from_slice::<Meta>(record.payload) {
                    is_counted = meta.rebuild != Some(Rebuild::Begun);
                    messages.start_epoch(&meta, visit_slot)?;
                }
                Ok(())
            }
            Kind::Message if is_counted => messages.record(record.payload, visit_slot),
            _ => Ok(()),
        }
    })?;
    messages.end(visit_slot)?;
    Ok(messages.repair)
}

/// Calls `visit` with each record after `after` and the number of records missing before it. Returns the damage.
fn each_record(
    folder: &RunFolder,
    after: Cursor,
    mut visit: impl FnMut(&Record<'_>, u64) -> Result<(), RunnerError>,
) -> Result<Damage, RunnerError> {
    let mut reader = if after == Cursor::START { Reader::of(folder.clone())? } else { Reader::resume_in(folder.clone(), after)? };
    let mut before = (after != Cursor::START).then_some(after.seq);
    while let Some(record) = reader.next().map_err(|error| unreadable(folder, error))? {
        // Records before the first one are not missing.
        let missing = before.map_or(0, |before| record.cursor.seq.saturating_sub(before + 1));
        before = Some(record.cursor.seq);
        visit(&record, missing)?;
    }
    Ok(reader.damage())
}

fn missing_meta(folder: &RunFolder) -> RunnerError {
    RunnerError::OutboxWithoutMeta { path: folder.path().to_owned() }
}

/// Derives the state. Parses only relevant messages; most are text and output deltas.
struct StateScanner {
    relevant: [Finder<'static>; 4],
    command: Finder<'static>,
    event: Finder<'static>,
    events: Events,
    state: OutboxState,
    /// A prompt that precedes the run it starts.
    pending_prompt: Option<String>,
}

impl StateScanner {
    fn new() -> Self {
        Self {
            relevant: [r#""type":"init""#, r#""type":"prompt""#, r#""type":"status""#, r#""kind":"s"#].map(Finder::new),
            command: Finder::new(r#""order":"#),
            event: Finder::new(r#""type":"event""#),
            events: Events::default(),
            state: OutboxState::default(),
            pending_prompt: None,
        }
    }

    fn message(&mut self, payload: &[u8]) -> Result<(), RunnerError> {
        let is_event = self.event.find(payload).is_some();
        if is_event && let Some(run) = &mut self.state.run {
            // A split event is counted once, by its first piece.
            let is_later_piece = memchr::memmem::rfind(payload, br#""partial":{"#)
                .is_some_and(|at| memchr::memmem::find(&payload[at..], br#""index":0,"#).is_none());
            run.events += u64::from(!is_later_piece);
        }
        let has = |finder: &Finder<'_>| finder.find(payload).is_some();
        let kind = |tag: &[u8]| is_event && memchr::memmem::find(payload, tag).is_some();
        let is_end = kind(br#""kind":"exited""#) || kind(br#""kind":"final""#);
        if !is_end && !has(&self.command) && !self.relevant.iter().any(has) {
            return Ok(());
        }
        let Ok(message) = serde_json::from_slice::<Message<'_>>(payload) else { return Ok(()) };
        if message.seq != self.state.last {
            return Err(RunnerError::OutboxSequence { found: message.seq, expected: self.state.last });
        }
        self.state.last_command = self.state.last_command.max(message.order().unwrap_or(0));
        match (message.r#type.as_ref(), message.phase()) {
            ("prompt", _) if message.text().is_some() => match &mut self.state.run {
                // The prompt of a run follows its `init`; that of a command precedes it.
                Some(run) if !run.is_complete && run.prompt.is_none() => run.prompt = message.text(),
                _ => self.pending_prompt = message.text(),
            },
            ("init", _) => {
                let previous = self.state.run.take().unwrap_or_default();
                // A recovered run also starts with `init`.
                let prompt = self.pending_prompt.take().or(previous.prompt.filter(|_| !previous.is_complete));
                self.state.run = Some(LastRun { prompt, agent_session: previous.agent_session, ..LastRun::default() });
            }
            ("status", Some("done")) => self.state.run.iter_mut().for_each(|run| run.is_complete = true),
            _ => {}
        }
        let Some(run) = &mut self.state.run else { return Ok(()) };
        self.events.message(&message, |event| {
            event.run_id.as_str().clone_into(&mut run.run_id);
            run.events = event.seq;
            match &event.kind {
                EventKind::Started(Started { agent, .. }) => run.agent = agent.to_string(),
                EventKind::Session(Session { session_id: Some(id), .. }) if event.parent_tool_call_id.is_none() => {
                    run.agent_session = Some(id.to_string());
                }
                EventKind::Final(Final { text, .. }) => run.answer = Some(text.to_string()),
                EventKind::Exited(_) => {
                    let mut json = Vec::new();
                    event.write_json(&mut json);
                    run.exited = String::from_utf8(json).ok();
                }
                _ => {}
            }
        });
        Ok(())
    }
}
