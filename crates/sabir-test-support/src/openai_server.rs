//! A scripted HTTP server that speaks as an OpenAI-compatible endpoint, and records its requests.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// One response of the script.
#[derive(Debug, Clone)]
pub struct Answer {
    status: u16,
    headers: Vec<String>,
    body: String,
    /// More is promised than comes.
    cut: bool,
}

/// A recorded request.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The path of the request line.
    pub path: String,
    /// Request line and headers.
    pub head: String,
    /// The JSON body.
    pub body: Value,
}

/// A server on the loopback interface.
#[derive(Debug)]
pub struct Server {
    /// The base URL of the API.
    pub url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    /// Serves the script, one response per request, on a free port.
    pub fn new(script: impl IntoIterator<Item = Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        let mut script: Vec<Answer> = script.into_iter().collect();
        script.reverse();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                seen.lock().expect("the list").push(read(&stream));
                let over = || error(400, json!({"error": {"message": "the script is over"}}));
                write(&mut stream, &script.pop().unwrap_or_else(over));
            }
        });
        Self { url, asked }
    }

    /// The requests so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("the list").clone()
    }
}

fn read(stream: &TcpStream) -> Asked {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).expect("a header") > 0, "the request breaks off: {head}");
    }
    let length = head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:").map(|length| length.trim().to_owned()));
    let mut body = vec![0; length.map_or(0, |length| length.parse().expect("a number"))];
    reader.read_exact(&mut body).expect("the body");
    let path = head.split(' ').nth(1).expect("a path").to_owned();
    Asked { path, head, body: serde_json::from_slice(&body).expect("JSON") }
}

fn write(stream: &mut TcpStream, answer: &Answer) {
    let length = answer.body.len() + if answer.cut { 100 } else { 0 };
    let mut head = format!("HTTP/1.1 {} X\r\nconnection: close\r\ncontent-length: {length}\r\n", answer.status);
    for header in &answer.headers {
        head.push_str(header);
        head.push_str("\r\n");
    }
    // The other side may have gone, which is its right.
    let _ = stream.write_all(format!("{head}\r\n{}", answer.body).as_bytes());
}

impl Answer {
    /// Adds a header.
    #[must_use]
    pub fn header(mut self, header: impl Into<String>) -> Self {
        self.headers.push(header.into());
        self
    }

    /// Closes the connection before all of the body was sent.
    #[must_use]
    pub fn cut(self) -> Self {
        Self { cut: true, ..self }
    }
}

/// An error with a JSON body.
pub fn error(status: u16, body: impl Into<Value>) -> Answer {
    let body = body.into();
    Answer { status, headers: vec!["content-type: application/json".into()], body: body.to_string(), cut: false }
}

/// A JSON object instead of a stream.
pub fn whole(body: &Value) -> Answer {
    error(200, body.clone())
}

/// A stream of those events.
pub fn stream(events: &[Value]) -> Answer {
    let body = events.iter().fold(String::new(), |body, event| body + "data: " + &event.to_string() + "\n\n");
    Answer { status: 200, headers: vec!["content-type: text/event-stream".into()], body, cut: false }
}

/// A response that says a text in two pieces.
pub fn says(text: &str) -> Answer {
    let middle = (0..=text.len() / 2).rev().find(|at| text.is_char_boundary(*at)).expect("a boundary");
    let delta = |piece: &str| json!({"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": piece});
    let item = json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": text}]});
    stream(&[
        json!({"type": "response.created", "response": {"id": "resp_1"}}),
        delta(&text[..middle]),
        delta(&text[middle..]),
        json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
        completed(100, 60, 20, 5),
    ])
}

/// A response that calls tools: name and arguments of each.
pub fn calls(calls: &[(&str, Value)]) -> Answer {
    let mut events = Vec::new();
    for (index, (name, arguments)) in calls.iter().enumerate() {
        let arguments = arguments.to_string();
        let item = json!({"type": "function_call", "id": format!("fc_{index}"), "call_id": format!("call_{name}_{index}"), "name": name, "arguments": arguments});
        events.push(json!({"type": "response.output_item.added", "output_index": index, "item": {"type": "function_call", "name": name, "arguments": ""}}));
        events.push(json!({"type": "response.function_call_arguments.delta", "output_index": index, "delta": arguments}));
        events.push(json!({"type": "response.output_item.done", "output_index": index, "item": item}));
    }
    events.push(completed(200, 150, 30, 10));
    stream(&events)
}

/// The last event of a response: input, the cached part of it, output, the reasoning part of that.
pub fn completed(input: u64, cached: u64, output: u64, reasoning: u64) -> Value {
    json!({"type": "response.completed", "response": {
        "id": "resp_1", "status": "completed", "model": "test-model-1",
        "usage": {
            "input_tokens": input, "input_tokens_details": {"cached_tokens": cached},
            "output_tokens": output, "output_tokens_details": {"reasoning_tokens": reasoning},
            "total_tokens": input + output,
        },
    }})
}

/// A chunk of a chat completion.
pub fn chunk(delta: impl Into<Value>, finish: Option<&str>) -> Value {
    let delta = delta.into();
    json!({"id": "chat_1", "object": "chat.completion.chunk", "model": "test-model-1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
}

/// The chunk with the tokens.
pub fn chat_usage(input: u64, cached: u64, output: u64) -> Value {
    json!({"id": "chat_1", "choices": [], "usage": {"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output, "prompt_tokens_details": {"cached_tokens": cached}}})
}
