//! What an earlier shell left in a log.

use memchr::memmem::Finder;
use sabir_core::event::EventKind;
use sabir_core::view::envelope::read::{Events, Message};
use sabir_store::{Cursor, Kind, Reader, RunFolder};

use super::{MARKED, Mark, Meta};
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

/// Whether there is a first record.
pub(super) fn begins(folder: &RunFolder) -> Result<bool, Failure> {
    let mut reader = Reader::of(folder.clone())?;
    let first = reader.next().map_err(|error| unreadable(folder, &error))?;
    Ok(first.is_some_and(|record| record.kind == Kind::Meta))
}

fn unreadable(folder: &RunFolder, error: &std::io::Error) -> Failure {
    Failure::delivery(format!("can't read the log in {}: {error}", folder.path().display()))
}

/// Reads a log from its beginning. `None` when it has none.
pub(super) fn read(folder: &RunFolder, marks: &mut Vec<Mark>) -> Result<Option<(Meta, Found)>, Failure> {
    let mut reader = Reader::of(folder.clone())?;
    let mut meta: Option<Meta> = None;
    let mut reading = Reading::new();
    let mut before = Cursor::START;
    while let Some(record) = reader.next().map_err(|error| unreadable(folder, &error))? {
        match record.kind {
            Kind::Meta => {
                let told: Option<Meta> = serde_json::from_slice(record.payload).ok();
                reading.found.delivered = told.as_ref().is_some_and(|told| told.delivered);
                if meta.is_none() {
                    reading.found.last = told.as_ref().map_or(0, |told| told.after);
                    meta = told;
                }
            }
            Kind::Message => {
                reading.found.last += 1;
                reading.found.delivered = false;
                if reading.found.last.is_multiple_of(MARKED) {
                    marks.push(Mark { message: reading.found.last, before });
                }
                reading.message(record.payload)?;
            }
            _ => {}
        }
        before = record.cursor;
    }
    // A log that does not begin at the beginning does not miss what was before it.
    let before = meta.as_ref().map_or(0, |meta| meta.after);
    let missing = reader.damage().missing.saturating_sub(before);
    if missing > 0 {
        let what = format!("the log in {} is damaged: {missing} records are missing", folder.path().display());
        return Err(Failure::delivery(what).hint("what was delivered is where it went; --session begins another log"));
    }
    Ok(meta.map(|meta| (meta, reading.found)))
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
                EventKind::Started { agent, .. } => run.agent = agent.to_string(),
                EventKind::Session { session_id: Some(id), .. } if event.parent_tool_call_id.is_none() => {
                    run.agent_session = Some(id.to_string());
                }
                EventKind::Final { text } => run.answer = Some(text.to_string()),
                EventKind::Exited { .. } => {
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
