//! `-o stream-json`: one event per line. Whole messages, no pieces; figures only at the end, and none when it fails.
//!
//! What lies in wait here: reasoning is printed twice with some providers; the `completion` of a long answer has an
//! empty text; the last `error` of a failed run says "Exec failed", or repeats what the assistant said last.

use std::borrow::Cow;
use std::collections::BTreeMap;

use sabir_core::agent::Confidence;
use sabir_core::dialect::{End, Facts, Held, Verdict};
use sabir_core::event::{
    self, Cause, ErrorEvent, Final, Outcome, Plan, PlanItem, Session, Text, TextDelta, ThinkingDelta, ToolEnd, ToolKind,
    ToolStart, ToolStatus, TurnEnd, TurnStart, UsageScope,
};
use sabir_core::json::{self, JsonDialect, Str};
use sabir_core::line::Line;
use sabir_core::time::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{ending, tools};

/// The fields of all events.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Wire<'a> {
    #[serde(borrow)]
    r#type: Str<'a>,
    #[serde(borrow)]
    subtype: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    timestamp: Option<i64>,
    #[serde(borrow, rename = "session_id")]
    session_id: Option<Str<'a>>,
    #[serde(borrow)]
    cwd: Option<Str<'a>>,
    #[serde(borrow)]
    model: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    tools: Option<Vec<Str<'a>>>,
    #[serde(borrow)]
    role: Option<Str<'a>>,
    #[serde(borrow)]
    id: Option<Str<'a>>,
    #[serde(borrow)]
    text: Option<Str<'a>>,
    #[serde(borrow)]
    message_id: Option<Str<'a>>,
    #[serde(borrow)]
    tool_id: Option<Str<'a>>,
    #[serde(borrow)]
    tool_name: Option<Str<'a>>,
    #[serde(borrow)]
    parameters: Option<&'a RawValue>,
    is_error: Option<bool>,
    #[serde(borrow)]
    value: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    error: Option<Failure<'a>>,
    #[serde(borrow)]
    source: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    message: Option<Str<'a>>,
    #[serde(borrow)]
    final_text: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    result: Option<Str<'a>>,
    #[serde(rename = "is_error")]
    result_is_error: Option<bool>,
    #[serde(alias = "num_turns", default, deserialize_with = "json::lenient")]
    num_turns: Option<u32>,
    #[serde(alias = "duration_ms", default, deserialize_with = "json::lenient")]
    duration_ms: Option<u64>,
    #[serde(default, deserialize_with = "json::lenient")]
    usage: Option<Usage>,
}

/// The error of a tool.
#[derive(Deserialize)]
struct Failure<'a> {
    #[serde(borrow)]
    message: Option<Str<'a>>,
}

/// Tokens of the run. The four classes do not overlap; thinking is a part of output.
#[derive(Deserialize, Clone, Copy)]
struct Usage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    thinking_tokens: Option<u64>,
}

/// How many calls with a plan may be open.
const OPEN_PLANS: usize = 64;

/// Reads the stream.
#[derive(Default)]
pub(super) struct Stream {
    session_known: bool,
    model: Option<String>,
    /// The message that the assistant is in.
    message_id: Option<String>,
    /// What it said in it.
    answer: Held,
    /// What it thought last in it.
    thought: Held,
    /// A tool was called after what it said.
    called_since: bool,
    /// The plans of calls that are open: a refused call changes none.
    plans: BTreeMap<String, Vec<PlanItem<'static>>>,
    failure: Option<(Outcome, Cause)>,
    ended: Option<Verdict>,
    last_word: Option<String>,
}

impl JsonDialect for Stream {
    type Wire<'a> = Wire<'a>;

    fn message<'a>(&mut self, wire: Wire<'a>, line: &Line<'a>, facts: &mut Facts<'a>) {
        facts.at = wire.timestamp.and_then(Timestamp::from_millis);
        match (&*wire.r#type, wire.subtype.as_deref(), wire.role.as_deref()) {
            ("system", Some("init"), _) => self.init(wire, facts),
            ("message", _, Some("assistant")) => self.text(wire, facts),
            // The prompt, as it was given.
            ("message", _, Some("user")) => {}
            ("reasoning", ..) => self.reasoning(wire, facts),
            ("tool_call", ..) if wire.id.is_some() => self.tool_call(wire, facts),
            ("tool_result", ..) if wire.id.is_some() => self.tool_result(wire, facts),
            ("error", ..) => self.error(wire, facts),
            ("completion", ..) => self.completion(&wire, facts),
            ("result", ..) => self.result(wire, facts),
            _ => json::unrecognized(line, facts),
        }
    }

    fn over(&self) -> Option<bool> {
        Some(self.ended.is_some())
    }

    fn end(&mut self, _: &End, facts: &mut Facts<'static>) -> Verdict {
        let verdict = match (self.failure, self.ended.take()) {
            (Some((outcome, cause)), ended) => {
                let ended = ended.unwrap_or_else(|| Verdict::of(outcome));
                Verdict { outcome, cause: Some(cause), ..ended }
            }
            (None, Some(ended)) => ended,
            (None, None) => Verdict::of(Outcome::Incomplete),
        };
        if let Some(text) = self.last_word.take().filter(|_| verdict.outcome == Outcome::Completed) {
            facts.push(Final::new(text));
        }
        verdict
    }
}

