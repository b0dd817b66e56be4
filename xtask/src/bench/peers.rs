//! Other programs that say what was used, from npm.
//!
//! Of those that people name, tokscale does nothing without a network (it asks for prices), and splitrail is in no registry.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Result;
use serde::Deserialize;

use super::usage::files;

const CCUSAGE: &str = "ccusage@20.0.24";
const CODEBURN: &str = "codeburn@0.9.15";
/// Codeburn needs one that is newer than what systems have.
const NODE: &str = "node@22";

/// Those that could be installed.
#[derive(Clone)]
pub(super) struct Peers {
    /// Its native program: its launcher is not what is measured.
    pub(super) ccusage: Option<PathBuf>,
    /// Node and its script.
    pub(super) codeburn: Option<(PathBuf, PathBuf)>,
}

impl Peers {
    pub(super) fn install(folder: &Path) -> Self {
        Self { ccusage: install_ccusage(folder), codeburn: install_codeburn(folder) }
    }
}

fn install_ccusage(folder: &Path) -> Option<PathBuf> {
    let find = || {
        let mut list = Vec::new();
        files(&folder.join("node_modules/@ccusage"), &mut list).ok()?;
        list.into_iter().find(|file| file.file_stem().is_some_and(|name| name == "ccusage"))
    };
    let program = find().or_else(|| {
        npm(folder, &[CCUSAGE])?;
        find()
    })?;
    #[cfg(unix)]
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).ok()?;
    Some(program)
}

fn install_codeburn(folder: &Path) -> Option<(PathBuf, PathBuf)> {
    // It brings several hundred packages, so it has a folder of its own.
    let folder = folder.join("codeburn");
    let (node, script) = (folder.join("node_modules/.bin/node"), folder.join("node_modules/codeburn/dist/cli.js"));
    let find = || (node.exists() && script.exists()).then(|| (node.clone(), script.clone()));
    find().or_else(|| {
        npm(&folder, &[CODEBURN, NODE])?;
        find()
    })
}

/// Installs packages. `None`, with a word, when that can't be done.
fn npm(folder: &Path, packages: &[&str]) -> Option<()> {
    eprintln!("installing {} from npm", packages.join(" and "));
    fs::create_dir_all(folder).ok()?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--prefix"]).arg(folder).args(packages);
    let installed = npm.stdout(Stdio::null()).status().is_ok_and(|status| status.success());
    if !installed {
        eprintln!("npm could not install it: it is left out");
    }
    installed.then_some(())
}

/// What a peer says was used in all.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub(super) tokens: u64,
    pub(super) cost: f64,
}

pub(super) type Read = fn(&[u8]) -> Result<Said>;

pub(super) fn ccusage(output: &[u8]) -> Result<Said> {
    #[derive(Deserialize)]
    struct Report {
        totals: Totals,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Totals {
        total_tokens: u64,
        total_cost: f64,
    }
    let Report { totals } = serde_json::from_slice(output)?;
    Ok(Said { tokens: totals.total_tokens, cost: totals.total_cost })
}

pub(super) fn codeburn(output: &[u8]) -> Result<Said> {
    #[derive(Deserialize)]
    struct Row {
        #[serde(rename = "totalTokens")]
        tokens: u64,
        #[serde(rename = "costUSD")]
        cost: f64,
    }
    let rows: Vec<Row> = serde_json::from_slice(output)?;
    Ok(rows.iter().fold(Said::default(), |sum, row| Said { tokens: sum.tokens + row.tokens, cost: sum.cost + row.cost }))
}
