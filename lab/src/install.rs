//! Getting the CLIs, at the pinned versions, by npm, into a folder of our own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::cli::Recipe;

/// The node that is installed when the machine's own is too old for a CLI.
const NODE: &str = "24.21.0";

/// The file that says that an installation came to its end.
const DONE: &str = "installed";

/// What an installation did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Installed {
    /// Nothing: it was there.
    Before,
    /// All of it.
    Now,
}

/// The folder for the installations: `$SABIR_LAB_CACHE`, or `target/lab` of this repository.
pub fn cache() -> PathBuf {
    let chosen = std::env::var_os("SABIR_LAB_CACHE").filter(|folder| !folder.is_empty());
    chosen.map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/lab"), PathBuf::from)
}

/// The program of an installed CLI.
pub fn program(cache: &Path, recipe: &Recipe) -> PathBuf {
    folder(cache, recipe.id, recipe.version).join(on_this_platform(recipe.folder)).join(recipe.program)
}

/// The folders that go to the front of `PATH` for a CLI: its own, and that of a node which is new enough for it.
pub fn path(cache: &Path, recipe: &Recipe) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    folders.extend(program(cache, recipe).parent().map(Path::to_path_buf));
    if recipe.node.is_some_and(|needed| !node_is(needed)) {
        folders.push(node_folder(cache));
    }
    folders
}

/// Whether a CLI is installed, with the node that it needs.
pub fn is_installed(cache: &Path, recipe: &Recipe) -> bool {
    let node = recipe.node.is_none_or(|needed| node_is(needed) || is_done(&folder(cache, "node", NODE)));
    node && is_done(&folder(cache, recipe.id, recipe.version)) && program(cache, recipe).exists()
}

/// Installs a CLI, and a node for it if it needs one.
pub fn install(cache: &Path, recipe: &Recipe) -> Result<Installed> {
    if is_installed(cache, recipe) {
        return Ok(Installed::Before);
    }
    if recipe.node.is_some_and(|needed| !node_is(needed)) {
        npm_install(&folder(cache, "node", NODE), &on_this_platform("node-{platform}"), NODE)?;
    }
    npm_install(&folder(cache, recipe.id, recipe.version), &on_this_platform(recipe.package), recipe.version)?;
    let program = program(cache, recipe);
    if !program.exists() {
        bail!("npm installed {} {}, but {} is not there", recipe.package, recipe.version, program.display());
    }
    Ok(Installed::Now)
}

fn npm_install(folder: &Path, package: &str, version: &str) -> Result<()> {
    if is_done(folder) {
        return Ok(());
    }
    fs::create_dir_all(folder).with_context(|| format!("could not make {}", folder.display()))?;
    let manifest = folder.join("package.json");
    fs::write(&manifest, "{\"private\": true}\n").with_context(|| format!("could not write {}", manifest.display()))?;
    let mut command = Command::new("npm");
    command.args(["install", "--save-exact", "--no-audit", "--no-fund", "--loglevel=error"]);
    // The programs that are used need no script; and no file should say where the packages came from.
    command.args(["--ignore-scripts", "--omit-lockfile-registry-resolved=true"]);
    command.arg(format!("{package}@{version}")).current_dir(folder).stdin(Stdio::null());
    let status = match command.status() {
        Ok(status) => status,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            bail!("npm is not here, and the CLIs of the lab come by npm: install Node.js (20 or newer), which brings it")
        }
        Err(error) => return Err(error).context("could not start npm"),
    };
    if !status.success() {
        bail!("npm could not install {package} {version} ({status})");
    }
    let done = folder.join(DONE);
    fs::write(&done, format!("{package} {version}\n")).with_context(|| format!("could not write {}", done.display()))
}

fn folder(cache: &Path, id: &str, version: &str) -> PathBuf {
    cache.join(id).join(version)
}

fn node_folder(cache: &Path) -> PathBuf {
    folder(cache, "node", NODE).join(on_this_platform("node_modules/node-{platform}/bin"))
}

fn is_done(folder: &Path) -> bool {
    folder.join(DONE).exists()
}

/// Whether the machine's own node is as new as that.
fn node_is(needed: (u32, u32)) -> bool {
    let output = Command::new("node").arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output();
    output.ok().and_then(|output| version(&String::from_utf8_lossy(&output.stdout))).is_some_and(|found| found >= needed)
}

/// The first two numbers of `v24.21.0`.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.trim().strip_prefix('v')?.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Puts the platform into a name, as npm packages spell it.
fn on_this_platform(name: &str) -> String {
    let system = match std::env::consts::OS {
        "macos" => "darwin",
        "windows" => "win32",
        other => other,
    };
    let machine = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    name.replace("{platform}", &format!("{system}-{machine}"))
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn versions_of_node() {
        assert_eq!(version("v24.21.0\n"), Some((24, 21)));
        assert!(version("v22.9.1") < Some((22, 19)));
        assert_eq!(version("24"), None);
    }
}