impl Stream {
    fn init<'a>(&mut self, wire: Wire<'a>, facts: &mut Facts<'a>) {
        self.session_known = true;
        self.model = wire.model.as_deref().map(str::to_owned);
        facts.push(
            Session::default()
                .session_id(wire.session_id)
                .model(wire.model)
                .cwd(wire.cwd)
                .tools(wire.tools.map(|tools| tools.into_iter().map(Cow::from).collect())),
        );
    }

    /// A message of another id is another response.
    fn enter(&mut self, id: Option<&str>, facts: &mut Facts<'_>) {
        if self.message_id.is_none() || self.message_id.as_deref() != id {
            self.message_id = Some(id.unwrap_or_default().to_owned());
            self.answer.clear();
            self.thought.clear();
            self.called_since = false;
            facts.push(TurnStart::default());
        }
    }

    fn text<'a>(&mut self, wire: Wire<'a>, facts: &mut Facts<'a>) {
        let Some(text) = wire.text else { return };
        self.enter(wire.id.as_deref(), facts);
        if !text.is_empty() && self.answer.as_str() == &*text {
            return;
        }
        self.answer.set(&text);
        self.called_since = false;
        facts.push(TextDelta::new(text).message_id(wire.id));
    }

    fn reasoning<'a>(&mut self, wire: Wire<'a>, facts: &mut Facts<'a>) {
        let Some(text) = wire.text else { return };
        self.enter(wire.id.as_deref(), facts);
        if self.thought.as_str() == &*text {
            return;
        }
        self.thought.set(&text);
        facts.push(ThinkingDelta::new(text).message_id(wire.id));
    }

    fn tool_call<'a>(&mut self, wire: Wire<'a>, facts: &mut Facts<'a>) {
        self.enter(wire.message_id.as_deref(), facts);
        self.called_since = true;
        let id: Cow<'a, str> = wire.id.map(Cow::from).unwrap_or_default();
        let name: Cow<'a, str> = wire.tool_name.or(wire.tool_id).map(Cow::from).unwrap_or_default();
        let tool_kind = ToolKind::of_name(&name);
        let input = wire.parameters.map(RawValue::get);
        if tool_kind == ToolKind::Plan
            && self.plans.len() < OPEN_PLANS
            && let Some(items) = input.and_then(tools::plan).filter(|items| !items.is_empty())
        {
            self.plans.insert(id.clone().into_owned(), items);
        }
        facts.push(ToolStart::of_kind(tool_kind, id, name).input(input));
    }

    fn tool_result<'a>(&mut self, wire: Wire<'a>, facts: &mut Facts<'a>) {
        let id: Cow<'a, str> = wire.id.map(Cow::from).unwrap_or_default();
        let tool_kind = ToolKind::of_name(wire.tool_id.as_deref().unwrap_or_default());
        let complaint = wire.error.and_then(|error| error.message);
        let failed = wire.is_error.unwrap_or(complaint.is_some());
        let output: Option<Text<'a>> = match (complaint, wire.value) {
            (Some(message), _) => Some(message.into()),
            (None, Some(value)) => Some(Text::from_json(value).unwrap_or_else(|| Text::from(value.get()))),
            (None, None) => None,
        };
        let shown = output.as_deref().unwrap_or_default();
        let exit_code = (tool_kind == ToolKind::Execute).then(|| tools::exit_code(shown)).flatten();
        let status = tools::status(failed, exit_code, shown);
        let plan = self.plans.remove(&*id);
        if status == ToolStatus::Ok {
            if let Some(change) = Some(shown).filter(|_| tool_kind == ToolKind::Edit).and_then(|it| tools::file_change(it, &id)) {
                facts.push(change);
            }
            if let Some(items) = plan {
                facts.push(Plan::new(items));
            }
        }
        facts.push(ToolEnd::new(id, status).output(output).exit_code(exit_code));
    }

    fn error<'a>(&mut self, wire: Wire<'a>, facts: &mut Facts<'a>) {
        let message: Cow<'a, str> = wire.message.map(Cow::from).unwrap_or_default();
        let from_command = wire.source.as_deref() == Some("cli");
        let nothing_new = message == "Exec failed" || (!self.answer.is_blank() && message == self.answer.as_str());
        if from_command && nothing_new && self.failure.is_some() {
            return;
        }
        let ending = ending::of_message(&message);
        if self.failure.is_none_or(|(_, cause)| cause == Cause::Unknown) {
            self.failure = Some(ending);
        }
        facts.push(ErrorEvent::new(message).class(ending.1).fatal(true));
    }

    fn completion(&mut self, wire: &Wire<'_>, facts: &mut Facts<'_>) {
        let spoken = Some(self.answer.as_str()).filter(|text| !self.called_since && !text.trim().is_empty());
        let text = wire.final_text.as_deref().filter(|text| !text.trim().is_empty()).or(spoken).map(str::to_owned);
        // An answer after an error is an answer; an empty one does not make it good.
        if text.is_some() {
            self.failure = None;
        }
        self.last_word = text;
        self.close(wire.num_turns, wire.duration_ms, wire.usage, facts);
    }

    /// `-o json`: all that is printed.
    fn result<'a>(&mut self, wire: Wire<'a>, facts: &mut Facts<'a>) {
        if !std::mem::replace(&mut self.session_known, true) {
            facts.push(Session::default().session_id(wire.session_id));
        }
        let succeeded = wire.result_is_error != Some(true) && wire.subtype.as_deref() == Some("success");
        self.close(wire.num_turns, wire.duration_ms, wire.usage, facts);
        if succeeded {
            self.last_word = wire.result.filter(|text| !text.trim().is_empty()).map(|text| text.to_string());
            return;
        }
        let message: Cow<'a, str> = wire.result.map(Cow::from).unwrap_or_default();
        let ending = ending::of_message(&message);
        self.failure = Some(ending);
        facts.push(ErrorEvent::new(message).class(ending.1).fatal(true));
    }

    fn close(&mut self, turns: Option<u32>, duration_ms: Option<u64>, usage: Option<Usage>, facts: &mut Facts<'_>) {
        if self.message_id.take().is_some() {
            facts.push(TurnEnd::default());
        }
        // A run that failed before its first answer counts nothing at all.
        let counted = |usage: &Usage| usage.input_tokens.unwrap_or(0) > 0 || usage.output_tokens.unwrap_or(0) > 0;
        if let Some(usage) = usage.filter(counted) {
            facts.push(
                event::Usage::new(UsageScope::Run)
                    .input_tokens(usage.input_tokens)
                    .output_tokens(usage.output_tokens)
                    .cache_read_tokens(usage.cache_read_input_tokens)
                    .cache_write_tokens(usage.cache_creation_input_tokens)
                    .reasoning_tokens(usage.thinking_tokens)
                    .model(self.model.clone()),
            );
        }
        // It says 0 turns where it lost count.
        let turns = turns.filter(|turns| *turns > 0);
        self.ended = Some(Verdict { turns, duration_ms, ..Verdict::of(Outcome::Completed) });
    }
}

