//! The rows in short.

use super::{Message, Row};
use crate::family::opencode::outcome::classify_error;
use sabir_core::event::Outcome;
use sabir_core::history::{Ledger, Paid, Response, Spent, id_of, id_with};
use sabir_core::json::{self, NotJson, Str, Walk};
use sabir_core::line::utf8;

/// How the row of a part begins.
const PART: &[u8] = br#"{"table":"part","#;

/// How the row of a message begins.
const MESSAGE: &[u8] = br#"{"table":"message","#;

/// Takes note of a row. All rows of a session go into its own ledger.
pub(crate) fn note(ledger: &mut Ledger, line: &[u8]) {
    let read = if line.starts_with(PART) {
        part_row(ledger, line).is_ok()
    } else if line.starts_with(MESSAGE) {
        message_row(ledger, line).is_some()
    } else {
        session_row(ledger, line).is_some()
    };
    ledger.bad_lines += u64::from(!read);
}

fn session_row(ledger: &mut Ledger, line: &[u8]) -> Option<()> {
    let row = utf8(line).and_then(json::parse::<Row<'_>>)?;
    ledger.saw(row.created);
    if &*row.table == "session" {
        let owned = |text: &Option<json::Str<'_>>| text.as_deref().map(str::to_owned);
        ledger.session = Some(row.id.to_string());
        ledger.cwd = owned(&row.directory);
        ledger.version = owned(&row.version);
        ledger.saw(row.updated);
        if let Some(title) = row.title.as_deref().filter(|title| !is_placeholder(title)) {
            ledger.entitle(title);
        }
    }
    Some(())
}

/// Takes note of a message. Its parts come after it.
fn message_row(ledger: &mut Ledger, line: &[u8]) -> Option<()> {
    let line = utf8(line)?;
    let (mut created, mut told) = (None, None);
    let mut walk = Walk::over(line.as_bytes());
    let read = walk.fields(|walk, key| {
        match key {
            b"created" => created = walk.integer()?,
            b"data" => {
                let start = *walk;
                told = Told::read(walk).ok();
                if told.is_none() {
                    *walk = start;
                    // What went wrong is told in many forms; and what is not as it always is may still have the right shape.
                    told = utf8(walk.value()?).and_then(json::parse).map(|message| Told::of(&message));
                }
            }
            _ => walk.skip()?,
        }
        Ok(())
    });
    read.and_then(|()| walk.end()).ok()?;
    ledger.saw(created);
    noted(ledger, &told?);
    Some(())
}

/// Whether the beginning of a row tells all that is noted of it. Nearly all bytes of a database are what tools put out.
pub(crate) fn enough(head: &[u8]) -> bool {
    head.starts_with(PART) && read_part(head, true).is_ok_and(|(_, part)| part.is_told(true))
}

/// Takes note of a part of the last message.
fn part_row(ledger: &mut Ledger, line: &[u8]) -> Result<(), NotJson> {
    let wants_text = ledger.step == 0 && ledger.title.is_none();
    let (created, part) = read_part(line, wants_text)?;
    ledger.saw(created);
    part_of(ledger, &part);
    Ok(())
}

/// A part, and when it was made.
fn read_part(line: &[u8], wants_text: bool) -> Result<(Option<i64>, Part<'_>), NotJson> {
    let mut walk = Walk::over(line);
    let (mut created, mut part) = (None, Part::default());
    if walk.enter()? {
        while let Some(key) = walk.key()? {
            match key {
                b"created" => created = walk.integer()?,
                b"data" if !walk.is_at_object() => return Err(NotJson),
                b"data" => {
                    part = Part::read(&mut walk, wants_text)?;
                    if part.is_told(wants_text) {
                        break;
                    }
                }
                _ => walk.skip()?,
            }
        }
    }
    Ok((created, part))
}

/// A part as far as it is needed here; of most no more than what they are.
#[derive(Default)]
struct Part<'a> {
    r#type: Option<&'a [u8]>,
    /// As it is written.
    text: Option<&'a [u8]>,
    tokens: Option<Spent>,
    cost: Option<f64>,
}

