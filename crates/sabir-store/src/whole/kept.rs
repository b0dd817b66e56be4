//! A run of the journal read whole: the events that were made then, the same lines decoded anew, or the lines themselves.
//!
//! A run that was killed has no end in its journal. It gets one here, so that every stream of events has one: calls that are
//! open are unfinished, and the run is incomplete, whatever its last lines would have led to, unless its result says how it ended.

use std::borrow::Cow;
use std::io;

use sabir_core::agent::Registry;
use sabir_core::decode::{Decoder, Start};
use sabir_core::dialect::End;
use sabir_core::event::{Event, EventKind, Exited, Outcome, RunId, ToolEnd, ToolStart, ToolStatus};
use sabir_core::line::{RawLine, Source};
use sabir_core::time::Timestamp;

use super::begin;
use crate::layout::RunFolder;
use crate::meta::Meta;
use crate::reader::{Damage, Reader};
use crate::record::{self, Kind};

/// The events of a run as they were made when it was watched, and those that come.
#[derive(Debug)]
pub(super) struct Kept {
    reader: Reader,
    unfinished: Unfinished,
}

impl Kept {
    pub(super) fn new(folder: &RunFolder) -> io::Result<Self> {
        Ok(Self { reader: open(folder)?, unfinished: Unfinished::default() })
    }

    /// Hands out the events that there are now and were not before.
    pub(super) fn more(&mut self, take: &mut dyn FnMut(&Event<'_>)) -> io::Result<()> {
        while let Some(record) = self.reader.next()? {
            match record.kind {
                // Somebody ran it again.
                Kind::Meta => self.unfinished.end(take),
                Kind::Event => {
                    if let Ok(event) = serde_json::from_slice::<Event<'_>>(record.payload) {
                        self.unfinished.saw(&event);
                        take(&event);
                    }
                }
                Kind::Result => self.unfinished.resulted(record.payload),
                _ => {}
            }
        }
        Ok(())
    }

