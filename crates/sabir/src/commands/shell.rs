//! `sabir shell`: runs an agent, keeps the log of the session, and delivers it.

mod repair;

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use sabir_core::agent::Agent;
use sabir_core::event::Event;
use sabir_core::export::Options;
use sabir_core::fold::ResultOptions;
use sabir_core::line::{RawLine, Source};
use sabir_core::time::Timestamp;
use sabir_protocol::Code;
use sabir_run::{EnvRule, RunSink};
use sabir_shell::adapter::{PlannedRun, PromptRequest, RunPlanner};
use sabir_shell::artifact::ArtifactFinder;
use sabir_shell::error::ErrorKind;
use sabir_shell::session::OnCrash;
use sabir_shell::uploader::DeliveryStatus;
use sabir_shell::{AgentAdapter, BearerToken, Hub, Redactor, RunnerError, SessionConfig, SessionId, SessionReport, StorageSink};
use sabir_store::Home;
use serde::Serialize;
use tokio::sync::{mpsc, watch};

use super::agents;
use crate::cli::AskArguments;
use crate::cli::shell::{ShellArguments, ShellCommand};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::journal::Recording;
use crate::print::json::Out;
use crate::{past, print, start};

/// Where the token is.
const TOKEN: &str = "AUTH_TOKEN";
/// Where the keys for the bucket are.
const BUCKET_KEYS: [&str; 3] = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"];

