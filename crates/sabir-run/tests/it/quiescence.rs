//! `quiescent` is true only when no process of the run lives, and null when that is not known.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::stat::Mode;
use sabir_core::event::Outcome;
use sabir_run::{Grace, Limits, RunConfig};

use crate::{INIT, RESULT, config, run};

/// A pipe that every process of a run holds open through descriptor 9, whatever else it does.
struct Alive(File);

impl Alive {
    fn new(folder: &Path) -> Self {
        let path = folder.join("alive");
        nix::unistd::mkfifo(&path, Mode::S_IRWXU).expect("a pipe");
        let nonblocking = nix::fcntl::OFlag::O_NONBLOCK.bits();
        Self(OpenOptions::new().read(true).custom_flags(nonblocking).open(path).expect("opened"))
    }

    /// Whether a process that holds it lives at this moment: its end is told by the kernel.
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

/// Each process starts the next one, in a session of its own and with an empty environment, and ends. It ends by itself when its folder
/// is gone.
const CHAIN: &str = "#!/bin/sh\ntrap '' TERM INT HUP\nsetsid env -i /bin/sh \"$0\" </dev/null >/dev/null 2>&1 &\n";

#[test]
fn a_daemon_that_forks_anew_all_the_time_is_ended_before_a_run_is_quiescent() {
    for round in 0..25 {
        let folder = tempfile::tempdir().expect("a folder");
        let mut alive = Alive::new(folder.path());
        let chain = folder.path().join("chain");
        fs::write(&chain, CHAIN).expect("written");
        let start =
            format!("exec 9>alive; /bin/sh {} </dev/null >/dev/null 2>&1; echo '{INIT}'; echo '{RESULT}'", chain.display());
        let grace = Grace { terminate: Duration::from_millis(20), kill: Duration::from_secs(30), ..Grace::default() };
        let (result, _) = run(RunConfig { grace, ..config(&folder, &start) });
        assert_eq!((result.outcome, result.end.quiescent), (Outcome::Completed, Some(true)), "round {round}");
        assert!(!alive.is_held(), "round {round}: a process lives, and the run says that none does");
    }
}

#[test]
fn without_a_reaper_it_is_not_known_that_no_process_is_left() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut alive = Alive::new(folder.path());
    // Once it has its prompt, and so is known to have started, the agent kills its reaper and leaves a process behind that can be
    // found.
    let text = format!(
        "exec 9>alive; cat >/dev/null; kill -9 $PPID; sleep 1000 </dev/null >/dev/null 2>&1 &\necho '{INIT}'; echo '{RESULT}'"
    );
    let (result, _) = run(config(&folder, &text));
    assert_eq!((result.outcome, result.end.exit_code, result.end.quiescent), (Outcome::Completed, None, None));
    alive.wait_until_released();
}

#[test]
fn a_reaper_that_the_agent_stopped_goes_on_when_the_run_is_stopped() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut alive = Alive::new(folder.path());
    let text = format!("exec 9>alive; cat >/dev/null; setsid sleep 1000 & kill -STOP $PPID; echo '{INIT}'; echo '{RESULT}'");
    let limits = Limits { after_result: Some(Duration::from_millis(200)), ..Limits::default() };
    let grace = Grace { interrupt: Duration::from_millis(200), ..Grace::default() };
    let (result, _) = run(RunConfig { limits, grace, ..config(&folder, &text) });
    assert_eq!((result.outcome, result.end.quiescent), (Outcome::Completed, Some(true)));
    assert!(!alive.is_held());
}

#[test]
fn a_run_that_is_dropped_is_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut alive = Alive::new(folder.path());
    let text = format!("exec 9>alive; trap '' TERM INT HUP; setsid sleep 1000 & echo '{INIT}'; sleep 1000");
    crate::with_reaper();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (said, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let handle = sabir_run::CancelHandle::default();
    let config = config(&folder, &text);
    runtime.block_on(async {
        let mut sink = Said(said);
        tokio::select! {
            _ = sabir_run::run(config, handle.token(), &mut sink) => panic!("it goes on"),
            _ = heard.recv() => {}
        }
    });
    alive.wait_until_released();
}

/// Says when the agent has printed something.
struct Said(tokio::sync::mpsc::UnboundedSender<()>);

impl sabir_run::RunSink for Said {
    fn event(&mut self, _: &sabir_core::event::Event<'_>) {}

    fn raw(&mut self, _: &[u8]) {
        self.0.send(()).expect("somebody listens");
    }
}
