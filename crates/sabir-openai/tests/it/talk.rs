//! What the model says, and how it is asked.

use sabir_core::event::{EventKind, TextDelta, ThinkingDelta};
use sabir_openai::Api;
use serde_json::{Value, json};

use crate::server::{Answer, calls, chat_usage, chunk, completed, error, says, stream, whole};
use crate::{Run, folder, run, run_with};

fn texts(run: &Run) -> Vec<&str> {
    run.events
        .iter()
        .filter_map(|event| if let EventKind::Text(TextDelta { delta, .. }) = &event.kind { Some(&**delta) } else { None })
        .collect()
}

fn chat(script: impl IntoIterator<Item = Answer>) -> Run {
    run_with(folder(), script, |config| config.api = Some(Api::Chat))
}

#[test]
fn text_comes_in_pieces_and_is_the_answer() {
    let run = run([says("Grüße 👋, it is\u{2028}done.")]);
    assert_eq!(run.result["text"], "Grüße 👋, it is\u{2028}done.");
    assert_eq!(texts(&run).len(), 2);
    assert_eq!(texts(&run).concat(), "Grüße 👋, it is\u{2028}done.");
    assert_eq!((run.result["outcome"].as_str(), run.result["model"].as_str()), (Some("completed"), Some("test-model")));
    let asked = &run.server.asked()[0];
    assert_eq!(asked.path, "/v1/responses");
    assert!(asked.head.to_ascii_lowercase().contains("authorization: bearer sk-secret"));
    assert_eq!(
        (&asked.body["model"], &asked.body["stream"], &asked.body["store"]),
        (&json!("test-model"), &json!(true), &json!(false))
    );
    assert_eq!(asked.body["input"][0]["content"], "Do the task.");
}

#[test]
fn reasoning_is_thinking_and_no_part_of_the_answer() {
    let summary = |part: u64, delta: &str| json!({"type": "response.reasoning_summary_text.delta", "item_id": "rs_1", "output_index": 0, "summary_index": part, "delta": delta});
    let reasoning = json!({"type": "reasoning", "id": "rs_1", "encrypted_content": "sealed", "summary": [{"type": "summary_text", "text": "First."}, {"type": "summary_text", "text": "Second."}]});
    let message = json!({"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": "Yes."}]});
    let call = json!({"type": "function_call", "id": "fc", "call_id": "call_1", "name": "list", "arguments": "{}"});
    let item = |index: u64, item: &Value| json!({"type": "response.output_item.done", "output_index": index, "item": item});
    let run = run([
        stream(&[
            summary(0, "Fir"),
            summary(0, "st."),
            item(0, &reasoning),
            item(1, &message),
            item(2, &call),
            completed(1, 0, 1, 1),
        ]),
        says("Answer."),
    ]);
    let thoughts: Vec<&str> = run
        .events
        .iter()
        .filter_map(
            |event| if let EventKind::Thinking(ThinkingDelta { delta, .. }) = &event.kind { Some(&**delta) } else { None },
        )
        .collect();
    assert_eq!(thoughts, ["Fir", "st.", "Second."]);
    assert_eq!(run.result["text"], "Answer.");
    // What the model thought goes back to it in its sealed form; ids mean nothing to an endpoint that keeps nothing.
    let input = run.server.asked()[1].body["input"].clone();
    assert_eq!(input[1]["encrypted_content"], "sealed");
    assert!(input[1].get("id").is_none() && input[3].get("id").is_none());
    assert_eq!((&input[3]["call_id"], &input[4]["call_id"]), (&json!("call_1"), &json!("call_1")));
    assert_eq!(input[4]["output"], "notes.txt");
}

#[test]
fn every_token_is_counted_once() {
    let run = run([calls(&[("list", json!({}))]), says("Done.")]);
    let tokens = &run.result["tokens"];
    assert_eq!(
        [&tokens["uncachedInput"], &tokens["cacheRead"], &tokens["output"], &tokens["reasoning"], &tokens["total"]],
        [&json!(90), &json!(210), &json!(50), &json!(15), &json!(350)]
    );
    // The endpoint's own way of counting has the cached tokens inside.
    assert_eq!((&run.result["usage"]["input"], &run.result["usage"]["output"]), (&json!(300), &json!(50)));
    assert_eq!(run.result["turns"], 2);
}

