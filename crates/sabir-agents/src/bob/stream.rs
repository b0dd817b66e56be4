//! The stream of events.
//!
//! 1.x prints the events of Gemini CLI: `init` first, pieces of text marked as such, calls named `tool-1`, `tool-2`….
//! 2.x has no `init`, marks nothing, tells reasoning by `isReasoning`, names no call at its start, and gives the handle of
//! the session only at the end. `--format json` prints no more than the last event, with the answer in it.
//!
//! The answer is the argument of `attempt_completion`, or the text after the last tool call where there is none. Lines
//! that are no JSON come in between: Bob says its answer once more for people.

use std::borrow::Cow;
use std::collections::VecDeque;

use sabir_core::agent::Confidence;
use sabir_core::dialect::{End, Facts, Held, Verdict};
use sabir_core::event::{
    Activity, Cause, ErrorEvent, Final, Outcome, Session, TextDelta, ThinkingDelta, ToolEnd, ToolStart, ToolStatus, TurnEnd,
    TurnStart,
};
use sabir_core::json::{self, JsonDialect, Str, StringOr};
use sabir_core::line::Line;
use sabir_core::time::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::COMPLETION;
use super::narration::{Narration, Part};
use super::usage::{self, Problem, Stats};

/// The fields of all events.
#[derive(Deserialize)]
pub(super) struct Wire<'a> {
    #[serde(borrow)]
    r#type: Str<'a>,
    #[serde(borrow)]
    timestamp: Option<Str<'a>>,
    #[serde(borrow)]
    session_id: Option<Str<'a>>,
    #[serde(borrow)]
    model: Option<Str<'a>>,
    #[serde(borrow)]
    role: Option<Str<'a>>,
    #[serde(borrow)]
    content: Option<Str<'a>>,
    #[serde(rename = "isReasoning")]
    is_reasoning: Option<bool>,
    #[serde(borrow)]
    tool_name: Option<Str<'a>>,
    #[serde(borrow)]
    tool_id: Option<Str<'a>>,
    #[serde(borrow)]
    parameters: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Option<Str<'a>>,
    #[serde(borrow)]
    output: Option<Str<'a>>,
    #[serde(borrow)]
    message: Option<Str<'a>>,
    #[serde(borrow)]
    last_message: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    error: Option<StringOr<'a, Problem<'a>>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    stats: Option<Stats<'a>>,
}

/// Reads the stream.
#[derive(Default)]
pub(super) struct Stream {
    narration: Narration,
    /// The text since the last tool call.
    said: Held,
    /// What `attempt_completion` was called with.
    completion: Option<String>,
    /// The call of `attempt_completion` that is open.
    completing: Option<String>,
    /// A response has begun, and its tool calls are not all done.
    in_turn: bool,
    /// Open calls that have a name, and those that we had to name, in their order.
    named: Vec<String>,
    unnamed: VecDeque<String>,
    calls: u64,
    session_known: bool,
    problem: Option<String>,
    ended: Option<Verdict>,
}

impl JsonDialect for Stream {
    type Wire<'a> = Wire<'a>;

    fn message<'a>(&mut self, wire: Wire<'a>, line: &Line<'a>, facts: &mut Facts<'a>) {
        facts.at = wire.timestamp.as_deref().and_then(Timestamp::parse);
        let assistant = wire.role.as_deref() == Some("assistant");
        if !(assistant && &*wire.r#type == "message") {
            self.end_message(facts);
        }
        match &*wire.r#type {
            "init" => {
                self.session_known = wire.session_id.is_some();
                facts.push(session(wire.session_id.map(Cow::from), wire.model.map(Cow::from)));
            }
            "message" if assistant => self.text(wire, facts),
            // The prompt, as it was given.
            "message" if wire.role.as_deref() == Some("user") => {}
            "tool_use" => self.tool_use(wire, facts),
            "tool_result" => self.tool_result(wire, facts),
            "error" => {
                if let Some(message) = wire.message.or_else(|| wire.error.map(message_of)) {
                    let class = Some(Cause::of_error(None, &message)).filter(|cause| *cause != Cause::Unknown);
                    self.problem = Some(message.0.clone().into_owned());
                    facts.push(ErrorEvent::new(message).class(class));
                }
            }
            "result" => self.result(wire, facts),
            _ => json::unrecognized(line, facts),
        }
    }

    fn other<'a>(&mut self, line: &Line<'a>, facts: &mut Facts<'a>) {
        if line.text.trim_start().starts_with('{') {
            json::unrecognized(line, facts);
        } else {
            facts.push(Activity::new(line.text.clone()));
        }
    }

    fn over(&self) -> Option<bool> {
        Some(self.ended.is_some())
    }

    fn end(&mut self, _: &End, facts: &mut Facts<'static>) -> Verdict {
        self.end_message(facts);
        let Some(verdict) = self.ended.take() else {
            let cause = self.problem.as_deref().map(|message| Cause::of_error(None, message));
            return Verdict { cause, ..Verdict::of(Outcome::Incomplete) };
        };
        let answer = self.completion.as_deref().unwrap_or(self.said.as_str()).trim();
        if verdict.outcome == Outcome::Completed && !answer.is_empty() {
            facts.push(Final::new(answer.to_owned()));
        }
        verdict
    }
}

