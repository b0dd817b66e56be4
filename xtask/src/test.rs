//! `cargo xtask test`: everything that must hold before a change is merged, the same here and on a fresh machine.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use crate::process::{self, cargo};
use crate::{docs, lab, page, schema, tidy};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Run only the steps whose name contains this
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
}

/// What a step does.
enum Work {
    Run(Command),
    Check(fn() -> Result<()>),
}

/// The steps, the quickest to fail first.
fn steps() -> Vec<(&'static str, Work)> {
    let mut doc = cargo(&["doc", "--workspace", "--no-deps", "--quiet"]);
    doc.env("RUSTDOCFLAGS", "-D warnings");
    let mut tests = cargo(&["nextest", "run", "--workspace", "--no-fail-fast", "--cargo-quiet"]);
    // A check never writes what it compares with.
    tests.env_remove("SABIR_UPDATE");
    vec![
        ("format", Work::Run(cargo(&["fmt", "--all", "--check"]))),
        ("tidy", Work::Check(|| tidy::run(&tidy::Arguments {}))),
        ("generated files", Work::Check(generated_files)),
        ("clippy", Work::Run(cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]))),
        ("test runner", Work::Check(|| process::need_cargo_subcommand("nextest"))),
        ("tests", Work::Run(tests)),
        ("page", Work::Check(page::test)),
        ("lab", Work::Check(lab::quick)),
        ("doc tests", Work::Run(cargo(&["test", "--workspace", "--doc", "--quiet"]))),
        ("doc", Work::Run(doc)),
    ]
}

fn generated_files() -> Result<()> {
    schema::run(&schema::Arguments { check: true })?;
    docs::run(&docs::Arguments { check: true })?;
    page::run(&page::Arguments { check: true, test: false })
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut done: Vec<(&str, Duration)> = Vec::new();
    let chosen = |name: &str| arguments.only.as_deref().is_none_or(|part| name.contains(part));
    for (name, work) in steps().into_iter().filter(|(name, _)| chosen(name)) {
        println!("── {name}");
        let start = Instant::now();
        let result = match work {
            Work::Run(mut command) => process::run(&mut command),
            Work::Check(check) => check(),
        };
        result.with_context(|| format!("the step `{name}` did not pass"))?;
        done.push((name, start.elapsed()));
        println!("   {name}: {:.1} s", start.elapsed().as_secs_f64());
    }
    println!("\nAll passed:");
    for (name, time) in &done {
        println!("  {name:<16} {:>7.1} s", time.as_secs_f64());
    }
    let total: Duration = done.iter().map(|(_, time)| *time).sum();
    println!("  {:<16} {:>7.1} s", "total", total.as_secs_f64());
    Ok(())
}
