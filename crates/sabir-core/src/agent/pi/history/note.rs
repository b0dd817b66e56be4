//! The log in short.

use std::sync::LazyLock;

use memchr::memmem::{self, Finder};
use serde::Deserialize;

use super::super::wire::Usage;
use super::Entry;
use crate::event::Outcome;
use crate::history::{Ledger, Response, id_of, time_of};
use crate::json::{self, Str, StringOr};

/// A key with a quote before and after it is not in any string, where the quotes would be escaped.
static USAGE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"usage\":{"));

/// What a line is, it says at its beginning.
const HEAD: usize = 256;

/// Takes note of a line.
pub(super) fn note(ledger: &mut Ledger, line: &[u8]) {
    let head = &line[..line.len().min(HEAD)];
    let says = |word: &[u8]| memmem::find(head, word).is_some();
    let asks = || says(b"\"role\":\"user\"");
    let sets = || line.starts_with(br#"{"type":"session""#) || line.starts_with(br#"{"type":"model_change""#);
    // What a tool gave back may be long and is not asked for.
    if says(b"\"role\":\"toolResult\"") || !(asks() || sets() || USAGE.find(line).is_some()) {
        return;
    }
    let Some(entry) = std::str::from_utf8(line).ok().and_then(json::parse::<Entry<'_>>) else {
        ledger.bad_lines += 1;
        return;
    };
    let at = entry.timestamp.as_deref().and_then(time_of);
    ledger.saw(at);
    match &*entry.r#type {
        "session" => {
            ledger.session = entry.id.as_deref().map(str::to_owned).or(ledger.session.take());
            ledger.cwd = entry.cwd.as_deref().map(str::to_owned).or(ledger.cwd.take());
        }
        "model_change" => ledger.model = entry.model.as_deref().map(|model| ledger.model_number(model)),
        "message" => {
            if let Some(message) = entry.message.and_then(|message| json::parse::<Message<'_>>(message.get())) {
                message_noted(ledger, &message, at);
            }
        }
        // Summaries and what else was asked of a model beside the conversation.
        _ => {
            let Some(usage) = entry.usage else { return };
            let model = entry.model.as_deref().map(|model| ledger.model_number(model));
            let id = entry.id.as_deref().unwrap_or_default();
            respond(ledger, id, model, at, &usage, 0);
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message<'a> {
    #[serde(borrow)]
    role: Str<'a>,
    #[serde(borrow, default)]
    content: Option<StringOr<'a, Vec<Block<'a>>>>,
    #[serde(borrow, default)]
    model: Option<Str<'a>>,
    #[serde(borrow, default)]
    response_id: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    timestamp: Option<i64>,
    #[serde(default, deserialize_with = "json::lenient")]
    usage: Option<Usage>,
    #[serde(borrow, default)]
    stop_reason: Option<Str<'a>>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow)]
    r#type: Str<'a>,
    #[serde(borrow, default)]
    text: Option<&'a serde_json::value::RawValue>,
}

fn message_noted(ledger: &mut Ledger, message: &Message<'_>, at: Option<i64>) {
    match &*message.role {
        "user" => {
            let text = match &message.content {
                Some(StringOr::String(text)) => Some(text.clone()),
                Some(StringOr::Other(blocks)) => blocks.iter().find_map(|block| json::parse(block.text?.get())),
                None => None,
            };
            if let Some(text) = text {
                ledger.entitle(&text);
            }
            ledger.outcome = Some(Outcome::Incomplete);
        }
        "assistant" => {
            ledger.outcome = message.stop_reason.as_deref().map(outcome_of);
            let calls = match &message.content {
                Some(StringOr::Other(blocks)) => blocks.iter().filter(|block| &*block.r#type == "toolCall").count(),
                _ => 0,
            };
            let Some(usage) = message.usage else { return };
            let model = message.model.as_deref().map(|model| ledger.model_number(model));
            // The copies in a fork have the same moment in them; services there are that give all responses one id.
            let id = format!("{} {}", message.timestamp.unwrap_or(0), message.response_id.as_deref().unwrap_or_default());
            respond(ledger, &id, model, at, &usage, calls);
        }
        _ => {}
    }
}

fn respond(ledger: &mut Ledger, id: &str, model: Option<u16>, at: Option<i64>, usage: &Usage, calls: usize) {
    let spent = usage.spent();
    // An attempt that never reached the model.
    if spent.total() == 0 {
        return;
    }
    let model = model.or(ledger.model).unwrap_or_else(|| ledger.model_number("unknown"));
    ledger.respond(Response {
        copied: false,
        id: id_of(id),
        at: at.unwrap_or(0),
        model,
        calls: u16::try_from(calls).unwrap_or(u16::MAX),
        spent,
        cost: usage.cost_usd(),
    });
}

/// How a session stands after a message that stopped so.
pub(super) fn outcome_of(stop_reason: &str) -> Outcome {
    match stop_reason {
        "stop" => Outcome::Completed,
        "length" => Outcome::Limited,
        "error" => Outcome::Failed,
        "aborted" => Outcome::Cancelled,
        _ => Outcome::Incomplete,
    }
}

#[cfg(test)]
mod tests {
    use super::note;
    use crate::event::Outcome;
    use crate::history::{Ledger, Spent};

    const LOG: &str = r#"{"type":"session","version":3,"id":"s1","timestamp":"2026-11-15T18:00:00.000Z","cwd":"/home/user/work"}
{"type":"model_change","id":"e0","parentId":null,"timestamp":"2026-11-15T18:00:00.100Z","provider":"p","modelId":"m1"}
{"type":"message","id":"e1","parentId":"e0","timestamp":"2026-11-15T18:00:01.000Z","message":{"role":"user","content":[{"type":"text","text":"Fix it\nplease"}],"timestamp":1}}
{"type":"message","id":"e2","parentId":"e1","timestamp":"2026-11-15T18:00:02.000Z","message":{"role":"assistant","content":[],"model":"m1","usage":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0},"stopReason":"error","errorMessage":"529","timestamp":2}}
{"type":"message","id":"e3","parentId":"e2","timestamp":"2026-11-15T18:00:03.000Z","message":{"role":"assistant","content":[{"type":"toolCall","id":"c1","name":"bash","arguments":{"command":"echo '\"usage\":{'"}}],"model":"m1","usage":{"input":10,"output":5,"cacheRead":100,"cacheWrite":20,"reasoning":2,"cost":{"total":0.25}},"stopReason":"toolUse","timestamp":3,"responseId":"same"}}
{"type":"message","id":"e4","parentId":"e3","timestamp":"2026-11-15T18:00:04.000Z","message":{"role":"toolResult","toolCallId":"c1","toolName":"bash","content":[{"type":"text","text":"ok"}],"details":{"usage":{"input":7}},"isError":false,"timestamp":4}}
{"type":"compaction","id":"e5","parentId":"e4","timestamp":"2026-11-15T18:00:05.000Z","summary":"so far","usage":{"input":1000,"output":50}}
{"type":"message","id":"e6","parentId":"e5","timestamp":"2026-11-15T18:00:06.000Z","message":{"role":"assistant","content":[{"type":"text","text":"Done."}],"model":"m2","usage":{"input":10,"output":5,"cacheRead":0,"cacheWrite":0,"cost":{"total":0}},"stopReason":"stop","timestamp":6,"responseId":"same"}}"#;

    #[test]
    fn a_session_in_short() {
        let mut ledger = Ledger::default();
        LOG.lines().for_each(|line| note(&mut ledger, line.as_bytes()));
        assert_eq!((ledger.session.as_deref(), ledger.cwd.as_deref()), (Some("s1"), Some("/home/user/work")));
        assert_eq!(ledger.title.as_deref(), Some("Fix it"));
        assert_eq!(ledger.outcome, Some(Outcome::Completed));
        let spent = Spent { input: 1020, cache_read: 100, cache_write: 20, output: 60, reasoning: 2, cache_write_1h: 0 };
        assert_eq!(ledger.spent(), spent);
        assert_eq!(ledger.responses.iter().map(|response| response.calls).collect::<Vec<_>>(), [1, 0, 0]);
        // A price of nothing is a price that Pi does not know.
        assert_eq!(ledger.responses.iter().map(|response| response.cost).collect::<Vec<_>>(), [Some(0.25), None, None]);
        assert_eq!(ledger.responses.iter().map(|response| response.model).collect::<Vec<_>>(), [0, 0, 1]);
        assert_eq!((ledger.models, ledger.bad_lines), (vec!["m1".to_owned(), "m2".to_owned()], 0));
        assert_eq!(ledger.last.zip(ledger.first).map(|(last, first)| last - first), Some(6000));
    }

    #[test]
    fn a_torn_line_is_counted() {
        let mut ledger = Ledger::default();
        note(&mut ledger, br#"{"type":"message","message":{"role":"user","content":"#);
        assert_eq!(ledger.bad_lines, 1);
    }
}
