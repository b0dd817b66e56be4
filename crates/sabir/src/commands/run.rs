//! `sabir run`: starts an agent and tells what it does.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use sabir_core::agent::Agent;
use sabir_core::event::{Event, RunId};
use sabir_core::fold::ResultOptions;
use sabir_core::line::{RawLine, Source};
use sabir_core::time::Timestamp;
use sabir_run::{CancelHandle, RunConfig, RunOutcome, RunSink};

use super::agents;
use crate::cli::{AskArguments, RunArguments};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::journal::{self, Recording};
use crate::output::{self, Output, onto};
use crate::print::live::Live;
use crate::print::{self, hint};
use crate::reason::Reason;
use crate::{hint, past, start};

pub(crate) fn run(arguments: &RunArguments) -> Result<Exit, Failure> {
    start::protect_secrets(&[]);
    let agent = agents::find(&arguments.agent)?;
    let (prompt, extra) = prompt(arguments)?;
    let prices = arguments.prices.as_deref().map(output::read_prices).transpose()?;
    let name = match (arguments.json, arguments.quiet) {
        (true, _) => output::EVENTS,
        (_, true) => output::ANSWER,
        _ => arguments.to.as_str(),
    };
    let result = ResultOptions { model: arguments.ask.model.clone(), prices };
    let session_id = arguments.session_id.clone();
    let options = output::Options { result: result.clone(), session_id, ..output::Options::default() };
    let output = Output::new(name, options);
    let run_id = arguments.run_id.as_deref().map_or_else(start::run_id, RunId::from);
    let journaled = journal::wanted(arguments.no_journal);
    if journaled && arguments.run_id.is_some() {
        journal::check_new(&run_id)
            .map_err(|failure| failure.hint("give another --run-id, or none; `sabir ls` lists the runs that there are"))?;
    }
    let raw = arguments.raw.as_deref().map(Raw::create).transpose()?;
    let resume = arguments.ask.resume.as_deref().map(|id| past::resumed(agent, id)).transpose()?;
    let ask = AskArguments { resume, ..arguments.ask.clone() };
    sabir_run::supervisor::set_subreaper(true);
    runtime()?.block_on(async {
        let plan = match start::plan(agent, &prompt, &extra, &ask, run_id.clone()).await {
            Ok(plan) => plan,
            Err(failure) if failure.exit == Exit::NotReady && name != output::HUMAN => {
                return not_started(agent, run_id, failure, output);
            }
            Err(failure) => return Err(failure),
        };
        let recording = if journaled { Recording::begin(&plan, result)? } else { Recording::default() };
        go(plan, output, recording, raw, name != output::HUMAN).await
    })
}

/// One thread is enough for any number of agents: they wait for models, and we for them.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::io("starting the event loop failed", &error))
}

async fn go(plan: RunConfig, output: Output, recording: Recording, raw: Option<Raw>, tell: bool) -> Result<Exit, Failure> {
    let agent = Arc::clone(&plan.agent);
    let cancel = CancelHandle::default();
    let token = cancel.token();
    let moving = matches!(output, Output::Human(_));
    let live = Live::start(moving, {
        let cancel = cancel.clone();
        // Nobody reads any more, so nobody waits for the end of the run.
        move || {
            cancel.cancel();
        }
    });
    let signals = tokio::spawn(listen(cancel));
    let mut sink = Printed { output, live, recording, raw, reason: Reason::default(), buffer: Vec::new() };
    let ended = sabir_run::run(plan, token, &mut sink).await;
    signals.abort();
    let Printed { output, live, recording, raw, reason, mut buffer } = sink;
    let written = output.end(&mut onto(&mut buffer));
    live.write(buffer);
    let RunOutcome { end, outcome, cause, killed, .. } = ended;
    let exit = if killed { Exit::Killed } else { Exit::of(outcome, cause) };
    let kept = recording.end().finish(exit);
    live.finish().and(written)?;
    if let Some(Raw { failure: Some(error), .. }) = raw {
        return Err(Failure::io("writing what the agent printed failed", &error));
    }
    if exit != Exit::Completed {
        if tell {
            let error: String = reason.error(outcome).iter().map(|line| format!(": {line}")).take(1).collect();
            print::warning(&format!("the run of {} ended: {}{error}", agent.id, reason.outcome(outcome, cause)));
        }
        if let Some(advice) = hint::after(&agent, outcome, cause, end.timeout) {
            hint(&advice);
        }
    }
    if end.quiescent == Some(false) {
        print::warning("processes of the run are left");
    }
    Ok(kept)
}