impl<'a> Part<'a> {
    fn read(walk: &mut Walk<'a>, wants_text: bool) -> Result<Self, NotJson> {
        let mut part = Self::default();
        if !walk.enter()? {
            return Ok(part);
        }
        while let Some(key) = walk.key()? {
            match key {
                b"type" => {
                    part.r#type = walk.word()?;
                    if part.is_told(wants_text) {
                        break;
                    }
                }
                b"text" => part.text = Some(walk.value()?),
                b"tokens" if walk.is_at_object() => part.tokens = Some(tokens(walk, |walk| Ok(walk.number()?.unwrap_or(0)))?),
                b"cost" => part.cost = walk.parse()?,
                _ => walk.skip()?,
            }
        }
        Ok(part)
    }

    /// Whether nothing more of it is wanted than what it is.
    fn is_told(&self, wants_text: bool) -> bool {
        match self.r#type {
            None | Some(b"step-finish") => false,
            Some(b"text") => !wants_text,
            Some(_) => true,
        }
    }
}

fn tokens(walk: &mut Walk<'_>, figure: impl Fn(&mut Walk<'_>) -> Result<u64, NotJson>) -> Result<Spent, NotJson> {
    let mut spent = Spent::default();
    walk.fields(|walk, key| {
        match key {
            b"input" => spent.input = figure(walk)?,
            b"output" => spent.output = figure(walk)?,
            b"reasoning" => spent.reasoning = figure(walk)?,
            b"cache" => walk.fields(|walk, key| {
                match key {
                    b"read" => spent.cache_read = figure(walk)?,
                    b"write" => spent.cache_write = figure(walk)?,
                    _ => walk.skip()?,
                }
                Ok(())
            })?,
            _ => walk.skip()?,
        }
        Ok(())
    })?;
    spent.output = spent.output.saturating_add(spent.reasoning);
    Ok(spent)
}

/// A figure of a message. One that is none makes all of them doubtful.
fn exact(walk: &mut Walk<'_>) -> Result<u64, NotJson> {
    walk.number()?.ok_or(NotJson)
}

/// What a session is called before the model has named it.
fn is_placeholder(title: &str) -> bool {
    ["New session - ", "Child session - "].iter().any(|start| title.starts_with(start))
}

/// A message as far as it is needed here.
#[derive(Default)]
struct Told<'a> {
    is_answer: bool,
    model: Option<Str<'a>>,
    created: Option<i64>,
    completed: Option<i64>,
    spent: Spent,
    cost: Option<f64>,
    finish: Option<Str<'a>>,
    failure: Option<Outcome>,
}

impl<'a> Told<'a> {
    /// Reads a message that is as nearly all are.
    fn read(walk: &mut Walk<'a>) -> Result<Self, NotJson> {
        let (mut told, mut role) = (Self::default(), None);
        walk.fields(|walk, key| {
            match key {
                b"role" => role = walk.word()?,
                b"modelID" => told.model = walk.text()?,
                b"time" => walk.fields(|walk, key| {
                    match key {
                        b"created" => told.created = walk.integer()?,
                        b"completed" => told.completed = walk.integer()?,
                        _ => walk.skip()?,
                    }
                    Ok(())
                })?,
                b"tokens" => told.spent = tokens(walk, exact)?,
                b"cost" => told.cost = walk.parse()?,
                b"finish" => told.finish = walk.text()?,
                b"error" => return Err(NotJson),
                _ => walk.skip()?,
            }
            Ok(())
        })?;
        told.is_answer = match role {
            Some(b"assistant") => true,
            Some(b"user") => false,
            _ => return Err(NotJson),
        };
        Ok(told)
    }

    fn of(message: &Message<'a>) -> Self {
        Self {
            is_answer: &*message.role == "assistant",
            model: message.model_id.clone(),
            created: message.time.and_then(|time| time.created),
            completed: message.time.and_then(|time| time.completed),
            spent: message.tokens.map(Spent::from).unwrap_or_default(),
            cost: message.cost,
            finish: message.finish.clone(),
            failure: message.error.as_ref().map(|failure| classify_error(failure).0),
        }
    }
}

