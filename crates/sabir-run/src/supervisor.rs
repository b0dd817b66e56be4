//! Supervision of one run, from spawn to quiescence: a single `select!` loop.

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

/// Configuration of a run.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RunConfig {
    /// Agent to run.
    pub agent: Arc<Agent>,
    /// Version of the agent's CLI, if known.
    pub agent_version: Option<String>,
    /// Id of the run. Must be unique: without a reaper, its processes are recognized by it.
    pub run_id: RunId,
    /// Executable.
    pub program: PathBuf,
    /// Command line, and how the prompt is passed.
    pub command: CommandLine,
    /// Prompt for the agent.
    pub prompt: String,
    /// Working directory.
    pub cwd: PathBuf,
    /// Environment variables.
    pub environment: Environment,
    /// Timeouts.
    pub limits: Limits,
    /// Grace periods of the stop escalation.
    pub grace: Grace,
    /// Leave processes running that outlive the agent.
    pub leave_running: bool,
    /// Capture of stdout.
    pub output: StdoutCapture,
    /// The prompt continues an existing session.
    pub resumed: bool,
    /// Lines longer than this many bytes are truncated.
    pub max_line: usize,
}

impl RunConfig {
    /// A configuration with default limits and the environment that the agent is allowed to see.
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

    /// Sets the id of the run.
    #[must_use]
    pub fn run_id(mut self, run_id: impl Into<RunId>) -> Self {
        self.run_id = run_id.into();
        self
    }

    /// Sets the timeouts.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the grace periods.
    #[must_use]
    pub fn grace(mut self, grace: Grace) -> Self {
        self.grace = grace;
        self
    }

    /// Sets how stdout is captured.
    #[must_use]
    pub fn output(mut self, output: StdoutCapture) -> Self {
        self.output = output;
        self
    }
}

/// Receives the events of a run.
pub trait RunSink {
    /// Called for each event.
    fn event(&mut self, event: &Event<'_>);

    /// Called with each chunk of stdout, verbatim, before it is decoded.
    fn raw(&mut self, _: &[u8]) {}

    /// Called with each line of stdout and stderr and the time it was read, before its events.
    fn line(&mut self, _: &RawLine<'_>, _: Source, _: Option<Timestamp>) {}

    /// Called when no further output is available for now: buffered data should be written out.
    fn flush(&mut self) {}

    /// Backpressure: while this is pending, the agent's output is not read. Limits and cancellation stay in effect.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}

/// Current request of a [`CancelHandle`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum StopRequest {
    None,
    Cancel,
    Kill,
}

/// Cancels any number of runs.
#[derive(Debug, Clone)]
pub struct CancelHandle(watch::Sender<StopRequest>);

/// Receiver of a [`CancelHandle`], passed to [`run`].
#[derive(Debug, Clone)]
pub struct CancelToken(watch::Receiver<StopRequest>);

impl Default for CancelHandle {
    fn default() -> Self {
        Self(watch::Sender::new(StopRequest::None))
    }
}

impl CancelHandle {
    /// A token that is cancelled with this handle.
    pub fn token(&self) -> CancelToken {
        CancelToken(self.0.subscribe())
    }

    /// Requests an orderly stop; a second call kills. Returns whether this was a repeated call.
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
    /// Waits for the next request; forever if the handle was dropped.
    async fn next(&mut self) -> StopRequest {
        match self.0.changed().await {
            Ok(()) => *self.0.borrow_and_update(),
            Err(_) => std::future::pending().await,
        }
    }
}

/// Result of [`run`]. The `exited` event carries the same information.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RunOutcome {
    /// Outcome of the run.
    pub outcome: Outcome,
    /// Reason, if it did not complete.
    pub cause: Option<Cause>,
    /// Exit status and termination details.
    pub end: End,
    /// Killed because cancellation was requested twice.
    pub killed: bool,
}

/// Event of the supervised process.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
pub(crate) enum ChildEvent {
    /// The leader exited; `drained` if no process of the run is left.
    Exited { status: Option<std::process::ExitStatus>, drained: bool },
    /// No process of the run is left. Reported only by a [reaper](crate::reaper).
    Drained,
    /// The reaper was killed.
    ReaperLost,
}

/// Makes this process a child subreaper, where the system supports it: orphans of runs without a [reaper](crate::reaper) become
/// its children. Set `exclusive` if this process has no other children; orphans are then assigned to a run even without its
/// environment variable.
///
/// This changes **process-global** state and cannot be undone: call it once, before the first run.
pub fn set_subreaper(exclusive: bool) {
    process_tree::set_subreaper(exclusive);
}

/// Returns whether this process runs with the effective user id of root. Some agents need other flags then.
pub fn is_superuser() -> bool {
    platform::is_superuser()
}

/// Runs an agent until it and its processes have exited, passing its events to `sink`. Dropping the future kills the run if it
/// has a [reaper](crate::reaper).
pub async fn run(config: RunConfig, mut cancel: CancelToken, sink: &mut dyn RunSink) -> RunOutcome {
    let mut decode_loop = DecodeLoop::new(&config, sink);
    let spawned = match spawn(&config).await {
        Ok(spawned) => spawned,
        Err(failure) => {
            return decode_loop.finish(End { start_failed: Some(failure), at: Some(now()), ..End::default() }, false);
        }
    };
    let Spawned { mut child, leader, stdout, stderr, prompt_file } = spawned;
    let mut tree = ProcessTree::new(leader, config.run_id.as_str(), child.reaper());
    let mut stdout = OutputReader::new(stdout, config.max_line);
    let mut stderr = OutputReader::new(stderr, config.max_line);
    let mut deadlines = Deadlines::new(config.limits);
    let mut exit = None;
    // No further process events.
    let mut process_gone = false;
    let mut stop: Option<StopSequence> = None;
    let mut killed = false;
    let mut sink_full = false;
    // The leader exited while other processes of the run are alive. If those produce output, the leader was a wrapper, and its
    // exit status is not that of the run.
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
                    // As with a wrapper that dies: the agent may continue, with an unknown exit status.
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
                // The drain period passed: another process holds the pipes, or the sink applies backpressure.
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
        at: Some(now()),
    };
    decode_loop.finish(end, killed)
}

/// Reports a run that could not be configured (for example because its program is missing) with the events of a failed start.
pub fn report_start_failure(agent: Arc<Agent>, run_id: RunId, message: &str, sink: &mut dyn RunSink) -> RunOutcome {
    let failure = StartFailure { message: message.to_owned(), cause: Cause::AgentNotFound };
    let start = Start { run_id, at: Some(now()), ..Start::of(agent) };
    let mut decode_loop = DecodeLoop { decoder: Decoder::new(start), sink, spare: Vec::new() };
    decode_loop.finish(End { start_failed: Some(failure), at: Some(now()), ..End::default() }, false)
}

/// Decodes lines and passes their events to the sink.
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
            at: Some(now()),
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

    /// Decodes all complete lines, and at the end of the stream (`count` is 0) the unterminated rest.
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
        let at = Some(now());
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

/// Polls the sink once.
async fn is_ready(sink: &mut dyn RunSink) -> bool {
    std::future::poll_fn(|context| Poll::Ready(sink.poll_ready(context).is_ready())).await
}

async fn sleep(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => std::future::pending().await,
    }
}

/// Current time; the epoch if the system clock is before it.
pub fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_epoch.as_millis()).ok().and_then(Timestamp::from_millis).unwrap_or(Timestamp::EPOCH)
}
