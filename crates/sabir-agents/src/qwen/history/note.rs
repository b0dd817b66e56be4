//! The log in short.

use std::sync::LazyLock;

use memchr::memmem::{self, Finder};

use super::{Entry, Piece, Topic, is_typed};
use sabir_core::event::{Outcome, Text};
use sabir_core::history::{Ledger, Response, Spent, id_of, time_of};
use sabir_core::json::{self, Str};
use sabir_core::line::utf8;

/// A key with a quote before and after it is not in any string, where the quotes would be escaped.
static TELEMETRY: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"ui_telemetry\""));

/// What a line is, it says at its beginning.
const HEAD: usize = 512;

/// Takes note of a line.
pub(super) fn note(ledger: &mut Ledger, line: &[u8]) {
    let head = &line[..line.len().min(HEAD)];
    let says = |word: &[u8]| memmem::find(head, word).is_some();
    let spoken = || says(b"\"type\":\"assistant\"") || says(b"\"type\":\"user\"");
    if !(spoken() || TELEMETRY.find(line).is_some()) {
        return;
    }
    let Some(entry) = utf8(line).and_then(json::parse::<Entry<'_>>) else {
        ledger.bad_lines += 1;
        return;
    };
    let learn = |known: &mut Option<String>, new: &Option<Str<'_>>| {
        if known.is_none() {
            *known = new.as_deref().map(str::to_owned);
        }
    };
    learn(&mut ledger.session, &entry.session_id);
    learn(&mut ledger.cwd, &entry.cwd);
    learn(&mut ledger.version, &entry.version);
    let at = entry.timestamp.as_deref().and_then(time_of);
    ledger.saw(at);
    match &*entry.r#type {
        "user" if is_typed(&entry) => {
            let pieces = entry.message.as_ref().map(|message| message.parts.as_slice()).unwrap_or_default();
            if let Some(text) = pieces.iter().find_map(|piece| Text::from_json(piece.text?)) {
                ledger.entitle(&text);
                ledger.outcome = Some(Outcome::Incomplete);
            }
        }
        "assistant" => assistant(ledger, &entry, at),
        _ => telemetry(ledger, &entry, at),
    }
}

fn assistant(ledger: &mut Ledger, entry: &Entry<'_>, at: Option<i64>) {
    let pieces = entry.message.as_ref().map(|message| message.parts.as_slice()).unwrap_or_default();
    let calls = pieces.iter().filter_map(|piece| piece.function_call.as_ref());
    // A response that was cut off has no figures.
    let done = entry.usage_metadata.is_some() && !pieces.iter().any(is_call);
    ledger.outcome = Some(if done { Outcome::Completed } else { Outcome::Incomplete });
    if let Some(usage) = entry.usage_metadata.filter(|_| !ledger.itemized) {
        respond(ledger, entry.uuid.as_deref().unwrap_or_default(), entry.model.as_deref(), at, usage.spent());
    }
    for call in calls {
        called(ledger, call.id.as_deref());
    }
}

fn is_call(piece: &Piece<'_>) -> bool {
    piece.function_call.is_some()
}

fn telemetry(ledger: &mut Ledger, entry: &Entry<'_>, at: Option<i64>) {
    let Some(event) = entry.system_payload.as_ref().and_then(|payload| payload.ui_event.as_ref()) else { return };
    match event.topic() {
        Topic::Response => {
            ledger.itemized = true;
            // Services there are that give all responses one id; the moment is the same in copies.
            let (when, id) = (event.at.as_deref().unwrap_or_default(), event.response_id.as_deref().unwrap_or_default());
            respond(ledger, &format!("{when} {id}"), event.model.as_deref(), at, event.spent());
        }
        Topic::Error if event.subagent().is_none() => ledger.outcome = Some(Outcome::Failed),
        // Those of sub-agents are told nowhere else.
        Topic::Call => called(ledger, event.call_id.as_deref()),
        Topic::Error | Topic::Other => {}
    }
}

/// Counts a call, once, to the last response.
fn called(ledger: &mut Ledger, id: Option<&str>) {
    if id.is_none_or(|id| ledger.is_new_call(id))
        && let Some(last) = ledger.responses.last_mut()
    {
        last.calls = last.calls.saturating_add(1);
    }
}

