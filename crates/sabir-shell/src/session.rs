//! A runner session: an agent, its log, and delivery.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sabir_core::event::{Cause, Outcome};
use sabir_core::export::Options;
use sabir_protocol::{Order, Refusal, Taken};
use sabir_store::Home;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use crate::adapter::{Adapter, AdapterContext, AgentInput, Completion, RunFuture};
use crate::artifact::{ArtifactFile, ArtifactFinder, ArtifactUploader};
use crate::commands::{CommandHandler, Effect};
use crate::delivery;
use crate::error::{RunnerError, Source};
use crate::hub::Hub;
use crate::outbox::{LastRun, Outbox, Position, Repair};
use crate::recovery;
use crate::session_log::SessionLog;
use crate::sink::StorageSink;
use crate::timer::sleep_until;
use crate::uploader::{self, ClientInfo, DeliveryOutcome, DeliveryStatus, Uploader};
use crate::{Redactor, SessionId};

/// Interval of heartbeat messages during a run.
const HEARTBEAT: Duration = Duration::from_secs(30);
const TICK: Duration = Duration::from_secs(1);
/// Capacity of the command queue. The hub repeats commands that do not fit.
const COMMAND_QUEUE: usize = 64;

/// Handling of a run that an earlier runner did not finish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnCrash {
    /// Report it as incomplete.
    #[default]
    Report,
    /// Resume the conversation with the same prompt.
    Resume,
    /// Start over with the same prompt.
    Retry,
}

/// Configuration of a session.
#[derive(Debug)]
pub struct SessionConfig {
    /// Session id.
    pub session: SessionId,
    /// Sabir's data directory, for the outbox.
    pub home: Home,
    /// Hub to deliver to.
    pub hub: Option<Hub>,
    /// Folder or bucket to deliver to.
    pub sink: Option<StorageSink>,
    /// Artifacts to upload.
    pub files: Option<ArtifactFinder>,
    /// Redacts secrets.
    pub redactor: Arc<Redactor>,
    /// Session metadata in messages.
    pub options: Options,
    /// First prompt.
    pub prompt: Option<String>,
    /// Handling of an interrupted run.
    pub on_crash: OnCrash,
    /// Time to wait for further prompts; `None` waits forever.
    pub wait: Option<Duration>,
    /// Time to wait at the end for acknowledgements.
    pub flush: Duration,
    /// Receives delivery progress.
    pub status: watch::Sender<DeliveryStatus>,
}

/// Result of a session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionReport {
    /// The last run.
    pub done: Option<Completion>,
    /// The run was executed by an earlier runner; this one delivered the rest.
    pub earlier: bool,
    /// Repairs made when the outbox was opened.
    pub repair: Repair,
    /// Sequence number of the last message.
    pub last: u64,
    /// Number of messages not acknowledged by the hub.
    pub unsent: u64,
    /// Final refusal of the hub.
    pub refused: Option<Refusal>,
    /// Failure of the outbox or of delivery.
    pub failure: Option<RunnerError>,
    /// Why the sink is incomplete.
    pub sink: Option<RunnerError>,
    /// Paths of artifacts that were not uploaded.
    pub artifacts: Vec<String>,
}

