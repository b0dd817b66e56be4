//! One run, from its first byte to the proof that nothing of it is left. One loop decides everything.

use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::SystemTime;

use clock::Clock;
use sabir_core::agent::Agent;
use sabir_core::decode::{Decoder, Start};
use sabir_core::dialect::{End, StartFailure};
use sabir_core::event::{Cause, Event, EventKind, Exited, Outcome, RunId};
use sabir_core::launch::{CommandLine, StdoutCapture};
use sabir_core::line::{LineBuffer, RawLine, Source};
use sabir_core::time::Timestamp;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::environment::Environment;
use crate::limits::{Grace, Limits};
use crate::pump::{Filled, Pump};
use crate::spawn::{Spawned, spawn};
use crate::stop::{Reason, Step, Stop};
use crate::tree::Tree;
use crate::{platform, tree};

mod clock;

/// Everything that is decided before a run begins.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The agent.
    pub agent: Arc<Agent>,
    /// Its version, where it is known.
    pub agent_version: Option<String>,
    /// Names the run. It must be its own: processes of the run are known by it.
    pub run_id: RunId,
    /// What is executed.
    pub program: PathBuf,
    /// With which arguments.
    pub command: CommandLine,
    /// What the agent is to do.
    pub prompt: String,
    /// Where.
    pub cwd: PathBuf,
    /// With which variables.
    pub environment: Environment,
    /// How long things may take.
    pub limits: Limits,
    /// How long a stop waits between its steps.
    pub grace: Grace,
    /// What the agent leaves running when it ends by itself is left alone.
    pub leave_running: bool,
    /// How the agent's standard output is taken.
    pub output: StdoutCapture,
    /// The prompt belongs to a session that was there before.
    pub resumed: bool,
    /// Lines longer than this many bytes are cut.
    pub max_line: usize,
}

impl Plan {
    /// A plan with the usual limits, in the current environment.
    pub fn new(agent: Arc<Agent>, program: PathBuf, command: CommandLine, prompt: &str, cwd: PathBuf) -> Self {
        Self {
            agent_version: None,
            run_id: RunId::from("run"),
            program,
            command,
            prompt: prompt.to_owned(),
            cwd,
            environment: Environment::new(crate::secrets::variables(), &agent.launch.environment, &[]),
            limits: Limits::default(),
            grace: Grace::default(),
            leave_running: false,
            output: agent.launch.stdout,
            agent,
            resumed: false,
            max_line: LineBuffer::DEFAULT_CAP,
        }
    }
}

