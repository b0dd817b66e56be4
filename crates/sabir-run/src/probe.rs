//! Detection of installed agents: program, version and credentials.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sabir_core::agent::Agent;
use sabir_core::launch::Program;
use serde::Serialize;

use crate::{platform, spawn};

/// Timeout of `--version`. Some programs are slow on a busy machine.
const VERSION_TIMEOUT: Duration = Duration::from_secs(20);

/// Installation state of an agent on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Installation {
    /// Its program.
    pub program: Option<PathBuf>,
    /// A matching file on the search path that is not executable.
    pub not_executable: Option<PathBuf>,
    /// Version reported by the program.
    pub version: Option<String>,
    /// The test suite has recordings of this version, so that decoding it is exact.
    pub recorded: bool,
    /// Name of the environment variable that holds an API key.
    pub key: Option<String>,
    /// File that a login created.
    pub login: Option<PathBuf>,
}

impl Installation {
    /// Returns whether the agent can be started and has credentials.
    pub fn is_ready(&self, agent: &Agent) -> bool {
        self.program.is_some() && (self.key.is_some() || self.login.is_some() || agent.launch.keys.is_empty())
    }
}

/// Finds the agent's program on the search path.
pub fn find_program(agent: &Agent) -> Option<PathBuf> {
    match &agent.launch.program {
        Program::Named(names) => names.iter().find_map(|name| find_on_path(name, std::env::var_os("PATH").as_deref())),
        Program::Own => std::env::current_exe().ok(),
        Program::Shell => Some(spawn::system_shell()),
    }
}

/// Inspects an agent. Runs its program to learn the version.
pub async fn inspect(agent: &Agent) -> Installation {
    let program = find_program(agent);
    let path = std::env::var_os("PATH");
    let not_executable = if program.is_none() { find_non_executable(agent, path.as_deref()) } else { None };
    let version = match (&program, &agent.launch.program) {
        (Some(program), Program::Named(_)) => version(program).await,
        _ => None,
    };
    let recorded =
        version.as_deref().is_some_and(|version| agent.launch.recorded_versions.iter().any(|recorded| recorded == version));
    let key = agent.launch.keys.iter().find(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty())).cloned();
    let home = platform::home_dir();
    let login = home.and_then(|home| agent.launch.logins.iter().map(|file| home.join(file)).find(|file| file.is_file()));
    Installation { program, not_executable, version, recorded, key, login }
}

/// Finds a file on the search path that has the agent's program name but is not executable.
pub fn find_non_executable(agent: &Agent, path: Option<&OsStr>) -> Option<PathBuf> {
    let Program::Named(names) = &agent.launch.program else { return None };
    let folders = std::env::split_paths(path?).collect::<Vec<_>>();
    names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name))).find(|file| file.is_file())
}

/// Version reported by `PROGRAM --version`.
pub async fn version(program: &Path) -> Option<String> {
    let (ok, text) = spawn::capture_output(program, &["--version"], VERSION_TIMEOUT).await?;
    if ok { parse_version(&text) } else { None }
}

/// The first word that looks like a version.
fn parse_version(text: &str) -> Option<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+');
    text.split(|c: char| !is_part(c))
        .map(|word| word.trim_start_matches('v'))
        .find(|word| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.'))
        .map(|word| word.trim_end_matches('.').to_owned())
}

/// Finds an executable on a search path. A name with a slash is used as a path.
pub fn find_on_path(name: &str, path: Option<&OsStr>) -> Option<PathBuf> {
    if name.contains(['/', '\\']) {
        let file = PathBuf::from(name);
        return platform::is_executable(&file).then_some(file);
    }
    let folders = std::env::split_paths(path?);
    folders
        .flat_map(|folder| platform::candidate_names(name).map(move |name| folder.join(name)))
        .find(|file| platform::is_executable(file))
}

#[cfg(test)]
mod tests {
    use super::parse_version;

    #[test]
    fn parse_version_skips_surrounding_words() {
        let cases = [
            ("2.1.325 (Claude Code)", Some("2.1.325")),
            ("codex-cli 0.166.0\n", Some("0.166.0")),
            ("GitHub Copilot CLI 1.0.102.\nCommit: 3b", Some("1.0.102")),
            ("aider 0.86.2", Some("0.86.2")),
            ("v1.4.0-beta.2", Some("1.4.0-beta.2")),
            ("no figures here", None),
        ];
        for (text, version) in cases {
            assert_eq!(parse_version(text).as_deref(), version, "{text}");
        }
    }
}
