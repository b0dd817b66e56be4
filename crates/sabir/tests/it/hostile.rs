//! Names that logs and runs have are what somebody wrote: none of them may steer the terminal that they are shown on.

use std::fs;
use std::process::{Command, Output};

use crate::past::Home;
use crate::{fixture, stderr};

/// Colours, a title, the whole screen cleared in two ways, the start of the line, and a line that looks like ours.
const HOSTILE: &str = "a\u{1b}[35;7m\u{1b}]0;taken\u{7}\u{9b}2J\u{1b}[2J\r\nerror: FORGED";

/// What may not come out, whatever else does.
fn assert_harmless(printed: &[u8], what: &str) {
    let text = String::from_utf8_lossy(printed);
    for piece in ["\u{1b}[35", "\u{1b}]", "\u{9b}", "\u{1b}[2J", "\u{7}", "\nerror: FORGED", "\rerror: FORGED"] {
        assert!(!text.contains(piece), "{what} prints {piece:?}: {text:?}");
    }
}

/// A home with a log whose model, folder, version, file and types are hostile, and a run with such an id.
fn hostile() -> Home {
    let home = Home::new();
    let escaped = serde_json::to_string(HOSTILE).expect("JSON");
    let escaped = escaped.trim_matches('"');
    let log = fs::read_to_string(fixture("claude-code/history-sub-agent")).expect("a fixture");
    let log = log
        .replace("claude-sonnet-4-5-20250929", escaped)
        .replace("/home/user/project", &format!("/home/{escaped}"))
        .replace("6f0c1f8e-0000-4000-8000-000000000001", &format!("5{escaped}"))
        .replace("2.1.325", escaped)
        .replace("msg_", "other_");
    let log = format!("{log}{{\"type\":\"{escaped}\",\"sessionId\":\"x\"}}\nno JSON\n");
    fs::write(home.path(".claude/projects/-home-user-project").join(format!("5{HOSTILE}.jsonl")), log).expect("written");
    let mut run = home.command();
    run.env_remove("SABIR_JOURNAL").args(["run", "localexec", "echo hi", "--run-id", &format!("7{HOSTILE}")]);
    let output = run.output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    home
}

/// The commands that show names, and a word that each must say for the test to mean something.
fn commands(home: &Home) -> Vec<(Vec<String>, &'static str)> {
    let log = home.path(".claude/projects/-home-user-project").join(format!("5{HOSTILE}.jsonl")).display().to_string();
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    vec![
        (words(&["usage", "--by", "model"]), "FORGED"),
        (words(&["usage", "--by", "project"]), "FORGED"),
        (words(&["usage", "--by", "session", "--breakdown"]), "FORGED"),
        (words(&["ls"]), "localexec"),
        (words(&["prune", "--keep", "0"]), "FORGED"),
        (words(&["drift", &log]), "FORGED"),
        (words(&["parse", &format!("{log}.gone")]), "FORGED"),
        (words(&["show", HOSTILE]), "FORGED"),
        (words(&["tail", HOSTILE]), "FORGED"),
        (words(&["show", "5a"]), "FORGED"),
        (words(&["ls", "--status", HOSTILE]), "FORGED"),
        (words(&[HOSTILE]), "FORGED"),
        (words(&["query", "SELECT id FROM sessions"]), "FORGED"),
    ]
}

fn assert_all_harmless(home: &Home, ask: impl Fn(&[String]) -> Output) {
    for (words, said) in commands(home) {
        let output = ask(&words);
        let all = [output.stdout, output.stderr].concat();
        assert!(String::from_utf8_lossy(&all).contains(said), "{words:?}: {:?}", String::from_utf8_lossy(&all));
        assert_harmless(&all, &words.join(" "));
    }
}

#[test]
fn hostile_names_do_no_harm_in_a_pipe_with_and_without_colours() {
    let home = hostile();
    assert_all_harmless(&home, |words| home.command().args(words).output().expect("it ends"));
    assert_all_harmless(&home, |words| home.command().env("CLICOLOR_FORCE", "1").args(words).output().expect("it ends"));
    let coloured = home.command().env("CLICOLOR_FORCE", "1").arg("ls").output().expect("it ends");
    assert!(String::from_utf8_lossy(&coloured.stdout).starts_with("\u{1b}[1mID"), "our own colours stay");
    let said = stderr(&coloured);
    assert!(said.contains("\u{1b}[33mwarning:") && said.contains("do not count: 1"), "{said:?}");
}

#[test]
fn what_is_wrong_with_a_command_line_is_told_in_its_lines_and_colours() {
    let home = Home::new();
    let refused = home.command().env("CLICOLOR_FORCE", "1").args(["show", "x", "--nope"]).output().expect("it ends");
    let said = stderr(&refused);
    assert!(said.lines().count() > 3 && said.contains("\u{1b}["), "{said:?}");
    let refused = home.command().env("CLICOLOR_FORCE", "1").args(["show", "x", "--no\u{1b}[35mpe"]).output().expect("it ends");
    let said = stderr(&refused);
    assert!(said.lines().count() > 3 && said.contains("--nope") && !said.contains("\u{1b}[35m"), "{said:?}");
}

#[test]
fn ids_that_would_steer_a_terminal_are_not_offered_to_a_shell() {
    let home = hostile();
    for shell in ["bash", "fish", "zsh"] {
        for command in ["show", "tail"] {
            let mut ask = home.command();
            ask.env("SABIR_COMPLETE", shell).env("_CLAP_IFS", "\n").env("_CLAP_COMPLETE_INDEX", "2");
            let output = ask.args(["--", "sabir", command, ""]).output().expect("it ends");
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
            assert!(!String::from_utf8_lossy(&output.stdout).contains("FORGED"), "{shell} {command}");
            assert_harmless(&output.stdout, shell);
        }
    }
}

/// `script` gives a command a terminal.
#[cfg(target_os = "linux")]
#[test]
fn hostile_names_do_no_harm_on_a_terminal() {
    if Command::new("script").arg("--version").output().is_err() {
        return sabir_test_support::skip_test("there is no `script`", "install util-linux (Debian: bsdutils)");
    }
    let home = hostile();
    assert_all_harmless(&home, |words| {
        let ask = home.command();
        let quoted = |word: &str| format!("'{}'", word.replace('\'', "'\\''"));
        let line: Vec<String> =
            [ask.get_program().to_string_lossy().into_owned()].iter().chain(words).map(|word| quoted(word)).collect();
        let mut script = Command::new("script");
        script.args(["-qec", &format!("stty cols 160; {}", line.join(" ")), "/dev/null"]);
        script.envs(ask.get_envs().filter_map(|(name, value)| Some((name, value?)))).env("TERM", "xterm-256color");
        script.current_dir(home.path("")).stdin(std::process::Stdio::null()).output().expect("it ends")
    });
}
