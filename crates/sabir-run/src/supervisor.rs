//! One run, from its first byte to the proof that nothing of it is left. One loop decides everything.

use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::SystemTime;

use deadlines::Deadlines;
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
use crate::output::{OutputReader, ReadResult};
use crate::process_tree::ProcessTree;
use crate::spawn::{Spawned, spawn};
use crate::stop::{StopLevel, StopReason, StopSequence};
use crate::{platform, process_tree};

mod deadlines;

/// Everything that is decided before a run begins.
#[derive(Debug, Clone)]
pub struct RunConfig {
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

impl RunConfig {
    /// A config with the usual limits, in the current environment.
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
pub trait RunSink {
    /// Takes an event.
    fn event(&mut self, event: &Event<'_>);

    /// Takes what the agent printed to its standard output, byte by byte as it came, before it is read.
    fn raw(&mut self, _: &[u8]) {}

    /// Takes a line as it was read, from either pipe, before its events; and when it was read.
    fn line(&mut self, _: &RawLine<'_>, _: Source, _: Option<Timestamp>) {}

    /// Nothing more is there to be read for now: what is held back should go out.
    fn flush(&mut self) {}

    /// Ready when there is room for more. Until then the agent is not read, while limits and cancels work.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}

/// What may be asked of a run that goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum StopRequest {
    None,
    Cancel,
    Kill,
}

/// Stops runs. It may be shared by any number of them.
#[derive(Debug, Clone)]
pub struct CancelHandle(watch::Sender<StopRequest>);

/// The end of a [`CancelHandle`] that a run listens to.
#[derive(Debug, Clone)]
pub struct CancelToken(watch::Receiver<StopRequest>);

impl Default for CancelHandle {
    fn default() -> Self {
        Self(watch::Sender::new(StopRequest::None))
    }
}

impl CancelHandle {
    /// What a run listens to.
    pub fn token(&self) -> CancelToken {
        CancelToken(self.0.subscribe())
    }

    /// Asks for an orderly stop; asked again, kills. True for the second time.
    pub fn cancel(&self) -> bool {
        let mut is_repeated = false;
        self.0.send_modify(|request| {
            is_repeated = *request != StopRequest::None;
            *request = if is_repeated { StopRequest::Kill } else { StopRequest::Cancel };
        });
        is_repeated
    }
}

impl CancelToken {
    /// The request that comes next. Waits for ever when nobody can give one any more.
    async fn next(&mut self) -> StopRequest {
        match self.0.changed().await {
            Ok(()) => *self.0.borrow_and_update(),
            Err(_) => std::future::pending().await,
        }
    }
}

/// How a run ended, for its caller; the events say the same.
#[derive(Debug, Clone, PartialEq)]
pub struct RunOutcome {
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
    ReaperLost,
}

/// Takes in orphans of the runs of this process that have no [reaper](crate::reaper), where the system can do that. Call it once,
/// before the first run; `exclusive` when this process has no children but runs.
pub fn set_subreaper(exclusive: bool) {
    process_tree::set_subreaper(exclusive);
}

/// Whether this process has the rights of the is_superuser, which some agents ask for.
pub fn is_superuser() -> bool {
    platform::is_superuser()
}

/// Runs a config to its end.
pub async fn run(config: RunConfig, mut cancel: CancelToken, sink: &mut dyn RunSink) -> RunOutcome {
    let mut decode_loop = DecodeLoop::new(&config, sink);
    let spawned = match spawn(&config).await {
        Ok(spawned) => spawned,
        Err(failure) => {
            return decode_loop.finish(End { start_failed: Some(failure), at: now(), ..End::default() }, false);
        }
    };
    let Spawned { mut child, leader, stdout, stderr, prompt_file } = spawned;
    let mut tree = ProcessTree::new(leader, config.run_id.as_str(), child.reaper());
    let mut stdout = OutputReader::new(stdout, config.max_line);
    let mut stderr = OutputReader::new(stderr, config.max_line);
    let mut deadlines = Deadlines::new(config.limits);
    let mut exit = None;
    // Nothing more is to be heard of its process.
    let mut process_gone = false;
    let mut stop: Option<StopSequence> = None;
    let mut killed = false;
    let mut sink_full = false;
    // The process that we started is gone and others of the run are there. When they go on to speak, the one was a wrapper, and
    // its status says nothing about the run.
    let mut leader_exited = false;
    let mut orphan_active = false;

    let quiescent = loop {
        let pipes_open = stdout.is_open() || stderr.is_open();
        let next = match &stop {
            Some(stop) => Some((stop.next_poll, None)),
            None => deadlines.next(decode_loop.decoder.over(), stdout.is_open(), exit.is_some()),
        };
        tokio::select! {
            request = cancel.next() => {
                let level = if request == StopRequest::Kill { StopLevel::Kill } else { StopLevel::Interrupt };
                killed |= request == StopRequest::Kill;
                match &mut stop {
                    Some(stop) if stop.reason != StopReason::OrphanedProcesses => stop.escalate_to(level, &mut tree, &config.grace),
                    _ if exit.is_some() && !orphan_active => {}
                    _ => stop = Some(StopSequence::new(StopReason::Cancelled, level, leader, config.agent.launch.stop, &mut tree, &config.grace)),
                }
            }
            event = child.next(), if !process_gone => {
                let status = match event {
                    ChildEvent::Exited { status, drained: false } => {
                        process_gone = child.reaper().is_none();
                        status
                    }
                    ChildEvent::Exited { status, drained: true } => {
                        process_gone = true;
                        tree.mark_drained();
                        status
                    }
                    ChildEvent::Drained => {
                        process_gone = true;
                        tree.mark_drained();
                        None
                    }
                    // As with a wrapper that dies: the agent may go on, and nobody can say how it ends.
                    ChildEvent::ReaperLost => {
                        process_gone = true;
                        tree.mark_reaper_lost();
                        None
                    }
                };
                if exit.is_none() {
                    exit = Some(status);
                    deadlines.start_drain(config.grace.drain);
                }
                if process_gone && let Some(stop) = &mut stop {
                    stop.next_poll = Instant::now();
                }
                stdout.check_eof(&mut tree);
            }
            read = stdout.read(), if stdout.is_open() && !sink_full => match read {
                ReadResult::WriterClosed => stdout.check_eof(&mut tree),
                ReadResult::Bytes(count) => {
                    deadlines.record_bytes(count, true);
                    decode_loop.sink.raw(stdout.latest(count));
                    orphan_active |= leader_exited && count > 0;
                    decode_loop.decode_available(&mut stdout, count, Source::Stdout);
                    deadlines.record_tool_calls(decode_loop.decoder.tool_calls());
                    decode_loop.sink.flush();
                    sink_full = !is_ready(decode_loop.sink).await;
                }
            },
            read = stderr.read(), if stderr.is_open() && !sink_full => {
                if let ReadResult::Bytes(count) = read {
                    deadlines.record_bytes(count, false);
                    decode_loop.decode_available(&mut stderr, count, Source::Stderr);
                    decode_loop.sink.flush();
                    sink_full = !is_ready(decode_loop.sink).await;
                }
            }
            () = std::future::poll_fn(|context| decode_loop.sink.poll_ready(context)), if sink_full => sink_full = false,
            () = sleep(next.map(|(at, _)| at)) => match (&mut stop, next) {
                (Some(stop), _) => {
                    if stop.poll(exit.is_some(), &mut tree, &config.grace) {
                        if !pipes_open || deadlines.drain_elapsed() || stop.timed_out {
                            break tree.quiescent();
                        }
                        stdout.check_eof(&mut tree);
                    }
                }
                (None, Some((_, Some(limit)))) => {
                    let reason = StopReason::Timeout(limit);
                    stop = Some(StopSequence::new(reason, StopLevel::Interrupt, leader, config.agent.launch.stop, &mut tree, &config.grace));
                }
                // The process has ended and somebody still holds its pipes; or our own reader has no room for what is in them.
                (None, _) => {
                    if decode_loop.decoder.over() == Some(false) && !tree.is_empty() {
                        leader_exited |= !sink_full;
                    } else if !sink_full {
                        stdout.close();
                        stderr.close();
                    }
                    deadlines.start_drain(config.grace.drain);
                }
            },
        }
        if exit.is_some() && !stdout.is_open() && !stderr.is_open() && stop.is_none() {
            if tree.is_empty() {
                break tree.quiescent();
            }
            if config.leave_running {
                tree.release();
                break Some(false);
            }
            stop = Some(StopSequence::new(
                StopReason::OrphanedProcesses,
                StopLevel::Terminate,
                leader,
                config.agent.launch.stop,
                &mut tree,
                &config.grace,
            ));
        }
    };

    for (reader, source) in [(&mut stdout, Source::Stdout), (&mut stderr, Source::Stderr)] {
        if let Some(line) = reader.last_line() {
            decode_loop.decode_line(line, source);
        }
    }
    drop(prompt_file);
    let reason = stop.map(|stop| stop.reason);
    let (exit_code, signal) = exit.flatten().filter(|_| !orphan_active).map_or((None, None), platform::exit_code_and_signal);
    let end = End {
        exit_code,
        signal,
        cancelled: reason == Some(StopReason::Cancelled),
        timeout: match reason {
            Some(StopReason::Timeout(limit)) => Some(limit),
            _ => None,
        },
        start_failed: None,
        quiescent,
        at: now(),
    };
    decode_loop.finish(end, killed)
}

/// Tells of a run that could not even be planned, in the words of one that was.
pub fn report_start_failure(agent: Arc<Agent>, run_id: RunId, message: &str, sink: &mut dyn RunSink) -> RunOutcome {
    let failure = StartFailure { message: message.to_owned(), cause: Cause::AgentNotFound };
    let start = Start { run_id, at: now(), ..Start::of(agent) };
    let mut decode_loop = DecodeLoop { decoder: Decoder::new(start), sink, spare: Vec::new() };
    decode_loop.finish(End { start_failed: Some(failure), at: now(), ..End::default() }, false)
}

/// From lines to events to the sink.
struct DecodeLoop<'s> {
    decoder: Decoder,
    sink: &'s mut dyn RunSink,
    spare: Vec<Event<'static>>,
}

impl<'s> DecodeLoop<'s> {
    fn new(config: &RunConfig, sink: &'s mut dyn RunSink) -> Self {
        let start = Start {
            run_id: config.run_id.clone(),
            agent_version: config.agent_version.clone(),
            at: now(),
            structured: true,
            resumed: config.resumed,
            ..Start::of(Arc::clone(&config.agent))
        };
        let mut decode_loop = Self { decoder: Decoder::new(start), sink, spare: Vec::new() };
        let mut events = Vec::new();
        decode_loop.decoder.begin(&mut events);
        for event in &events {
            decode_loop.sink.event(event);
        }
        decode_loop.sink.flush();
        decode_loop
    }

