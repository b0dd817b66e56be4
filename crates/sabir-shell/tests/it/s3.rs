//! A bucket whose server answers 409 to a conditional create, with and without storing the object.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sabir_protocol::SessionId;
use sabir_shell::outbox::{Outbox, Position};
use sabir_shell::sink::StorageSink;
use sabir_shell::uploader::DeliveryOutcome;
use sabir_store::Home;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Fault of a conditional create.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    /// Answers 409 and stores nothing.
    Conflict,
    /// Stores the object and answers 409.
    ConflictAfterStore,
}

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<String, Vec<u8>>,
    faults: Vec<Fault>,
    conflicts: usize,
}

/// The subset of S3 that the sink uses.
struct Server {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl Server {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let server = Self { address: listener.local_addr().expect("an address"), state: Arc::default() };
        let state = Arc::clone(&server.state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&state)));
            }
        });
        server
    }

    fn with<T>(&self, access: impl FnOnce(&mut State) -> T) -> T {
        access(&mut self.state.lock().expect("the state"))
    }
}

async fn serve(mut stream: TcpStream, state: Arc<Mutex<State>>) {
    let mut bytes = Vec::new();
    loop {
        let end = loop {
            if let Some(end) = memchr::memmem::find(&bytes, b"\r\n\r\n") {
                break end + 4;
            }
            if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
                return;
            }
        };
        let head = String::from_utf8(bytes.drain(..end).collect()).expect("text").to_ascii_lowercase();
        let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
        let length = field("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        while bytes.len() < length {
            if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
                return;
            }
        }
        let body: Vec<u8> = bytes.drain(..length).collect();
        let (status, fields, reply) =
            answer(&mut state.lock().expect("the state"), &head, field("if-none-match").is_some(), body);
        let length = if head.starts_with("head ") && status == 200 { fields.1 } else { reply.len() };
        let mut answer = format!("HTTP/1.1 {status} x\r\ncontent-length: {length}\r\n");
        let _ = write!(answer, "etag: \"{}\"\r\nlast-modified: Mon, 16 Nov 2026 12:00:00 GMT\r\n", fields.0);
        let _ = write!(answer, "content-type: application/xml\r\n\r\n");
        if stream.write_all(answer.as_bytes()).await.is_err() || stream.write_all(&reply).await.is_err() {
            return;
        }
    }
}

/// Status, entity tag and size, and body.
fn answer(state: &mut State, head: &str, is_conditional: bool, body: Vec<u8>) -> (u16, (usize, usize), Vec<u8>) {
    let mut words = head.split_whitespace();
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let key = path.trim_start_matches("/logs").trim_start_matches('/').to_owned();
    let none = (0, 0);
    let error = |code: &str| format!("<Error><Code>{code}</Code><Message>no</Message></Error>").into_bytes();
    match method {
        "get" if query.contains("list-type=2") => {
            let prefix = query.split('&').find_map(|pair| pair.strip_prefix("prefix=")).unwrap_or_default();
            let prefix = prefix.replace("%2f", "/");
            let mut list = "<ListBucketResult><IsTruncated>false</IsTruncated>".to_owned();
            for (key, object) in state.objects.iter().filter(|(key, _)| key.starts_with(&prefix)) {
                let _ = write!(
                    list,
                    "<Contents><Key>{key}</Key><LastModified>2026-11-16T12:00:00.000Z</LastModified><ETag>1</ETag><Size>{}</Size></Contents>",
                    object.len()
                );
            }
            (200, none, (list + "</ListBucketResult>").into_bytes())
        }
        "get" | "head" => match state.objects.get(&key) {
            Some(object) => (200, (1, object.len()), if method == "get" { object.clone() } else { Vec::new() }),
            None => (404, none, if method == "get" { error("NoSuchKey") } else { Vec::new() }),
        },
        "put" if is_conditional && key.contains("/log/") && !state.faults.is_empty() => {
            let fault = state.faults.remove(0);
            state.conflicts += 1;
            if fault == Fault::ConflictAfterStore {
                state.objects.entry(key).or_insert(body);
            }
            (409, none, error("ConditionalRequestConflict"))
        }
        "put" if is_conditional && state.objects.contains_key(&key) => (412, none, error("PreconditionFailed")),
        "put" => {
            state.objects.insert(key, body);
            (200, (1, 0), Vec::new())
        }
        _ => (405, none, Vec::new()),
    }
}

fn session() -> SessionId {
    "s-1".parse().expect("a session")
}

fn message(seq: u64) -> Vec<u8> {
    format!("{{\"sessionId\":\"s-1\",\"ts\":\"2026-01-02T03:04:05Z\",\"type\":\"log\",\"seq\":{seq},\"payload\":{{}}}}\n")
        .into_bytes()
}

/// Runs in a process of its own, because AWS variables are process-wide.
#[test]
fn conflict_is_success_only_if_object_exists() {
    const ADDRESS: &str = "SABIR_TEST_S3_CONFLICT";
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    if std::env::var_os(ADDRESS).is_some() {
        let folder = tempfile::tempdir().expect("a folder");
        let outbox = Outbox::create(&Home::at(folder.path()), &session(), "w".to_owned(), Position::FIRST).expect("created");
        (1..=20).for_each(|seq| outbox.append(&message(seq)));
        outbox.sync().expect("synced");
        let sink = StorageSink::bucket("logs", "team", &session()).expect("a sink");
        let (_finish, finished) = watch::channel(Some(Instant::now() + Duration::from_secs(60)));
        assert_eq!(runtime.block_on(sink.run(Arc::new(outbox), finished)), DeliveryOutcome::Delivered);
        return;
    }
    runtime.block_on(async {
        use Fault::{Conflict, ConflictAfterStore};
        for faults in [vec![Conflict; 1], vec![Conflict; 3], vec![ConflictAfterStore], vec![Conflict, ConflictAfterStore]] {
            let server = Server::start().await;
            server.with(|state| state.faults.clone_from(&faults));
            let output = tokio::process::Command::new(std::env::current_exe().expect("this program"))
                .args(["--exact", "s3::conflict_is_success_only_if_object_exists", "--nocapture"])
                .env(ADDRESS, "yes")
                .env("AWS_ENDPOINT_URL", format!("http://{}", server.address))
                .env("AWS_ACCESS_KEY_ID", "test")
                .env("AWS_SECRET_ACCESS_KEY", "test")
                .env("AWS_REGION", "us-east-1")
                .output()
                .await
                .expect("it ends");
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{faults:?}: {}{stderr}", String::from_utf8_lossy(&output.stdout));
            server.with(|state| {
                let want: Vec<u8> = (1..=20).flat_map(message).collect();
                let find =
                    |part: &str| state.objects.iter().find(|(key, _)| key.contains(part)).map(|(_, object)| object.clone());
                assert_eq!(find("/log/"), Some(want.clone()), "{faults:?}: {:?}", state.objects.keys());
                assert_eq!(find("messages.json"), Some(want), "{faults:?}");
                assert_eq!(state.conflicts, faults.len(), "{faults:?}");
            });
        }
    });
}