impl Stream {
    fn text<'a>(&mut self, wire: Wire<'a>, facts: &mut Facts<'a>) {
        let Some(Str(content)) = wire.content else { return };
        self.begin_turn(facts);
        if wire.is_reasoning == Some(true) {
            self.end_message(facts);
            facts.push(ThinkingDelta::new(content));
            return;
        }
        let mut parts = Vec::new();
        self.narration.piece(content, &mut parts);
        self.tell(parts, facts);
    }

    /// Nothing of the message will follow: what may have been the head of a tag was none.
    fn end_message(&mut self, facts: &mut Facts<'_>) {
        let mut parts = Vec::new();
        self.narration.end(&mut parts);
        self.tell(parts, facts);
    }

    fn tell<'a>(&mut self, parts: Vec<Part<'a>>, facts: &mut Facts<'a>) {
        for part in parts {
            if let Part::Text(text) = &part {
                self.said.push(text);
            }
            part.push(facts);
        }
    }

    fn tool_use<'a>(&mut self, wire: Wire<'a>, facts: &mut Facts<'a>) {
        self.begin_turn(facts);
        self.said.clear();
        self.calls += 1;
        let name: Cow<'a, str> = wire.tool_name.map(Cow::from).unwrap_or_default();
        let id: Cow<'a, str> = if let Some(id) = wire.tool_id {
            self.named.push(id.0.clone().into_owned());
            id.into()
        } else {
            let id = format!("call-{}", self.calls);
            self.unnamed.push_back(id.clone());
            Cow::Owned(id)
        };
        if name == COMPLETION {
            self.completion = wire.parameters.and_then(completion);
            self.completing = Some(id.clone().into_owned());
        }
        facts.push(ToolStart::new(id, name).input(wire.parameters.map(RawValue::get)));
    }

    fn tool_result<'a>(&mut self, wire: Wire<'a>, facts: &mut Facts<'a>) {
        let id = self.close(wire.tool_id.map(Cow::from));
        let status = match wire.status.as_deref() {
            Some("success") => ToolStatus::Ok,
            Some("cancelled" | "aborted") => ToolStatus::Cancelled,
            Some("rejected" | "denied") => ToolStatus::Denied,
            _ => ToolStatus::Error,
        };
        if self.completing.as_deref() == Some(&*id) {
            self.completing = None;
            if status != ToolStatus::Ok {
                self.completion = None;
            }
        } else {
            self.said.clear();
        }
        let output = wire.output.or_else(|| wire.error.map(message_of));
        facts.push(tool_end(id, status, output.map(Cow::from)));
        if self.named.is_empty() && self.unnamed.is_empty() {
            self.end_turn(facts);
        }
    }

    /// The call that a result is of: 2.x names it only here, so that it is the oldest one without a name.
    fn close<'a>(&mut self, id: Option<Cow<'a, str>>) -> Cow<'a, str> {
        if let Some(id) = &id
            && let Some(at) = self.named.iter().position(|open| open == id)
        {
            self.named.swap_remove(at);
        } else if let Some(open) = self.unnamed.pop_front() {
            return Cow::Owned(open);
        }
        id.unwrap_or(Cow::Borrowed("unnamed"))
    }

    fn result<'a>(&mut self, wire: Wire<'a>, facts: &mut Facts<'a>) {
        let said_nothing = self.calls == 0 && self.said.is_blank();
        if let Some(answer) = wire.last_message
            && said_nothing
        {
            self.said.set(&answer);
            facts.push(TextDelta::new(answer));
        }
        let message = wire.error.map(message_of).or(wire.message);
        let said = message.as_deref().or(self.problem.as_deref());
        let mut verdict = usage::verdict(wire.status.as_deref().unwrap_or_default(), said);
        if let Some(message) = message.filter(|_| verdict.outcome != Outcome::Completed) {
            facts.push(ErrorEvent::new(message).class(verdict.cause).fatal(true));
        }
        // The end of the run is the end of this call, for versions that report no result of it.
        if let Some(id) = self.completing.take().filter(|_| verdict.outcome == Outcome::Completed) {
            facts.push(tool_end(Cow::Owned(id), ToolStatus::Ok, None));
        }
        if let Some(mut stats) = wire.stats {
            verdict.duration_ms = stats.duration_ms.filter(|duration| *duration > 0);
            if let Some(handle) = stats.task_id.take().filter(|_| !self.session_known) {
                facts.push(session(Some(handle.into()), None));
            }
            stats.report(facts);
        }
        self.end_turn(facts);
        self.ended = Some(verdict);
    }

    /// After the prompt and after tool results, the first thing that comes is of a new response.
    fn begin_turn(&mut self, facts: &mut Facts<'_>) {
        if !std::mem::replace(&mut self.in_turn, true) {
            facts.push(TurnStart::default());
        }
    }

    fn end_turn(&mut self, facts: &mut Facts<'_>) {
        if std::mem::take(&mut self.in_turn) {
            facts.push(TurnEnd::default());
        }
    }
}