    /// Nothing more comes: ends what has no end.
    pub(super) fn end(&mut self, take: &mut dyn FnMut(&Event<'_>)) {
        self.unfinished.end(take);
    }
}

fn open(folder: &RunFolder) -> io::Result<Reader> {
    Reader::of(folder.clone()).map_err(|trouble| io::Error::other(trouble.what))
}

/// The events as they were made when the run was watched; what of the journal can't be read.
pub(crate) fn kept_events(folder: &RunFolder, take: &mut dyn FnMut(&Event<'_>)) -> io::Result<Damage> {
    // Before anything is read: a run that ends meanwhile is one that runs.
    let live = folder.is_live();
    let mut kept = Kept::new(folder)?;
    kept.more(take)?;
    if !live {
        kept.end(take);
    }
    Ok(kept.reader.damage())
}

/// What a stream of events lacks that breaks off.
#[derive(Debug, Default)]
struct Unfinished {
    /// The last event: whose it is, its number and its time.
    last: Option<(RunId, u64, Option<Timestamp>)>,
    /// Calls without an end, and what they are below.
    open: Vec<(String, Option<String>)>,
    /// How the run ended by its result, where the event that says so can't be read.
    outcome: Option<Outcome>,
}

impl Unfinished {
    fn saw(&mut self, event: &Event<'_>) {
        match &event.kind {
            EventKind::Exited(_) => return *self = Self::default(),
            EventKind::ToolStart(ToolStart { tool_call_id, .. }) => {
                let parent = event.parent_tool_call_id.as_deref().map(str::to_owned);
                self.open.push((tool_call_id.clone().into_owned(), parent));
            }
            EventKind::ToolEnd(ToolEnd { tool_call_id, .. }) => self.open.retain(|(id, _)| *id != **tool_call_id),
            _ => {}
        }
        let at = event.at.or(self.last.as_ref().and_then(|(_, _, at)| *at));
        self.last = Some((event.run_id.clone(), event.seq, at));
    }

    fn resulted(&mut self, result: &[u8]) {
        #[derive(serde::Deserialize)]
        struct Short {
            outcome: Outcome,
        }
        if self.last.is_some() {
            self.outcome = serde_json::from_slice(result).ok().map(|Short { outcome }| outcome);
        }
    }

    /// Ends the stream, if there is one without an end.
    fn end(&mut self, take: &mut dyn FnMut(&Event<'_>)) {
        let Self { last, open, outcome } = std::mem::take(self);
        let Some((run_id, mut seq, at)) = last else { return };
        let mut tell = |parent: Option<String>, kind: EventKind<'_>| {
            seq += 1;
            let parent_tool_call_id = parent.map(Cow::Owned);
            take(&Event { run_id: run_id.clone(), seq, at, line: None, parent_tool_call_id, kind });
        };
        for (id, parent) in open {
            tell(parent, ToolEnd::new(id, ToolStatus::Unfinished).into());
        }
        tell(None, Exited::new(outcome.unwrap_or(Outcome::Incomplete)).into());
    }
}

/// Decodes the raw lines of a run anew, with the dialects of this version; what of the journal can't be read.
pub fn decoded_anew(folder: &RunFolder, registry: &Registry, take: &mut dyn FnMut(&Event<'_>)) -> io::Result<Damage> {
    let live = folder.is_live();
    let mut reader = open(folder)?;
    let mut anew = Anew { decoder: None, end: None, unfinished: Unfinished::default() };
    while let Some(record) = reader.next()? {
        let at = i64::try_from(record.at).ok().filter(|at| *at > 0).and_then(Timestamp::from_millis);
        match record.kind {
            Kind::Meta => {
                anew.end(take);
                let meta: Meta = serde_json::from_slice(record.payload)?;
                let agent = registry.find(&meta.agent).cloned();
                let start = agent.map_or_else(|| Start::detect(registry.clone()), Start::of);
                let (agent_version, run_id) = (meta.agent_version, RunId::from(meta.run_id.as_str()));
                let mut new = Decoder::new(Start { run_id, agent_version, at: meta.started, structured: true, ..start });
                begin(&mut new, &mut |event| anew.tell(event, take));
                anew.decoder = Some(new);
            }
            Kind::Raw => {
                if let (Some(decoder), Some((raw, source))) = (&mut anew.decoder, record::raw_line(record.payload)) {
                    let mut events = Vec::new();
                    decoder.line(&raw.to_line(at, source), &mut events);
                    events.iter().for_each(|event| anew.tell(event, take));
                }
            }
            // How the process ended is not in its lines.
            Kind::Event => {
                if let Ok(Event {
                    at,
                    kind: EventKind::Exited(Exited { exit_code, signal, cancelled, timeout, quiescent, .. }),
                    ..
                }) = serde_json::from_slice(record.payload)
                {
                    let signal = signal.map(Cow::into_owned);
                    anew.end = Some(End { exit_code, signal, cancelled, timeout, quiescent, at, start_failed: None });
                }
            }
            Kind::Result if anew.end.is_none() => anew.unfinished.resulted(record.payload),
            _ => {}
        }
    }
    if !live {
        anew.end(take);
    }
    Ok(reader.damage())
}

struct Anew {
    decoder: Option<Decoder>,
    /// How the process ended, once that is told.
    end: Option<End>,
    unfinished: Unfinished,
}

impl Anew {
    fn tell(&mut self, event: &Event<'_>, take: &mut dyn FnMut(&Event<'_>)) {
        self.unfinished.saw(event);
        take(event);
    }

    /// Nothing more comes. What the decoder holds back counts only if the run was watched to its end.
    fn end(&mut self, take: &mut dyn FnMut(&Event<'_>)) {
        if let (Some(mut decoder), Some(end)) = (self.decoder.take(), self.end.take()) {
            let mut last = Vec::new();
            decoder.end(&end, &mut last);
            last.iter().for_each(|event| self.tell(event, take));
        }
        self.unfinished.end(take);
    }
}

/// The number of a line that the agent of a run printed to its standard output, and the line.
pub(super) fn raw_line_of(folder: &RunFolder, number: u64) -> io::Result<Option<Vec<u8>>> {
    let mut found = None;
    raw_lines(folder, &mut |line| {
        if line.number == number {
            found = Some(line.bytes.to_vec());
        }
        found.is_none()
    })?;
    Ok(found)
}

/// What the agent of a run printed to its standard output, byte by byte, until the taker has had enough.
pub(super) fn raw_bytes(folder: &RunFolder, take: &mut dyn FnMut(&[u8]) -> bool) -> io::Result<Damage> {
    raw_lines(folder, &mut |line| {
        let end: &[u8] = match (line.terminated, line.cr) {
            (true, true) => b"\r\n",
            (true, false) => b"\n",
            (false, _) => b"",
        };
        take(line.bytes) && take(end)
    })
}

/// The lines that the agent of a run printed to its standard output, until the taker has had enough.
fn raw_lines(folder: &RunFolder, take: &mut dyn FnMut(&RawLine<'_>) -> bool) -> io::Result<Damage> {
    let mut reader = open(folder)?;
    while let Some(record) = reader.next()? {
        let line = Some(record).filter(|record| record.kind == Kind::Raw).and_then(|record| record::raw_line(record.payload));
        if let Some((line, Source::Stdout)) = line
            && !take(&line)
        {
            break;
        }
    }
    Ok(reader.damage())
}
