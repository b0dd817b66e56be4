//! Logs of threads: copies count once.

use sabir_store::account;

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
    let counted = account::responses(&logs.logs, &sessions);
    assert_eq!(counted.len(), 1);
    assert_eq!((counted[0].model, counted[0].response.spent.total()), ("model-a", 107));
}
