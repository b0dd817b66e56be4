//! OpenAI's chat completions.

use serde_json::{Value, json};

use crate::client::{USAGE, everything, failure, post, serve};
use sabir_lab::script::Step;

const PATH: &str = "/v1/chat/completions";

fn request(stream: bool) -> Value {
    let tool = json!({"type": "function", "function": {"name": "shell"}});
    json!({"model": "some-model", "stream": stream, "messages": [], "tools": [tool]})
}

fn check_usage(usage: &Value) {
    assert_eq!(usage["prompt_tokens"], USAGE.input());
    assert_eq!(usage["prompt_tokens_details"]["cached_tokens"], USAGE.cache_read);
    assert_eq!(usage["completion_tokens"], USAGE.output);
    assert_eq!(usage["completion_tokens_details"]["reasoning_tokens"], USAGE.reasoning);
    assert_eq!(usage["total_tokens"], USAGE.input() + USAGE.output);
}

fn expected_calls() -> Vec<(String, String, Value)> {
    everything().calls().map(|call| (call.id.clone(), call.name.clone(), call.input.value())).collect()
}

#[tokio::test]
async fn a_stream_says_what_the_script_says() {
    let server = serve(vec![Step::Reply(everything())]).await;
    let answer = post(&server, PATH, &request(true)).await;
    let events = answer.events();
    assert!(answer.whole && answer.text.ends_with("data: [DONE]\n\n"));
    let together = |key: &str| events.iter().filter_map(|event| event["choices"][0]["delta"][key].as_str()).collect::<String>();
    assert_eq!(together("content"), everything().whole_text());
    assert_eq!(together("reasoning_content"), everything().whole_thinking());
    let mut calls: Vec<(String, String, String)> = Vec::new();
    for part in events.iter().filter_map(|event| event["choices"][0]["delta"]["tool_calls"].get(0)) {
        let index = usize::try_from(part["index"].as_u64().unwrap()).unwrap();
        if let Some(id) = part["id"].as_str() {
            assert_eq!(index, calls.len());
            calls.push((id.to_owned(), part["function"]["name"].as_str().unwrap().to_owned(), String::new()));
        }
        calls[index].2.push_str(part["function"]["arguments"].as_str().unwrap());
    }
    let calls: Vec<_> =
        calls.into_iter().map(|(id, name, arguments)| (id, name, serde_json::from_str(&arguments).unwrap())).collect();
    assert_eq!(calls, expected_calls());
    let reasons: Vec<&str> = events.iter().filter_map(|event| event["choices"][0]["finish_reason"].as_str()).collect();
    assert_eq!(reasons, ["tool_calls"]);
    let with_usage: Vec<&Value> = events.iter().map(|event| &event["usage"]).filter(|usage| !usage.is_null()).collect();
    assert_eq!(with_usage.len(), 1);
    check_usage(with_usage[0]);
}

#[tokio::test]
async fn an_object_says_what_the_script_says() {
    let server = serve(vec![Step::Reply(everything())]).await;
    let answer = post(&server, PATH, &request(false)).await.json();
    let message = &answer["choices"][0]["message"];
    assert_eq!(message["content"], everything().whole_text());
    assert_eq!(message["reasoning_content"], everything().whole_thinking());
    let calls = message["tool_calls"].as_array().unwrap().iter().map(|call| {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let arguments = serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).unwrap();
        (text(&call["id"]), text(&call["function"]["name"]), arguments)
    });
    assert_eq!(calls.collect::<Vec<_>>(), expected_calls());
    check_usage(&answer["usage"]);
}

#[tokio::test]
async fn refusals_have_their_shape() {
    let server = serve(vec![failure(429)]).await;
    let answer = post(&server, PATH, &request(true)).await;
    assert_eq!(answer.status, 429);
    assert_eq!(answer.retry_after.as_deref(), Some("7"));
    let error = json!({"message": "No.", "type": "rate_limit_exceeded", "param": null, "code": "rate_limit_exceeded"});
    assert_eq!(answer.json()["error"], error);
}
