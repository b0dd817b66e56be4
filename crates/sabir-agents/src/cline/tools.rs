//! Tool calls. What a tool gave back is one record, or a list of them, each with its own success.

use std::borrow::Cow;
use std::collections::BTreeMap;

use sabir_core::dialect::Facts;
use sabir_core::diff;
use sabir_core::event::{Change, FileChange, Text, ToolEnd, ToolKind, ToolStart, ToolStatus, ToolUpdate};
use sabir_core::json::{self, Str, StringOr};
use sabir_core::line::Line;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::lanes::Lanes;
use super::wire::{Event, error_message};

/// The calls that may make a file, with its path and content.
#[derive(Default)]
pub(super) struct Tools {
    writing: BTreeMap<String, (String, String)>,
}

/// How the editor says that the file is new.
const CREATED: &str = "File created successfully";

impl Tools {
    /// Reads the events of one call.
    pub(super) fn read<'a>(&mut self, event: Event<'a>, lanes: &mut Lanes, line: &Line<'a>, facts: &mut Facts<'a>) {
        let Some(id) = event.tool_call_id.clone() else { return json::unrecognized(line, facts) };
        match &*event.r#type {
            "content_start" => {
                let name = event.tool_name.map_or(Cow::Borrowed("unknown"), Cow::from);
                let tool_kind = kind(&name);
                lanes.begin_call(&id, tool_kind == ToolKind::Delegate);
                lanes.head(facts);
                if let Some(written) = event.input.filter(|_| tool_kind == ToolKind::Edit).and_then(written) {
                    self.writing.insert((*id).to_owned(), written);
                }
                let input = event.input.map(|input| Cow::Borrowed(input.get()));
                facts.push(ToolStart::of_kind(tool_kind, id.0, name).input(input));
            }
            "content_update" => {
                lanes.enter_call(&id);
                lanes.head(facts);
                let output_delta = event.update.and_then(|update| update.chunk).map(Text::from);
                facts.push(ToolUpdate::new(id.0).output_delta(output_delta));
            }
            _ => {
                lanes.end_call(&id);
                lanes.head(facts);
                self.end(id, &event, facts);
            }
        }
    }

    fn end<'a>(&mut self, id: Str<'a>, event: &Event<'a>, facts: &mut Facts<'a>) {
        let report = event.output.map(report).unwrap_or_default();
        let error = report.error.or_else(|| event.error.and_then(error_message).map(Cow::from));
        let status = error.as_deref().map_or(ToolStatus::Ok, status);
        let output = report.text.or_else(|| error.clone());
        if let Some((path, content)) = self.writing.remove(&*id)
            && status == ToolStatus::Ok
            && output.as_deref().is_some_and(|output| output.starts_with(CREATED))
        {
            let diff = diff::of_new_file(&path, &content.into());
            facts.push(
                FileChange::new(path, Change::Create)
                    .diff(diff.text)
                    .added(diff.added)
                    .removed(diff.removed)
                    .tool_call_id(id.0.clone()),
            );
        }
        facts.push(
            ToolEnd::new(id.0, status)
                .output(output)
                .exit_code(error.as_deref().and_then(exit_code))
                .duration_ms(event.duration_ms),
        );
    }
}

fn kind(name: &str) -> ToolKind {
    match name {
        "run_commands" => ToolKind::Execute,
        "read_files" => ToolKind::Read,
        "editor" => ToolKind::Edit,
        "search_codebase" => ToolKind::Search,
        "fetch_web_content" => ToolKind::Fetch,
        "team_spawn_teammate" | "team_run_task" => ToolKind::Delegate,
        _ => ToolKind::of_name(name),
    }
}

/// The file that an edit without an old text may make.
fn written(input: &RawValue) -> Option<(String, String)> {
    #[derive(Deserialize)]
    struct Arguments<'a> {
        #[serde(borrow)]
        path: Str<'a>,
        #[serde(borrow)]
        new_text: Str<'a>,
        #[serde(borrow)]
        old_text: Option<&'a RawValue>,
    }
    let arguments = json::parse::<Arguments<'_>>(input.get()).filter(|arguments| arguments.old_text.is_none())?;
    Some((arguments.path.0.into_owned(), arguments.new_text.0.into_owned()))
}

