//! What an agent can find out about the process that runs it: nothing that was kept from it.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output};

use crate::run::{INIT, RESULT, Script};
use crate::{sabir, stderr};

/// A user without any right.
const NOBODY: u32 = 65_534;

/// Variables that the agent must not learn.
const SECRETS: [(&str, &str); 6] = [
    ("AUTH_TOKEN", "secret-of-the-hub-4711"),
    ("AWS_ACCESS_KEY_ID", "secret-id-of-the-bucket-4712"),
    ("AWS_SECRET_ACCESS_KEY", "secret-key-of-the-bucket-4713"),
    ("DATABASE_URL", "postgres://app:secret-of-the-database-4714@db/app"),
    ("MYSQL_PWD", "secret-of-mysql-4715"),
    ("UNUSUAL", "secret-by-name-4716"),
];

/// Looks at its own environment, then at every ancestor: what it is called with, its variables, its memory, and what it has open.
const LOOK: &str = r#"
env > seen
pid=$$
while [ "$pid" -gt 1 ]; do
  pid=$(sed 's/.*) [A-Z] \([0-9]*\).*/\1/' "/proc/$pid/stat")
  echo "$pid $(cat /proc/$pid/comm)" >> ancestors
  cat /proc/$pid/cmdline /proc/$pid/environ /proc/$pid/task/*/environ >> seen 2>> refused
  for map in $(sed -n 's/^\([0-9a-f]*\)-\([0-9a-f]*\) rw.*\(\[heap\]\|\[stack\]\)$/\1/p' /proc/$pid/maps 2>> refused); do
    dd if=/proc/$pid/mem bs=4096 skip=$((0x$map / 4096)) count=64 >> seen 2>> refused
  done
  for fd in /proc/$pid/fd/*; do
    case "$(readlink "$fd" 2>> refused)" in /memfd*|/*deleted*) cat "$fd" >> seen;; esac
  done
done
echo over >> ancestors
"#;

/// Runs the command as a user without rights if this one is the superuser.
fn without_rights(command: &mut Command) -> bool {
    let is_root = nix::unistd::geteuid().is_root();
    if is_root {
        command.uid(NOBODY).gid(NOBODY);
    }
    is_root
}

/// A script that looks, and a command which that user may execute too.
fn looking() -> (Script, Command) {
    let script = Script::new(&format!("cd \"$(dirname \"$0\")\"{LOOK}echo '{INIT}'; echo '{RESULT}'"));
    let program = script.file("sabir");
    if fs::hard_link(env!("CARGO_BIN_EXE_sabir"), &program).is_err() {
        fs::copy(env!("CARGO_BIN_EXE_sabir"), &program).expect("copied");
    }
    let mut command = sabir();
    let mut own = Command::new(&program);
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => own.env(name, value),
            None => own.env_remove(name),
        };
    }
    std::mem::swap(&mut command, &mut own);
    command
        .env("SABIR_HOME", script.file("home"))
        .env("HOME", script.folder.path())
        .envs(SECRETS)
        .stdin(std::process::Stdio::null());
    (script, command)
}

fn give(script: &Script) {
    for path in [script.folder.path().to_path_buf(), script.path()] {
        chown(path, Some(NOBODY), Some(NOBODY)).expect("given");
    }
}

/// What the agent has seen; it has looked at `sabir`, and at the reaper.
fn seen(script: &Script, output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    let read = |name: &str| String::from_utf8_lossy(&fs::read(script.file(name)).unwrap_or_default()).into_owned();
    let ancestors = read("ancestors");
    assert!(
        ancestors.contains(" sabir-reaper\n") && ancestors.contains(" sabir\n") && ancestors.ends_with("over\n"),
        "{ancestors}"
    );
    let seen = read("seen");
    assert!(seen.contains("PATH="), "it can see its own environment: {seen}");
    seen
}

fn assert_secret(seen: &str) {
    for (name, value) in SECRETS {
        assert!(!seen.contains(value), "the agent has seen {name}");
    }
}

fn arguments(script: &Script, command: &mut Command, verb: &[&str], agent: &[&str]) {
    let path = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    command.args(verb).args(["--program", &path(&script.path()), "--cwd", &path(script.folder.path())]).args(agent);
}

#[test]
fn an_agent_finds_no_secret_in_its_ancestors() {
    for shell in [true, false] {
        let (script, mut command) = looking();
        if without_rights(&mut command) {
            give(&script);
        }
        if shell {
            let folder = script.file("log");
            command.env("S3_BUCKET", "its-keys-are-for-the-shell");
            let verb = ["shell", "--log-folder", folder.to_str().expect("UTF-8"), "--secret", "UNUSUAL"];
            arguments(&script, &mut command, &verb, &["--", "claude-code", "look around"]);
        } else {
            // Claude Code uses these for models.
            command.env_remove("AWS_ACCESS_KEY_ID").env_remove("AWS_SECRET_ACCESS_KEY");
            arguments(&script, &mut command, &["run", "claude-code", "look around"], &["--quiet"]);
        }
        let output = command.output().expect("it ends");
        assert_secret(&seen(&script, &output));
        // The processes that have secrets, or tell whether any process is left, are closed.
        let (ancestors, refused) = (script.file("ancestors"), script.file("refused"));
        let (ancestors, refused) =
            (fs::read_to_string(ancestors).expect("ancestors"), fs::read_to_string(refused).expect("refusals"));
        let closed: Vec<&str> = ancestors.lines().filter_map(|line| line.split_once(" sabir")).map(|(pid, _)| pid).collect();
        assert_eq!(closed.len(), 2, "{ancestors}");
        for (pid, file) in closed.iter().flat_map(|pid| ["environ", "maps"].map(|file| (pid, file))) {
            assert!(refused.contains(&format!("/proc/{pid}/{file}: Permission denied")), "{refused}");
        }
        // The log is written all the same.
        assert!(!shell || script.file("log").exists());
    }
}

#[test]
fn no_secret_is_in_the_environment_that_the_superuser_sees() {
    // Whoever may look into every process, as a monitor or a crash reporter, sees the variables of a process. Memory is not looked at.
    let (script, mut command) = looking();
    let look = LOOK.replace("rw.*", "rw.*none");
    fs::write(script.path(), format!("#!/bin/sh\ncd \"$(dirname \"$0\")\"{look}echo '{INIT}'; echo '{RESULT}'\n"))
        .expect("written");
    fs::set_permissions(script.path(), fs::Permissions::from_mode(0o755)).expect("executable");
    // Only those whose names say that they are secret, and those that are named.
    let folder = script.file("log");
    let verb = ["shell", "--log-folder", folder.to_str().expect("UTF-8"), "--secret", "UNUSUAL"];
    command.env("S3_BUCKET", "its-keys-are-for-the-shell");
    arguments(&script, &mut command, &verb, &["--", "claude-code", "look around"]);
    let output = command.output().expect("it ends");
    assert_secret(&seen(&script, &output));
}
