//! `cargo xtask shapes`: adds what recordings look like to an agent's list of known shapes.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use sabir_core::drift::{Drift, Shapes};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The agent that printed the files
    agent: String,
    /// Recordings of its standard output, of a version whose every event is read
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let registry = sabir_agents::builtin();
    let agent = registry.find(&arguments.agent).with_context(|| format!("there is no agent named {}", arguments.agent))?;
    let folder = crate::root().join("crates/sabir-agents/src").join(agent.id.as_str().replace('-', "_"));
    let path = folder.join("shapes.txt");
    let list = fs::read_to_string(&path).with_context(|| format!("{} has no list of shapes", agent.id))?;
    let mut drift = Drift::new(Shapes::parse(&list));
    for file in &arguments.files {
        let bytes = fs::read(file).with_context(|| format!("can't read {}", file.display()))?;
        String::from_utf8_lossy(&bytes).lines().for_each(|line| drift.line(line));
    }
    let (head, known): (Vec<&str>, Vec<&str>) = list.lines().partition(|line| line.starts_with('#') || line.ends_with(".*"));
    let known: BTreeSet<&str> = known.into_iter().chain(drift.news().keys().map(String::as_str)).collect();
    let lines: Vec<&str> = head.into_iter().chain(known).collect();
    fs::write(&path, lines.join("\n") + "\n").with_context(|| format!("can't write {}", path.display()))?;
    println!("{}: {} new shapes, {} known", agent.id, drift.news().len(), lines.len());
    Ok(())
}
