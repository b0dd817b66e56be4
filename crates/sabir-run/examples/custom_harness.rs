//! A custom agent in one file: its output format, its command line, and a run.
//!
//! ```sh
//! cargo run -p sabir-run --example custom_harness
//! ```
//!
//! The agent is a shell script that prints lines of an invented format. For a real program, replace `Program::Shell` by
//! `Program::named(["acme"])`.

#![allow(clippy::print_stdout)]

use std::sync::Arc;

use sabir_core::agent::{Agent, Confidence, DialectSpec};
use sabir_core::dialect::{Dialect, End, Facts, Held, Verdict};
use sabir_core::event::{Event, Final, Outcome, RunId, TextDelta, ToolEnd, ToolKind, ToolStart, ToolStatus};
use sabir_core::fold::{SessionResult, SessionResultFold};
use sabir_core::launch::{CommandLine, LaunchSpec, Program, PromptTransport, Request};
use sabir_core::line::Line;
use sabir_run::{CancelHandle, RunConfig, RunSink, probe};

/// The agent: output format and launch spec.
fn acme() -> Agent {
    let dialect = DialectSpec::text(
        "lines",
        "a word, a colon and its subject",
        |line| Confidence::certain_if(line.starts_with("say: ")),
        Lines::default,
    );
    let launch = LaunchSpec::new(Program::Shell, |_| {
        CommandLine::new([
            "-c",
            "echo 'say: Looking.'; echo 'run: ls'; echo 'ran: a b c'; echo 'say: There are three files.'; echo bye",
        ])
        .prompt_by(PromptTransport::Arguments)
    });
    Agent::new("acme", "Acme").dialect(dialect).launch(launch.environment(["ACME_*"]).keys(["ACME_API_KEY"]))
}

/// The dialect. The decoder adds sequence numbers, pairing, and the single final answer and outcome.
#[derive(Default)]
struct Lines {
    answer: Held,
    over: bool,
}

impl Dialect for Lines {
    fn line<'a>(&mut self, line: &Line<'a>, facts: &mut Facts<'a>) {
        let text = line.text.clone().into_owned();
        match text.split_once(": ") {
            Some(("say", words)) => {
                self.answer.set(words);
                facts.push(TextDelta::new(words.to_owned()));
            }
            Some(("run", command)) => {
                facts.push(ToolStart::of_kind(ToolKind::Execute, "call", "shell").title(command.to_owned()));
            }
            Some(("ran", output)) => facts.push(ToolEnd::new("call", ToolStatus::Ok).output(output.to_owned()).exit_code(0)),
            _ if text == "bye" => self.over = true,
            // Unknown lines are preserved.
            _ => facts.unrecognized(None, line),
        }
    }

    fn over(&self) -> Option<bool> {
        Some(self.over)
    }

    fn end(&mut self, _: &End, facts: &mut Facts<'static>) -> Verdict {
        if !self.over {
            return Verdict::of(Outcome::Incomplete);
        }
        facts.push(Final::new(self.answer.take()));
        Verdict::of(Outcome::Completed)
    }
}

/// Prints each event and folds the events into a result.
struct Printed(SessionResultFold);

impl RunSink for Printed {
    fn event(&mut self, event: &Event<'_>) {
        let mut line = Vec::new();
        event.write_json(&mut line);
        println!("{}", String::from_utf8_lossy(&line));
        self.0.event(event);
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // In a reaper process this does not return.
    sabir_run::reaper::install();
    let prompt = "how many files are here?";
    let agent = Arc::new(acme());
    let command = agent.command(&Request { prompt, ..Request::default() })?;
    let program = probe::find_program(&agent).ok_or("acme is not installed")?;
    let config = RunConfig::new(agent, program, command, prompt, std::env::current_dir()?).run_id(RunId::from("example"));
    sabir_run::supervisor::set_subreaper(true);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut sink = Printed(SessionResult::fold());
    let outcome = runtime.block_on(sabir_run::run(config, CancelHandle::default().token(), &mut sink));
    let result = sink.0.finish();
    println!("{}: {}", outcome.outcome, result.text.unwrap_or_default());
    Ok(())
}
