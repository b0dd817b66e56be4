//! Something that stands between two programs on the loopback interface and does what networks do.
//!
//! ```text
//!   shell ──► connection ──► whole requests and frames ──► rule ──► pass, twice, after the next, cut … ──► hub, S3
//!         ◄────────────────  whole answers and frames ◄──  gate: open, held (a partition), swallowed (half open)
//! ```
//!
//! It understands as much of HTTP and of the frames of a WebSocket as it takes to see where one thing ends and the next begins.

mod wire;

use std::io::Write as _;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use wire::{Over, Side, Step};

/// Something whole that comes from the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit<'a> {
    /// A request of HTTP; `upgrade` asks for a WebSocket.
    Request { method: &'a str, path: &'a str, upgrade: bool },
    /// A frame of a WebSocket that is a batch.
    Batch,
}

/// What becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    /// It passes.
    Pass,
    /// It passes twice; a request is answered with the second answer.
    Twice,
    /// It passes after the one that follows it. (Of requests there is none that follows before the answer; they pass.)
    AfterNext,
    /// It passes later.
    Delayed(Duration),
    /// The connection ends before it.
    Lose,
    /// The connection ends after so many bytes of it.
    Cut(usize),
    /// It passes, and the connection ends when the answer to it comes, which does not pass.
    LoseAnswer,
    /// It passes, and no answer ever does.
    Silence,
    /// It is answered with this status, in words that are not those of who is behind.
    Answer(u16),
}

type Rule = Box<dyn FnMut(Unit<'_>) -> Act + Send>;

#[derive(Default)]
struct State {
    /// Nothing passes, in either direction; nobody is told.
    held: bool,
    /// Connections before this number are half open: what they send is thrown away.
    dead_below: u64,
    connections: u64,
    rule: Option<Rule>,
    /// How many units did not simply pass.
    faults: u64,
}

struct Shared {
    to: SocketAddr,
    state: Mutex<State>,
    changed: Condvar,
}

/// The proxy. Its threads end with the process.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

impl Proxy {
    /// One that lets everything pass.
    pub(crate) fn to(address: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let own = listener.local_addr().expect("an address");
        let to = address.parse().expect("an address");
        let shared = Arc::new(Shared { to, state: Mutex::default(), changed: Condvar::new() });
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let number = accepting.with(|state| {
                    state.connections += 1;
                    state.connections
                });
                let shared = Arc::clone(&accepting);
                std::thread::spawn(move || Connection { shared, number }.serve(client));
            }
        });
        Self { address: own, shared }
    }

    /// Says what becomes of what comes from now on.
    pub(crate) fn rule(&self, rule: impl FnMut(Unit<'_>) -> Act + Send + 'static) {
        self.shared.with(|state| state.rule = Some(Box::new(rule)));
    }

    /// A partition: nothing passes until it is healed. What was sent meanwhile comes then, as TCP does it.
    pub(crate) fn hold(&self) {
        self.shared.with(|state| state.held = true);
    }

    pub(crate) fn heal(&self) {
        self.shared.with(|state| state.held = false);
    }

    /// Connections that are open stay so, and nothing that is sent over them arrives any more.
    pub(crate) fn half_open(&self) {
        self.shared.with(|state| state.dead_below = state.connections + 1);
    }

    /// How many connections there have been.
    pub(crate) fn connections(&self) -> u64 {
        self.shared.with(|state| state.connections)
    }

    /// How many units did not simply pass.
    pub(crate) fn faults(&self) -> u64 {
        self.shared.with(|state| state.faults)
    }

    /// Waits until so many units did not simply pass.
    pub(crate) fn until_faults(&self, count: u64) {
        let state = self.shared.state.lock().expect("the state");
        drop(self.shared.changed.wait_while(state, |state| state.faults < count).expect("the state"));
    }
}

impl Shared {
    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let out = change(&mut self.state.lock().expect("the state"));
        self.changed.notify_all();
        out
    }
}

struct Connection {
    shared: Arc<Shared>,
    number: u64,
}

