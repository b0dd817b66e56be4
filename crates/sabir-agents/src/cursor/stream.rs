//! The stream of events.
//!
//! With partial output the text comes in pieces and then once more, whole:
//!
//! | `assistant` with | is |
//! |---|---|
//! | `timestamp_ms` and no `model_call_id` | a piece |
//! | both | the whole text before a tool call |
//! | neither | the whole last text |
//!
//! `result.result` is all texts glued together, so the answer is the last whole text after the last tool call. A run that
//! fails prints no `result`; one that printed it is over, whatever the process does then.

use std::borrow::Cow;

use sabir_core::agent::Confidence;
use sabir_core::dialect::{End, Facts, Held, Verdict};
use sabir_core::event::{
    self, Activity, Cause, ErrorEvent, Final, Outcome, Retry, Session, TextDelta, ThinkingDelta, ToolStart, TurnEnd, TurnStart,
    UsageScope,
};
use sabir_core::json::{self, JsonDialect, Str, StringOr};
use sabir_core::line::Line;
use sabir_core::time::Timestamp;
use serde::Deserialize;

use super::call::Call;

/// The fields of all events.
#[derive(Deserialize)]
pub(super) struct Wire<'a> {
    #[serde(borrow)]
    r#type: Str<'a>,
    #[serde(borrow)]
    subtype: Option<Str<'a>>,
    #[serde(borrow)]
    session_id: Option<Str<'a>>,
    timestamp_ms: Option<i64>,
    #[serde(borrow)]
    model_call_id: Option<Str<'a>>,
    #[serde(borrow)]
    model: Option<Str<'a>>,
    #[serde(borrow)]
    cwd: Option<Str<'a>>,
    #[serde(borrow, rename = "permissionMode")]
    permission_mode: Option<Str<'a>>,
    #[serde(borrow)]
    message: Option<StringOr<'a, Message<'a>>>,
    #[serde(borrow)]
    text: Option<Str<'a>>,
    #[serde(borrow)]
    call_id: Option<Str<'a>>,
    #[serde(borrow)]
    tool_call: Option<Call<'a>>,
    is_error: Option<bool>,
    #[serde(borrow)]
    result: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    error: Option<Str<'a>>,
    duration_ms: Option<u64>,
    duration_api_ms: Option<u64>,
    #[serde(default, deserialize_with = "json::lenient")]
    usage: Option<Usage>,
    attempt: Option<u32>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    content: StringOr<'a, Vec<Block<'a>>>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow)]
    text: Option<Str<'a>>,
}

/// The classes are disjoint already.
#[derive(Deserialize)]
struct Usage {
    #[serde(rename = "inputTokens")]
    input: Option<u64>,
    #[serde(rename = "outputTokens")]
    output: Option<u64>,
    #[serde(rename = "cacheReadTokens")]
    cache_read: Option<u64>,
    #[serde(rename = "cacheWriteTokens")]
    cache_write: Option<u64>,
}

/// Reads the stream.
#[derive(Default)]
pub(super) struct Stream {
    /// The pieces of a text whose whole copy has not come.
    pieces: Held,
    /// The last whole text since the last tool call.
    answer: Held,
    said_anything: bool,
    session_known: bool,
    /// The model is answering: what comes next is of the same response until a tool call has ended.
    answering: bool,
    /// Whether a turn has begun at all.
    in_turn: bool,
    /// The response that the last tool call is of.
    response: Option<String>,
    /// Calls that began and did not end.
    open: Vec<String>,
    complaint: Option<String>,
    ended: Option<Verdict>,
}

impl JsonDialect for Stream {
    type Wire<'a> = Wire<'a>;

