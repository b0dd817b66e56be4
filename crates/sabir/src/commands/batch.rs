//! `sabir batch`: many runs at once, in one process.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::{IsTerminal as _, Read as _};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use sabir_core::agent::Agent;
use sabir_core::event::{Event, RunId};
use sabir_core::fold::ResultOptions;
use sabir_core::line::{RawLine, Source};
use sabir_core::time::Timestamp;
use sabir_run::{CancelHandle, RunSink};
use serde::Deserialize;
use tokio::sync::Semaphore;
use tokio::task::LocalSet;

use super::agents;
use crate::cli::{AskArguments, BatchArguments};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::journal::{self, Recording};
use crate::output::{Options, Output, onto};
use crate::past;
use crate::print;
use crate::print::live::Live;
use crate::start;

/// One line of the file.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Job {
    agent: String,
    prompt: String,
    id: Option<String>,
    cwd: Option<PathBuf>,
    model: Option<String>,
    resume: Option<String>,
    permission: Option<String>,
    max_turns: Option<u32>,
    max_cost: Option<f64>,
    timeout_seconds: Option<f64>,
    #[serde(default)]
    extra: Vec<String>,
}

/// A job that was checked.
struct Checked {
    agent: &'static Arc<Agent>,
    run_id: RunId,
    prompt: String,
    extra: Vec<String>,
    ask: AskArguments,
}

pub(crate) fn run(arguments: &BatchArguments) -> Result<Exit, Failure> {
    start::protect_secrets(&[]);
    let journaled = journal::wanted(arguments.no_journal);
    let jobs = read(arguments, journaled)?;
    sabir_run::supervisor::set_subreaper(true);
    let cancel = CancelHandle::default();
    let live = Rc::new(Live::start(false, {
        let cancel = cancel.clone();
        move || {
            cancel.cancel();
        }
    }));
    let runtime = super::run::runtime()?;
    let worst = Rc::new(RefCell::new(Exit::Completed));
    let local = LocalSet::new();
    local.block_on(&runtime, async {
        let signals = tokio::spawn(super::run::listen(cancel.clone()));
        let room = Rc::new(Semaphore::new(usize::from(arguments.jobs)));
        let mut running = Vec::new();
        for job in jobs {
            let (room, live, worst) = (Rc::clone(&room), Rc::clone(&live), Rc::clone(&worst));
            let (token, to) = (cancel.token(), arguments.to.clone());
            running.push(tokio::task::spawn_local(async move {
                let Ok(_place) = room.acquire().await else { return };
                let output = Output::new(&to, Options::default());
                let mut sink = Shared { output, live, recording: Recording::default(), buffer: Vec::new() };
                let plan = start::plan(job.agent, &job.prompt, &job.extra, &job.ask, job.run_id.clone()).await;
                let result = ResultOptions { model: job.ask.model.clone(), prices: None };
                let recorded = plan.and_then(|plan| {
                    let recording = if journaled { Recording::begin(&plan, result)? } else { Recording::default() };
                    Ok((plan, recording))
                });
                let exit = match recorded {
                    Ok((plan, recording)) => {
                        sink.recording = recording;
                        let ended = sabir_run::run(plan, token, &mut sink).await;
                        if ended.killed { Exit::Killed } else { Exit::of(ended.outcome, ended.cause) }
                    }
                    Err(failure) => {
                        sabir_run::supervisor::report_start_failure(Arc::clone(job.agent), job.run_id, &failure.what, &mut sink);
                        failure.exit
                    }
                };
                let Shared { output, live, recording, mut buffer } = sink;
                if let Err(failure) = output.end(&mut onto(&mut buffer)) {
                    print::failure(&failure);
                }
                live.write(buffer);
                let ending = recording.end();
                // The disk of one run does not keep the others waiting.
                let exit = tokio::task::spawn_blocking(move || ending.finish(exit)).await.unwrap_or(Exit::Delivery);
                let mut worst = worst.borrow_mut();
                *worst = (*worst).max(exit);
            }));
        }
        for task in running {
            // A task that panicked has told so; the others go on.
            let _ = task.await;
        }
        signals.abort();
    });
    drop(local);
    if let Some(live) = Rc::into_inner(live) {
        live.finish()?;
    }
    Ok(*worst.borrow())
}

/// All jobs are checked before the first one runs.
fn read(arguments: &BatchArguments, journaled: bool) -> Result<Vec<Checked>, Failure> {
    let name = arguments.file.display();
    let mut text = String::new();
    let read = if arguments.file.as_os_str() == "-" {
        if std::io::stdin().is_terminal() {
            print::note("reading runs from the terminal, one JSON object per line; Ctrl-D ends them");
        }
        std::io::stdin().read_to_string(&mut text).map(drop)
    } else {
        std::fs::read_to_string(&arguments.file).map(|read| text = read)
    };
    read.map_err(|error| Failure::usage(format!("can't read {name}: {error}")))?;
    let mut jobs = Vec::new();
    let mut ids = BTreeSet::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let wrong = |why: &dyn std::fmt::Display| {
            Failure::usage(format!("line {} of {name}: {why}", index + 1))
                .hint("`sabir batch --help` shows what a line looks like")
        };
        let job: Job = serde_json::from_str(line).map_err(|error| wrong(&error))?;
        let agent = agents::find(&job.agent)?;
        let is_named = job.id.is_some();
        let run_id = job.id.map_or_else(start::run_id, RunId::from);
        if !ids.insert(run_id.as_str().to_owned()) {
            return Err(wrong(&format_args!("the id {} is there already", run_id.as_str())));
        }
        if is_named && journaled {
            journal::check_new(&run_id).map_err(|failure| {
                wrong(&failure.what)
                    .hint("give each run an `id` of its own, or none: then it gets a new one; nothing was started")
            })?;
        }
        if job.permission.as_deref().is_some_and(|level| !["read-only", "edit", "full"].contains(&level)) {
            return Err(wrong(&"a permission is read-only, edit or full"));
        }
        let timeout = job.timeout_seconds.map(Duration::try_from_secs_f64).transpose().map_err(|error| wrong(&error))?;
        let ask = AskArguments {
            model: job.model,
            resume: job.resume.as_deref().map(|id| past::resumed(agent, id)).transpose()?,
            permission: job.permission,
            max_turns: job.max_turns,
            max_cost: job.max_cost,
            cwd: job.cwd,
            timeout,
            ..AskArguments::default()
        };
        jobs.push(Checked { agent, run_id, prompt: job.prompt, extra: job.extra, ask });
    }
    if jobs.is_empty() {
        return Err(Failure::usage(format!("{name} holds no run")).hint("`sabir batch --help` shows what a line looks like"));
    }
    Ok(jobs)
}

/// Prints the events of one of several runs: only whole lines go to the printer.
struct Shared {
    output: Output,
    live: Rc<Live>,
    recording: Recording,
    buffer: Vec<u8>,
}

impl RunSink for Shared {
    fn event(&mut self, event: &Event<'_>) {
        self.output.event_and_record(event, &mut self.buffer, &mut self.recording);
    }

    fn line(&mut self, line: &RawLine<'_>, source: Source, at: Option<Timestamp>) {
        self.recording.line(line, source, at);
    }

    fn flush(&mut self) {
        self.live.write(std::mem::take(&mut self.buffer));
        self.recording.idle();
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        ready!(self.live.poll_room(context));
        self.recording.poll_room(context)
    }
}
