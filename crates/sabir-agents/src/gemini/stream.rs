//! `--output-format stream-json`: one event per line, each with the time it happened.
//!
//! No field says which text is the answer: it is what the assistant says after its last tool call. A response that is
//! cut off and asked for again goes on in the same text, with nothing to tell the withdrawn part by.

use std::borrow::Cow;

use sabir_core::agent::Confidence;
use sabir_core::dialect::{End, Facts, Held, Verdict};
use sabir_core::event::{
    Cause, ErrorEvent, Final, Outcome, Plan, PlanItem, PlanStatus, Session, Text, TextDelta, ToolEnd, ToolKind, ToolStart,
    ToolStatus, TurnEnd, TurnStart,
};
use sabir_core::json::{self, JsonDialect, Str};
use sabir_core::line::Line;
use sabir_core::time::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::ending::{self, Failure};
use super::tokens::Stats;

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
    delta: Option<bool>,
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
    severity: Option<Str<'a>>,
    #[serde(borrow)]
    message: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    error: Option<Failure<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    stats: Option<Stats<'a>>,
}

/// Reads the stream.
#[derive(Default)]
pub(super) struct Stream {
    /// The text since the last tool call.
    answer: Held,
    /// A response has begun, and its tool calls are not all done.
    in_turn: bool,
    session: Option<(Option<String>, String)>,
    /// Calls that are open, and what they do.
    open: Vec<(String, ToolKind)>,
    /// An error in the stream that no success after it makes good.
    broken: Option<(Outcome, Cause)>,
    ended: Option<Verdict>,
}

impl JsonDialect for Stream {
    type Wire<'a> = Wire<'a>;

    fn message<'a>(&mut self, wire: Wire<'a>, line: &Line<'a>, facts: &mut Facts<'a>) {
        facts.at = wire.timestamp.as_deref().and_then(Timestamp::parse);
        match &*wire.r#type {
            "init" => self.init(wire, facts),
            "message" => match wire.role.as_deref() {
                Some("assistant") => self.text(wire, facts),
                // The prompt, as it was given.
                Some("user") => {}
                _ => json::unrecognized(line, facts),
            },
            "tool_use" if wire.tool_id.is_some() => self.tool_use(wire, facts),
            "tool_result" if wire.tool_id.is_some() => self.tool_result(wire, facts),
            "error" => self.error(wire, facts),
            "result" => self.result(wire, facts),
            _ => json::unrecognized(line, facts),
        }
    }

    fn over(&self) -> Option<bool> {
        Some(self.ended.is_some())
    }

    fn end(&mut self, end: &End, facts: &mut Facts<'static>) -> Verdict {
        let verdict = self.ended.take().unwrap_or_else(|| Verdict::of(Outcome::Incomplete));
        if verdict.outcome == Outcome::Completed && !self.answer.is_blank() {
            facts.push(Final::new(self.answer.take()));
        }
        ending::with_exit_code(verdict, end)
    }
}

