//! Kilo, a fork of OpenCode.
//!
//! `run --format json` prints what OpenCode prints, with two differences: the end of a step says how fast the model was,
//! which tells the two apart, and an error of the command itself is a bare text. Its database of sessions has the same
//! tables under another name.

use super::parts::{self, RunLine};
use super::{Accounting, Agent, AgentId, DialectEntry, Form, Match, text};
use crate::history::{History, Part, Root};
use crate::launch::{Capabilities, CommandLine, Launch, Output, Permission, Program, Request, Session, StopSignal};

/// The agent.
pub const AGENT: Agent = Agent {
    id: AgentId("kilo"),
    aliases: &["kilocode"],
    title: "Kilo",
    dialects: &[RUN, HISTORY.dialect, text::DIALECT],
    accounting: Accounting { input_includes_cache: false, output_excludes_reasoning: true },
    launch: LAUNCH,
    history: Some(HISTORY),
    shapes: include_str!("kilo/shapes.txt"),
};

const HISTORY: History = History {
    roots: &[Root { variable: Some("XDG_DATA_HOME"), home: ".local/share", below: "kilo/kilo.db" }],
    part: |path| (path == ["kilo.db"]).then_some(Part::Database),
    only: None,
    // The rows are those of OpenCode, and do not tell whose they are.
    dialect: DialectEntry { detect: |_| Match::No, ..parts::history::DIALECT },
    note: parts::history::note,
    enough: parts::history::enough,
    list: None,
};

const LAUNCH: Launch = Launch {
    program: Program::Named(&["kilo", "kilocode"]),
    can: Capabilities {
        model: true,
        resume: true,
        r#continue: true,
        // Its rules for less than everything were never seen at work.
        permissions: &[Permission::Full],
        ..Capabilities::NONE
    },
    command,
    version_matters: false,
    stop: StopSignal::Interrupt,
    output: Output::Pipe,
    environment: &["KILO_*", "ANTHROPIC_*", "OPENAI_*", "GEMINI_*", "GOOGLE_*", "OPENROUTER_*", "AWS_*"],
    keys: &["KILO_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY"],
    logins: &[".local/share/kilo/auth.json"],
    install: "npm install -g @kilocode/cli",
    recorded: &["7.7.7"],
};

fn command(request: &Request<'_>) -> CommandLine {
    let line = CommandLine::new(["run", "--format", "json", "--thinking"]).option("--model", request.model);
    let line = match request.session {
        Session::New => line,
        Session::Resume(id) => line.arguments(["--session", id]),
        Session::Latest => line.argument("--continue"),
    };
    let line = if request.permission == Some(Permission::Full) { line.argument("--auto") } else { line };
    line.extra(request)
}

const RUN: DialectEntry = DialectEntry {
    name: "run",
    about: "events of `run --format json`",
    form: Form::Json,
    detect,
    reader: || Box::new(parts::Run::default()),
};

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
