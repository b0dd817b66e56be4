//! Shared by the tests of Sabir's crates; never published, and never a dependency outside tests and repository tooling.
//!
//! A test that needs something outside its own crate gets it here, so that no test depends on where its crate lies.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::missing_panics_doc, clippy::print_stderr)]

pub mod openai_server;
pub mod python;
pub mod snapshot;

use std::path::{Path, PathBuf};

/// Reports a tool or right that a check needs and this machine lacks.
///
/// An error unless `SABIR_ALLOW_SKIP=1` is set, and always under `CI`: a check that did not run must not look like one that passed.
pub fn skip(missing: &str, hint: &str) -> Result<(), String> {
    skip_with(missing, hint, is_set("SABIR_ALLOW_SKIP"), is_ci())
}

fn skip_with(missing: &str, hint: &str, is_allowed: bool, is_ci: bool) -> Result<(), String> {
    if is_allowed && !is_ci {
        eprintln!("skipped: {missing}");
        return Ok(());
    }
    let or_skip = if is_ci { "" } else { ", or set SABIR_ALLOW_SKIP=1 to run the other checks" };
    Err(format!("{missing}\nhint: {hint}{or_skip}"))
}

/// As [`skip`], for tests: panics where that is an error.
#[track_caller]
pub fn skip_test(missing: &str, hint: &str) {
    if let Err(error) = skip(missing, hint) {
        panic!("{error}");
    }
}

/// The input of a fixture, by agent and case: `codex/text`.
pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../sabir-agents/fixtures").join(name).join("input")
}

fn is_ci() -> bool {
    is_set("CI")
}

/// Whether an environment variable is set to anything but nothing, `0` and `false`.
fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !["", "0", "false"].iter().any(|off| value == *off))
}

#[cfg(test)]
mod tests {
    use super::skip_with;

    #[test]
    fn skip_is_an_error_unless_allowed() {
        let error = skip_with("no cc", "install gcc", false, false).unwrap_err();
        assert_eq!(error, "no cc\nhint: install gcc, or set SABIR_ALLOW_SKIP=1 to run the other checks");
        assert_eq!(skip_with("no cc", "install gcc", true, false), Ok(()));
    }

    #[test]
    fn skip_is_never_allowed_under_ci() {
        assert_eq!(skip_with("no cc", "install gcc", true, true), Err("no cc\nhint: install gcc".to_owned()));
        assert_eq!(skip_with("no cc", "install gcc", false, true), Err("no cc\nhint: install gcc".to_owned()));
    }
}
