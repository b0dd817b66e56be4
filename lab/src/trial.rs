//! One run of a CLI through `sabir run`, and all that was seen of it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use sabir_core::event::Event;
use sabir_core::fold::SessionResult;
use tokio::process::{Child, Command};

use crate::cli::Recipe;
use crate::left::{self, Left};
use crate::place::{self, Place};
use crate::scenario::{self, Interrupt, Run, Scenario};
use crate::script::Script;
use crate::server::Server;
use crate::{install, truth::Truth};

/// What `sabir` itself gives a run, in seconds; and how much longer the lab waits for `sabir`.
const LIMIT: u64 = 150;
const LONGER: u64 = 30;

/// How an event reads that tells of a tool call, and how long it is waited for.
const TOOL_START: &str = r#""kind":"toolStart""#;
const PATIENCE: Duration = Duration::from_secs(3);

/// What all trials share.
#[derive(Clone, Debug)]
pub struct Bench {
    /// The program `sabir`.
    pub sabir: PathBuf,
    /// Where the CLIs are installed.
    pub cache: PathBuf,
    /// Where the runs take place.
    pub scratch: PathBuf,
}

/// What was seen of one run.
#[derive(Debug)]
pub struct Seen {
    /// What `sabir run --json` printed.
    pub events: Vec<Event<'static>>,
    /// Its lines that are no events.
    pub garbage: Vec<String>,
    /// The events as one value.
    pub result: SessionResult,
    /// The exit code of `sabir`; none if it had to be killed.
    pub code: Option<i32>,
    /// What it left running; none where that can't be seen.
    pub left: Option<Vec<Left>>,
    /// What was served.
    pub truth: Truth,
    /// What the CLI printed.
    pub raw: Vec<u8>,
    /// Where it took place.
    pub place: Place,
}

/// Tells a CLI a scenario: one value for each run of it.
pub async fn tell(bench: &Bench, recipe: &'static Recipe, scenario: &'static Scenario) -> Result<Vec<Seen>> {
    let folder = bench.scratch.join(recipe.id).join(recipe.version).join(scenario.name);
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("could not remove {}", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("could not make {}", folder.display()))?;
    let folder = folder.canonicalize()?;
    let server = Server::start(Script::new(Vec::new())).await?;
    let place = Place { home: folder.join("home"), work: folder.join("work"), address: server.address() };
    place::make_home(recipe, &place)?;
    place::make_work(&place)?;
    let mut all: Vec<Seen> = Vec::new();
    for (index, run) in scenario.runs.iter().enumerate() {
        server.load(scenario::script(run, recipe, &place));
        let session = match all.last() {
            None => None,
            Some(seen) => Some(seen.result.session_id.clone().context("the first run named no session")?),
        };
        let own = folder.join(format!("run{}", index + 1));
        fs::create_dir_all(&own)?;
        all.push(one(bench, recipe, run, session.as_deref(), &place, &server, &own).await?);
    }
    Ok(all)
}

async fn one(
    bench: &Bench,
    recipe: &Recipe,
    run: &Run,
    session: Option<&str>,
    place: &Place,
    server: &Server,
    folder: &Path,
) -> Result<Seen> {
    // Its own among all runs of this machine: by it the processes of the run are known.
    let run_id = format!("lab-{}-{}", std::process::id(), place.address.port());
    let raw = folder.join("raw");
    let mut child = command(bench, recipe, run, session, place, &run_id, &raw)?
        .stdout(File::create(folder.join("events"))?)
        .stderr(File::create(folder.join("stderr"))?)
        .spawn()
        .with_context(|| format!("could not start {}", bench.sabir.display()))?;
    let code = supervise(&mut child, run.interrupt, server, place, &folder.join("events")).await?;
    let variables = [format!("SABIR_RUN_ID={run_id}"), format!("HOME={}", place.home.display())];
    let left = left::find(&variables, place.work.parent().unwrap_or(&place.work));
    let truth = server.truth();
    fs::write(folder.join("truth.json"), serde_json::to_vec_pretty(&truth)?)?;
    let (events, garbage) = read(&fs::read_to_string(folder.join("events"))?);
    let mut fold = SessionResult::fold();
    events.iter().for_each(|event| fold.event(event));
    let raw = fs::read(&raw).unwrap_or_default();
    Ok(Seen { events, garbage, result: fold.finish(), code, left, truth, raw, place: place.clone() })
}

