//! Tool calls: an object whose one telling key names the tool, and inside it a result whose one key says how it went.

use std::borrow::Cow;
use std::fmt;

use sabir_core::event::{Change, EventKind, FileChange, Plan, PlanItem, PlanStatus, Text, ToolEnd, ToolKind, ToolStatus};
use sabir_core::json::{self, Str, StringOr};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// `{"shellToolCall":{"args":…,"result":…},"toolCallId":…}`, or `{"function":{"name":…,"arguments":…}}` in old versions.
#[derive(Default)]
pub(super) struct Call<'a> {
    pub(super) name: Cow<'a, str>,
    pub(super) title: Option<Cow<'a, str>>,
    args: Option<&'a RawValue>,
    /// The old form has its arguments as a string of JSON.
    quoted: Option<Cow<'a, str>>,
    result: Option<Outcome<'a>>,
    /// The tool, when an MCP server has it.
    mcp: bool,
}

/// `{"success":{…},"isBackground":false}`.
struct Outcome<'a> {
    case: Cow<'a, str>,
    value: &'a RawValue,
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    args: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    result: Option<Outcome<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    description: Option<Str<'a>>,
}

#[derive(Deserialize)]
struct Function<'a> {
    #[serde(borrow)]
    name: Str<'a>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    arguments: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    result: Option<Outcome<'a>>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Call<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = Call<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a tool call")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut call = Call::default();
                while let Some(Str(key)) = map.next_key::<Str<'de>>()? {
                    if key == "function" {
                        let function: Function<'de> = map.next_value()?;
                        call.name = function.name.into();
                        call.quoted = function.arguments.map(Cow::from);
                        call.result = function.result;
                    } else if let Some(name) = key.strip_suffix("ToolCall") {
                        let name = name.to_owned();
                        let body: Body<'de> = map.next_value()?;
                        call.mcp = name == "mcp";
                        call.name = Cow::Owned(name);
                        call.title = body.description.map(Cow::from);
                        call.args = body.args;
                        call.result = body.result;
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(call)
            }
        }
        deserializer.deserialize_map(Keys)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Outcome<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Case;
        impl<'de> Visitor<'de> for Case {
            type Value = Outcome<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a tool result")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut found = None;
                while let Some(Str(key)) = map.next_key::<Str<'de>>()? {
                    let value: &'de RawValue = map.next_value()?;
                    // Beside the case there are flags such as `isBackground`.
                    if found.is_none() && value.get().starts_with('{') {
                        found = Some(Outcome { case: key, value });
                    }
                }
                found.ok_or_else(|| serde::de::Error::custom("no case"))
            }
        }
        deserializer.deserialize_map(Case)
    }
}

/// What the cases of all tools may hold.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Fields<'a> {
    exit_code: Option<i32>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    stdout: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    stderr: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    interleaved_output: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    execution_time: Option<u64>,
    #[serde(default, deserialize_with = "json::lenient")]
    aborted: Option<bool>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    reason: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    error: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    error_message: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    message: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    content: Option<StringOr<'a, Vec<Content<'a>>>>,
    #[serde(default, deserialize_with = "json::lenient")]
    is_error: Option<bool>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    path: Option<Str<'a>>,
    lines_added: Option<u64>,
    lines_removed: Option<u64>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    diff_string: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    todos: Option<Vec<Todo<'a>>>,
}

/// A piece of what an MCP tool gave back: `{"text":{"text":…}}`.
#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow)]
    text: StringOr<'a, Inner<'a>>,
}

#[derive(Deserialize)]
struct Inner<'a> {
    #[serde(borrow)]
    text: Str<'a>,
}

#[derive(Deserialize)]
struct Todo<'a> {
    #[serde(borrow)]
    content: Str<'a>,
    #[serde(borrow)]
    status: Str<'a>,
}

