//! How agents are started: every command line, and every promise that is refused.

use std::fmt::Write as _;
use std::path::Path;

use sabir_core::launch::{Permission, PromptTransport, Request, Session};
use sabir_test_support::snapshot;

/// What may be asked, and what it is called in the list.
fn requests() -> Vec<(&'static str, Request<'static>)> {
    let plain = Request { prompt: "PROMPT", ..Request::default() };
    let mut all = vec![
        ("new", plain.clone()),
        ("model", Request { model: Some("MODEL"), ..plain.clone() }),
        ("resume", Request { session: Session::Resume("ID"), ..plain.clone() }),
        ("continue", Request { session: Session::Latest, ..plain.clone() }),
        ("max-turns", Request { max_turns: Some(3), ..plain.clone() }),
        ("max-cost", Request { max_cost: Some(0.5), ..plain.clone() }),
    ];
    for level in Permission::ALL {
        all.push((level.name(), Request { permission: Some(level), ..plain.clone() }));
    }
    all.push(("full as superuser", Request { permission: Some(Permission::Full), superuser: true, ..plain }));
    all
}

/// Everything that `sabir run` can start, as text.
fn listed() -> String {
    let mut text = String::new();
    for agent in &sabir_agents::builtin() {
        let _ = writeln!(text, "{}", agent.id);
        for (name, request) in requests() {
            match agent.command(&request) {
                Ok(line) => {
                    let variables = line.environment.iter().map(|(name, value)| format!("{name}={value} "));
                    let prompt = match line.prompt {
                        PromptTransport::Stdin => " <PROMPT".to_owned(),
                        PromptTransport::Arguments => String::new(),
                        PromptTransport::File(flag) => format!(" {flag} FILE"),
                    };
                    let _ = writeln!(text, "  {name}: {}{}{prompt}", variables.collect::<String>(), line.arguments.join(" "));
                }
                Err(refusal) => {
                    let _ = writeln!(text, "  {name}: refused: {refusal}");
                }
            }
        }
    }
    text
}

#[test]
fn command_lines_match_expected_file() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/launch.txt");
    snapshot::assert(&path, &listed());
}

#[test]
fn refusal_names_what_is_possible() {
    for agent in &sabir_agents::builtin() {
        for (name, request) in requests() {
            if let Err(refusal) = agent.command(&request) {
                assert!(refusal.what.starts_with(&*agent.title), "{} {name}", agent.id);
                assert!(refusal.can.contains(agent.id.as_str()), "{} {name}: {}", agent.id, refusal.can);
            }
        }
    }
}

#[test]
fn refuses_session_id_that_looks_like_a_flag() {
    for agent in sabir_agents::builtin().iter().filter(|agent| agent.launch.capabilities.resume) {
        for id in ["", "--dangerously", "-x"] {
            let request = Request { prompt: "x", session: Session::Resume(id), ..Request::default() };
            assert!(agent.command(&request).is_err(), "{}: {id}", agent.id);
        }
    }
}

#[test]
fn keeps_prompt_off_the_command_line() {
    // Those three have no other way in; the prompt of a shell is its command.
    const BY_ARGUMENT: [&str; 3] = ["cline", "bob", "localexec"];
    for agent in &sabir_agents::builtin() {
        let line = agent.command(&Request { prompt: "secret words", ..Request::default() }).expect("a command");
        let shown = line.arguments.iter().any(|argument| argument.contains("secret words"));
        assert_eq!(shown, BY_ARGUMENT.contains(&agent.id.as_str()), "{}", agent.id);
    }
}
