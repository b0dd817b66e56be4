//! `quiescent` is true only if no process of the run is alive, and null if that is unknown.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::stat::Mode;
use sabir_core::event::Outcome;
use sabir_run::{Grace, Limits};

use crate::{INIT, RESULT, config, run};

/// A FIFO that every process of a run holds open as descriptor 9.
struct Alive(File);

impl Alive {
    fn new(folder: &Path) -> Self {
        let path = folder.join("alive");
        nix::unistd::mkfifo(&path, Mode::S_IRWXU).expect("a pipe");
        let nonblocking = nix::fcntl::OFlag::O_NONBLOCK.bits();
        Self(OpenOptions::new().read(true).custom_flags(nonblocking).open(path).expect("opened"))
    }

    /// Returns whether a process that holds it is alive.
    fn is_held(&mut self) -> bool {
        match self.0.read(&mut [0; 64]) {
            Ok(count) => count > 0,
            Err(error) if error.kind() == ErrorKind::WouldBlock => true,
            Err(error) => panic!("{error}"),
        }
    }

    fn wait_until_released(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.is_held() {
            assert!(Instant::now() < deadline, "a process of the run lives on");
            std::thread::yield_now();
        }
    }
}

/// Each process starts its successor in a new session with an empty environment, and exits. The chain ends once its directory
/// is deleted.
const CHAIN: &str = "#!/bin/sh\ntrap '' TERM INT HUP\nsetsid env -i /bin/sh \"$0\" </dev/null >/dev/null 2>&1 &\n";

#[test]
fn forking_daemon_is_killed_before_run_is_quiescent() {
    for round in 0..25 {
        let folder = tempfile::tempdir().expect("a folder");
        let mut alive = Alive::new(folder.path());
        let chain = folder.path().join("chain");
        fs::write(&chain, CHAIN).expect("written");
        let start =
            format!("exec 9>alive; /bin/sh {} </dev/null >/dev/null 2>&1; echo '{INIT}'; echo '{RESULT}'", chain.display());
        let grace = Grace { terminate: Duration::from_millis(20), kill: Duration::from_secs(30), ..Grace::default() };
        let (result, _) = run(config(&folder, &start).grace(grace));
        assert_eq!((result.outcome, result.end.quiescent), (Outcome::Completed, Some(true)), "round {round}");
        assert!(!alive.is_held(), "round {round}: a process lives, and the run says that none does");
    }
}

#[test]
fn quiescent_is_unknown_without_reaper() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut alive = Alive::new(folder.path());
    // The agent has its prompt, so it is known to have started. It kills its reaper and leaves a process behind that can be
    // found.
    let text = format!(
        "exec 9>alive; cat >/dev/null; kill -9 $PPID; sleep 1000 </dev/null >/dev/null 2>&1 &\necho '{INIT}'; echo '{RESULT}'"
    );
    let (result, _) = run(config(&folder, &text));
    assert_eq!((result.outcome, result.end.exit_code, result.end.quiescent), (Outcome::Completed, None, None));
    alive.wait_until_released();
}

#[test]
fn stopped_reaper_is_continued_to_stop_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut alive = Alive::new(folder.path());
    let text = format!("exec 9>alive; cat >/dev/null; setsid sleep 1000 & kill -STOP $PPID; echo '{INIT}'; echo '{RESULT}'");
    let limits = Limits { after_result: Some(Duration::from_millis(200)), ..Limits::default() };
    let grace = Grace { interrupt: Duration::from_millis(200), ..Grace::default() };
    let (result, _) = run(config(&folder, &text).limits(limits).grace(grace));
    assert_eq!((result.outcome, result.end.quiescent), (Outcome::Completed, Some(true)));
    assert!(!alive.is_held());
}

#[test]
fn dropped_run_is_killed() {
    // The agent is killed before the other process in some rounds only.
    for _ in 0..30 {
        drop_a_run();
    }
}

fn drop_a_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut alive = Alive::new(folder.path());
    let text = format!("exec 9>alive; trap '' TERM INT HUP; setsid sleep 1000 & echo '{INIT}'; sleep 1000");
    crate::with_reaper();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (raw_tx, mut raw_rx) = tokio::sync::mpsc::unbounded_channel();
    let handle = sabir_run::CancelHandle::default();
    let config = config(&folder, &text);
    runtime.block_on(async {
        let mut sink = RawSignal(raw_tx);
        tokio::select! {
            _ = sabir_run::run(config, handle.token(), &mut sink) => panic!("it goes on"),
            _ = raw_rx.recv() => {}
        }
    });
    alive.wait_until_released();
}

/// Signals that the agent printed something.
struct RawSignal(tokio::sync::mpsc::UnboundedSender<()>);

impl sabir_run::RunSink for RawSignal {
    fn event(&mut self, _: &sabir_core::event::Event<'_>) {}

    fn raw(&mut self, _: &[u8]) {
        self.0.send(()).expect("the test listens");
    }
}
