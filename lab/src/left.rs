//! The processes that a run left behind, seen from outside: nothing that the run says about itself counts.

use std::fs;
use std::path::Path;

/// A process that is left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// Its number.
    pub process: u32,
    /// Its command line.
    pub command: String,
}

/// The living processes that carry one of these variables (`NAME=VALUE`) in their environment, or work in a folder of the run.
/// None where the system has no `/proc`.
pub fn find(variables: &[String], folder: &Path) -> Option<Vec<Left>> {
    let own = std::process::id();
    let entries = fs::read_dir("/proc").ok()?;
    let processes = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    Some(processes.filter(|process| *process != own).filter_map(|process| seen(process, variables, folder)).collect())
}

/// A process that ends while it is looked at is not left, so whatever can't be read is no sign.
fn seen(process: u32, variables: &[String], folder: &Path) -> Option<Left> {
    let file = |name: &str| Path::new("/proc").join(process.to_string()).join(name);
    let environment = fs::read(file("environ")).unwrap_or_default();
    let marked =
        environment.split(|byte| *byte == 0).any(|variable| variables.iter().any(|wanted| wanted.as_bytes() == variable));
    let inside = fs::read_link(file("cwd")).is_ok_and(|cwd| cwd.starts_with(folder));
    if !marked && !inside {
        return None;
    }
    let command = fs::read(file("cmdline")).unwrap_or_default();
    let command = String::from_utf8_lossy(&command).replace('\0', " ").trim().to_owned();
    Some(Left { process, command })
}
