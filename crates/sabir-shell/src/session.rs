//! One session: an agent, its log, and who hears of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sabir_core::event::{Cause, Outcome};
use sabir_core::export::Options;
use sabir_protocol::{Code, Order, Refusal, Taken};
use sabir_store::Home;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use crate::adapter::{Adapter, AdapterContext, AgentInput, Completion, RunFuture};
use crate::artifact::{ArtifactFile, ArtifactFinder, ArtifactUploader};
use crate::commands::{CommandHandler, Effect};
use crate::delivery;
use crate::hub::Hub;
use crate::outbox::{LastRun, Outbox, Position, Repair};
use crate::recovery;
use crate::session_log::SessionLog;
use crate::sink::StorageSink;
use crate::timer::sleep_until;
use crate::uploader::{self, ClientInfo, DeliveryOutcome, DeliveryStatus, Uploader};
use crate::{Failure, Redactor, SessionId};

/// How often the log has a sign of life while an agent works.
const HEARTBEAT: Duration = Duration::from_secs(30);
const TICK: Duration = Duration::from_secs(1);
/// So many orders wait at most; the hub keeps the others.
const COMMAND_QUEUE: usize = 64;

/// What to do about a run that an earlier shell did not finish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnCrash {
    /// Tell that it was broken off.
    #[default]
    Report,
    /// Take up the conversation with the same prompt.
    Resume,
    /// Begin again with the same prompt.
    Retry,
}

/// Everything that is decided before a shell begins.
#[derive(Debug)]
pub struct SessionConfig {
    /// The session.
    pub session: SessionId,
    /// Where the log is kept.
    pub home: Home,
    /// Where it is delivered.
    pub hub: Option<Hub>,
    /// Where it is kept too.
    pub sink: Option<StorageSink>,
    /// The files that it leaves.
    pub files: Option<ArtifactFinder>,
    /// What is taken out of it.
    pub redactor: Arc<Redactor>,
    /// What messages tell of the session.
    pub options: Options,
    /// The first prompt.
    pub prompt: Option<String>,
    /// What to do about a run that was broken off.
    pub on_crash: OnCrash,
    /// How long to wait for a further prompt; `None` for ever.
    pub wait: Option<Duration>,
    /// How long to wait at the end for what is not acknowledged.
    pub flush: Duration,
    /// Told how delivery goes.
    pub status: watch::Sender<DeliveryStatus>,
}

/// What became of a session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionReport {
    /// The last run, if there was one.
    pub done: Option<Completion>,
    /// The run was one of an earlier shell; this one delivered the rest.
    pub earlier: bool,
    /// What of the log was damaged at the beginning, and was repaired.
    pub repair: Repair,
    /// The number of the last message.
    pub last: u64,
    /// How many messages the hub has not acknowledged.
    pub unsent: u64,
    /// Why it takes no more.
    pub refused: Option<Refusal>,
    /// What went wrong with this machine's disk.
    pub failure: Option<Failure>,
    /// Why the sink does not have all of it.
    pub sink: Option<Failure>,
    /// The artifacts that could not be brought.
    pub artifacts: Vec<String>,
}

/// Runs a session to its end. Each thing that comes from `stop` asks for the end; the second one asks for it at once.
pub async fn run(config: SessionConfig, adapter: &mut dyn Adapter, stop: mpsc::Receiver<()>) -> Result<SessionReport, Failure> {
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
        // An earlier shell told of them, and may not have brought them.
        session.collect_artifacts(false).await;
    }
    session.start(&config, recovered.run.as_ref());
    session.run_until_idle(config.wait).await?;
    session.adapter.on_shutdown(&session.context);
    session.finish(config.flush, &finish).await
}

/// The log of the session: that of this machine, or a new one where the hub says that it begins.
async fn open(config: &SessionConfig, client: &ClientInfo) -> Result<Outbox, Failure> {
    if let Some(outbox) = Outbox::open(&config.home, &config.session)? {
        return Ok(outbox);
    }
    let writer = Outbox::new_writer();
    let at_hub = match &config.hub {
        Some(hub) => {
            uploader::start_position(hub, &config.session, &writer, client).await.map_err(|refusal| refused(&refusal))?
        }
        None => None,
    };
    let in_sink = match &config.sink {
        Some(sink) => sink.start_position().await?,
        None => None,
    };
    let positions: Vec<Position> = at_hub.into_iter().chain(in_sink).collect();
    // After everything that anybody has heard.
    let position = Position {
        epoch: positions.iter().map(|position| position.epoch).max().unwrap_or(Position::FIRST.epoch),
        after: positions.iter().map(|position| position.after).max().unwrap_or(Position::FIRST.after),
    };
    Outbox::create(&config.home, &config.session, writer, position)
}

