//! Conformance tests that every writable backend passes, and tests of the SQLite backend.

use std::sync::Arc;

use axum::body::Bytes;
use sabir_core::fold::{Overview, Phase};
use sabir_core::time::Timestamp;
use sabir_hub::auth::token::{Scope, Token};
use sabir_hub::now;
use sabir_hub::store::memory::MemoryStore;
use sabir_hub::store::sqlite::SqliteStore;
use sabir_hub::store::{
    AddCommandResult, AppendRequest, AppendResult, Artifact, OpenResult, ReadLimit, SessionFilter, Store, WriteStore,
};
use sabir_protocol::{Code, Hello, Order, OrderKind, SessionId, Taken};

/// A store, and the folder that it is in.
struct Backend {
    store: Store,
    write: Arc<WriteStore>,
    _folder: Option<tempfile::TempDir>,
}

impl Backend {
    fn new(store: Store, folder: Option<tempfile::TempDir>) -> Self {
        let write = Arc::clone(store.write.as_ref().expect("a writable backend"));
        Self { store, write, _folder: folder }
    }

    fn memory() -> Self {
        Self::new(Arc::new(MemoryStore::default()).into(), None)
    }

    fn sqlite() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self::new(open(folder.path()).1, Some(folder))
    }
}

fn open(folder: &std::path::Path) -> (Arc<SqliteStore>, Store) {
    let backend = Arc::new(SqliteStore::open(folder).expect("a store"));
    (Arc::clone(&backend), backend.into())
}