/// An agent that is not there is told in the vocabulary too: a program that reads us need not read English.
fn not_started(agent: &'static Arc<Agent>, run_id: RunId, failure: Failure, output: Output) -> Result<Exit, Failure> {
    let live = Live::start(false, || ());
    let (recording, reason) = (Recording::default(), Reason::default());
    let mut sink = Printed { output, live, recording, raw: None, reason, buffer: Vec::new() };
    sabir_run::supervisor::report_start_failure(Arc::clone(agent), run_id, &failure.what, &mut sink);
    let Printed { output, live, mut buffer, .. } = sink;
    output.end(&mut onto(&mut buffer))?;
    live.write(buffer);
    live.finish()?;
    Err(failure)
}

/// Turns signals to this process into a stop of the runs: the first asks, the second kills.
pub(crate) async fn listen(cancel: CancelHandle) {
    let Some(mut signals) = sabir_run::signals::Signals::new() else { return };
    loop {
        signals.next().await;
        if !cancel.cancel() {
            print::note("stopping; Ctrl-C again kills");
        }
    }
}

/// The prompt and the agent's own arguments.
fn prompt(arguments: &RunArguments) -> Result<(String, Vec<String>), Failure> {
    let mut extra = arguments.extra.clone();
    let given = match &arguments.prompt {
        Some(prompt) => Some(prompt.clone()),
        // `sabir run AGENT -- PROMPT` is how one writes a prompt that begins with a dash.
        None if !extra.is_empty() => Some(extra.remove(0)),
        None => None,
    };
    let prompt = match given {
        Some(prompt) if prompt != "-" => prompt,
        given if given.is_some() || !std::io::stdin().is_terminal() => {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .map_err(|error| Failure::usage(format!("can't read the prompt from standard input: {error}")))?;
            text
        }
        _ => String::new(),
    };
    if prompt.trim().is_empty() {
        return Err(Failure::usage("there is no prompt").hint(format!("sabir run {} \"what it is to do\"", arguments.agent)));
    }
    if prompt.contains('\0') {
        return Err(Failure::usage("the prompt holds a NUL character, which no program can be given"));
    }
    Ok((prompt, extra))
}

/// The file for what the agent prints.
struct Raw {
    file: File,
    /// Why nothing more is written.
    failure: Option<io::Error>,
}

impl Raw {
    fn create(path: &Path) -> Result<Self, Failure> {
        match File::create(path) {
            Ok(file) => Ok(Self { file, failure: None }),
            Err(error) => Err(Failure::usage(format!("can't write {}: {error}", path.display())).hint("--raw names a file")),
        }
    }

    /// A full disk does not end the run; it is told at the end.
    fn write(&mut self, bytes: &[u8]) {
        if self.failure.is_none() {
            self.failure = self.file.write_all(bytes).err();
        }
    }
}

/// Prints the events of a run.
struct Printed {
    output: Output,
    live: Live,
    recording: Recording,
    raw: Option<Raw>,
    reason: Reason,
    buffer: Vec<u8>,
}

impl RunSink for Printed {
    fn event(&mut self, event: &Event<'_>) {
        self.reason.event(event);
        self.output.event_and_record(event, &mut self.buffer, &mut self.recording);
    }

    fn line(&mut self, line: &RawLine<'_>, source: Source, at: Option<Timestamp>) {
        self.recording.line(line, source, at);
    }

    fn raw(&mut self, bytes: &[u8]) {
        if let Some(raw) = &mut self.raw {
            raw.write(bytes);
        }
    }

    fn flush(&mut self) {
        self.live.write(std::mem::take(&mut self.buffer));
        if let Some(meter) = self.output.meter() {
            self.live.meter(meter);
        }
        self.recording.idle();
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        ready!(self.live.poll_room(context));
        self.recording.poll_room(context)
    }
}
