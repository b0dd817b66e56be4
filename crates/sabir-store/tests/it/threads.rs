//! Logs of threads: copies count once, and what a thread spawned belongs to it.

use sabir_core::event::EventKind;
use sabir_store::account::{self, Portion, Session};
use sabir_store::whole;

use crate::{read_logs, write};

const ID: &str = "01a1e05b-0000-7000-8000-000000000001";

fn log() -> String {
    let figures = r#"{"input_tokens":100,"cached_input_tokens":60,"output_tokens":7}"#;
    [
        format!(r#"{{"timestamp":"2026-11-15T17:57:02.000Z","type":"session_meta","payload":{{"id":"{ID}","cwd":"/home/user"}}}}"#),
        r#"{"timestamp":"2026-11-15T17:57:03.000Z","type":"turn_context","payload":{"model":"model-a"}}"#.to_owned(),
        format!(
            r#"{{"timestamp":"2026-11-15T17:57:04.000Z","type":"event_msg","payload":{{"type":"token_count","info":{{"total_token_usage":{figures},"last_token_usage":{figures}}}}}}}"#
        ),
    ]
    .join("\n")
        + "\n"
}

#[test]
fn a_log_that_was_put_away_counts_once() {
    let home = tempfile::tempdir().expect("a folder");
    let name = format!("rollout-2026-11-15T17-57-02-{ID}.jsonl");
    write(&home.path().join(".codex/sessions/2026/11/15").join(&name), &log());
    write(&home.path().join(".codex/archived_sessions").join(&name), &log());
    let logs = read_logs(home.path(), "codex", None);
    assert_eq!(logs.logs.len(), 2);
    let sessions = account::sessions(&logs.logs);
    assert_eq!(sessions.len(), 1);
    let portions = crate::portions(&logs.logs, &sessions);
    assert_eq!(portions.len(), 1);
    assert_eq!((portions[0].model, portions[0].stretch.spent.total()), ("model-a", 107));
}

/// The log of a thread that another one spawned, with one call and one response.
fn spawned(id: &str, parent: &str) -> String {
    let meta = format!(
        r#"{{"timestamp":"2026-11-15T17:58:00.000Z","type":"session_meta","payload":{{"id":"{id}","timestamp":"2026-11-15T17:58:00.000Z","cwd":"/home/user","source":{{"subagent":{{"thread_spawn":{{"parent_thread_id":"{parent}","depth":1}}}}}}}}}}"#
    );
    let call = r#"{"timestamp":"2026-11-15T17:58:01.000Z","type":"response_item","payload":{"type":"function_call","name":"shell","arguments":"{}","call_id":"c"}}"#;
    let text = log();
    let (_, rest) = text.split_once('\n').expect("lines");
    format!("{meta}\n{call}\n{}", rest.replace("17:57", "17:58"))
}

#[test]
fn what_a_thread_spawned_belongs_to_it() {
    let home = tempfile::tempdir().expect("a folder");
    let id = |number: u32| format!("01a1e05b-0000-7000-8000-00000000000{number}");
    let put = |number: u32, text: String| {
        let name = format!("rollout-2026-11-15T17-57-0{number}-{}.jsonl", id(number));
        write(&home.path().join(".codex/sessions/2026/11/15").join(name), &text);
    };
    put(1, log());
    put(2, spawned(&id(2), &id(1)));
    put(3, spawned(&id(3), &id(2)));
    // Its parent is gone.
    put(4, spawned(&id(4), &id(9)));
    let logs = read_logs(home.path(), "codex", None);
    let sessions = account::sessions(&logs.logs);
    let row = |session: &Session| (session.id.clone(), session.logs.len(), session.calls(&logs.logs));
    let listed: Vec<(String, usize, u64)> = sessions.iter().map(row).collect();
    assert_eq!(listed, [(id(1), 3, 2), (id(4), 1, 1)]);
    assert_eq!(sessions[0].spent(&logs.logs).total(), 3 * 107);
    assert_eq!(crate::portions(&logs.logs, &sessions).iter().flat_map(Portion::responses).count(), 4);
    let mut parents = Vec::new();
    whole::events(&sessions[0], &logs.logs, &mut |event| {
        if let EventKind::Usage(_) = event.kind {
            parents.push(event.parent_tool_call_id.as_deref().map(str::to_owned));
        }
    })
    .expect("readable");
    assert_eq!(parents, [None, Some(id(2)), Some(id(3))], "no call is known that spawned them, so they are named by their ids");
}