impl From<RunnerError> for Failure {
    fn from(error: RunnerError) -> Self {
        let exit = match error.kind() {
            ErrorKind::Usage => Exit::BadUsage,
            ErrorKind::NotReady => Exit::NotReady,
            ErrorKind::Delivery => Exit::Delivery,
        };
        let failure = Self::of(exit, message(&error));
        match hint(&error) {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

/// Message of an error with that of its source.
fn message(error: &RunnerError) -> String {
    use std::error::Error as _;
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}

/// Suggests how to fix an error.
fn hint(error: &RunnerError) -> Option<&str> {
    Some(match error {
        RunnerError::InvalidHubAddress { .. } => "it looks like wss://hub.example",
        RunnerError::Tls(_) => "are there certificates? SSL_CERT_FILE names a file with them",
        RunnerError::Refused(refusal) => match refusal.code {
            Code::Unauthorized => "the token is not known to the hub, was revoked, or has run out",
            Code::Forbidden => "the token is for something else; one of the scope runner:SESSION is needed",
            Code::NotFound => "there is no hub at this address",
            Code::Fenced => "somebody else runs this session now; the log stays on this machine",
            Code::Conflict => "the hub has another log of this session; the log stays on this machine",
            Code::Version => "one of the two is too old for the other",
            _ => "the log stays on this machine",
        },
        RunnerError::SinkBucket { .. } => "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and AWS_ENDPOINT_URL say how",
        RunnerError::SinkUnreadable { .. } => {
            "a new log has to know where it begins; without the folder or the bucket it would begin at once"
        }
        RunnerError::OutboxMismatch { .. } => "a newer version may have written it",
        RunnerError::OutboxWithoutMeta { .. } => {
            "move the folder away; the next `sabir shell` of the session goes on after what the hub has"
        }
        RunnerError::OutboxGap(_) => "the next `sabir shell` of the session repairs it, and says what is lost",
        RunnerError::SessionInUse(_) => "a session has one shell at a time; --session names another",
        RunnerError::ArtifactPattern(_) => "--artifact takes a pattern like dist/*.tgz",
        RunnerError::Store(trouble) => &trouble.hint,
        _ => return None,
    })
}

/// What an option says, or else a variable.
fn given(option: Option<&String>, variable: &str) -> Option<String> {
    option.cloned().or_else(|| sabir_run::secrets::variable(variable)?.into_string().ok()).filter(|value| !value.is_empty())
}

/// What runs, and on what.
struct Task {
    agent: &'static Arc<Agent>,
    prompt: Option<String>,
    extra: Vec<String>,
}

pub(crate) fn run(arguments: &ShellArguments) -> Result<Exit, Failure> {
    if let Some(ShellCommand::Repair(arguments)) = &arguments.command {
        return repair::run(arguments);
    }
    start::protect_secrets(&arguments.secret);
    let task = task(arguments)?;
    let config = config(arguments, &task)?;
    let resume = arguments.ask.resume.as_deref().map(|id| past::resumed(task.agent, id)).transpose()?;
    let ask = AskArguments { resume, ..arguments.ask.clone() };
    let mut adapter = AgentAdapter::new(Arc::clone(task.agent), planner(arguments, ask, &task));
    sabir_run::supervisor::set_subreaper(true);
    // What is delivered is packed and sent by other threads than the one that reads the agent.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| Failure::io("starting the event loop failed", &error))?;
    let (json, agent, session) = (arguments.json, task.agent, config.session.clone());
    let watched = config.hub.as_ref().map(|hub| (hub.host(), config.status.subscribe()));
    let report = runtime.block_on(async {
        let (ask, stop) = mpsc::channel(4);
        let signals = tokio::spawn(listen(ask));
        let telling = watched.map(|(name, status)| tokio::spawn(tell(name, status, json)));
        let report = Box::pin(sabir_shell::session::run(config, &mut adapter, stop)).await;
        signals.abort();
        if let Some(telling) = telling {
            telling.abort();
        }
        report
    });
    // A name that is being looked up, or a disk that does not answer, is not waited for.
    runtime.shutdown_background();
    end(agent, &session, &report?, json)
}

/// The agent, the prompt, and the agent's own arguments.
fn task(arguments: &ShellArguments) -> Result<Task, Failure> {
    let mut words = arguments.words.clone().into_iter();
    let name = given(arguments.agent.as_ref(), "RUNNER_ADAPTER").or_else(|| words.next());
    let Some(name) = name else {
        return Err(
            Failure::usage("there is no agent").hint("sabir shell -- AGENT \"what it is to do\"; `sabir agents` lists them")
        );
    };
    let prompt = words.next().filter(|prompt| !prompt.trim().is_empty());
    if prompt.as_ref().is_some_and(|prompt| prompt.contains('\0')) {
        return Err(Failure::usage("the prompt holds a NUL character, which no program can be given"));
    }
    Ok(Task { agent: agents::find(&name)?, prompt, extra: words.collect() })
}

fn config(arguments: &ShellArguments, task: &Task) -> Result<SessionConfig, Failure> {
    let session = match given(arguments.session.as_ref(), "SESSION_ID") {
        Some(text) => text.parse::<SessionId>().map_err(|error| Failure::usage(error.to_string()).hint("--session names it"))?,
        None => {
            let new: SessionId = start::run_id().as_str().parse().map_err(|_| Failure::usage("no session id"))?;
            print::note(&format!("the session is {new}"));
            new
        }
    };
    let token = token(arguments.token_file.as_deref())?;
    let redactor = Arc::new(Redactor::new(secrets(arguments, token.as_ref())?)?);
    let hub = given(arguments.hub.as_ref(), "WS_URL").map(|address| Hub::new(&address, &session, token)).transpose()?;
    let insecure = arguments.insecure || given(None, "WS_INSECURE").is_some_and(|value| value != "0");
    if let Some(hub) = hub.as_ref().filter(|hub| hub.exposes_token() && !insecure) {
        return Err(exposed(&hub.host()).hint("use wss://, or --insecure (WS_INSECURE=1) where the network is trusted"));
    }
    if hub.is_none() && task.prompt.is_none() {
        let hint = "give one after the agent, or --hub (WS_URL) so that it can come from there";
        return Err(Failure::usage("there is no prompt, and no hub that could send one").hint(hint));
    }
    let options = Options {
        workspace: given(arguments.workspace.as_ref(), "WORKSPACE_SLUG"),
        repo: given(arguments.repo.as_ref(), "OUTPUT_REPO").or_else(|| given(None, "INPUT_REPO")),
        branch: given(arguments.branch.as_ref(), "OUTPUT_BRANCH").or_else(|| given(None, "INPUT_BRANCH")),
        job_id: given(None, "WORKFLOW_ID"),
        ..Options::default()
    };
    Ok(SessionConfig {
        home: Home::find().map_err(RunnerError::from)?,
        hub,
        sink: sink(arguments, &session)?,
        files: files(arguments)?,
        redactor,
        options,
        prompt: task.prompt.clone(),
        on_crash: match arguments.after_crash.as_str() {
            "resume" => OnCrash::Resume,
            "again" => OnCrash::Retry,
            _ => OnCrash::Report,
        },
        wait: arguments.wait.or_else(|| task.prompt.as_ref().map(|_| std::time::Duration::ZERO)),
        flush: arguments.flush,
        status: watch::Sender::new(DeliveryStatus::default()),
        session,
    })
}

/// A token that everybody on the network could read.
pub(crate) fn exposed(host: &str) -> Failure {
    Failure::usage(format!("refusing to send the token to {host} without encryption"))
}

fn sink(arguments: &ShellArguments, session: &SessionId) -> Result<Option<StorageSink>, Failure> {
    if let Some(folder) = &arguments.log_folder {
        return Ok(Some(StorageSink::folder(folder, session)?));
    }
    let bucket = given(arguments.s3_bucket.as_ref(), "S3_BUCKET");
    let prefix = given(arguments.s3_prefix.as_ref(), "S3_PREFIX").unwrap_or_default();
    Ok(bucket.map(|bucket| StorageSink::bucket(&bucket, &prefix, session)).transpose()?)
}

fn files(arguments: &ShellArguments) -> Result<Option<ArtifactFinder>, Failure> {
    if arguments.artifact.is_empty() {
        return Ok(None);
    }
    let root = match &arguments.ask.cwd {
        Some(folder) => folder.clone(),
        None => std::env::current_dir().map_err(|error| Failure::usage(format!("there is no working folder: {error}")))?,
    };
    Ok(Some(ArtifactFinder::new(root, &arguments.artifact)?))
}

fn token(file: Option<&Path>) -> Result<Option<BearerToken>, Failure> {
    let text = match file {
        Some(path) => {
            let read = std::fs::read_to_string(path);
            let failed = |error| Failure::usage(format!("can't read the token in {}: {error}", path.display()));
            Some(read.map_err(failed)?)
        }
        None => given(None, TOKEN),
    };
    Ok(text.map(|text| BearerToken::new(&text)).transpose()?)
}

/// What is known to be secret: variables whose names say so, those that are named, and what a file has.
fn secrets(arguments: &ShellArguments, token: Option<&BearerToken>) -> Result<Vec<(String, String)>, Failure> {
    let own = sabir_run::secrets::variables()
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()));
    let set = arguments.ask.env.iter().filter_map(|rule| match rule {
        EnvRule::Set(name, value) => Some((name.clone(), value.clone())),
        EnvRule::Inherit(_) => None,
    });
    let all: Vec<(String, String)> = own.chain(set).collect();
    let named = all.iter().filter(|(name, value)| arguments.secret.contains(name) && !value.is_empty()).cloned();
    let mut secrets: Vec<(String, String)> = named.collect();
    secrets.extend(sabir_store::meta::secrets(all));
    secrets.extend(token.map(|token| (TOKEN.to_owned(), token.reveal().to_owned())));
    if let Some(path) = &arguments.secrets_file {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::usage(format!("can't read the secrets in {}: {error}", path.display())))?;
        secrets.extend(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(|line| (String::new(), line.to_owned())));
    }
    Ok(secrets)
}

