//! Streams to measure with: as Claude Code prints them, as large as wanted, the same on every machine.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Result;

/// Which stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// Whole messages of 2 to 60 KB.
    Messages,
    /// Partial messages of some 250 bytes.
    Deltas,
}

impl Shape {
    pub(super) const ALL: [Self; 2] = [Self::Messages, Self::Deltas];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::Deltas => "deltas",
        }
    }
}

/// The file with at least that many bytes of a stream, written unless it is there.
pub(super) fn file(folder: &Path, shape: Shape, megabytes: u64) -> Result<PathBuf> {
    // The version is part of the name: a change of what is written below must not measure an old file.
    let path = folder.join(format!("{}-3-{megabytes}.jsonl", shape.name()));
    if path.exists() {
        return Ok(path);
    }
    std::fs::create_dir_all(folder)?;
    let unfinished = path.with_extension("part");
    let mut out = BufWriter::with_capacity(1 << 20, File::create(&unfinished)?);
    let mut writer = Writer::new();
    writer.init();
    let mut written = 0;
    while written < megabytes * 1_000_000 {
        match shape {
            Shape::Messages => writer.turn_in_messages(),
            Shape::Deltas => writer.turn_in_deltas(),
        }
        out.write_all(writer.text.as_bytes())?;
        written += writer.text.len() as u64;
        writer.text.clear();
    }
    writer.result();
    out.write_all(writer.text.as_bytes())?;
    out.flush()?;
    std::fs::rename(&unfinished, &path)?;
    Ok(path)
}

/// A partial message with that text, and the lines that must come before the first.
pub(super) fn delta_line(text: &str) -> String {
    let mut writer = Writer::new();
    writer.delta(0, text);
    writer.text
}

/// The lines that open a message for [`delta_line`].
pub(super) fn opening_lines() -> String {
    let mut writer = Writer::new();
    writer.init();
    writer.open_message("msg_0");
    writer.text
}

const SESSION: &str = "5b1f9a52-2f3e-4b0c-9a55-0c6f0d1f7a11";
const MODEL: &str = "claude-sonnet-4-5-20250929";
const USAGE: &str = r#"{"input_tokens":4,"cache_creation_input_tokens":312,"cache_read_input_tokens":18211,"cache_creation":{"ephemeral_5m_input_tokens":312,"ephemeral_1h_input_tokens":0},"output_tokens":87,"service_tier":"standard"}"#;

/// Lines that text is made of: prose, code and output of tools, with what JSON must escape (one byte in forty) and
/// what is not ASCII.
const PIECES: &[&str] = &[
    "The parser reads one line at a time and keeps only what it must remember until the next one comes.\n",
    "Nothing of a message is held back longer than needed, so a reader sees each piece as soon as it was printed.\n\n",
    "- First look at the failing test, then at the last change of the function that it calls.\n",
    "- Change as little as possible, and run the whole suite again before saying that it is done.\n",
    "pub fn total(items: &[Item]) -> u64 {\n    items.iter().map(|item| item.price * item.count).sum()\n}\n",
    "    let path = root.join(\"src\").join(name).with_extension(\"rs\");\n",
    "    if (value !== undefined && value.length > limit) {\n\t\treturn value.slice(0, limit);\n    }\n",
    "assert_eq!(decode(input).map(|event| event.kind), [Kind::Started, Kind::Text, Kind::Exited]);\n",
    "const pattern = /^[a-z]+\\s*=\\s*(.*)$/;\n",
    "error[E0308]: mismatched types: expected `u64`, found `Option<u64>` --> src/lib.rs:214:17\n",
    "test decode::tests::a_cut_stream_is_incomplete ... ok (0.012 s)\n",
    "2026-11-15T17:53:23.541Z  INFO server: request finished in 12 ms with status 200 for /api/items?page=2\n",
    "{\"name\": \"part\", \"version\": \"1.2.3\", \"private\": true}\n",
    "drwxr-xr-x  2 user user  4096 Nov 15 17:53 a-folder-with-a-name-of-some-length-in-it\n",
    "Größe, façade, naïve: the text is not only ASCII — 日本語のテキスト も あります ✓\n",
    "# A heading of the document that was asked for\n\n",
    "| column | another column | the last column |\n|---|---|---|\n| one | two | three |\n",
    "commit 3f786850e387550fdab836ed7e6dc881de23001b, merged by nobody in particular on a quiet afternoon\n",
    "a longer run of plain words that has nothing at all to escape, as most of what a model says in prose has nothing, ",
    "and it goes on for a while before the sentence ends, since sentences in explanations tend to be long ones. ",
];

struct Writer {
    text: String,
    state: u64,
    turn: u64,
}

impl Writer {
    fn new() -> Self {
        Self { text: String::new(), state: 0x5ab1, turn: 0 }
    }

    /// `SplitMix64`: small, good enough, the same everywhere.
    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn between(&mut self, low: usize, high: usize) -> usize {
        low + usize::try_from(self.random() % (high - low) as u64).unwrap_or(0)
    }

    /// Text of about that many bytes.
    fn prose(&mut self, bytes: usize) -> String {
        let mut text = String::with_capacity(bytes + 100);
        while text.len() < bytes {
            text.push_str(PIECES[self.between(0, PIECES.len())]);
        }
        text
    }

    /// Two in three messages are a few kilobytes, some are long.
    fn size(&mut self) -> usize {
        if self.random().is_multiple_of(3) { self.between(20_000, 60_000) } else { self.between(2_000, 20_000) }
    }

