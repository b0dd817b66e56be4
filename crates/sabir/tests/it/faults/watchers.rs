//! Watchers that read slowly, or not at all.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use super::{SESSION, Scene, peak, start, tell, wait_for};

fn watch(address: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("a connection");
    write!(stream, "GET /v1/sessions/{SESSION}/events HTTP/1.1\r\nHost: {address}\r\n\r\n").expect("sent");
    stream
}

/// The messages that a stream of events tells, up to a number.
fn told(stream: impl std::io::Read, last: usize) -> Vec<String> {
    let lines = BufReader::new(stream).lines().map_while(Result::ok);
    // The sizes of chunks stand between the lines.
    lines.filter_map(|line| line.strip_prefix("data: ").map(str::to_owned)).take(last).collect()
}

/// Reads little, and seldom.
struct Slow(TcpStream);

impl std::io::Read for Slow {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        std::thread::sleep(Duration::from_millis(1));
        let few = bytes.len().min(4 << 10);
        self.0.read(&mut bytes[..few])
    }
}

#[test]
fn a_watcher_that_is_slow_or_stalled_holds_up_nobody() {
    let scene = Scene::new();
    let shell = start(scene.shell(&scene.hub.address));
    let mut agent = scene.agent.come();
    agent.write(10, 600);
    wait_for(&scene.hub, SESSION, 5, "");
    let slow = Slow(watch(&scene.hub.address));
    let stalled: Vec<TcpStream> = (0..50).map(|_| watch(&scene.hub.address)).collect();
    let before = peak(scene.hub.child.id());
    agent.write(12_000, 600);
    let memory = peak(shell.child.id());
    tell("slow watcher, and 50 that are stalled", &agent, memory, peak(scene.hub.child.id()));
    drop(agent);
    // The shell ends, so the hub has all of it, whatever those do who watch.
    shell.ends_well("watchers");
    let log = scene.assert_same("watchers");
    let grown = peak(scene.hub.child.id()) - before;
    let size: u64 = log.iter().map(|message| message.len() as u64).sum();
    // Each costs what is on its way to it. A log that waits for each of them would be eight times as much, at the least.
    assert!(grown < 50 * size / 8, "the hub grew by {grown} for 50 watchers of a log of {size}");
    // They are late, and miss nothing.
    assert_eq!(told(slow, log.len()), log);
    for stream in stalled.into_iter().take(3) {
        assert_eq!(told(stream, log.len()), log);
    }
    assert_eq!(scene.hub.stop().1, Some(0));
}
