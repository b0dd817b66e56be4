//! A network of its own with nothing but the loopback interface: whatever a CLI wants to tell the world, it cannot.

use std::process::{Command, Stdio};

/// How a command can be kept from the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Put these words before the command.
    Namespace(Vec<String>),
    /// It cannot, and why.
    Impossible(String),
}

/// The ways to a namespace. The first needs the superuser; the second keeps the user as it is, which matters to CLIs that refuse
/// the superuser; the third is for systems whose `unshare` is older.
const WAYS: [&[&str]; 3] =
    [&["unshare", "--net"], &["unshare", "--user", "--map-current-user", "--keep-caps", "--net"], &["unshare", "-r", "-n"]];

/// Starts the loopback interface, then the command.
const THEN: [&str; 4] = ["sh", "-c", "ip link set lo up && exec \"$@\"", "sh"];

/// Tries what this machine allows.
pub fn find() -> Isolation {
    let mut reasons = Vec::new();
    for way in WAYS {
        let words: Vec<&str> = way.iter().chain(&THEN).copied().collect();
        match attempt(&words) {
            Ok(()) => return Isolation::Namespace(words.into_iter().map(str::to_owned).collect()),
            Err(reason) => reasons.push(format!("`{}`: {reason}", way.join(" "))),
        }
    }
    Isolation::Impossible(reasons.join("; "))
}

fn attempt(words: &[&str]) -> Result<(), String> {
    let Some((program, arguments)) = words.split_first() else { return Err("no command".to_owned()) };
    let output = Command::new(program).args(arguments).arg("true").stdin(Stdio::null()).output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Err(error.to_string()),
    }
}