fn respond(ledger: &mut Ledger, id: &str, model: Option<&str>, at: Option<i64>, spent: Spent) {
    let model = ledger.model_number(model.unwrap_or("unknown"));
    ledger.respond(Response { copied: false, id: id_of(id), at: at.unwrap_or(0), model, calls: 0, spent, cost: None });
}

#[cfg(test)]
mod tests {
    use super::note;
    use sabir_core::event::Outcome;
    use sabir_core::history::{Ledger, Spent};

    const HEAD: &str = r#""sessionId":"s1","timestamp":"2026-11-15T18:00:00.000Z","cwd":"/home/user/work","version":"0.24.4""#;

    fn lines() -> Vec<String> {
        [
            r#""uuid":"a","parentUuid":null,"type":"user","provenance":"real_user","message":{"role":"user","parts":[{"text":"Fix it"}]}"#,
            r#""uuid":"b","parentUuid":"a","type":"system","subtype":"ui_telemetry","systemPayload":{"uiEvent":{"event.name":"qwen-code.api_response","event.timestamp":"t1","response_id":"r","model":"m","input_token_count":100,"output_token_count":10,"cached_content_token_count":40,"thoughts_token_count":3}}"#,
            r#""uuid":"c","parentUuid":"b","type":"assistant","model":"m","message":{"role":"model","parts":[{"functionCall":{"id":"k1","name":"agent","args":{}}}]},"usageMetadata":{"promptTokenCount":100,"candidatesTokenCount":10,"thoughtsTokenCount":3,"cachedContentTokenCount":40}"#,
            r#""uuid":"d","parentUuid":"c","type":"system","subtype":"ui_telemetry","systemPayload":{"uiEvent":{"event.name":"qwen-code.api_response","event.timestamp":"t2","response_id":"r","model":"m","input_token_count":7,"output_token_count":1,"subagent_id":"x"}}"#,
            r#""uuid":"e","parentUuid":"d","type":"system","subtype":"ui_telemetry","systemPayload":{"uiEvent":{"event.name":"qwen-code.tool_call","call_id":"k2","function_name":"glob","prompt_id":"s1#x#0"}}"#,
            r#""uuid":"f","parentUuid":"e","type":"system","subtype":"ui_telemetry","systemPayload":{"uiEvent":{"event.name":"qwen-code.tool_call","call_id":"k1","function_name":"agent","prompt_id":"s1########0"}}"#,
            r#""uuid":"g","parentUuid":"f","type":"user","subtype":"notification","provenance":"system","message":{"role":"user","parts":[{"text":"<task-notification>"}]}"#,
            r#""uuid":"h","parentUuid":"g","type":"assistant","model":"m","message":{"role":"model","parts":[{"text":"Done."}]},"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":9}"#,
        ]
        .map(|line| format!("{{{HEAD},{line}}}"))
        .to_vec()
    }

    #[test]
    fn a_response_that_is_told_twice_counts_once() {
        let mut ledger = Ledger::default();
        lines().iter().for_each(|line| note(&mut ledger, line.as_bytes()));
        assert_eq!((ledger.session.as_deref(), ledger.version.as_deref()), (Some("s1"), Some("0.24.4")));
        assert_eq!((ledger.title.as_deref(), ledger.outcome), (Some("Fix it"), Some(Outcome::Completed)));
        let spent = Spent { input: 67, cache_read: 40, output: 11, reasoning: 3, ..Spent::default() };
        assert_eq!(ledger.spent(), spent);
        assert_eq!(ledger.responses.iter().map(|response| response.calls).collect::<Vec<_>>(), [1, 1]);
        assert_eq!(ledger.bad_lines, 0);
    }

    #[test]
    fn without_telemetry_messages_count() {
        let mut ledger = Ledger::default();
        lines().iter().filter(|line| !line.contains("ui_telemetry")).for_each(|line| note(&mut ledger, line.as_bytes()));
        assert_eq!(ledger.spent(), Spent { input: 69, cache_read: 40, output: 19, reasoning: 3, ..Spent::default() });
        assert_eq!(ledger.responses.iter().map(|response| response.calls).collect::<Vec<_>>(), [1, 0]);
    }
}
