//! Printing beside a run: a thread writes, so that a slow terminal or pipe never keeps limits and cancels from working.
//!
//! On a terminal it also keeps one line at the bottom that moves: time, tools, tokens, cost.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::width;
use crate::failure::Failure;
use crate::print::table::fit;

/// How much may wait to be written before the agent is not read any more.
const ROOM: usize = 4 << 20;
/// How often the moving line is drawn.
const FRAME: Duration = Duration::from_millis(120);
const FRAMES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

enum Message {
    Data(Vec<u8>),
    Meter(String),
}

#[derive(Default)]
struct Shared {
    waiting: usize,
    /// Runs that wait for room.
    wakers: Vec<Waker>,
    error: Option<io::Error>,
}

/// The printing thread, seen from the run.
pub(crate) struct Live {
    sender: mpsc::Sender<Message>,
    shared: Arc<Mutex<Shared>>,
    thread: JoinHandle<()>,
}

impl Live {
    /// Starts the thread. `moving` draws the line at the bottom, where there is a terminal. `closed` is called when
    /// nobody reads any more.
    pub(crate) fn start(moving: bool, closed: impl Fn() + Send + 'static) -> Self {
        let (sender, receiver) = mpsc::channel();
        let shared = Arc::new(Mutex::new(Shared::default()));
        let moving = moving && io::stderr().is_terminal() && io::stdout().is_terminal();
        let thread = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || write_all(&receiver, &shared, moving, &closed)
        });
        Self { sender, shared, thread }
    }

    /// Takes what is to be printed.
    pub(crate) fn write(&self, data: Vec<u8>) {
        if !data.is_empty() {
            lock(&self.shared).waiting += data.len();
            // The thread ends only when nobody reads; then there is nothing to print.
            let _ = self.sender.send(Message::Data(data));
        }
    }

    /// Takes what the moving line says.
    pub(crate) fn meter(&self, text: String) {
        let _ = self.sender.send(Message::Meter(text));
    }

    /// Ready when more can be taken.
    pub(crate) fn poll_room(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut shared = lock(&self.shared);
        if shared.waiting < ROOM {
            return Poll::Ready(());
        }
        shared.wakers.push(context.waker().clone());
        Poll::Pending
    }

    /// Waits until all is written.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        drop(self.sender);
        let _ = self.thread.join();
        match lock(&self.shared).error.take() {
            Some(error) => Err(Failure::io("writing to standard output failed", &error)),
            None => Ok(()),
        }
    }
}

fn lock(shared: &Mutex<Shared>) -> std::sync::MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn write_all(receiver: &Receiver<Message>, shared: &Mutex<Shared>, moving: bool, closed: &dyn Fn()) {
    let started = Instant::now();
    let mut meter = String::new();
    let mut line = Line { drawn: false, at_start: true, frame: 0 };
    let mut failed = false;
    loop {
        let message =
            if moving { receiver.recv_timeout(FRAME) } else { receiver.recv().map_err(|_| RecvTimeoutError::Disconnected) };
        match message {
            Ok(Message::Meter(text)) => meter = text,
            Ok(Message::Data(data)) => {
                line.clear();
                let written = if failed { Ok(()) } else { put(&data) };
                line.at_start = data.last() == Some(&b'\n');
                let wakers = {
                    let mut shared = lock(shared);
                    shared.waiting -= data.len();
                    if let Err(error) = written {
                        failed = true;
                        shared.error = Some(error);
                        closed();
                    }
                    std::mem::take(&mut shared.wakers)
                };
                wakers.into_iter().for_each(Waker::wake);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if moving {
            line.draw(started.elapsed(), &meter);
        }
    }
    line.clear();
}

fn put(data: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(data)?;
    stdout.flush()
}

/// The moving line.
struct Line {
    drawn: bool,
    /// The cursor stands at the start of a line: text that is being said must not be overwritten.
    at_start: bool,
    frame: usize,
}

impl Line {
    fn draw(&mut self, elapsed: Duration, meter: &str) {
        if !self.at_start {
            return;
        }
        self.frame = (self.frame + 1) % FRAMES.len();
        let seconds = elapsed.as_secs();
        let text = format!("{} {}:{:02}{meter}", FRAMES[self.frame], seconds / 60, seconds % 60);
        let _ = write!(io::stderr(), "\r\x1b[2K{}", fit(&text, width().saturating_sub(1)));
        let _ = io::stderr().flush();
        self.drawn = true;
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.drawn) {
            let _ = write!(io::stderr(), "\r\x1b[2K");
            let _ = io::stderr().flush();
        }
    }
}
