//! One set of tests for every log: nothing in them knows which it is.

use std::sync::Arc;

use axum::body::Bytes;
use sabir_core::fold::{Overview, Phase};
use sabir_core::time::Timestamp;
use sabir_hub::auth::token::{Scope, Token};
use sabir_hub::log::embedded::Embedded;
use sabir_hub::log::memory::Memory;
use sabir_hub::log::{Added, Append, Appended, Artifact, Begun, Filter, Limit, Log};
use sabir_hub::now;
use sabir_protocol::{Code, Hello, Order, OrderKind, SessionId, Taken};

/// A log, and the folder that must outlive it.
type Place = (Arc<dyn Log>, Option<tempfile::TempDir>);

fn memory() -> Place {
    (Arc::new(Memory::default()), None)
}

fn embedded() -> Place {
    let folder = tempfile::tempdir().expect("a folder");
    (Arc::new(Embedded::open(folder.path()).expect("a log")), Some(folder))
}

/// Runs each test over each log.
macro_rules! over_both {
    ($($name:ident),* $(,)?) => {
        mod in_memory { $(#[tokio::test] async fn $name() { super::$name(super::memory()).await; })* }
        mod in_a_folder { $(#[tokio::test] async fn $name() { super::$name(super::embedded()).await; })* }
    };
}

over_both!(
    messages_are_kept_once_and_in_order,
    a_gap_is_told_and_nothing_is_kept,
    what_comes_again_must_be_the_same,
    a_new_writer_fences_the_one_before,
    an_epoch_of_the_same_writer_fences_the_ones_before,
    many_writers_at_once_lose_nothing,
    calls_are_applied_in_their_order,
    who_follows_is_told,
    orders_have_numbers_and_one_fate,
    sessions_are_listed_filtered_and_searched,
    an_older_overview_never_replaces_a_newer_one,
    artifacts_and_tokens_are_kept,
);

pub(crate) fn id(name: &str) -> SessionId {
    name.parse().expect("an id")
}

fn hello(session: &str, writer: &str, epoch: u32, last: u64) -> Hello {
    let agent = Some("codex".to_owned());
    Hello { session: id(session), writer: writer.to_owned(), epoch, last, orders: 0, agent, shell: None, takes: Vec::new() }
}

fn line(session: &str, seq: u64, text: &str) -> Bytes {
    let ts = "2026-01-02T03:04:05.678Z";
    let message = serde_json::json!({ "sessionId": session, "seq": seq, "ts": ts, "type": "log", "payload": { "text": text } });
    message.to_string().into()
}

fn batch(session: &str, writer: &str, epoch: u32, first: u64, texts: &[&str]) -> Append {
    let messages = (first..).zip(texts).map(|(seq, text)| line(session, seq, text)).collect();
    Append { session: id(session), writer: writer.to_owned(), epoch, first, messages }
}

const ALL: Limit = Limit { messages: usize::MAX >> 1, bytes: usize::MAX };

async fn read(log: &dyn Log, session: &str, after: u64) -> Vec<(u64, Bytes)> {
    let stored = log.read(&id(session), after, ALL).await.expect("read");
    stored.into_iter().map(|stored| (stored.seq, stored.line)).collect()
}

fn refused<T: std::fmt::Debug>(got: T, code: Code) {
    let text = format!("{got:?}");
    assert!(text.contains(&format!("code: {code:?}")), "{text} is not {code:?}");
}

async fn messages_are_kept_once_and_in_order((log, _folder): Place) {
    let kept = |last, new| Appended::Kept { last, new };
    assert_eq!(log.append(batch("s", "a", 1, 1, &["1", "2"])).await, Ok(kept(2, 2)));
    assert_eq!(log.append(batch("s", "a", 1, 2, &["2", "3"])).await, Ok(kept(3, 1)));
    assert_eq!(log.append(batch("s", "a", 1, 1, &["1"])).await, Ok(kept(3, 0)));
    assert_eq!(log.append(batch("t", "b", 1, 1, &["x"])).await, Ok(kept(1, 1)));
    let expected: Vec<_> = (1..=3).map(|seq| (seq, line("s", seq, &seq.to_string()))).collect();
    assert_eq!(read(&*log, "s", 0).await, expected);
    assert_eq!(read(&*log, "s", 2).await, expected[2..]);
    assert!(read(&*log, "s", 3).await.is_empty() && read(&*log, "s", u64::MAX).await.is_empty());
    assert!(read(&*log, "nobody", 0).await.is_empty());
    let some = log.read(&id("s"), 0, Limit { messages: 2, bytes: usize::MAX }).await.expect("read");
    assert_eq!(some.len(), 2);
    let some = log.read(&id("s"), 0, Limit { messages: 9, bytes: 1 }).await.expect("read");
    assert_eq!(some.len(), 1, "one message always fits");
}

async fn a_gap_is_told_and_nothing_is_kept((log, _folder): Place) {
    assert_eq!(log.append(batch("s", "a", 1, 2, &["2"])).await, Ok(Appended::Gap { expected: 1 }));
    assert!(log.session(&id("s")).await.expect("asked").is_none());
    log.append(batch("s", "a", 1, 1, &["1"])).await.expect("kept");
    assert_eq!(log.append(batch("s", "a", 1, 3, &["3"])).await, Ok(Appended::Gap { expected: 2 }));
    assert_eq!(read(&*log, "s", 0).await.len(), 1);
}

async fn what_comes_again_must_be_the_same((log, _folder): Place) {
    log.append(batch("s", "a", 1, 1, &["1", "2"])).await.expect("kept");
    refused(log.append(batch("s", "a", 1, 2, &["other", "3"])).await, Code::Conflict);
    assert_eq!(read(&*log, "s", 0).await.len(), 2, "no half of it was kept");
}

async fn a_new_writer_fences_the_one_before((log, _folder): Place) {
    log.begin(hello("s", "a", 1, 0), true).await.expect("begun");
    log.append(batch("s", "a", 1, 1, &["1", "2"])).await.expect("kept");
    let Ok(Begun::Welcome { epoch, last, .. }) = log.begin(hello("s", "b", 0, 0), true).await else { panic!("a place") };
    assert_eq!((epoch, last), (2, 2));
    refused(log.append(batch("s", "a", 1, 3, &["3"])).await, Code::Fenced);
    refused(log.begin(hello("s", "a", 1, 2), true).await, Code::Fenced);
    refused(log.begin(hello("s", "a", 3, 2), true).await, Code::Conflict);
    assert!(matches!(log.begin(hello("s", "b", 2, 2), true).await, Ok(Begun::Welcome { epoch: 2, last: 2, .. })));
    assert_eq!(log.append(batch("s", "b", 2, 3, &["3"])).await, Ok(Appended::Kept { last: 3, new: 1 }));
    refused(log.begin(hello("s", "b", 2, 2), true).await, Code::Conflict);
}

async fn an_epoch_of_the_same_writer_fences_the_ones_before((log, _folder): Place) {
    log.append(batch("s", "a", 1, 1, &["1"])).await.expect("kept");
    assert!(matches!(log.begin(hello("s", "a", 4, 1), true).await, Ok(Begun::Welcome { epoch: 4, last: 1, .. })));
    refused(log.append(batch("s", "a", 3, 2, &["2"])).await, Code::Fenced);
    log.append(batch("s", "a", 5, 2, &["2"])).await.expect("a batch may bring a new epoch");
    refused(log.append(batch("s", "a", 4, 3, &["3"])).await, Code::Fenced);
}

async fn many_writers_at_once_lose_nothing((log, _folder): Place) {
    let mut tasks = Vec::new();
    for number in 0..20_u64 {
        let log = Arc::clone(&log);
        tasks.push(tokio::spawn(async move {
            let name = format!("s{number}");
            for seq in 1..=50 {
                let text = format!("{number}-{seq}");
                let kept = log.append(batch(&name, "a", 1, seq, &[&text])).await;
                assert_eq!(kept, Ok(Appended::Kept { last: seq, new: 1 }));
            }
        }));
    }
    for task in tasks {
        task.await.expect("no panic");
    }
    for number in 0..20_u64 {
        let name = format!("s{number}");
        let expected: Vec<_> = (1..=50).map(|seq| (seq, line(&name, seq, &format!("{number}-{seq}")))).collect();
        assert_eq!(read(&*log, &name, 0).await, expected);
    }
}

async fn calls_are_applied_in_their_order((log, _folder): Place) {
    let answers: Vec<_> = (1..=100).map(|seq| log.append(batch("s", "a", 1, seq, &["x"]))).collect();
    for (seq, answer) in (1..).zip(answers).collect::<Vec<_>>().into_iter().rev() {
        assert_eq!(answer.await, Ok(Appended::Kept { last: seq, new: 1 }));
    }
}

async fn who_follows_is_told((log, _folder): Place) {
    assert!(log.follow(&id("s")).await.expect("asked").is_none());
    let mut changes = log.changes();
    log.append(batch("s", "a", 2, 1, &["1"])).await.expect("kept");
    assert_eq!(changes.recv().await, Ok(id("s")));
    let mut head = log.follow(&id("s")).await.expect("asked").expect("known");
    let seen = *head.borrow_and_update();
    assert_eq!((seen.last, seen.epoch), (1, 2));
    log.append(batch("s", "a", 2, 2, &["2"])).await.expect("kept");
    head.changed().await.expect("told");
    assert_eq!(head.borrow_and_update().last, 2);
    let Ok(Begun::Welcome { connection, .. }) = log.begin(hello("s", "a", 3, 2), true).await else { panic!("welcome") };
    let seen = *head.wait_for(|head| head.epoch == 3).await.expect("told");
    assert_eq!((seen.connection, seen.last), (connection, 2));
    log.begin(hello("s", "a", 3, 2), false).await.expect("begun");
    assert_eq!(head.borrow().connection, connection, "without a connection nobody is replaced");
    log.add_order(&id("s"), cancel(), now()).await.expect("put");
    assert_eq!(head.wait_for(|head| head.orders == 1).await.expect("told").last, 2);
}

fn cancel() -> Order {
    let by = Some("somebody".to_owned());
    Order { order: 0, kind: OrderKind::Cancel, text: None, reason: None, request_id: None, decision: None, by }
}

async fn orders_have_numbers_and_one_fate((log, _folder): Place) {
    let session = id("s");
    assert_eq!(log.add_order(&session, cancel(), now()).await, Ok(Added::NoSession));
    log.begin(hello("s", "a", 1, 0), true).await.expect("begun");
    for number in 1..=3 {
        let Ok(Added::Order(order)) = log.add_order(&session, cancel(), now()).await else { panic!("it is taken") };
        assert_eq!(order.order, number);
    }
    let taken = |order, accepted| Taken { order, accepted, reason: Some("why".to_owned()) };
    assert_eq!(log.taken(&session, taken(2, false), now()).await, Ok(true));
    assert_eq!(log.taken(&session, taken(2, true), now()).await, Ok(false), "again is no error and changes nothing");
    assert_eq!(log.taken(&session, taken(9, true), now()).await, Ok(false));
    let orders = log.orders(&session, 1).await.expect("read");
    assert_eq!(orders.iter().map(|placed| placed.order.order).collect::<Vec<_>>(), [2, 3]);
    let fate = orders[0].taken.as_ref().expect("dealt with");
    assert_eq!((fate.accepted, fate.reason.as_deref()), (false, Some("why")), "the first word counts");
    let Ok(Begun::Welcome { orders, .. }) = log.begin(hello("s", "a", 1, 0), true).await else { panic!("welcome") };
    assert_eq!(orders.iter().map(|order| order.order).collect::<Vec<_>>(), [1, 3]);
    // Prompts that wait are limited; a cancel is still taken.
    let prompt = || Order { kind: OrderKind::Prompt, text: Some("x".repeat(300 << 10)), ..cancel() };
    for _ in 0..3 {
        assert!(matches!(log.add_order(&session, prompt(), now()).await, Ok(Added::Order(_))));
    }
    let full = log.add_order(&session, prompt(), now()).await;
    assert!(matches!(full, Ok(Added::Full { pending }) if pending > 900 << 10), "{full:?}");
    assert!(matches!(log.add_order(&session, cancel(), now()).await, Ok(Added::Order(_))));
    log.taken(&session, taken(4, true), now()).await.expect("noted");
    assert!(matches!(log.add_order(&session, prompt(), now()).await, Ok(Added::Order(_))), "there is room again");
}

async fn sessions_are_listed_filtered_and_searched((log, _folder): Place) {
    let before = now();
    for (number, (agent, phase, workspace)) in
        [("codex", Phase::Running, None), ("pi", Phase::Error, Some("w")), ("pi", Phase::Success, None)].into_iter().enumerate()
    {
        let name = format!("s{number}");
        let text = format!("Number{number}: the parser, Größe");
        log.append(batch(&name, "a", 1, 1, &[&text, "another"])).await.expect("kept");
        let (agent, workspace) = (Some(agent.to_owned()), workspace.map(str::to_owned));
        let overview = Overview { agent, phase, workspace, ..Overview::default() };
        log.describe(&id(&name), 2, overview).await.expect("kept");
    }
    let names = async |filter: Filter| {
        let page = log.sessions(Filter { limit: 10, ..filter }).await.expect("listed");
        page.sessions.iter().map(|session| session.session.to_string()).collect::<Vec<_>>().join(" ")
    };
    let any = Filter::default;
    assert_eq!(names(any()).await, "s2 s1 s0");
    assert_eq!(names(Filter { agent: Some("pi".to_owned()), ..any() }).await, "s2 s1");
    assert_eq!(names(Filter { phase: Some(Phase::Running), ..any() }).await, "s0");
    assert_eq!(names(Filter { workspace: Some("w".to_owned()), ..any() }).await, "s1");
    assert_eq!(names(Filter { prefix: Some("s1".to_owned()), ..any() }).await, "s1");
    assert_eq!(names(Filter { prefix: Some("1".to_owned()), ..any() }).await, "");
    assert_eq!(names(Filter { since: Some(before), ..any() }).await, "s2 s1 s0");
    let later = Timestamp::from_millis(now().as_millis() + 60_000);
    assert_eq!(names(Filter { since: later, ..any() }).await, "");
    for (text, expected) in [
        ("parser", "s2 s1 s0"),
        ("PARSER number1", "s1"),
        ("pars", ""),
        ("\"the parser\"", "s2 s1 s0"),
        ("\"parser the\"", ""),
        ("parser, größe", "s2 s1 s0"),
        ("größe number2", "s2"),
        ("number1 another", ""),
        ("\"number0\" OR *", ""),
        ("number0' \" (", ""),
        ("\"number0:", "s0"),
        ("", "s2 s1 s0"),
    ] {
        assert_eq!(names(Filter { text: Some(text.to_owned()), ..any() }).await, expected, "{text}");
    }
    assert_eq!(log.agents().await, Ok(vec!["codex".to_owned(), "pi".to_owned()]));
    let first = log.sessions(Filter { limit: 2, ..any() }).await.expect("listed");
    assert_eq!(first.sessions.len(), 2);
    let second = log.sessions(Filter { limit: 2, cursor: first.next, ..any() }).await.expect("listed");
    assert_eq!((second.sessions.len(), second.next), (1, None));
}

async fn an_older_overview_never_replaces_a_newer_one((log, _folder): Place) {
    let session = id("s");
    log.append(batch("s", "a", 1, 1, &["1", "2", "3"])).await.expect("kept");
    assert_eq!(log.behind().await, Ok(vec![session.clone()]));
    let turns = |turns| Overview { turns, ..Overview::default() };
    log.describe(&session, 3, turns(3)).await.expect("kept");
    log.describe(&session, 2, turns(2)).await.expect("passed over");
    let known = log.session(&session).await.expect("asked").expect("known");
    assert_eq!((known.folded, known.overview.turns, known.last), (3, 3, 3));
    assert_eq!(log.behind().await, Ok(Vec::new()));
}

async fn artifacts_and_tokens_are_kept((log, _folder): Place) {
    let artifact = Artifact { digest: "0f".repeat(32), size: 3, name: None, media_type: None, complete: false };
    assert_eq!(log.put_artifact(&id("s"), artifact.clone()).await, Ok(false));
    log.begin(hello("s", "a", 1, 0), true).await.expect("begun");
    assert_eq!(log.put_artifact(&id("s"), artifact.clone()).await, Ok(true));
    let artifact = Artifact { complete: true, ..artifact };
    assert_eq!(log.put_artifact(&id("s"), artifact.clone()).await, Ok(true));
    assert_eq!(log.artifacts(&id("s")).await, Ok(vec![artifact]));
    let (token, _) = Token::new(vec![Scope::Operate], None, now(), None).expect("randomness");
    log.add_token(token.clone()).await.expect("kept");
    assert_eq!(log.tokens().await, Ok(vec![token.clone()]));
    assert_eq!(log.revoke_token("nobody", now()).await, Ok(false));
    assert_eq!(log.revoke_token(&token.id, now()).await, Ok(true));
    assert!(log.tokens().await.expect("read")[0].revoked.is_some());
}

#[tokio::test]
async fn a_folder_keeps_everything_when_it_is_opened_again_and_one_hub_at_a_time_has_it() {
    let folder = tempfile::tempdir().expect("a folder");
    {
        let log = Embedded::open(folder.path()).expect("a log");
        assert!(Embedded::open(folder.path()).is_err(), "it is in use");
        Embedded::open_beside(folder.path()).expect("tokens are made beside a hub");
        log.append(batch("s", "a", 2, 1, &["one", "two"])).await.expect("kept");
        log.add_order(&id("s"), cancel(), now()).await.expect("put");
    }
    let log = Embedded::open(folder.path()).expect("a log");
    assert_eq!(read(&log, "s", 0).await.len(), 2);
    let Ok(Begun::Welcome { epoch, last, orders, .. }) = log.begin(hello("s", "a", 2, 2), true).await else { panic!("welcome") };
    assert_eq!((epoch, last, orders.len()), (2, 2, 1));
    let page = log.sessions(Filter { text: Some("two".to_owned()), limit: 5, ..Filter::default() }).await.expect("listed");
    assert_eq!(page.sessions.len(), 1);
}

#[test]
fn a_new_folder_is_opened_by_several_at_the_same_moment() {
    for _ in 0..20 {
        let folder = tempfile::tempdir().expect("a folder");
        std::thread::scope(|scope| {
            scope.spawn(|| Embedded::open(folder.path()).expect("the hub's"));
            for _ in 0..3 {
                scope.spawn(|| Embedded::open_beside(folder.path()).expect("one for tokens"));
            }
        });
    }
}

#[tokio::test]
async fn without_room_nothing_is_taken_and_with_room_it_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = Embedded::open(folder.path()).expect("a log");
    log.limit(Some(1 << 20)).await.expect("a limit");
    let text = "x".repeat(60_000);
    let texts = [text.as_str(), text.as_str(), text.as_str()];
    let mut last = 0;
    let trouble = loop {
        // Small batches share commits with a large one, and must not be lost with it.
        match log.append(batch("s", "a", 1, last + 1, &texts)).await {
            Ok(Appended::Kept { last: kept, new: 3 }) => last = kept,
            other => break other,
        }
        assert!(last < 1_000, "there was to be no room");
    };
    assert!(format!("{trouble:?}").contains("Unavailable"), "{trouble:?}");
    assert_eq!(read(&log, "s", 0).await.len() as u64, last, "no half of a batch was kept");
    log.limit(None).await.expect("a limit");
    assert_eq!(log.append(batch("s", "a", 1, last + 1, &texts)).await, Ok(Appended::Kept { last: last + 3, new: 3 }));
    assert_eq!(read(&log, "s", 0).await.len() as u64, last + 3);
}
