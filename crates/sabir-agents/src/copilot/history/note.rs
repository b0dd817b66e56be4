//! The log in short.

use memchr::memmem;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Sums, Tokens};
use sabir_core::event::Outcome;
use sabir_core::history::{Ledger, Response, id_of, time_of};
use sabir_core::json::{self, Str};
use sabir_core::line::utf8;

/// The type comes first, so that what is long and not asked for is not read.
const TYPES: &[&[u8]] = &[
    b"\"session.start\"",
    b"\"session.resume\"",
    b"\"session.usage_record\"",
    b"\"session.error\"",
    b"\"session.shutdown\"",
    b"\"user.message\"",
    b"\"assistant.message\"",
    b"\"assistant.turn_end\"",
    b"\"abort\"",
];

/// What a line is, it says at its beginning.
const HEAD: usize = 64;

/// Takes note of a line.
pub(super) fn note(ledger: &mut Ledger, line: &[u8]) {
    let head = &line[..line.len().min(HEAD)];
    if !TYPES.iter().any(|name| memmem::find(head, name).is_some()) {
        return;
    }
    let Some(line) = utf8(line).and_then(json::parse::<Line<'_>>) else {
        ledger.bad_lines += 1;
        return;
    };
    let at = line.timestamp.as_deref().and_then(time_of);
    ledger.saw(at);
    let Some(data) = line.data else { return };
    let main = line.agent_id.is_none();
    match &*line.r#type {
        "session.start" => start(ledger, data),
        "session.usage_record" => {
            if let Some(record) = json::parse::<Record<'_>>(data.get()) {
                usage(ledger, record.usage, at);
            }
        }
        "session.shutdown" => {
            if let Some(sums) = json::parse::<Sums<'_>>(data.get()) {
                ledger.claimed = sums.by_model().map(|(model, spent)| (ledger.model_number(&model), spent)).collect();
            }
        }
        "session.error" if main => ledger.outcome = Some(Outcome::Failed),
        "abort" if main => ledger.outcome = Some(Outcome::Cancelled),
        "user.message" if main => {
            if let Some(said) = json::parse::<Said<'_>>(data.get()) {
                ledger.entitle(&said.content);
            }
            ledger.outcome = Some(Outcome::Incomplete);
        }
        "assistant.message" if main => {
            let calls = json::parse::<Calls>(data.get()).and_then(|calls| calls.tool_requests).unwrap_or_default();
            ledger.outcome = Some(if calls.is_empty() { Outcome::Completed } else { Outcome::Incomplete });
        }
        _ => {}
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    #[serde(borrow)]
    r#type: Str<'a>,
    #[serde(borrow, default)]
    timestamp: Option<Str<'a>>,
    #[serde(borrow, default)]
    agent_id: Option<Str<'a>>,
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Start<'a> {
    #[serde(borrow, default)]
    session_id: Option<Str<'a>>,
    #[serde(borrow, default)]
    copilot_version: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    context: Option<Context<'a>>,
}

#[derive(Deserialize)]
struct Context<'a> {
    #[serde(borrow, default)]
    cwd: Option<Str<'a>>,
}

#[derive(Deserialize)]
struct Said<'a> {
    #[serde(borrow)]
    content: Str<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Calls {
    #[serde(default, deserialize_with = "json::lenient")]
    tool_requests: Option<Vec<serde::de::IgnoredAny>>,
}

#[derive(Deserialize)]
struct Record<'a> {
    #[serde(borrow)]
    usage: Usage<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Usage<'a> {
    #[serde(borrow, default)]
    model: Option<Str<'a>>,
    #[serde(borrow, default)]
    api_call_id: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    num_tool_calls: Option<u32>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    accounting: Option<Accounting<'a>>,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
    reasoning_tokens: Option<u64>,
}

/// Names a call in all copies of its record.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Accounting<'a> {
    #[serde(borrow, default)]
    source_session_id: Option<Str<'a>>,
    #[serde(default, deserialize_with = "json::lenient")]
    sequence: Option<u64>,
}

fn start(ledger: &mut Ledger, data: &RawValue) {
    let Some(start) = json::parse::<Start<'_>>(data.get()) else { return };
    let owned = |text: Option<Str<'_>>| text.map(|text| text.0.into_owned());
    ledger.session = owned(start.session_id).or(ledger.session.take());
    ledger.version = owned(start.copilot_version).or(ledger.version.take());
    ledger.cwd = owned(start.context.and_then(|context| context.cwd)).or(ledger.cwd.take());
}

