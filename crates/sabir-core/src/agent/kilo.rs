//! Kilo, a fork of OpenCode.
//!
//! `run --format json` prints what OpenCode prints, with two differences: the end of a step says how fast the model was,
//! which tells the two apart, and an error of the command itself is a bare text.

use super::parts::{self, RunLine};
use super::{Accounting, Agent, AgentId, DialectEntry, Match, text};

/// The agent.
pub const AGENT: Agent = Agent {
    id: AgentId("kilo"),
    aliases: &["kilocode"],
    title: "Kilo",
    dialects: &[RUN, text::DIALECT],
    accounting: Accounting { input_includes_cache: false, output_excludes_reasoning: true },
};

const RUN: DialectEntry =
    DialectEntry { name: "run", about: "events of `run --format json`", detect, reader: || Box::new(parts::Run::default()) };

fn detect(line: &str) -> Match {
    match parts::run_line(line) {
        RunLine::Other => Match::No,
        RunLine::Any => Match::Maybe,
        RunLine::StepEnd { measured } => Match::yes_if(measured),
    }
}

#[cfg(test)]
mod tests {
    use super::{Match, detect};

    #[test]
    fn the_end_of_a_step_tells() {
        let start = r#"{"type":"step_start","timestamp":1,"sessionID":"ses_1","part":{"type":"step-start"}}"#;
        assert_eq!(detect(start), Match::Maybe);
        let end = r#"{"type":"step_finish","sessionID":"ses_1","part":{"metrics":{"generation":32.2},"reason":"stop"}}"#;
        assert_eq!(detect(end), Match::Yes);
        assert_eq!(detect(&end.replace("metrics", "other")), Match::No);
        assert_eq!(detect("plain text"), Match::No);
    }
}
