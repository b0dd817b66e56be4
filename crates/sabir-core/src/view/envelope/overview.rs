//! The messages of a session's log to its overview.

use std::borrow::Cow;

use serde::Deserialize;

use super::read::{Events, Message};
use crate::event::Event;
use crate::fold::{Overview, OverviewFold, SessionResult, SessionResultFold};

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
        Self { events: Events::of_at_most(LONGEST), fold: OverviewFold::default() }
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
            _ => {}
        }
    }

    /// The session so far.
    pub fn overview(&self) -> Overview {
        self.fold.overview()
    }
}

/// Collects the messages of a log, in order, into one result for each run.
#[derive(Debug, Default)]
pub struct LogResults {
    events: Events,
    results: Vec<SessionResult>,
    open: Option<(String, SessionResultFold)>,
}

impl LogResults {
    /// Takes note of the next message. One that can't be read says nothing.
    pub fn message(&mut self, line: &[u8]) {
        let Ok(message) = serde_json::from_slice::<Message<'_>>(line) else { return };
        let (open, results) = (&mut self.open, &mut self.results);
        self.events.message(&message, |event: &Event<'_>| {
            let run = event.run_id.as_str();
            if open.as_ref().is_none_or(|(known, _)| known != run) {
                let before = open.replace((run.to_owned(), SessionResult::fold()));
                results.extend(before.map(|(_, fold)| fold.finish()));
            }
            if let Some((_, fold)) = open {
                fold.event(event);
            }
        });
    }

    /// The results, in the order in which the runs began.
    pub fn finish(mut self) -> Vec<SessionResult> {
        self.results.extend(self.open.map(|(_, fold)| fold.finish()));
        self.results
    }
}
