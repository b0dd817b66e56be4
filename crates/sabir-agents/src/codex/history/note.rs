//! The log in short.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use serde::Deserialize;

use super::super::counter::Figures;
use super::super::trouble::Trouble;
use super::head::{AnyOrder, Marks};
use super::{Report, SessionMeta, is_furniture, owner_of_turn};
use sabir_core::event::Outcome;
use sabir_core::history::{Ledger, Response, id_of, id_with, time_of};
use sabir_core::json::{self, NotJson, Str, Unread, Walk};
use sabir_core::line::utf8;
use sabir_core::time::Timestamp;

/// Takes note of a line.
pub(super) fn note(ledger: &mut Ledger, line: &[u8]) {
    if let Some((head, payload)) = Marks::of(line) {
        return by_head(ledger, &head, line, payload);
    }
    let Some(any) = parse::<AnyOrder<'_>>(ledger, line) else { return };
    match (any.timestamp, any.r#type, any.payload) {
        (Some(timestamp), Some(kind), Some(payload)) => {
            let inner = payload.r#type.unwrap_or_default();
            let (timestamp, kind, inner) = (timestamp.as_bytes(), kind.as_bytes(), inner.as_bytes());
            by_head(ledger, &Marks { timestamp, kind, inner }, line, payload_in(line).unwrap_or_default());
        }
        // Up to 0.28 the items stand alone.
        (None, Some(kind), None) => item(ledger, kind.as_bytes(), line),
        (Some(_), None, None) => {
            let meta = parse(ledger, line);
            session_meta(ledger, meta);
        }
        _ => {}
    }
}

fn parse<'a, T: Deserialize<'a>>(ledger: &mut Ledger, line: &'a [u8]) -> Option<T> {
    let parsed = utf8(line).and_then(json::parse);
    ledger.bad_lines += u64::from(parsed.is_none());
    parsed
}

/// What a line is about, parsed.
fn parsed_payload<'a, T: Deserialize<'a>>(ledger: &mut Ledger, line: &'a [u8]) -> Option<T> {
    #[derive(Deserialize)]
    struct Of<T> {
        payload: T,
    }
    parse::<Of<T>>(ledger, line).map(|of| of.payload)
}

/// The rest of a line from what it is about on.
fn payload_in(line: &[u8]) -> Option<&[u8]> {
    let mut walk = Walk::over(line);
    walk.enter().ok()?;
    while walk.key().ok()?? != b"payload" {
        walk.skip().ok()?;
    }
    Some(walk.rest())
}

/// Reads what a line is about, key by key, from there on. False when it is not a whole line.
fn payload<'a>(ledger: &mut Ledger, rest: &'a [u8], read: impl FnMut(&mut Walk<'a>, &'a [u8]) -> Result<(), NotJson>) -> bool {
    let mut walk = Walk::over(rest);
    let to_the_end = || {
        walk.fields(read)?;
        while walk.key()?.is_some() {
            walk.skip()?;
        }
        walk.end()
    };
    let is_whole = to_the_end().is_ok();
    ledger.bad_lines += u64::from(!is_whole);
    is_whole
}

/// What a line says of tokens: in all and of the last response, by those keys.
fn report(walk: &mut Walk<'_>, key: &[u8], keys: [&[u8]; 2], report: &mut [Option<Figures>; 2]) -> Result<(), NotJson> {
    match keys.iter().position(|known| *known == key) {
        Some(place) => report[place] = figures(walk)?,
        None => walk.skip()?,
    }
    Ok(())
}

fn figures(walk: &mut Walk<'_>) -> Result<Option<Figures>, NotJson> {
    if !walk.is_at_object() {
        return walk.skip().map(|()| None);
    }
    let mut figures = Figures::default();
    walk.fields(|walk, key| {
        match key {
            b"input_tokens" => figures.input = walk.number()?,
            b"cached_input_tokens" => figures.cached = walk.number()?,
            b"cache_write_input_tokens" => figures.cache_write = walk.number()?,
            b"output_tokens" => figures.output = walk.number()?,
            b"reasoning_output_tokens" => figures.reasoning = walk.number()?,
            _ => walk.skip()?,
        }
        Ok(())
    })?;
    Ok(Some(figures))
}

