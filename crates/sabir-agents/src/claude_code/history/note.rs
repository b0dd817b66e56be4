//! The log in short.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::super::wire::ModelUsage;
use sabir_core::event::Outcome;
use sabir_core::history::{Ledger, Response, ResponseLine, Sent, Spent, id_of, id_with};
use sabir_core::json::{self, NotJson, Str, Walk};

/// Takes note of a line.
pub(super) fn note(ledger: &mut Ledger, line: &[u8]) {
    let untitled = ledger.title.is_none() && ledger.responses.len() < 8;
    match Line::read(line, ledger, untitled) {
        Ok(line) => match line.r#type {
            Some(b"assistant") => assistant(ledger, &line),
            Some(b"user") => user(ledger, &line),
            Some(RESULT) => ledger.open.iter_mut().for_each(|open| open.sent(Sent::ToolResult)),
            Some(b"attachment") => {
                head(ledger, &line);
                ledger.outcome = Some(Outcome::Limited);
            }
            Some(b"cost-state") => {
                let usage = std::str::from_utf8(line.model_usage).ok();
                let Some(usage) = usage.and_then(json::parse::<BTreeMap<Str<'_>, ModelUsage>>) else { return };
                ledger.claimed = usage.iter().map(|(model, usage)| (ledger.model_number(model), spent_by(usage))).collect();
            }
            _ => {}
        },
        Err(NotJson) => ledger.bad_lines += 1,
    }
}

/// The type of a line of the user that is not read beyond its beginning, since it is the result of a tool.
const RESULT: &[u8] = b"result of a tool";

/// A line as far as it is needed here.
#[derive(Default)]
struct Line<'a> {
    r#type: Option<&'a [u8]>,
    at: Option<i64>,
    session_id: Option<Str<'a>>,
    cwd: Option<Str<'a>>,
    version: Option<Str<'a>>,
    uuid: Option<&'a [u8]>,
    request_id: Option<&'a [u8]>,
    is_meta: bool,
    is_sidechain: bool,
    is_api_error_message: bool,
    /// The agent was not allowed more turns.
    is_out_of_turns: bool,
    message: Message<'a>,
    /// As it is written.
    model_usage: &'a [u8],
}

#[derive(Default)]
struct Message<'a> {
    id: Option<&'a [u8]>,
    /// As it is written, between its quotes.
    model: Option<&'a [u8]>,
    stop_reason: Option<&'a [u8]>,
    spent: Option<Spent>,
    /// The id of its first call. There is hardly ever another on the same line, so no list is made for it.
    call: Option<&'a [u8]>,
    /// The ids of the calls behind it.
    more_calls: Vec<&'a [u8]>,
    /// Its first text, as it is written.
    text: Option<&'a [u8]>,
    /// There is the result of a tool in it.
    has_result: bool,
}

