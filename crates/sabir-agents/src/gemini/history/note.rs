//! The log in short.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::{Entry, Tokens, folder_in, is_furniture, text_of};
use sabir_core::event::Outcome;
use sabir_core::history::{Ledger, Response, id_of, time_of};
use sabir_core::json::{self, NotJson, Str, Walk};
use sabir_core::line::utf8;

/// What lines are told apart by. A key with a quote before and after it is not in any string, where the quotes would be
/// escaped.
struct Signs {
    begins: Finder<'static>,
    user: Finder<'static>,
    gives_back: Finder<'static>,
    answers: Finder<'static>,
    fails: Finder<'static>,
    tokens: Finder<'static>,
    context: Finder<'static>,
}

static SIGNS: LazyLock<Signs> = LazyLock::new(|| Signs {
    begins: Finder::new(b"\"projectHash\""),
    user: Finder::new(b"\"type\":\"user\""),
    gives_back: Finder::new(b"\"functionResponse\""),
    answers: Finder::new(b"\"type\":\"gemini\""),
    fails: Finder::new(b"\"type\":\"error\""),
    tokens: Finder::new(b"\"tokens\":"),
    context: Finder::new(b"session_context"),
});

/// What a line is, it says at its beginning.
const HEAD: usize = 256;

/// So many bytes of a prompt say whether somebody typed it.
const BEGINNING: usize = 128;

/// Takes note of a line, or of all of an older version's file.
pub(super) fn note(ledger: &mut Ledger, line: &[u8]) {
    let head = &line[..line.len().min(HEAD)];
    let signs = &*SIGNS;
    let says = |sign: &Finder<'_>| sign.find(head).is_some();
    let begins = || says(&signs.begins);
    let asks = || says(&signs.user) && !says(&signs.gives_back);
    if says(&signs.answers) && !line.starts_with(b"{\"$") && !begins() {
        return match Answer::read(line) {
            Ok(answer) => answered(ledger, &answer),
            Err(NotJson) => ledger.bad_lines += 1,
        };
    }
    let fails = || says(&signs.fails);
    // The conversation is told again without its figures: worth a look only while the folder is not known.
    let tells = || ledger.cwd.is_none() && line.starts_with(br#"{"$set":{"messages""#);
    if !(begins() || asks() || fails() || tells() || signs.tokens.find(line).is_some()) {
        return;
    }
    let Some(text) = utf8(line) else {
        ledger.bad_lines += 1;
        return;
    };
    // What the CLI tells the model of the folder is in a prompt.
    if asks() && (ledger.cwd.is_some() || signs.context.find(line).is_none()) && prompted(ledger, line).is_ok() {
        return;
    }
    match json::parse::<Entry<'_>>(text) {
        Some(entry) => read(ledger, entry),
        None => ledger.bad_lines += 1,
    }
}

/// Takes note of a prompt that is as nearly all are: one text, and when it was.
fn prompted(ledger: &mut Ledger, line: &[u8]) -> Result<(), NotJson> {
    let mut walk = Walk::over(line);
    let (mut at, mut text) = (None, None);
    walk.fields(|walk, key| {
        match key {
            b"id" => walk.skip()?,
            b"timestamp" => at = walk.time()?,
            b"type" if walk.word()? == Some(b"user") => {}
            b"content" if text.is_none() => walk.items(|walk| {
                walk.fields(|walk, key| match key {
                    b"text" if text.is_none() && walk.is_at_text() => {
                        text = Some(walk.value()?);
                        Ok(())
                    }
                    _ => Err(NotJson),
                })
            })?,
            _ => return Err(NotJson),
        }
        Ok(())
    })?;
    walk.end()?;
    let text = text.ok_or(NotJson)?;
    let head = Walk::over(text).text_up_to(BEGINNING)?.ok_or(NotJson)?;
    // How a prompt begins says all that is wanted, where it does not begin with nothing.
    let text = if ledger.title.is_none() || head.trim_start().len() < BEGINNING / 2 {
        Walk::over(text).text()?.ok_or(NotJson)?
    } else {
        head
    };
    ledger.saw(at);
    if !is_furniture(&text) {
        ledger.entitle(&text);
        ledger.outcome = Some(Outcome::Incomplete);
    }
    Ok(())
}

