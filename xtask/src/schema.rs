//! `cargo xtask schema`: JSON Schema and TypeScript types of what Sabir prints, written from the Rust types.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, bail};
use sabir_core::event::Event;
use sabir_core::fold::timeline::Change;
use sabir_core::fold::{Overview, SessionResult};
use schemars::JsonSchema;
use serde_json::Value;

use crate::typescript;

const FOLDER: &str = "docs/schema";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Write nothing; fail when a file is not what would be written
    #[arg(long)]
    pub(crate) check: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut stale = Vec::new();
    for (name, text) in files()? {
        let path = crate::root().join(FOLDER).join(name);
        if std::fs::read_to_string(&path).is_ok_and(|current| current == text) {
            continue;
        }
        if arguments.check {
            stale.push(format!("{FOLDER}/{name}"));
        } else {
            std::fs::create_dir_all(crate::root().join(FOLDER))?;
            std::fs::write(&path, text).with_context(|| format!("could not write {}", path.display()))?;
            println!("{FOLDER}/{name}");
        }
    }
    if !stale.is_empty() {
        bail!("not current: {}\nhint: run `cargo xtask schema` and commit what it writes", stale.join(", "));
    }
    Ok(())
}

/// Every generated file, by name.
fn files() -> Result<Vec<(&'static str, String)>> {
    let events = schema_of::<Event<'static>>()?;
    let result = schema_of::<SessionResult>()?;
    let timeline = schema_of::<Change>()?;
    let overview = schema_of::<Overview>()?;
    let of_events = typescript::names(&events);
    let pretty = |schema: &Value| serde_json::to_string_pretty(schema).map(|text| text + "\n");
    Ok(vec![
        ("events.json", pretty(&events)?),
        ("events.d.ts", typescript::write(&events, &BTreeSet::new(), "events")),
        ("result.json", pretty(&result)?),
        ("result.d.ts", typescript::write(&result, &of_events, "events")),
        ("timeline.json", pretty(&timeline)?),
        ("timeline.d.ts", typescript::write(&timeline, &of_events, "events")),
        ("overview.json", pretty(&overview)?),
        ("overview.d.ts", typescript::write(&overview, &of_events, "events")),
    ])
}

/// The schema of what is written: a field that may be absent there is not required.
pub(crate) fn schema_of<T: JsonSchema>() -> Result<Value> {
    let generator = schemars::generate::SchemaSettings::draft2020_12().for_serialize().into_generator();
    Ok(serde_json::to_value(generator.into_root_schema_for::<T>())?)
}

#[cfg(test)]
mod tests;