/// Runs a session to its end. The first message on `stop` cancels the run and ends the session; the second does not wait for
/// delivery.
pub async fn run(
    config: SessionConfig,
    adapter: &mut dyn Adapter,
    stop: mpsc::Receiver<()>,
) -> Result<SessionReport, RunnerError> {
    let client = ClientInfo {
        agent: Some(adapter.name().to_owned()),
        accepted_commands: adapter.accepted_commands().iter().map(|kind| (*kind).to_owned()).collect(),
    };
    let outbox = Arc::new(open(&config, &client).await?);
    let log = SessionLog::new(Arc::clone(&outbox), Arc::clone(&config.redactor), config.options.clone());
    let recovered = outbox.recovered().clone();
    let (commands_tx, commands) = mpsc::channel(COMMAND_QUEUE);
    let (replies, replies_rx) = mpsc::channel(COMMAND_QUEUE);
    let (last_command, last_command_rx) = watch::channel(recovered.last_command);
    let (finish, finish_rx) = watch::channel(None);
    let uploader = config.hub.clone().map(|hub| {
        let uploader = Uploader {
            hub,
            outbox: Arc::clone(&outbox),
            client,
            commands: commands_tx,
            replies: replies_rx,
            last_command: last_command_rx,
            status: config.status.clone(),
            finish: finish_rx,
            upgrade_interval: delivery::UPGRADE_RETRY_INTERVAL,
        };
        tokio::spawn(uploader.run())
    });
    let sink = config.sink.clone().map(|sink| sink.with_hub(config.hub.clone()));
    let sink_task = sink.map(|sink| tokio::spawn(sink.run(Arc::clone(&outbox), finish.subscribe())));
    let (artifacts_tx, files) = mpsc::unbounded_channel();
    let artifact_uploader =
        ArtifactUploader { hub: config.hub.clone(), sink: config.sink.clone(), files, finish: finish.subscribe() };
    let context = AdapterContext { session: config.session.clone(), log, recovered: recovered.clone(), busy: false };
    let mut session = SessionRunner {
        context,
        adapter,
        stop,
        commands,
        replies,
        last_command,
        handler: CommandHandler::resume_after(recovered.last_command),
        run: None,
        uploader,
        delivery_outcome: None,
        sink_task,
        sink_outcome: None,
        files: config.files.clone(),
        artifacts_tx: Some(artifacts_tx),
        artifact_task: tokio::spawn(artifact_uploader.run()),
        report: SessionReport { repair: outbox.repair().clone(), ..SessionReport::default() },
        status: config.status.clone(),
        stop_requests: 0,
    };
    session.adapter.on_init(&session.context)?;
    if recovered.run.is_some() && !recovered.delivered {
        // An earlier runner announced them, but may not have uploaded them.
        session.collect_artifacts(false).await;
    }
    session.start(&config, recovered.run.as_ref());
    session.run_until_idle(config.wait).await?;
    session.adapter.on_shutdown(&session.context);
    session.finish(config.flush, &finish).await
}

/// Opens the outbox, or creates one after the last message known to the hub and the sink.
async fn open(config: &SessionConfig, client: &ClientInfo) -> Result<Outbox, RunnerError> {
    if let Some(outbox) = Outbox::open(&config.home, &config.session)? {
        return Ok(outbox);
    }
    let writer = Outbox::new_writer();
    let at_hub = match &config.hub {
        Some(hub) => uploader::start_position(hub, &config.session, &writer, client).await.map_err(RunnerError::Refused)?,
        None => None,
    };
    let in_sink = match &config.sink {
        Some(sink) => sink.start_position().await?,
        None => None,
    };
    let positions: Vec<Position> = at_hub.into_iter().chain(in_sink).collect();
    // After every message that any target has.
    let position = Position {
        epoch: positions.iter().map(|position| position.epoch).max().unwrap_or(Position::FIRST.epoch),
        after: positions.iter().map(|position| position.after).max().unwrap_or(Position::FIRST.after),
    };
    Outbox::create(&config.home, &config.session, writer, position)
}

struct SessionRunner<'a> {
    context: AdapterContext,
    adapter: &'a mut dyn Adapter,
    stop: mpsc::Receiver<()>,
    commands: mpsc::Receiver<Order>,
    replies: mpsc::Sender<Taken>,
    last_command: watch::Sender<u64>,
    handler: CommandHandler,
    run: Option<RunFuture>,
    uploader: Option<JoinHandle<DeliveryOutcome>>,
    /// Outcome of delivery to the hub.
    delivery_outcome: Option<DeliveryOutcome>,
    sink_task: Option<JoinHandle<DeliveryOutcome>>,
    /// Outcome of delivery to the sink.
    sink_outcome: Option<DeliveryOutcome>,
    files: Option<ArtifactFinder>,
    /// Dropped at the end.
    artifacts_tx: Option<mpsc::UnboundedSender<ArtifactFile>>,
    artifact_task: JoinHandle<Vec<String>>,
    report: SessionReport,
    status: watch::Sender<DeliveryStatus>,
    stop_requests: u32,
}