fn session<'a>(session_id: Option<Cow<'a, str>>, model: Option<Cow<'a, str>>) -> Session<'a> {
    Session::default().session_id(session_id).model(model)
}

fn tool_end<'a>(tool_call_id: Cow<'a, str>, status: ToolStatus, output: Option<Cow<'a, str>>) -> ToolEnd<'a> {
    ToolEnd::new(tool_call_id, status).output(output)
}

fn message_of<'a>(error: StringOr<'a, Problem<'a>>) -> Str<'a> {
    match error {
        StringOr::String(message) => message,
        StringOr::Other(problem) => problem.message,
    }
}

/// The answer that `attempt_completion` was called with.
fn completion(parameters: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Arguments<'a> {
        #[serde(borrow)]
        result: Str<'a>,
    }
    json::parse::<Arguments<'_>>(parameters.get()).map(|arguments| arguments.result.0.into_owned())
}

/// Gemini CLI prints the same events as 1.x; what only Bob prints decides.
pub(super) fn detect(line: &str) -> Confidence {
    #[derive(Deserialize)]
    struct Probe<'a> {
        #[serde(borrow)]
        r#type: Str<'a>,
        #[serde(borrow)]
        model: Option<Str<'a>>,
        session_id: Option<serde::de::IgnoredAny>,
        role: Option<serde::de::IgnoredAny>,
        #[serde(borrow)]
        content: Option<Str<'a>>,
        #[serde(rename = "isReasoning")]
        is_reasoning: Option<bool>,
        #[serde(borrow)]
        tool_name: Option<Str<'a>>,
        #[serde(borrow)]
        tool_id: Option<Str<'a>>,
        parameters: Option<serde::de::IgnoredAny>,
        #[serde(borrow)]
        status: Option<Str<'a>>,
        last_message: Option<serde::de::IgnoredAny>,
        #[serde(default, deserialize_with = "json::lenient")]
        stats: Option<Counted>,
    }
    #[derive(Deserialize)]
    struct Counted {
        session_costs: Option<serde::de::IgnoredAny>,
        task_id: Option<serde::de::IgnoredAny>,
        models: Option<serde::de::IgnoredAny>,
    }
    let maybe = |plausible| if plausible { Confidence::Possible } else { Confidence::None };
    let Some(probe) = json::parse::<Probe<'_>>(line) else { return Confidence::None };
    match &*probe.r#type {
        "init" => match probe.model.as_deref() {
            Some("premium") if probe.session_id.is_some() => Confidence::Certain,
            model => maybe(probe.session_id.is_some() && !model.is_some_and(|model| model.starts_with("gemini"))),
        },
        "message" if probe.is_reasoning.is_some() && probe.content.is_some() => Confidence::Certain,
        "message" => maybe(probe.role.is_some() && probe.content.is_some()),
        "tool_use" => match (probe.tool_name.as_deref(), probe.tool_id.as_deref()) {
            (Some(COMPLETION), _) => Confidence::Certain,
            (Some(_), None) => Confidence::certain_if(probe.parameters.is_some()),
            (Some(_), Some(id)) => match id.strip_prefix("tool-") {
                Some(number) => Confidence::certain_if(number.bytes().all(|digit| digit.is_ascii_digit())),
                None => maybe(!id.contains("__")),
            },
            (None, _) => Confidence::None,
        },
        "tool_result" => maybe(probe.tool_id.is_some() && probe.status.is_some()),
        "result" if probe.last_message.is_some() && probe.status.is_some() => Confidence::Certain,
        "result" => match &probe.stats {
            Some(stats) if stats.session_costs.is_some() || stats.task_id.is_some() => Confidence::Certain,
            Some(stats) => maybe(stats.models.is_none() && probe.status.is_some()),
            None => Confidence::None,
        },
        _ => Confidence::None,
    }
}

#[cfg(test)]
mod tests {
    use super::detect;
    use sabir_core::agent::Confidence;

    #[test]
    fn only_its_own_lines_are_sure() {
        for (line, want) in [
            (r#"{"type":"init","session_id":"s","model":"premium"}"#, Confidence::Certain),
            (r#"{"type":"init","session_id":"s","model":"gemini-2.5-pro"}"#, Confidence::None),
            (r#"{"type":"message","role":"assistant","content":"a","isReasoning":true}"#, Confidence::Certain),
            (r#"{"type":"message","role":"assistant","content":"a"}"#, Confidence::Possible),
            (r#"{"type":"tool_use","tool_name":"glob","tool_id":"tool-1","parameters":{}}"#, Confidence::Certain),
            (r#"{"type":"tool_use","tool_name":"glob","parameters":{}}"#, Confidence::Certain),
            (r#"{"type":"tool_use","tool_name":"glob","tool_id":"glob__1","parameters":{}}"#, Confidence::None),
            (r#"{"type":"result","status":"success","stats":{"session_costs":0.1}}"#, Confidence::Certain),
            (r#"{"type":"result","subtype":"success","result":"a"}"#, Confidence::None),
        ] {
            assert_eq!(detect(line), want, "{line}");
        }
    }
}
