//! Sabir's own agent loop over an OpenAI-compatible endpoint.
//!
//! It prints this vocabulary itself, without the head that the decoder gives. So do programs outside of this project
//! that want to be read, and so does `sabir` when its events were kept: one dialect reads them all.

mod command;
mod events;

use serde::Deserialize;

use sabir_core::agent::{Accounting, Agent, Confidence, DialectSpec};
use sabir_core::event::{EventKind, Told};
use sabir_core::json::{self, Str};

/// The agent.
pub fn agent() -> Agent {
    Agent::new("openai", "OpenAI-compatible API")
        .aliases(["openai-compatible"])
        .dialect(events())
        .accounting(Accounting { input_includes_cache: true, output_excludes_reasoning: false })
        .launch(command::launch())
}

fn events() -> DialectSpec {
    DialectSpec::json(
        "events",
        "Sabir's own vocabulary: of its agent loop, of recorded events, of any program that prints it",
        detect,
        events::Events::default,
    )
}

fn detect(line: &str) -> Confidence {
    let told = kind_of(line).is_some_and(|kind| EventKind::TAGS.contains(&&*kind));
    // Only a line that says all that its kind must say is surely ours.
    Confidence::certain_if(told && json::parse::<Told<'_>>(line).is_some())
}

/// The kind that a JSON object gives itself.
fn kind_of(line: &str) -> Option<Str<'_>> {
    #[derive(Deserialize)]
    struct Head<'a> {
        #[serde(borrow)]
        kind: Str<'a>,
    }
    json::parse::<Head<'_>>(line).map(|head| head.kind)
}

#[cfg(test)]
mod tests {
    use super::detect;
    use sabir_core::agent::Confidence;

    #[test]
    fn a_whole_event_tells() {
        assert_eq!(detect(r#"{"kind":"text","delta":"hi"}"#), Confidence::Certain);
        assert_eq!(detect(r#"{"runId":"r","seq":1,"kind":"started","agent":"codex"}"#), Confidence::Certain);
        assert_eq!(detect(r#"{"kind":"text"}"#), Confidence::None);
        assert_eq!(detect(r#"{"kind":"file","path":"a"}"#), Confidence::None);
        assert_eq!(detect(r#"{"type":"text","delta":"hi"}"#), Confidence::None);
        assert_eq!(detect("kind"), Confidence::None);
    }
}
