//! The log in short.

use super::super::stream::is_refusal;
use sabir_core::event::Outcome;
use sabir_core::history::{Ledger, Paid, Response, Spent, id_of};
use sabir_core::json::{self, NotJson, Str, Walk};

/// Takes note of a line.
pub(super) fn note(ledger: &mut Ledger, line: &[u8]) {
    let read = Entry::read(line).and_then(|entry| noted(ledger, &entry));
    ledger.bad_lines += u64::from(read.is_err());
}

fn noted(ledger: &mut Ledger, entry: &Entry<'_>) -> Result<(), NotJson> {
    let at = entry.at;
    match (entry.r#type, &entry.message) {
        // What a tool gave back may be long and is not asked for.
        (None, _) => return Ok(()),
        (Some(b"session"), _) => {
            ledger.session = entry.id.map(text).transpose()?.or(ledger.session.take());
            ledger.cwd = entry.cwd.as_deref().map(str::to_owned).or(ledger.cwd.take());
        }
        (Some(b"model_change"), _) => ledger.model = entry.model.map(|model| number_of(ledger, model)).transpose()?,
        (Some(b"message"), Some(message)) => message_noted(ledger, message, at)?,
        // Summaries and what else was asked of a model beside the conversation.
        (Some(_), _) => {
            let Some(usage) = entry.usage.as_ref().filter(|usage| usage.spent.total() > 0) else { return Ok(()) };
            let model = entry.model.map(|model| number_of(ledger, model)).transpose()?;
            let id = entry.id.map(text).transpose()?.unwrap_or_default();
            respond(ledger, id.as_bytes(), model, at, usage, 0);
        }
    }
    ledger.saw(at);
    Ok(())
}

/// What is written between the quotes of a text, as a text.
fn text(written: &[u8]) -> Result<String, NotJson> {
    json::text_inside(written).map(|text| text.0.into_owned())
}

/// The number of a model by its name as it is written.
fn number_of(ledger: &mut Ledger, model: &[u8]) -> Result<u16, NotJson> {
    match ledger.known_model(model) {
        Some(number) => Ok(number),
        None => json::text_inside(model).map(|name| ledger.model_number(&name)),
    }
}

/// A line as far as it is needed here; nothing of one that holds what a tool gave back. Words are as they are written between
/// their quotes: of nearly all of them nobody asks.
#[derive(Default)]
struct Entry<'a> {
    r#type: Option<&'a [u8]>,
    id: Option<&'a [u8]>,
    at: Option<i64>,
    cwd: Option<Str<'a>>,
    model: Option<&'a [u8]>,
    message: Option<Message<'a>>,
    usage: Option<Usage>,
}

#[derive(Default)]
struct Message<'a> {
    role: Option<&'a [u8]>,
    model: Option<&'a [u8]>,
    response_id: Option<&'a [u8]>,
    /// In milliseconds since 1970, as it is written.
    timestamp: Option<&'a [u8]>,
    usage: Option<Usage>,
    stop_reason: Option<&'a [u8]>,
    /// The model refused to answer.
    is_refused: bool,
    calls: usize,
    /// Its first text, as it is written.
    text: Option<&'a [u8]>,
}

/// What a response has cost.
#[derive(Default)]
struct Usage {
    spent: Spent,
    /// In US dollars.
    cost: Option<f64>,
}

impl<'a> Entry<'a> {
    fn read(line: &'a [u8]) -> Result<Self, NotJson> {
        let mut walk = Walk::over(line);
        let mut entry = Self::default();
        if !walk.enter()? {
            return Err(NotJson);
        }
        while let Some(key) = walk.key()? {
            match key {
                b"type" => entry.r#type = walk.word()?,
                b"id" => entry.id = walk.word()?,
                b"timestamp" => entry.at = walk.time()?,
                b"cwd" => entry.cwd = walk.text()?,
                b"model" | b"modelId" => entry.model = walk.word()?,
                b"usage" => entry.usage = Some(Usage::read(&mut walk)?),
                b"message" => {
                    let message = Message::read(&mut walk)?;
                    if message.role == Some(b"toolResult") {
                        return Ok(Self::default());
                    }
                    entry.message = Some(message);
                }
                _ => walk.skip()?,
            }
        }
        walk.end().map(|()| entry)
    }
}

impl<'a> Message<'a> {
    fn read(walk: &mut Walk<'a>) -> Result<Self, NotJson> {
        let mut message = Self::default();
        if !walk.enter()? {
            return Ok(message);
        }
        while let Some(key) = walk.key()? {
            match key {
                b"role" => {
                    message.role = walk.word()?;
                    if message.role == Some(b"toolResult") {
                        break;
                    }
                }
                b"model" => message.model = walk.word()?,
                b"responseId" => message.response_id = walk.word()?,
                b"timestamp" => message.timestamp = Some(walk.value()?),
                b"usage" => message.usage = Some(Usage::read(walk)?),
                b"stopReason" => message.stop_reason = walk.word()?,
                b"rawStopReason" => message.is_refused = walk.text()?.is_some_and(|raw| is_refusal(&raw)),
                b"content" if walk.is_at_text() => message.text = Some(walk.value()?),
                b"content" => walk.items(|walk| message.block(walk))?,
                _ => walk.skip()?,
            }
        }
        Ok(message)
    }