/// Runs each test with each backend.
macro_rules! conformance {
    ($($name:ident),* $(,)?) => {
        mod memory { $(#[tokio::test] async fn $name() { super::$name(super::Backend::memory()).await; })* }
        mod sqlite { $(#[tokio::test] async fn $name() { super::$name(super::Backend::sqlite()).await; })* }
    };
}

conformance!(
    append_stores_each_message_once_in_order,
    append_after_a_gap_stores_nothing,
    append_refuses_changed_messages,
    new_writer_fences_the_previous_one,
    higher_epoch_fences_lower_ones_of_the_same_writer,
    concurrent_appends_lose_nothing,
    appends_apply_in_call_order,
    watch_reports_progress,
    commands_are_numbered_and_resolved_once,
    sessions_are_listed_filtered_and_searched,
    older_overview_does_not_replace_newer,
    artifacts_and_tokens_are_stored,
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

fn request(session: &str, writer: &str, epoch: u32, first: u64, texts: &[&str]) -> AppendRequest {
    let messages = (first..).zip(texts).map(|(seq, text)| line(session, seq, text)).collect();
    AppendRequest { session: id(session), writer: writer.to_owned(), epoch, first, messages }
}

const UNLIMITED: ReadLimit = ReadLimit { messages: usize::MAX >> 1, bytes: usize::MAX };

async fn read(store: &Store, session: &str, after: u64) -> Vec<(u64, Bytes)> {
    let messages = store.messages.read(&id(session), after, UNLIMITED).await.expect("read");
    messages.into_iter().map(|message| (message.seq, message.line)).collect()
}

fn assert_refused<T: std::fmt::Debug>(result: T, code: Code) {
    let text = format!("{result:?}");
    assert!(text.contains(&format!("code: {code:?}")), "{text} is not {code:?}");
}

async fn append_stores_each_message_once_in_order(Backend { store, write, .. }: Backend) {
    let append = async |session, writer, first, texts| write.messages.append(request(session, writer, 1, first, texts)).await;
    let stored = |last, new| Ok(AppendResult::Stored { last, new });
    assert_eq!(append("s", "a", 1, &["1", "2"]).await, stored(2, 2));
    assert_eq!(append("s", "a", 2, &["2", "3"]).await, stored(3, 1));
    assert_eq!(append("s", "a", 1, &["1"]).await, stored(3, 0));
    assert_eq!(append("t", "b", 1, &["x"]).await, stored(1, 1));
    let expected: Vec<_> = (1..=3).map(|seq| (seq, line("s", seq, &seq.to_string()))).collect();
    assert_eq!(read(&store, "s", 0).await, expected);
    assert_eq!(read(&store, "s", 2).await, expected[2..]);
    assert!(read(&store, "s", 3).await.is_empty() && read(&store, "s", u64::MAX).await.is_empty());
    assert!(read(&store, "nobody", 0).await.is_empty());
    let page = store.messages.read(&id("s"), 0, ReadLimit { messages: 2, bytes: usize::MAX }).await.expect("read");
    assert_eq!(page.len(), 2);
    let page = store.messages.read(&id("s"), 0, ReadLimit { messages: 9, bytes: 1 }).await.expect("read");
    assert_eq!(page.len(), 1, "a page has at least one message");
}

async fn append_after_a_gap_stores_nothing(Backend { store, write, .. }: Backend) {
    let append = async |first, texts| write.messages.append(request("s", "a", 1, first, texts)).await;
    assert_eq!(append(2, &["2"]).await, Ok(AppendResult::Gap { expected: 1 }));
    assert!(store.sessions.session(&id("s")).await.expect("read").is_none());
    append(1, &["1"]).await.expect("stored");
    assert_eq!(append(3, &["3"]).await, Ok(AppendResult::Gap { expected: 2 }));
    assert_eq!(read(&store, "s", 0).await.len(), 1);
}

async fn append_refuses_changed_messages(Backend { store, write, .. }: Backend) {
    write.messages.append(request("s", "a", 1, 1, &["1", "2"])).await.expect("stored");
    assert_refused(write.messages.append(request("s", "a", 1, 2, &["other", "3"])).await, Code::Conflict);
    assert_eq!(read(&store, "s", 0).await.len(), 2, "no part of the batch is stored");
}

async fn new_writer_fences_the_previous_one(Backend { write, .. }: Backend) {
    let open = async |writer, epoch, last| write.messages.open_session(hello("s", writer, epoch, last), true).await;
    let append = async |writer, epoch, first, texts| write.messages.append(request("s", writer, epoch, first, texts)).await;
    open("a", 1, 0).await.expect("opened");
    append("a", 1, 1, &["1", "2"]).await.expect("stored");
    let Ok(OpenResult::Welcome { epoch, last, .. }) = open("b", 0, 0).await else { panic!("a welcome") };
    assert_eq!((epoch, last), (2, 2));
    assert_refused(append("a", 1, 3, &["3"]).await, Code::Fenced);
    assert_refused(open("a", 1, 2).await, Code::Fenced);
    assert_refused(open("a", 3, 2).await, Code::Conflict);
    assert!(matches!(open("b", 2, 2).await, Ok(OpenResult::Welcome { epoch: 2, last: 2, .. })));
    assert_eq!(append("b", 2, 3, &["3"]).await, Ok(AppendResult::Stored { last: 3, new: 1 }));
    assert_refused(open("b", 2, 2).await, Code::Conflict);
}

async fn higher_epoch_fences_lower_ones_of_the_same_writer(Backend { write, .. }: Backend) {
    let append = async |epoch, first, texts| write.messages.append(request("s", "a", epoch, first, texts)).await;
    append(1, 1, &["1"]).await.expect("stored");
    let opened = write.messages.open_session(hello("s", "a", 4, 1), true).await;
    assert!(matches!(opened, Ok(OpenResult::Welcome { epoch: 4, last: 1, .. })));
    assert_refused(append(3, 2, &["2"]).await, Code::Fenced);
    append(5, 2, &["2"]).await.expect("a batch may have a new epoch");
    assert_refused(append(4, 3, &["3"]).await, Code::Fenced);
}

async fn concurrent_appends_lose_nothing(Backend { store, write, .. }: Backend) {
    let mut tasks = Vec::new();
    for number in 0..20_u64 {
        let write = Arc::clone(&write);
        tasks.push(tokio::spawn(async move {
            let name = format!("s{number}");
            for seq in 1..=50 {
                let text = format!("{number}-{seq}");
                let stored = write.messages.append(request(&name, "a", 1, seq, &[&text])).await;
                assert_eq!(stored, Ok(AppendResult::Stored { last: seq, new: 1 }));
            }
        }));
    }
    for task in tasks {
        task.await.expect("no panic");
    }
    for number in 0..20_u64 {
        let name = format!("s{number}");
        let expected: Vec<_> = (1..=50).map(|seq| (seq, line(&name, seq, &format!("{number}-{seq}")))).collect();
        assert_eq!(read(&store, &name, 0).await, expected);
    }
}

async fn appends_apply_in_call_order(Backend { write, .. }: Backend) {
    let futures: Vec<_> = (1..=100).map(|seq| write.messages.append(request("s", "a", 1, seq, &["x"]))).collect();
    for (seq, future) in (1..).zip(futures).collect::<Vec<_>>().into_iter().rev() {
        assert_eq!(future.await, Ok(AppendResult::Stored { last: seq, new: 1 }));
    }
}

async fn watch_reports_progress(Backend { store, write, .. }: Backend) {
    assert!(store.messages.watch(&id("s")).await.expect("read").is_none());
    let mut changes = store.sessions.changes();
    write.messages.append(request("s", "a", 2, 1, &["1"])).await.expect("stored");
    assert_eq!(changes.recv().await, Ok(id("s")));
    let mut head = store.messages.watch(&id("s")).await.expect("read").expect("a session");
    let current = *head.borrow_and_update();
    assert_eq!((current.last, current.epoch), (1, 2));
    write.messages.append(request("s", "a", 2, 2, &["2"])).await.expect("stored");
    head.changed().await.expect("a change");
    assert_eq!(head.borrow_and_update().last, 2);
    let opened = write.messages.open_session(hello("s", "a", 3, 2), true).await;
    let Ok(OpenResult::Welcome { connection, .. }) = opened else { panic!("a welcome") };
    let current = *head.wait_for(|head| head.epoch == 3).await.expect("a change");
    assert_eq!((current.connection, current.last), (connection, 2));
    write.messages.open_session(hello("s", "a", 3, 2), false).await.expect("opened");
    assert_eq!(head.borrow().connection, connection, "HTTP does not replace a connection");
    write.commands.add_command(&id("s"), cancel(), now()).await.expect("added");
    assert_eq!(head.wait_for(|head| head.last_command == 1).await.expect("a change").last, 2);
}

fn cancel() -> Order {
    let by = Some("somebody".to_owned());
    Order { order: 0, kind: OrderKind::Cancel, text: None, reason: None, request_id: None, decision: None, by }
}

async fn commands_are_numbered_and_resolved_once(Backend { write, .. }: Backend) {
    let session = id("s");
    let add = async |command| write.commands.add_command(&session, command, now()).await;
    assert_eq!(add(cancel()).await, Ok(AddCommandResult::UnknownSession));
    write.messages.open_session(hello("s", "a", 1, 0), true).await.expect("opened");
    for number in 1..=3 {
        let Ok(AddCommandResult::Added(command)) = add(cancel()).await else { panic!("it is added") };
        assert_eq!(command.order, number);
    }
    let resolve = async |order, accepted| {
        let taken = Taken { order, accepted, reason: Some("why".to_owned()) };
        write.commands.resolve_command(&session, taken, now()).await
    };
    assert_eq!(resolve(2, false).await, Ok(true));
    assert_eq!(resolve(2, true).await, Ok(false), "a second outcome is ignored");
    assert_eq!(resolve(9, true).await, Ok(false));
    let commands = write.commands.commands(&session, 1).await.expect("read");
    assert_eq!(commands.iter().map(|stored| stored.command.order).collect::<Vec<_>>(), [2, 3]);
    let outcome = commands[0].outcome.as_ref().expect("an outcome");
    assert_eq!((outcome.accepted, outcome.reason.as_deref()), (false, Some("why")), "the first outcome counts");
    let opened = write.messages.open_session(hello("s", "a", 1, 0), true).await;
    let Ok(OpenResult::Welcome { commands, .. }) = opened else { panic!("a welcome") };
    assert_eq!(commands.iter().map(|command| command.order).collect::<Vec<_>>(), [1, 3]);
    // Pending prompts are limited; a cancel is still accepted.
    let prompt = || Order { kind: OrderKind::Prompt, text: Some("x".repeat(300 << 10)), ..cancel() };
    for _ in 0..3 {
        assert!(matches!(add(prompt()).await, Ok(AddCommandResult::Added(_))));
    }
    let full = add(prompt()).await;
    assert!(matches!(full, Ok(AddCommandResult::Full { pending }) if pending > 900 << 10), "{full:?}");
    assert!(matches!(add(cancel()).await, Ok(AddCommandResult::Added(_))));
    resolve(4, true).await.expect("resolved");
    assert!(matches!(add(prompt()).await, Ok(AddCommandResult::Added(_))), "there is space again");
}

async fn sessions_are_listed_filtered_and_searched(Backend { store, write, .. }: Backend) {
    let before = now();
    for (number, (agent, phase, workspace)) in
        [("codex", Phase::Running, None), ("pi", Phase::Error, Some("w")), ("pi", Phase::Success, None)].into_iter().enumerate()
    {
        let name = format!("s{number}");
        let text = format!("Number{number}: the parser, Größe");
        write.messages.append(request(&name, "a", 1, 1, &[&text, "another"])).await.expect("stored");
        let (agent, workspace) = (Some(agent.to_owned()), workspace.map(str::to_owned));
        let overview = Overview { agent, phase, workspace, ..Overview::default() };
        write.overviews.put_overview(&id(&name), 2, overview).await.expect("stored");
    }
    let names = async |filter: SessionFilter| {
        let page = store.sessions.sessions(SessionFilter { limit: 10, ..filter }).await.expect("listed");
        page.sessions.iter().map(|session| session.id.to_string()).collect::<Vec<_>>().join(" ")
    };
    let any = SessionFilter::default;
    assert_eq!(names(any()).await, "s2 s1 s0");
    assert_eq!(names(SessionFilter { agent: Some("pi".to_owned()), ..any() }).await, "s2 s1");
    assert_eq!(names(SessionFilter { phase: Some(Phase::Running), ..any() }).await, "s0");
    assert_eq!(names(SessionFilter { workspace: Some("w".to_owned()), ..any() }).await, "s1");
    assert_eq!(names(SessionFilter { prefix: Some("s1".to_owned()), ..any() }).await, "s1");
    assert_eq!(names(SessionFilter { prefix: Some("1".to_owned()), ..any() }).await, "");
    assert_eq!(names(SessionFilter { since: Some(before), ..any() }).await, "s2 s1 s0");
    let later = Timestamp::from_millis(now().as_millis() + 60_000);
    assert_eq!(names(SessionFilter { since: later, ..any() }).await, "");
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
        assert_eq!(names(SessionFilter { text: Some(text.to_owned()), ..any() }).await, expected, "{text}");
    }
    assert_eq!(store.sessions.agents().await, Ok(vec!["codex".to_owned(), "pi".to_owned()]));
    let first = store.sessions.sessions(SessionFilter { limit: 2, ..any() }).await.expect("listed");
    assert_eq!(first.sessions.len(), 2);
    let second = store.sessions.sessions(SessionFilter { limit: 2, cursor: first.next, ..any() }).await.expect("listed");
    assert_eq!((second.sessions.len(), second.next), (1, None));
}

async fn older_overview_does_not_replace_newer(Backend { store, write, .. }: Backend) {
    let session = id("s");
    write.messages.append(request("s", "a", 1, 1, &["1", "2", "3"])).await.expect("stored");
    assert_eq!(write.overviews.outdated_overviews().await, Ok(vec![session.clone()]));
    let turns = |turns| Overview { turns, ..Overview::default() };
    write.overviews.put_overview(&session, 3, turns(3)).await.expect("stored");
    write.overviews.put_overview(&session, 2, turns(2)).await.expect("ignored");
    let record = store.sessions.session(&session).await.expect("read").expect("a session");
    assert_eq!((record.folded, record.overview.turns, record.last), (3, 3, 3));
    assert_eq!(write.overviews.outdated_overviews().await, Ok(Vec::new()));
}

async fn artifacts_and_tokens_are_stored(Backend { store, write, .. }: Backend) {
    let artifact = Artifact { digest: "0f".repeat(32), size: 3, name: None, media_type: None, complete: false };
    assert_eq!(write.artifacts.put_artifact(&id("s"), artifact.clone()).await, Ok(false));
    write.messages.open_session(hello("s", "a", 1, 0), true).await.expect("opened");
    assert_eq!(write.artifacts.put_artifact(&id("s"), artifact.clone()).await, Ok(true));
    let artifact = Artifact { complete: true, ..artifact };
    assert_eq!(write.artifacts.put_artifact(&id("s"), artifact.clone()).await, Ok(true));
    assert_eq!(write.artifacts.artifacts(&id("s")).await, Ok(vec![artifact]));
    let (token, _) = Token::new(vec![Scope::Operate], None, now(), None).expect("randomness");
    store.tokens.add_token(token.clone()).await.expect("stored");
    assert_eq!(store.tokens.tokens().await, Ok(vec![token.clone()]));
    assert_eq!(store.tokens.revoke_token("nobody", now()).await, Ok(false));
    assert_eq!(store.tokens.revoke_token(&token.id, now()).await, Ok(true));
    assert!(store.tokens.tokens().await.expect("read")[0].revoked.is_some());
}

#[tokio::test]
async fn sqlite_folder_is_locked_and_persistent() {
    let folder = tempfile::tempdir().expect("a folder");
    {
        let (_backend, store) = open(folder.path());
        let write = store.write.expect("writable");
        assert!(SqliteStore::open(folder.path()).is_err(), "it is in use");
        SqliteStore::open_unlocked(folder.path()).expect("tokens can be created next to a hub");
        write.messages.append(request("s", "a", 2, 1, &["one", "two"])).await.expect("stored");
        write.commands.add_command(&id("s"), cancel(), now()).await.expect("added");
    }
    let (_backend, store) = open(folder.path());
    assert_eq!(read(&store, "s", 0).await.len(), 2);
    let opened = store.write.as_ref().expect("writable").messages.open_session(hello("s", "a", 2, 2), true).await;
    let Ok(OpenResult::Welcome { epoch, last, commands, .. }) = opened else { panic!("a welcome") };
    assert_eq!((epoch, last, commands.len()), (2, 2, 1));
    let filter = SessionFilter { text: Some("two".to_owned()), limit: 5, ..SessionFilter::default() };
    let page = store.sessions.sessions(filter).await.expect("listed");
    assert_eq!(page.sessions.len(), 1);
}

#[test]
fn sqlite_new_folder_can_be_opened_concurrently() {
    for _ in 0..20 {
        let folder = tempfile::tempdir().expect("a folder");
        std::thread::scope(|scope| {
            scope.spawn(|| SqliteStore::open(folder.path()).expect("the hub's"));
            for _ in 0..3 {
                scope.spawn(|| SqliteStore::open_unlocked(folder.path()).expect("one for tokens"));
            }
        });
    }
}

#[tokio::test]
async fn sqlite_size_limit_refuses_appends_until_it_is_raised() {
    let folder = tempfile::tempdir().expect("a folder");
    let (backend, store) = open(folder.path());
    let write = Arc::clone(store.write.as_ref().expect("writable"));
    backend.set_limit(Some(1 << 20)).await.expect("a limit");
    let text = "x".repeat(60_000);
    let texts = [text.as_str(), text.as_str(), text.as_str()];
    let mut last = 0;
    let refused = loop {
        // A failed batch must not take earlier ones of the same commit with it.
        match write.messages.append(request("s", "a", 1, last + 1, &texts)).await {
            Ok(AppendResult::Stored { last: stored, new: 3 }) => last = stored,
            other => break other,
        }
        assert!(last < 1_000, "the limit has no effect");
    };
    assert!(format!("{refused:?}").contains("Unavailable"), "{refused:?}");
    assert_eq!(read(&store, "s", 0).await.len() as u64, last, "no part of a batch is stored");
    backend.set_limit(None).await.expect("a limit");
    let appended = write.messages.append(request("s", "a", 1, last + 1, &texts)).await;
    assert_eq!(appended, Ok(AppendResult::Stored { last: last + 3, new: 3 }));
    assert_eq!(read(&store, "s", 0).await.len() as u64, last + 3);
}