/// Where the events of a run go.
pub trait Sink {
    /// Takes an event.
    fn event(&mut self, event: &Event<'_>);

    /// Takes what the agent printed to its standard output, byte by byte as it came, before it is read.
    fn raw(&mut self, _: &[u8]) {}

    /// Takes a line as it was read, from either pipe, before its events; and when it was read.
    fn line(&mut self, _: &RawLine<'_>, _: Source, _: Option<Timestamp>) {}

    /// Nothing more is there to be read for now: what is held back should go out.
    fn idle(&mut self) {}

    /// Ready when there is room for more. Until then the agent is not read, while limits and cancels work.
    fn poll_room(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}

/// What may be asked of a run that goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Order {
    Go,
    Cancel,
    Kill,
}

/// Stops runs. It may be shared by any number of them.
#[derive(Debug, Clone)]
pub struct Controller(watch::Sender<Order>);

/// The end of a [`Controller`] that a run listens to.
#[derive(Debug, Clone)]
pub struct Control(watch::Receiver<Order>);

impl Default for Controller {
    fn default() -> Self {
        Self(watch::Sender::new(Order::Go))
    }
}

impl Controller {
    /// What a run listens to.
    pub fn control(&self) -> Control {
        Control(self.0.subscribe())
    }

    /// Asks for an orderly stop; asked again, kills. True for the second time.
    pub fn cancel(&self) -> bool {
        let mut again = false;
        self.0.send_modify(|order| {
            again = *order != Order::Go;
            *order = if again { Order::Kill } else { Order::Cancel };
        });
        again
    }
}

impl Control {
    /// The order that comes next. Waits for ever when nobody can give one any more.
    async fn next(&mut self) -> Order {
        match self.0.changed().await {
            Ok(()) => *self.0.borrow_and_update(),
            Err(_) => std::future::pending().await,
        }
    }
}

/// How a run ended, for its caller; the events say the same.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    /// What became of it.
    pub outcome: Outcome,
    /// Why, when it ended badly.
    pub cause: Option<Cause>,
    /// What is known of its process.
    pub end: End,
    /// It was killed because a cancel was repeated.
    pub killed: bool,
}

/// What becomes of the process of a run.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
pub(crate) enum ChildEvent {
    /// It has ended; `drained` when no process of the run is left.
    Exited { status: Option<std::process::ExitStatus>, drained: bool },
    /// No process of the run is left. Only a [reaper](crate::reaper) knows that.
    Drained,
    /// The reaper was killed.
    Lost,
}

/// Takes in orphans of the runs of this process that have no [reaper](crate::reaper), where the system can do that. Call it once,
/// before the first run; `exclusive` when this process has no children but runs.
pub fn take_in_orphans(exclusive: bool) {
    tree::take_in_orphans(exclusive);
}

/// Whether this process has the rights of the superuser, which some agents ask for.
pub fn superuser() -> bool {
    platform::superuser()
}

/// Runs a plan to its end.
pub async fn run(plan: Plan, mut control: Control, sink: &mut dyn Sink) -> Ended {
    let mut reading = Reading::new(&plan, sink);
    let spawned = match spawn(&plan).await {
        Ok(spawned) => spawned,
        Err(failure) => {
            return reading.end(End { start_failed: Some(failure), at: now(), ..End::default() }, false);
        }
    };
    let Spawned { mut child, leader, stdout, stderr, prompt_file } = spawned;
    let mut tree = Tree::new(leader, plan.run_id.as_str(), child.reaper());
    let mut stdout = Pump::new(stdout, plan.max_line);
    let mut stderr = Pump::new(stderr, plan.max_line);
    let mut clock = Clock::new(plan.limits);
    let mut exit = None;
    // Nothing more is to be heard of its process.
    let mut over = false;
    let mut stop: Option<Stop> = None;
    let mut killed = false;
    let mut full = false;
    // The process that we started is gone and others of the run are there. When they go on to speak, the one was a wrapper, and
    // its status says nothing about the run.
    let mut left_behind = false;
    let mut outlived = false;

    let quiescent = loop {
        let pipes_open = stdout.open() || stderr.open();
        let due = match &stop {
            Some(stop) => Some((stop.look_at, None)),
            None => clock.due(reading.decoder.over(), stdout.open(), exit.is_some()),
        };
        tokio::select! {
            order = control.next() => {
                let step = if order == Order::Kill { Step::Kill } else { Step::Ask };
                killed |= order == Order::Kill;
                match &mut stop {
                    Some(stop) if stop.reason != Reason::Leftovers => stop.take(step, &mut tree, &plan.grace),
                    _ if exit.is_some() && !outlived => {}
                    _ => stop = Some(Stop::begin(Reason::Cancelled, step, leader, plan.agent.launch.stop, &mut tree, &plan.grace)),
                }
            }
            event = child.next(), if !over => {
                let status = match event {
                    ChildEvent::Exited { status, drained: false } => {
                        over = child.reaper().is_none();
                        status
                    }
                    ChildEvent::Exited { status, drained: true } => {
                        over = true;
                        tree.drained();
                        status
                    }
                    ChildEvent::Drained => {
                        over = true;
                        tree.drained();
                        None
                    }
                    // As with a wrapper that dies: the agent may go on, and nobody can say how it ends.
                    ChildEvent::Lost => {
                        over = true;
                        tree.reaper_lost();
                        None
                    }
                };
                if exit.is_none() {
                    exit = Some(status);
                    clock.exited(plan.grace.drain);
                }
                if over && let Some(stop) = &mut stop {
                    stop.look_at = Instant::now();
                }
                stdout.settle(&mut tree);
            }
            filled = stdout.fill(), if stdout.open() && !full => match filled {
                Filled::LetGo => stdout.settle(&mut tree),
                Filled::Bytes(count) => {
                    clock.bytes(count, true);
                    reading.sink.raw(stdout.latest(count));
                    outlived |= left_behind && count > 0;
                    reading.lines(&mut stdout, count, Source::Stdout);
                    clock.tools(reading.decoder.tool_calls());
                    reading.sink.idle();
                    full = !room(reading.sink).await;
                }
            },
            filled = stderr.fill(), if stderr.open() && !full => {
                if let Filled::Bytes(count) = filled {
                    clock.bytes(count, false);
                    reading.lines(&mut stderr, count, Source::Stderr);
                    reading.sink.idle();
                    full = !room(reading.sink).await;
                }
            }
            () = std::future::poll_fn(|context| reading.sink.poll_room(context)), if full => full = false,
            () = sleep(due.map(|(at, _)| at)) => match (&mut stop, due) {
                (Some(stop), _) => {
                    if stop.look(exit.is_some(), &mut tree, &plan.grace) {
                        if !pipes_open || clock.drained() || stop.gave_up {
                            break tree.proof();
                        }
                        stdout.settle(&mut tree);
                    }
                }
                (None, Some((_, Some(limit)))) => {
                    let reason = Reason::Timeout(limit);
                    stop = Some(Stop::begin(reason, Step::Ask, leader, plan.agent.launch.stop, &mut tree, &plan.grace));
                }
                // The process has ended and somebody still holds its pipes; or our own reader has no room for what is in them.
                (None, _) => {
                    if reading.decoder.over() == Some(false) && !tree.is_empty() {
                        left_behind |= !full;
                    } else if !full {
                        stdout.close();
                        stderr.close();
                    }
                    clock.exited(plan.grace.drain);
                }
            },
        }
        if exit.is_some() && !stdout.open() && !stderr.open() && stop.is_none() {
            if tree.is_empty() {
                break tree.proof();
            }
            if plan.leave_running {
                tree.release();
                break Some(false);
            }
            stop = Some(Stop::begin(Reason::Leftovers, Step::Terminate, leader, plan.agent.launch.stop, &mut tree, &plan.grace));
        }
    };

    for (pump, source) in [(&mut stdout, Source::Stdout), (&mut stderr, Source::Stderr)] {
        if let Some(line) = pump.last_line() {
            reading.line(line, source);
        }
    }
    drop(prompt_file);
    let reason = stop.map(|stop| stop.reason);
    let (exit_code, signal) = exit.flatten().filter(|_| !outlived).map_or((None, None), platform::ended);
    let end = End {
        exit_code,
        signal,
        cancelled: reason == Some(Reason::Cancelled),
        timeout: match reason {
            Some(Reason::Timeout(limit)) => Some(limit),
            _ => None,
        },
        start_failed: None,
        quiescent,
        at: now(),
    };
    reading.end(end, killed)
}

/// Tells of a run that could not even be planned, in the words of one that was.
pub fn never_began(agent: Arc<Agent>, run_id: RunId, message: &str, sink: &mut dyn Sink) -> Ended {
    let failure = StartFailure { message: message.to_owned(), cause: Cause::AgentNotFound };
    let start = Start { run_id, at: now(), ..Start::of(agent) };
    let mut reading = Reading { decoder: Decoder::new(start), sink, spare: Vec::new() };
    reading.end(End { start_failed: Some(failure), at: now(), ..End::default() }, false)
}

/// From lines to events to the sink.
struct Reading<'s> {
    decoder: Decoder,
    sink: &'s mut dyn Sink,
    spare: Vec<Event<'static>>,
}