/// Plans the runs of the agent as `sabir run` does.
fn planner(arguments: &ShellArguments, ask: AskArguments, task: &Task) -> RunPlanner {
    let (agent, extra, keep_raw) = (task.agent, Rc::new(task.extra.clone()), arguments.keep_raw);
    // Several agents use these keys for models. Keys for a bucket are for the shell.
    let bucket_keys = if given(arguments.s3_bucket.as_ref(), "S3_BUCKET").is_some() { &BUCKET_KEYS[..] } else { &[] };
    let is_wanted = |name: &str| ask.env.iter().any(|rule| rule.applies_to(name));
    let withheld: Vec<&str> = [TOKEN].into_iter().chain(bucket_keys.iter().copied().filter(|name| !is_wanted(name))).collect();
    let ask = Rc::new(ask);
    Box::new(move |wanted: PromptRequest| {
        let (extra, ask, withheld) = (Rc::clone(&extra), Rc::clone(&ask), withheld.clone());
        Box::pin(async move {
            let mut ask = AskArguments::clone(&ask);
            if wanted.resume.is_some() {
                (ask.resume, ask.r#continue) = (wanted.resume, false);
            }
            let failed = |failure: Failure| RunnerError::NotReady(failure.what);
            let mut plan = start::plan(agent, &wanted.prompt, &extra, &ask, wanted.run_id).await.map_err(failed)?;
            // The agent does not speak to the hub, nor to the bucket.
            withheld.iter().for_each(|name| plan.environment.remove(name));
            let also: Option<Box<dyn RunSink>> = if keep_raw {
                Some(Box::new(Kept(Some(Recording::begin(&plan, ResultOptions::default()).map_err(failed)?))))
            } else {
                None
            };
            Ok(PlannedRun { config: plan, observer: also })
        })
    })
}

/// The journal of a run on this machine, which has everything as it was.
struct Kept(Option<Recording>);

impl RunSink for Kept {
    fn event(&mut self, event: &Event<'_>) {
        self.0.iter_mut().for_each(|recording| recording.event(event, None));
    }

    fn line(&mut self, line: &RawLine<'_>, source: Source, at: Option<Timestamp>) {
        self.0.iter_mut().for_each(|recording| recording.line(line, source, at));
    }

    fn flush(&mut self) {
        self.0.iter_mut().for_each(Recording::idle);
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().map_or(Poll::Ready(()), |recording| recording.poll_room(context))
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(recording) = self.0.take() {
            // The session is what is delivered; a copy on this machine that could not be made is told.
            recording.end().finish(Exit::Completed);
        }
    }
}

/// Turns signals into wishes to stop.
async fn listen(ask: mpsc::Sender<()>) {
    let Some(mut signals) = sabir_run::signals::Signals::new() else { return };
    loop {
        signals.next().await;
        print::note("stopping; once more kills, or leaves what is not delivered");
        if ask.send(()).await.is_err() {
            return;
        }
    }
}

/// How delivery goes, for programs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    r#type: &'static str,
    hub: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    via: Option<String>,
    sent: u64,
    acknowledged: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    trouble: Option<&'a str>,
}

