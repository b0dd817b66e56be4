//! What an earlier shell left in a log.

use memchr::memmem::Finder;
use sabir_core::event::{EventKind, Final, Session, Started};
use sabir_protocol::SessionId;
use sabir_protocol::envelope::read::{Events, Message};
use sabir_store::{Cursor, Damage, Kind, Reader, Record, RunFolder};

use super::repair::{Item, Messages, Rebuild, Repair, Take};
use super::{MARKED, Mark, Meta, SCHEMA};
use crate::Failure;

/// What was in a log when it was opened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// The number of the last message.
    pub last: u64,
    /// The number of the last order that was dealt with.
    pub orders: u64,
    /// The last run.
    pub run: Option<LastRun>,
    /// Everybody had taken all of it when the earlier shell ended.
    pub delivered: bool,
}

/// The last run of a log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LastRun {
    /// Its id in the events.
    pub run_id: String,
    /// The agent.
    pub agent: String,
    /// How many events it has.
    pub events: u64,
    /// The agent's own id of the conversation.
    pub agent_session: Option<String>,
    /// What the agent was asked, if that is in the log.
    pub prompt: Option<String>,
    /// Its answer.
    pub answer: Option<String>,
    /// Its `exited` event, as JSON.
    pub exited: Option<String>,
    /// Its last message is there too. A run that has exited and is not whole misses only what follows from its events.
    pub whole: bool,
}

impl LastRun {
    /// The shell was gone before the run was.
    pub fn is_broken_off(&self) -> bool {
        self.exited.is_none()
    }
}

/// Whether there is any record.
pub(super) fn begins(folder: &RunFolder) -> Result<bool, Failure> {
    let mut reader = Reader::of(folder.clone())?;
    let first = reader.next().map_err(|error| unreadable(folder, &error))?;
    Ok(first.is_some())
}

fn unreadable(folder: &RunFolder, error: &std::io::Error) -> Failure {
    Failure::delivery(format!("can't read the log in {}: {error}", folder.path().display()))
}

/// A log as it was found.
pub(super) struct Log {
    pub(super) meta: Meta,
    pub(super) found: Found,
    pub(super) marks: Vec<Mark>,
    /// The record before the first message that counts: the last rebuild that was finished.
    pub(super) origin: Cursor,
    /// It has to be rebuilt before it is read.
    pub(super) is_damaged: bool,
    /// Bytes at the end that are no record.
    pub(super) torn_bytes: u64,
}

/// A part of a log: all of it, or a rebuild.
struct Part {
    meta: Meta,
    origin: Cursor,
    messages: Messages,
    reading: Reading,
    marks: Vec<Mark>,
}

impl Part {
    fn new(meta: Meta, origin: Cursor) -> Self {
        let (messages, mut reading) = (Messages::new(&meta), Reading::new());
        reading.found.last = meta.after;
        Self { meta, origin, messages, reading, marks: Vec::new() }
    }