    fn message<'a>(&mut self, mut wire: Wire<'a>, line: &Line<'a>, facts: &mut Facts<'a>) {
        facts.at = wire.timestamp_ms.and_then(Timestamp::from_millis);
        match (&*wire.r#type, wire.subtype.as_deref()) {
            ("system", Some("init")) => self.session(&mut wire, facts),
            // The prompt, as it was given, and the end of what came in pieces.
            ("user", _) | ("thinking", Some("completed")) => {}
            ("thinking", Some("delta")) => {
                self.begin_turn(None, facts);
                let delta = wire.text.map(Cow::from).unwrap_or_default();
                facts.push(ThinkingDelta::new(delta));
            }
            ("assistant", _) => self.assistant(wire, facts),
            ("tool_call", Some("started" | "completed")) if wire.call_id.is_some() && wire.tool_call.is_some() => {
                self.tool_call(wire, facts);
            }
            ("result", _) => self.result(wire, facts),
            ("retry", Some("starting")) => {
                facts.push(Retry::new(wire.attempt.unwrap_or(1), "the response broke off and is asked for again"));
            }
            ("connection" | "retry", Some(state)) => {
                facts.push(Activity::new(format!("{}: {state}", &*wire.r#type)));
            }
            ("error", _) => {
                let message = wire.error.or(wire.text).map(Cow::from).or_else(|| wire.message.and_then(text_of));
                let message = message.unwrap_or_default();
                self.complaint = Some(message.clone().into_owned());
                let class = class(&message);
                facts.push(ErrorEvent::new(message).class(class));
            }
            _ => json::unrecognized(line, facts),
        }
    }

    /// Errors about the account are printed as they are, between the events. Other lines are of whoever else writes there.
    fn other<'a>(&mut self, line: &Line<'a>, facts: &mut Facts<'a>) {
        if line.text.trim_start().starts_with('{') {
            json::unrecognized(line, facts);
        } else {
            if matches!(class(&line.text), Some(Cause::Auth | Cause::RateLimited | Cause::Budget)) {
                self.complaint = Some(line.text.clone().into_owned());
            }
            facts.push(Activity::new(line.text.clone()));
        }
    }

    fn over(&self) -> Option<bool> {
        Some(self.ended.is_some())
    }

    fn end(&mut self, _: &End, facts: &mut Facts<'static>) -> Verdict {
        let Some(verdict) = self.ended.take() else {
            let cause = self.complaint.as_deref().and_then(class);
            return Verdict { cause, ..Verdict::of(Outcome::Incomplete) };
        };
        // Pieces whose whole copy never came are the last text all the same.
        let answer = if self.pieces.is_blank() { &self.answer } else { &self.pieces };
        if verdict.outcome == Outcome::Completed && !answer.is_blank() {
            facts.push(Final::new(answer.as_str().to_owned()));
        }
        verdict
    }
}

impl Stream {
    fn session<'a>(&mut self, wire: &mut Wire<'a>, facts: &mut Facts<'a>) {
        self.session_known = true;
        facts.push(
            Session::default()
                .session_id(wire.session_id.take())
                .model(wire.model.take())
                .cwd(wire.cwd.take())
                .permission_mode(wire.permission_mode.take()),
        );
    }

    fn assistant<'a>(&mut self, wire: Wire<'a>, facts: &mut Facts<'a>) {
        let Some(text) = wire.message.and_then(text_of) else { return };
        self.begin_turn(wire.model_call_id.as_deref(), facts);
        self.said_anything = true;
        let delta = if wire.timestamp_ms.is_some() && wire.model_call_id.is_none() {
            self.pieces.push(&text);
            text
        } else {
            self.answer.set(&text);
            let pieces = self.pieces.take();
            match text.strip_prefix(&*pieces) {
                _ if pieces.is_empty() => text,
                Some(rest) => Cow::Owned(rest.to_owned()),
                // The copy may be trimmed.
                None if text.trim() == pieces.trim() => return,
                None => text,
            }
        };
        facts.push(TextDelta::new(delta));
    }

    fn tool_call<'a>(&mut self, wire: Wire<'a>, facts: &mut Facts<'a>) {
        let (Some(id), Some(call)) = (wire.call_id, wire.tool_call) else { return };
        let id = first_line(id.into());
        let mut call = call.named();
        let ends = wire.subtype.as_deref() == Some("completed");
        let began = self.open.iter().position(|open| *open == id);
        if began.is_none() {
            self.begin_turn(wire.model_call_id.as_deref(), facts);
            self.response = wire.model_call_id.map(|id| id.0.into_owned());
            self.answer.clear();
            self.pieces.clear();
            self.open.push(id.clone().into_owned());
            facts.push(
                ToolStart::of_kind(call.kind(), id.clone(), call.name.clone()).input(call.input()).title(call.title.take()),
            );
        }
        if ends {
            self.answering = false;
            self.open.retain(|open| *open != id);
            call.end(id, |kind| facts.push(kind));
        }
    }

    fn result<'a>(&mut self, mut wire: Wire<'a>, facts: &mut Facts<'a>) {
        if !self.session_known {
            self.session(&mut wire, facts);
        }
        let failed = wire.is_error == Some(true) || wire.subtype.as_deref() != Some("success");
        let mut verdict = if failed {
            let message: Cow<'a, str> = wire.error.or(wire.result).map(Cow::from).unwrap_or_default();
            let cause = Cause::of_error(None, &message);
            facts.push(ErrorEvent::new(message).class(cause).fatal(true));
            Verdict::failed(Some(cause))
        } else {
            // Without events before it the result is all there is.
            if let Some(Str(text)) = wire.result
                && !self.said_anything
            {
                self.answer.set(&text);
                facts.push(TextDelta::new(text));
            }
            Verdict::of(Outcome::Completed)
        };
        verdict.duration_ms = wire.duration_ms;
        verdict.api_duration_ms = wire.duration_api_ms;
        if let Some(usage) = wire.usage {
            facts.push(
                event::Usage::new(UsageScope::Run)
                    .input_tokens(usage.input)
                    .output_tokens(usage.output)
                    .cache_read_tokens(usage.cache_read)
                    .cache_write_tokens(usage.cache_write),
            );
        }
        if std::mem::take(&mut self.in_turn) {
            facts.push(TurnEnd::default());
        }
        self.ended = Some(verdict);
    }

    /// After the prompt and after tool calls, the first thing that comes is of a new response, unless it is named as of
    /// the same one.
    fn begin_turn(&mut self, response: Option<&str>, facts: &mut Facts<'_>) {
        let same = response.is_some() && response == self.response.as_deref();
        if !std::mem::replace(&mut self.answering, true) && !same {
            self.in_turn = true;
            facts.push(TurnStart::default());
        }
    }
}

