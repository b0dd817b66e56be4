//! Environment of an agent: an allow-list, the agent's own variables, and the user's rules.
//!
//! Agents execute commands chosen by a model, so secrets in the caller's environment must not leak to them.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::str::FromStr;

use crate::error::ParseEnvRuleError;

/// Variables that common programs and tool chains need; a trailing `*` matches any suffix.
const DEFAULT_ALLOWED: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TERM",
    "COLORTERM",
    "TMPDIR",
    "TMP",
    "TEMP",
    "TZ",
    "PWD",
    "XDG_*",
    "SSH_AUTH_SOCK",
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    // Network access.
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    // Tool chains.
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "GOPATH",
    "GOROOT",
    "JAVA_HOME",
    "ANDROID_HOME",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "PYENV_*",
    "NVM_*",
    "VOLTA_HOME",
    "FNM_*",
    "BUN_INSTALL",
    "DENO_DIR",
    "NIX_PATH",
    "NIX_PROFILES",
    "PKG_CONFIG_PATH",
    // Windows.
    "SystemRoot",
    "SystemDrive",
    "windir",
    "ComSpec",
    "PATHEXT",
    "APPDATA",
    "LOCALAPPDATA",
    "ProgramData",
    "ProgramFiles*",
    "USERPROFILE",
    "USERNAME",
    "NUMBER_OF_PROCESSORS",
    "PROCESSOR_*",
];

/// The user's rule for one variable or pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnvRule {
    /// Pass the variable from the caller's environment; a trailing `*` matches any suffix.
    Inherit(String),
    /// Set the variable (name, value).
    Set(String, String),
}

impl FromStr for EnvRule {
    type Err = ParseEnvRuleError;

    /// Parses `NAME` or `PREFIX*` (inherit), `*` (inherit everything) or `NAME=VALUE` (set).
    fn from_str(text: &str) -> Result<Self, ParseEnvRuleError> {
        let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        if name.is_empty() || name.contains('\0') || value.is_some_and(|value| value.contains('\0')) {
            return Err(ParseEnvRuleError);
        }
        Ok(value.map_or_else(|| Self::Inherit(name.to_owned()), |value| Self::Set(name.to_owned(), value.to_owned())))
    }
}

impl EnvRule {
    /// Returns whether the rule matches a variable name.
    pub fn applies_to(&self, name: &str) -> bool {
        match self {
            Self::Inherit(pattern) => matches(pattern, name),
            Self::Set(set, _) => set == name,
        }
    }
}

/// Environment variables of a run.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    variables: BTreeMap<OsString, OsString>,
}

impl Environment {
    /// Filters the variables in `all` by the allow-list, the patterns in `agent_names`, and the user's rules.
    pub fn new(all: impl IntoIterator<Item = (OsString, OsString)>, agent_names: &[String], rules: &[EnvRule]) -> Self {
        let inherited = rules.iter().filter_map(|rule| match rule {
            EnvRule::Inherit(name) => Some(name.as_str()),
            EnvRule::Set(..) => None,
        });
        let patterns: Vec<&str> =
            DEFAULT_ALLOWED.iter().copied().chain(agent_names.iter().map(String::as_str)).chain(inherited).collect();
        let mut variables: BTreeMap<OsString, OsString> = all
            .into_iter()
            .filter(|(name, _)| name.to_str().is_some_and(|name| patterns.iter().any(|pattern| matches(pattern, name))))
            .collect();
        for rule in rules {
            if let EnvRule::Set(name, value) = rule {
                variables.insert(name.into(), value.into());
            }
        }
        Self { variables }
    }

    /// Returns whether every agent receives a variable of this name.
    pub fn is_allowed_by_default(name: &str) -> bool {
        DEFAULT_ALLOWED.iter().any(|pattern| matches(pattern, name))
    }

    /// Sets a variable.
    pub fn set(&mut self, name: &str, value: impl Into<OsString>) {
        self.variables.insert(name.into(), value.into());
    }

    /// Removes a variable.
    pub fn remove(&mut self, name: &str) {
        self.variables.remove(OsStr::new(name));
    }

    /// Value of a variable.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// All variables, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.variables.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }
}

fn matches(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or_else(|| pattern == name, |start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::{EnvRule, Environment, ParseEnvRuleError};

    #[test]
    fn new_drops_variables_that_no_rule_allows() {
        let all = [("PATH", "/bin"), ("LC_ALL", "C"), ("AWS_SECRET_ACCESS_KEY", "s"), ("ANTHROPIC_API_KEY", "k"), ("MINE", "m")];
        let all = all.map(|(name, value)| (name.into(), value.into()));
        let rules = ["MINE", "MODE=a=b"].map(|rule| rule.parse().unwrap());
        let environment = Environment::new(all, &["ANTHROPIC_*".to_owned()], &rules);
        let names: Vec<_> = environment.iter().map(|(name, value)| format!("{}={}", name.display(), value.display())).collect();
        assert_eq!(names, ["ANTHROPIC_API_KEY=k", "LC_ALL=C", "MINE=m", "MODE=a=b", "PATH=/bin"]);
        assert_eq!("=x".parse::<EnvRule>(), Err(ParseEnvRuleError));
    }
}