fn noted(ledger: &mut Ledger, message: &Told<'_>) {
    ledger.step = 0;
    if !message.is_answer {
        ledger.outcome = Some(Outcome::Incomplete);
        return;
    }
    ledger.outcome = Some(match (message.failure, message.finish.as_deref()) {
        (Some(failure), _) => failure,
        (None, None | Some("tool-calls" | "unknown")) => Outcome::Incomplete,
        (None, Some("length")) => Outcome::Limited,
        (None, Some("content-filter")) => Outcome::Refused,
        (None, Some("error")) => Outcome::Failed,
        (None, Some(_)) => Outcome::Completed,
    });
    let (created, completed) = (message.created.unwrap_or(0), message.completed.unwrap_or(0));
    ledger.saw((completed > 0).then_some(completed));
    let name = message.model.as_deref().unwrap_or("unknown");
    let model = ledger.model_number(name);
    ledger.model = Some(model);
    // A fork gives its copies new ids; the times stay.
    let id = id_with(id_of(name), [created.unsigned_abs(), completed.unsigned_abs()]);
    let at = if completed > 0 { completed } else { created };
    ledger.step = 1;
    ledger.responses.push(Response {
        copied: false,
        id,
        at,
        model,
        calls: 0,
        spent: message.spent,
        cost: message.cost.filter(|cost| *cost > 0.0).map(Paid::Reported),
    });
}

