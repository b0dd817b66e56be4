//! The log in short.

use memchr::memmem;

use super::whole::failure;
use super::{Entry, Message, is_furniture};
use sabir_core::event::{Outcome, Text};
use sabir_core::history::{Ledger, Response, Spent, id_of, time_of};
use sabir_core::json::{self, StringOr};
use sabir_core::line::utf8;

/// Takes note of a line, or of all settings.
pub(super) fn note(ledger: &mut Ledger, line: &[u8]) {
    let Some(text) = utf8(line) else {
        ledger.bad_lines += 1;
        return;
    };
    if !text.trim_start().starts_with("{\"type\":") && memmem::find(line, b"\"tokenUsage\"").is_some() {
        return settings(ledger, text);
    }
    let Some(entry) = json::parse::<Entry<'_>>(text) else {
        ledger.bad_lines += 1;
        return;
    };
    let at = entry.timestamp.as_deref().and_then(time_of);
    ledger.saw(at);
    match entry.r#type.as_deref() {
        Some("session_start") => {
            ledger.session = entry.id.map(|id| id.0.into_owned()).or(ledger.session.take());
            ledger.cwd = entry.cwd.map(|cwd| cwd.0.into_owned()).or(ledger.cwd.take());
        }
        Some("message") => {
            if let Some(message) = &entry.message {
                spoken(ledger, entry.id.as_deref().unwrap_or_default(), message, at);
            }
        }
        Some("agent_turn_outcome") => {
            let told = entry.reason.as_deref().map(outcome_of);
            // What went wrong was said before, and says more.
            if told != Some(Outcome::Failed) || !matches!(ledger.outcome, Some(Outcome::Refused | Outcome::Limited)) {
                ledger.outcome = told;
            }
        }
        _ => {}
    }
}

/// The figures of the session. They come whole, so that what was noted of an earlier state is void.
fn settings(ledger: &mut Ledger, text: &str) {
    let Some(entry) = json::parse::<Entry<'_>>(text) else {
        ledger.bad_lines += 1;
        return;
    };
    ledger.responses.retain(|response| response.spent.total() == 0);
    let Some(usage) = entry.token_usage.filter(|usage| usage.spent().total() > 0) else { return };
    let at = entry.provider_lock_timestamp.as_deref().and_then(time_of);
    let model = ledger.model_number(entry.model.as_deref().unwrap_or("unknown"));
    // Nothing in them names the session, and two may have spent the same; all of it together is nobody else's.
    let id = id_of(text.trim());
    ledger.responses.push(Response { copied: false, id, at: at.unwrap_or(0), model, calls: 0, spent: usage.spent(), cost: None });
}

