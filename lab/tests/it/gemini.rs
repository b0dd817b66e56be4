//! Google's `generateContent` and `streamGenerateContent`.

use serde_json::{Value, json};

use crate::client::{USAGE, USAGE_WITHOUT_WRITES, everything, failure, post, serve};
use sabir_lab::script::Step;

const STREAM: &str = "/v1beta/models/some-model:streamGenerateContent?alt=sse";
const OBJECT: &str = "/v1beta/models/some-model:generateContent";

fn request() -> Value {
    json!({"contents": [], "tools": [{"functionDeclarations": [{"name": "shell"}]}]})
}

fn check(parts: &[Value], usage: &Value) {
    let reply = everything();
    let texts = |thought: bool| {
        let chosen = parts.iter().filter(move |part| part["thought"].as_bool().unwrap_or_default() == thought);
        chosen.filter_map(|part| part["text"].as_str()).collect::<String>()
    };
    assert_eq!(texts(true), reply.whole_thinking());
    assert_eq!(texts(false), reply.whole_text());
    let calls: Vec<&Value> = parts.iter().map(|part| &part["functionCall"]).filter(|call| !call.is_null()).collect();
    let expected: Vec<Value> =
        reply.calls().map(|call| json!({"id": call.id, "name": call.name, "args": call.input.value()})).collect();
    assert_eq!(json!(calls), json!(expected));
    assert_eq!(usage["promptTokenCount"], USAGE.input());
    assert_eq!(usage["cachedContentTokenCount"], USAGE.cache_read);
    assert_eq!(usage["candidatesTokenCount"], USAGE.output - USAGE.reasoning);
    assert_eq!(usage["thoughtsTokenCount"], USAGE.reasoning);
    assert_eq!(usage["totalTokenCount"], USAGE.input() + USAGE.output);
}

#[tokio::test]
async fn a_stream_says_what_the_script_says() {
    let server = serve(vec![Step::Reply(everything())]).await;
    let answer = post(&server, STREAM, &request()).await;
    assert!(answer.whole && answer.text.is_ascii());
    let events = answer.events();
    let parts: Vec<Value> =
        events.iter().flat_map(|event| event["candidates"][0]["content"]["parts"].as_array().unwrap().clone()).collect();
    let (last, before) = events.split_last().unwrap();
    assert!(before.iter().all(|event| event.get("usageMetadata").is_none()));
    assert_eq!(last["candidates"][0]["finishReason"], "STOP");
    assert_eq!(last["modelVersion"], "some-model");
    check(&parts, &last["usageMetadata"]);
}

#[tokio::test]
async fn an_object_says_what_the_script_says() {
    let server = serve(vec![Step::Reply(everything())]).await;
    let answer = post(&server, OBJECT, &request()).await.json();
    check(answer["candidates"][0]["content"]["parts"].as_array().unwrap(), &answer["usageMetadata"]);
}

#[tokio::test]
async fn truth_has_the_thoughts_in_the_output() {
    let server = serve(vec![Step::Reply(everything())]).await;
    post(&server, STREAM, &request()).await;
    let main = server.truth().usage.main;
    assert_eq!(main.output, USAGE.output);
    assert_eq!(main.reasoning, USAGE.reasoning);
    assert_eq!((main.uncached_input, main.cache_write), (USAGE_WITHOUT_WRITES.uncached_input, 0));
}

#[tokio::test]
async fn refusals_have_their_shape() {
    let states = [(400, "INVALID_ARGUMENT"), (401, "UNAUTHENTICATED"), (429, "RESOURCE_EXHAUSTED"), (500, "INTERNAL")];
    let server = serve(states.iter().map(|(status, _)| failure(*status)).collect()).await;
    for (status, state) in states {
        let answer = post(&server, STREAM, &request()).await;
        assert_eq!(answer.status, status);
        assert_eq!(answer.json()["error"], json!({"code": status, "message": "No.", "status": state}));
    }
}

#[tokio::test]
async fn tokens_are_counted() {
    let server = serve(Vec::new()).await;
    let counted = post(&server, "/v1beta/models/some-model:countTokens", &request()).await;
    assert!(counted.json()["totalTokens"].is_u64());
}