fn read(ledger: &mut Ledger, entry: Entry<'_>) {
    let at = entry.timestamp.as_deref().or(entry.start_time.as_deref()).and_then(time_of);
    ledger.saw(at);
    if let Some(id) = entry.session_id.as_deref().filter(|_| ledger.session.is_none()) {
        ledger.session = Some(id.to_owned());
    }
    if let Some(folder) = entry.directories.as_ref().and_then(|folders| folders.first()).filter(|_| ledger.cwd.is_none()) {
        ledger.cwd = Some(folder.to_string());
    }
    entry.messages.into_iter().flatten().for_each(|message| read(ledger, message));
    // What is told again says nothing of how the session stands.
    let outcome = ledger.outcome;
    for message in entry.set.and_then(|set| set.messages).into_iter().flatten() {
        read(ledger, message);
        ledger.outcome = outcome;
    }
    match entry.r#type.as_deref() {
        Some("user") => {
            let text = text_of(entry.content);
            if ledger.cwd.is_none() {
                ledger.cwd = folder_in(&text).map(str::to_owned);
            }
            if !is_furniture(&text) {
                ledger.entitle(&text);
                ledger.outcome = Some(Outcome::Incomplete);
            }
        }
        Some("error") => ledger.outcome = Some(Outcome::Failed),
        Some("gemini") => {
            let calls = entry.tool_calls.as_ref().map_or(0, Vec::len);
            let Entry { id, timestamp, model, tokens, .. } = entry;
            let (id, at) = (id.as_deref().map(str::as_bytes), timestamp.as_deref().and_then(time_of));
            answered(ledger, &Answer { id, at, model, tokens, calls });
        }
        _ => {}
    }
}

/// A response, as far as it is needed here.
#[derive(Default)]
struct Answer<'a> {
    id: Option<&'a [u8]>,
    at: Option<i64>,
    model: Option<Str<'a>>,
    tokens: Option<Tokens>,
    calls: usize,
}

impl<'a> Answer<'a> {
    fn read(line: &'a [u8]) -> Result<Self, NotJson> {
        let mut walk = Walk::over(line);
        let mut answer = Self::default();
        walk.fields(|walk, key| {
            match key {
                b"id" => answer.id = walk.word()?,
                b"timestamp" => answer.at = walk.time()?,
                b"model" => answer.model = walk.text()?,
                b"tokens" if walk.is_at_object() => answer.tokens = Some(tokens(walk)?),
                b"toolCalls" => answer.calls = count(walk)?,
                _ => walk.skip()?,
            }
            Ok(())
        })?;
        walk.end().map(|()| answer)
    }
}

fn tokens(walk: &mut Walk<'_>) -> Result<Tokens, NotJson> {
    let mut tokens = Tokens::default();
    walk.fields(|walk, key| {
        match key {
            b"input" => tokens.input = walk.number()?,
            b"output" => tokens.output = walk.number()?,
            b"cached" => tokens.cached = walk.number()?,
            b"thoughts" => tokens.thoughts = walk.number()?,
            b"tool" => tokens.tool = walk.number()?,
            _ => walk.skip()?,
        }
        Ok(())
    })?;
    Ok(tokens)
}

/// How many items a list has.
fn count(walk: &mut Walk<'_>) -> Result<usize, NotJson> {
    let mut count = 0;
    walk.items(|walk| {
        count += 1;
        walk.skip()
    })?;
    Ok(count)
}

fn answered(ledger: &mut Ledger, answer: &Answer<'_>) {
    let at = answer.at;
    ledger.saw(at);
    let Some(tokens) = answer.tokens else { return };
    ledger.outcome = Some(if answer.calls == 0 { Outcome::Completed } else { Outcome::Incomplete });
    let model = ledger.model_number(answer.model.as_deref().unwrap_or("unknown"));
    ledger.rewrite(Response {
        copied: false,
        id: id_of(answer.id.unwrap_or_default()),
        at: at.unwrap_or(0),
        model,
        calls: u32::try_from(answer.calls).unwrap_or(u32::MAX),
        spent: tokens.spent(),
        cost: None,
    });
}

#[cfg(test)]
mod tests {
    use super::note;
    use sabir_core::event::Outcome;
    use sabir_core::history::{Ledger, Spent};