impl Stream {
    fn init<'a>(&mut self, wire: Wire<'a>, facts: &mut Facts<'a>) {
        let model = wire.model.as_deref().unwrap_or_default().to_owned();
        self.session = Some((wire.session_id.as_deref().map(str::to_owned), model));
        facts.push(session(wire.session_id.map(Cow::from), wire.model.map(Cow::from)));
    }

    fn text<'a>(&mut self, wire: Wire<'a>, facts: &mut Facts<'a>) {
        let Some(Str(content)) = wire.content else { return };
        self.begin_turn(facts);
        // A message that is not a piece is the complete copy of the pieces before it.
        let news = match content.strip_prefix(self.answer.as_str()).filter(|_| wire.delta != Some(true)) {
            Some(rest) => Cow::Owned(rest.to_owned()),
            None => content,
        };
        self.answer.push(&news);
        facts.push(TextDelta::new(news));
    }

    fn tool_use<'a>(&mut self, wire: Wire<'a>, facts: &mut Facts<'a>) {
        self.begin_turn(facts);
        self.answer.clear();
        let id: Cow<'a, str> = wire.tool_id.map(Cow::from).unwrap_or_default();
        let name: Cow<'a, str> = wire.tool_name.map(Cow::from).unwrap_or_default();
        let tool_kind = ToolKind::of_name(&name);
        self.open.push((id.clone().into_owned(), tool_kind));
        let plan = (tool_kind == ToolKind::Plan).then(|| wire.parameters.and_then(plan)).flatten();
        facts.push(ToolStart::of_kind(tool_kind, id, name).input(wire.parameters.map(RawValue::get)));
        if let Some(items) = plan {
            facts.push(Plan::new(items));
        }
    }

    fn tool_result<'a>(&mut self, wire: Wire<'a>, facts: &mut Facts<'a>) {
        self.answer.clear();
        let id: Cow<'a, str> = wire.tool_id.map(Cow::from).unwrap_or_default();
        let kind = self.open.iter().position(|(open, _)| *open == id).map(|at| self.open.swap_remove(at).1);
        let kind = kind.unwrap_or(ToolKind::Other);
        let problem = wire.error.as_ref().and_then(|error| error.r#type.as_deref());
        let shown = Text::from(wire.output.as_deref().unwrap_or_default());
        let (exit_code, killed) = if kind == ToolKind::Execute { shell_ending(&shown) } else { (None, false) };
        let status = match (wire.status.as_deref(), problem) {
            // A tool of its own that this approval mode does not offer; of other names nothing is known.
            (Some("error"), Some("tool_not_registered")) if kind != ToolKind::Other => ToolStatus::Denied,
            (Some("error"), Some("policy_violation")) => ToolStatus::Denied,
            (Some("cancelled"), _) => ToolStatus::Cancelled,
            (Some("success"), _) if exit_code.is_none_or(|code| code == 0) && !killed => ToolStatus::Ok,
            _ => ToolStatus::Error,
        };
        let output = wire.output.or_else(|| wire.error.and_then(|error| error.message));
        facts.push(ToolEnd::new(id, status).output(output).exit_code(exit_code));
        if self.open.is_empty() {
            self.end_turn(facts);
        }
    }

    fn error<'a>(&mut self, wire: Wire<'a>, facts: &mut Facts<'a>) {
        let message: Cow<'a, str> = wire.message.map(Cow::from).unwrap_or_default();
        let (outcome, cause) = ending::of_message(None, &message);
        if wire.severity.as_deref() != Some("warning") {
            self.broken = Some((outcome, cause));
        }
        let class = Some(cause).filter(|cause| *cause != Cause::Unknown);
        facts.push(ErrorEvent::new(message).class(class));
    }

    fn result<'a>(&mut self, wire: Wire<'a>, facts: &mut Facts<'a>) {
        let mut verdict = match (wire.status.as_deref(), self.broken) {
            (Some("success"), None) => Verdict::of(Outcome::Completed),
            (Some("success"), Some((outcome, cause))) => Verdict { cause: Some(cause), ..Verdict::of(outcome) },
            _ => failed(wire.error, facts),
        };
        if let Some(stats) = wire.stats {
            // An error before the first answer leaves the clock at zero.
            verdict.duration_ms = stats.duration_ms.filter(|duration| *duration > 0);
            self.tell_model(&stats, facts);
            stats.report(facts);
        }
        self.end_turn(facts);
        self.ended = Some(verdict);
    }

    /// The model asked for may be an alias; the counters have the real name.
    fn tell_model(&self, stats: &Stats<'_>, facts: &mut Facts<'_>) {
        if let (Some((id, asked)), Some(model)) = (&self.session, stats.only_model())
            && asked != model
        {
            facts.push(session(id.clone().map(Cow::Owned), Some(Cow::Owned(model.to_owned()))));
        }
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

pub(super) fn session<'a>(session_id: Option<Cow<'a, str>>, model: Option<Cow<'a, str>>) -> Session<'a> {
    Session::default().session_id(session_id).model(model)
}

/// The verdict of a result that is no success, and its error.
fn failed<'a>(failure: Option<Failure<'a>>, facts: &mut Facts<'a>) -> Verdict {
    let (outcome, cause) = failure.as_ref().map_or((Outcome::Failed, Cause::Unknown), Failure::ending);
    if let Some(message) = failure.and_then(|failure| failure.message) {
        facts.push(ErrorEvent::new(message).class(cause).fatal(true));
    }
    Verdict { cause: Some(cause), ..Verdict::of(outcome) }
}

