//! `run`: CLIs × scenarios, through `sabir run`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use sabir_lab::check;
use sabir_lab::cli::Recipe;
use sabir_lab::install;
use sabir_lab::isolation::{self, Isolation};
use sabir_lab::news::{self, News};
use sabir_lab::record;
use sabir_lab::report::{self, Cell, Verdict};
use sabir_lab::scenario::{self, Scenario};
use sabir_lab::trial::{self, Bench};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Says that this process is in a network of its own.
const ISOLATED: &str = "SABIR_LAB_ISOLATED";

/// The handful that is looked at before every merge.
const QUICK_CLIS: [&str; 5] = ["claude-code", "codex@0.166.0", "gemini", "opencode", "pi"];
const QUICK_SCENARIOS: [&str; 5] = ["plain", "shell-ok", "create-and-edit", "fatal-error", "interrupt-mid-tool"];

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The CLIs, such as `codex` or `codex@0.36.0`; all of them if none is named
    #[arg(long = "cli", value_name = "NAME")]
    clis: Vec<String>,
    /// The scenarios; all of them if none is named
    #[arg(long = "scenario", value_name = "NAME")]
    scenarios: Vec<String>,
    /// Only a handful of both; with `SABIR_ALLOW_SKIP=1` no failure where the CLIs can't be installed
    #[arg(long, conflicts_with_all = ["clis", "scenarios", "write"])]
    quick: bool,
    /// Make fixtures of what the CLIs printed, where a scenario is worth one and passed
    #[arg(long)]
    record: bool,
    /// Write the table to this file
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// How many cells run at once
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..))]
    jobs: u16,
    /// The program `sabir`
    #[arg(long, value_name = "FILE")]
    sabir: PathBuf,
    /// Where the CLIs are; the default is target/lab
    #[arg(long, value_name = "FOLDER", env = "SABIR_LAB_CACHE")]
    cache: Option<PathBuf>,
    /// Where the runs take place; the default is a folder for temporary files
    #[arg(long, value_name = "FOLDER")]
    scratch: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let recipes = recipes(arguments)?;
    let scenarios = scenarios(arguments)?;
    let cache = arguments.cache.clone().unwrap_or_else(install::cache);
    if std::env::var_os(ISOLATED).is_none() {
        if let Err(error) = recipes.iter().try_for_each(|recipe| install::install(&cache, recipe).map(drop)) {
            if arguments.quick {
                let missing = format!("the CLIs of the lab can't be installed ({error:#})");
                let hint = "install node 20 or newer, and allow access to the npm registry";
                return sabir_test_support::skip(&missing, hint).map_err(anyhow::Error::msg);
            }
            return Err(error);
        }
        match isolation::find() {
            Isolation::Namespace(words) => return isolated(&words),
            Isolation::Impossible(reason) => eprintln!("The CLIs are not kept from the network: {reason}"),
        }
    }
    let scratch = arguments.scratch.clone().unwrap_or_else(|| std::env::temp_dir().join("sabir-lab"));
    let bench = Bench { sabir: absolute(&arguments.sabir)?, cache: absolute(&cache)?, scratch };
    let start = Instant::now();
    let cells = tokio::runtime::Runtime::new()?.block_on(all(&bench, &recipes, &scenarios, arguments))?;
    let table = report::markdown(&recipes, &scenarios, &cells);
    let drift = report::drift(&recipes, &cells);
    println!("\n{table}\n{drift}\n{} in {:.0} s", report::summary(&cells), start.elapsed().as_secs_f64());
    if let Some(file) = &arguments.write {
        let text = format!("{HEAD}\n{table}\n{DRIFT}\n{drift}");
        std::fs::write(file, text).with_context(|| format!("could not write {}", file.display()))?;
    }
    let differing = cells.iter().filter(|cell| matches!(cell.verdict, Verdict::Differs(_))).count();
    if differing > 0 {
        bail!("{differing} of {} cells differ from what was served", cells.len());
    }
    Ok(())
}

/// What stands above the table.
const HEAD: &str = "<!-- Written by `cargo xtask lab run --write docs/conformance.md`; do not edit. -->\n
# Conformance\n
Real CLIs, started by `sabir run`, talk to a scripted model on the loopback interface. What `sabir` told is compared with what the
model served and the tools did: the answer, the texts and the reasoning, the tool calls and their ends, what commands printed and
their exit codes, the changed files (on the disk too), the tokens class by class, the outcome and the exit code, the laws of the
vocabulary, and that no line was left unread and no process running. In `read-only` and `edit` the model tries more than the run may
do, and the disk shows whether it was kept from it.\n
*Passed* is all of that. A number says what that CLI does not tell, or tells in its own way, and why. *Not applicable* is what it
can't do.\n";

