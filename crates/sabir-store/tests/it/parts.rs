//! Runs of the journal that are a part of a session which its agent logged.

use sabir_agents::builtin;
use sabir_core::event::Outcome;
use sabir_core::time::Timestamp;
use sabir_store::account::Session;
use sabir_store::history::Places;
use sabir_store::past::{self, Past};
use sabir_store::{Home, Journal, Meta, RunFolder, whole};
use tempfile::TempDir;

use crate::{RUN, home, write};

fn listed(folder: &TempDir, home: &Home) -> Past {
    let places = Places { home: Some(folder.path().to_path_buf()), registry: builtin(), ..Places::default() };
    let load = |index| past::load(&places, Some(home), index, |_| true, &mut |_, _| {});
    let (past, index) = (load(None), home.index());
    // An index changes nothing, be it new or known.
    for known in [load(Some(&index)), load(Some(&index))] {
        let rows = |past: &Past| past.sessions.iter().map(|one| (one.id.clone(), one.outcome, one.run)).collect::<Vec<_>>();
        assert_eq!(rows(&known), rows(&past));
    }
    past
}

fn meta(agent: &str) -> Meta {
    let started = Timestamp::parse("2020-01-01T10:00:00.000Z");
    Meta { run_id: RUN.to_owned(), agent: agent.to_owned(), cwd: "/home/user".to_owned(), started, ..Meta::default() }
}

/// Keeps a run that began in 2020 and ended just now.
fn run(home: &Home, agent: &str, session: Option<&str>, outcome: &str, tokens: u64) {
    let journal = Journal::open(home, RUN).expect("opened");
    journal.meta(&meta(agent));
    let tokens = serde_json::json!({"uncachedInput": tokens - 30, "output": 30, "total": tokens});
    journal.result(&serde_json::json!({"agent": agent, "sessionId": session, "outcome": outcome,
        "models": [{"model": "m", "tokens": tokens}]}));
    journal.finish().expect("finished");
}

