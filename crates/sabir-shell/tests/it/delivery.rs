//! Delivery to a hub that drops, repeats, refuses, stalls and restarts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sabir_protocol::{Code, Order, OrderKind, SessionId, Taken};
use sabir_shell::delivery::Transport;
use sabir_shell::outbox::{Outbox, Position};
use sabir_shell::uploader::{self, ClientInfo, DeliveryOutcome, DeliveryStatus, Uploader};
use sabir_shell::{BearerToken, Hub};
use sabir_store::Home;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::hub::{FakeHub, Fault};

fn session() -> SessionId {
    "s-1".parse().expect("a session")
}

fn message(seq: u64) -> Vec<u8> {
    let text = "y".repeat(usize::try_from(seq * 31 % 4_000).expect("small"));
    format!("{{\"sessionId\":\"s-1\",\"ts\":\"2026-01-02T03:04:05Z\",\"type\":\"log\",\"seq\":{seq},\"payload\":{{\"text\":\"{text}\"}}}}\n")
        .into_bytes()
}

/// An outbox and its delivery task.
struct Sending {
    outbox: Arc<Outbox>,
    finish: watch::Sender<Option<Instant>>,
    status: watch::Receiver<DeliveryStatus>,
    commands: mpsc::Receiver<Order>,
    replies: mpsc::Sender<Taken>,
    task: JoinHandle<DeliveryOutcome>,
    _last_command: watch::Sender<u64>,
    _folder: Option<tempfile::TempDir>,
}

fn open(home: &Home) -> Arc<Outbox> {
    let known = Outbox::open(home, &session()).expect("readable");
    Arc::new(known.unwrap_or_else(|| Outbox::create(home, &session(), Outbox::new_writer(), Position::FIRST).expect("created")))
}

impl Sending {
    fn new(url: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let outbox = open(&Home::at(folder.path().join("home")));
        Self { _folder: Some(folder), ..Self::of(outbox, url) }
    }

    fn of(outbox: Arc<Outbox>, url: &str) -> Self {
        Self::with_upgrade_interval(outbox, url, sabir_shell::delivery::UPGRADE_RETRY_INTERVAL)
    }

    fn with_upgrade_interval(outbox: Arc<Outbox>, url: &str, upgrade_interval: Duration) -> Self {
        let (commands_tx, commands) = mpsc::channel(8);
        let (replies, replies_rx) = mpsc::channel(8);
        let (last_command, last_command_rx) = watch::channel(outbox.recovered().last_command);
        let (status_tx, status) = watch::channel(DeliveryStatus::default());
        let (finish, finish_rx) = watch::channel(None);
        let hub = Hub::new(url, outbox.session(), Some(BearerToken::new("t0ken").expect("a token"))).expect("a hub");
        let uploader = Uploader {
            hub,
            outbox: Arc::clone(&outbox),
            client: ClientInfo { agent: Some("test".to_owned()), accepted_commands: vec!["prompt".to_owned()] },
            commands: commands_tx,
            replies: replies_rx,
            last_command: last_command_rx,
            status: status_tx,
            finish: finish_rx,
            upgrade_interval,
        };
        let task = tokio::spawn(uploader.run());
        Self { outbox, finish, status, commands, replies, task, _last_command: last_command, _folder: None }
    }

    fn write(&self, count: u64) {
        for _ in 0..count {
            self.outbox.append(&message(self.outbox.last() + 1));
        }
    }

    async fn end(self) -> DeliveryOutcome {
        self.finish.send_replace(Some(Instant::now() + Duration::from_secs(60)));
        self.task.await.expect("it ends")
    }
}

/// Runs on a multi-threaded runtime, like the program.
fn on_threads(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime").block_on(test);
}

