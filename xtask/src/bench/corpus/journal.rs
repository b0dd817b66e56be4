//! Runs as `sabir run` keeps them.

use anyhow::{Result, anyhow};
use sabir_core::event::Event;
use sabir_core::fold::SessionResult;
use sabir_core::time::Timestamp;
use sabir_store::{Home, Journal, Kind, Meta};
use serde_json::{Value, json};

/// Writes so many short runs, a minute apart.
pub(super) fn write(home: &Home, count: u64) -> Result<()> {
    const FIRST: i64 = 1_760_000_000_000;
    for (number, started) in (0..count).zip((FIRST..).step_by(60_000)) {
        let id = format!("0199b000-0000-7000-8000-{number:012}");
        let journal = Journal::open(home, &id).map_err(|trouble| anyhow!(trouble))?;
        journal.meta(&Meta {
            schema: Meta::SCHEMA.to_owned(),
            run_id: id.clone(),
            agent: "localexec".to_owned(),
            cwd: format!("/home/dev/project-{}", number % 40),
            prompt: format!("look at ticket-{number:06}"),
            started: Timestamp::from_millis(started),
            ..Meta::default()
        });
        let mut fold = SessionResult::fold();
        for (seq, mut event) in (1..).zip(events(number)) {
            event["runId"] = json!(id);
            event["seq"] = json!(seq);
            event["at"] = json!(Timestamp::from_millis(started + seq));
            let text = event.to_string();
            let event: Event<'_> = serde_json::from_str(&text)?;
            fold.event(&event);
            journal.append(Kind::Event, started.unsigned_abs(), |out| out.extend_from_slice(text.as_bytes()));
        }
        journal.result(&fold.finish());
        journal.finish().map_err(|trouble| anyhow!(trouble))?;
    }
    Ok(())
}

/// What happens in a run.
fn events(number: u64) -> [Value; 6] {
    let call = format!("call-{number}");
    [
        json!({"kind": "started", "agent": "localexec"}),
        json!({"kind": "toolStart", "toolCallId": call, "name": "Bash", "toolKind": "execute", "input": "{\"command\":\"make\"}"}),
        json!({"kind": "toolEnd", "toolCallId": call, "ok": true, "status": "ok", "output": "usage of tokens\n".repeat(100)}),
        json!({"kind": "text", "delta": format!("ticket-{number:06} is done")}),
        json!({"kind": "final", "text": format!("ticket-{number:06} is done")}),
        json!({"kind": "exited", "exitCode": 0, "cancelled": false, "outcome": "completed"}),
    ]
}