fn part_of(ledger: &mut Ledger, part: &Part<'_>) {
    match (part.r#type, part.tokens) {
        (Some(b"text"), _) => {
            let text = part.text.filter(|_| ledger.step == 0 && ledger.title.is_none());
            if let Some(text) = text.and_then(|text| Walk::over(text).text().ok()?) {
                ledger.entitle(&text);
            }
        }
        (Some(b"tool"), _) => {
            if let Some(response) = ledger.responses.last_mut() {
                response.calls = response.calls.saturating_add(1);
            }
        }
        (Some(b"step-finish"), Some(spent)) => {
            let step = ledger.step;
            ledger.step = step.saturating_add(1);
            let Some(response) = ledger.responses.last_mut() else { return };
            let cost = part.cost.filter(|cost| *cost > 0.0).map(Paid::Reported);
            if step <= 1 {
                (response.spent, response.cost) = (spent, cost);
            } else {
                let more = Response { id: id_with(response.id, [step]), spent, cost, calls: 0, ..*response };
                ledger.responses.push(more);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::{enough, note};
    use sabir_core::event::Outcome;
    use sabir_core::history::{Ledger, Paid};

    fn read(rows: &[&str]) -> Ledger {
        let mut ledger = Ledger::default();
        rows.iter().for_each(|row| note(&mut ledger, row.as_bytes()));
        ledger
    }

    const SESSION: &str = r#"{"table":"session","id":"ses_1","directory":"/home/user/project","title":"New session - 2026","version":"1.18.33","created":1000,"updated":9000}"#;
    const PROMPT: &str = r#"{"table":"message","session":"ses_1","id":"msg_1","created":1001,"data":{"role":"user","time":{"created":1001},"summary":{"diffs":[]}}}"#;
    const TYPED: &str =
        r#"{"table":"part","session":"ses_1","message":"msg_1","id":"prt_1","data":{"type":"text","text":"fix it\nplease"}}"#;
    const ANSWER: &str = r#"{"table":"message","session":"ses_1","id":"msg_2","created":1002,"data":{"role":"assistant","modelID":"m","cost":0.03,"tokens":{"input":7,"output":3,"reasoning":1,"cache":{"read":5,"write":2}},"time":{"created":1002,"completed":2000},"finish":"stop"}}"#;
    const CALL: &str = r#"{"table":"part","session":"ses_1","message":"msg_2","id":"prt_2","data":{"type":"tool"}}"#;

    #[test]
    fn a_session_is_noted() {
        let ledger = read(&[SESSION, PROMPT, TYPED, ANSWER, CALL]);
        assert_eq!(ledger.session.as_deref(), Some("ses_1"));
        assert_eq!(ledger.title.as_deref(), Some("fix it"));
        assert_eq!((ledger.first, ledger.last), (Some(1000), Some(9000)));
        assert_eq!(ledger.outcome, Some(Outcome::Completed));
        assert_eq!(ledger.responses.len(), 1);
        let response = ledger.responses[0];
        assert_eq!((response.calls, response.cost, response.at), (1, Some(Paid::Reported(0.03)), 2000));
        let spent = response.spent;
        assert_eq!((spent.input, spent.cache_read, spent.cache_write, spent.output, spent.reasoning), (7, 5, 2, 4, 1));
    }

    #[test]
    fn the_steps_of_a_message_count_and_not_its_own_figures() {
        let step = r#"{"table":"part","session":"ses_1","message":"msg_2","id":"prt_3","data":{"type":"step-finish","tokens":{"input":10,"output":1,"reasoning":0,"cache":{"read":0,"write":0}},"cost":0.01}}"#;
        let ledger = read(&[SESSION, ANSWER, step, CALL, step]);
        assert_eq!(ledger.spent().total(), 22);
        assert!(ledger.responses.iter().all(|response| response.cost == Some(Paid::Reported(0.01))));
        assert_eq!(ledger.responses.len(), 2);
        assert_ne!(ledger.responses[0].key(), ledger.responses[1].key());
    }

    #[test]
    fn of_a_call_the_beginning_is_enough() {
        let call = r#"{"table":"part","session":"s","message":"m","id":"p","created":7,"data":{"type":"tool","state":{"output":"#;
        assert!(enough(call.as_bytes()));
        let (mut head, mut whole) = (Ledger::default(), Ledger::default());
        note(&mut head, call.as_bytes());
        note(&mut whole, format!(r#"{call}"x"}}}}}}"#).as_bytes());
        assert_eq!(head, whole);
        let text = call.replace("\"tool\"", "\"text\"");
        let late = call.replace("\"type\":\"tool\"", "\"id\":\"tool\"");
        assert!([text.as_str(), &late, &call[..call.len() - 40], ANSWER, "{"].iter().all(|head| !enough(head.as_bytes())));
    }

    #[test]
    fn messages_that_are_not_as_most_are_read_too() {
        let whole = read(&[ANSWER]);
        let rows = [
            ANSWER.replace("\"role\"", "\"r\\u006fle\""),
            ANSWER.replace("\"id\":\"msg_2\",", ""),
            ANSWER.replace("\"finish\"", "\"more\": [ {} ] , \"finish\""),
        ];
        assert!(rows.iter().all(|row| read(&[row]) == whole));
        // Figures that are none: nobody knows what the others are worth.
        let doubtful = read(&[&ANSWER.replace("\"input\":7", "\"input\":-7")]);
        assert_eq!((doubtful.spent().total(), doubtful.bad_lines), (0, 0));
        for torn in [ANSWER.replace("\"}}", "\"}"), ANSWER.replace("assistant\"", "assistant")] {
            assert_eq!(read(&[&torn]).bad_lines, 1, "{torn}");
        }
    }

    #[test]
    fn a_copy_in_a_fork_is_known() {
        let fork = ANSWER.replace("msg_2", "msg_9").replace("ses_1", "ses_2");
        assert_eq!(read(&[ANSWER]).responses[0].key(), read(&[&fork]).responses[0].key());
    }

    #[test]
    fn what_went_wrong_is_told() {
        let aborted = ANSWER.replace(r#""finish":"stop""#, r#""error":{"name":"MessageAbortedError","data":{"message":"x"}}"#);
        assert_eq!(read(&[&aborted]).outcome, Some(Outcome::Cancelled));
        assert_eq!(read(&["{", r#"{"table":"message","id":"x","data":7}"#]).bad_lines, 2);
    }
}