/// Others print some of these types too; their fields are Droid's own.
pub(super) fn detect(line: &str) -> Confidence {
    use serde::de::IgnoredAny;
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Probe<'a> {
        #[serde(borrow)]
        r#type: Str<'a>,
        #[serde(borrow)]
        subtype: Option<Str<'a>>,
        #[serde(rename = "session_id")]
        session_id: Option<IgnoredAny>,
        #[serde(rename = "reasoning_effort")]
        reasoning_effort: Option<IgnoredAny>,
        uuid: Option<IgnoredAny>,
        #[serde(borrow)]
        role: Option<Str<'a>>,
        text: Option<IgnoredAny>,
        tool_id: Option<IgnoredAny>,
        #[serde(borrow, default, deserialize_with = "json::lenient")]
        source: Option<Str<'a>>,
        final_text: Option<IgnoredAny>,
        #[serde(default, deserialize_with = "json::lenient")]
        usage: Option<Credits>,
    }
    #[derive(Deserialize)]
    struct Credits {
        factory_credits: Option<IgnoredAny>,
    }
    let Some(probe) = json::parse::<Probe<'_>>(line).filter(|probe| probe.session_id.is_some()) else { return Confidence::None };
    let credits = probe.usage.is_some_and(|usage| usage.factory_credits.is_some());
    match &*probe.r#type {
        "system" if probe.subtype.as_deref() == Some("init") => {
            Confidence::certain_if(probe.reasoning_effort.is_some() && probe.uuid.is_none())
        }
        "message" if probe.role.is_some() && probe.text.is_some() => Confidence::Certain,
        "tool_call" | "tool_result" => Confidence::certain_if(probe.tool_id.is_some()),
        "completion" => Confidence::certain_if(probe.final_text.is_some() || credits),
        "result" => Confidence::certain_if(credits),
        "reasoning" if probe.text.is_some() => Confidence::Possible,
        "error" if matches!(probe.source.as_deref(), Some("agent_loop" | "cli")) => Confidence::Possible,
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
            (r#"{"type":"system","subtype":"init","session_id":"s","tools":[],"reasoning_effort":"none"}"#, Confidence::Certain),
            (r#"{"type":"system","subtype":"init","session_id":"s","tools":[]}"#, Confidence::None),
            (r#"{"type":"message","role":"user","text":"x","session_id":"s"}"#, Confidence::Certain),
            (r#"{"type":"message","role":"user","content":"x","timestamp":"2026-01-01T00:00:00Z"}"#, Confidence::None),
            (r#"{"type":"result","subtype":"success","session_id":"s","usage":{"factory_credits":0}}"#, Confidence::Certain),
            (r#"{"type":"result","subtype":"success","session_id":"s","usage":{}}"#, Confidence::None),
            (r#"{"type":"error","source":"cli","message":"Exec failed","session_id":"s"}"#, Confidence::Possible),
        ] {
            assert_eq!(detect(line), want, "{line}");
        }
    }
}