/// A refusal as a failure, with what to do about it.
pub fn refused(refusal: &Refusal) -> Failure {
    let hint = match refusal.code {
        Code::Unauthorized => "the token is not known to the hub, was revoked, or has run out",
        Code::Forbidden => "the token is for something else; one of the scope runner:SESSION is needed",
        Code::NotFound => "there is no hub at this address",
        Code::Fenced => "somebody else runs this session now; the log stays on this machine",
        Code::Conflict => "the hub has another log of this session; the log stays on this machine",
        Code::Version => "one of the two is too old for the other",
        _ => "the log stays on this machine",
    };
    Failure::delivery(format!("the hub takes no more: {}", refusal.message)).hint(hint)
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
    /// How delivery ended, once it has.
    delivery_outcome: Option<DeliveryOutcome>,
    sink_task: Option<JoinHandle<DeliveryOutcome>>,
    /// The same for the sink.
    sink_outcome: Option<DeliveryOutcome>,
    files: Option<ArtifactFinder>,
    /// Closed at the end.
    artifacts_tx: Option<mpsc::UnboundedSender<ArtifactFile>>,
    artifact_task: JoinHandle<Vec<String>>,
    report: SessionReport,
    status: watch::Sender<DeliveryStatus>,
    stop_requests: u32,
}

impl SessionRunner<'_> {
    /// What is to be done at the beginning, in view of what an earlier shell left.
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
            // The same once more, and not everybody had heard the end: it is the end that is wanted.
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

    /// Goes on until there is nothing to do and nothing to wait for.
    async fn run_until_idle(&mut self, wait: Option<Duration>) -> Result<(), Failure> {
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
                    // Who can't ask any more, need not.
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

    /// Looks for files that the session leaves, and has them brought.
    async fn collect_artifacts(&mut self, announce: bool) {
        let Some(files) = self.files.clone() else { return };
        let found = tokio::task::spawn_blocking(move || files.find()).await.unwrap_or_default();
        for found in found {
            if announce {
                self.context.log.artifact(&found.artifact);
            }
            if let Some(artifacts_tx) = &self.artifacts_tx {
                // It is there for as long as we are.
                let _ = artifacts_tx.send(found);
            }
        }
    }

    fn command(&mut self, command: &Order) -> Result<(), Failure> {
        let (reply, effect) = self.handler.handle(command, &self.context, self.adapter)?;
        self.last_command.send_replace(self.handler.last_handled());
        // Where it finds no room, the hub asks again, and is answered then.
        let _ = self.replies.try_send(reply);
        match effect {
            Effect::None => {}
            Effect::Start(run) => self.set_run(Some(run)),
            Effect::Cancel(reason) => self.adapter.on_cancel(&self.context, reason.as_deref()),
        }
        Ok(())
    }

    /// Waits until everybody has heard everything, at most so long.
    async fn finish(mut self, flush: Duration, finish: &watch::Sender<Option<Instant>>) -> Result<SessionReport, Failure> {
        let outbox = Arc::clone(self.context.log.outbox());
        self.report.failure = outbox.sync().err();
        self.report.last = outbox.last();
        finish.send_replace(Some(Instant::now() + flush));
        while self.uploader.is_some() || self.sink_task.is_some() {
            tokio::select! {
                outcome = task_finished(&mut self.uploader) => self.delivery_outcome = Some(outcome),
                outcome = task_finished(&mut self.sink_task) => self.sink_outcome = Some(outcome),
                // Who asks again does not want to wait.
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
            Some(DeliveryOutcome::Unsent(count)) => Some(Failure::delivery(missing_in_sink(count))),
            Some(DeliveryOutcome::Refused(refusal)) => Some(Failure::delivery(format!("the sink takes no more: {refusal}"))),
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

/// What is not in the sink when the time to deliver is over.
fn missing_in_sink(messages: u64) -> String {
    match messages {
        0 => "all messages are in the sink, but its messages.json is not complete".to_owned(),
        1 => "1 message is not in the sink".to_owned(),
        messages => format!("{messages} messages are not in the sink"),
    }
}

/// The end of the work, if there is any.
async fn run_finished(run: &mut Option<RunFuture>) -> Completion {
    match run {
        Some(run) => run.await,
        None => std::future::pending().await,
    }
}

/// The end of delivery, if it goes on.
async fn task_finished(task: &mut Option<JoinHandle<DeliveryOutcome>>) -> DeliveryOutcome {
    let Some(handle) = task else { return std::future::pending().await };
    let outcome = handle.await;
    *task = None;
    outcome.unwrap_or_else(|error| DeliveryOutcome::Failed(Failure::delivery(format!("delivery broke off: {error}"))))
}

#[cfg(test)]
mod tests {
    use super::missing_in_sink;

    #[test]
    fn missing_in_sink_names_what_is_missing() {
        assert_eq!(missing_in_sink(0), "all messages are in the sink, but its messages.json is not complete");
        assert_eq!(
            (missing_in_sink(1).as_str(), missing_in_sink(2).as_str()),
            ("1 message is not in the sink", "2 messages are not in the sink")
        );
    }
}
