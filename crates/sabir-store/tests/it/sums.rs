//! What is added up beforehand comes to the same as response by response.

use std::path::PathBuf;

use proptest::prelude::*;
use sabir_core::history::{Ledger, Paid, Response, Spent};
use sabir_core::price::Table;
use sabir_store::account::{self, Portion};
use sabir_store::history::{LogFile, Progress, Role};
use sabir_store::index::Log;
use sabir_store::index::summary::Account;
use sabir_store::usage::{self, Answer, By, Question, Sum, TimeZone};

/// 2026-03-28, 22:00 in UTC: the night in which clocks in Europe are set.
const EVENING: i64 = 1_774_735_200_000;
const HOUR: i64 = 3_600_000;

const PRICES: &str = r#"{"taken":"2026-01-01","source":"a test","providers":{"p":{"models":{
    "tiered":{"input":3,"output":15,"cacheRead":0.3,"cacheWrite5m":3.75,
        "tiers":[{"aboveInputTokens":1000,"input":6,"output":22.5},{"aboveInputTokens":5000,"input":12}]},
    "partly":{"input":1,"output":2}}}}}"#;

fn response() -> impl Strategy<Value = (Response, u8)> {
    let figure = || prop_oneof![20 => 0..300_u64, 2 => Just(0), 1 => 0..4_000_u64];
    let cost = prop_oneof![
        20 => Just(None),
        1 => (0.0..1.0).prop_map(|usd| Some(Paid::Reported(usd))),
        1 => (0.0..1.0).prop_map(|usd| Some(Paid::Computed(usd))),
        1 => Just(Some(Paid::Unknown)),
    ];
    let spent = (figure(), figure(), figure(), figure(), prop_oneof![20 => Just(0), 1 => 0..300_u64]);
    // Few ids, so that some are told twice.
    (0..60_u64, 0..30_i64, prop_oneof![9 => Just(0_u16), 1 => 0..3_u16], spent, cost, any::<bool>(), 0..3_u8).prop_map(
        |(id, hour, model, (input, cache_read, cache_write, output, cache_write_1h), cost, copied, log)| {
            let spent = Spent { input, cache_read, cache_write, output, cache_write_1h, reasoning: output / 2 };
            let at = EVENING + hour * HOUR / 2;
            (Response { id, at, model, calls: 1, spent, cost, copied: copied && log > 0 }, log)
        },
    )
}

/// Three sessions of these responses: in a log each, or in as many as there are responses, so that nothing is added up.
fn logs(responses: &[(Response, u8)], together: bool) -> Vec<Log> {
    let registry = sabir_agents::builtin();
    let agent = registry.find("claude-code").expect("an agent");
    let log = |responses: Vec<Response>, role: Role| {
        let models = ["tiered", "partly", "unlisted"].map(str::to_owned).to_vec();
        let ledger = Ledger { models, responses, ..Ledger::default() };
        let file =
            LogFile { agent: agent.clone(), path: PathBuf::new(), role, size: 0, modified: 0, changed: 0, identity: (0, 0) };
        Log { file, account: Account::of(&ledger), progress: Progress::default() }
    };
    let mut logs = Vec::new();
    for number in 0..3_u8 {
        let (id, of_it) = (format!("session-{number}"), responses.iter().filter(|(_, log)| *log == number));
        let mut of_it: Vec<Response> = of_it.map(|(response, _)| *response).collect();
        let apart: Vec<Response> = if together { Vec::new() } else { std::mem::take(&mut of_it) };
        logs.push(log(of_it, Role::Session(id.clone())));
        logs.extend(apart.into_iter().map(|response| log(vec![response], Role::Of(id.clone()))));
    }
    logs
}

fn answer(logs: &[Log], question: &Question) -> (Answer, Vec<Sum>, usize) {
    let prices = Table::parse(PRICES).expect("prices");
    let sessions = account::sessions(logs);
    let count = crate::portions(logs, &sessions).iter().flat_map(Portion::responses).count();
    let answer = usage::usage(logs, &sessions, &|_| true, question, &prices);
    (answer, usage::by_session(logs, &sessions, &prices), count)
}

/// Costs are added in another order, and differ in their last digits.
fn rounded(sum: &mut Sum) {
    sum.cost = (sum.cost * 1e9).round() / 1e9;
}

proptest! {
    #[test]
    fn what_is_added_up_beforehand_is_what_single_responses_come_to(
        mut responses in prop::collection::vec(response(), 0..120),
        zone in prop::sample::select(vec!["UTC0", "CET-1CEST,M3.5.0,M10.5.0/3", "IST-5:30", "EST5"]),
        by in prop::sample::select(By::ALL.to_vec()),
        since in prop::option::of(0..20_i64),
        until in prop::option::of(0..20_i64),
    ) {
        // Most logs are in order.
        responses.sort_by_key(|(response, _)| response.at);
        let moment = |hour: Option<i64>| hour.map(|hour| EVENING + hour * HOUR + 1);
        let zone = TimeZone::posix(zone).expect("a zone");
        let question = Question { by, since: moment(since), until: moment(until), zone, breakdown: true };
        let of = |together: bool| {
            let (mut answer, mut sums, count) = answer(&logs(&responses, together), &question);
            let rows = answer.rows.values_mut().chain([&mut answer.total]);
            rows.flat_map(|row| row.models.values_mut().chain([&mut row.sum])).chain(&mut sums).for_each(rounded);
            (answer, sums, count)
        };
        prop_assert_eq!(of(true), of(false));
    }
}