#[test]
fn delivers_exactly_once_despite_faults() {
    on_threads(async {
        for faults in [
            vec![],
            vec![Fault::DropBatch],
            vec![Fault::DropAck],
            vec![Fault::Gap, Fault::Gap],
            vec![Fault::End("unavailable"), Fault::End("internal"), Fault::End("something new")],
            vec![Fault::Refuse("unavailable", 503), Fault::DropAck, Fault::Gap, Fault::DropBatch],
        ] {
            let hub = FakeHub::start().await;
            hub.with(|state| state.faults.extend(faults.clone()));
            let sending = Sending::new(&hub.url());
            for _ in 0..20 {
                sending.write(100);
                tokio::task::yield_now().await;
            }
            assert_eq!(sending.end().await, DeliveryOutcome::Delivered, "{faults:?}");
            assert_eq!(hub.messages().len(), 2_000, "{faults:?}");
            hub.with(|state| assert!(state.authorized.iter().all(|header| header.as_deref() == Some("Bearer t0ken"))));
        }
    });
}

#[test]
fn falls_back_to_http() {
    on_threads(async {
        let hub = FakeHub::start().await;
        hub.with(|state| state.faults.extend([Fault::NoUpgrade, Fault::NoUpgrade, Fault::Gap, Fault::DropAck]));
        let mut sending = Sending::new(&hub.url());
        sending.write(500);
        hub.until("all by HTTP", |state| state.messages.len() == 500).await;
        hub.with(|state| {
            assert!(state.by_http > 0);
            let (order, kind) = (1, OrderKind::Cancel);
            state.orders.insert(1, Order { order, kind, text: None, reason: None, request_id: None, decision: None, by: None });
        });
        // A reply may be lost when the transport changes; the command and its reply are then repeated.
        let answers = async {
            while let Some(order) = sending.commands.recv().await {
                assert_eq!(order.order, 1);
                sending.replies.send(Taken { order: 1, accepted: true, reason: None }).await.expect("taken");
            }
        };
        tokio::select! {
            () = answers => panic!("no more orders"),
            () = hub.until("the answer", |state| !state.taken.is_empty()) => {}
        }
        sending.write(5);
        assert_eq!(sending.end().await, DeliveryOutcome::Delivered);
        assert_eq!(hub.messages().len(), 505);
    });
}

#[test]
fn returns_to_websocket() {
    on_threads(async {
        let hub = FakeHub::start().await;
        // Two initial attempts, and one retry.
        hub.with(|state| state.faults.extend([Fault::NoUpgrade, Fault::NoUpgrade, Fault::NoUpgrade]));
        let folder = tempfile::tempdir().expect("a folder");
        let outbox = open(&Home::at(folder.path().join("home")));
        let mut sending = Sending::with_upgrade_interval(outbox, &hub.url(), Duration::from_millis(200));
        sending.write(300);
        sending.status.wait_for(|status| status.transport == Some(Transport::Http)).await.expect("it goes on");
        // Messages are appended while the transport changes.
        while sending.status.borrow_and_update().transport != Some(Transport::WebSocket) {
            sending.write(20);
            sending.status.changed().await.expect("it goes on");
        }
        hub.with(|state| assert!(state.by_http > 0 && state.faults.is_empty()));
        sending.write(200);
        let all = sending.outbox.last();
        assert_eq!(sending.end().await, DeliveryOutcome::Delivered);
        assert_eq!(hub.messages().len() as u64, all);
    });
}

#[test]
fn final_refusal_ends_delivery_only() {
    on_threads(async {
        for (fault, code) in [
            (Fault::Refuse("unauthorized", 401), Code::Unauthorized),
            (Fault::Refuse("forbidden", 403), Code::Forbidden),
            (Fault::Refuse("version", 426), Code::Version),
            (Fault::End("fenced"), Code::Fenced),
            (Fault::End("conflict"), Code::Conflict),
            (Fault::End("malformed"), Code::Malformed),
        ] {
            let hub = FakeHub::start().await;
            hub.with(|state| state.faults.push_back(fault));
            let mut sending = Sending::new(&hub.url());
            sending.write(1);
            let outcome = (&mut sending.task).await.expect("it ends");
            assert!(matches!(&outcome, DeliveryOutcome::Refused(refusal) if refusal.code == code), "{code:?}: {outcome:?}");
            // Appending continues.
            sending.write(1);
            sending.outbox.sync().expect("synced");
        }
        // A hub with more messages than this machine is in conflict.
        let hub = FakeHub::start().await;
        hub.with(|state| state.begin = 5);
        let outcome = Sending::new(&hub.url()).end().await;
        assert!(matches!(outcome, DeliveryOutcome::Refused(refusal) if refusal.code == Code::Conflict));
    });
}

