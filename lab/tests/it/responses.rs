//! OpenAI's Responses.

use serde_json::{Value, json};

use crate::client::{USAGE, everything, failure, post, serve};
use sabir_lab::script::{Block, Call, Input, Pace, Reply, Step};

const PATH: &str = "/v1/responses";

fn request(stream: bool) -> Value {
    json!({"model": "some-model", "stream": stream, "input": [], "tools": [{"type": "function", "name": "shell"}]})
}

fn check(response: &Value) {
    let reply = everything();
    let output = &response["output"];
    assert_eq!(response["status"], "completed");
    assert_eq!(output[0]["summary"][0]["text"], reply.whole_thinking());
    assert_eq!(output[1]["content"][0]["text"], reply.whole_text());
    for (item, call) in output.as_array().unwrap()[2..].iter().zip(reply.calls()) {
        assert_eq!((item["call_id"].as_str(), item["name"].as_str()), (Some(call.id.as_str()), Some("shell")));
        let arguments: Value = serde_json::from_str(item["arguments"].as_str().unwrap()).unwrap();
        assert_eq!(arguments, call.input.value());
    }
    assert_eq!(output.as_array().unwrap().len(), 4);
    let usage = &response["usage"];
    assert_eq!(usage["input_tokens"], USAGE.input());
    assert_eq!(usage["input_tokens_details"]["cached_tokens"], USAGE.cache_read);
    assert_eq!(usage["output_tokens"], USAGE.output);
    assert_eq!(usage["output_tokens_details"]["reasoning_tokens"], USAGE.reasoning);
    assert_eq!(usage["total_tokens"], USAGE.input() + USAGE.output);
}

/// The deltas of one kind, put together.
fn deltas(events: &[Value], kind: &str) -> String {
    events.iter().filter(|event| event["type"] == kind).filter_map(|event| event["delta"].as_str()).collect()
}

#[tokio::test]
async fn a_stream_says_what_the_script_says() {
    let server = serve(vec![Step::Reply(everything())]).await;
    let answer = post(&server, PATH, &request(true)).await;
    let events = answer.events();
    let reply = everything();
    assert!(answer.whole);
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], number);
    }
    assert_eq!(deltas(&events, "response.output_text.delta"), reply.whole_text());
    assert_eq!(deltas(&events, "response.reasoning_summary_text.delta"), reply.whole_thinking());
    let arguments: String = reply.calls().map(|call| call.input.value().to_string()).collect();
    assert_eq!(deltas(&events, "response.function_call_arguments.delta"), arguments);
    let items: Vec<&Value> =
        events.iter().filter(|event| event["type"] == "response.output_item.done").map(|event| &event["item"]).collect();
    let end = events.last().unwrap();
    assert_eq!(end["type"], "response.completed");
    assert_eq!(json!(items), end["response"]["output"]);
    check(&end["response"]);
}

#[tokio::test]
async fn an_object_says_what_the_script_says() {
    let server = serve(vec![Step::Reply(everything())]).await;
    check(&post(&server, PATH, &request(false)).await.json());
}

#[tokio::test]
async fn a_tool_may_take_text() {
    let input = Input::Freeform("*** Begin Patch\n".to_owned());
    let call = Call { id: "call_1".to_owned(), name: "apply_patch".to_owned(), input };
    let server = serve(vec![Step::Reply(Reply { blocks: vec![Block::Call(call)], usage: USAGE, pace: Pace::Free })]).await;
    let events = post(&server, PATH, &request(true)).await.events();
    assert_eq!(deltas(&events, "response.custom_tool_call_input.delta"), "*** Begin Patch\n");
    let item = &events.last().unwrap()["response"]["output"][0];
    assert_eq!((item["type"].as_str(), item["input"].as_str()), (Some("custom_tool_call"), Some("*** Begin Patch\n")));
    assert_eq!(server.truth().tool_calls[0].arguments, json!({"input": "*** Begin Patch\n"}));
}

#[tokio::test]
async fn refusals_have_their_shape() {
    let codes = [(400, "invalid_value"), (401, "invalid_api_key"), (429, "rate_limit_exceeded"), (500, "server_error")];
    let server = serve(codes.iter().map(|(status, _)| failure(*status)).collect()).await;
    for (status, code) in codes {
        let answer = post(&server, PATH, &request(true)).await;
        assert_eq!(answer.status, status);
        let error = &answer.json()["error"];
        assert_eq!((error["message"].as_str(), error["code"].as_str()), (Some("No."), Some(code)));
    }
}