    /// Reads the lines that are whole, and at the end of the stream (when no bytes came) also what is left.
    fn decode_available(&mut self, reader: &mut OutputReader, count: usize, source: Source) {
        while let Some(line) = reader.next_line() {
            self.decode_line(line, source);
        }
        if count == 0
            && let Some(line) = reader.last_line()
        {
            self.decode_line(line, source);
        }
    }

    fn decode_line(&mut self, line: RawLine<'_>, source: Source) {
        let mut events = Event::recycle(std::mem::take(&mut self.spare));
        let at = now();
        self.sink.line(&line, source, at);
        self.decoder.line(&line.to_line(at, source), &mut events);
        for event in &events {
            self.sink.event(event);
        }
        self.spare = Event::recycle(events);
    }

    fn finish(&mut self, end: End, killed: bool) -> RunOutcome {
        let mut events = Vec::new();
        self.decoder.end(&end, &mut events);
        for event in &events {
            self.sink.event(event);
        }
        self.sink.flush();
        let (outcome, cause) = match events.last().map(|event| &event.kind) {
            Some(EventKind::Exited(Exited { outcome, cause, .. })) => (*outcome, *cause),
            _ => (Outcome::Incomplete, None),
        };
        RunOutcome { outcome, cause, end, killed }
    }
}

/// Whether the sink has room now.
async fn is_ready(sink: &mut dyn RunSink) -> bool {
    std::future::poll_fn(|context| Poll::Ready(sink.poll_ready(context).is_ready())).await
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
