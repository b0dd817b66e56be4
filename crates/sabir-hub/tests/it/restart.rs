//! Restarts of a hub with the same folder.

use std::sync::Arc;

use sabir_hub::store::sqlite::SqliteStore;
use sabir_hub::store::{AppendRequest, MessageWriter as _};
use sabir_protocol::FromHub;
use serde_json::json;

use crate::client::{Setup, event, frame, hello, message, numbered_batch, open_hub};

#[tokio::test(flavor = "multi_thread")]
async fn restart_preserves_all_data() {
    let hub = open_hub().await;
    let mut runner = hub.runner("s").await;
    runner.hello("s", "a", 3, 0).await;
    let lines = [event("s", 1, &json!({"kind":"started","agent":"pi"})), message("s", 2, "words to find")];
    runner.send(frame(1, &lines)).await;
    assert_eq!(runner.receive().await, FromHub::Ack { last: 2 });
    hub.post("/v1/sessions/s/commands", &json!({"kind":"prompt","text":"go on"})).await;
    let FromHub::Order(_) = runner.receive().await else { panic!("an order") };
    let token = hub.token("watch").await;
    drop(runner);
    let folder = hub.stop().await;
    let hub = Setup { folder: Arc::clone(&folder), ..Setup::default() }.start().await;
    assert_eq!(hub.get("/v1/sessions?text=find&agent=pi").await.json()["sessions"][0]["last"], 2);
    assert_eq!(hub.get("/v1/sessions/s/log").await.text().lines().count(), 2);
    let mut runner = hub.runner("s").await;
    let FromHub::Welcome(welcome) = runner.hello("s", "a", 3, 2).await else { panic!("a welcome") };
    assert_eq!((welcome.epoch, welcome.last, welcome.orders.len()), (3, 2, 1));
    // The overview includes the messages from before the restart.
    runner.send(frame(3, &[event("s", 3, &json!({"kind":"turnStart","turn":1}))])).await;
    assert_eq!(runner.receive().await, FromHub::Ack { last: 3 });
    loop {
        let session = hub.get("/v1/sessions/s").await.json();
        if session["folded"] == 3 {
            let overview = &session["overview"];
            assert_eq!((&overview["agent"], &overview["runs"], &overview["turns"]), (&json!("pi"), &json!(1), &json!(1)));
            break;
        }
    }
    drop(runner);
    let folder = hub.stop().await;
    let hub = Setup { folder, open: false, ..Setup::default() }.start().await;
    assert_eq!(hub.get_with("/v1/sessions", &token).await.status, 200, "tokens are preserved");
}

#[tokio::test(flavor = "multi_thread")]
async fn restart_updates_outdated_overviews() {
    let folder = Arc::new(tempfile::tempdir().expect("a folder"));
    {
        // Without a hub, no overview is stored.
        let store = SqliteStore::open(folder.path()).expect("a store");
        let lines =
            [event("s", 1, &json!({"kind":"started","agent":"pi"})), event("s", 2, &json!({"kind":"turnStart","turn":1}))];
        let append = AppendRequest {
            session: crate::store::id("s"),
            writer: "a".to_owned(),
            epoch: 1,
            first: 1,
            messages: lines.map(Into::into).to_vec(),
        };
        store.append(append).await.expect("stored");
    }
    let hub = Setup { folder, ..Setup::default() }.start().await;
    while hub.get("/v1/sessions?agent=pi").await.json()["sessions"][0]["overview"]["turns"] != 1 {}
}

#[tokio::test(flavor = "multi_thread")]
async fn subscription_resumes_after_a_restart() {
    let hub = open_hub().await;
    hub.post("/v1/runners/s/hello", &hello("s", "a", 1, 0)).await;
    let mut runner = hub.runner("s").await;
    runner.hello("s", "a", 1, 0).await;
    runner.send(numbered_batch("s", 1, 3)).await;
    runner.receive().await;
    let mut events = hub.events("/v1/sessions/s/events", &[]).await;
    for expected in 1..=3 {
        assert_eq!(events.next().await.expect("an event").0, expected);
    }
    let folder = hub.stop().await;
    assert_eq!(events.next().await, None);
    assert_eq!(runner.end().await, ("unavailable".to_owned(), 4503));
    let hub = Setup { folder, ..Setup::default() }.start().await;
    let mut events = hub.events("/v1/sessions/s/events", &[("Last-Event-ID", "3")]).await;
    let mut runner = hub.runner("s").await;
    runner.hello("s", "a", 1, 3).await;
    runner.send(numbered_batch("s", 4, 4)).await;
    assert_eq!(events.next().await.expect("an event").0, 4);
}
