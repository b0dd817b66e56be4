//! Timelines, single events, and token usage.

use sabir_core::fold::timeline::{Change, Clipping, Timeline, What};
use sabir_protocol::FromHub;
use serde_json::{Value, json};

use crate::client::{Events, Running, Setup, event, frame, message};

/// A hub with each backend.
async fn hubs() -> [Running; 2] {
    [Setup::default().start().await, Setup { memory: true, ..Setup::default() }.start().await]
}

/// The messages of a small run.
fn run(session: &str) -> Vec<String> {
    let prompt = json!({
        "sessionId": session, "seq": 1, "ts": "2026-01-02T03:04:05Z", "type": "prompt", "origin": "backend",
        "payload": { "text": "mend it" }
    });
    vec![
        prompt.to_string(),
        event(session, 2, &json!({"kind":"started","agent":"codex"})),
        event(session, 3, &json!({"kind":"session","sessionId":"x","model":"gpt-5","cwd":"/work"})),
        event(session, 4, &json!({"kind":"turnStart","turn":1})),
        event(session, 5, &json!({"kind":"text","delta":"I will "})),
        message(session, 6, "I will look"),
        event(session, 7, &json!({"kind":"text","delta":"look"})),
        event(session, 8, &json!({"kind":"toolStart","toolCallId":"1","name":"bash","toolKind":"execute"})),
        event(session, 9, &json!({"kind":"toolUpdate","toolCallId":"1","outputDelta":"<script>alert(1)</script>"})),
        event(session, 10, &json!({"kind":"toolEnd","toolCallId":"1","ok":false,"status":"error","exitCode":2})),
        event(session, 11, &json!({"kind":"usage","scope":"message","inputTokens":1000,"outputTokens":50})),
        event(session, 12, &json!({"kind":"exited","outcome":"completed","cancelled":false})),
    ]
}

async fn write(hub: &Running, session: &str, lines: &[String], first: u64) {
    let mut runner = hub.runner(session).await;
    runner.hello(session, "a", 1, first - 1).await;
    runner.send(frame(first, lines)).await;
    assert_eq!(runner.receive().await, FromHub::Ack { last: first + lines.len() as u64 - 1 });
}

/// Applies events up to a message; returns whether the end of the backlog was announced.
async fn follow(events: &mut Events, timeline: &mut Timeline, until: u64) -> bool {
    let mut live = false;
    loop {
        let (id, kind, data) = events.next_of_type().await.expect("an event");
        if kind == "live" {
            assert_eq!(data["last"], id);
            live = true;
        } else {
            let changes: Vec<Change> = serde_json::from_value(data).expect("changes");
            changes.into_iter().for_each(|change| timeline.apply(change, Clipping::default()));
        }
        if id >= until {
            return live;
        }
    }
}

fn expected(lines: &[String]) -> Timeline {
    let mut fold = sabir_protocol::envelope::timeline::LogTimeline::default();
    let (mut changes, mut timeline) = (Vec::new(), Timeline::default());
    lines.iter().for_each(|line| fold.message(line.as_bytes(), &mut changes));
    changes.into_iter().for_each(|change| timeline.apply(change, Clipping::default()));
    timeline
}