/// What a call says that it gave back.
#[derive(Default)]
struct Report<'a> {
    text: Option<Cow<'a, str>>,
    /// The first failure in it.
    error: Option<Cow<'a, str>>,
}

/// One of several things that a call did.
#[derive(Deserialize)]
struct Record<'a> {
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    result: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    text: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    error: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    success: Option<bool>,
}

fn report(output: &RawValue) -> Report<'_> {
    if let Some(records) = json::parse::<Vec<Record<'_>>>(output.get()) {
        return records.into_iter().map(Report::of).fold(Report::default(), Report::and);
    }
    match json::parse::<StringOr<'_, Record<'_>>>(output.get()) {
        Some(StringOr::String(text)) => Report { text: Some(text.0), error: None },
        Some(StringOr::Other(record)) if record.says_something() => Report::of(record),
        _ => Report { text: Some(Cow::Borrowed(output.get())).filter(|text| text != "null"), error: None },
    }
}

impl Record<'_> {
    fn says_something(&self) -> bool {
        self.result.is_some() || self.text.is_some() || self.error.is_some() || self.success.is_some()
    }
}

impl<'a> Report<'a> {
    fn of(record: Record<'a>) -> Self {
        let failed = record.success == Some(false) || record.error.is_some();
        let error = record.error.map(Cow::from);
        let text = record.result.or(record.text).map(Cow::from).filter(|text| !text.is_empty()).or_else(|| error.clone());
        Self { text, error: error.or_else(|| failed.then_some(Cow::Borrowed("failed"))) }
    }

    fn and(self, next: Self) -> Self {
        let text = match (self.text, next.text) {
            (Some(first), Some(second)) if first.ends_with('\n') => Some(first + second),
            (Some(first), Some(second)) => Some(first + "\n" + second),
            (first, second) => first.or(second),
        };
        Self { text, error: self.error.or(next.error) }
    }
}

fn status(error: &str) -> ToolStatus {
    let says = |words: &[&str]| words.iter().any(|word| error.contains(word));
    if says(&["blocked in plan mode", "was denied", "not approved", "rejected by the user", "denied by"]) {
        ToolStatus::Denied
    } else if says(&["was aborted", "was cancelled"]) {
        ToolStatus::Cancelled
    } else {
        ToolStatus::Error
    }
}

fn exit_code(error: &str) -> Option<i32> {
    error.strip_prefix("Command exited with code ")?.trim_end().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{ToolStatus, exit_code, report, status};
    use serde_json::value::RawValue;

    fn of(json: &str) -> (Option<String>, Option<String>) {
        let raw: &RawValue = serde_json::from_str(json).expect("JSON");
        let report = report(raw);
        (report.text.map(String::from), report.error.map(String::from))
    }

    #[test]
    fn every_form_of_a_report_is_read() {
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(
            of(r#"[{"result":"a","success":true},{"result":"","error":"no","success":false}]"#),
            (text("a\nno"), text("no"))
        );
        assert_eq!(
            of(r#"{"result":"","error":"text not found","success":false}"#),
            (text("text not found"), text("text not found"))
        );
        assert_eq!(of(r#"{"text":"done","iterations":2}"#), (text("done"), None));
        assert_eq!(of(r#""plain""#), (text("plain"), None));
        assert_eq!(of(r#"{"other":1}"#), (text(r#"{"other":1}"#), None));
        assert_eq!(of("null"), (None, None));
        assert_eq!(of(r#"[{"success":false}]"#), (None, text("failed")));
    }

    #[test]
    fn the_error_tells_how_a_call_ended() {
        assert_eq!(status("Command exited with code 3"), ToolStatus::Error);
        assert_eq!(status("Command failed: Command was aborted"), ToolStatus::Cancelled);
        assert_eq!(status("Command not executed: file modifications are blocked in plan mode."), ToolStatus::Denied);
        assert_eq!((exit_code("Command exited with code 3"), exit_code("no")), (Some(3), None));
    }
}