/// Tells how delivery goes: for people, when the connection comes and goes.
async fn tell(name: String, mut status: watch::Receiver<DeliveryStatus>, json: bool) {
    // Each try may fail in other words; that there is no connection is told once.
    let mut told: Option<bool> = None;
    while status.changed().await.is_ok() {
        let DeliveryStatus { transport: way, sent, acked, error: trouble, .. } = status.borrow_and_update().clone();
        if json {
            let via = way.map(|way| way.to_string());
            line(&Line { r#type: "delivery", hub: &name, via, sent, acknowledged: acked, trouble: trouble.as_deref() });
            continue;
        }
        if told == Some(way.is_some()) || (way.is_none() && trouble.is_none()) {
            continue;
        }
        told = Some(way.is_some());
        match (way, trouble) {
            (Some(way), _) => print::note(&format!("connected to {name} by {way}; {acked} messages are there")),
            (None, Some(why)) => print::warning(&format!("not connected to {name}: {why}; trying again")),
            (None, None) => {}
        }
    }
}

fn line(value: &impl Serialize) {
    let mut out = Out::default();
    // A reader that has gone does not end the session.
    if serde_json::to_writer(out.buffer(), value).is_ok() {
        out.buffer().push(b'\n');
        let _ = out.write();
    }
}

/// The end, for programs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary<'a> {
    r#type: &'static str,
    session: &'a str,
    messages: u64,
    unsent: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'static str>,
    /// What of the log was damaged at the beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    repaired: Option<repair::Repaired>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sink: Option<String>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    missing_artifacts: &'a [String],
}

fn end(agent: &'static Arc<Agent>, session: &SessionId, report: &SessionReport, json: bool) -> Result<Exit, Failure> {
    if json {
        line(&Summary {
            r#type: "end",
            session: session.as_str(),
            messages: report.last,
            unsent: report.unsent,
            outcome: report.done.map(|done| done.outcome.as_str()),
            repaired: (!report.repair.is_empty()).then(|| repair::Repaired::of(&report.repair)),
            cause: report.done.and_then(|done| done.cause).map(sabir_core::event::Cause::as_str),
            refused: report.refused.as_ref().map(|refusal| refusal.message.as_str()),
            failure: report.failure.as_ref().map(message),
            sink: report.sink.as_ref().map(message),
            missing_artifacts: &report.artifacts,
        });
    }
    if !report.repair.is_empty() {
        print::warning(&format!("repaired the damaged outbox of session {session}: {}", report.repair));
    }
    let run =
        report.done.map_or(Exit::Completed, |done| if done.killed { Exit::Killed } else { Exit::of(done.outcome, done.cause) });
    if let Some(done) = report.done.filter(|_| run != Exit::Completed) {
        let cause = done.cause.map(|cause| format!(" ({cause})")).unwrap_or_default();
        let whose = if report.earlier { "the earlier run" } else { "the run" };
        print::warning(&format!("{whose} of {} ended: {}{cause}", agent.id, done.outcome));
    }
    if let Some(refusal) = &report.refused {
        return Err(RunnerError::Refused(refusal.clone()).into());
    }
    if let Some(failure) = report.failure.clone() {
        return Err(failure.into());
    }
    if let Some(failure) = report.sink.clone() {
        return Err(failure.into());
    }
    if !report.artifacts.is_empty() {
        let what = format!("artifacts are not delivered: {}", report.artifacts.join(", "));
        return Err(Failure::of(Exit::Delivery, what).hint("they changed while they were read, or nobody took them in time"));
    }
    if report.unsent > 0 {
        let what = format!("{} of {} messages are not acknowledged by the hub", report.unsent, report.last);
        return Err(
            Failure::of(Exit::Delivery, what).hint(format!("they are kept; `sabir shell --session {session} …` delivers them"))
        );
    }
    print::note(&format!("{} messages of the session {session}, all delivered", report.last));
    Ok(run)
}
