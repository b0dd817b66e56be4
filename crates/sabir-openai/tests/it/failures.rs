//! What goes wrong between us and the endpoint.

use sabir_core::event::{EventKind, Retry};
use sabir_openai::{Api, PUBLIC_ENDPOINT};
use serde_json::json;

use crate::server::{Answer, calls, chat_usage, chunk, completed, error, says, stream};
use crate::{Run, folder, run, run_with};

fn ending(run: &Run) -> (&str, &str) {
    (run.result["outcome"].as_str().unwrap_or_default(), run.result["cause"].as_str().unwrap_or_default())
}

fn waits(run: &Run) -> Vec<u64> {
    let wait = |event: &sabir_core::event::Event<'static>| match event.kind {
        EventKind::Retry(Retry { delay_ms, .. }) => delay_ms,
        _ => None,
    };
    run.events.iter().filter_map(wait).collect()
}

fn busy() -> Answer {
    error(429, json!({"error": {"message": "Too many requests", "code": "rate_limit_exceeded"}}))
}

#[test]
fn a_busy_endpoint_is_asked_again() {
    let run = run([busy().header("retry-after-ms: 1"), error(503, json!({})), says("Done.")]);
    assert_eq!((run.result["text"].as_str(), ending(&run).0), (Some("Done."), "completed"));
    assert_eq!(waits(&run), [1, 0]);
}

#[test]
fn asking_again_has_an_end() {
    let run = run_with(folder(), std::iter::repeat_n(busy(), 10), |config| config.attempts = 3);
    assert_eq!(ending(&run), ("failed", "rateLimited"));
    assert_eq!((run.server.asked().len(), waits(&run).len()), (3, 2));
}

#[test]
fn a_wait_of_hours_is_not_waited_for() {
    let run = run([busy().header("retry-after: 7200")]);
    assert_eq!(ending(&run), ("failed", "rateLimited"));
    assert!(run.printed.contains("7200 s"));
}

#[test]
fn errors_that_stay_are_told_once_and_by_their_class() {
    for (status, body, outcome, cause) in [
        (401, json!({"error": {"message": "Incorrect API key provided: sk-secret"}}), "failed", "auth"),
        (
            404,
            json!({"error": {"message": "The model `x` does not exist", "code": "model_not_found"}}),
            "failed",
            "modelNotFound",
        ),
        (400, json!({"error": {"message": "too long", "code": "context_length_exceeded"}}), "limited", "contextExhausted"),
        (429, json!({"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}}), "failed", "rateLimited"),
        (400, json!({"error": {"message": "tools[0] is wrong"}}), "failed", "invalidRequest"),
    ] {
        let run = run([error(status, body), says("Never.")]);
        assert_eq!(ending(&run), (outcome, cause), "{status}");
        assert_eq!((run.server.asked().len(), run.has("error"), run.has("retry")), (1, 1, 0), "{status}");
    }
}

#[test]
fn a_stream_that_breaks_off_is_asked_for_again() {
    let delta = json!({"type": "response.output_text.delta", "item_id": "msg_0", "output_index": 0, "content_index": 0, "delta": "Half of "});
    for broken in [stream(std::slice::from_ref(&delta)), stream(std::slice::from_ref(&delta)).cut()] {
        let run = run([broken, says("All of it.")]);
        assert_eq!((run.result["text"].as_str(), run.has("retry")), (Some("All of it."), 1));
    }
    // A call whose stream broke off was never made.
    let call = json!({"type": "function_call", "call_id": "c", "name": "list", "arguments": "{}"});
    let item = json!({"type": "response.output_item.done", "output_index": 0, "item": call});
    let run = run([stream(&[item]), says("Done.")]);
    assert_eq!((run.has("toolStart"), ending(&run).0), (0, "completed"));
}

#[test]
fn tokens_of_an_answer_that_broke_off_are_counted() {
    let script = [
        stream(&[chunk(json!({"content": "Half"}), None), chat_usage(10, 0, 1)]),
        stream(&[chunk(json!({"content": "All."}), Some("stop")), chat_usage(10, 0, 2)]),
    ];
    let run = run_with(folder(), script, |config| config.api = Some(Api::Chat));
    assert_eq!((run.result["text"].as_str(), run.result["tokens"]["total"].as_u64()), (Some("All."), Some(23)));
}

#[test]
fn an_error_in_the_stream_counts() {
    let failed = |code: &str| json!({"type": "response.failed", "response": {"status": "failed", "error": {"code": code, "message": "it broke"}}});
    let run_failed = |code: &str| run([stream(&[failed(code)]), says("Done.")]);
    assert_eq!(ending(&run_failed("server_error")).0, "completed");
    assert_eq!(ending(&run_failed("context_length_exceeded")), ("limited", "contextExhausted"));
    let run = run([stream(&[json!({"type": "error", "code": "invalid_prompt", "message": "Invalid request: no."})])]);
    assert_eq!(ending(&run), ("failed", "invalidRequest"));
    let script = [stream(&[json!({"error": {"message": "it broke", "code": "bad_thing"}})])];
    let run = run_with(folder(), script, |config| config.api = Some(Api::Chat));
    assert_eq!(ending(&run), ("failed", "unknown"));
}

#[test]
fn an_endpoint_that_is_not_there_is_a_network_failure() {
    let run = run_with(folder(), [], |config| {
        // The port was free a moment ago, and nobody listens on it now.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        config.base_url = format!("http://{}/v1", listener.local_addr().expect("an address"));
        config.attempts = 2;
    });
    assert_eq!((ending(&run), run.has("retry")), (("failed", "network"), 1));
}

#[test]
fn the_turn_limit_ends_the_run() {
    let script = (0..5).map(|_| calls(&[("list", json!({}))]));
    let run = run_with(folder(), script, |config| config.max_turns = Some(2));
    assert_eq!(ending(&run), ("limited", "maxTurns"));
    assert_eq!((run.server.asked().len(), run.result["turns"].as_u64(), run.ends().len()), (2, Some(2), 2));
}

#[test]
fn what_is_missing_is_said_before_anything_is_sent() {
    let run = run_with(folder(), [], |config| config.model = String::new());
    assert_eq!(ending(&run), ("failed", "badUsage"));
    let run = run_with(folder(), [], |config| {
        config.base_url = format!("{PUBLIC_ENDPOINT}/");
        config.key = None;
    });
    assert_eq!(ending(&run), ("failed", "auth"));
    let run = run_with(folder(), [], |config| config.cwd = config.cwd.join("gone"));
    assert_eq!(ending(&run), ("failed", "badUsage"));
}

#[test]
fn an_answer_with_nothing_in_it_has_no_text() {
    let run = run([stream(&[completed(5, 0, 0, 0)])]);
    assert_eq!((ending(&run).0, run.result["text"].is_null()), ("completed", true));
}
