//! `cargo xtask screenshots`: the pictures of the documents, made with real parts.
//!
//! What is shown is made up, and written as the logs that agents keep; the program, the browser and the terminal are real.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::{page, process};

/// Where the documents look for them.
const PICTURES: &str = "docs/pictures";
/// What a reader may have to load: of one picture, and of all of them.
const MOST: u64 = 150 * 1024;
const MOST_IN_ALL: u64 = 800 * 1024;

/// Makes the pictures of README.md, docs/page.md and docs/tui.md
///
/// Needs node 20 with npm, tmux, and a browser of the Chromium family. Chromium is looked for on the path and installed with
/// apt-get where it is missing and one may; elsewhere install it, and name it with `SABIR_CHROMIUM=/path/to/chromium`. The
/// program is built as for the tests; `SABIR_BINARY=/path/to/sabir` names another. With the
/// fonts Inter and `JetBrains Mono` (Debian: fonts-inter, fonts-jetbrains-mono) they look as those that are committed.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The folder to write to
    #[arg(long, value_name = "FOLDER", default_value = PICTURES)]
    out: std::path::PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    for (program, version, hint) in [("npm", "--version", "install node 20 or newer"), ("tmux", "-V", "install tmux")] {
        if !starts(program, version) {
            bail!("there is no {program} here\nhint: {hint}");
        }
    }
    page::install()?;
    let Some(browser) = page::browser() else {
        bail!(
            "there is no chromium here, and it can't be installed\nhint: install it, or name one: SABIR_CHROMIUM=/path/to/chromium"
        );
    };
    let sabir = match std::env::var_os("SABIR_BINARY") {
        Some(named) => named.into(),
        None => {
            process::build_as_for_tests()?;
            process::program("sabir")
        }
    };
    let out = crate::root().join(&arguments.out);
    let mut take = Command::new("node");
    take.arg("pictures/take.mjs").arg(&out).current_dir(page::folder());
    process::run(take.env("SABIR_CHROMIUM", browser).env("SABIR_BINARY", sabir))?;
    weigh(&out)
}

/// A picture that is too large is a mistake of this command, and better found here than by readers.
fn weigh(folder: &Path) -> Result<()> {
    let mut sum = 0;
    for entry in std::fs::read_dir(folder).with_context(|| format!("could not read {}", folder.display()))? {
        let entry = entry?;
        let size = entry.metadata()?.len();
        if size > MOST {
            bail!("{} has {size} bytes, and may have {MOST}", entry.path().display());
        }
        sum += size;
    }
    if sum > MOST_IN_ALL {
        bail!("the pictures have {sum} bytes, and may have {MOST_IN_ALL}");
    }
    Ok(())
}

fn starts(program: &str, version: &str) -> bool {
    let mut command = Command::new(program);
    command.arg(version).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