impl<'a> Line<'a> {
    /// Reads a line up to where it says that nothing in it matters. Nearly all bytes of a log are results of tools, which
    /// are in lines of the user, and those say so before anything else. An answer says what it is at its end.
    fn read(text: &'a [u8], known: &Ledger, untitled: bool) -> Result<Self, NotJson> {
        let mut walk = Walk::over(text);
        let mut line = Self::default();
        if !walk.enter()? {
            return Err(NotJson);
        }
        while let Some(key) = walk.key()? {
            match key {
                b"type" => {
                    line.r#type = walk.word()?;
                    match line.r#type {
                        Some(b"assistant" | b"cost-state") => {}
                        Some(b"user") if untitled || !is_result(text) => {}
                        Some(b"user") => return Ok(Self { r#type: Some(RESULT), ..Self::default() }),
                        Some(b"attachment") if line.is_out_of_turns && !line.is_sidechain => {}
                        _ => return Ok(Self::default()),
                    }
                }
                b"timestamp" => line.at = walk.time()?,
                b"sessionId" if known.session.is_none() => line.session_id = walk.text()?,
                b"cwd" if known.cwd.is_none() => line.cwd = walk.text()?,
                b"version" if known.version.is_none() => line.version = walk.text()?,
                b"uuid" => line.uuid = walk.word()?,
                b"requestId" => line.request_id = walk.word()?,
                b"isMeta" => line.is_meta = walk.is_true()?,
                b"isSidechain" => line.is_sidechain = walk.is_true()?,
                b"isApiErrorMessage" => line.is_api_error_message = walk.is_true()?,
                b"message" => line.message = Message::read(&mut walk)?,
                b"attachment" => line.is_out_of_turns = is_out_of_turns(&mut walk)?,
                b"modelUsage" => line.model_usage = walk.value()?,
                _ => walk.skip()?,
            }
        }
        walk.end().map(|()| line)
    }
}

/// Whether a line of the user is the result of a tool, as far as its beginning says so.
fn is_result(line: &[u8]) -> bool {
    const BEGINNING: usize = 512;
    static RESULT: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(br#""tool_result""#));
    RESULT.find(line.get(..BEGINNING).unwrap_or(line)).is_some()
}

fn is_out_of_turns(walk: &mut Walk<'_>) -> Result<bool, NotJson> {
    let mut found = false;
    walk.fields(|walk, key| {
        match key {
            b"type" => found = walk.word()? == Some(b"max_turns_reached"),
            _ => walk.skip()?,
        }
        Ok(())
    })?;
    Ok(found)
}

impl<'a> Message<'a> {
    fn read(walk: &mut Walk<'a>) -> Result<Self, NotJson> {
        let mut message = Self::default();
        walk.fields(|walk, key| {
            match key {
                b"id" => message.id = walk.word()?,
                b"model" => message.model = walk.word()?,
                b"stop_reason" => message.stop_reason = walk.word()?,
                b"usage" => message.spent = Some(spent(walk)?),
                b"content" if walk.is_at_text() => message.text = Some(walk.value()?),
                b"content" => walk.items(|walk| message.block(walk))?,
                _ => walk.skip()?,
            }
            Ok(())
        })?;
        Ok(message)
    }

    fn block(&mut self, walk: &mut Walk<'a>) -> Result<(), NotJson> {
        let (mut r#type, mut id, mut text) = (None, None, None);
        walk.fields(|walk, key| {
            match key {
                b"type" => r#type = walk.word()?,
                b"id" => id = walk.word()?,
                b"text" => text = Some(walk.value()?),
                _ => walk.skip()?,
            }
            Ok(())
        })?;
        match r#type {
            Some(b"tool_use" | b"server_tool_use" | b"mcp_tool_use") => match self.call {
                None => self.call = id,
                Some(_) => self.more_calls.extend(id),
            },
            Some(b"text") => self.text = self.text.or(text),
            Some(b"tool_result") => self.has_result = true,
            _ => {}
        }
        Ok(())
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
    ledger.saw(line.at);
}

fn user(ledger: &mut Ledger, line: &Line<'_>) {
    head(ledger, line);
    let sent = if line.message.has_result { Sent::ToolResult } else { Sent::Prompt };
    ledger.open[usize::from(line.is_sidechain)].sent(sent);
    // How a prompt begins says all that is wanted.
    let enough = if ledger.title.is_none() { 2_048 } else { 256 };
    let Some(text) = line.message.text.and_then(|text| Walk::over(text).text_up_to(enough).ok()?) else { return };
    let outcome = match &*text {
        text if text.trim_start().starts_with(super::INTERRUPTED) => Outcome::Cancelled,
        text if line.is_meta || super::is_furniture(text) => return,
        text => {
            ledger.entitle(text);
            Outcome::Incomplete
        }
    };
    if !line.is_sidechain {
        ledger.outcome = Some(outcome);
    }
}

fn assistant(ledger: &mut Ledger, line: &Line<'_>) {
    let message = &line.message;
    head(ledger, line);
    if line.is_api_error_message {
        ledger.outcome = Some(Outcome::Failed);
        return;
    }
    if message.model == Some(b"<synthetic>") {
        return;
    }
    if !line.is_sidechain {
        let done = matches!(message.stop_reason, Some(b"end_turn" | b"stop_sequence"));
        ledger.outcome = Some(if done { Outcome::Completed } else { Outcome::Incomplete });
    }
    let Ledger { open, session, responses, .. } = &mut *ledger;
    let place = || id_with(session.as_deref().map_or(0, id_of), [responses.len() as u64]);
    let part = ResponseLine {
        message_id: message.id,
        request_id: line.request_id,
        uuid: line.uuid,
        at: line.at,
        input: message.spent.map(|spent| [spent.input, spent.cache_read, spent.cache_write]),
    };
    let part = open[usize::from(line.is_sidechain)].next(&part, place);
    // Whoever numbers the responses of each session may number the calls of each response.
    let response = if part.is_unique { part.id } else { 0 };
    if part.is_new && !part.is_unique && ledger.noted(part.id).is_none() {
        ledger.forget_calls();
    }
    let calls = message.call.iter().chain(&message.more_calls).filter(|id| ledger.is_new_call_of(response, id)).count();
    let calls = u32::try_from(calls).unwrap_or(u32::MAX);
    let Some(spent) = message.spent else {
        ledger.calls = ledger.calls.saturating_add(calls);
        return;
    };
    let Ok(model) = number_of(ledger, message.model.unwrap_or(b"unknown")) else {
        ledger.bad_lines += 1;
        return;
    };
    let at = line.at.unwrap_or(0);
    ledger.respond_to(part.was, Response { copied: false, id: part.id, at, model, calls, spent, cost: None });
}

/// The number of a model by its name as it is written.
fn number_of(ledger: &mut Ledger, model: &[u8]) -> Result<u16, NotJson> {
    match ledger.known_model(model) {
        Some(number) => Ok(number),
        None => json::text_inside(model).map(|name| ledger.model_number(&name)),
    }
}

fn spent(walk: &mut Walk<'_>) -> Result<Spent, NotJson> {
    let mut spent = Spent::default();
    walk.fields(|walk, key| {
        match key {
            b"input_tokens" => spent.input = walk.number()?.unwrap_or(0),
            b"cache_read_input_tokens" => spent.cache_read = walk.number()?.unwrap_or(0),
            b"cache_creation_input_tokens" => spent.cache_write = walk.number()?.unwrap_or(0),
            b"output_tokens" => spent.output = walk.number()?.unwrap_or(0),
            b"cache_creation" => spent.cache_write_1h = walk.number_in(b"ephemeral_1h_input_tokens")?.unwrap_or(0),
            b"output_tokens_details" => spent.reasoning = walk.number_in(b"thinking_tokens")?.unwrap_or(0),
            _ => walk.skip()?,
        }
        Ok(())
    })?;
    Ok(spent)
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
    use super::note;
    use sabir_core::event::Outcome;
    use sabir_core::history::Ledger;

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
    fn how_it_stands_is_what_the_last_lines_say() {
        let done = answer("m", r#"{"type":"text","text":"a"}"#, r#""end_turn""#, 2);
        let outcome = |lines: &[&str]| noted(lines).outcome;
        assert_eq!(outcome(&[PROMPT, &done]), Some(Outcome::Completed));
        assert_eq!(outcome(&[PROMPT, &done, PROMPT]), Some(Outcome::Incomplete), "another prompt has no answer yet");
        let stopped =
            PROMPT.replace(r#""Fix it\nplease""#, r#"[{"type":"text","text":"[Request interrupted by user for tool use]"}]"#);
        assert_eq!(outcome(&[PROMPT, &done, PROMPT, &stopped]), Some(Outcome::Cancelled));
        assert_eq!(
            outcome(&[PROMPT, &done, &stopped.replace(r#""isSidechain":false"#, r#""isSidechain":true"#)]),
            Some(Outcome::Completed)
        );
        let turns = r#"{"isSidechain":false,"attachment":{"type":"max_turns_reached","maxTurns":2},"type":"attachment","timestamp":"2026-11-15T10:00:06.000Z"}"#;
        assert_eq!(outcome(&[PROMPT, turns]), Some(Outcome::Limited));
        assert_eq!(outcome(&[PROMPT, &done, &turns.replace("max_turns_reached", "date")]), Some(Outcome::Completed));
    }

    #[test]
    fn copies_of_figures_elsewhere_do_not_count() {
        let progress = r#"{"type":"progress","data":{"message":{"type":"assistant","message":{"id":"x","model":"m","usage":{"input_tokens":5}}}}}"#;
        let synthetic = answer("e", r#"{"type":"text","text":"API Error"}"#, "null", 0).replace("claude-x", "<synthetic>");
        let ledger = noted(&[PROMPT, progress, &synthetic, r#"{"type":"assistant","message":{"usage":{"input_to"#]);
        assert_eq!((ledger.responses.len(), ledger.bad_lines), (0, 1));
        // Whatever is no object is no line of the log.
        assert_eq!(noted(&["npm warn", "null", "[1]", "7", "\"text\""]).bad_lines, 5);
    }

    #[test]
    fn the_order_of_the_keys_does_not_matter() {
        let answer = answer("m", r#"{"type":"tool_use","id":"t1","input":{}}"#, "null", 5);
        let other = answer.replace(r#"{"isSidechain":false,"#, r#"{"type":"assistant","isSidechain":false,"#);
        let other = other.replace(r#","type":"assistant","timestamp""#, r#","timestamp""#);
        assert_ne!(answer, other);
        assert_eq!(noted(&[PROMPT, &answer]), noted(&[PROMPT, &other]));
    }

    #[test]
    fn bytes_that_are_no_text_cost_no_figures() {
        let mut line = answer("m", r#"{"type":"text","text":"~"}"#, "null", 5).into_bytes();
        let place = line.iter().position(|byte| *byte == b'~').expect("the text");
        line[place] = 0xff;
        let mut ledger = Ledger::default();
        note(&mut ledger, &line);
        assert_eq!((ledger.spent().output, ledger.bad_lines), (5, 0));
    }

    #[test]
    fn the_agents_own_sum_is_kept() {
        let sum = r#"{"type":"cost-state","sessionId":"s","modelUsage":{"claude-x":{"inputTokens":7,"outputTokens":8,"cacheReadInputTokens":9,"cacheCreationInputTokens":10}}}"#;
        let ledger = noted(&[PROMPT, sum]);
        assert_eq!(ledger.claimed.len(), 1);
        assert_eq!(ledger.claimed[0].1.total(), 34);
    }
}
