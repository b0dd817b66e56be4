//! Anthropic's Messages.

use serde_json::{Value, json};

use crate::client::{USAGE, everything, failure, get, post, serve};
use sabir_lab::script::Step;

const PATH: &str = "/v1/messages?beta=true";

fn request(stream: bool) -> Value {
    json!({"model": "some-model", "stream": stream, "max_tokens": 100, "messages": [], "tools": [{"name": "shell"}]})
}

fn expected_content() -> Value {
    let reply = everything();
    let calls: Vec<Value> = reply
        .calls()
        .map(|call| json!({"type": "tool_use", "id": call.id, "name": "shell", "input": call.input.value()}))
        .collect();
    json!([
        {"type": "thinking", "thinking": reply.whole_thinking(), "signature": "bGFiLXNpZ25hdHVyZQ=="},
        {"type": "text", "text": reply.whole_text()},
        calls[0],
        calls[1],
    ])
}

fn check_usage(usage: &Value, output: u64) {
    assert_eq!(usage["input_tokens"], USAGE.uncached_input);
    assert_eq!(usage["cache_read_input_tokens"], USAGE.cache_read);
    assert_eq!(usage["cache_creation_input_tokens"], USAGE.cache_write);
    assert_eq!(usage["output_tokens"], output);
}

/// Puts a stream together as a client does.
fn assembled(events: &[Value]) -> Vec<Value> {
    let mut blocks: Vec<Value> = Vec::new();
    let mut arguments = String::new();
    for event in events {
        let index = usize::try_from(event["index"].as_u64().unwrap_or_default()).unwrap();
        let delta = &event["delta"];
        let mut append = |key: &str| {
            let text = format!("{}{}", blocks[index][key].as_str().unwrap(), delta[key].as_str().unwrap());
            blocks[index][key] = json!(text);
        };
        match (event["type"].as_str().unwrap(), delta["type"].as_str().unwrap_or_default()) {
            ("content_block_start", _) => {
                assert_eq!(index, blocks.len());
                blocks.push(event["content_block"].clone());
                arguments.clear();
            }
            ("content_block_delta", "text_delta") => append("text"),
            ("content_block_delta", "thinking_delta") => append("thinking"),
            ("content_block_delta", "signature_delta") => append("signature"),
            ("content_block_delta", "input_json_delta") => arguments.push_str(delta["partial_json"].as_str().unwrap()),
            ("content_block_stop", _) if blocks[index]["type"] == "tool_use" => {
                blocks[index]["input"] = serde_json::from_str(&arguments).unwrap();
            }
            _ => {}
        }
    }
    blocks
}

#[tokio::test]
async fn a_stream_says_what_the_script_says() {
    let server = serve(vec![Step::Reply(everything())]).await;
    let answer = post(&server, PATH, &request(true)).await;
    let events = answer.events();
    assert!(answer.whole);
    assert!(answer.text.starts_with("event: message_start\n"));
    assert_eq!(events[0]["message"]["model"], "some-model");
    check_usage(&events[0]["message"]["usage"], 1);
    assert_eq!(json!(assembled(&events)), expected_content());
    let end = &events[events.len() - 2];
    assert_eq!(end["delta"]["stop_reason"], "tool_use");
    check_usage(&end["usage"], USAGE.output);
    assert_eq!(events.last().unwrap()["type"], "message_stop");
}

#[tokio::test]
async fn an_object_says_what_the_script_says() {
    let server = serve(vec![Step::Reply(everything())]).await;
    let answer = post(&server, PATH, &request(false)).await.json();
    assert_eq!(answer["content"], expected_content());
    assert_eq!(answer["stop_reason"], "tool_use");
    check_usage(&answer["usage"], USAGE.output);
}

#[tokio::test]
async fn refusals_have_their_shape() {
    let kinds = [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (529, "overloaded_error"),
    ];
    let server = serve(kinds.iter().map(|(status, _)| failure(*status)).collect()).await;
    for (status, kind) in kinds {
        let answer = post(&server, PATH, &request(true)).await;
        assert_eq!(answer.status, status);
        assert_eq!(answer.retry_after.as_deref(), (status == 429).then_some("7"));
        assert_eq!(answer.json()["error"], json!({"type": kind, "message": "No."}));
    }
    let truth = server.truth();
    let served: Vec<u16> = truth.failures.iter().map(|failure| failure.status).collect();
    assert_eq!(served, kinds.map(|(status, _)| status));
    assert_eq!(truth.requests.main, 5);
}

#[tokio::test]
async fn tokens_are_counted_and_models_are_listed() {
    let server = serve(Vec::new()).await;
    let counted = post(&server, "/v1/messages/count_tokens", &request(false)).await;
    assert!(counted.json()["input_tokens"].is_u64());
    assert_eq!(get(&server, "/v1/models").await.json()["data"][0]["id"], "lab-model");
    assert_eq!(server.truth().requests.main, 0);
}
