//! The messages of a session's log to its overview.

use std::borrow::Cow;

use sabir_core::event::{ErrorEvent, Event, EventKind, Final, Text, ToolStart, ToolUpdate, Unrecognized};
use sabir_core::fold::{FileChange, Over, Overview, OverviewFold, SessionResult, SessionResultFold, Taker, ToolCall, Turn};
use serde::{Deserialize, Serialize};

use super::read::{Events, GAP, Message};

/// Longer events than this are left out of an overview: it is kept for every session that is live.
const LONGEST: usize = 16 << 20;

/// Collects the messages of a log, in order, into an [`Overview`].
#[derive(Debug)]
pub struct LogOverview {
    events: Events,
    fold: OverviewFold,
}

/// What `init` and `prompt` say beside the events.
#[derive(Deserialize)]
struct Aside<'a> {
    #[serde(borrow, default)]
    origin: Option<Cow<'a, str>>,
    #[serde(borrow)]
    payload: AsidePayload<'a>,
}

#[derive(Deserialize)]
struct AsidePayload<'a> {
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    meta: Option<AsideMeta<'a>>,
}

#[derive(Deserialize)]
struct AsideMeta<'a> {
    #[serde(borrow, default)]
    workspace: Option<Cow<'a, str>>,
}

impl Default for LogOverview {
    fn default() -> Self {
        Self { events: Events::of_at_most(LONGEST).bounded(), fold: OverviewFold::default() }
    }
}

impl LogOverview {
    /// Takes note of the next message. One that can't be read says nothing.
    pub fn message(&mut self, line: &[u8]) {
        let Ok(message) = serde_json::from_slice::<Message<'_>>(line) else { return };
        match message.r#type.as_ref() {
            "event" => {
                let fold = &mut self.fold;
                self.events.message(&message, |event| fold.event(event));
            }
            "init" | "prompt" => {
                let Ok(Aside { origin, payload }) = serde_json::from_slice(line) else { return };
                if let Some(workspace) = payload.meta.and_then(|meta| meta.workspace) {
                    self.fold.is_in(&workspace);
                }
                // What the runner prompts for is the agent's question, not the user's.
                if let (Some("backend"), Some(text)) = (origin.as_deref(), payload.text) {
                    self.fold.asks(&text);
                }
            }
            GAP => self.fold.gap(),
            _ => {}
        }
    }

    /// The session so far.
    pub fn overview(&self) -> Overview {
        self.fold.overview()
    }

    /// How many bytes are kept of an event whose last piece has not come.
    pub fn held(&self) -> usize {
        self.events.held()
    }
}

/// Bytes of turns, calls and changes that results keep unless told otherwise.
const RESULT_BYTES: usize = 12 << 20;
/// What a run, and an entry of a list, takes beside its texts.
const RUN_BYTES: usize = 4 << 10;
const ENTRY_BYTES: usize = 512;

/// Collects the messages of a log, in order, into one result for each run, of bounded size. What does not fit is
/// counted in [`Omitted`]; tokens, cost and outcome of a run are always of all of it.
#[derive(Debug)]
pub struct LogResults {
    events: Events,
    results: Vec<SessionResult>,
    open: Option<(String, SessionResultFold)>,
    kept: Kept,
}

/// What is missing in results that would be too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Omitted {
    /// Runs.
    pub runs: u64,
    /// Turns.
    pub turns: u64,
    /// Tool calls that are missing, or lack arguments or what they gave back.
    pub tool_calls: u64,
    /// Changes of files.
    pub file_changes: u64,
    /// Errors, unrecognized lines and answers.
    pub texts: u64,
    /// Events that are too long to be read.
    pub events: u64,
}

/// What is over in a run, as long as there is room for it.
#[derive(Debug)]
struct Kept {
    room: usize,
    over: Over,
    omitted: Omitted,
}

/// Bytes of a text in JSON, roughly: what is escaped takes more.
fn json_size(text: &str) -> usize {
    text.len() + 5 * text.bytes().filter(|byte| *byte < b' ').count()
}

impl Kept {
    /// Whether there is room for so many bytes, which are taken.
    fn take(&mut self, bytes: usize) -> bool {
        let left = self.room.checked_sub(bytes);
        self.room = left.unwrap_or(self.room);
        left.is_some()
    }