/// How a report for the model begins.
const REPORTS: [&str; 3] = ["<untrusted_context>", "Command: ", "Output: "];

/// Exit code and death of a command, where the text that is shown for it tells them. It mostly does not: a command that
/// printed anything is shown as that, whatever its exit code was.
pub(super) fn shell_ending(shown: &Text<'_>) -> (Option<i32>, bool) {
    if let Some(ending) = shown.escaped().and_then(written_ending) {
        return ending;
    }
    let shown = shown.trim();
    if let Some(code) = shown.strip_prefix("Command exited with code: ") {
        return (code.parse().ok(), false);
    }
    if shown.starts_with("Command terminated by signal: ") && !shown.contains('\n') {
        return (None, true);
    }
    // In debug mode the report for the model is shown, line by line.
    if REPORTS.iter().any(|head| shown.starts_with(head)) {
        let code = shown.lines().rev().find_map(|line| line.strip_prefix("Exit Code: "));
        return (code.and_then(|code| code.trim().parse().ok()), false);
    }
    (None, false)
}

/// The same of a text as it is written in JSON, where that tells it: outputs are long, and what is looked for is not.
fn written_ending(written: &str) -> Option<(Option<i32>, bool)> {
    const SIGN: &str = "\\nExit Code: ";
    if !REPORTS.iter().any(|head| written.starts_with(head)) {
        // White space may stand before, as escapes too.
        let mut rest = written.trim_start();
        while let Some(behind) = ["\\n", "\\t", "\\r"].iter().find_map(|space| rest.strip_prefix(space)) {
            rest = behind.trim_start();
        }
        let may_tell = ["\\", "Command "].iter().chain(&REPORTS).any(|start| rest.starts_with(start));
        return (!may_tell).then_some((None, false));
    }
    let Some(at) = memchr::memmem::rfind(written.as_bytes(), SIGN.as_bytes()) else { return Some((None, false)) };
    let line = &written[at + SIGN.len()..];
    let code = line.find('\\').map_or(Some(line), |end| line[end..].starts_with("\\n").then(|| &line[..end]))?;
    // The line feed may be a backslash and a letter.
    (!written[..at].ends_with('\\')).then(|| (code.trim().parse().ok(), false))
}

/// The steps of `write_todos`.
pub(super) fn plan(parameters: &RawValue) -> Option<Vec<PlanItem<'_>>> {
    #[derive(Deserialize)]
    struct Arguments<'a> {
        #[serde(borrow)]
        todos: Vec<Todo<'a>>,
    }
    #[derive(Deserialize)]
    struct Todo<'a> {
        #[serde(borrow)]
        description: Str<'a>,
        #[serde(borrow)]
        status: Str<'a>,
    }
    let arguments: Arguments<'_> = json::parse(parameters.get())?;
    let item = |todo| {
        let Todo { description, status } = todo;
        let status = match &*status {
            "in_progress" => PlanStatus::InProgress,
            "completed" => PlanStatus::Completed,
            "cancelled" => PlanStatus::Cancelled,
            _ => PlanStatus::Pending,
        };
        PlanItem { text: description.into(), status }
    };
    Some(arguments.todos.into_iter().map(item).collect())
}