fn usage(ledger: &mut Ledger, usage: Usage<'_>, at: Option<i64>) {
    let Usage { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens, .. } = usage;
    let tokens = Tokens { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens };
    let spent = tokens.spent();
    if spent.total() == 0 {
        return;
    }
    let call = usage.api_call_id.as_deref().unwrap_or_default();
    // Services there are that give all calls one id; the number in the session tells them apart.
    let id = match usage.accounting {
        Some(Accounting { source_session_id: Some(session), sequence: Some(number) }) => format!("{} {number} {call}", &*session),
        _ => format!("{} {call}", at.unwrap_or(0)),
    };
    let model = ledger.model_number(usage.model.as_deref().unwrap_or("unknown"));
    let calls = usage.num_tool_calls.unwrap_or(0);
    ledger.respond(Response { copied: false, id: id_of(&id), at: at.unwrap_or(0), model, calls, spent, cost: None });
}

#[cfg(test)]
mod tests {
    use super::note;
    use sabir_core::event::Outcome;
    use sabir_core::history::{Ledger, Spent};

    const LOG: &str = r#"{"type":"session.start","data":{"sessionId":"s1","producer":"copilot-agent","copilotVersion":"1.0.102","context":{"cwd":"/home/user/work"}},"id":"a","timestamp":"2026-11-15T18:00:00.000Z","parentId":null}
{"type":"user.message","data":{"content":"Fix it","transformedContent":"more"},"id":"b","timestamp":"2026-11-15T18:00:01.000Z","parentId":"a"}
{"type":"session.usage_record","data":{"usage":{"model":"m","inputTokens":1000,"outputTokens":50,"cacheReadTokens":400,"cacheWriteTokens":100,"reasoningTokens":10,"cost":1.0,"apiCallId":"same","numToolCalls":2,"accounting":{"sourceSessionId":"s1","sequence":1}}},"id":"c","timestamp":"2026-11-15T18:00:02.000Z","parentId":"b"}
{"type":"assistant.message","data":{"content":"","toolRequests":[{}]},"id":"d","timestamp":"2026-11-15T18:00:02.000Z","parentId":"c"}
{"type":"session.usage_record","data":{"usage":{"model":"m","inputTokens":7,"outputTokens":1,"apiCallId":"same","accounting":{"sourceSessionId":"s1","sequence":2}}},"agentId":"x","id":"e","timestamp":"2026-11-15T18:00:03.000Z","parentId":"d"}
{"type":"user.message","data":{"content":"Count"},"agentId":"x","id":"f","timestamp":"2026-11-15T18:00:03.000Z","parentId":"e"}
{"type":"assistant.message","data":{"content":"Done.","toolRequests":[]},"id":"g","timestamp":"2026-11-15T18:00:04.000Z","parentId":"f"}
{"type":"session.shutdown","data":{"shutdownType":"routine","modelMetrics":{"m":{"usage":{"inputTokens":1017,"outputTokens":52,"cacheReadTokens":400,"cacheWriteTokens":100}}}},"id":"h","timestamp":"2026-11-15T18:00:05.000Z","parentId":"g"}"#;

    #[test]
    fn a_session_in_short() {
        let mut ledger = Ledger::default();
        LOG.lines().for_each(|line| note(&mut ledger, line.as_bytes()));
        assert_eq!((ledger.session.as_deref(), ledger.cwd.as_deref()), (Some("s1"), Some("/home/user/work")));
        assert_eq!((ledger.title.as_deref(), ledger.version.as_deref()), (Some("Fix it"), Some("1.0.102")));
        assert_eq!((ledger.outcome, ledger.bad_lines), (Some(Outcome::Completed), 0));
        let spent = Spent { input: 507, cache_read: 400, cache_write: 100, output: 51, reasoning: 10, cache_write_1h: 0 };
        assert_eq!(ledger.spent(), spent);
        assert_eq!(ledger.responses.iter().map(|response| response.calls).collect::<Vec<_>>(), [2, 0]);
        // Its sum knows of a call that has no line.
        assert_eq!(ledger.claimed.iter().map(|(_, claimed)| claimed.beyond(&spent).total()).collect::<Vec<_>>(), [11]);
    }
}