#[test]
fn chat_completions_are_spoken_too() {
    let call = |index: u64, id: Option<&str>, name: Option<&str>, arguments: &str| {
        let mut call = json!({"index": index, "function": {"arguments": arguments}});
        if let (Some(id), Some(name)) = (id, name) {
            call["id"] = json!(id);
            call["function"]["name"] = json!(name);
        }
        chunk(json!({"tool_calls": [call]}), None)
    };
    let run = chat([
        stream(&[
            chunk(json!({"role": "assistant", "content": "", "reasoning_content": "Hm."}), None),
            call(0, Some("a"), Some("read"), "{\"path\":"),
            call(1, Some("b"), Some("list"), ""),
            call(0, None, None, "\"notes.txt\"}"),
            chunk(json!({}), Some("tool_calls")),
            chat_usage(100, 40, 10),
        ]),
        stream(&[
            chunk(json!({"content": "Three "}), None),
            chunk(json!({"content": "lines."}), Some("stop")),
            chat_usage(200, 150, 20),
        ]),
    ]);
    assert_eq!(run.result["text"], "Three lines.");
    assert_eq!(run.has("thinking"), 1);
    let tokens = &run.result["tokens"];
    assert_eq!([&tokens["uncachedInput"], &tokens["cacheRead"], &tokens["output"]], [&json!(110), &json!(190), &json!(30)]);
    let asked = run.server.asked();
    assert_eq!(asked[0].path, "/v1/chat/completions");
    assert_eq!(asked[0].body["stream_options"]["include_usage"], true);
    let messages = &asked[1].body["messages"];
    assert_eq!((&messages[0]["role"], &messages[2]["tool_calls"][0]["id"]), (&json!("system"), &json!("a")));
    assert_eq!((&messages[3]["tool_call_id"], &messages[3]["content"]), (&json!("a"), &json!("one\ntwo\nthree\n")));
    assert_eq!((&messages[4]["tool_call_id"], &messages[4]["content"]), (&json!("b"), &json!("notes.txt")));
}

#[test]
fn calls_that_share_a_number_are_told_apart_by_their_ids() {
    let call = |id: &str| json!({"index": 0, "id": id, "function": {"name": "list", "arguments": "{}"}});
    let run = chat([
        stream(&[chunk(json!({"tool_calls": [call("a"), call("b")]}), None), chunk(json!({}), Some("tool_calls"))]),
        stream(&[chunk(json!({"content": "Done."}), Some("stop"))]),
    ]);
    assert_eq!(run.ends().len(), 2);
    assert!(run.result["tokens"]["total"].is_null(), "tokens that nobody reports are unknown");
}

#[test]
fn an_endpoint_that_does_not_stream_is_read_all_the_same() {
    let message = json!({"type": "message", "id": "m", "content": [{"type": "output_text", "text": "Whole."}]});
    let mut response = completed(5, 0, 2, 0)["response"].clone();
    response["output"] = json!([message]);
    assert_eq!(run([whole(&response)]).result["text"], "Whole.");
    let completion = json!({"id": "c", "choices": [{"message": {"content": "Whole."}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 5, "completion_tokens": 2}});
    let run = chat([whole(&completion)]);
    assert_eq!((run.result["text"].as_str(), run.result["tokens"]["total"].as_u64()), (Some("Whole."), Some(7)));
}

#[test]
fn an_endpoint_without_responses_is_asked_for_chat() {
    let answer = || stream(&[chunk(json!({"content": "Hi."}), Some("stop")), chat_usage(3, 0, 1)]);
    for status in [404, 405] {
        let run = run([error(status, json!({"detail": "Not Found"})), answer()]);
        assert_eq!((run.result["text"].as_str(), run.has("activity")), (Some("Hi."), 1));
        let paths: Vec<String> = run.server.asked().into_iter().map(|asked| asked.path).collect();
        assert_eq!(paths, ["/v1/responses", "/v1/chat/completions"]);
    }
    // Who asks for one API gets that one or an error.
    let run =
        run_with(folder(), [error(404, json!({"detail": "Not Found"})), answer()], |config| config.api = Some(Api::Responses));
    assert_eq!((run.result["outcome"].as_str(), run.server.asked().len()), (Some("failed"), 1));
}

#[test]
fn what_an_endpoint_does_not_know_is_left_out() {
    let unknown = error(400, json!({"error": {"message": "Encrypted content is not supported with this model."}}));
    let run = run([unknown, says("Fine.")]);
    assert_eq!(run.result["text"], "Fine.");
    let asked = run.server.asked();
    assert!(asked[0].body.get("include").is_some() && asked[1].body.get("include").is_none());
}

#[test]
fn a_refusal_is_no_answer() {
    let item = json!({"type": "message", "id": "m", "content": [{"type": "refusal", "refusal": "I won't."}]});
    let run =
        run([stream(&[json!({"type": "response.output_item.done", "output_index": 0, "item": item}), completed(5, 0, 2, 0)])]);
    assert_eq!((run.result["outcome"].as_str(), run.result["cause"].as_str()), (Some("refused"), Some("refusal")));
    assert!(run.result["text"].is_null());
    assert_eq!(texts(&run), ["I won't."]);
    let run = chat([stream(&[chunk(json!({"refusal": "No."}), Some("stop"))])]);
    assert_eq!(run.result["outcome"], "refused");
}

#[test]
fn an_answer_that_is_cut_off_by_its_length_is_limited() {
    let run = chat([stream(&[chunk(json!({"content": "The first half"}), Some("length"))])]);
    assert_eq!((run.result["outcome"].as_str(), run.result["text"].as_str()), (Some("limited"), Some("The first half")));
    assert_eq!(run.result["stopReason"], "length");
}