fn by_head(ledger: &mut Ledger, head: &Marks<'_>, line: &[u8], rest: &[u8]) {
    let at = Timestamp::millis_of(head.timestamp);
    match (head.kind, head.inner) {
        (b"event_msg", b"token_count") => {
            let mut told = [None; 2];
            let is_whole = payload(ledger, rest, |walk, key| match key {
                b"info" => walk.fields(|walk, key| report(walk, key, [b"total_token_usage", b"last_token_usage"], &mut told)),
                _ => walk.skip(),
            });
            if is_whole {
                spend(ledger, told, false, at);
            }
        }
        (b"token_usage_record", _) => {
            let mut told = [None; 2];
            if payload(ledger, rest, |walk, key| report(walk, key, [b"thread_token_usage", b"usage"], &mut told)) {
                spend(ledger, told, true, at);
            }
        }
        (b"response_item", inner) => item(ledger, inner, line),
        (b"turn_context", _) => {
            let (mut turn, mut model) = (None, None);
            let is_whole = payload(ledger, rest, |walk, key| {
                match key {
                    b"turn_id" => turn = walk.text()?,
                    b"model" => model = walk.text()?,
                    _ => walk.skip()?,
                }
                Ok(())
            });
            if is_whole {
                ledger.owner = owner_of_turn(&ledger.threads, turn.as_deref(), at).unwrap_or(ledger.owner);
                ledger.model = model.map(|model| ledger.model_number(&model)).or(ledger.model);
            }
        }
        (b"session_meta", _) => {
            let meta = parsed_payload(ledger, line);
            session_meta(ledger, meta);
        }
        (b"event_msg", event) => by_event(ledger, event, at, line, rest),
        _ => {}
    }
    ledger.saw(at);
}

/// Whether the line is of the thread itself, and not of one that its log begins with a copy of.
fn is_own(ledger: &Ledger) -> bool {
    ledger.threads.first().is_none_or(|(_, own)| *own == ledger.owner)
}

fn by_event(ledger: &mut Ledger, event: &[u8], at: Option<i64>, line: &[u8], rest: &[u8]) {
    match event {
        b"user_message" => {
            if ledger.outcome != Some(Outcome::Incomplete) {
                ledger.outcome = None;
            }
            // Where turns have no id, the prompt comes before the line that tells whose it is.
            if ledger.title.is_none() && (is_own(ledger) || owner_of_turn(&ledger.threads, None, at).is_some()) {
                #[derive(Deserialize)]
                struct UserMessage<'a> {
                    #[serde(borrow)]
                    message: Str<'a>,
                }
                let prompt = parsed_payload::<UserMessage<'_>>(ledger, line).map(|prompt| prompt.message);
                entitle(ledger, prompt.as_deref());
            }
        }
        b"item_completed" if ledger.title.is_none() && is_own(ledger) && USER_MESSAGE.find(line).is_some() => {
            #[derive(Deserialize)]
            struct ItemCompleted<'a> {
                #[serde(borrow)]
                item: Message<'a>,
            }
            let prompt = parsed_payload::<ItemCompleted<'_>>(ledger, line).and_then(|completed| completed.item.text());
            entitle(ledger, prompt.as_deref());
        }
        // The item of a call that the model made has the id of that call. Others are of calls that a script of the model made.
        b"item_completed" if called(line).is_some_and(|id| ledger.is_new_call(id)) => {
            ledger.calls = ledger.calls.saturating_add(1);
        }
        // From here on only the end of the task is an end.
        b"task_started" | b"turn_started" => ledger.outcome = Some(Outcome::Incomplete),
        b"agent_message" => said(ledger),
        b"task_complete" | b"turn_complete" => {
            let (mut error, mut said) = (None, false);
            let is_whole = payload(ledger, rest, |walk, key| {
                match key {
                    b"error" => error = Some(walk.value()?).filter(|error| *error != b"null"),
                    b"last_agent_message" => said = walk.value()? != b"null",
                    _ => walk.skip()?,
                }
                Ok(())
            });
            // Versions that do not record each response do not tell errors here either: a task that failed just has no
            // last word.
            if is_whole {
                ledger.outcome = Some(match (error, said) {
                    (Some(error), _) => failed(error),
                    (None, false) if !ledger.recorded => Outcome::Incomplete,
                    (None, _) => Outcome::Completed,
                });
            }
        }
        b"turn_aborted" => ledger.outcome = Some(Outcome::Cancelled),
        b"error" => ledger.outcome = Some(failed(line)),
        _ => {}
    }
}

/// How a task ended whose error says so.
fn failed(error: &[u8]) -> Outcome {
    let mut trouble = Trouble::default();
    trouble.fatal(String::from_utf8_lossy(error));
    trouble.verdict().map_or(Outcome::Failed, |verdict| verdict.outcome)
}

