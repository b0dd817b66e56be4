//! Any bytes as a script of WebSocket sessions of a runner, against a hub in this process: see `script`.
#![no_main]

#[path = "../../crates/sabir-hub/tests/it/script.rs"]
mod script;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use libfuzzer_sys::fuzz_target;
use sabir_hub::store::memory::MemoryStore;
use sabir_hub::{Limits, Settings};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

/// A hub that takes anybody, and where it is.
struct Target {
    runtime: Runtime,
    address: SocketAddr,
    store: Arc<MemoryStore>,
    cases: AtomicU64,
}

impl Target {
    fn start() -> Self {
        // A task that panics ends the process: a finding.
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            before(info);
            std::process::abort();
        }));
        let runtime = Runtime::new().expect("a runtime");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port");
        let address = listener.local_addr().expect("an address");
        let store = Arc::new(MemoryStore::default());
        let settings = Settings {
            folder: std::env::temp_dir().join(format!("sabir-fuzz-{}", std::process::id())),
            allow_anonymous: true,
            hosts: Vec::new(),
            origins: Vec::new(),
            limits: Limits { requests_per_second: u32::MAX, ..Limits::default() },
            one_time_tokens: None,
            diagnostics: mpsc::channel(1).0,
        };
        std::fs::create_dir_all(&settings.folder).expect("a folder");
        runtime.spawn(sabir_hub::serve(listener, Arc::clone(&store), settings, None, std::future::pending()));
        Self { runtime, address, store, cases: AtomicU64::new(0) }
    }
}

fuzz_target!(|bytes: &[u8]| {
    static TARGET: OnceLock<Target> = OnceLock::new();
    let target = TARGET.get_or_init(Target::start);
    let name = format!("s{}", target.cases.fetch_add(1, Ordering::Relaxed));
    target.runtime.block_on(script::run(target.address, &*target.store, &name, bytes));
});