/// Bob is a fork of an early version and prints the same events; what only one of them prints decides.
pub(super) fn detect(line: &str) -> Confidence {
    #[derive(Deserialize)]
    struct Probe<'a> {
        #[serde(borrow)]
        r#type: Str<'a>,
        timestamp: Option<serde::de::IgnoredAny>,
        #[serde(borrow)]
        session_id: Option<Str<'a>>,
        #[serde(borrow)]
        model: Option<Str<'a>>,
        #[serde(borrow)]
        role: Option<Str<'a>>,
        #[serde(borrow)]
        content: Option<Str<'a>>,
        #[serde(borrow)]
        tool_name: Option<Str<'a>>,
        #[serde(borrow)]
        tool_id: Option<Str<'a>>,
        #[serde(borrow)]
        status: Option<Str<'a>>,
        severity: Option<serde::de::IgnoredAny>,
        #[serde(default, deserialize_with = "json::lenient")]
        stats: Option<Counted>,
    }
    #[derive(Deserialize)]
    struct Counted {
        models: Option<serde::de::IgnoredAny>,
        cached: Option<serde::de::IgnoredAny>,
        session_costs: Option<serde::de::IgnoredAny>,
    }
    let maybe = |plausible| if plausible { Confidence::Possible } else { Confidence::None };
    let Some(probe) = json::parse::<Probe<'_>>(line).filter(|probe| probe.timestamp.is_some()) else { return Confidence::None };
    match (&*probe.r#type, &probe.model, &probe.tool_name, &probe.tool_id, &probe.stats) {
        ("init", Some(model), ..) if probe.session_id.is_some() && model.starts_with("gemini") => Confidence::Certain,
        ("init", Some(model), ..) => maybe(probe.session_id.is_some() && &**model != "premium"),
        ("message", ..) => maybe(probe.role.is_some() && probe.content.is_some()),
        ("tool_use", _, Some(name), Some(id), _) => match id.strip_prefix(&**name) {
            Some(rest) if rest.starts_with("__") || rest.starts_with('-') => Confidence::Certain,
            _ => maybe(&**name != "attempt_completion" && !id.starts_with("tool-")),
        },
        ("tool_result", _, None, Some(_), _) => maybe(probe.status.is_some()),
        ("result", .., Some(stats)) if stats.session_costs.is_none() => {
            if stats.models.is_some() || stats.cached.is_some() {
                Confidence::Certain
            } else {
                maybe(probe.status.is_some())
            }
        }
        ("error", ..) => maybe(probe.severity.is_some()),
        _ => Confidence::None,
    }
}

#[cfg(test)]
mod tests {
    use super::{detect, shell_ending};
    use sabir_core::agent::Confidence;
    use sabir_core::event::Text;
    use sabir_core::json;

    #[test]
    fn a_command_that_printed_nothing_is_shown_by_its_exit_code() {
        let ending = |text: &str| {
            let json = serde_json::to_string(text).expect("a string");
            let written = json::parse::<Text<'_>>(&json).map(|text| shell_ending(&text));
            let ending = shell_ending(&Text::from(text));
            assert_eq!(written, Some(ending), "{text}");
            ending
        };
        assert_eq!(ending("Command exited with code: 3"), (Some(3), false));
        assert_eq!(ending("\n Command exited with code: 3\n"), (Some(3), false));
        assert_eq!(ending("Command terminated by signal: 9"), (None, true));
        assert_eq!(ending("Command terminated by signal: 9\nand more"), (None, false));
        assert_eq!(ending("Output: x\nExit Code: 7\nProcess Group PGID: 1"), (Some(7), false));
        assert_eq!(ending("Output: x\nExit Code: 7"), (Some(7), false));
        assert_eq!(ending("\n\tOutput: x\r\nExit Code: 7\r\nend\n"), (Some(7), false));
        assert_eq!(ending("Output: x\nExit Code: 7\t8\nend"), (None, false));
        assert_eq!(ending("Output: \"x\"\nExit Code: 7\ny\\nExit Code: 8\nend"), (Some(7), false));
        assert_eq!(ending("Output: a\nb\\nExit Code: 8"), (None, false));
        assert_eq!(ending("Output: nothing\nmore"), (None, false));
        assert_eq!(ending("the log says\nExit Code: 7"), (None, false));
    }

    #[test]
    fn only_its_own_lines_are_sure() {
        let at = r#""timestamp":"2026-01-01T00:00:00.000Z""#;
        for (rest, want) in [
            (r#""type":"init","session_id":"s","model":"gemini-2.5-pro""#, Confidence::Certain),
            (r#""type":"init","session_id":"s","model":"auto""#, Confidence::Possible),
            (r#""type":"init","session_id":"s","model":"premium""#, Confidence::None),
            (r#""type":"tool_use","tool_name":"glob","tool_id":"glob__1","parameters":{}"#, Confidence::Certain),
            (r#""type":"tool_use","tool_name":"glob","tool_id":"tool-1","parameters":{}"#, Confidence::None),
            (r#""type":"result","status":"success","stats":{"cached":0}"#, Confidence::Certain),
            (r#""type":"result","status":"success","stats":{"session_costs":0.1}"#, Confidence::None),
            (r#""type":"assistant","message":{}"#, Confidence::None),
        ] {
            assert_eq!(detect(&format!("{{{at},{rest}}}")), want, "{rest}");
        }
    }
}