    const LOG: &str = r#"{"sessionId":"s1","projectHash":"h","startTime":"2026-11-15T18:00:00.000Z","lastUpdated":"2026-11-15T18:00:00.000Z","kind":"main"}
{"$set":{"messages":[{"id":"m0","timestamp":"2026-11-15T18:00:00.000Z","type":"user","content":[{"text":"<session_context>\n- **Workspace Directories:**\n  - /home/user/work\n</session_context>"}]}],"lastUpdated":"2026-11-15T18:00:00.000Z"}}
{"id":"m1","timestamp":"2026-11-15T18:00:01.000Z","type":"user","content":[{"text":"Fix it"}]}
{"id":"m2","timestamp":"2026-11-15T18:00:02.000Z","type":"gemini","content":"","thoughts":[],"tokens":null,"model":"gemini-2.5-pro"}
{"id":"m2","timestamp":"2026-11-15T18:00:02.000Z","type":"gemini","content":"","thoughts":[],"tokens":{"input":1000,"output":50,"cached":400,"thoughts":10,"tool":0,"total":1060},"model":"gemini-2.5-pro"}
{"id":"m2","timestamp":"2026-11-15T18:00:02.000Z","type":"gemini","content":"","thoughts":[],"tokens":{"input":1000,"output":50,"cached":400,"thoughts":10,"tool":0,"total":1060},"model":"gemini-2.5-pro","toolCalls":[{"id":"c1","name":"read_file","args":{}},{"id":"c2","name":"read_file","args":{}}]}
{"id":"m3","timestamp":"2026-11-15T18:00:03.000Z","type":"user","content":[{"functionResponse":{"id":"c1","name":"read_file","response":{"output":"x"}}}]}
{"$set":{"messages":[{"id":"m1","timestamp":"2026-11-15T18:00:01.000Z","type":"user","content":[{"text":"Fix it"}]},{"id":"m2","timestamp":"2026-11-15T18:00:02.000Z","type":"gemini","content":[{"text":""}]}]}}
{"id":"m4","timestamp":"2026-11-15T18:00:04.000Z","type":"gemini","content":"Done.","thoughts":[],"tokens":{"input":100,"output":5,"cached":0,"thoughts":0,"tool":7,"total":112},"model":"gemini-2.5-flash"}"#;

    fn check(ledger: &Ledger) {
        assert_eq!((ledger.session.as_deref(), ledger.cwd.as_deref()), (Some("s1"), Some("/home/user/work")));
        assert_eq!((ledger.title.as_deref(), ledger.outcome), (Some("Fix it"), Some(Outcome::Completed)));
        let spent = Spent { input: 707, cache_read: 400, output: 65, reasoning: 10, ..Spent::default() };
        assert_eq!(ledger.spent(), spent);
        assert_eq!(ledger.responses.iter().map(|response| response.calls).collect::<Vec<_>>(), [2, 0]);
        assert_eq!((ledger.models.len(), ledger.bad_lines), (2, 0));
    }

    #[test]
    fn a_message_that_is_written_again_counts_once() {
        let mut ledger = Ledger::default();
        LOG.lines().for_each(|line| note(&mut ledger, line.as_bytes()));
        check(&ledger);
    }

    #[test]
    fn prompts_are_read_alike_however_they_are_written() {
        let told = |prompt: &str, rest: &str| {
            let title = rest.is_empty().then(|| "Known".to_owned());
            let mut ledger = Ledger { title, ..Ledger::default() };
            let line = format!(r#"{{"id":"m1","timestamp":"2026-11-15T18:00:01.000Z","type":"user","content":{prompt}{rest}}}"#);
            note(&mut ledger, line.as_bytes());
            assert_eq!(ledger.bad_lines, 0, "{line}");
            (ledger.last.is_some(), ledger.outcome, ledger.title.filter(|title| title != "Known"))
        };
        for (text, is_typed) in [("Fix it", true), ("  \\n System: x", false), ("", false), ("\\u003chook_context>", false)] {
            for text in
                [text.to_owned(), format!("{}{text}", " ".repeat(500)), format!("{text}{}", " x".repeat(500 * text.len().min(1)))]
            {
                let outcome = is_typed.then_some(Outcome::Incomplete);
                let (one, two) = (format!(r#"[{{"text":"{text}"}}]"#), format!(r#"[{{"text":"{text}"}},{{"text":""}}]"#));
                for prompt in [&one, &two, &format!("\"{text}\"")] {
                    assert_eq!(told(prompt, ""), (true, outcome, None), "{prompt}");
                    let (_, as_told, title) = told(prompt, r#","more":1"#);
                    assert_eq!((as_told, title.is_some()), (outcome, is_typed), "{prompt}");
                }
            }
        }
    }

    #[test]
    fn an_older_file_is_one_object() {
        let lines = LOG.lines().filter(|line| !line.starts_with("{\"$set\"")).collect::<Vec<_>>();
        let folder =
            r#"{"id":"m0","type":"user","content":"<session_context>\n- **Workspace Directories:**\n  - /home/user/work\n"}"#;
        let messages = std::iter::once(folder).chain(lines[1..].iter().copied()).collect::<Vec<_>>().join(",\n");
        let object = format!("{},\n\"messages\":[{messages}]}}", lines[0].strip_suffix('}').expect("an object"));
        let mut ledger = Ledger::default();
        note(&mut ledger, object.as_bytes());
        check(&ledger);
    }
}
