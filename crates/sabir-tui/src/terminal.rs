//! The terminal: taken, drawn to, and given back as it was.
//!
//! It is given back on every way out: the end, an error, a panic, Ctrl-C, and the signals that ask a program to end.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{
    self, DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture, Event,
};
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::crossterm::{cursor, execute};

use crate::app::{App, Effect, Message};
use crate::source::{Source, Wake};
use crate::view::{Palette, draw};

/// So many messages wait at most; who reads faster than can be drawn waits then.
const QUEUE: usize = 64;
/// The time is told so often.
const TICK: Duration = Duration::from_secs(1);
/// What is at hand is taken in for so long before it is drawn.
const GATHER: Duration = Duration::from_millis(30);
/// Terminals take no more than this at once.
const LONGEST_COPY: usize = 74_994 / 4 * 3;

/// How the program is started.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Whether there are colours.
    pub colours: bool,
    /// The beginning of the id of a run to open at once.
    pub open: Option<String>,
}

/// Shows what a source has, until the user leaves.
pub fn run(source: Arc<dyn Source>, options: Options) -> io::Result<()> {
    let (sender, receiver) = sync_channel(QUEUE);
    let screen = Screen::take()?;
    let mut terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
    let size = terminal.size()?;
    let palette = if options.colours { Palette::coloured() } else { Palette::plain() };
    let app = App::new(source.name(), palette, (size.width, size.height), options.open);
    let wake = Arc::new(Wake::default());
    listen(&sender)?;
    list(&source, &wake, &sender)?;
    let mut program = Program { app, source, wake, sender, watched: None };
    let ended = program.run(&mut terminal, &receiver);
    drop(screen);
    ended
}

struct Program {
    app: App,
    source: Arc<dyn Source>,
    wake: Arc<Wake>,
    sender: SyncSender<Message>,
    /// Says to who reads the run on the screen that nobody listens any more.
    watched: Option<Arc<AtomicBool>>,
}

impl Program {
    fn run(&mut self, terminal: &mut Terminal<CrosstermBackend<io::Stdout>>, receiver: &Receiver<Message>) -> io::Result<()> {
        self.app.update(Message::Time(now()));
        let mut ticked = Instant::now();
        loop {
            terminal.draw(|frame| {
                let area = frame.area();
                // The terminal may have another size before it tells.
                self.app.update(Message::Resize(area.width, area.height));
                draw(frame, &self.app);
            })?;
            let mut next = match receiver.recv_timeout(TICK.saturating_sub(ticked.elapsed())) {
                Ok(message) => Some(message),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            };
            let begun = Instant::now();
            while let Some(message) = next.take() {
                for effect in self.app.update(message) {
                    if effect == Effect::Quit {
                        return Ok(());
                    }
                    self.perform(effect)?;
                }
                if begun.elapsed() < GATHER {
                    next = receiver.try_recv().ok();
                }
            }
            if ticked.elapsed() >= TICK {
                self.app.update(Message::Time(now()));
                ticked = Instant::now();
            }
        }
    }

    fn perform(&mut self, effect: Effect) -> io::Result<()> {
        match effect {
            Effect::Watch { ticket, id } => self.watch(ticket, id)?,
            Effect::Unwatch => self.unwatch(),
            Effect::Reload => self.wake.wake(),
            Effect::Search(words) => {
                self.behind("sabir-tui-search", move |source| Some(Message::Found(words.clone(), source.search(&words)?)))?;
            }
            Effect::Order { id, order } => {
                self.behind("sabir-tui-order", move |source| Some(Message::Ordered(source.order(&id, &order))))?;
            }
            Effect::Copy(text) => copy(&text)?,
            Effect::Quit => {}
        }
        Ok(())
    }

