//! An agent that writes lines when it is told to, and measures how long it had to wait for each.
//!
//! ```text
//!   test ◄──────────── "here" ─────────────  agent (this test program, started by the shell)
//!        ── "write 2000 lines of 300" ────►        │ writes, measures
//!        ◄──── "longest write: 812 µs" ───         ▼
//! ```
//!
//! So a test needs no clock: the agent says that it has written everything while a fault goes on, or it never says it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const ADDRESS: &str = "SABIR_TEST_AGENT";
const NAME: &str = "faults::agent::writes_that_wait_are_noticed";

/// The test's end.
pub(crate) struct Agent {
    listener: TcpListener,
}

/// An agent that has come.
pub(crate) struct Present {
    talk: BufReader<TcpStream>,
    /// The longest that a write has taken.
    pub(crate) longest: Duration,
    /// How many bytes it has written.
    pub(crate) written: u64,
}

impl Agent {
    pub(crate) fn new() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").expect("a port") }
    }

    /// The prompt for `localexec` that starts it.
    pub(crate) fn prompt(&self) -> String {
        let program = std::env::current_exe().expect("this program");
        let address = self.listener.local_addr().expect("an address");
        format!("{ADDRESS}={address} exec '{}' --exact {NAME} --nocapture", program.display())
    }

    /// Waits until it is there.
    pub(crate) fn come(&self) -> Present {
        let (stream, _) = self.listener.accept().expect("an agent");
        Present { talk: BufReader::new(stream), longest: Duration::ZERO, written: 0 }
    }
}

impl Present {
    /// Has it write, and waits until it has.
    pub(crate) fn write(&mut self, lines: u64, bytes: u64) {
        writeln!(self.talk.get_mut(), "{lines} {bytes}").expect("it listens");
        let mut answer = String::new();
        self.talk.read_line(&mut answer).expect("an answer");
        let micros = answer.trim().parse().unwrap_or_else(|_| panic!("the agent ended while it wrote: {answer:?}"));
        self.longest = self.longest.max(Duration::from_micros(micros));
        self.written += lines * bytes;
    }
}

/// The agent's end. It ends when the test's does.
fn work(address: &str) {
    let stream = TcpStream::connect(address).expect("the test is there");
    let mut talk = BufReader::new(stream);
    let mut order = String::new();
    let mut number = 0_u64;
    while talk.read_line(&mut order).is_ok_and(|bytes| bytes > 0) {
        let (lines, bytes) = order.trim().split_once(' ').expect("two numbers");
        let (lines, bytes): (u64, usize) = (lines.parse().expect("a number"), bytes.parse().expect("a number"));
        let mut longest = Duration::ZERO;
        for _ in 0..lines {
            number += 1;
            let line = format!("{number:010} {}\n", "x".repeat(bytes.saturating_sub(12)));
            let begun = Instant::now();
            std::io::stdout().write_all(line.as_bytes()).expect("written");
            longest = longest.max(begun.elapsed());
            if number.is_multiple_of(16) {
                // An agent does something between two lines; else this would measure how fast a pipe is.
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        writeln!(talk.get_mut(), "{}", longest.as_micros()).expect("it listens");
        order.clear();
    }
}

/// The most memory that a process has had at a time, in bytes.
pub(crate) fn peak(process: u32) -> u64 {
    let status = std::fs::read_to_string(Path::new("/proc").join(process.to_string()).join("status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) << 10
}

#[test]
fn writes_that_wait_are_noticed() {
    if let Ok(address) = std::env::var(ADDRESS) {
        return work(&address);
    }
    let agent = Agent::new();
    let mut child =
        Command::new("/bin/sh").args(["-c", &agent.prompt()]).stdout(Stdio::piped()).spawn().expect("the agent starts");
    let mut present = agent.come();
    // More than a pipe holds, and nobody reads: it is stuck until somebody does.
    let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
    let threads = Path::new("/proc").join(child.id().to_string()).join("task");
    let reading = std::thread::spawn(move || {
        let is_stuck = |thread: std::io::Result<std::fs::DirEntry>| {
            let place = std::fs::read_to_string(thread.expect("a thread").path().join("wchan"));
            place.is_ok_and(|place| place.contains("pipe_write"))
        };
        while !std::fs::read_dir(&threads).expect("it runs").any(is_stuck) {
            std::thread::yield_now();
        }
        let seen = Instant::now();
        let mut line = String::new();
        let stuck = seen.elapsed();
        while stdout.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
            line.clear();
        }
        stuck
    });
    present.write(1_000, 1_000);
    let longest = present.longest;
    drop(present);
    child.wait().expect("it ends");
    let stuck = reading.join().expect("read");
    assert!(longest >= stuck && !stuck.is_zero(), "{longest:?} of {stuck:?}");
}
