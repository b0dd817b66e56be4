//! The laws that every stream of events obeys, as a check.
//!
//! The decoder keeps them whatever an agent prints; who writes an agent of their own, or reads events that another
//! program wrote, can ask whether they hold. A law about lines (nothing is lost, chunks do not matter) is not visible in
//! events alone and is not checked here.

use std::collections::BTreeMap;
use std::fmt;

use crate::event::{
    Activity, Event, EventKind, Exited, Outcome, RunId, TextDelta, ThinkingDelta, ToolEnd, ToolStart, ToolStatus, ToolUpdate,
    TurnEnd, TurnStart, Usage,
};

/// A law that does not hold, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// The event's place in the list, from 1; one past the last when something is missing at the end.
    pub place: u64,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "event {}: {}", self.place, self.what)
    }
}

impl std::error::Error for Broken {}

/// Checks the events of a whole run.
pub fn check(events: &[Event<'_>]) -> Result<(), Broken> {
    let mut laws = Laws::default();
    events.iter().try_for_each(|event| laws.event(event))?;
    laws.finish()
}

/// Checks the events of a run one by one. Ids of tool calls are kept, so memory grows with their number.
#[derive(Debug, Default)]
pub struct Laws {
    place: u64,
    run_id: Option<RunId>,
    exited: bool,
    answered: bool,
    turn: u32,
    turn_open: bool,
    /// Every call so far, and whether it is open.
    calls: BTreeMap<String, bool>,
}

impl Laws {
    /// Checks the next event.
    pub fn event(&mut self, event: &Event<'_>) -> Result<(), Broken> {
        self.place += 1;
        self.judge(event).map_err(|what| Broken { place: self.place, what })
    }

    /// Checks that the run has ended.
    pub fn finish(self) -> Result<(), Broken> {
        if self.exited { Ok(()) } else { Err(Broken { place: self.place + 1, what: "the last event is not exited".to_owned() }) }
    }

    fn judge(&mut self, event: &Event<'_>) -> Result<(), String> {
        ensure(!self.exited, || "something follows exited".to_owned())?;
        ensure(event.seq == self.place, || format!("seq is {}, not {}", event.seq, self.place))?;
        ensure(event.line != Some(0), || "lines are counted from 1".to_owned())?;
        let run_id = self.run_id.get_or_insert_with(|| event.run_id.clone());
        ensure(*run_id == event.run_id, || format!("it is of the run {}, not {run_id}", event.run_id))?;
        let is_started = matches!(event.kind, EventKind::Started(_));
        ensure(is_started == (self.place == 1), || "started is the first event and no other".to_owned())?;
        match &event.kind {
            EventKind::Text(TextDelta { delta, .. }) | EventKind::Thinking(ThinkingDelta { delta, .. }) => {
                ensure(!delta.is_empty(), || "a piece of text is empty".to_owned())
            }
            EventKind::ToolStart(ToolStart { tool_call_id, .. }) => {
                let known = self.calls.insert(tool_call_id.to_string(), true).is_some();
                ensure(!known, || format!("the call {tool_call_id} starts twice"))
            }
            // What an agent adds after the end of a call is kept as an update of it.
            EventKind::ToolUpdate(ToolUpdate { tool_call_id, .. }) => {
                ensure(self.calls.contains_key(tool_call_id.as_ref()), || {
                    format!("the call {tool_call_id} goes on and never started")
                })
            }
            EventKind::ToolEnd(ToolEnd { tool_call_id, ok, status, .. }) => {
                let open = self.calls.insert(tool_call_id.to_string(), false);
                ensure(open == Some(true), || format!("the call {tool_call_id} ends and is not open"))?;
                ensure(*ok == (*status == ToolStatus::Ok), || format!("ok is {ok} and the status {status}"))
            }
            EventKind::TurnStart(TurnStart { turn, .. }) => {
                ensure(!self.turn_open, || "a turn starts in a turn".to_owned())?;
                self.turn_open = true;
                self.turn += 1;
                ensure(*turn == self.turn, || format!("turn {turn} starts where turn {} would", self.turn))
            }
            EventKind::TurnEnd(TurnEnd { turn, .. }) => {
                ensure(std::mem::take(&mut self.turn_open), || "a turn ends that did not start".to_owned())?;
                ensure(*turn == self.turn, || format!("turn {turn} ends in turn {}", self.turn))
            }
            EventKind::Activity(Activity { message, .. }) => {
                ensure(!message.trim().is_empty() && !message.contains('\n'), || "an activity is not one line".to_owned())
            }
            EventKind::Usage(Usage {
                input_tokens, output_tokens, total_tokens, cache_read_tokens, cache_write_tokens, ..
            }) => {
                let classes = [input_tokens, output_tokens, cache_read_tokens, cache_write_tokens];
                let sum = classes.into_iter().flatten().fold(0, |sum: u64, class| sum.saturating_add(*class));
                let divided = input_tokens.is_some() && output_tokens.is_some();
                ensure(!divided || *total_tokens == Some(sum), || {
                    format!("the total is {total_tokens:?}, the sum of its classes {sum}")
                })
            }
            EventKind::Final(_) => ensure(!std::mem::replace(&mut self.answered, true), || "there are two answers".to_owned()),
            EventKind::Exited(Exited { exit_code, signal, cancelled, outcome, cause, timeout, .. }) => {
                self.exited = true;
                let open = self.calls.iter().find(|(_, open)| **open).map(|(id, _)| id);
                ensure(open.is_none(), || format!("the call {} is still open", open.map_or("", String::as_str)))?;
                ensure(!self.turn_open, || format!("turn {} is still open", self.turn))?;
                let completed = *outcome == Outcome::Completed;
                let failed = exit_code.is_some_and(|code| code != 0) || signal.is_some();
                let stopped = *cancelled || timeout.is_some();
                ensure(!(completed && failed && !stopped), || "the process failed and the run reads as completed".to_owned())?;
                ensure(!(completed && cause.is_some()), || "a completed run has a cause of failure".to_owned())
            }
            _ => Ok(()),
        }
    }
}

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::event::Event;

    /// The first law that a list of events breaks; heads are filled in.
    fn broken(events: &[&str]) -> Option<String> {
        let json: Vec<String> =
            events.iter().enumerate().map(|(index, event)| format!(r#"{{"runId":"r","seq":{},{event}}}"#, index + 1)).collect();
        let events: Vec<Event<'_>> = json.iter().map(|json| serde_json::from_str(json).expect(json)).collect();
        check(&events).err().map(|broken| broken.to_string())
    }

    const STARTED: &str = r#""kind":"started","agent":"a""#;
    const EXITED: &str = r#""kind":"exited","cancelled":false,"outcome":"completed""#;
    const TOOL: &str = r#""kind":"toolStart","toolCallId":"t","name":"n","toolKind":"other""#;
    const DONE: &str = r#""kind":"toolEnd","toolCallId":"t","ok":true,"status":"ok""#;

    #[test]
    fn whole_runs_pass() {
        assert_eq!(broken(&[STARTED, EXITED]), None);
        let more = r#""kind":"toolUpdate","toolCallId":"t","outputDelta":"more""#;
        let (begin, end) = (r#""kind":"turnStart","turn":1"#, r#""kind":"turnEnd","turn":1"#);
        assert_eq!(broken(&[STARTED, begin, TOOL, DONE, more, end, r#""kind":"final","text":"x""#, EXITED]), None);
    }

    #[test]
    fn each_law_is_seen() {
        let answer = r#""kind":"final","text":"x""#;
        let turn = r#""kind":"turnStart","turn":1"#;
        let failed = r#""kind":"exited","cancelled":false,"outcome":"completed","exitCode":1"#;
        let caused = r#""kind":"exited","cancelled":false,"outcome":"completed","cause":"auth""#;
        for (events, what) in [
            (&[][..], "event 1: the last event is not exited"),
            (&[STARTED], "event 2: the last event is not exited"),
            (&[EXITED], "event 1: started is the first event and no other"),
            (&[STARTED, STARTED, EXITED], "event 2: started is the first event and no other"),
            (&[STARTED, EXITED, EXITED], "event 3: something follows exited"),
            (&[STARTED, TOOL, EXITED], "event 3: the call t is still open"),
            (&[STARTED, DONE, EXITED], "event 2: the call t ends and is not open"),
            (&[STARTED, TOOL, DONE, TOOL, EXITED], "event 4: the call t starts twice"),
            (&[STARTED, answer, answer, EXITED], "event 3: there are two answers"),
            (&[STARTED, turn, EXITED], "event 3: turn 1 is still open"),
            (&[STARTED, turn, turn, EXITED], "event 3: a turn starts in a turn"),
            (&[STARTED, r#""kind":"text","delta":"""#], "event 2: a piece of text is empty"),
            (&[STARTED, failed], "event 2: the process failed and the run reads as completed"),
            (&[STARTED, caused], "event 2: a completed run has a cause of failure"),
            (
                &[STARTED, r#""kind":"usage","inputTokens":1,"outputTokens":2,"totalTokens":4,"scope":"run""#],
                "event 2: the total is Some(4), the sum of its classes 3",
            ),
        ] {
            assert_eq!(broken(events).as_deref(), Some(what));
        }
    }
}