    /// Whether there is room for what the fold keeps of an event.
    fn admits(&mut self, kind: &EventKind<'_>) -> bool {
        match kind {
            EventKind::ToolStart(ToolStart { tool_call_id, name, input, .. }) => {
                let bytes = 2 * tool_call_id.len() + name.len() + input.as_deref().map_or(0, json_size) + ENTRY_BYTES;
                let fits = self.take(bytes);
                self.omitted.tool_calls += u64::from(!fits);
                fits
            }
            EventKind::ToolUpdate(ToolUpdate { input: Some(input), .. }) => {
                let fits = self.take(json_size(input));
                self.omitted.tool_calls += u64::from(!fits);
                fits
            }
            EventKind::Final(Final { text, .. }) => self.admits_text(text),
            EventKind::Error(ErrorEvent { message, .. }) => self.admits_text(message),
            EventKind::Unrecognized(Unrecognized { r#type, .. }) => self.admits_text(r#type.as_deref().unwrap_or_default()),
            _ => true,
        }
    }

    fn admits_text(&mut self, text: &str) -> bool {
        let fits = self.take(json_size(text) + 64);
        self.omitted.texts += u64::from(!fits);
        fits
    }
}

impl Taker for Kept {
    fn turn(&mut self, turn: Turn) {
        if self.take(ENTRY_BYTES) {
            self.over.turn(turn);
        } else {
            self.omitted.turns += 1;
        }
    }

    fn call(&mut self, number: usize, call: ToolCall, output: Option<&Text<'_>>) {
        let output = output.filter(|output| {
            // Six bytes for one is the most that JSON takes.
            let fits = self.take(output.size().min(64 << 10) * if output.escaped().is_some() { 6 } else { 1 });
            self.omitted.tool_calls += u64::from(!fits);
            fits
        });
        self.over.call(number, call, output);
    }

    fn file_change(&mut self, change: FileChange) {
        let ids = change.tool_call_id.as_deref().map_or(0, str::len) + change.from.as_deref().map_or(0, json_size);
        if self.take(json_size(&change.path) + ids + ENTRY_BYTES) {
            self.over.file_change(change);
        } else {
            self.omitted.file_changes += 1;
        }
    }
}

impl Default for LogResults {
    fn default() -> Self {
        Self::of_at_most(RESULT_BYTES)
    }
}

impl LogResults {
    /// Results of at most about so many bytes.
    pub fn of_at_most(bytes: usize) -> Self {
        let kept = Kept { room: bytes, over: Over::default(), omitted: Omitted::default() };
        Self { events: Events::of_at_most(LONGEST).bounded(), results: Vec::new(), open: None, kept }
    }

    /// Takes note of the next message. One that can't be read says nothing.
    pub fn message(&mut self, line: &[u8]) {
        let Ok(message) = serde_json::from_slice::<Message<'_>>(line) else { return };
        let Self { events, results, open, kept } = self;
        events.message(&message, |event: &Event<'_>| {
            let run = event.run_id.as_str();
            if open.as_ref().is_none_or(|(known, _)| known != run) {
                results.extend(open.take().map(|(_, fold)| closed(fold, kept)));
                if !kept.take(RUN_BYTES) {
                    // Counted by their beginnings: of what is left out nothing is kept, not even which run it was.
                    kept.omitted.runs += u64::from(matches!(event.kind, EventKind::Started(_)));
                    return;
                }
                *open = Some((run.to_owned(), SessionResult::fold()));
            }
            if let Some((_, fold)) = open
                && kept.admits(&event.kind)
            {
                fold.event_with(event, kept);
            }
        });
    }

    /// The results, in the order in which the runs began, and what is missing in them.
    pub fn finish(mut self) -> (Vec<SessionResult>, Omitted) {
        self.results.extend(self.open.map(|(_, fold)| closed(fold, &mut self.kept)));
        (self.results, Omitted { events: self.events.left_out(), ..self.kept.omitted })
    }
}

/// The result of a run with what was kept of it.
fn closed(mut fold: SessionResultFold, kept: &mut Kept) -> SessionResult {
    fold.close_with(kept);
    let Over { turns, mut calls, file_changes } = std::mem::take(&mut kept.over);
    calls.sort_unstable_by_key(|(number, _)| *number);
    SessionResult {
        turn_details: turns,
        tool_calls: calls.into_iter().map(|(_, call)| call).collect(),
        file_changes,
        ..fold.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::{LogOverview, LogResults};
    use crate::envelope::timeline::LogTimeline;

    fn message(seq: usize, fields: &str) -> Vec<u8> {
        let event = format!("{{\"runId\":\"r\",\"seq\":{seq},{fields}}}");
        let ts = "2026-01-02T03:04:05Z";
        format!(r#"{{"sessionId":"s","seq":{seq},"ts":"{ts}","type":"event","payload":{{"json":{event}}}}}"#).into_bytes()
    }

    /// A run with calls of a megabyte each, all of them open until the end.
    fn large(calls: usize) -> Vec<Vec<u8>> {
        let input = format!("{{\\\"path\\\":\\\"{}\\\"}}", "y".repeat(1 << 20));
        let id = |number: usize| format!("{number}{}", "x".repeat(1 << 10));
        let mut lines = vec![message(1, r#""kind":"started","agent":"codex""#)];
        for number in 0..calls {
            let id = id(number);
            let start = format!(r#""kind":"toolStart","toolCallId":"{id}","name":"n","toolKind":"other","input":"{input}""#);
            lines.push(message(2 + number, &start));
        }
        let usage = r#""kind":"usage","scope":"run","inputTokens":10,"outputTokens":5"#;
        lines.push(message(2 + calls, usage));
        lines.push(message(3 + calls, &format!(r#""kind":"toolEnd","toolCallId":"{}","ok":true,"status":"ok""#, id(0))));
        lines.push(message(4 + calls, r#""kind":"exited","outcome":"completed","cancelled":false"#));
        lines
    }

    #[test]
    fn results_are_bounded_and_say_what_is_missing() {
        let mut results = LogResults::of_at_most(4 << 20);
        large(10).iter().for_each(|line| results.message(line));
        let (runs, omitted) = results.finish();
        let [run] = &runs[..] else { panic!("one run") };
        assert_eq!((run.tool_calls.len(), omitted.tool_calls), (3, 7), "what is left out is counted");
        assert_eq!((run.tokens.total, run.status.into()), (Some(15), sabir_core::fold::Phase::Success), "figures are of all");
        assert_eq!(run.tool_calls[0].status, sabir_core::event::ToolStatus::Ok, "a long id is the same id in every event");
        assert!(serde_json::to_vec(&runs).expect("JSON").len() < 4 << 20);
        let mut all = LogResults::of_at_most(64 << 20);
        large(10).iter().for_each(|line| all.message(line));
        assert_eq!(all.finish().1, super::Omitted::default());
    }

    #[test]
    fn folds_of_a_log_keep_little_of_long_names() {
        let mut timeline = LogTimeline::default();
        let mut overview = LogOverview::default();
        let mut changes = Vec::new();
        let name = |number: usize| format!("{number}{}", "x".repeat(1 << 16));
        timeline.message(&message(1, r#""kind":"started","agent":"codex""#), &mut changes);
        for number in 0..50 {
            let name = name(number);
            let start = r#""kind":"toolStart","toolKind":"other""#;
            for fields in [
                format!(r#"{start},"toolCallId":"{name}","name":"{name}","title":"{name}""#),
                format!(r#""kind":"permission","requestId":"{name}","title":"{name}""#),
                format!(r#""kind":"fileChange","path":"{name}","change":"created","source":"reported""#),
            ] {
                timeline.message(&message(2, &fields), &mut changes);
                overview.message(&message(2, &fields));
            }
        }
        assert!(format!("{timeline:?}").len() < 200_000, "a name is a few hundred bytes");
        assert!(serde_json::to_vec(&changes).expect("JSON").len() < 1_000_000);
        let ended = changes.len();
        timeline.message(
            &message(3, &format!(r#""kind":"toolEnd","toolCallId":"{}","ok":true,"status":"ok""#, name(7))),
            &mut changes,
        );
        assert_eq!(changes.len(), ended + 1, "the call is still known by its id");
        assert_eq!(overview.overview().tool_calls, 50);
    }
}