/// A key with its quotes is not in any string, where the quotes would be escaped.
static USER_MESSAGE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(br#""item":{"type":"UserMessage""#));
static ITEM: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(br#""item":{"type":""#));
static CALL_ID: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(br#""call_id":""#));
static ID: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(br#""id":""#));

/// The model said something. Where no line says that the task is done, that is the end of it, unless a tool runs.
fn said(ledger: &mut Ledger) {
    if ledger.outcome != Some(Outcome::Incomplete) {
        ledger.outcome = Some(Outcome::Completed);
    }
}

fn item(ledger: &mut Ledger, r#type: &[u8], line: &[u8]) {
    match r#type {
        b"function_call"
        | b"custom_tool_call"
        | b"local_shell_call"
        | b"web_search_call"
        | b"image_generation_call"
        | b"tool_search_call"
        | b"mcp_tool_call" => {
            if ledger.outcome == Some(Outcome::Completed) {
                ledger.outcome = None;
            }
            let id = value(&CALL_ID, line).or_else(|| value(&ID, line));
            if id.is_none_or(|id| ledger.is_new_call(id)) {
                ledger.calls = ledger.calls.saturating_add(1);
            }
        }
        // The figures of the response that called come before its calls, in older versions: a call that has its result
        // is not of a response that is still to come.
        b"function_call_output" | b"custom_tool_call_output" if ledger.calls > 0 => {
            if let Some(response) = ledger.responses.last_mut() {
                response.calls = response.calls.saturating_add(std::mem::take(&mut ledger.calls));
            }
        }
        b"message" if !line.starts_with(br#"{"timestamp""#) => {
            let Some(message) = parse::<Message<'_>>(ledger, line) else { return };
            match message.role.as_deref() {
                Some("user") => entitle(ledger, message.text().as_deref()),
                Some("assistant") => said(ledger),
                _ => {}
            }
        }
        _ => {}
    }
}

/// The id of the call that an item is of, which is near its beginning.
fn called(line: &[u8]) -> Option<&[u8]> {
    const BEGINNING: usize = 1_024;
    const CALLS: &[&[u8]] = &[b"CommandExecution", b"FileChange", b"McpToolCall"];
    let line = line.get(..BEGINNING).unwrap_or(line);
    let item = line.get(ITEM.find(line)?..)?;
    value(&ITEM, item).filter(|kind| CALLS.contains(kind))?;
    value(&ID, item)
}

/// The text behind a key, as it is written.
fn value<'l>(key: &Finder<'_>, line: &'l [u8]) -> Option<&'l [u8]> {
    let start = key.find(line)? + key.needle().len();
    let end = memchr::memchr(b'"', line.get(start..)?)?;
    Some(&line[start..start + end])
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    role: Option<Str<'a>>,
    #[serde(borrow, default)]
    content: Vec<Block<'a>>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow, default)]
    text: Option<Unread<'a>>,
}

impl<'a> Message<'a> {
    fn text(&self) -> Option<Str<'a>> {
        self.content.iter().find_map(|block| json::parse(block.text?.0))
    }
}

fn entitle(ledger: &mut Ledger, prompt: Option<&str>) {
    if let Some(prompt) = prompt.filter(|prompt| !is_furniture(prompt)) {
        ledger.entitle(prompt);
    }
}

fn session_meta(ledger: &mut Ledger, meta: Option<SessionMeta<'_>>) {
    let Some(meta) = meta else { return };
    let (number, began) = (id_of(&*meta.id), meta.timestamp.as_deref().and_then(time_of));
    if ledger.threads.is_empty() {
        ledger.session = Some(meta.id.to_string());
        ledger.parent = meta.parent().map(str::to_owned);
        ledger.cwd = meta.cwd.map(|cwd| cwd.to_string());
        ledger.version = meta.cli_version.map(|version| version.to_string());
        ledger.saw(began);
    } else if ledger.threads.iter().any(|(_, thread)| *thread == number) || !ledger.responses.is_empty() && is_own(ledger) {
        return;
    }
    ledger.threads.push((began.unwrap_or(0), number));
    ledger.owner = number;
}

fn spend(ledger: &mut Ledger, [total, last]: [Option<Figures>; 2], recorded: bool, at: Option<i64>) {
    let Some(report) = total.map(|total| Report::new(total, last, recorded)) else { return };
    let previous = ledger.responses.last().map(|response| response.spent);
    let Some(spent) = report.added(&mut ledger.sum, &mut ledger.recorded, previous) else { return };
    let model = ledger.model.unwrap_or_else(|| ledger.model_number("unknown"));
    let calls = std::mem::take(&mut ledger.calls);
    // Responses have no id in all versions. The thread and its sums are the same in every copy.
    let sum = report.total;
    let id = id_with(ledger.owner, [sum.input, sum.cache_read, sum.cache_write, sum.output]);
    ledger.respond(Response { copied: !is_own(ledger), id, at: at.unwrap_or(0), model, calls, spent, cost: None });
}

#[cfg(test)]
mod tests {
    use super::note;
    use sabir_core::event::Outcome;
    use sabir_core::history::{Ledger, Response};

    const PARENT: &str = "01a1e05b-0000-7000-8000-000000000001";
    const CHILD: &str = "01a1e05b-f000-7000-8000-000000000002";

    fn line(second: u32, r#type: &str, payload: &str) -> String {
        format!(r#"{{"timestamp":"2026-11-15T17:57:{second:02}.500Z","type":"{type}","payload":{payload}}}"#)
    }

    fn meta(second: u32, id: &str, began: &str) -> String {
        let payload = format!(
            r#"{{"id":"{id}","timestamp":"2026-11-15T{began}Z","cwd":"/home/user/project","cli_version":"0.166.0","base_instructions":{{"text":"x"}}}}"#
        );
        line(second, "session_meta", &payload)
    }

    fn context(second: u32, turn: &str, model: &str) -> String {
        line(second, "turn_context", &format!(r#"{{"turn_id":"{turn}","cwd":"/home/user","model":"{model}"}}"#))
    }

    fn figures(input: u64, cached: u64, output: u64) -> String {
        format!(
            r#"{{"input_tokens":{input},"cached_input_tokens":{cached},"output_tokens":{output},"reasoning_output_tokens":1}}"#
        )
    }

    fn count(second: u32, total: &str, last: &str) -> String {
        let payload = format!(r#"{{"type":"token_count","info":{{"total_token_usage":{total},"last_token_usage":{last}}}}}"#);
        line(second, "event_msg", &payload)
    }

    fn call(second: u32, id: &str) -> String {
        line(
            second,
            "response_item",
            &format!(r#"{{"type":"function_call","name":"shell","arguments":"{{}}","call_id":"{id}"}}"#),
        )
    }

    fn event(second: u32, rest: &str) -> String {
        line(second, "event_msg", &format!("{{{rest}}}"))
    }

    fn read(lines: &[String]) -> Ledger {
        let mut ledger = Ledger::default();
        lines.iter().for_each(|line| note(&mut ledger, line.as_bytes()));
        ledger
    }

    /// Two responses of the thread, the first one with a call.
    fn parent() -> Vec<String> {
        vec![
            meta(10, PARENT, "17:57:02.624"),
            context(11, "01a1e05b-1000-7000-8000-00000000000a", "model-a"),
            event(11, r#""type":"user_message","message":"fix it\nplease""#),
            event(11, r#""type":"token_count","info":null"#),
            call(12, "call_1"),
            count(12, &figures(100, 60, 7), &figures(100, 60, 7)),
            line(13, "response_item", r#"{"type":"function_call_output","call_id":"call_1","output":"x"}"#),
            count(13, &figures(100, 60, 7), &figures(100, 60, 7)),
            count(14, &figures(300, 160, 16), &figures(200, 100, 9)),
            event(15, r#""type":"task_complete","last_agent_message":"done""#),
        ]
    }

    #[test]
    fn a_thread_is_noted() {
        let ledger = read(&parent());
        assert_eq!((ledger.session.as_deref(), ledger.title.as_deref()), (Some(PARENT), Some("fix it")));
        assert_eq!((ledger.cwd.as_deref(), ledger.version.as_deref()), (Some("/home/user/project"), Some("0.166.0")));
        assert_eq!(ledger.models, ["model-a"]);
        assert_eq!(ledger.outcome, Some(Outcome::Completed));
        let told: Vec<_> =
            ledger.responses.iter().map(|r| (r.spent.input, r.spent.cache_read, r.spent.output, r.calls)).collect();
        assert_eq!(told, [(40, 60, 7, 1), (100, 100, 9, 0)]);
        assert_eq!((ledger.calls, ledger.bad_lines), (0, 0));
    }

    #[test]
    fn what_a_spawned_thread_copies_is_its_parents() {
        let source = format!(r#""source":{{"subagent":{{"thread_spawn":{{"parent_thread_id":"{PARENT}"}}}}}},"cli_version""#);
        let own = meta(40, CHILD, "17:58:04.064").replace(r#""cli_version""#, &source);
        let mut lines = vec![own, meta(40, PARENT, "17:57:02.624")];
        lines.extend(parent().split_off(1).into_iter().map(|line| line.replace("17:57:1", "17:58:0")));
        lines.extend([
            context(50, "01a1e05b-f100-7000-8000-00000000000b", "model-b"),
            event(50, r#""type":"user_message","message":"your part""#),
            call(51, "call_2"),
            count(51, &figures(450, 260, 20), &figures(150, 100, 4)),
        ]);
        let (parent, child) = (read(&parent()), read(&lines));
        assert_eq!((child.session.as_deref(), child.parent.as_deref()), (Some(CHILD), Some(PARENT)));
        assert_eq!(child.title.as_deref(), Some("your part"));
        let keys = |ledger: &Ledger| ledger.responses.iter().map(Response::key).collect::<Vec<_>>();
        assert_eq!(keys(&child)[..2], keys(&parent)[..]);
        assert_eq!(child.responses.len(), 3);
        assert_eq!((child.responses[2].spent.input, child.responses[2].calls), (50, 1));
        // The same figures in a thread of its own are not that response.
        let mut alone = vec![meta(40, CHILD, "17:58:04.064")];
        alone.extend(lines.split_off(2));
        assert_eq!(read(&alone).parent, None);
        assert_ne!(keys(&read(&alone))[0], keys(&parent)[0]);
    }

    #[test]
    fn a_record_and_the_count_after_it_are_one_response() {
        let (usage, total) = (figures(100, 60, 7), figures(100, 60, 7));
        let record =
            line(12, "token_usage_record", &format!(r#"{{"response_id":"r","usage":{usage},"thread_token_usage":{total}}}"#));
        let ledger = read(&[meta(10, PARENT, "17:57:02.624"), call(11, "call_1"), record, count(13, &total, &usage)]);
        assert_eq!((ledger.responses.len(), ledger.spent().total(), ledger.responses[0].calls), (1, 107, 1));
    }

    #[test]
    fn calls_after_their_figures_are_of_that_response_and_those_without_any_are_kept() {
        let output = line(13, "response_item", r#"{"type":"function_call_output","call_id":"call_1","output":"x"}"#);
        let usage = figures(100, 60, 7);
        let old = read(&[count(11, &usage, &usage), call(12, "call_1"), call(12, "call_1"), output.clone()]);
        assert_eq!((old.responses[0].calls, old.calls), (1, 0));
        assert_eq!(read(&[call(12, "call_1"), output]).calls, 1);
    }

    #[test]
    fn items_that_stand_alone_are_read() {
        let ledger = read(&[
            r#"{"id":"3d234141-ff05-415e-8839-986f2f6b64a8","timestamp":"2026-11-15T18:08:49.630Z","instructions":null}"#
                .to_owned(),
            r#"{"record_type":"state"}"#.to_owned(),
            r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"<environment_context>x"}]}"#.to_owned(),
            r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"fix it"}]}"#.to_owned(),
            r#"{"type":"function_call","name":"shell","arguments":"{}","call_id":"call_1"}"#.to_owned(),
            r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"done"}]}"#.to_owned(),
        ]);
        assert_eq!(ledger.title.as_deref(), Some("fix it"));
        assert_eq!((ledger.calls, ledger.outcome), (1, Some(Outcome::Completed)));
        assert_eq!(ledger.first, sabir_core::history::time_of("2026-11-15T18:08:49.630Z"));
    }

    #[test]
    fn a_task_that_began_is_over_when_a_line_says_so() {
        let begun = [event(1, r#""type":"task_started""#), event(2, r#""type":"agent_message","message":"on it""#)];
        assert_eq!(read(&begun).outcome, Some(Outcome::Incomplete));
        let failed = event(3, r#""type":"task_complete","last_agent_message":null,"error":{"message":"401"}"#);
        assert_eq!(read(&[begun[0].clone(), failed]).outcome, Some(Outcome::Failed));
        let full = event(3, r#""type":"task_complete","last_agent_message":null,"error":{"message":"context_length_exceeded"}"#);
        assert_eq!(read(&[begun[0].clone(), full]).outcome, Some(Outcome::Limited));
        let silent = event(3, r#""type":"task_complete","last_agent_message":null"#);
        assert_eq!(read(&[begun[0].clone(), silent]).outcome, Some(Outcome::Incomplete));
        assert_eq!(read(&[event(3, r#""type":"turn_aborted","reason":"interrupted""#)]).outcome, Some(Outcome::Cancelled));
        assert_eq!(read(&["{\"timestamp\":\"x".to_owned()]).bad_lines, 1);
    }
}
