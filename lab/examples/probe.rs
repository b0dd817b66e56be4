//! Runs CLIs against the server by command lines that are known to work, to see whether their recipes hold.
//!
//! `cargo run -p sabir-lab --example probe -- [--keep FOLDER] [CLI…] [--scenario NAME]…`
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::Parser;
use sabir_lab::cli::{self, Recipe};
use sabir_lab::isolation::{self, Isolation};
use sabir_lab::place::{self, Place};
use sabir_lab::scenario::{self, Interrupt, Run, Scenario};
use sabir_lab::script::Script;
use sabir_lab::server::Server;
use sabir_lab::{install, truth::Truth};
use serde_json::Value;
use tokio::process::{Child, Command};

/// Says that this process is in a network of its own.
const ISOLATED: &str = "SABIR_LAB_ISOLATED";

/// Runs CLIs against the scripted model.
#[derive(Parser)]
struct Arguments {
    /// The CLIs; all of them if none is named
    names: Vec<String>,
    /// The scenarios; all of them if none is named
    #[arg(long = "scenario", value_name = "NAME")]
    scenarios: Vec<String>,
    /// Where the outputs go
    #[arg(long, value_name = "FOLDER")]
    keep: PathBuf,
}

fn main() -> Result<()> {
    if std::env::var_os(ISOLATED).is_none() {
        match isolation::find() {
            Isolation::Namespace(words) => return isolated(&words),
            Isolation::Impossible(reason) => eprintln!("The CLIs are not kept from the network: {reason}"),
        }
    }
    tokio::runtime::Runtime::new()?.block_on(probe(&Arguments::parse()))
}

fn isolated(words: &[String]) -> Result<()> {
    let (program, rest) = words.split_first().context("no command")?;
    let mut command = std::process::Command::new(program);
    command.args(rest).arg(std::env::current_exe()?).args(std::env::args_os().skip(1)).env(ISOLATED, "1");
    let status = command.status()?;
    if !status.success() {
        bail!("the probe failed ({status})");
    }
    Ok(())
}

async fn probe(arguments: &Arguments) -> Result<()> {
    let cache = install::cache();
    for recipe in cli::ALL {
        let version = format!("{}@{}", recipe.id, recipe.version);
        if !arguments.names.is_empty() && !arguments.names.iter().any(|name| name == recipe.id || *name == version) {
            continue;
        }
        if !install::is_installed(&cache, recipe) {
            println!("{version}: not installed");
            continue;
        }
        for scenario in scenario::ALL {
            if arguments.scenarios.is_empty() || arguments.scenarios.iter().any(|name| name == scenario.name) {
                let folder = arguments.keep.join(recipe.id).join(recipe.version).join(scenario.name);
                if let Err(error) = tell(recipe, scenario, &cache, &folder).await {
                    println!("{version} {}: {error:#}", scenario.name);
                }
            }
        }
    }
    Ok(())
}

/// Tells a CLI a scenario.
async fn tell(recipe: &Recipe, scenario: &Scenario, cache: &Path, folder: &Path) -> Result<()> {
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    std::fs::create_dir_all(folder)?;
    let folder = folder.canonicalize()?;
    let server = Server::start(Script::new(Vec::new())).await?;
    let place = Place { home: folder.join("home"), work: folder.join("work"), address: server.address() };
    place::make_home(recipe, &place)?;
    place::make_work(&place)?;
    let mut session = None;
    for (index, run) in scenario.runs.iter().enumerate() {
        server.load(scenario::script(run, recipe, &place));
        let folder = folder.join(format!("run{}", index + 1));
        std::fs::create_dir_all(&folder)?;
        let mut child = spawn(recipe, run, session.as_deref(), &place, cache, &folder)?;
        let code = supervise(&mut child, run.interrupt, &server, &place).await?;
        let stdout = std::fs::read(folder.join("stdout"))?;
        let truth = server.truth();
        std::fs::write(folder.join("truth.json"), serde_json::to_vec_pretty(&truth)?)?;
        report(recipe, scenario, index, &code, &stdout, &truth);
        session = session_id(&stdout);
    }
    Ok(())
}

fn spawn(recipe: &Recipe, run: &Run, session: Option<&str>, place: &Place, cache: &Path, folder: &Path) -> Result<Child> {
    let mut path: Vec<PathBuf> = install::path(cache, recipe);
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let mut command = Command::new(install::program(cache, recipe));
    command.args(command_line(recipe, run.prompt, session)?).current_dir(&place.work).env_clear();
    command.env("PATH", std::env::join_paths(path)?).env("HOME", &place.home).env("LANG", "C.UTF-8").env("TERM", "dumb");
    command.envs(place::GIT.iter().copied()).envs((recipe.environment)(place));
    command.stdin(Stdio::null()).kill_on_drop(true);
    command.stdout(std::fs::File::create(folder.join("stdout"))?).stderr(std::fs::File::create(folder.join("stderr"))?);
    command.spawn().with_context(|| format!("could not start {}", recipe.program))
}

