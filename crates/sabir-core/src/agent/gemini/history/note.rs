//! The log in short.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::{Entry, Tokens, folder_in, is_furniture, text_of};
use crate::event::Outcome;
use crate::history::{Ledger, Response, id_of, time_of};
use crate::json::{self, NotJson, Str, Walk};
use crate::line::utf8;

/// What lines are told apart by. A key with a quote before and after it is not in any string, where the quotes would be
/// escaped.
struct Signs {
    begins: Finder<'static>,
    user: Finder<'static>,
    gives_back: Finder<'static>,
    answers: Finder<'static>,
    fails: Finder<'static>,
    tokens: Finder<'static>,
}

static SIGNS: LazyLock<Signs> = LazyLock::new(|| Signs {
    begins: Finder::new(b"\"projectHash\""),
    user: Finder::new(b"\"type\":\"user\""),
    gives_back: Finder::new(b"\"functionResponse\""),
    answers: Finder::new(b"\"type\":\"gemini\""),
    fails: Finder::new(b"\"type\":\"error\""),
    tokens: Finder::new(b"\"tokens\":"),
});

/// What a line is, it says at its beginning.
const HEAD: usize = 256;

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
    let Some(entry) = utf8(line).and_then(json::parse::<Entry<'_>>) else {
        ledger.bad_lines += 1;
        return;
    };
    read(ledger, entry);
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
        calls: u16::try_from(answer.calls).unwrap_or(u16::MAX),
        spent: tokens.spent(),
        cost: None,
    });
}

#[cfg(test)]
mod tests {
    use super::note;
    use crate::event::Outcome;
    use crate::history::{Ledger, Spent};

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
