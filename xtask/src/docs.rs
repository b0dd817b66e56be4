//! `cargo xtask docs`: the tables in the documents that come from the code.
//!
//! A table stands between two comments, `<!-- table: NAME -->` and `<!-- end -->`; what is between them is replaced.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use sabir_core::event::Event;
use sabir_core::history::LogRoot;
use serde_json::Value;

use crate::schema::schema_of;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Write nothing; fail when a document is not what would be written
    #[arg(long)]
    pub(crate) check: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut stale = Vec::new();
    for path in documents()? {
        let shown = path.strip_prefix(crate::root()).unwrap_or(&path).display().to_string();
        let text = std::fs::read_to_string(&path).with_context(|| format!("could not read {shown}"))?;
        let new = with_tables(&text).with_context(|| shown.clone())?;
        if new == text {
            continue;
        }
        if arguments.check {
            stale.push(shown);
        } else {
            std::fs::write(&path, new).with_context(|| format!("could not write {shown}"))?;
            println!("{shown}");
        }
    }
    if !stale.is_empty() {
        bail!("not current: {}\nhint: run `cargo xtask docs` and commit what it writes", stale.join(", "));
    }
    Ok(())
}

/// The documents at the top of the repository and in docs/.
fn documents() -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![crate::root().join("docs")];
    list(&crate::root(), &mut found, &mut Vec::new())?;
    while let Some(folder) = folders.pop() {
        list(&folder, &mut found, &mut folders)?;
    }
    found.sort();
    Ok(found)
}

fn list(folder: &Path, found: &mut Vec<PathBuf>, folders: &mut Vec<PathBuf>) -> Result<()> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Ok(()) };
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            folders.push(path);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    Ok(())
}

fn with_tables(text: &str) -> Result<String> {
    // At the start of a line only, so that a document can tell how it is done.
    const START: &str = "\n<!-- table: ";
    const END: &str = "\n<!-- end -->";
    let mut new = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(START) {
        let (name, after) = after.split_once(" -->").context("a table's comment is not closed")?;
        let (_, after) = after.split_once(END).with_context(|| format!("the table `{name}` has no `{}`", END.trim()))?;
        let _ = write!(new, "{before}{START}{name} -->\n\n{}{END}", table(name)?);
        rest = after;
    }
    Ok(new + rest)
}

fn table(name: &str) -> Result<String> {
    match name {
        "agents" => Ok(agents()),
        "capabilities" => Ok(capabilities()),
        "histories" => Ok(histories()),
        "keys" => keys(),
        "kinds" => kinds(),
        "words" => words(),
        other => {
            bail!("there is no table `{other}`; there are `agents`, `capabilities`, `histories`, `keys`, `kinds` and `words`")
        }
    }
}

/// Every agent and the dialects that are read.
fn agents() -> String {
    let mut text = String::from("| agent | id | also | dialects |\n|---|---|---|---|\n");
    for agent in &sabir_agents::builtin() {
        let also: Vec<String> = agent.aliases.iter().map(|alias| format!("`{alias}`")).collect();
        let dialects: Vec<String> =
            agent.dialects.iter().map(|dialect| format!("{} ({})", dialect.name, dialect.about)).collect();
        let _ = writeln!(text, "| {} | `{}` | {} | {} |", agent.title, agent.id, also.join(", "), dialects.join("; "));
    }
    text
}

/// What may be asked of each agent that is started, and the versions that were recorded.
fn capabilities() -> String {
    let mut text =
        String::from("| agent | model | resume | continue | permission | max-turns | max-cost | recorded versions |\n");
    text.push_str("|---|---|---|---|---|---|---|---|\n");
    let mark = |can: bool| if can { "yes" } else { "" };
    for agent in &sabir_agents::builtin() {
        let can = &agent.launch.capabilities;
        let levels: Vec<&str> = can.permissions.iter().map(|level| level.name()).collect();
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} | {} | {} | {} | {} |",
            agent.id,
            mark(can.model),
            mark(can.resume),
            mark(can.r#continue),
            levels.join(", "),
            mark(can.max_turns),
            mark(can.max_cost),
            agent.launch.recorded_versions.join(", "),
        );
    }
    text
}

/// Where agents keep their logs.
fn histories() -> String {
    let mut text = String::from("| agent | folder or database | moved by |\n|---|---|---|\n");
    for agent in &sabir_agents::builtin() {
        let Some(log) = &agent.log else { continue };
        let path = |root: &LogRoot| {
            ["~", &*root.home_dir, &*root.subpath].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
        };
        let mut paths: Vec<String> = log.roots.iter().map(|root| format!("`{}`", path(root))).collect();
        let mut variables: Vec<String> =
            log.roots.iter().filter_map(|root| Some(format!("`{}`", root.env_var.as_ref()?))).collect();
        paths.dedup();
        variables.dedup();
        let _ = writeln!(text, "| `{}` | {} | {} |", agent.id, paths.join(", "), variables.join(", "));
    }
    text
}

/// The keys of the terminal UI. A test of that crate keeps the file equal to its key table, so that this command need not build it.
fn keys() -> Result<String> {
    let path = "crates/sabir-tui/tests/it/keys.md";
    std::fs::read_to_string(crate::root().join(path)).with_context(|| format!("could not read {path}"))
}

/// Every kind of event and its fields; a question mark says that a field may be absent.
fn kinds() -> Result<String> {
    let schema = schema_of::<Event<'static>>()?;
    let mut text = String::from("| kind | what | fields |\n|---|---|---|\n");
    for kind in schema["oneOf"].as_array().into_iter().flatten() {
        let tag = kind["properties"]["kind"]["const"].as_str().unwrap_or_default();
        let required: Vec<&str> = kind["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let fields = kind["properties"].as_object().into_iter().flatten().map(|(name, _)| name.as_str());
        let (always, sometimes): (Vec<&str>, Vec<&str>) =
            fields.filter(|name| *name != "kind").partition(|name| required.contains(name));
        let fields: Vec<String> =
            always.iter().map(|name| format!("`{name}`")).chain(sometimes.iter().map(|name| format!("`{name}`?"))).collect();
        let _ = writeln!(text, "| `{tag}` | {} | {} |", one_line(&kind["description"]), fields.join(", "));
    }
    Ok(text)
}

/// Every closed list of words.
fn words() -> Result<String> {
    let schema = schema_of::<Event<'static>>()?;
    let mut text = String::from("| list | word | meaning |\n|---|---|---|\n");
    for (name, list) in schema["$defs"].as_object().into_iter().flatten() {
        for word in list["oneOf"].as_array().into_iter().flatten() {
            if let Some(text_of_word) = word["const"].as_str() {
                let _ = writeln!(text, "| {name} | `{text_of_word}` | {} |", one_line(&word["description"]));
            }
        }
    }
    Ok(text)
}

fn one_line(description: &Value) -> String {
    description.as_str().unwrap_or_default().replace('\n', " ").replace('|', "\\|")
}