    /// The copies in a fork have the same moment in them; services there are that give all responses one id.
    fn id(&self) -> Result<Vec<u8>, NotJson> {
        let moment = self.timestamp.unwrap_or(b"0");
        let response = self.response_id.map(json::text_inside).transpose()?;
        let response = response.as_deref().unwrap_or_default().as_bytes();
        if matches!(moment, [b'1'..=b'9', rest @ ..] if rest.len() < 18 && rest.iter().all(u8::is_ascii_digit)) {
            return Ok([moment, b" ", response].concat());
        }
        // Not as a moment is always written.
        let moment: i64 = Walk::over(moment).parse()?.unwrap_or(0);
        Ok([moment.to_string().as_bytes(), b" ", response].concat())
    }

    fn block(&mut self, walk: &mut Walk<'a>) -> Result<(), NotJson> {
        walk.fields(|walk, key| {
            match key {
                b"type" => self.calls += usize::from(walk.word()? == Some(b"toolCall")),
                b"text" if self.text.is_none() => self.text = Some(walk.value()?),
                _ => walk.skip()?,
            }
            Ok(())
        })
    }
}

impl Usage {
    fn read(walk: &mut Walk<'_>) -> Result<Self, NotJson> {
        let mut usage = Self::default();
        let spent = &mut usage.spent;
        walk.fields(|walk, key| {
            match key {
                b"input" => spent.input = walk.number()?.unwrap_or(0),
                b"output" => spent.output = walk.number()?.unwrap_or(0),
                b"cacheRead" => spent.cache_read = walk.number()?.unwrap_or(0),
                b"cacheWrite" => spent.cache_write = walk.number()?.unwrap_or(0),
                b"cacheWrite1h" => spent.cache_write_1h = walk.number()?.unwrap_or(0),
                b"reasoning" => spent.reasoning = walk.number()?.unwrap_or(0),
                // A model without a price costs 0 in Pi's book; that is not knowing, not free.
                b"cost" => usage.cost = walk.parse_in(b"total")?.filter(|total| *total > 0.0),
                _ => walk.skip()?,
            }
            Ok(())
        })?;
        Ok(usage)
    }
}

fn message_noted(ledger: &mut Ledger, message: &Message<'_>, at: Option<i64>) -> Result<(), NotJson> {
    match message.role {
        Some(b"user") => {
            let untitled = message.text.filter(|_| ledger.title.is_none());
            if let Some(text) = untitled.and_then(|text| Walk::over(text).text().ok()?) {
                ledger.entitle(&text);
            }
            ledger.outcome = Some(Outcome::Incomplete);
        }
        Some(b"assistant") => {
            let refused = message.is_refused.then_some(Outcome::Refused);
            let stopped = message.stop_reason.map(json::text_inside).transpose()?;
            ledger.outcome = refused.or_else(|| stopped.as_deref().map(outcome_of));
            // The calls of an attempt that failed are never made.
            let is_failed = matches!(message.stop_reason, Some(b"error" | b"aborted"));
            let calls = if is_failed { 0 } else { u32::try_from(message.calls).unwrap_or(u32::MAX) };
            let usage = message.usage.as_ref().filter(|usage| usage.spent.total() > 0);
            let Some(usage) = usage else {
                ledger.calls = ledger.calls.saturating_add(calls);
                return Ok(());
            };
            let model = message.model.map(|model| number_of(ledger, model)).transpose()?;
            respond(ledger, &message.id()?, model, at, usage, calls);
        }
        _ => {}
    }
    Ok(())
}

fn respond(ledger: &mut Ledger, id: &[u8], model: Option<u16>, at: Option<i64>, usage: &Usage, calls: u32) {
    let Usage { spent, cost } = *usage;
    let model = model.or(ledger.model).unwrap_or_else(|| ledger.model_number("unknown"));
    ledger.respond(Response {
        copied: false,
        id: id_of(id),
        at: at.unwrap_or(0),
        model,
        calls,
        spent,
        cost: cost.map(Paid::Reported),
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
    use sabir_core::event::Outcome;
    use sabir_core::history::{Ledger, Paid, Spent};

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
        assert_eq!(
            ledger.responses.iter().map(|response| response.cost).collect::<Vec<_>>(),
            [Some(Paid::Reported(0.25)), None, None]
        );
        assert_eq!(ledger.responses.iter().map(|response| response.model).collect::<Vec<_>>(), [0, 0, 1]);
        assert_eq!((ledger.models, ledger.bad_lines), (vec!["m1".to_owned(), "m2".to_owned()], 0));
        assert_eq!(ledger.last.zip(ledger.first).map(|(last, first)| last - first), Some(6000));
    }

    #[test]
    fn calls_of_failed_attempts_do_not_count_and_those_without_tokens_do() {
        let answer = |reason: &str, input: u32, time: u32| {
            format!(
                r#"{{"type":"message","id":"e{time}","timestamp":"2026-11-15T18:00:02.000Z","message":{{"role":"assistant","content":[{{"type":"toolCall","id":"c","name":"bash","arguments":{{}}}}],"model":"m","usage":{{"input":{input},"output":0}},"stopReason":"{reason}","timestamp":{time}}}}}"#
            )
        };
        let mut ledger = Ledger::default();
        for line in [answer("error", 10, 1), answer("aborted", 10, 2), answer("toolUse", 10, 3), answer("toolUse", 0, 4)] {
            note(&mut ledger, line.as_bytes());
        }
        let of_responses: Vec<u32> = ledger.responses.iter().map(|response| response.calls).collect();
        assert_eq!((of_responses, ledger.calls, ledger.spent().input), (vec![0, 0, 1], 1, 30));
    }

    #[test]
    fn a_torn_line_is_counted() {
        let mut ledger = Ledger::default();
        note(&mut ledger, br#"{"type":"message","message":{"role":"user","content":"#);
        assert_eq!(ledger.bad_lines, 1);
    }
}