impl SessionRunner<'_> {
    /// Recovers what an earlier runner left, and starts the first run.
    fn start(&mut self, config: &SessionConfig, run: Option<&LastRun>) {
        let log = self.context.log.clone();
        if let Some(run) = run.filter(|run| !run.is_complete) {
            recovery::finish_interrupted_run(&log, run);
        }
        let prompt = config.prompt.as_deref();
        let is_same = |run: &LastRun| prompt.is_none_or(|text| Some(log.redact(text)) == run.prompt);
        let (prompt, new) = match run {
            Some(run) if run.is_interrupted() => {
                self.report_earlier_run(Outcome::Incomplete, None);
                match config.on_crash {
                    OnCrash::Report => (None, true),
                    OnCrash::Retry => (prompt.map(str::to_owned).or_else(|| run.prompt.clone()), true),
                    OnCrash::Resume => (prompt.map(str::to_owned).or_else(|| run.prompt.clone()), false),
                }
            }
            // The same prompt again before everything was delivered: only delivery is wanted.
            Some(run) if !self.context.recovered.delivered && is_same(run) => {
                if let Some((outcome, cause)) = recovery::run_outcome(run) {
                    self.report_earlier_run(outcome, cause);
                }
                (None, true)
            }
            _ => (config.prompt.clone(), true),
        };
        let Some(prompt) = prompt else { return };
        log.begin_run(Some(&prompt));
        match self.adapter.on_input(&self.context, AgentInput::Prompt { text: &prompt, new }) {
            Ok(run) => self.set_run(run),
            Err(rejection) => {
                log.note(&format!("the prompt is not carried out: {}", rejection.0));
                let done = Completion { outcome: Outcome::StartFailed, cause: Some(Cause::BadUsage), killed: false };
                self.report.done = Some(done);
            }
        }
    }

    fn report_earlier_run(&mut self, outcome: Outcome, cause: Option<Cause>) {
        self.report.done = Some(Completion { outcome, cause, killed: false });
        self.report.earlier = true;
    }

    fn set_run(&mut self, run: Option<RunFuture>) {
        self.context.busy = run.is_some();
        self.run = run;
    }

    /// Drives runs until none is active and no prompt is awaited.
    async fn run_until_idle(&mut self, wait: Option<Duration>) -> Result<(), RunnerError> {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last_heartbeat = Instant::now();
        let mut idle_since = Instant::now();
        loop {
            let until = wait.map(|wait| idle_since + wait);
            if self.run.is_none() && (self.stop_requests > 0 || until.is_some_and(|until| until <= Instant::now())) {
                return Ok(());
            }
            let is_idle = self.run.is_none();
            tokio::select! {
                done = run_finished(&mut self.run) => {
                    self.context.log.end_run();
                    self.collect_artifacts(true).await;
                    self.report.done = Some(done);
                    self.report.earlier = false;
                    self.set_run(None);
                    idle_since = Instant::now();
                }
                Some(command) = self.commands.recv() => {
                    self.command(&command)?;
                    idle_since = Instant::now();
                }
                stop = self.stop.recv(), if self.stop_requests < 2 => {
                    // A closed channel counts as the last request.
                    self.stop_requests += if stop.is_some() { 1 } else { 2 };
                    if !is_idle && stop.is_some() {
                        self.adapter.on_cancel(&self.context, None);
                    }
                }
                outcome = task_finished(&mut self.uploader) => self.delivery_outcome = Some(outcome),
                outcome = task_finished(&mut self.sink_task) => self.sink_outcome = Some(outcome),
                _ = ticks.tick() => {
                    self.adapter.on_tick(&self.context);
                    if !is_idle && last_heartbeat.elapsed() >= HEARTBEAT {
                        self.context.log.heartbeat();
                        last_heartbeat = Instant::now();
                    }
                }
                () = sleep_until(until), if is_idle => {}
            }
        }
    }

    /// Finds artifacts, announces them if `announce`, and queues their upload.
    async fn collect_artifacts(&mut self, announce: bool) {
        let Some(files) = self.files.clone() else { return };
        let found = tokio::task::spawn_blocking(move || files.find()).await.unwrap_or_default();
        for found in found {
            if announce {
                self.context.log.artifact(&found.artifact);
            }
            if let Some(artifacts_tx) = &self.artifacts_tx {
                // The receiver lives as long as this session.
                let _ = artifacts_tx.send(found);
            }
        }
    }

    fn command(&mut self, command: &Order) -> Result<(), RunnerError> {
        let (reply, effect) = self.handler.handle(command, &self.context, self.adapter)?;
        self.last_command.send_replace(self.handler.last_handled());
        // A dropped reply is sent again when the hub repeats the command.
        let _ = self.replies.try_send(reply);
        match effect {
            Effect::None => {}
            Effect::Start(run) => self.set_run(Some(run)),
            Effect::Cancel(reason) => self.adapter.on_cancel(&self.context, reason.as_deref()),
        }
        Ok(())
    }

    /// Waits for delivery, for at most `flush`.
    async fn finish(mut self, flush: Duration, finish: &watch::Sender<Option<Instant>>) -> Result<SessionReport, RunnerError> {
        let outbox = Arc::clone(self.context.log.outbox());
        self.report.failure = outbox.sync().err();
        self.report.last = outbox.last();
        finish.send_replace(Some(Instant::now() + flush));
        while self.uploader.is_some() || self.sink_task.is_some() {
            tokio::select! {
                outcome = task_finished(&mut self.uploader) => self.delivery_outcome = Some(outcome),
                outcome = task_finished(&mut self.sink_task) => self.sink_outcome = Some(outcome),
                // A second request ends the wait.
                stop = self.stop.recv(), if self.stop_requests < 2 => {
                    self.stop_requests += if stop.is_some() { 1 } else { 2 };
                    if stop.is_some() {
                        finish.send_replace(Some(Instant::now()));
                    }
                }
            }
        }
        self.artifacts_tx = None;
        self.report.artifacts = (&mut self.artifact_task).await.unwrap_or_default();
        self.report.sink = match self.sink_outcome {
            None | Some(DeliveryOutcome::Delivered) => None,
            Some(DeliveryOutcome::Unsent(count)) => Some(RunnerError::SinkIncomplete(count)),
            Some(DeliveryOutcome::Refused(refusal)) => Some(RunnerError::SinkRefused(refusal)),
            Some(DeliveryOutcome::Failed(failure)) => Some(failure),
        };
        let is_complete = self.report.failure.is_none() && self.report.sink.is_none() && self.report.artifacts.is_empty();
        match self.delivery_outcome {
            None | Some(DeliveryOutcome::Delivered) if is_complete => outbox.mark_delivered()?,
            None | Some(DeliveryOutcome::Delivered) => {}
            Some(DeliveryOutcome::Unsent(count)) => self.report.unsent = count,
            Some(DeliveryOutcome::Refused(refusal)) => {
                self.report.unsent = outbox.last().saturating_sub(self.status.borrow().acked);
                self.report.refused = Some(refusal);
            }
            Some(DeliveryOutcome::Failed(failure)) => self.report.failure = Some(failure),
        }
        Ok(self.report)
    }
}

/// Completion of the current run; pending if there is none.
async fn run_finished(run: &mut Option<RunFuture>) -> Completion {
    match run {
        Some(run) => run.await,
        None => std::future::pending().await,
    }
}

/// Outcome of a delivery task; pending if there is none.
async fn task_finished(task: &mut Option<JoinHandle<DeliveryOutcome>>) -> DeliveryOutcome {
    let Some(handle) = task else { return std::future::pending().await };
    let outcome = handle.await;
    *task = None;
    outcome.unwrap_or_else(|error| DeliveryOutcome::Failed(RunnerError::DeliveryTask(Source::new(error))))
}
