//! Kilo, a fork of OpenCode.
//!
//! `run --format json` differs from OpenCode's in two ways: the end of a step has speed metrics of the model, by which the
//! two are distinguished, and an error of the command itself is a string. The database of sessions has the same tables and
//! another path.

use crate::family::opencode::{self, RunLine};
use sabir_core::agent::{Accounting, Agent, Confidence, DialectSpec};
use sabir_core::dialect::text;
use sabir_core::history::{FileRole, LogRoot, LogSpec};
use sabir_core::launch::{Capabilities, CommandLine, LaunchSpec, Permission, Program, Request, Session};

/// The agent.
pub fn agent() -> Agent {
    Agent::new("kilo", "Kilo")
        .aliases(["kilocode"])
        .dialect(run())
        .log(log())
        .dialect(text::dialect())
        .accounting(Accounting { input_includes_cache: false, output_excludes_reasoning: true })
        .launch(launch())
        .shapes(include_str!("kilo/shapes.txt"))
}

fn log() -> LogSpec {
    LogSpec::new(
        [LogRoot::relocatable("XDG_DATA_HOME", ".local/share", "kilo/kilo.db")],
        // The rows are the same as those of OpenCode.
        opencode::history::dialect().with_detect(|_| Confidence::None),
        |path| (path == ["kilo.db"]).then_some(FileRole::Database),
        opencode::history::note,
    )
    .prefix_sufficient(opencode::history::enough)
}

fn launch() -> LaunchSpec {
    LaunchSpec::new(Program::named(["kilo", "kilocode"]), command)
        .capabilities(Capabilities {
            model: true,
            resume: true,
            r#continue: true,
            // Narrower permissions were never recorded.
            permissions: vec![Permission::Full],
            ..Capabilities::default()
        })
        .environment(["KILO_*", "ANTHROPIC_*", "OPENAI_*", "GEMINI_*", "GOOGLE_*", "OPENROUTER_*", "AWS_*"])
        .keys(["KILO_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY"])
        .logins([".local/share/kilo/auth.json"])
        .install("npm install -g @kilocode/cli")
        .recorded_versions(["7.7.7"])
}

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

fn run() -> DialectSpec {
    DialectSpec::json("run", "events of `run --format json`", detect, opencode::Run::default)
}

fn detect(line: &str) -> Confidence {
    match opencode::run_line(line) {
        RunLine::Other => Confidence::None,
        RunLine::Any => Confidence::Possible,
        RunLine::StepEnd { has_metrics } => Confidence::certain_if(has_metrics),
    }
}

#[cfg(test)]
mod tests {
    use super::detect;
    use sabir_core::agent::Confidence;

    #[test]
    fn detects_kilo_by_the_metrics_of_a_step() {
        let start = r#"{"type":"step_start","timestamp":1,"sessionID":"ses_1","part":{"type":"step-start"}}"#;
        assert_eq!(detect(start), Confidence::Possible);
        let end = r#"{"type":"step_finish","sessionID":"ses_1","part":{"metrics":{"generation":32.2},"reason":"stop"}}"#;
        assert_eq!(detect(end), Confidence::Certain);
        assert_eq!(detect(&end.replace("metrics", "other")), Confidence::None);
        assert_eq!(detect("plain text"), Confidence::None);
    }
}