/// What stands above what is new.
const DRIFT: &str = "## Drift\n
What the CLIs printed in these runs that Sabir does not know: types of lines, and fields of lines that it does know, with how often
they came.\n";

fn absolute(path: &Path) -> Result<PathBuf> {
    path.canonicalize().with_context(|| format!("{} is not there", path.display()))
}

fn recipes(arguments: &Arguments) -> Result<Vec<&'static Recipe>> {
    if arguments.quick {
        return super::chosen(&QUICK_CLIS.map(str::to_owned));
    }
    super::chosen(&arguments.clis)
}

fn scenarios(arguments: &Arguments) -> Result<Vec<&'static Scenario>> {
    let quick = QUICK_SCENARIOS.map(str::to_owned);
    let names = if arguments.quick { &quick[..] } else { &arguments.scenarios };
    if names.is_empty() {
        return Ok(scenario::ALL.iter().collect());
    }
    let find = |name: &String| {
        scenario::named(name).with_context(|| format!("there is no scenario `{name}`; `cargo xtask lab list` shows them"))
    };
    names.iter().map(find).collect()
}

/// The same command again, in a network of its own.
fn isolated(words: &[String]) -> Result<()> {
    let (program, rest) = words.split_first().context("no command")?;
    let mut command = Command::new(program);
    command.args(rest).arg(std::env::current_exe()?).args(std::env::args_os().skip(1)).env(ISOLATED, "1");
    let status = command.status().with_context(|| format!("could not start {program}"))?;
    if !status.success() {
        bail!("the lab did not pass");
    }
    Ok(())
}

async fn all(
    bench: &Bench,
    recipes: &[&'static Recipe],
    scenarios: &[&'static Scenario],
    arguments: &Arguments,
) -> Result<Vec<Cell>> {
    let room = Arc::new(Semaphore::new(usize::from(arguments.jobs)));
    let record = arguments.record;
    let mut tasks = JoinSet::new();
    for recipe in recipes.iter().copied() {
        for scenario in scenarios.iter().copied() {
            let (bench, room) = (bench.clone(), Arc::clone(&room));
            tasks.spawn(async move {
                let _permit = room.acquire_owned().await;
                cell(&bench, recipe, scenario, record).await
            });
        }
    }
    let mut cells = Vec::new();
    while let Some(cell) = tasks.join_next().await {
        let cell = cell?;
        let shown = match &cell.verdict {
            Verdict::Passed(_) => "passed".to_owned(),
            Verdict::NotApplicable(why) => format!("not applicable: {why}"),
            Verdict::Differs(what) => format!("DIFFERS\n    {}", what.join("\n    ")),
        };
        println!(
            "{:>5.1} s  {} {} {}: {shown}",
            cell.time.as_secs_f64(),
            cell.recipe.id,
            cell.recipe.version,
            cell.scenario.name
        );
        cells.push(cell);
    }
    Ok(cells)
}

async fn cell(bench: &Bench, recipe: &'static Recipe, scenario: &'static Scenario, record: bool) -> Cell {
    let start = Instant::now();
    let (verdict, news) = match report::not_applicable(recipe, scenario) {
        Some(why) => (Verdict::NotApplicable(why), News::default()),
        None => verdict(bench, recipe, scenario, record)
            .await
            .unwrap_or_else(|error| (Verdict::Differs(vec![format!("{error:#}")]), News::default())),
    };
    Cell { recipe, scenario, verdict, news, time: start.elapsed() }
}

async fn verdict(bench: &Bench, recipe: &'static Recipe, scenario: &'static Scenario, record: bool) -> Result<(Verdict, News)> {
    let seen = trial::tell(bench, recipe, scenario).await?;
    let mut differences = Vec::new();
    let mut news = News::default();
    seen.iter().for_each(|seen| news.add(&news::find(recipe.id, seen)));
    for (index, (run, seen)) in scenario.runs.iter().zip(&seen).enumerate() {
        let remembered = index.checked_sub(1).and_then(|before| scenario.runs.get(before)).map(|run| run.prompt);
        differences.extend(check::check(recipe, run, seen, remembered));
    }
    let verdict = report::judge(recipe.exceptions, scenario.name, &differences);
    if record && matches!(verdict, Verdict::Passed(_)) && record::WORTH.contains(&scenario.name) {
        for seen in &seen {
            if let Err(error) = record::write(&record::folder(), recipe, scenario, seen) {
                eprintln!("{} {} {}: {error:#}", recipe.id, recipe.version, scenario.name);
            }
        }
    }
    Ok((verdict, news))
}