impl Connection {
    fn serve(&self, client: TcpStream) {
        // Nobody is connected to anybody through a partition.
        self.gate();
        let Ok(server) = TcpStream::connect(self.shared.to) else { return };
        for stream in [&client, &server] {
            let _ = stream.set_nodelay(true);
        }
        let (ours, theirs) = (client.try_clone(), server.try_clone());
        let _ = self.requests(Side::new(client), Side::new(server));
        for stream in [ours, theirs].into_iter().flatten() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Waits for the end of a partition; whether what is to be passed arrives.
    fn gate(&self) -> bool {
        let state = self.shared.state.lock().expect("the state");
        let state = self.shared.changed.wait_while(state, |state| state.held).expect("the state");
        state.dead_below <= self.number
    }

    /// Passes bytes, unless they are swallowed.
    fn pass(&self, to: &mut Side, bytes: &[u8]) -> Step<()> {
        if self.gate() {
            to.stream.write_all(bytes)?;
        }
        Ok(())
    }

    fn judge(&self, unit: Unit<'_>) -> Act {
        self.shared.with(|state| {
            let act = state.rule.as_mut().map_or(Act::Pass, |rule| rule(unit));
            state.faults += u64::from(act != Act::Pass);
            act
        })
    }

    /// One request after another, each with its answer.
    fn requests(&self, mut client: Side, mut server: Side) -> Step<()> {
        loop {
            let request = client.request()?;
            let upgrade = request.header("upgrade").is_some();
            let act = self.judge(Unit::Request { method: request.word(0), path: request.word(1), upgrade });
            match act {
                Act::Lose => return Err(Over),
                Act::Cut(bytes) => {
                    self.pass(&mut server, &request.bytes[..bytes.min(request.bytes.len())])?;
                    return Err(Over);
                }
                Act::Answer(status) => {
                    let body = "somebody in between";
                    let head = format!("HTTP/1.1 {status} x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
                    self.pass(&mut client, format!("{head}{body}").as_bytes())?;
                    return Err(Over);
                }
                Act::Delayed(time) => std::thread::sleep(time),
                Act::Pass | Act::Twice | Act::AfterNext | Act::LoseAnswer | Act::Silence => {}
            }
            self.pass(&mut server, &request.bytes)?;
            let is_head = request.word(0) == "HEAD";
            let mut answer = server.answer(is_head)?;
            if act == Act::Twice {
                self.pass(&mut server, &request.bytes)?;
                answer = server.answer(is_head)?;
            }
            match act {
                Act::LoseAnswer => return Err(Over),
                Act::Silence => loop {
                    // Until the client gives up.
                    client.fill()?;
                    client.buffer.clear();
                },
                _ => self.pass(&mut client, &answer.bytes)?,
            }
            if upgrade && answer.word(1) == "101" {
                return self.frames(client, server);
            }
            if answer.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close")) {
                return Err(Over);
            }
        }
    }

    /// A WebSocket: both directions at once.
    fn frames(&self, mut client: Side, mut server: Side) -> Step<()> {
        let cut = Arc::new(Mutex::new(false));
        let down = Self { shared: Arc::clone(&self.shared), number: self.number };
        let (mut from_server, mut to_client) = (server.twin()?, client.twin()?);
        // What came with the answer belongs to who reads next.
        from_server.buffer = std::mem::take(&mut server.buffer);
        let cut_down = Arc::clone(&cut);
        std::thread::spawn(move || {
            let mut talk = || -> Step<()> {
                loop {
                    let (_, frame) = from_server.frame()?;
                    if *cut_down.lock().expect("a flag") && frame.windows(5).any(|five| five == b"\"ack\"") {
                        return Err(Over);
                    }
                    down.pass(&mut to_client, &frame)?;
                }
            };
            let _ = talk();
            let _ = to_client.stream.shutdown(Shutdown::Both);
            let _ = from_server.stream.shutdown(Shutdown::Both);
        });
        let mut held: Option<Vec<u8>> = None;
        loop {
            let (is_binary, frame) = client.frame()?;
            let act = if is_binary { self.judge(Unit::Batch) } else { Act::Pass };
            match act {
                Act::Lose | Act::Answer(_) => return Err(Over),
                Act::Cut(bytes) => {
                    self.pass(&mut server, &frame[..bytes.min(frame.len())])?;
                    return Err(Over);
                }
                Act::AfterNext if held.is_none() => {
                    held = Some(frame);
                    continue;
                }
                Act::Delayed(time) => std::thread::sleep(time),
                Act::LoseAnswer | Act::Silence => *cut.lock().expect("a flag") = true,
                Act::Pass | Act::Twice | Act::AfterNext => {}
            }
            self.pass(&mut server, &frame)?;
            if act == Act::Twice {
                self.pass(&mut server, &frame)?;
            }
            if let Some(earlier) = held.take() {
                self.pass(&mut server, &earlier)?;
            }
        }
    }
}
