//! Streams that wait, that are held and that break; retries; lanes; what the truth says about them.

use http_body_util::BodyExt as _;
use hyper::Method;
use sabir_lab::script::{Lane, Pace, Reply, Script, Step};
use sabir_lab::server::Server;
use serde_json::{Value, json};

use crate::client::{USAGE, USAGE_WITHOUT_REASONING, USAGE_WITHOUT_WRITES, failure, get, open, post, read, reply, serve};

const LONG: &str = "One two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen.";

/// A path and a streaming request of each API.
fn requests() -> [(&'static str, Value); 4] {
    [
        ("/v1/messages", json!({"model": "m", "stream": true})),
        ("/v1/responses", json!({"model": "m", "stream": true})),
        ("/v1/chat/completions", json!({"model": "m", "stream": true})),
        ("/v1beta/models/m:streamGenerateContent", json!({})),
    ]
}

fn paced(pace: Pace) -> Step {
    Step::Reply(Reply { pace, ..Reply::text(LONG, USAGE) })
}

#[tokio::test]
async fn a_cut_stream_has_no_end_and_the_retry_has_the_answer() {
    for (path, request) in requests() {
        let server = serve(vec![paced(Pace::Cut { after: 2 }), reply("Whole.")]).await;
        let cut = post(&server, path, &request).await;
        assert!(!cut.whole, "{path}");
        assert!(cut.text.contains("One two") && !cut.text.contains("sixteen"), "{path}");
        let truth = server.truth();
        assert_eq!((truth.final_text, truth.texts.len()), (None, 0), "{path}");
        assert_eq!(truth.unfinished_texts, [&LONG[..48]], "{path}");
        assert!(post(&server, path, &request).await.whole);
        let truth = server.truth();
        assert_eq!(truth.final_text.as_deref(), Some("Whole."), "{path}");
        assert_eq!((truth.usage.main.replies, truth.usage.aborted.replies), (1, 1), "{path}");
        assert_eq!(truth.usage.main.output, USAGE.output, "{path}");
    }
}

#[tokio::test]
async fn a_cut_object_has_no_end() {
    let server = serve(vec![paced(Pace::Cut { after: 1 })]).await;
    let cut = post(&server, "/v1/messages", &json!({"model": "m"})).await;
    assert!(!cut.whole && serde_json::from_str::<Value>(&cut.text).is_err());
    assert_eq!(server.truth().usage.aborted.replies, 1);
}

#[tokio::test]
async fn a_held_stream_is_open_until_the_client_goes() {
    for (path, request) in requests() {
        let server = serve(vec![paced(Pace::Hold { after: 1 }), reply("After.")]).await;
        let mut held = open(server.address(), Method::POST, path, &request).await;
        server.reached(|progress| progress.deltas == 1).await;
        let mut text = String::new();
        while !text.contains("One two") {
            let data = held.frame().await.unwrap().unwrap().into_data().unwrap();
            text.push_str(std::str::from_utf8(&data).unwrap());
        }
        drop(held);
        server.reached(|progress| progress.gone == 1).await;
        assert!(post(&server, path, &request).await.whole);
        let truth = server.truth();
        assert_eq!(truth.unfinished_texts, [&LONG[..24]], "{path}");
        assert_eq!(truth.final_text.as_deref(), Some("After."), "{path}");
    }
}

#[tokio::test]
async fn a_gated_stream_goes_as_far_as_it_is_let() {
    for (path, request) in requests() {
        let server = serve(vec![paced(Pace::Gated)]).await;
        let response = open(server.address(), Method::POST, path, &request).await;
        server.release(2);
        server.reached(|progress| progress.deltas == 2).await;
        assert_eq!(server.truth().unfinished_texts, [&LONG[..48]], "{path}");
        server.release(100);
        assert!(read(response).await.whole, "{path}");
        assert_eq!(server.truth().final_text.as_deref(), Some(LONG), "{path}");
    }
}

#[tokio::test]
async fn a_failure_then_an_answer() {
    for (path, request) in requests() {
        let server = serve(vec![failure(500), reply("Recovered.")]).await;
        assert_eq!(post(&server, path, &request).await.status, 500, "{path}");
        assert_eq!(server.truth().final_text, None, "{path}");
        assert_eq!(post(&server, path, &request).await.status, 200, "{path}");
        let truth = server.truth();
        assert_eq!(truth.final_text.as_deref(), Some("Recovered."), "{path}");
        assert_eq!((truth.requests.main, truth.failures.len(), truth.after_the_script), (2, 1, 0), "{path}");
        let expected = if path == "/v1/messages" { USAGE_WITHOUT_REASONING } else { USAGE_WITHOUT_WRITES };
        let main = truth.usage.main;
        let told = (main.uncached_input, main.cache_read, main.cache_write, main.output, main.reasoning);
        let (input, read, write) = (expected.uncached_input, expected.cache_read, expected.cache_write);
        assert_eq!(told, (input, read, write, expected.output, expected.reasoning), "{path}");
    }
}

#[tokio::test]
async fn the_last_step_is_repeated_or_the_script_is_over() {
    let (path, request) = &requests()[0];
    let always = Script { repeat_last: true, ..Script::new(vec![failure(400)]) };
    let server = Server::start(always).await.unwrap();
    for _ in 0..3 {
        assert_eq!(post(&server, path, request).await.status, 400);
    }
    assert_eq!((server.truth().failures.len(), server.truth().after_the_script), (3, 0));
    let before = server.load(Script::new(vec![reply("Once.")]));
    assert_eq!(before.failures.len(), 3);
    for _ in 0..2 {
        assert_eq!(post(&server, path, request).await.status, 200);
    }
    assert_eq!((server.truth().failures.len(), server.truth().after_the_script), (0, 1));
}

#[tokio::test]
async fn what_the_cli_asks_by_itself_takes_no_step() {
    let script = Script {
        lane: |request| if request.tools.is_empty() { Lane::Auxiliary } else { Lane::Main },
        auxiliary: |request| format!("A title by {}", request.model),
        ..Script::new(vec![reply("The answer.")])
    };
    let server = Server::start(script).await.unwrap();
    let title = post(&server, "/v1/messages", &json!({"model": "small"})).await.json();
    assert_eq!(title["content"][0]["text"], "A title by small");
    let answer = post(&server, "/v1/messages", &json!({"model": "large", "tools": [{"name": "shell"}]})).await.json();
    assert_eq!(answer["content"][0]["text"], "The answer.");
    let truth = server.truth();
    assert_eq!((truth.requests.main, truth.requests.aux), (1, 1));
    assert_eq!((truth.texts.as_slice(), truth.usage.main.output), (&["The answer.".to_owned()][..], USAGE.output));
    assert_eq!((truth.usage.aux.uncached_input, truth.usage.aux.output), (17, 5));
}

#[tokio::test]
async fn a_megabyte_goes_both_ways() {
    let text = "\u{e9}x".repeat(400_000);
    for (path, mut request) in requests() {
        request["padding"] = json!("y".repeat(3 << 20));
        let server = serve(vec![reply(&text)]).await;
        let answer = post(&server, path, &request).await;
        assert!(answer.whole, "{path}");
        assert_eq!(server.truth().final_text.as_deref(), Some(text.as_str()), "{path}");
    }
}

#[tokio::test]
async fn what_is_for_no_model_is_noted() {
    let server = serve(Vec::new()).await;
    assert_eq!(get(&server, "/").await.status, 200);
    assert_eq!(get(&server, "/api/telemetry").await.status, 404);
    assert_eq!(post(&server, "/v1/events", &json!({})).await.status, 404);
    assert_eq!(server.truth().other_requests, ["GET /api/telemetry", "POST /v1/events"]);
}

#[tokio::test]
async fn truth_is_a_plain_value() {
    let server = serve(vec![reply("Yes.")]).await;
    post(&server, "/v1/messages", &json!({"model": "m"})).await;
    let truth = serde_json::to_value(server.truth()).unwrap();
    assert_eq!(truth["finalText"], "Yes.");
    let main = json!({"uncachedInput": 1000, "cacheRead": 200, "cacheWrite": 30, "output": 9, "reasoning": 0, "replies": 1});
    assert_eq!(truth["usage"]["main"], main);
}
