//! Tools in the core protocol: a begin, pieces of output, an end.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use sabir_core::dialect::Facts;
use sabir_core::diff;
use sabir_core::event::{Change, FileChange, Permission, ToolEnd, ToolKind, ToolStart, ToolStatus, ToolUpdate};
use sabir_core::json::{self, Str, StringOr};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Legacy;
use super::message::Msg;
use crate::codex::{report, shell};

impl Legacy {
    /// Reads a message about a tool; false when it is about none.
    pub(super) fn tool<'a>(&mut self, r#type: &str, mut msg: Msg<'a>, facts: &mut Facts<'a>) -> bool {
        let Some(id) = msg.call_id.take().map(Cow::from) else { return false };
        match r#type {
            "exec_command_begin" => {
                let command = shell::join(msg.command.iter().flatten().map(|word| &**word));
                facts.push(report::command_start(id, "exec_command", &command, msg.cwd.as_deref()));
            }
            "exec_command_output_delta" => {
                let output_delta = self.output_delta(&id, &msg);
                facts.push(ToolUpdate::new(id).output_delta(output_delta));
            }
            "exec_command_end" => {
                self.forget_cut(&id);
                facts.push(exec_end(id, msg));
            }
            "patch_apply_begin" => {
                self.patches.insert(id.to_string(), file_changes(&id, msg.changes));
                let input = msg.changes.and_then(|changes| report::arguments(&Changes { changes }));
                facts.push(start(id, Cow::Borrowed("apply_patch"), ToolKind::Edit, input, None));
            }
            "patch_apply_end" => {
                self.forget_cut(&id);
                let changes = self.patches.remove(id.as_ref()).unwrap_or_default();
                let ok = msg.success.unwrap_or(false);
                changes.into_iter().filter(|_| ok).for_each(|change| facts.push(change));
                let status = if ok { ToolStatus::Ok } else { ToolStatus::Error };
                facts.push(end(id, output_of(&mut msg), status, None));
            }
            "mcp_tool_call_begin" => {
                let (name, input) = msg.invocation.map_or((Cow::Borrowed("mcp"), None), |call| {
                    let name = [call.server, call.tool].map(Option::unwrap_or_default);
                    (Cow::Owned(format!("{}.{}", &*name[0], &*name[1])), call.arguments)
                });
                facts.push(start(id, name, ToolKind::Mcp, input.map(|input| Cow::Borrowed(input.get())), None));
            }
            "mcp_tool_call_end" => {
                let (output, status) = msg.result.map_or((None, ToolStatus::Ok), mcp_result);
                facts.push(end(id, output, status, msg.duration.map(|duration| duration.millis())));
            }
            "web_search_begin" | "web_search_end" => {
                let query = msg.query.as_deref().filter(|query| !query.is_empty());
                let input = query.and_then(|query| report::arguments(&Search { query }));
                let title = query.and_then(report::title).map(|line| Cow::Owned(line.to_owned()));
                facts.push(start(id.clone(), Cow::Borrowed("web_search"), ToolKind::Fetch, input, title));
                if r#type == "web_search_end" {
                    facts.push(end(id, None, ToolStatus::Ok, None));
                }
            }
            "view_image_tool_call" => {
                let input = msg.path.as_deref().and_then(|path| report::arguments(&Image { path }));
                facts.push(start(id.clone(), Cow::Borrowed("view_image"), ToolKind::Read, input, msg.path.map(Cow::from)));
                facts.push(end(id, None, ToolStatus::Ok, None));
            }
            "exec_approval_request" | "apply_patch_approval_request" => {
                let command = msg.command.map(|words| Cow::Owned(shell::join(words.iter().map(|word| &**word))));
                let title = msg.reason.map(Cow::from).or(command).unwrap_or(Cow::Borrowed("apply a patch"));
                facts.push(Permission::new(id.clone(), title).tool_call_id(id));
            }
            _ => return false,
        }
        self.tool_ran();
        true
    }

    /// The text of a piece of output. Pieces are cut anywhere, also inside a character.
    fn output_delta(&mut self, id: &str, msg: &Msg<'_>) -> Option<Cow<'static, str>> {
        let key = (id.to_owned(), msg.stream.as_deref().unwrap_or_default().to_owned());
        let mut bytes = self.cut.remove(&key).unwrap_or_default();
        // Base64, and a list of numbers in 0.20.
        bytes.extend(match json::parse::<StringOr<'_, Vec<u8>>>(msg.chunk?.get())? {
            StringOr::String(text) => BASE64.decode(text.as_bytes()).ok()?,
            StringOr::Other(bytes) => bytes,
        });
        let cut = bytes.len() - whole_characters(&bytes);
        if cut > 0 {
            self.cut.insert(key, bytes.split_off(bytes.len() - cut));
        }
        Some(Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()))
    }

    fn forget_cut(&mut self, id: &str) {
        self.cut.retain(|(call, _), _| call != id);
    }
}

/// The number of bytes before a character that is cut off at the end.
fn whole_characters(bytes: &[u8]) -> usize {
    let Some(back) = bytes.iter().rev().take(4).position(|byte| byte & 0xc0 != 0x80) else { return bytes.len() };
    let at = bytes.len() - back - 1;
    let length = match bytes.get(at) {
        Some(0xc2..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf4) => 4,
        _ => 1,
    };
    if back + 1 < length { at } else { bytes.len() }
}

#[derive(Serialize)]
struct Changes<'c> {
    changes: &'c RawValue,
}

#[derive(Serialize)]
struct Search<'c> {
    query: &'c str,
}

