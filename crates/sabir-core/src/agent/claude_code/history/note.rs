//! The log in short.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

use memchr::memmem::Finder;
use serde::Deserialize;
use serde::de::{SeqAccess, Visitor};

use super::super::wire::{ModelUsage, Usage};
use crate::event::Outcome;
use crate::history::{Ledger, Response, Spent, id_of, time_of};
use crate::json::{self, Str, StringOr, Unread};

/// A key with a quote before and after it is not in any string, where the quotes would be escaped.
static USAGE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"usage\":{"));
static MESSAGE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"message\":"));
static TYPE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"type\":\""));

/// Where in a line its type is looked for before anything else is.
const HEAD: usize = 640;

/// Takes note of a line.
pub(super) fn note(ledger: &mut Ledger, line: &[u8]) {
    let untitled = ledger.title.is_none() && ledger.responses.len() < 8;
    let wanted = match early_type(line) {
        // Nearly all bytes of a log are results of tools, and those are in the lines of the user.
        Some(b"user") => untitled,
        Some(b"progress" | b"system" | b"summary" | b"attachment" | b"queue-operation" | b"file-history-snapshot") => false,
        Some(b"cost-state") => true,
        // Its keys may be in another order than Claude Code writes them.
        None => untitled || USAGE.find(line).is_some(),
        Some(_) => USAGE.find(line).is_some(),
    };
    if !wanted {
        return;
    }
    let Some(line) = std::str::from_utf8(line).ok().and_then(json::parse::<Line<'_>>) else {
        ledger.bad_lines += 1;
        return;
    };
    match &*line.r#type {
        "assistant" => assistant(ledger, &line),
        "user" => user(ledger, &line),
        "cost-state" => {
            let Some(usage) = line.model_usage else { return };
            ledger.claimed = usage.iter().map(|(model, usage)| (ledger.model_number(model), spent_by(usage))).collect();
        }
        _ => {}
    }
}

/// The type of a line that tells it before its message. An answer tells it after.
fn early_type(line: &[u8]) -> Option<&[u8]> {
    let head = &line[..line.len().min(HEAD)];
    let head = &head[..MESSAGE.find(head).unwrap_or(head.len())];
    let word = &head[TYPE.find(head)? + b"\"type\":\"".len()..];
    Some(&word[..memchr::memchr(b'"', word)?])
}

/// A line as far as it is needed here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    #[serde(borrow)]
    r#type: Str<'a>,
    #[serde(borrow, default)]
    timestamp: Option<Str<'a>>,
    #[serde(borrow, default)]
    session_id: Option<Str<'a>>,
    #[serde(borrow, default)]
    cwd: Option<Str<'a>>,
    #[serde(borrow, default)]
    version: Option<Str<'a>>,
    #[serde(default)]
    is_meta: bool,
    #[serde(default)]
    is_sidechain: bool,
    #[serde(default)]
    is_api_error_message: bool,
    #[serde(borrow, default)]
    message: Option<StringOr<'a, Message<'a>>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    model_usage: Option<BTreeMap<Str<'a>, ModelUsage>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    id: Option<Str<'a>>,
    #[serde(borrow, default)]
    model: Option<Str<'a>>,
    #[serde(borrow, default)]
    stop_reason: Option<Str<'a>>,
    #[serde(default)]
    usage: Option<Usage>,
    #[serde(borrow, default)]
    content: Option<StringOr<'a, Blocks<'a>>>,
}

/// What is wanted of a message's blocks: its calls and its first text.
#[derive(Default)]
struct Blocks<'a> {
    calls: Vec<Str<'a>>,
    text: Option<Unread<'a>>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow, default)]
    r#type: Str<'a>,
    #[serde(borrow, default)]
    id: Option<Str<'a>>,
    #[serde(borrow, default)]
    text: Option<Unread<'a>>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Blocks<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BlocksVisitor;
        impl<'de> Visitor<'de> for BlocksVisitor {
            type Value = Blocks<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of blocks")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut blocks = Blocks::default();
                while let Some(block) = list.next_element::<Block<'de>>()? {
                    match &*block.r#type {
                        "tool_use" | "server_tool_use" | "mcp_tool_use" => blocks.calls.extend(block.id),
                        "text" if blocks.text.is_none() => blocks.text = block.text,
                        _ => {}
                    }
                }
                Ok(blocks)
            }
        }
        deserializer.deserialize_seq(BlocksVisitor)
    }
}

fn head(ledger: &mut Ledger, line: &Line<'_>) {
    let learn = |known: &mut Option<String>, new: &Option<Str<'_>>| {
        if known.is_none() {
            *known = new.as_deref().map(str::to_owned);
        }
    };
    learn(&mut ledger.session, &line.session_id);
    learn(&mut ledger.cwd, &line.cwd);
    learn(&mut ledger.version, &line.version);
    ledger.saw(line.timestamp.as_deref().and_then(time_of));
}

fn user(ledger: &mut Ledger, line: &Line<'_>) {
    head(ledger, line);
    let Some(StringOr::Other(message)) = &line.message else { return };
    let text = match &message.content {
        Some(StringOr::String(text)) => Some(text.clone()),
        Some(StringOr::Other(blocks)) => blocks.text.and_then(|text| json::parse(text.0)),
        None => None,
    };
    if let Some(text) = text.filter(|text| !line.is_meta && !super::is_furniture(text)) {
        ledger.entitle(&text);
        ledger.outcome = Some(Outcome::Incomplete);
    }
}

