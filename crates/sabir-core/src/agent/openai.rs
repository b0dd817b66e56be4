//! Sabir's own agent loop over an OpenAI-compatible endpoint.
//!
//! It prints this vocabulary itself, without the head that the decoder gives. So do programs outside of this project
//! that want to be read, and so does `sabir` when its events were kept: one dialect reads them all.

mod command;
mod events;

use serde::Deserialize;

use super::{Accounting, Agent, AgentId, DialectEntry, Form, Match};
use crate::event::{EventKind, PartialEvent};
use crate::json::{self, Str};

/// The agent.
pub const AGENT: Agent = Agent {
    id: AgentId("openai"),
    aliases: &["openai-compatible"],
    title: "OpenAI-compatible API",
    dialects: &[EVENTS],
    accounting: Accounting { input_includes_cache: true, output_excludes_reasoning: false },
    launch: command::LAUNCH,
    history: None,
    shapes: "",
};

const EVENTS: DialectEntry = DialectEntry {
    name: "events",
    about: "Sabir's own vocabulary: of its agent loop, of recorded events, of any program that prints it",
    form: Form::Json,
    detect,
    reader: || Box::new(events::Events::default()),
};

fn detect(line: &str) -> Match {
    let told = kind_of(line).is_some_and(|kind| EventKind::TAGS.contains(&&*kind));
    // Only a line that says all that its kind must say is surely ours.
    Match::yes_if(told && json::parse::<PartialEvent<'_>>(line).is_some())
}

/// The kind that a JSON object gives itself.
fn kind_of(line: &str) -> Option<Str<'_>> {
    #[derive(Deserialize)]
    #[serde(bound = "'de: 'a")]
    struct Head<'a> {
        kind: Str<'a>,
    }
    json::parse::<Head<'_>>(line).map(|head| head.kind)
}

#[cfg(test)]
mod tests {
    use super::{Match, detect};

    #[test]
    fn a_whole_event_tells() {
        assert_eq!(detect(r#"{"kind":"text","delta":"hi"}"#), Match::Yes);
        assert_eq!(detect(r#"{"runId":"r","seq":1,"kind":"started","agent":"codex"}"#), Match::Yes);
        assert_eq!(detect(r#"{"kind":"text"}"#), Match::No);
        assert_eq!(detect(r#"{"kind":"file","path":"a"}"#), Match::No);
        assert_eq!(detect(r#"{"type":"text","delta":"hi"}"#), Match::No);
        assert_eq!(detect("kind"), Match::No);
    }
}