/// The log of a session of Codex that used 107 tokens.
fn rollout(folder: &TempDir, id: &str, cwd: &str, time: &str) {
    let figures = r#"{"input_tokens":100,"cached_input_tokens":0,"output_tokens":7,"total_tokens":107}"#;
    let info = format!(r#"{{"total_token_usage":{figures},"last_token_usage":{figures}}}"#);
    let lines = [
        format!(r#""type":"session_meta","payload":{{"id":"{id}","cwd":"{cwd}"}}"#),
        r#""type":"turn_context","payload":{"model":"m"}"#.to_owned(),
        format!(r#""type":"event_msg","payload":{{"type":"token_count","info":{info}}}"#),
        r#""type":"event_msg","payload":{"type":"task_complete","last_agent_message":"Done."}"#.to_owned(),
    ];
    let lines = lines.map(|line| format!("{{\"timestamp\":\"{time}\",{line}}}\n"));
    let name = format!(".codex/sessions/2020/01/01/rollout-2020-01-01T10-00-00-{id}.jsonl");
    write(&folder.path().join(name), &lines.concat());
}

const ID: &str = "01a1e05b-0000-7000-8000-000000000001";
const OTHER: &str = "01a1e05b-0000-7000-8000-000000000002";

#[test]
fn how_a_session_ended_its_run_knows_until_somebody_else_goes_on_with_it() {
    for (time, outcome) in [("2020-01-01T10:00:05.000Z", Outcome::Limited), ("2199-01-01T10:00:05.000Z", Outcome::Completed)] {
        let (folder, home) = home();
        rollout(&folder, ID, "/home/user", time);
        run(&home, "codex", Some(ID), "limited", 107);
        let past = listed(&folder, &home);
        let session = &past.sessions[0];
        assert_eq!((past.sessions.len(), past.parts.len(), session.outcome), (1, 1, outcome));
        assert_eq!(whole::run_behind(session, &past.logs).map(RunFolder::id), Some(RUN));
        assert!(whole::run_of(session, &past.logs).is_none(), "it is read from its log");
    }
}

#[test]
fn a_run_that_goes_on_is_the_session_as_soon_as_its_id_is_told() {
    let (folder, home) = home();
    rollout(&folder, ID, "/home/user", "2020-01-01T10:00:05.000Z");
    let journal = Journal::open(&home, RUN).expect("opened");
    journal.meta(&meta("codex"));
    let event = |seq: u64, event: &str| {
        let json = format!(r#"{{"runId":"{RUN}","seq":{seq},{event}}}"#);
        journal.event(|out| out.extend_from_slice(json.as_bytes()));
        journal.sync().expect("synced");
    };
    event(1, r#""kind":"started","agent":"codex""#);
    assert_eq!(listed(&folder, &home).sessions.len(), 2);
    event(2, &format!(r#""kind":"session","sessionId":"{ID}""#));
    let past = listed(&folder, &home);
    assert_eq!((past.sessions.len(), past.parts.len()), (1, 1));
    assert!(whole::run_behind(&past.sessions[0], &past.logs).is_some_and(RunFolder::is_live));
    // What is written now was written after 2020.
    assert!(past.parts[0].last > past.sessions[0].last);
    journal.finish().expect("finished");
}

#[test]
fn a_run_that_does_not_tell_its_session_is_the_only_one_that_is_alike() {
    let time = "2020-01-01T10:00:05.000Z";
    // Of the log: its folder and its time. Of the run: the tokens.
    for (cwd, at, tokens, parts) in [
        ("/home/user", time, 107, 1),
        ("/home/other", time, 107, 0),
        ("/home/user", "2019-12-31T10:00:05.000Z", 107, 0),
        ("/home/user", time, 108, 0),
    ] {
        let (folder, home) = home();
        rollout(&folder, ID, cwd, at);
        run(&home, "codex", None, "completed", tokens);
        let past = listed(&folder, &home);
        assert_eq!((past.parts.len(), past.sessions.len()), (parts, 2 - parts), "{cwd} {at} {tokens}");
    }
    let (folder, home) = home();
    rollout(&folder, ID, "/home/user", time);
    rollout(&folder, OTHER, "/home/user", time);
    run(&home, "codex", None, "completed", 107);
    assert_eq!(listed(&folder, &home).sessions.len(), 3, "it may be either");
}

#[test]
fn a_run_is_the_session_that_its_agent_logged_though_the_name_of_the_file_has_only_the_beginning_of_its_id() {
    const ID: &str = "0a1b2c3d-5555-4000-8000-000000000001";
    let (folder, home) = home();
    let head = |id: &str| format!(r#"{{"sessionId":"{id}","projectHash":"h","startTime":"2026-11-15T18:00:00.000Z"}}"#);
    let answer = |id: &str, output: u64| {
        let tokens = format!(r#"{{"input":100,"output":{output},"cached":0,"thoughts":0,"tool":0}}"#);
        let time = "2026-11-15T18:00:02.000Z";
        format!(r#"{{"id":"{id}","timestamp":"{time}","type":"gemini","content":"Done.","tokens":{tokens},"model":"m"}}"#)
    };
    let chats = folder.path().join(".gemini/tmp/work/chats");
    write(&chats.join("session-2026-11-15T18-00-0a1b2c3d.jsonl"), &format!("{}\n{}\n", head(ID), answer("a", 10)));
    // A sub-agent of it, and another session whose id begins in the same way.
    write(&chats.join(ID).join("helper.jsonl"), &format!("{}\n{}\n", head("0b"), answer("b", 20)));
    let other = ID.replace("5555", "6666");
    write(&chats.join("session-2026-11-15T18-01-0a1b2c3d.jsonl"), &format!("{}\n{}\n", head(&other), answer("c", 40)));
    run(&home, "gemini", Some(ID), "completed", 230);
    let past = listed(&folder, &home);
    let row = |session: &Session| (session.id.clone(), session.logs.len(), session.spent(&past.logs).output);
    let listed: Vec<_> = past.sessions.iter().map(row).collect();
    assert_eq!(listed, [(ID.to_owned(), 2, 30), (other, 1, 40)]);
    assert_eq!(past.parts.iter().map(row).collect::<Vec<_>>(), [(RUN.to_owned(), 1, 30)]);
}

#[test]
fn a_run_that_was_stopped_before_it_told_anything_is_the_session_that_it_began() {
    let times = ["2020-01-01T10:00:05.000Z", "2020-01-01T10:00:06.000Z"];
    // Of two sessions that it may have begun, none is taken for it.
    for (sessions, listed_sessions, parts) in [(1, 1, 1), (2, 3, 0)] {
        let (folder, home) = home();
        let journal = Journal::open(&home, RUN).expect("opened");
        journal.meta(&meta("codex"));
        journal.result(&serde_json::json!({"agent": "codex", "outcome": "cancelled", "models": []}));
        journal.finish().expect("finished");
        for (id, time) in [ID, OTHER].into_iter().zip(times).take(sessions) {
            rollout(&folder, id, "/home/user", time);
        }
        let past = listed(&folder, &home);
        assert_eq!((past.sessions.len(), past.parts.len()), (listed_sessions, parts));
        if parts == 1 {
            assert_eq!((past.sessions[0].id.as_str(), past.sessions[0].outcome), (ID, Outcome::Cancelled));
        }
    }
}