#[test]
fn delivers_everything_after_hub_outage() {
    on_threads(async {
        // A bound port without a listener.
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket.bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
        let address = socket.local_addr().expect("an address");
        let sending = Sending::new(&format!("ws://{address}"));
        sending.write(3_000);
        let mut status = sending.status.clone();
        status.wait_for(|status| status.error.is_some()).await.expect("it tries");
        let hub = FakeHub::on(socket.listen(1_024).expect("it listens"));
        hub.until("all of it", |state| state.messages.len() == 3_000).await;
        assert_eq!(sending.end().await, DeliveryOutcome::Delivered);
    });
}

#[test]
fn reconnects_after_stalled_hub() {
    on_threads(async {
        let hub = FakeHub::start().await;
        let sending = Sending::new(&hub.url());
        sending.write(1);
        hub.until("one", |state| state.messages.len() == 1).await;
        hub.with(|state| state.stalled = true);
        sending.write(5_000);
        let mut status = sending.status.clone();
        status.wait_for(|status| status.error.is_some()).await.expect("the silence is noticed");
        assert!(status.borrow().sent < 5_001, "not all of it is on the way");
        hub.with(|state| state.stalled = false);
        assert_eq!(sending.end().await, DeliveryOutcome::Delivered);
        assert_eq!(hub.messages().len(), 5_001);
    });
}

#[test]
fn next_runner_resumes_at_hub_position() {
    on_threads(async {
        let folder = tempfile::tempdir().expect("a folder");
        let home = Home::at(folder.path().join("home"));
        let hub = FakeHub::start().await;
        for round in 1..=3_u64 {
            let sending = Sending::of(open(&home), &hub.url());
            sending.write(200);
            assert_eq!(sending.end().await, DeliveryOutcome::Delivered);
            assert_eq!(hub.messages().len() as u64, 200 * round);
        }
        hub.with(|state| {
            let epochs: Vec<_> = state.hellos.iter().map(|hello| hello["epoch"].as_u64().expect("a number")).collect();
            assert_eq!(epochs, [1, 2, 3]);
            assert!(state.hellos.windows(2).all(|pair| pair[0]["writer"] == pair[1]["writer"]));
            assert_eq!(state.duplicates, 0);
        });
    });
}

#[test]
fn start_position_comes_from_hub() {
    on_threads(async {
        let hub = FakeHub::start().await;
        hub.with(|state| (state.begin, state.writer) = (40, Some(("another".to_owned(), 4))));
        let known = Hub::new(&hub.url(), &session(), None).expect("a hub");
        let position = uploader::start_position(&known, &session(), "w", &ClientInfo::default()).await.expect("an answer");
        assert_eq!(position, Some(Position { epoch: 5, after: 40 }));
        hub.with(|state| state.faults.push_back(Fault::Refuse("unauthorized", 401)));
        let refused = uploader::start_position(&known, &session(), "w", &ClientInfo::default()).await;
        assert!(refused.is_err_and(|refusal| refusal.code == Code::Unauthorized));
    });
}

#[test]
fn unsent_messages_are_counted() {
    on_threads(async {
        let hub = FakeHub::start().await;
        hub.with(|state| state.stalled = true);
        let sending = Sending::new(&hub.url());
        sending.write(7);
        sending.finish.send_replace(Some(Instant::now()));
        assert_eq!(sending.task.await.expect("it ends"), DeliveryOutcome::Unsent(7));
    });
}