    /// Hands what stands there to `tell`, with all that it is told to.
    fn with(
        &mut self,
        before: Cursor,
        tell: impl FnOnce(&mut Messages, &mut Take<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let Self { messages, reading, marks, .. } = self;
        tell(messages, &mut |item| {
            reading.found.last += 1;
            reading.found.delivered = false;
            if reading.found.last.is_multiple_of(MARKED) {
                marks.push(Mark { message: reading.found.last, before });
            }
            match item {
                Item::Message(payload) => reading.message(payload),
                Item::Lost => Ok(()),
            }
        })
    }
}

/// Reads a log from its beginning.
pub(super) fn read(folder: &RunFolder, session: &SessionId) -> Result<Log, Failure> {
    let (mut log, mut rebuilt): (Option<Part>, Option<Part>) = (None, None);
    let mut before = Cursor::START;
    let damage = each_record(folder, Cursor::START, |record, missing| {
        if let Some(part) = rebuilt.as_mut().or(log.as_mut()) {
            part.messages.missing(missing);
        }
        match (record.kind, rebuilt.as_mut().or(log.as_mut())) {
            (Kind::Meta, _) => match serde_json::from_slice::<Meta>(record.payload) {
                Ok(meta) if meta.schema != SCHEMA || meta.session != *session => {
                    let what = format!("the log in {} is not that of the session {session}", folder.path().display());
                    return Err(Failure::usage(what).hint("a newer version may have written it"));
                }
                Ok(meta) if meta.rebuild == Some(Rebuild::Begun) => rebuilt = Some(Part::new(meta, record.cursor)),
                Ok(meta) if meta.rebuild == Some(Rebuild::Done) && rebuilt.is_some() => log = rebuilt.take(),
                told => {
                    rebuilt = None;
                    let delivered = told.as_ref().is_ok_and(|meta| meta.delivered);
                    if let (None, Ok(meta)) = (&log, &told) {
                        log = Some(Part::new(meta.clone(), Cursor::START));
                    }
                    if let (Some(log), Ok(meta)) = (&mut log, &told) {
                        log.with(before, |messages, take| messages.opened(meta, take))?;
                    }
                    log.iter_mut().for_each(|log| log.reading.found.delivered = delivered);
                }
            },
            (Kind::Message, Some(part)) => part.with(before, |messages, take| messages.record(record.payload, take))?,
            (Kind::Message, None) => return Err(headless(folder)),
            _ => {}
        }
        before = record.cursor;
        Ok(())
    })?;
    let mut log = log.ok_or_else(|| headless(folder))?;
    log.with(before, Messages::end)?;
    let Part { meta, origin, messages, reading, marks } = log;
    let torn_bytes = damage.torn_bytes + damage.zero_bytes;
    Ok(Log { meta, found: reading.found, marks, origin, is_damaged: messages.is_damaged, torn_bytes })
}

/// Hands out the messages of a damaged log once more, up to that epoch, and says what is missing.
pub(super) fn messages(folder: &RunFolder, log: &Log, epoch: u32, take: &mut Take<'_>) -> Result<Repair, Failure> {
    let mut messages = Messages::new(&log.meta);
    // A rebuild that was not finished does not count.
    let mut counts = true;
    each_record(folder, log.origin, |record, missing| {
        if record.cursor.epoch >= epoch {
            return Ok(());
        }
        messages.missing(missing);
        match record.kind {
            Kind::Meta => {
                if let Ok(meta) = serde_json::from_slice::<Meta>(record.payload) {
                    counts = meta.rebuild != Some(Rebuild::Begun);
                    messages.opened(&meta, take)?;
                }
                Ok(())
            }
            Kind::Message if counts => messages.record(record.payload, take),
            _ => Ok(()),
        }
    })?;
    messages.end(take)?;
    Ok(messages.repair)
}

/// Calls `tell` with each record after that one, and how many records are missing before it. Returns what can't be read.
fn each_record(
    folder: &RunFolder,
    after: Cursor,
    mut tell: impl FnMut(&Record<'_>, u64) -> Result<(), Failure>,
) -> Result<Damage, Failure> {
    let mut reader = if after == Cursor::START { Reader::of(folder.clone())? } else { Reader::resume_in(folder.clone(), after)? };
    let mut before = (after != Cursor::START).then_some(after.seq);
    while let Some(record) = reader.next().map_err(|error| unreadable(folder, &error))? {
        // A log that does not begin at the beginning does not miss what was before it.
        let missing = before.map_or(0, |before| record.cursor.seq.saturating_sub(before + 1));
        before = Some(record.cursor.seq);
        tell(&record, missing)?;
    }
    Ok(reader.damage())
}

fn headless(folder: &RunFolder) -> Failure {
    let folder = folder.path().display();
    Failure::delivery(format!("the log in {folder} is damaged: its beginning, which says whose log it is, can't be read"))
        .hint("move the folder away; the next `sabir shell` of the session goes on after what the hub has")
}

/// Looks only at what can matter: most of a log are pieces of speech and output.
struct Reading {
    telling: [Finder<'static>; 4],
    order: Finder<'static>,
    event: Finder<'static>,
    events: Events,
    found: Found,
    /// A prompt that came before the run which it began.
    asked: Option<String>,
}

impl Reading {
    fn new() -> Self {
        Self {
            telling: [r#""type":"init""#, r#""type":"prompt""#, r#""type":"status""#, r#""kind":"s"#].map(Finder::new),
            order: Finder::new(r#""order":"#),
            event: Finder::new(r#""type":"event""#),
            events: Events::default(),
            found: Found::default(),
            asked: None,
        }
    }

    fn message(&mut self, payload: &[u8]) -> Result<(), Failure> {
        let is_event = self.event.find(payload).is_some();
        if is_event && let Some(run) = &mut self.found.run {
            // Of an event in pieces, the first counts.
            let is_later_piece = memchr::memmem::rfind(payload, br#""partial":{"#)
                .is_some_and(|at| memchr::memmem::find(&payload[at..], br#""index":0,"#).is_none());
            run.events += u64::from(!is_later_piece);
        }
        let has = |finder: &Finder<'_>| finder.find(payload).is_some();
        let kind = |tag: &[u8]| is_event && memchr::memmem::find(payload, tag).is_some();
        let is_end = kind(br#""kind":"exited""#) || kind(br#""kind":"final""#);
        if !is_end && !has(&self.order) && !self.telling.iter().any(has) {
            return Ok(());
        }
        let Ok(message) = serde_json::from_slice::<Message<'_>>(payload) else { return Ok(()) };
        if message.seq != self.found.last {
            let what = format!("the log is damaged: message {} stands where {} should be", message.seq, self.found.last);
            return Err(Failure::delivery(what));
        }
        self.found.orders = self.found.orders.max(message.order().unwrap_or(0));
        match (message.r#type.as_ref(), message.phase()) {
            ("prompt", _) if message.text().is_some() => match &mut self.found.run {
                // The prompt of a run follows its `init`; that of an order comes before it.
                Some(run) if !run.whole && run.prompt.is_none() => run.prompt = message.text(),
                _ => self.asked = message.text(),
            },
            ("init", _) => {
                let before = self.found.run.take().unwrap_or_default();
                // What a later shell adds to a run that was broken off begins like a run.
                let prompt = self.asked.take().or(before.prompt.filter(|_| !before.whole));
                self.found.run = Some(LastRun { prompt, agent_session: before.agent_session, ..LastRun::default() });
            }
            ("status", Some("done")) => self.found.run.iter_mut().for_each(|run| run.whole = true),
            _ => {}
        }
        let Some(run) = &mut self.found.run else { return Ok(()) };
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
