//! The items of the long lists of a result as JSON, byte for byte as serde writes them: it would ask for every key whether
//! it needs escaping, and look at every byte of every string by itself.

use super::RESULT_BYTES;
use super::shape::{FileChange, ToolCall, Turn};
use crate::event::Text;
use crate::event::write::{integer, plain_string, word};
use crate::fold::tokens::NativeUsage;

impl Turn {
    /// Appends its JSON.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"turn\":");
        integer(u64::from(self.turn), out);
        let NativeUsage { input, output, cache_read, cache_write, reasoning, total } = self.usage;
        let figures: [(&[u8], _); 6] = [
            (b",\"usage\":{\"input\":", input),
            (b",\"output\":", output),
            (b",\"cacheRead\":", cache_read),
            (b",\"cacheWrite\":", cache_write),
            (b",\"reasoning\":", reasoning),
            (b",\"total\":", total),
        ];
        figures.into_iter().for_each(|(key, figure)| figure_or_null(key, figure, out));
        out.extend_from_slice(b"},\"toolCalls\":[");
        for (place, call) in self.tool_calls.iter().enumerate() {
            if place > 0 {
                out.push(b',');
            }
            plain_string(call, out);
        }
        string_or_null(b"],\"stopReason\":", self.stop_reason.as_deref(), out);
        out.push(b'}');
    }
}

impl ToolCall {
    /// Appends its JSON. Its result is the beginning of that output, where there is one.
    pub fn write_json(&self, output: Option<&Text<'_>>, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"id\":");
        plain_string(&self.id, out);
        out.extend_from_slice(b",\"name\":");
        plain_string(&self.name, out);
        out.extend_from_slice(b",\"kind\":");
        word(self.kind.as_str(), out);
        out.extend_from_slice(b",\"args\":");
        out.extend_from_slice(self.args.as_ref().map_or(NULL, |args| args.get().as_bytes()));
        out.extend_from_slice(b",\"result\":");
        match output.or(self.result.as_ref()) {
            Some(result) => result.write_head(RESULT_BYTES, out),
            None => out.extend_from_slice(NULL),
        }
        figure_or_null(b",\"resultBytes\":", self.result_bytes, out);
        out.extend_from_slice(b",\"status\":");
        word(self.status.as_str(), out);
        out.extend_from_slice(b",\"exitCode\":");
        match self.exit_code {
            Some(code) => {
                if code < 0 {
                    out.push(b'-');
                }
                integer(u64::from(code.unsigned_abs()), out);
            }
            None => out.extend_from_slice(NULL),
        }
        figure_or_null(b",\"durationMs\":", self.duration_ms, out);
        string_or_null(b",\"parentId\":", self.parent_id.as_deref(), out);
        out.push(b'}');
    }
}

impl FileChange {
    /// Appends its JSON.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"path\":");
        plain_string(&self.path, out);
        out.extend_from_slice(b",\"change\":");
        word(self.change.as_str(), out);
        if let Some(from) = &self.from {
            string_or_null(b",\"from\":", Some(from), out);
        }
        figure_or_null(b",\"added\":", self.added, out);
        figure_or_null(b",\"removed\":", self.removed, out);
        string_or_null(b",\"toolCallId\":", self.tool_call_id.as_deref(), out);
        out.extend_from_slice(b",\"source\":");
        word(self.source.as_str(), out);
        out.push(b'}');
    }
}

const NULL: &[u8] = b"null";

fn figure_or_null(key: &[u8], figure: Option<u64>, out: &mut Vec<u8>) {
    out.extend_from_slice(key);
    match figure {
        Some(figure) => integer(figure, out),
        None => out.extend_from_slice(NULL),
    }
}

fn string_or_null(key: &[u8], text: Option<&str>, out: &mut Vec<u8>) {
    out.extend_from_slice(key);
    match text {
        Some(text) => plain_string(text, out),
        None => out.extend_from_slice(NULL),
    }
}

#[cfg(test)]
mod tests {
    use serde::Serialize;

    use super::{FileChange, NativeUsage, RESULT_BYTES, ToolCall, Turn};
    use crate::event::{Change, ChangeSource, Text, ToolKind, ToolStatus};
    use crate::json;

    const NAMES: [&str; 4] = ["", "plain", "a \"b\" \\ \n\u{1b}é", "\u{85}\u{2028}\u{2029}"];

    #[track_caller]
    fn is_as_serde_writes(value: &impl Serialize, write: impl Fn(&mut Vec<u8>)) {
        let mut out = Vec::new();
        write(&mut out);
        assert_eq!(String::from_utf8(out).ok(), serde_json::to_string(value).ok());
    }

    #[test]
    fn turns_and_changes_are_written_as_serde_writes_them() {
        for name in NAMES {
            for figure in [None, Some(0), Some(u64::MAX)] {
                let text = figure.map(|_| name.to_owned());
                let usage = NativeUsage {
                    input: figure,
                    output: Some(1),
                    cache_read: figure,
                    cache_write: Some(2),
                    reasoning: figure,
                    total: Some(3),
                };
                let tool_calls = vec![name.to_owned(); figure.map_or(0, |figure| 1 + usize::from(figure > 0))];
                let turn = Turn { turn: 7, usage, tool_calls, stop_reason: text.clone() };
                is_as_serde_writes(&turn, |out| turn.write_json(out));
                let change = FileChange {
                    path: name.to_owned(),
                    change: Change::Rename,
                    from: text.clone(),
                    added: figure,
                    removed: figure,
                    tool_call_id: text,
                    source: ChangeSource::Inferred,
                };
                is_as_serde_writes(&change, |out| change.write_json(out));
            }
        }
    }

    #[test]
    fn calls_are_written_as_serde_writes_them() {
        let long = format!("\"{}\"", "é\\n\u{2028}".repeat(RESULT_BYTES / 4));
        let results = [r#""""#, r#""plain""#, r#""a\/b\n\u001b[0m""#, "\"a\\/b\u{2028}\"", r#""\ud83d\ude00 \\\\""#, &long];
        let texts = results.into_iter().filter_map(json::parse::<Text<'_>>).chain(NAMES.map(Text::from));
        for output in texts.map(Some).chain([None]) {
            for exit_code in [None, Some(0), Some(-1), Some(i32::MIN)] {
                let call = ToolCall {
                    id: NAMES[2].to_owned(),
                    name: "tool".to_owned(),
                    kind: ToolKind::Execute,
                    args: exit_code.map(|_| json::RawJson::of(&NAMES)),
                    result: output.as_ref().map(|output| output.head(RESULT_BYTES)),
                    result_bytes: output.as_ref().map(|output| output.size() as u64),
                    status: ToolStatus::Ok,
                    exit_code,
                    duration_ms: exit_code.map(|_| 5),
                    parent_id: exit_code.map(|_| NAMES[3].to_owned()),
                };
                is_as_serde_writes(&call, |out| call.write_json(None, out));
                is_as_serde_writes(&call, |out| ToolCall { result: None, ..call.clone() }.write_json(output.as_ref(), out));
                // What follows a part of it is not copied either.
                let rest = output.clone().map(|output| output.after_written(4));
                let call = ToolCall { result: rest.as_ref().map(|rest| rest.head(RESULT_BYTES)), ..call };
                is_as_serde_writes(&call, |out| ToolCall { result: None, ..call.clone() }.write_json(rest.as_ref(), out));
            }
        }
    }
}