#[derive(Serialize)]
struct Image<'c> {
    path: &'c str,
}

fn start<'a>(
    tool_call_id: Cow<'a, str>,
    name: Cow<'a, str>,
    tool_kind: ToolKind,
    input: Option<Cow<'a, str>>,
    title: Option<Cow<'a, str>>,
) -> ToolStart<'a> {
    ToolStart::of_kind(tool_kind, tool_call_id, name).input(input).title(title)
}

fn end<'a>(
    tool_call_id: Cow<'a, str>,
    output: Option<Cow<'a, str>>,
    status: ToolStatus,
    duration_ms: Option<u64>,
) -> ToolEnd<'a> {
    ToolEnd::new(tool_call_id, status).output(output).duration_ms(duration_ms)
}

fn exec_end<'a>(id: Cow<'a, str>, mut msg: Msg<'a>) -> ToolEnd<'a> {
    let status = if msg.exit_code.is_none_or(|code| code == 0) { ToolStatus::Ok } else { ToolStatus::Error };
    ToolEnd::new(id, status)
        .output(output_of(&mut msg))
        .exit_code(msg.exit_code)
        .duration_ms(msg.duration.map(|duration| duration.millis()))
}

/// The output, which is given up to four times: as it was mixed where that is given, else what went to standard output
/// and then what went to standard error.
fn output_of<'a>(msg: &mut Msg<'a>) -> Option<Cow<'a, str>> {
    let mixed = msg.aggregated_output.take().filter(|output| !output.is_empty());
    let (stdout, stderr) = (msg.stdout.take(), msg.stderr.take());
    mixed.map(Cow::from).or_else(|| match (stdout, stderr) {
        (Some(stdout), Some(stderr)) if stdout.is_empty() => Some(stderr.into()),
        (Some(stdout), Some(stderr)) if !stderr.is_empty() => Some(Cow::Owned(format!("{}{}", &*stdout, &*stderr))),
        (stdout, stderr) => stdout.or(stderr).map(Cow::from),
    })
}

fn mcp_result(result: &RawValue) -> (Option<Cow<'_, str>>, ToolStatus) {
    #[derive(Deserialize)]
    struct Outcome<'a> {
        #[serde(borrow, rename = "Ok")]
        ok: Option<&'a RawValue>,
        #[serde(borrow, rename = "Err", default, deserialize_with = "json::lenient")]
        err: Option<Str<'a>>,
    }
    match json::parse::<Outcome<'_>>(result.get()) {
        Some(Outcome { err: Some(message), .. }) => (Some(message.into()), ToolStatus::Error),
        Some(Outcome { ok: Some(ok), .. }) => {
            let (output, is_error) = report::mcp_output(ok.get());
            (output, if is_error { ToolStatus::Error } else { ToolStatus::Ok })
        }
        _ => (Some(Cow::Borrowed(result.get())), ToolStatus::Ok),
    }
}

/// What a patch will have changed once it is applied.
fn file_changes(id: &str, changes: Option<&RawValue>) -> Vec<FileChange<'static>> {
    #[derive(Deserialize)]
    struct Planned<'a> {
        #[serde(borrow)]
        add: Option<Content<'a>>,
        #[serde(borrow)]
        delete: Option<Content<'a>>,
        #[serde(borrow)]
        update: Option<Update<'a>>,
    }
    #[derive(Deserialize)]
    struct Content<'a> {
        #[serde(borrow)]
        content: Option<Str<'a>>,
    }
    #[derive(Deserialize)]
    struct Update<'a> {
        #[serde(borrow)]
        unified_diff: Option<Str<'a>>,
        #[serde(borrow)]
        move_path: Option<Str<'a>>,
    }
    let planned: Option<BTreeMap<Str<'_>, Planned<'_>>> = changes.and_then(|changes| json::parse(changes.get()));
    let report = |(path, planned): (Str<'_>, Planned<'_>)| {
        let id = Cow::Owned(id.to_owned());
        let path = path.0.into_owned();
        if let Some(Update { unified_diff, move_path }) = planned.update {
            let diff = unified_diff.map(|patch| report::diff_of_patch(&path, move_path.as_deref().unwrap_or(&path), &patch));
            return match move_path {
                Some(to) => report::changed(Cow::Owned(to.0.into_owned()), Change::Rename, Some(Cow::Owned(path)), diff, id),
                None => report::changed(Cow::Owned(path), Change::Update, None, diff, id),
            };
        }
        let (change, content) = match (planned.add, planned.delete) {
            (Some(added), _) => (Change::Create, added.content),
            (None, Some(deleted)) => (Change::Delete, deleted.content),
            (None, None) => (Change::Update, None),
        };
        let diff = content.map(|content| match change {
            Change::Create => diff::of_new_file(&path, &content.into()),
            _ => report::diff_of_deleted(&path, &content),
        });
        report::changed(Cow::Owned(path), change, None, diff, id)
    };
    planned.into_iter().flatten().map(report).collect()
}

#[cfg(test)]
mod tests {
    use super::whole_characters;

    #[test]
    fn a_character_that_is_cut_off_waits_for_its_rest() {
        assert_eq!(whole_characters("né".as_bytes()), 3);
        assert_eq!(whole_characters(&"né".as_bytes()[..2]), 1);
        assert_eq!(whole_characters(&"🎉".as_bytes()[..3]), 0);
        assert_eq!(whole_characters(b"\xff"), 1);
        assert_eq!(whole_characters(b"\x80\x80\x80\x80\x80"), 5);
        assert_eq!(whole_characters(b""), 0);
    }
}
