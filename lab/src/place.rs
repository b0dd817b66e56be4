//! A fresh home and a fresh work folder for a run.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::cli::Recipe;

/// Where a run takes place.
#[derive(Clone, Debug)]
pub struct Place {
    /// The home folder of the user.
    pub home: PathBuf,
    /// The folder that the agent works in.
    pub work: PathBuf,
    /// Where the model server listens.
    pub address: SocketAddr,
}

impl Place {
    /// The address of the server as a URL without a slash at its end.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The path of a file in the work folder.
    pub fn file(&self, name: &str) -> String {
        self.work.join(name).to_string_lossy().into_owned()
    }
}

/// A file that a CLI reads from its home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HomeFile {
    /// Its path in the home folder.
    pub path: &'static str,
    /// All of it.
    pub content: String,
}

/// What is in the work folder when a run starts.
pub const FILES: &[(&str, &str)] = &[
    ("README.md", "# Scratch\n\nA folder to work in.\n"),
    ("sum.sh", "echo $(($1 - $2))\n"),
    ("check.sh", "test \"$(sh sum.sh 2 3)\" = 5 && echo passed\n"),
];

/// Makes the home of a run: what the recipe says, and nothing else.
pub fn make_home(recipe: &Recipe, place: &Place) -> Result<()> {
    fs::create_dir_all(&place.home).with_context(|| format!("could not make {}", place.home.display()))?;
    for file in (recipe.files)(place) {
        write(&place.home.join(file.path), &file.content)?;
    }
    Ok(())
}

/// Makes the work folder of a run: a small Git repository.
pub fn make_work(place: &Place) -> Result<()> {
    for (name, content) in FILES {
        write(&place.work.join(name), content)?;
    }
    for arguments in [&["init", "--quiet"][..], &["add", "--all"], &["commit", "--quiet", "--message", "The start"]] {
        let mut command = Command::new("git");
        command.args(arguments).current_dir(&place.work).envs(GIT.iter().copied()).stdin(Stdio::null());
        let status = command.status().context("could not start git")?;
        if !status.success() {
            bail!("git {} failed ({status})", arguments.join(" "));
        }
    }
    Ok(())
}

/// The same repository on any machine.
pub const GIT: &[(&str, &str)] = &[
    ("GIT_AUTHOR_NAME", "lab"),
    ("GIT_AUTHOR_EMAIL", "lab@example.invalid"),
    ("GIT_AUTHOR_DATE", "2026-01-01T00:00:00Z"),
    ("GIT_COMMITTER_NAME", "lab"),
    ("GIT_COMMITTER_EMAIL", "lab@example.invalid"),
    ("GIT_COMMITTER_DATE", "2026-01-01T00:00:00Z"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_CONFIG_SYSTEM", "/dev/null"),
];

fn write(path: &Path, content: &str) -> Result<()> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).with_context(|| format!("could not make {}", folder.display()))?;
    fs::write(path, content).with_context(|| format!("could not write {}", path.display()))
}
