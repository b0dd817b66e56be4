//! Events in, a timeline out, in a line for each item.

use super::{Change, Clip, Clipping, Item, Timeline, TimelineFold, What};
use crate::event::{Event, ToolStatus};

const STARTED: &str = r#""kind":"started","agent":"codex""#;
const TURN: &str = r#""kind":"turnStart","turn":1"#;
const EXITED: &str = r#""kind":"exited","outcome":"completed","cancelled":false"#;

fn changes(events: &[&str]) -> Vec<Change> {
    let (mut fold, mut out) = (TimelineFold::default(), Vec::new());
    for (number, fields) in (1..).zip(events) {
        let json = format!("{{\"runId\":\"r\",\"seq\":{number},\"line\":{number},{fields}}}");
        fold.event(number, &serde_json::from_str::<Event<'_>>(&json).expect(fields), &mut out);
    }
    out
}

fn timeline(events: &[&str]) -> Timeline {
    let mut timeline = Timeline::default();
    changes(events).into_iter().for_each(|change| timeline.apply(change, Clipping::default()));
    timeline
}

fn texts(timeline: &Timeline) -> Vec<(&str, bool)> {
    let texts = timeline.items.iter().filter_map(|item| match &item.what {
        What::Text { text, answer } => Some((text.text.as_str(), *answer)),
        _ => None,
    });
    texts.collect()
}

fn text(delta: &str) -> String {
    format!(r#""kind":"text","delta":"{delta}""#)
}

#[test]
fn pieces_of_a_message_are_one_item_and_words_after_a_call_are_another() {
    let call = r#""kind":"toolStart","toolCallId":"1","name":"bash","toolKind":"execute""#;
    let timeline = timeline(&[STARTED, TURN, &text("I "), &text("look."), call, &text("Done.")]);
    assert_eq!(texts(&timeline), [("I look.", false), ("Done.", false)]);
    assert!(timeline.items.iter().enumerate().all(|(place, item)| item.id == place as u64));
    let last = &timeline.items[2];
    assert_eq!((last.first, last.last, last.line, last.turn), (3, 4, Some(3), Some(1)));
}

#[test]
fn the_answer_is_the_last_message_or_an_item_of_its_own() {
    let answer = r#""kind":"final","text":"Done.""#;
    let same = timeline(&[STARTED, &text("First."), &text(" Done."), answer]);
    assert_eq!(texts(&same), [("First. Done.", false), ("Done.", true)]);
    let same = timeline(&[STARTED, &text("Do"), &text("ne."), answer, EXITED]);
    assert_eq!(texts(&same), [("Done.", true)]);
}

#[test]
fn a_call_takes_up_its_output_its_end_and_what_a_sub_agent_did() {
    let call = r#""kind":"toolStart","toolCallId":"1","name":"task","toolKind":"delegate""#;
    let piece = |text: &str| format!(r#""kind":"toolUpdate","toolCallId":"1","outputDelta":"{text}""#);
    let inner = r#""kind":"text","delta":"inside","parentToolCallId":"1""#;
    let end = r#""kind":"toolEnd","toolCallId":"1","ok":false,"status":"error","exitCode":2,"durationMs":5"#;
    let file = r#""kind":"fileChange","path":"a","change":"create","toolCallId":"1","source":"reported""#;
    let timeline = timeline(&[STARTED, call, &piece("one "), inner, &piece("two"), end, file]);
    let What::Tool { output, status, exit_code, duration_ms, .. } = &timeline.items[1].what else { panic!("a call") };
    assert_eq!(output.as_ref().map(|output| output.text.as_str()), Some("one two"));
    assert_eq!((*status, *exit_code, *duration_ms), (Some(ToolStatus::Error), Some(2), Some(5)));
    assert!(timeline.items[1].what.is_trouble());
    assert_eq!(timeline.items[2].parent, Some(1));
    assert!(matches!(timeline.items[3].what, What::File { tool: Some(1), .. }));
}

#[test]
fn what_was_cancelled_is_no_error() {
    let call = r#""kind":"toolStart","toolCallId":"1","name":"bash","toolKind":"execute""#;
    let end = |status: &str| format!(r#""kind":"toolEnd","toolCallId":"1","ok":false,"status":"{status}""#);
    let exited = |outcome: &str| format!(r#""kind":"exited","outcome":"{outcome}","cancelled":true"#);
    let errors = |status: &str, outcome: &str| {
        let timeline = timeline(&[STARTED, call, &end(status), &exited(outcome)]);
        timeline.items.iter().filter(|item| item.what.is_trouble()).count()
    };
    assert_eq!([errors("cancelled", "cancelled"), errors("error", "cancelled"), errors("cancelled", "failed")], [0, 1, 1]);
}

#[test]
fn a_turn_says_what_it_used_and_a_run_begins_anew() {
    let usage = r#""kind":"usage","scope":"message","inputTokens":10,"outputTokens":5"#;
    let two = r#""kind":"turnStart","turn":2"#;
    let timeline = timeline(&[STARTED, TURN, usage, two, usage, usage, EXITED, STARTED, TURN]);
    let used = |item: &Item| match &item.what {
        What::Turn { tokens, .. } | What::End { tokens, .. } => tokens.and_then(|tokens| tokens.total),
        _ => None,
    };
    assert_eq!(timeline.items.iter().map(used).collect::<Vec<_>>(), [None, Some(15), Some(30), Some(45), None, None]);
    assert_eq!(timeline.items.iter().map(|item| item.run).collect::<Vec<_>>(), [1, 1, 1, 1, 2, 2]);
}

#[test]
fn what_is_told_later_of_a_call_counts_for_its_turn() {
    let call = r#""kind":"toolStart","toolCallId":"1","name":"Agent","toolKind":"execute""#;
    let two = r#""kind":"turnStart","turn":2"#;
    let inner = r#""kind":"activity","message":"inside","parentToolCallId":"1""#;
    let usage = r#""kind":"usage","scope":"message","inputTokens":10,"outputTokens":5,"parentToolCallId":"1""#;
    let timeline = timeline(&[STARTED, TURN, call, two, inner, usage]);
    let used = |item: &Item| match &item.what {
        What::Turn { tokens, .. } => tokens.and_then(|tokens| tokens.total),
        _ => None,
    };
    assert_eq!(timeline.items.iter().map(used).collect::<Vec<_>>(), [None, Some(15), None, None, None]);
    assert_eq!(timeline.items.iter().map(|item| item.turn).collect::<Vec<_>>(), [None, Some(1), Some(1), Some(2), Some(1)]);
}

#[test]
fn a_plan_and_a_question_stay_where_they_are() {
    let plan = |status: &str| format!(r#""kind":"plan","items":[{{"text":"a","status":"{status}"}}]"#);
    let ask = r#""kind":"permission","requestId":"q","title":"may I?","options":[{"id":"y","label":"Yes"}]"#;
    let say = r#""kind":"permission","requestId":"q","title":"may I?","decision":"y""#;
    let timeline = timeline(&[STARTED, &plan("pending"), ask, &plan("completed"), say]);
    assert_eq!(timeline.items.len(), 3);
    let What::Permission { options, decision, .. } = &timeline.items[2].what else { panic!("a question") };
    assert_eq!((options.len(), decision.as_deref()), (1, Some("y")));
}

#[test]
fn changes_survive_the_way_as_json() {
    let call = r#""kind":"toolStart","toolCallId":"1","name":"bash","toolKind":"execute","input":"{}""#;
    for change in changes(&[STARTED, TURN, &text("a"), &text("b"), call, EXITED]) {
        let json = serde_json::to_string(&change).expect("it is written");
        assert_eq!(serde_json::from_str::<Change>(&json).expect(&json), change);
    }
}

#[test]
fn a_long_text_keeps_its_beginning_and_its_end() {
    let whole: String = "ä€ some words ".repeat(50);
    let mut clip = Clip::default();
    for piece in whole.as_bytes().chunks(7) {
        clip.push(&String::from_utf8_lossy(piece), 20);
    }
    assert!(clip.is_cut() && clip.text.len() <= 20 && clip.tail.len() <= 40, "{clip:?}");
    let clip = Clip::of(&whole, 20);
    assert!(whole.starts_with(&clip.text) && whole.ends_with(&clip.tail) && clip.size == whole.len() as u64, "{clip:?}");
    let clip = Clip::of("short", 20);
    assert!(!clip.is_cut() && clip.tail.is_empty());
}