#[tokio::test(flavor = "multi_thread")]
async fn timeline_is_replayed_then_live_and_resumes_after_any_message() {
    for hub in hubs().await {
        let all = run("s");
        write(&hub, "s", &all[..9], 1).await;
        let mut timeline = Timeline::default();
        let mut events = hub.events("/v1/sessions/s/timeline", &[]).await;
        follow(&mut events, &mut timeline, 9).await;
        assert_eq!(timeline, expected(&all[..9]));
        let (id, kind, _) = events.next_of_type().await.expect("an event");
        assert_eq!((id, kind.as_str()), (9, "live"));
        // Resume after every message.
        for received in 0..=9_u64 {
            let mut timeline = expected(&all[..usize::try_from(received).expect("small")]);
            let number = received.to_string();
            let path = format!("/v1/sessions/s/timeline?after={received}");
            let headers = [("Last-Event-ID", number.as_str())];
            let (path, headers) =
                if received % 2 == 0 { (path.as_str(), &[][..]) } else { ("/v1/sessions/s/timeline", &headers[..]) };
            let mut events = hub.events(path, headers).await;
            while !follow(&mut events, &mut timeline, 9).await {}
            assert_eq!(timeline, expected(&all[..9]), "after {received}");
        }
        write(&hub, "s", &all[9..], 10).await;
        follow(&mut events, &mut timeline, 12).await;
        assert_eq!(timeline, expected(&all));
        assert!(matches!(&timeline.items[1].what, What::Prompt { text } if text.text == "mend it"));
        for (path, status) in [("nobody/timeline", 404), ("s/timeline?after=x", 400)] {
            assert_eq!(hub.get(&format!("/v1/sessions/{path}")).await.status, status);
        }
        hub.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn event_is_returned_for_its_message_or_any_fragment() {
    for hub in hubs().await {
        let mut lines = run("s");
        let long = json!({"runId":"r","seq":13,"kind":"text","delta":"long é ".repeat(20)}).to_string();
        let pieces: Vec<&str> = (0..4).map(|at| &long[at * long.len() / 4..(at + 1) * long.len() / 4]).collect();
        for (index, piece) in pieces.iter().enumerate() {
            let partial = json!({ "id": "p", "index": index, "total": 4 });
            let payload = json!({ "json": piece, "partial": partial });
            let seq = lines.len() + 1;
            lines.push(
                json!({"sessionId":"s","seq":seq,"ts":"2026-01-02T03:04:05Z","type":"event","payload":payload}).to_string(),
            );
        }
        // A fragment of an event that has fewer fragments than it claims.
        let payload = json!({ "json": "{", "partial": { "id": "q", "index": 0, "total": 1_000_000_000_000_u64 } });
        lines.push(json!({"sessionId":"s","seq":17,"ts":"2026-01-02T03:04:05Z","type":"event","payload":payload}).to_string());
        write(&hub, "s", &lines, 1).await;
        let found = hub.get("/v1/sessions/s/events/10").await;
        assert_eq!((found.status, &found.json()["exitCode"], &found.json()["seq"]), (200, &json!(2), &json!(10)));
        for number in 13..=16 {
            let found = hub.get(&format!("/v1/sessions/s/events/{number}")).await.json();
            assert_eq!(found, serde_json::from_str::<Value>(&long).expect("JSON"), "{number}");
        }
        for (path, status) in [
            ("s/events/0", 404),
            ("s/events/1", 404),
            ("s/events/6", 404),
            ("s/events/17", 404),
            ("s/events/18", 404),
            ("s/events/18446744073709551615", 404),
            ("s/events/x", 400),
            ("nobody/events/1", 404),
            ("nobody/lines/1", 404),
            ("s/lines/x", 400),
        ] {
            assert_eq!(hub.get(&format!("/v1/sessions/{path}")).await.status, status, "{path}");
        }
        let raw = hub.get("/v1/sessions/s/lines/1").await;
        assert!(raw.status == 404 && raw.text().contains("stay with the runner"), "{}", raw.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_is_grouped_by_day_agent_model_and_project() {
    for hub in hubs().await {
        for session in ["one", "two"] {
            write(&hub, session, &run(session), 1).await;
            while hub.get(&format!("/v1/sessions/{session}")).await.json()["folded"] != 12 {}
        }
        let usage = hub.get("/v1/usage").await.json();
        assert_eq!(usage["schema"], "sabir.usage-cube/1");
        let rows = usage["rows"].as_array().expect("rows");
        assert_eq!(rows.len(), 1, "{usage}");
        let row = &rows[0];
        assert_eq!((&row["day"], &row["agent"], &row["model"]), (&json!("2026-01-02"), &json!("codex"), &json!("gpt-5")));
        assert_eq!((&row["project"], &row["sessions"], &row["tokens"]["total"]), (&json!("/work"), &json!(2), &json!(2100)));
        assert_eq!((&row["tokens"]["uncachedInput"], &row["tokens"]["output"]), (&json!(2000), &json!(100)));
        assert!(row["costUsd"].as_f64().is_some_and(|cost| cost > 0.0), "{row}");
        let count = async |query: &str| hub.get(&format!("/v1/usage?{query}")).await.json()["rows"].as_array().map(Vec::len);
        assert_eq!(count("since=2026-01-02&until=2026-01-03T00:00:00Z").await, Some(1));
        assert_eq!(count("since=2026-01-03").await, Some(0));
        assert_eq!(count("until=2026-01-02").await, Some(0));
        assert_eq!(hub.get("/v1/usage?since=monday").await.status, 400);
    }
}
