//! Responses are told apart, and copies of them recognized, in the same way by every reader of a log.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use proptest::prelude::*;
use sabir_core::event::EventKind;
use sabir_core::fold::SessionResult;
use sabir_core::price::Table;
use sabir_store::account::{self, Portion};
use sabir_store::{usage, whole};

/// How a CLI names its responses.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Ids {
    /// As Anthropic's API does.
    Unique,
    /// `msg_0`, `msg_1`, in each session.
    Numbered,
    /// All the same.
    Constant,
    Missing,
}

/// A CLI that writes logs as Claude Code does, more or less.
#[derive(Debug, Clone, Copy)]
struct Writer {
    ids: Ids,
    has_sidechain: bool,
    has_requests: bool,
    has_uuids: bool,
    /// Calls are numbered anew in each response.
    short_calls: bool,
    /// All inputs are equally long.
    same_input: bool,
}

/// A response: how many lines it has, and whether a tool is called in the last one.
type Shape = (usize, bool);

/// What the logs of a home should come to.
#[derive(Debug, Default, PartialEq)]
struct Truth {
    responses: usize,
    output: u64,
    calls: u64,
}

/// A session, and what it cost.
type Session = (Truth, f64);

impl Writer {
    fn line(self, session: &str, number: usize, second: &mut usize, body: &str) -> String {
        *second += 1;
        let mut line = String::from("{");
        if self.has_sidechain {
            line += r#""isSidechain":false,"userType":"external","#;
        }
        if self.has_uuids {
            write!(line, r#""uuid":"{session}-{number:08}-{second:08}-uuid","#).expect("a string");
        }
        let (minute, seconds) = (*second / 60, *second % 60);
        write!(line, r#""cwd":"/home/user/a","sessionId":"{session}","version":"2.1.1",{body},"timestamp":"2026-11-15T10:{minute:02}:{seconds:02}.000Z"}}"#)
            .expect("a string");
        line + "\n"
    }

    /// The log of a session. Each session begins in another second.
    fn log(self, session: &str, start: usize, shapes: &[Shape], truth: &mut Truth) -> String {
        let mut second = start;
        let mut text = self.line(session, 0, &mut second, r#""type":"user","message":{"role":"user","content":"Do it"}"#);
        for (number, (lines, calls)) in shapes.iter().enumerate() {
            // Without an id there is nothing that holds lines together.
            let lines = if self.ids == Ids::Missing && !self.has_requests { 1 } else { *lines };
            let id = match self.ids {
                Ids::Unique => format!(r#""id":"msg_01{session:>012}{number:010}","#),
                Ids::Numbered => format!(r#""id":"msg_{number}","#),
                Ids::Constant => r#""id":"msg","#.to_owned(),
                Ids::Missing => String::new(),
            };
            let request = if self.has_requests { format!(r#""requestId":"req_{number}","#) } else { String::new() };
            let input = if self.same_input { 100 } else { 100 + number };
            for part in 0..lines {
                let is_last = part + 1 == lines;
                let output = if is_last { 40 } else { 1 };
                let call = if self.short_calls { "call_1".to_owned() } else { format!("call_{session}_{number}") };
                let block = if *calls && is_last {
                    format!(r#"{{"type":"tool_use","id":"{call}","name":"Bash","input":{{}}}}"#)
                } else {
                    r#"{"type":"text","text":"a"}"#.to_owned()
                };
                let body = format!(
                    r#"{request}"type":"assistant","message":{{{id}"role":"assistant","model":"claude-sonnet-4-5","content":[{block}],"usage":{{"input_tokens":{input},"cache_read_input_tokens":400,"output_tokens":{output}}}}}"#
                );
                text += &self.line(session, number, &mut second, &body);
                if *calls && is_last {
                    let body = format!(
                        r#""type":"user","message":{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"{call}","content":"done"}}]}}"#
                    );
                    text += &self.line(session, number, &mut second, &body);
                }
            }
            if !calls {
                text +=
                    &self.line(session, number, &mut second, r#""type":"user","message":{"role":"user","content":"And then?"}"#);
            }
            truth.responses += 1;
            truth.output += 40;
            truth.calls += u64::from(*calls);
        }
        text
    }
}

fn write(home: &Path, session: &str, text: &str) {
    let folder = home.join(".claude/projects/-home-user-a");
    fs::create_dir_all(&folder).expect("made");
    fs::write(folder.join(format!("{session}.jsonl")), text).expect("written");
}

/// What the list and `usage` make of all sessions, and what full decodes of them make of each.
fn read(home: &Path) -> (Truth, Vec<Session>, Vec<Session>) {
    let read = crate::read_logs(home, "claude-code", None);
    let mut sessions = account::sessions(&read.logs);
    sessions.sort_by(|one, other| one.id.cmp(&other.id));
    let mut all = Truth::default();
    for response in crate::portions(&read.logs, &sessions).iter().flat_map(Portion::responses) {
        all.responses += 1;
        all.output += response.spent.output;
        all.calls += u64::from(response.calls);
    }
    let sums = usage::by_session(&read.logs, &sessions, Table::embedded());
    let listed = sessions.iter().zip(&sums).map(|(session, sum)| {
        let responses = usize::try_from(sum.responses).expect("small");
        (Truth { responses, output: sum.spent.output, calls: session.calls(&read.logs) }, sum.cost().0.unwrap_or_default())
    });
    let decoded = sessions.iter().map(|session| {
        let (mut fold, mut truth) = (SessionResult::fold(), Truth::default());
        whole::events(session, &read.logs, &mut |event| {
            fold.event(event);
            truth.responses += usize::from(matches!(event.kind, EventKind::Usage(_)));
            truth.calls += u64::from(matches!(event.kind, EventKind::ToolStart(_)));
        })
        .expect("readable");
        let result = fold.finish();
        (Truth { output: result.tokens.output.unwrap_or(0), ..truth }, result.cost.total.unwrap_or_default())
    });
    (all, listed.collect(), decoded.collect())
}

fn writer() -> impl Strategy<Value = Writer> {
    let ids = prop::sample::select(vec![Ids::Unique, Ids::Numbered, Ids::Constant, Ids::Missing]);
    (ids, any::<[bool; 5]>()).prop_map(|(ids, [has_sidechain, has_requests, has_uuids, short_calls, same_input])| Writer {
        ids,
        has_sidechain,
        has_requests,
        has_uuids,
        short_calls,
        // With one id for all and the same figures in all, only a prompt would tell responses apart.
        same_input: same_input && ids != Ids::Constant,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn is_the_same_for_the_list_and_a_full_decode(
        writer in writer(),
        sessions in prop::collection::vec(prop::collection::vec((1..4_usize, any::<bool>()), 1..6), 1..4),
        fork in prop::option::of(1..4_usize),
    ) {
        let home = tempfile::tempdir().expect("a folder");
        let (mut truth, mut of_each, mut first) = (Truth::default(), Vec::new(), String::new());
        for (place, shapes) in sessions.iter().enumerate() {
            let mut of_it = Truth::default();
            let session = format!("session-{place}");
            let text = writer.log(&session, place * 400, shapes, &mut of_it);
            write(home.path(), &session, &text);
            if place == 0 {
                first = text;
            }
            truth.responses += of_it.responses;
            truth.output += of_it.output;
            truth.calls += of_it.calls;
            of_each.push(of_it);
        }
        if let Some(count) = fork {
            // A fork has the lines of the other session under its own id, and goes on.
            let mut own = Truth::default();
            let shapes = vec![(2, true); count];
            let more = writer.log("session-9", 3_000, &shapes, &mut own);
            let copied = first.replace(r#""sessionId":"session-0""#, r#""sessionId":"session-9""#);
            write(home.path(), "session-9", &(copied + &more));
            truth.responses += own.responses;
            truth.output += own.output;
            truth.calls += own.calls;
        }
        let (all, listed, decoded) = read(home.path());
        prop_assert_eq!(&all, &truth, "all responses, each once");
        for (place, expected) in of_each.iter().enumerate() {
            prop_assert_eq!(&listed[place].0, expected, "listed, session {}", place);
            prop_assert_eq!(&decoded[place].0, expected, "decoded, session {}", place);
            prop_assert!((listed[place].1 - decoded[place].1).abs() < 1e-9, "cost of session {}", place);
        }
    }
}
