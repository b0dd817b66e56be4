//! Which request is for which vendor's model.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State as Shared;
use axum::http::{HeaderName, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};

use super::{Context, State, body};
use crate::script::{Api, Failure, Reply, Request, Step};
use crate::sse::{Delta, Frame};
use crate::{anthropic, chat, gemini, responses};

/// The header of an answer that is one object.
const JSON: [(HeaderName, &str); 1] = [(header::CONTENT_TYPE, "application/json")];

/// What a client may want.
#[derive(Debug, PartialEq, Eq)]
enum Wish {
    /// An answer of the model.
    Model(Api),
    /// The number of tokens in a request.
    Count(Api),
    /// The list of the models.
    Models,
    /// A sign of life.
    Life,
    /// Something that is not there.
    Other,
}

/// Answers any request.
pub(super) async fn answer(Shared(state): Shared<Arc<State>>, method: Method, uri: Uri, body: Bytes) -> Response {
    match wish(&method, uri.path()) {
        Wish::Model(api) => match serde_json::from_slice(&body) {
            Ok(body) => model(&state, &request(api, uri.path(), body)),
            Err(error) => {
                state.other(format!("{method} {} (not JSON: {error})", uri.path()));
                plain(StatusCode::BAD_REQUEST, &json!({"error": {"message": "the body is not JSON"}}))
            }
        },
        Wish::Count(Api::Gemini) => plain(StatusCode::OK, &json!({"totalTokens": 42})),
        Wish::Count(_) => plain(StatusCode::OK, &json!({"input_tokens": 42})),
        Wish::Models => plain(StatusCode::OK, &models()),
        Wish::Life => plain(StatusCode::OK, &json!({})),
        Wish::Other => {
            state.other(format!("{method} {}", uri.path()));
            let message = format!("there is no {}", uri.path());
            plain(StatusCode::NOT_FOUND, &json!({"error": {"type": "not_found_error", "message": message}}))
        }
    }
}

fn wish(method: &Method, path: &str) -> Wish {
    if method == Method::POST {
        let known = [
            ("/messages", Wish::Model(Api::Anthropic)),
            ("/messages/count_tokens", Wish::Count(Api::Anthropic)),
            ("/responses", Wish::Model(Api::Responses)),
            ("/responses/input_tokens", Wish::Count(Api::Responses)),
            ("/chat/completions", Wish::Model(Api::Chat)),
            (":streamGenerateContent", Wish::Model(Api::Gemini)),
            (":generateContent", Wish::Model(Api::Gemini)),
            (":countTokens", Wish::Count(Api::Gemini)),
        ];
        return known.into_iter().find(|(end, _)| path.ends_with(end)).map_or(Wish::Other, |(_, wish)| wish);
    }
    if path == "/" {
        Wish::Life
    } else if method == Method::GET && path.ends_with("/models") {
        Wish::Models
    } else {
        Wish::Other
    }
}

fn request(api: Api, path: &str, body: Value) -> Request {
    let named = body["model"].as_str();
    // Google has the model and the wish for a stream in the path.
    let (model, streaming) = match (api, path.rsplit('/').next().and_then(|end| end.split_once(':'))) {
        (Api::Gemini, Some((model, method))) => (model, method == "streamGenerateContent"),
        _ => (named.unwrap_or("unnamed"), body["stream"].as_bool().unwrap_or(false)),
    };
    let tools = match api {
        Api::Anthropic => anthropic::tools(&body),
        Api::Responses => responses::tools(&body),
        Api::Chat => chat::tools(&body),
        Api::Gemini => gemini::tools(&body),
    };
    Request { api, model: model.to_owned(), streaming, tools, body }
}

fn model(state: &Arc<State>, request: &Request) -> Response {
    let (context, ticket, step) = state.take(request);
    match step {
        Step::Failure(failure) => refusal(&failure, request, &context),
        Step::Reply(reply) => {
            let kind = if request.streaming { "text/event-stream; charset=utf-8" } else { "application/json" };
            let frames = if request.streaming { stream(&reply, request, &context) } else { whole(&reply, request, &context) };
            let body = body::paced(frames, reply.pace, ticket, Arc::clone(state));
            ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-cache")], body).into_response()
        }
    }
}

fn stream(reply: &Reply, request: &Request, context: &Context) -> Vec<Frame> {
    match request.api {
        Api::Anthropic => anthropic::frames(reply, context),
        Api::Responses => responses::frames(reply, context),
        Api::Chat => chat::frames(reply, context),
        Api::Gemini => gemini::frames(reply, context),
    }
}

/// A response in one object goes out in two halves, so that it can be held and cut like a stream.
fn whole(reply: &Reply, request: &Request, context: &Context) -> Vec<Frame> {
    let text = match request.api {
        Api::Anthropic => anthropic::whole(reply, context),
        Api::Responses => responses::whole(reply, context),
        Api::Chat => chat::whole(reply, context),
        Api::Gemini => gemini::whole(reply, context),
    };
    let text = text.to_string();
    let mut middle = text.len() / 2;
    while !text.is_char_boundary(middle) {
        middle -= 1;
    }
    let (first, second) = text.split_at(middle);
    vec![Frame { bytes: first.to_owned(), delta: Delta::Other }, Frame { bytes: second.to_owned(), delta: Delta::None }]
}

fn refusal(failure: &Failure, request: &Request, context: &Context) -> Response {
    let status = StatusCode::from_u16(failure.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let body = match request.api {
        Api::Anthropic => anthropic::failure(failure, context),
        Api::Responses | Api::Chat => responses::failure(failure),
        Api::Gemini => gemini::failure(failure),
    };
    let headers: Option<[(HeaderName, String); 1]> =
        failure.retry_after.map(|seconds| [(header::RETRY_AFTER, seconds.to_string())]);
    match headers {
        Some(headers) => (status, JSON, headers, body.to_string()).into_response(),
        None => (status, JSON, body.to_string()).into_response(),
    }
}

fn plain(status: StatusCode, body: &Value) -> Response {
    (status, JSON, body.to_string()).into_response()
}

/// The one model, in the words of all vendors at once.
fn models() -> Value {
    json!({
        "object": "list",
        "has_more": false,
        "data": [{
            "id": "lab-model", "object": "model", "type": "model", "display_name": "Lab", "created": super::CREATED,
            "created_at": "2026-09-21T14:13:20Z", "owned_by": "lab",
        }],
        "models": [{"name": "models/lab-model", "displayName": "Lab", "supportedGenerationMethods": ["generateContent"]}],
    })
}
