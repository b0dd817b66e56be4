//! The cost of a session: one number wherever it is reported.

use std::fmt::Write as _;
use std::fs;

use sabir_core::fold::timeline::{Change, Clipping, TimelineFold, What};
use sabir_core::fold::{OverviewFold, SessionResult};
use sabir_core::price::{Billable, Table};
use sabir_store::{account, usage, whole};

/// More responses than any list of requests should hold, on both sides of the 200,000-token tier.
const RESPONSES: u64 = 60_000;

fn input(number: u64) -> (u64, u64) {
    // Every third request is above the tier.
    if number % 3 == 2 { (1_000 + number % 7, 230_000) } else { (500, 20_000 + number % 11) }
}

fn log() -> String {
    let mut text = String::from(
        r#"{"parentUuid":null,"isSidechain":false,"type":"user","message":{"role":"user","content":"Do it"},"uuid":"u","timestamp":"2026-11-15T00:00:00.000Z","userType":"external","cwd":"/home/user/a","sessionId":"long","version":"2.1.1"}"#,
    );
    text.push('\n');
    for number in 0..RESPONSES {
        let (uncached, cached) = input(number);
        let (hour, minute, second) = (number / 3_600, number / 60 % 60, number % 60);
        // Sixty thousand seconds are less than a day.
        writeln!(
            text,
            r#"{{"parentUuid":"u","isSidechain":false,"message":{{"model":"claude-sonnet-4","id":"msg_01{number:022}","role":"assistant","content":[{{"type":"text","text":"."}}],"stop_reason":"end_turn","usage":{{"input_tokens":{uncached},"cache_read_input_tokens":{cached},"cache_creation_input_tokens":10,"cache_creation":{{"ephemeral_1h_input_tokens":4}},"output_tokens":300}}}},"type":"assistant","uuid":"a{number}","timestamp":"2026-11-15T{hour:02}:{minute:02}:{second:02}.000Z","userType":"external","cwd":"/home/user/a","sessionId":"long","version":"2.1.1"}}"#,
        )
        .expect("a string");
    }
    text
}

/// The sum of the costs of single requests.
fn expected() -> f64 {
    let price = Table::embedded().find("claude-sonnet-4").expect("a price");
    assert_eq!([0, 2].map(|number| price.threshold(input(number).1)), [0, 200_000], "both sides of the tier");
    let cost = |number| {
        let (uncached_input, cache_read) = input(number);
        let tokens = Billable { uncached_input, cache_read, cache_write_5m: 6, cache_write_1h: 4, output: 300 };
        price.cost(&tokens).expect("a cost").total()
    };
    (0..RESPONSES).map(cost).sum()
}

#[test]
fn of_a_long_session_is_the_same_in_every_report() {
    let home = tempfile::tempdir().expect("a folder");
    let folder = home.path().join(".claude/projects/-home-user-a");
    fs::create_dir_all(&folder).expect("made");
    fs::write(folder.join("long.jsonl"), log()).expect("written");
    let read = crate::read_logs(home.path(), "claude-code", None);
    let sessions = account::sessions(&read.logs);
    let listed = usage::by_session(&read.logs, &sessions, Table::embedded())[0].cost().0.expect("a cost");

    let (mut result, mut overview, mut timeline) =
        (SessionResult::fold(), OverviewFold::default(), TimelineFold::new(Clipping::default()));
    let (mut changes, mut shown, mut number) = (Vec::new(), None, 0);
    whole::events(&sessions[0], &read.logs, &mut |event| {
        result.event(event);
        overview.event(event);
        number += 1;
        timeline.event(number, event, &mut changes);
        for change in changes.drain(..) {
            if let Change::Put(item) = change
                && let What::End { cost_usd, .. } = item.what
            {
                shown = cost_usd;
            }
        }
    })
    .expect("readable");

    let cents = |cost: Option<f64>| cost.map(|cost| format!("{cost:.2}"));
    let expected = cents(Some(expected()));
    let result = result.finish();
    assert_eq!(result.tokens.output, Some(RESPONSES * 300));
    assert_eq!(cents(result.cost.total), expected, "result");
    assert_eq!(cents(result.models[0].cost_usd), expected, "model");
    assert_eq!(cents(overview.overview().cost_usd), expected, "overview");
    assert_eq!(cents(shown), expected, "timeline");
    assert_eq!(cents(Some(listed)), expected, "list and usage");
}