/// Waits for the end, after the interrupt if there is one; what does not end is killed.
async fn supervise(child: &mut Child, interrupt: Option<Interrupt>, server: &Server, place: &Place) -> Result<String> {
    let limit = Duration::from_secs(150);
    let id = child.id().context("it has ended")?;
    let end = async {
        match interrupt {
            None => {}
            Some(Interrupt::MidStream) => server.reached(|progress| progress.deltas >= 2).await,
            Some(Interrupt::MidTool) => {
                while !place.work.join(scenario::STARTED).exists() {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
        if interrupt.is_some() {
            tokio::time::sleep(Duration::from_secs(1)).await;
            std::process::Command::new("kill").args(["-INT", &id.to_string()]).status()?;
        }
        child.wait().await
    };
    let ended = tokio::time::timeout(limit, end).await;
    match ended {
        Ok(status) => Ok(status?.to_string()),
        Err(_) => {
            child.kill().await?;
            Ok(format!("killed after {} s", limit.as_secs()))
        }
    }
}

fn report(recipe: &Recipe, scenario: &Scenario, index: usize, end: &str, stdout: &[u8], truth: &Truth) {
    let lines: Vec<Value> = stdout.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
    let seen = truth
        .final_text
        .as_ref()
        .map(|text| lines.iter().any(|line| has_text(line, text)) || deltas(&lines).contains(text.as_str()));
    let main = &truth.usage.main;
    println!(
        "{}@{} {} {}: {end}, {} lines, {} bytes; answer seen {seen:?}; requests {}+{}, failures {:?}, after the script {}, \
         aborted {}, calls {}, tokens {}/{}/{}/{}; other {:?}",
        recipe.id,
        recipe.version,
        scenario.name,
        index + 1,
        lines.len(),
        stdout.len(),
        truth.requests.main,
        truth.requests.aux,
        truth.failures.iter().map(|failure| failure.status).collect::<Vec<_>>(),
        truth.after_the_script,
        truth.usage.aborted.replies,
        truth.tool_calls.len(),
        main.uncached_input,
        main.cache_read,
        main.cache_write,
        main.output,
        truth.other_requests,
    );
}

/// The pieces of text that stand alone in lines, put together.
fn deltas(lines: &[Value]) -> String {
    lines.iter().filter_map(|line| line["content"].as_str()).collect()
}

/// Whether a text stands somewhere in a value, as it is.
fn has_text(value: &Value, text: &str) -> bool {
    match value {
        Value::String(found) => found.contains(text),
        Value::Array(items) => items.iter().any(|item| has_text(item, text)),
        Value::Object(fields) => fields.values().any(|item| has_text(item, text)),
        _ => false,
    }
}

/// The session that a run names first.
fn session_id(stdout: &[u8]) -> Option<String> {
    let mut lines = stdout.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let id = |line: Value| {
        let keys = ["session_id", "sessionID", "sessionId", "thread_id"];
        let named = keys.iter().find_map(|key| line[key].as_str().map(str::to_owned));
        named.or_else(|| (line["type"] == "session").then(|| line["id"].as_str().map(str::to_owned)).flatten())
    };
    lines.find_map(id)
}

/// Command lines that are known to work.
fn command_line(recipe: &Recipe, prompt: &str, session: Option<&str>) -> Result<Vec<String>> {
    let model = recipe.model;
    let (words, resume): (Vec<&str>, &str) = match (recipe.id, recipe.version) {
        ("claude-code", _) => (
            vec![
                "-p",
                prompt,
                "--output-format",
                "stream-json",
                "--verbose",
                "--include-partial-messages",
                "--model",
                model,
                "--permission-mode",
                "acceptEdits",
                "--allowedTools",
                "Bash,Read,Write,Edit",
            ],
            "--resume",
        ),
        ("codex", "0.36.0") => {
            if session.is_some() {
                bail!("this version cannot resume");
            }
            (vec!["exec", "--json", "--dangerously-bypass-approvals-and-sandbox", prompt], "")
        }
        ("codex", _) => {
            let mut words = vec!["exec"];
            words.extend(session.map(|_| "resume"));
            words.extend(["--json", "--dangerously-bypass-approvals-and-sandbox"]);
            words.extend(session);
            words.push(prompt);
            (words, "")
        }
        ("gemini", _) => {
            (vec!["-m", model, "--approval-mode", "yolo", "--output-format", "stream-json", "-p", prompt], "--resume")
        }
        ("opencode", _) => (vec!["run", "--format", "json", "--thinking", "--model", model, prompt], "--session"),
        ("pi", _) => (vec!["-p", "--mode", "json", "--model", model, "--thinking", "medium", prompt], "--session"),
        ("qwen", _) => (vec!["--approval-mode", "yolo", "--output-format", "stream-json", "-p", prompt], "--resume"),
        ("droid", _) => (vec!["exec", "-o", "stream-json", "-m", model, "--auto", "medium", prompt], "--session-id"),
        ("copilot", _) => (vec!["--output-format", "json", "--allow-all-tools", "-p", prompt], "--resume"),
        (id, _) => bail!("no command line is known for {id}"),
    };
    let mut words: Vec<String> = words.into_iter().map(str::to_owned).collect();
    if let Some(session) = session.filter(|_| !resume.is_empty()) {
        words.extend([resume.to_owned(), session.to_owned()]);
    }
    Ok(words)
}