fn assistant(ledger: &mut Ledger, line: &Line<'_>) {
    let Some(StringOr::Other(message)) = &line.message else { return };
    head(ledger, line);
    if line.is_api_error_message {
        ledger.outcome = Some(Outcome::Failed);
        return;
    }
    let (Some(id), Some(model), Some(usage)) = (&message.id, &message.model, &message.usage) else { return };
    if &**model == "<synthetic>" {
        return;
    }
    if !line.is_sidechain {
        let done = matches!(message.stop_reason.as_deref(), Some("end_turn" | "stop_sequence"));
        ledger.outcome = Some(if done { Outcome::Completed } else { Outcome::Incomplete });
    }
    let calls = match &message.content {
        Some(StringOr::Other(blocks)) => blocks.calls.iter().filter(|id| ledger.is_new_call(id)).count(),
        _ => 0,
    };
    let model = ledger.model_number(model);
    ledger.respond(Response {
        copied: false,
        id: id_of(id),
        at: line.timestamp.as_deref().and_then(time_of).unwrap_or(0),
        model,
        calls: u16::try_from(calls).unwrap_or(u16::MAX),
        spent: spent(usage),
        cost: None,
    });
}

fn spent(usage: &Usage) -> Spent {
    Spent {
        input: usage.input_tokens.unwrap_or(0),
        cache_read: usage.cache_read_input_tokens.unwrap_or(0),
        cache_write: usage.cache_creation_input_tokens.unwrap_or(0),
        output: usage.output_tokens.unwrap_or(0),
        cache_write_1h: usage.cache_creation.and_then(|creation| creation.ephemeral_1h_input_tokens).unwrap_or(0),
        reasoning: usage.output_tokens_details.and_then(|details| details.thinking_tokens).unwrap_or(0),
    }
}

pub(super) fn spent_by(usage: &ModelUsage) -> Spent {
    Spent {
        input: usage.input_tokens,
        cache_read: usage.cache_read_input_tokens,
        cache_write: usage.cache_creation_input_tokens,
        output: usage.output_tokens,
        cache_write_1h: usage.cache_creation_1h_input_tokens.unwrap_or(0),
        reasoning: usage.thinking_tokens.unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::{early_type, note};
    use crate::event::Outcome;
    use crate::history::Ledger;

    const PROMPT: &str = r#"{"parentUuid":null,"isSidechain":false,"type":"user","message":{"role":"user","content":"Fix it\nplease"},"timestamp":"2026-11-15T10:00:00.000Z","cwd":"/home/user/a","sessionId":"s","version":"2.1.1"}"#;

    fn answer(id: &str, block: &str, stop: &str, output: u32) -> String {
        format!(
            r#"{{"isSidechain":false,"message":{{"model":"claude-x","id":"{id}","role":"assistant","content":[{block}],"stop_reason":{stop},"usage":{{"input_tokens":3,"cache_creation_input_tokens":20,"cache_read_input_tokens":100,"cache_creation":{{"ephemeral_1h_input_tokens":20}},"output_tokens":{output}}}}},"type":"assistant","timestamp":"2026-11-15T10:00:05.000Z"}}"#
        )
    }

    fn noted(lines: &[&str]) -> Ledger {
        let mut ledger = Ledger::default();
        lines.iter().for_each(|line| note(&mut ledger, line.as_bytes()));
        ledger
    }

    #[test]
    fn a_response_in_lines_counts_once_with_its_last_figures() {
        let text = answer("m", r#"{"type":"text","text":"a \"usage\":{ b"}"#, "null", 2);
        let call = answer(
            "m",
            r#"{"type":"tool_use","id":"t1","name":"Bash","input":{"usage":{"input_tokens":9}}}"#,
            r#""tool_use""#,
            40,
        );
        let result = r#"{"type":"user","message":{"role":"user","content":[{"tool_use_id":"t1","type":"tool_result"}]},"toolUseResult":{"usage":{"input_tokens":999,"output_tokens":999}}}"#;
        let ledger = noted(&[PROMPT, &text, &call, &call, result]);
        assert_eq!(ledger.responses.len(), 1);
        let response = ledger.responses[0];
        assert_eq!((response.calls, response.spent.output, response.spent.input), (1, 40, 3));
        assert_eq!((response.spent.cache_read, response.spent.cache_write, response.spent.cache_write_1h), (100, 20, 20));
        assert_eq!(ledger.outcome, Some(Outcome::Incomplete));
        assert_eq!((ledger.title.as_deref(), ledger.cwd.as_deref()), (Some("Fix it"), Some("/home/user/a")));
    }

    #[test]
    fn copies_of_figures_elsewhere_do_not_count() {
        let progress = r#"{"type":"progress","data":{"message":{"type":"assistant","message":{"id":"x","model":"m","usage":{"input_tokens":5}}}}}"#;
        let synthetic = answer("e", r#"{"type":"text","text":"API Error"}"#, "null", 0).replace("claude-x", "<synthetic>");
        let ledger = noted(&[PROMPT, progress, &synthetic, r#"{"type":"assistant","message":{"usage":{"input_to"#]);
        assert_eq!((ledger.responses.len(), ledger.bad_lines), (0, 1));
    }

    #[test]
    fn types_before_the_message_are_found() {
        assert_eq!(early_type(PROMPT.as_bytes()), Some(&b"user"[..]));
        assert_eq!(early_type(answer("m", r#"{"type":"user"}"#, "null", 1).as_bytes()), None);
        assert_eq!(early_type(b"{\"type\":\"us"), None);
    }

    #[test]
    fn the_agents_own_sum_is_kept() {
        let sum = r#"{"type":"cost-state","sessionId":"s","modelUsage":{"claude-x":{"inputTokens":7,"outputTokens":8,"cacheReadInputTokens":9,"cacheCreationInputTokens":10}}}"#;
        let ledger = noted(&[PROMPT, sum]);
        assert_eq!(ledger.claimed.len(), 1);
        assert_eq!(ledger.claimed[0].1.total(), 34);
    }
}