impl<'a> Call<'a> {
    /// The tool's own name: of an MCP tool that is in the arguments.
    pub(super) fn named(mut self) -> Self {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Mcp<'a> {
            #[serde(borrow)]
            name: Option<Str<'a>>,
            #[serde(borrow)]
            tool_name: Option<Str<'a>>,
        }
        if self.mcp
            && let Some(Mcp { name, tool_name }) = self.args.and_then(|args| json::parse(args.get()))
            && let Some(name) = name.or(tool_name)
        {
            self.name = name.into();
        }
        self
    }

    pub(super) fn kind(&self) -> ToolKind {
        if self.mcp { ToolKind::Mcp } else { ToolKind::of_name(&self.name) }
    }

    /// The arguments as JSON.
    pub(super) fn input(&mut self) -> Option<Cow<'a, str>> {
        self.args.map(|args| Cow::Borrowed(args.get())).or_else(|| self.quoted.take())
    }

    /// The events of its end: what it changed, and how it went.
    pub(super) fn end(self, id: Cow<'a, str>, mut push: impl FnMut(EventKind<'a>)) {
        let (status, value) = match &self.result {
            Some(Outcome { case, value }) => (status_of(case), Some(*value)),
            // Old versions report only that it is over.
            None => (ToolStatus::Ok, None),
        };
        let mut fields = value.and_then(|value| json::parse::<Fields<'a>>(value.get())).unwrap_or_default();
        let status = match status {
            ToolStatus::Ok if fields.exit_code.is_some_and(|code| code != 0) || fields.is_error == Some(true) => {
                ToolStatus::Error
            }
            ToolStatus::Error if fields.aborted == Some(true) => ToolStatus::Cancelled,
            status => status,
        };
        if status == ToolStatus::Ok
            && let Some(change) = file_change(id.clone(), self.kind(), &mut fields)
        {
            push(change.into());
        }
        if let Some(todos) = fields.todos.take().filter(|_| self.kind() == ToolKind::Plan) {
            push(Plan::new(todos.into_iter().map(plan_item).collect()).into());
        }
        let (exit_code, duration_ms) = (fields.exit_code, fields.execution_time);
        let output = output(fields).or_else(|| value.map(|value| Cow::Borrowed(value.get())));
        push(ToolEnd::new(id, status).output(output).exit_code(exit_code).duration_ms(duration_ms).into());
    }
}

/// A case that is not known to be good is not called good.
fn status_of(case: &str) -> ToolStatus {
    match case {
        "success" | "complete" | "completed" | "registered" | "startSuccess" | "backgrounded" => ToolStatus::Ok,
        "rejected" | "permissionDenied" => ToolStatus::Denied,
        "cancelled" | "aborted" => ToolStatus::Cancelled,
        _ => ToolStatus::Error,
    }
}

/// The text that the case is about: what a command printed, what a file holds, why a call failed.
fn output<'a>(fields: Fields<'a>) -> Option<Cow<'a, str>> {
    let Fields { interleaved_output, stdout, stderr, reason, error, error_message, message, content, .. } = fields;
    if stdout.is_some() || stderr.is_some() {
        if let Some(text) = interleaved_output.filter(|text| !text.is_empty()) {
            return Some(text.into());
        }
        let (stdout, stderr): (Cow<'a, str>, Cow<'a, str>) =
            (stdout.map(Cow::from).unwrap_or_default(), stderr.map(Cow::from).unwrap_or_default());
        return Some(match (stdout.is_empty(), stderr.is_empty()) {
            (_, true) => stdout,
            (true, _) => stderr,
            (false, false) => stdout + stderr,
        });
    }
    let content = content.map(|content| Str(text_of(content)));
    [error, error_message, reason, content, message].into_iter().flatten().find(|text| !text.is_empty()).map(Cow::from)
}

fn text_of<'a>(content: StringOr<'a, Vec<Content<'a>>>) -> Cow<'a, str> {
    let parts = match content {
        StringOr::String(text) => return text.into(),
        StringOr::Other(parts) => parts,
    };
    let texts = parts.into_iter().map(|Content { text }| match text {
        StringOr::String(text) | StringOr::Other(Inner { text }) => Cow::from(text),
    });
    texts.reduce(|text, more| text + more).unwrap_or_default()
}

fn file_change<'a>(id: Cow<'a, str>, kind: ToolKind, fields: &mut Fields<'a>) -> Option<FileChange<'a>> {
    if kind != ToolKind::Edit || (fields.diff_string.is_none() && fields.lines_added.is_none()) {
        return None;
    }
    let diff = fields.diff_string.take().map(Text::from);
    let is_new = diff.as_ref().is_some_and(|diff| diff.starts_with("--- /dev/null"));
    Some(
        FileChange::new(fields.path.take()?, if is_new { Change::Create } else { Change::Update })
            .diff(diff)
            .added(fields.lines_added)
            .removed(fields.lines_removed)
            .tool_call_id(id),
    )
}

fn plan_item(todo: Todo<'_>) -> PlanItem<'_> {
    let status = todo.status.to_ascii_lowercase();
    let status = match status.strip_prefix("todo_status_").unwrap_or(&status) {
        "in_progress" | "inprogress" => PlanStatus::InProgress,
        "completed" => PlanStatus::Completed,
        "cancelled" => PlanStatus::Cancelled,
        _ => PlanStatus::Pending,
    };
    PlanItem { text: todo.content.into(), status }
}