    fn uuid(&mut self) -> String {
        let (a, b) = (self.random(), self.random());
        format!("{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}", a >> 32, (a >> 16) & 0xffff, a & 0xfff, b >> 52, b & 0xffff_ffff_ffff)
    }

    /// What ends every line.
    fn tail(&mut self) {
        let uuid = self.uuid();
        let _ = writeln!(self.text, r#","parent_tool_use_id":null,"session_id":"{SESSION}","uuid":"{uuid}"}}"#);
    }

    fn init(&mut self) {
        let _ = writeln!(
            self.text,
            r#"{{"type":"system","subtype":"init","cwd":"/home/user/project","session_id":"{SESSION}","tools":["Bash","Edit","Read","Write"],"mcp_servers":[],"model":"{MODEL}","permissionMode":"acceptEdits","slash_commands":["clear"],"apiKeySource":"none","claude_code_version":"2.1.0","uuid":"{SESSION}"}}"#
        );
    }

    fn result(&mut self) {
        let turns = self.turn;
        let _ = writeln!(
            self.text,
            r#"{{"type":"result","subtype":"success","is_error":false,"duration_ms":1000,"duration_api_ms":900,"num_turns":{turns},"result":"Done.","stop_reason":"end_turn","session_id":"{SESSION}","total_cost_usd":1.5,"usage":{USAGE},"modelUsage":{{}},"permission_denials":[],"uuid":"{SESSION}"}}"#
        );
    }

    fn assistant(&mut self, id: &str, block: &str) {
        let _ = write!(
            self.text,
            r#"{{"type":"assistant","message":{{"id":"{id}","type":"message","role":"assistant","model":"{MODEL}","content":[{block}],"stop_reason":null,"stop_sequence":null,"usage":{USAGE},"context_management":null}}"#
        );
        self.tail();
    }

    /// Text, a command with its output, and now and then a file.
    fn turn_in_messages(&mut self) {
        self.turn += 1;
        let turn = self.turn;
        let size = self.size();
        let text = quoted(&self.prose(size));
        self.assistant(&format!("msg_{turn}_0"), &format!(r#"{{"type":"text","text":{text}}}"#));

        let command = quoted(&self.prose(120));
        let block = format!(
            r#"{{"type":"tool_use","id":"toolu_{turn}_a","name":"Bash","input":{{"command":{command},"description":"Runs it"}}}}"#
        );
        self.assistant(&format!("msg_{turn}_0"), &block);
        let size = self.size();
        let output = quoted(&self.prose(size));
        let result = format!(r#"{{"stdout":{output},"stderr":"","interrupted":false,"isImage":false}}"#);
        self.tool_result(&format!("toolu_{turn}_a"), &output, &result);

        if turn.is_multiple_of(4) {
            let size = self.size();
            let content = quoted(&self.prose(size));
            let path = format!("/home/user/project/src/part_{turn}.rs");
            let block = format!(
                r#"{{"type":"tool_use","id":"toolu_{turn}_b","name":"Write","input":{{"file_path":"{path}","content":{content}}}}}"#
            );
            self.assistant(&format!("msg_{turn}_1"), &block);
            let result = format!(
                r#"{{"type":"create","filePath":"{path}","content":{content},"structuredPatch":[],"originalFile":null}}"#
            );
            self.tool_result(&format!("toolu_{turn}_b"), &quoted(&format!("File created successfully at: {path}")), &result);
        }
    }

    fn tool_result(&mut self, id: &str, content: &str, result: &str) {
        let _ = write!(
            self.text,
            r#"{{"type":"user","message":{{"role":"user","content":[{{"tool_use_id":"{id}","type":"tool_result","content":{content},"is_error":false}}]}},"tool_use_result":{result}"#
        );
        self.tail();
    }

    /// A message in small pieces, then whole.
    fn turn_in_deltas(&mut self) {
        self.turn += 1;
        let id = format!("msg_{}", self.turn);
        self.open_message(&id);
        let size = self.between(4_000, 16_000);
        let text = self.prose(size);
        let mut rest = text.as_str();
        while !rest.is_empty() {
            let mut end = self.between(4, 40).min(rest.len());
            while !rest.is_char_boundary(end) {
                end += 1;
            }
            let (piece, after) = rest.split_at(end);
            self.delta(0, piece);
            rest = after;
        }
        self.stream_event(r#"{"type":"content_block_stop","index":0}"#);
        self.assistant(&id, &format!(r#"{{"type":"text","text":{}}}"#, quoted(&text)));
        self.stream_event(&format!(
            r#"{{"type":"message_delta","delta":{{"stop_reason":"end_turn","stop_sequence":null}},"usage":{USAGE}}}"#
        ));
        self.stream_event(r#"{"type":"message_stop"}"#);
    }

    fn open_message(&mut self, id: &str) {
        self.stream_event(&format!(
            r#"{{"type":"message_start","message":{{"id":"{id}","type":"message","role":"assistant","model":"{MODEL}","content":[],"stop_reason":null,"stop_sequence":null,"usage":{USAGE}}}}}"#
        ));
        self.stream_event(r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#);
    }

    fn delta(&mut self, index: u32, text: &str) {
        let text = quoted(text);
        self.stream_event(&format!(
            r#"{{"type":"content_block_delta","index":{index},"delta":{{"type":"text_delta","text":{text}}}}}"#
        ));
    }

    fn stream_event(&mut self, event: &str) {
        let (uuid, turn) = (self.uuid(), self.turn);
        let _ = writeln!(
            self.text,
            r#"{{"type":"stream_event","event":{event},"session_id":"{SESSION}","parent_tool_use_id":null,"uuid":"{uuid}","api_message_id":"msg_{turn}"}}"#
        );
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