impl<'s> Reading<'s> {
    fn new(plan: &Plan, sink: &'s mut dyn Sink) -> Self {
        let start = Start {
            run_id: plan.run_id.clone(),
            agent_version: plan.agent_version.clone(),
            at: now(),
            structured: true,
            resumed: plan.resumed,
            ..Start::of(Arc::clone(&plan.agent))
        };
        let mut reading = Self { decoder: Decoder::new(start), sink, spare: Vec::new() };
        let mut events = Vec::new();
        reading.decoder.begin(&mut events);
        for event in &events {
            reading.sink.event(event);
        }
        reading.sink.idle();
        reading
    }

    /// Reads the lines that are whole, and at the end of the stream (when no bytes came) also what is left.
    fn lines(&mut self, pump: &mut Pump, count: usize, source: Source) {
        while let Some(line) = pump.next_line() {
            self.line(line, source);
        }
        if count == 0
            && let Some(line) = pump.last_line()
        {
            self.line(line, source);
        }
    }

    fn line(&mut self, line: RawLine<'_>, source: Source) {
        let mut events = Event::recycle(std::mem::take(&mut self.spare));
        let at = now();
        self.sink.line(&line, source, at);
        self.decoder.line(&line.to_line(at, source), &mut events);
        for event in &events {
            self.sink.event(event);
        }
        self.spare = Event::recycle(events);
    }

    fn end(&mut self, end: End, killed: bool) -> Ended {
        let mut events = Vec::new();
        self.decoder.end(&end, &mut events);
        for event in &events {
            self.sink.event(event);
        }
        self.sink.idle();
        let (outcome, cause) = match events.last().map(|event| &event.kind) {
            Some(EventKind::Exited(Exited { outcome, cause, .. })) => (*outcome, *cause),
            _ => (Outcome::Incomplete, None),
        };
        Ended { outcome, cause, end, killed }
    }
}

/// Whether the sink has room now.
async fn room(sink: &mut dyn Sink) -> bool {
    std::future::poll_fn(|context| Poll::Ready(sink.poll_room(context).is_ready())).await
}

async fn sleep(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => std::future::pending().await,
    }
}

fn now() -> Option<Timestamp> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Timestamp::from_millis(i64::try_from(since.as_millis()).ok()?)
}