    /// Does what takes its time on a thread of its own, and hears what came of it.
    fn behind(&self, name: &str, work: impl FnOnce(&dyn Source) -> Option<Message> + Send + 'static) -> io::Result<()> {
        let (source, sender) = (Arc::clone(&self.source), self.sender.clone());
        let work = move || {
            if let Some(message) = work(&*source) {
                // A program that has ended wants to know nothing.
                let _ = sender.send(message);
            }
        };
        std::thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
    }

    fn unwatch(&mut self) {
        if let Some(watched) = self.watched.take() {
            watched.store(false, Ordering::Relaxed);
        }
    }

    fn watch(&mut self, ticket: u64, id: String) -> io::Result<()> {
        self.unwatch();
        let listens = Arc::new(AtomicBool::new(true));
        self.watched = Some(Arc::clone(&listens));
        let (source, sender) = (Arc::clone(&self.source), self.sender.clone());
        let read = move || {
            source.watch(&id, &mut |feed| listens.load(Ordering::Relaxed) && sender.send(Message::Feed(ticket, feed)).is_ok());
        };
        std::thread::Builder::new().name("sabir-tui-run".to_owned()).spawn(read).map(drop)
    }
}

/// Milliseconds since 1970.
fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).ok().and_then(|time| i64::try_from(time.as_millis()).ok()).unwrap_or(0)
}

/// Reads the list on a thread of its own.
fn list(source: &Arc<dyn Source>, wake: &Arc<Wake>, sender: &SyncSender<Message>) -> io::Result<()> {
    let (source, wake, sender) = (Arc::clone(source), Arc::clone(wake), sender.clone());
    let read = move || source.list(&wake, &mut |listing| sender.send(Message::Listing(listing)).is_ok());
    std::thread::Builder::new().name("sabir-tui-list".to_owned()).spawn(read).map(drop)
}

/// Hears keys, the mouse, and signals.
fn listen(sender: &SyncSender<Message>) -> io::Result<()> {
    #[cfg(unix)]
    {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        let mut signals = signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGTERM])?;
        let sender = sender.clone();
        let wait = move || {
            for _ in signals.forever() {
                if sender.send(Message::Stop).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("sabir-tui-signals".to_owned()).spawn(wait)?;
    }
    let sender = sender.clone();
    let read = move || {
        loop {
            let message = match event::read() {
                Ok(Event::Key(key)) => Message::Key(key),
                Ok(Event::Mouse(mouse)) => Message::Mouse(mouse),
                Ok(Event::Paste(text)) => Message::Paste(text),
                Ok(Event::Resize(columns, rows)) => Message::Resize(columns, rows),
                Ok(Event::FocusGained | Event::FocusLost) => continue,
                // A terminal that is gone tells nothing any more.
                Err(_) => Message::Stop,
            };
            let last = matches!(message, Message::Stop);
            if sender.send(message).is_err() || last {
                return;
            }
        }
    };
    std::thread::Builder::new().name("sabir-tui-keys".to_owned()).spawn(read).map(drop)
}

/// Puts a text into the clipboard of the terminal, wherever that is (OSC 52).
fn copy(text: &str) -> io::Result<()> {
    let mut end = text.len().min(LONGEST_COPY);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let encoded = base64::engine::general_purpose::STANDARD.encode(&text[..end]);
    let mut out = io::stdout();
    write!(out, "\x1b]52;c;{encoded}\x07")?;
    out.flush()
}

/// The terminal while it is ours.
struct Screen;

impl Screen {
    fn take() -> io::Result<Self> {
        enable_raw_mode()?;
        let screen = Self;
        execute!(io::stdout(), EnterAlternateScreen, EnableMouseCapture, EnableBracketedPaste, cursor::Hide)?;
        // What a panic says is readable only when the terminal is as it was.
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            before(panic);
        }));
        Ok(screen)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Gives the terminal back. One that is gone needs nothing.
fn give_back() {
    let _ = execute!(io::stdout(), DisableBracketedPaste, DisableMouseCapture, LeaveAlternateScreen, cursor::Show);
    let _ = disable_raw_mode();
}
