//! `cargo xtask page`: the page that the hub serves, bundled from TypeScript; its tests.
//!
//! The result is committed, so that building Sabir needs no node.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::process;

const SOURCE: &str = "crates/sabir-hub/page";
const ASSETS: &str = "crates/sabir-hub/assets";
const NO_NPM: &str = "there is no npm";
const NODE: &str = "install node 20 or newer";
const FILES: [&str; 3] = ["index.html", "app.js", "style.css"];

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Write nothing; fail when a file is not what would be written
    #[arg(long)]
    pub(crate) check: bool,
    /// Run its tests in a real browser as well
    #[arg(long, conflicts_with = "check")]
    pub(crate) test: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if !has("npm") {
        if arguments.check {
            return process::skip(NO_NPM, NODE);
        }
        bail!("{NO_NPM}\nhint: {NODE}");
    }
    if let Err(error) = install() {
        return if arguments.check { no_packages(&error) } else { Err(error) };
    }
    process::run(&mut npm(&["run", "--silent", "check"]))?;
    if arguments.check {
        return check();
    }
    build(&crate::root().join(ASSETS))?;
    FILES.iter().for_each(|file| println!("{ASSETS}/{file}"));
    if arguments.test { test() } else { Ok(()) }
}

/// The tests of the page: those of its parts, then those in a browser.
pub(crate) fn test() -> Result<()> {
    if !has("npm") {
        return process::skip(NO_NPM, NODE);
    }
    if let Err(error) = install() {
        return no_packages(&error);
    }
    process::run(&mut npm(&["run", "--silent", "unit"]))?;
    let Some(browser) = browser() else {
        return process::skip(
            "there is no chromium, and it can't be installed with apt-get",
            "install chromium, or name one: SABIR_CHROMIUM=/path/to/chromium",
        );
    };
    process::build_as_for_tests()?;
    let sabir = process::program("sabir");
    process::run(npm(&["run", "--silent", "browser"]).env("SABIR_CHROMIUM", browser).env("SABIR_BINARY", sabir))
}

fn no_packages(error: &anyhow::Error) -> Result<()> {
    process::skip(&format!("the page's packages can't be installed ({error:#})"), "allow access to the npm registry")
}

/// Rebuilds elsewhere, and compares.
fn check() -> Result<()> {
    let fresh = crate::root().join("target/page-check");
    build(&fresh)?;
    let assets = crate::root().join(ASSETS);
    let differs = |file: &str| std::fs::read(fresh.join(file)).ok() != std::fs::read(assets.join(file)).ok();
    let stale: Vec<String> = FILES.into_iter().filter(|file| differs(file)).map(|file| format!("{ASSETS}/{file}")).collect();
    if stale.is_empty() {
        return Ok(());
    }
    bail!("not current: {}\nhint: run `cargo xtask page` and commit what it writes", stale.join(", "));
}

fn build(out: &Path) -> Result<()> {
    let mut command = Command::new("node");
    command.arg("build.mjs").arg("--out").arg(out).current_dir(folder());
    process::run(&mut command)
}

/// The packages at the versions of the lockfile, unless they are there already.
pub(crate) fn install() -> Result<()> {
    let read = |name: &str| std::fs::read(folder().join(name));
    let noted = folder().join("node_modules/.installed");
    let lock = read("package-lock.json").context("there is no package-lock.json")?;
    if std::fs::read(&noted).is_ok_and(|installed| installed == lock) {
        return Ok(());
    }
    process::run(&mut npm(&["ci", "--ignore-scripts", "--no-fund", "--no-audit", "--loglevel=error"]))?;
    std::fs::write(&noted, lock).with_context(|| format!("could not write {}", noted.display()))
}

/// A browser of the Chromium family; Debian's is installed where there is none and one may.
pub(crate) fn browser() -> Option<PathBuf> {
    let found = || ["chromium", "chromium-browser", "google-chrome"].into_iter().find_map(on_path);
    if let Some(named) = std::env::var_os("SABIR_CHROMIUM") {
        return Some(named.into());
    }
    found().or_else(|| {
        println!("   chromium is not installed: installing it with apt-get");
        let mut apt = Command::new("apt-get");
        apt.args(["install", "--yes", "--quiet", "--no-install-recommends", "chromium"]).stdout(Stdio::null());
        process::run(&mut apt).ok()?;
        found()
    })
}

fn npm(arguments: &[&str]) -> Command {
    let mut command = Command::new("npm");
    command.args(arguments).current_dir(folder());
    command
}

pub(crate) fn folder() -> PathBuf {
    crate::root().join(SOURCE)
}

/// Where a program is that can be called by its name.
fn on_path(name: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| path.is_file())
}

fn has(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
