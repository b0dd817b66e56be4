//! The log as the events of its session.

use std::borrow::Cow;
use std::collections::BTreeMap;

use sabir_core::dialect::{End, Facts, Verdict};
use sabir_core::event::{EventKind, Prompt, Usage};
use sabir_core::history::Spent;
use sabir_core::json::{self, JsonDialect, Str};
use sabir_core::line::Line;
use sabir_core::time::Timestamp;
use serde_json::value::RawValue;

use super::super::stream::Stream;
use super::super::wire::Wire;
use super::Sums;

/// Reads the log of a session.
#[derive(Default)]
pub(super) struct Log {
    /// Knows the events.
    stream: Stream,
    /// The main agent has ended its turn, and nothing came after.
    rests: bool,
    told: BTreeMap<String, Spent>,
    claimed: BTreeMap<String, Spent>,
}

/// What only the log tells.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct More<'a> {
    #[serde(borrow, default)]
    agent_id: Option<Str<'a>>,
    #[serde(borrow)]
    data: &'a RawValue,
}

#[derive(serde::Deserialize)]
struct Said<'a> {
    #[serde(borrow)]
    content: Str<'a>,
}

impl JsonDialect for Log {
    type Wire<'a> = Wire<'a>;

    fn message<'a>(&mut self, wire: Wire<'a>, line: &Line<'a>, facts: &mut Facts<'a>) {
        match &*wire.r#type {
            "user.message" => self.prompt(&wire, line, facts),
            "session.shutdown" => self.sums(line),
            _ => {}
        }
        if wire.agent_id.is_none() {
            match &*wire.r#type {
                "assistant.turn_end" => self.rests = true,
                "assistant.turn_start" | "user.message" => self.rests = false,
                _ => {}
            }
        }
        self.stream.message(wire, line, facts);
        self.add_up(facts);
    }

    fn end(&mut self, end: &End, facts: &mut Facts<'static>) -> Verdict {
        for (model, claimed) in &self.claimed {
            let unlogged = claimed.beyond(self.told.get(model).unwrap_or(&Spent::default()));
            if unlogged.total() > 0 {
                facts.push(unlogged.event(Some(Cow::Owned(model.clone()))));
            }
        }
        // A session that waits for another prompt has no last word.
        if self.rests && !self.stream.ending.told() && self.stream.ending.answered() {
            self.stream.ending.result(Some(0), None, facts);
        }
        self.stream.end(end, facts)
    }
}

impl Log {
    fn prompt<'a>(&mut self, wire: &Wire<'a>, line: &Line<'a>, facts: &mut Facts<'a>) {
        let more = json::parse::<More<'_>>(&line.text).filter(|more| more.agent_id.is_none());
        let Some(said) = more.and_then(|more| json::parse::<Said<'_>>(more.data.get())) else { return };
        facts.at = wire.timestamp.as_deref().and_then(Timestamp::parse);
        self.stream.ending.prompt(facts);
        facts.push(Prompt::new(said.content.0.into_owned()));
    }

    fn sums(&mut self, line: &Line<'_>) {
        let sums = json::parse::<More<'_>>(&line.text).and_then(|more| json::parse::<Sums<'_>>(more.data.get()));
        for (model, spent) in sums.into_iter().flat_map(Sums::by_model) {
            self.claimed.insert(model.to_string(), spent);
        }
    }

    /// Adds up the figures that are told.
    fn add_up(&mut self, facts: &Facts<'_>) {
        for fact in facts.iter() {
            if let (EventKind::Usage(Usage { model: Some(model), .. }), Some(spent)) = (&fact.kind, Spent::of_event(&fact.kind)) {
                self.told.entry(model.to_string()).or_default().add(&spent);
            }
        }
    }
}