fn spoken(ledger: &mut Ledger, id: &str, message: &Message<'_>, at: Option<i64>) {
    match &*message.role {
        "user" if message.visibility.is_none() || message.visibility.as_deref() == Some("user_only") => {
            let text = match &message.content {
                Some(StringOr::String(text)) => Some(Text::from(&**text)),
                Some(StringOr::Other(blocks)) => blocks
                    .iter()
                    .filter(|block| &*block.r#type == "text")
                    .filter_map(|block| Text::from_json(block.text?))
                    .find(|text| !is_furniture(text)),
                None => None,
            };
            match (text, message.visibility.is_some()) {
                (None, _) => {}
                // What went wrong, for people.
                (Some(text), true) => ledger.outcome = Some(failure(&text).1.0),
                (Some(text), false) => {
                    ledger.entitle(&text);
                    ledger.outcome = Some(Outcome::Incomplete);
                }
            }
        }
        "assistant" => {
            ledger.outcome = Some(Outcome::Incomplete);
            let calls = match &message.content {
                Some(StringOr::Other(blocks)) => blocks.iter().filter(|block| &*block.r#type == "tool_use").count(),
                _ => 0,
            };
            // What a response has spent is told nowhere; when it was, and its calls, are.
            let model = ledger.model_number(message.model_id.as_deref().unwrap_or("unknown"));
            ledger.respond(Response {
                copied: false,
                id: id_of(id),
                at: at.unwrap_or(0),
                model,
                calls: u32::try_from(calls).unwrap_or(u32::MAX),
                spent: Spent::default(),
                cost: None,
            });
        }
        _ => {}
    }
}

/// How a turn ended, in Droid's word.
pub(super) fn outcome_of(reason: &str) -> Outcome {
    let stopped = ["interrupt", "cancel", "abort"].iter().any(|word| reason.contains(word));
    match reason {
        "completed" => Outcome::Completed,
        _ if stopped => Outcome::Cancelled,
        _ => Outcome::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::note;
    use sabir_core::event::Outcome;
    use sabir_core::history::{Ledger, Spent};

    const LOG: &str = r#"{"type":"session_start","id":"s1","title":"Fix it","owner":"o","version":2,"cwd":"/home/user/work"}
{"type":"message","id":"a","timestamp":"2026-11-15T18:00:00.000Z","message":{"role":"user","content":[{"type":"text","text":"<system-reminder>\nMuch.\n</system-reminder>"}],"visibility":"llm_only"}}
{"type":"message","id":"b","parentId":"a","timestamp":"2026-11-15T18:00:01.000Z","message":{"role":"user","content":[{"type":"text","text":"Fix it"}],"interactionMode":"auto"}}
{"type":"message","id":"c","parentId":"b","timestamp":"2026-11-15T18:00:02.000Z","message":{"role":"assistant","content":[{"type":"text","text":"I look."},{"type":"tool_use","id":"k1","name":"Read","input":{}}],"modelId":"m"}}
{"type":"message","id":"d","parentId":"c","timestamp":"2026-11-15T18:00:03.000Z","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"k1","is_error":false,"content":"{\"tokenUsage\":{}}"}]}}
{"type":"message","id":"e","parentId":"d","timestamp":"2026-11-15T18:00:04.000Z","message":{"role":"assistant","content":[{"type":"text","text":"Done."}],"modelId":"m"}}
{"type":"agent_turn_outcome","turnId":"b","reason":"completed","resultKind":"text"}"#;

    #[test]
    fn the_log_has_all_but_the_figures() {
        let mut ledger = Ledger::default();
        LOG.lines().for_each(|line| note(&mut ledger, line.as_bytes()));
        assert_eq!((ledger.session.as_deref(), ledger.cwd.as_deref()), (Some("s1"), Some("/home/user/work")));
        assert_eq!((ledger.title.as_deref(), ledger.outcome), (Some("Fix it"), Some(Outcome::Completed)));
        assert_eq!(ledger.responses.iter().map(|response| response.calls).collect::<Vec<_>>(), [1, 0]);
        assert_eq!((ledger.spent(), ledger.bad_lines), (Spent::default(), 0));
    }

    #[test]
    fn the_settings_have_the_figures_and_the_last_ones_count() {
        let settings = |output: u64, lock: &str| {
            format!(
                "{{\n  \"assistantActiveTimeMs\": 300,\n  \"model\": \"m\",\n  \"tokenUsage\": {{\n    \"inputTokens\": 210,\n    \
                 \"outputTokens\": {output},\n    \"cacheCreationTokens\": 601,\n    \"cacheReadTokens\": 2000,\n    \
                 \"thinkingTokens\": 4\n  }},\n  \"inclusiveTokenUsage\": {{ \"inputTokens\": 999 }},\n  \
                 \"providerLockTimestamp\": \"{lock}\"\n}}\n"
            )
        };
        let mut ledger = Ledger::default();
        note(&mut ledger, settings(40, "2026-11-15T18:00:00.000Z").as_bytes());
        note(&mut ledger, settings(81, "2026-11-15T18:00:00.000Z").as_bytes());
        let spent = Spent { input: 210, cache_read: 2000, cache_write: 601, output: 81, reasoning: 4, cache_write_1h: 0 };
        assert_eq!((ledger.spent(), ledger.responses.len(), ledger.bad_lines), (spent, 1, 0));
        let mut other = Ledger::default();
        note(&mut other, settings(81, "2026-11-15T18:00:09.000Z").as_bytes());
        assert_ne!(other.responses[0].key(), ledger.responses[0].key());
    }
}