fn command(
    bench: &Bench,
    recipe: &Recipe,
    run: &Run,
    session: Option<&str>,
    place: &Place,
    run_id: &str,
    raw: &Path,
) -> Result<Command> {
    let mut path = install::path(&bench.cache, recipe);
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let mut command = Command::new(&bench.sabir);
    command.args(["run", recipe.id, run.prompt, "--json", "--permission", run.permission.name()]);
    command.args(["--model", recipe.model, "--run-id", run_id]);
    command.arg("--timeout").arg(format!("{LIMIT}s")).arg("--raw").arg(raw);
    command.arg("--program").arg(install::program(&bench.cache, recipe)).arg("--cwd").arg(&place.work);
    if let Some(session) = session {
        command.args(["--resume", session]);
    }
    for (name, value) in (recipe.environment)(place) {
        command.arg("--env").arg(format!("{name}={value}"));
    }
    for (name, value) in place::GIT {
        command.arg("--env").arg(format!("{name}={value}"));
    }
    command.env_clear().env("PATH", std::env::join_paths(path)?).env("HOME", &place.home);
    // Not in the home of the CLI, which is looked at afterwards.
    command.env("SABIR_HOME", place.home.with_file_name("sabir"));
    command.env("LANG", "C.UTF-8").env("TERM", "dumb").stdin(Stdio::null()).kill_on_drop(true);
    Ok(command)
}

/// Waits until something holds that nobody tells of.
async fn until(mut holds: impl FnMut() -> bool) {
    while !holds() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits for the end, after the interrupt if there is one; what does not end is killed.
async fn supervise(
    child: &mut Child,
    interrupt: Option<Interrupt>,
    server: &Server,
    place: &Place,
    events: &Path,
) -> Result<Option<i32>> {
    let id = child.id().context("it has ended")?;
    let end = async {
        let moment = async {
            match interrupt {
                None => std::future::pending().await,
                Some(Interrupt::MidStream) => server.reached(|progress| progress.deltas >= 2).await,
                Some(Interrupt::MidTool) => {
                    until(|| place.work.join(scenario::STARTED).exists()).await;
                    // The command may be quicker than the news of it; and some CLIs tell of a call only when it has ended.
                    let told = until(|| fs::read_to_string(events).is_ok_and(|text| text.contains(TOOL_START)));
                    let _ = tokio::time::timeout(PATIENCE, told).await;
                }
            }
        };
        tokio::select! {
            status = child.wait() => return Ok(status?.code()),
            () = moment => {}
        }
        let status =
            std::process::Command::new("kill").args(["-INT", &id.to_string()]).status().context("could not start kill")?;
        if !status.success() {
            bail!("the interrupt could not be sent");
        }
        Ok(child.wait().await?.code())
    };
    let limit = Duration::from_secs(LIMIT + LONGER);
    let ended = tokio::time::timeout(limit, end).await;
    match ended {
        Ok(code) => code,
        Err(_) => {
            child.kill().await?;
            Ok(None)
        }
    }
}

/// The events of an output, and the lines that are none.
fn read(text: &str) -> (Vec<Event<'static>>, Vec<String>) {
    let mut events = Vec::new();
    let mut garbage = Vec::new();
    for line in text.lines() {
        match serde_json::from_str::<Event<'_>>(line) {
            Ok(event) => events.push(event.into_owned()),
            Err(_) => garbage.push(line.to_owned()),
        }
    }
    (events, garbage)
}