fn class(message: &str) -> Option<Cause> {
    Some(Cause::of_error(None, message)).filter(|cause| *cause != Cause::Unknown)
}

/// Ids of some providers have a second one behind a line end.
fn first_line(id: Cow<'_, str>) -> Cow<'_, str> {
    match id.split_once('\n') {
        Some((first, _)) => Cow::Owned(first.to_owned()),
        None => id,
    }
}

fn text_of<'a>(message: StringOr<'a, Message<'a>>) -> Option<Cow<'a, str>> {
    let content = match message {
        StringOr::String(text) => return Some(text.into()),
        StringOr::Other(message) => message.content,
    };
    match content {
        StringOr::String(text) => Some(text.into()),
        StringOr::Other(blocks) => {
            let texts = blocks.into_iter().filter_map(|block| block.text).map(Cow::from);
            texts.reduce(|text, more| text + more)
        }
    }
}

/// Claude Code's kin print `system`, `assistant`, `user` and `result` too, but with other fields.
pub(super) fn detect(line: &str) -> Confidence {
    use serde::de::IgnoredAny;
    #[derive(Deserialize)]
    struct Probe<'a> {
        #[serde(borrow)]
        r#type: Str<'a>,
        #[serde(borrow)]
        subtype: Option<Str<'a>>,
        session_id: Option<IgnoredAny>,
        #[serde(rename = "apiKeySource")]
        api_key_source: Option<IgnoredAny>,
        #[serde(rename = "permissionMode")]
        permission_mode: Option<IgnoredAny>,
        tools: Option<IgnoredAny>,
        uuid: Option<IgnoredAny>,
        parent_tool_use_id: Option<IgnoredAny>,
        message: Option<IgnoredAny>,
        tool_call: Option<IgnoredAny>,
        timestamp_ms: Option<IgnoredAny>,
        model_call_id: Option<IgnoredAny>,
        request_id: Option<IgnoredAny>,
        num_turns: Option<IgnoredAny>,
        is_error: Option<IgnoredAny>,
    }
    let maybe = |plausible| if plausible { Confidence::Possible } else { Confidence::None };
    let Some(probe) = json::parse::<Probe<'_>>(line) else { return Confidence::None };
    let kin = probe.uuid.is_some() || probe.parent_tool_use_id.is_some() || probe.tools.is_some() || probe.num_turns.is_some();
    if kin || probe.session_id.is_none() {
        return Confidence::None;
    }
    let timed = probe.timestamp_ms.is_some() || probe.model_call_id.is_some();
    match (&*probe.r#type, probe.subtype.as_deref()) {
        ("system", Some("init")) => Confidence::certain_if(probe.api_key_source.is_some() && probe.permission_mode.is_some()),
        ("thinking", Some("delta" | "completed")) => Confidence::Certain,
        ("tool_call", Some("started" | "completed")) => Confidence::certain_if(probe.tool_call.is_some()),
        ("assistant", None) if probe.message.is_some() => {
            if timed {
                Confidence::Certain
            } else {
                Confidence::Possible
            }
        }
        ("user", None) => maybe(probe.message.is_some()),
        ("connection" | "retry", Some(_)) => maybe(timed),
        ("result", Some(_)) => {
            if probe.request_id.is_some() {
                Confidence::Certain
            } else {
                maybe(probe.is_error.is_some())
            }
        }
        _ => Confidence::None,
    }
}

#[cfg(test)]
mod tests {
    use super::detect;
    use sabir_core::agent::Confidence;

    #[test]
    fn only_its_own_lines_are_sure() {
        for (rest, want) in [
            (r#""type":"system","subtype":"init","apiKeySource":"login","permissionMode":"default""#, Confidence::Certain),
            (r#""type":"system","subtype":"init","apiKeySource":"none","permissionMode":"default","tools":[]"#, Confidence::None),
            (r#""type":"assistant","message":{},"timestamp_ms":1"#, Confidence::Certain),
            (r#""type":"assistant","message":{}"#, Confidence::Possible),
            (r#""type":"assistant","message":{},"uuid":"u""#, Confidence::None),
            (r#""type":"result","subtype":"success","is_error":false,"request_id":"r""#, Confidence::Certain),
            (r#""type":"result","subtype":"success","is_error":false,"num_turns":1"#, Confidence::None),
        ] {
            assert_eq!(detect(&format!("{{\"session_id\":\"s\",{rest}}}")), want, "{rest}");
        }
    }
}
