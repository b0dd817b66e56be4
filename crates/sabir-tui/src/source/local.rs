//! What ran on this machine: the journal, and the logs that agents keep.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use sabir_core::event::Event;
use sabir_core::fold::timeline::{Change, Timeline, TimelineFold};
use sabir_core::fold::{OverviewFold, Phase, Status};
use sabir_core::price::Table;
use sabir_store::account::Session;
use sabir_store::index::Log;
use sabir_store::past::Past;
use sabir_store::usage::{self, Sum};
use sabir_store::{Kind, Reader, RunFolder, Waited, whole};

use super::{CLIPPING, Feed, Listing, Row, Source, Tell, Wake};

/// How often it is looked how live runs stand.
const LOOK: Duration = Duration::from_secs(1);
/// How often the whole list is read, at most; where that takes long it is read less often.
const READ: Duration = Duration::from_secs(5);
/// Reading takes at most one part in so many of the time.
const SHARE: u32 = 20;
/// So many changes are told at once.
const BATCH: usize = 512;

/// Reads all sessions in short.
pub type Load = Box<dyn Fn() -> Past + Send + Sync>;

/// Runs of this machine.
pub struct Local {
    load: Load,
    past: Mutex<Arc<Past>>,
}

impl Local {
    /// What this reads.
    pub fn new(load: Load) -> Self {
        Self { load, past: Mutex::default() }
    }

    fn known(&self) -> Arc<Past> {
        Arc::clone(&self.past.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Source for Local {
    fn name(&self) -> String {
        "this machine".to_owned()
    }

    fn list(&self, wake: &Wake, tell: Tell<'_, Listing>) {
        let mut live: HashMap<String, Meter> = HashMap::new();
        let mut told: Option<Vec<Row>> = None;
        loop {
            let begun = Instant::now();
            let past = Arc::new((self.load)());
            *self.past.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&past);
            let next = begun.elapsed().saturating_mul(SHARE).max(READ);
            let mut rows = rows(&past);
            loop {
                let ended = measure(&past, &mut rows, &mut live);
                if told.as_ref() != Some(&rows) {
                    if !tell(Listing::Rows(rows.clone())) {
                        return;
                    }
                    told = Some(rows.clone());
                }
                // What a run came to is read from its end.
                if ended || wake.wait(LOOK) || begun.elapsed() >= next {
                    break;
                }
            }
        }
    }

    fn watch(&self, id: &str, tell: Tell<'_, Feed>) {
        let past = self.known();
        let Some(session) = past.sessions.iter().chain(&past.parts).find(|session| session.id == id) else {
            tell(Feed::Trouble("this run is gone; r reads the list again".to_owned()));
            return;
        };
        let read = match whole::run_of(session, &past.logs) {
            Some(folder) => run(folder, tell),
            None => log(session, &past.logs, tell),
        };
        if let Err(error) = read {
            tell(Feed::Trouble(format!("reading failed: {error}")));
        }
    }
}

/// The list, before anything is known of runs that go on.
pub fn rows(past: &Past) -> Vec<Row> {
    let sums = usage::by_session(&past.logs, &past.sessions, Table::embedded());
    let row = |(session, sum): (&Session, &Sum)| {
        let live = whole::run_behind(session, &past.logs).is_some_and(RunFolder::is_live);
        let account = session.account(&past.logs);
        Row {
            cwd: account.cwd().map(str::to_owned),
            title: account.title().map(str::to_owned),
            model: session.models(&past.logs).first().map(ToString::to_string),
            started: session.first,
            last: session.last,
            tokens: session.tells_tokens(&past.logs).then(|| sum.spent.total()),
            cost: sum.full_cost().0,
            cost_source: sum.source(),
            ..Row::new(
                session.id.clone(),
                session.agent.id.as_str(),
                if live { Phase::Running } else { Phase::from(Status::of(session.outcome)) },
            )
        }
    };
    past.sessions.iter().zip(&sums).map(row).collect()
}

/// What a run that goes on has used so far.
struct Meter {
    reader: Reader,
    fold: OverviewFold,
}

/// Fills in how live runs stand. True when one has ended.
fn measure(past: &Past, rows: &mut [Row], live: &mut HashMap<String, Meter>) -> bool {
    let mut ended = false;
    for (row, session) in rows.iter_mut().zip(&past.sessions).filter(|(row, _)| !row.phase.is_over()) {
        let Some(folder) = whole::run_of(session, &past.logs) else { continue };
        if !live.contains_key(&row.id) {
            let Ok(reader) = Reader::of(folder.clone()) else { continue };
            live.insert(row.id.clone(), Meter { reader, fold: OverviewFold::default() });
        }
        // Before reading: what is written until then is read.
        let over = !folder.is_live();
        if let Some(meter) = live.get_mut(&row.id) {
            meter.read();
            let seen = meter.fold.overview();
            row.phase = if over || !seen.phase.is_over() { seen.phase } else { Phase::Running };
            row.tool = seen.tool;
            row.tokens = seen.tokens;
            (row.cost, row.cost_source) = (seen.cost_usd, seen.cost_source);
            row.model = seen.model.or(row.model.take());
            row.last = seen.last.map(sabir_core::time::Timestamp::as_millis).or(row.last);
        }
        if over {
            live.remove(&row.id);
            ended = true;
        }
    }
    live.retain(|id, _| rows.iter().any(|row| row.id == *id));
    ended
}

impl Meter {
    fn read(&mut self) {
        // What can't be read now is tried again with the next look.
        while let Ok(Some(record)) = self.reader.next() {
            if record.kind == Kind::Event
                && let Ok(event) = serde_json::from_slice::<Event<'_>>(record.payload)
            {
                self.fold.event(&event);
            }
        }
    }
}

/// Changes on their way, some at a time.
struct Batch<'t> {
    fold: TimelineFold,
    number: u64,
    changes: Vec<Change>,
    tell: Tell<'t, Feed>,
    heard: bool,
}

impl<'t> Batch<'t> {
    fn new(tell: Tell<'t, Feed>) -> Self {
        Self { fold: TimelineFold::new(CLIPPING), number: 0, changes: Vec::new(), tell, heard: true }
    }

    fn event(&mut self, event: &Event<'_>) {
        self.number += 1;
        self.fold.event(self.number, event, &mut self.changes);
        if self.changes.len() >= BATCH {
            self.send();
        }
    }

    fn send(&mut self) -> bool {
        if self.heard && !self.changes.is_empty() {
            self.heard = (self.tell)(Feed::Changes(std::mem::take(&mut self.changes)));
        }
        self.heard
    }

    fn tell(&mut self, feed: Feed) -> bool {
        self.heard = self.heard && (self.tell)(feed);
        self.heard
    }
}

/// A run of the journal, as it is written.
fn run(folder: &RunFolder, tell: Tell<'_, Feed>) -> io::Result<()> {
    let mut reader = Reader::of(folder.clone()).map_err(|trouble| io::Error::other(trouble.what))?;
    let mut batch = Batch::new(tell);
    let mut replayed = false;
    loop {
        while let Some(record) = reader.next()? {
            if record.kind == Kind::Event
                && let Ok(event) = serde_json::from_slice::<Event<'_>>(record.payload)
            {
                batch.event(&event);
            }
            if !batch.heard {
                return Ok(());
            }
        }
        if !batch.send() {
            return Ok(());
        }
        if !std::mem::replace(&mut replayed, true) && !batch.tell(Feed::Live) {
            return Ok(());
        }
        if reader.wait(LOOK)? == Waited::Ended {
            batch.tell(Feed::Over);
            return Ok(());
        }
        // Nothing came perhaps, and nobody listens any more: that is noticed by telling something.
        if !batch.tell(Feed::Changes(Vec::new())) {
            return Ok(());
        }
    }
}

/// A log that its agent keeps. It may be written on at any time, so its files are looked at.
fn log(session: &Session, logs: &[Log], tell: Tell<'_, Feed>) -> io::Result<()> {
    let mut batch = Batch::new(tell);
    let mut look = Look::of(session, logs);
    whole::events(session, logs, &mut |event| batch.event(event))?;
    batch.send();
    if !batch.tell(Feed::Live) {
        return Ok(());
    }
    let tell = batch.tell;
    let mut shown: Option<Timeline> = None;
    let mut pause = LOOK;
    loop {
        std::thread::sleep(pause);
        let now = Look::of(session, logs);
        if now == look {
            if !tell(Feed::Changes(Vec::new())) {
                return Ok(());
            }
            continue;
        }
        look = now;
        let begun = Instant::now();
        let timeline = folded(session, logs)?;
        pause = begun.elapsed().saturating_mul(SHARE).max(LOOK);
        let feeds = match &shown {
            Some(shown) => difference(shown, &timeline),
            // What was told at first is not kept: most logs never change again.
            None => difference(&Timeline { items: Vec::new() }, &timeline),
        };
        let anew = shown.is_none().then_some(Feed::Anew);
        for feed in anew.into_iter().chain(feeds) {
            if !tell(feed) {
                return Ok(());
            }
        }
        shown = Some(timeline);
    }
}

fn folded(session: &Session, logs: &[Log]) -> io::Result<Timeline> {
    let mut timeline = Timeline::default();
    let mut fold = TimelineFold::new(CLIPPING);
    let (mut number, mut changes) = (0, Vec::new());
    whole::events(session, logs, &mut |event| {
        number += 1;
        fold.event(number, event, &mut changes);
        changes.drain(..).for_each(|change| timeline.apply(change, CLIPPING));
    })?;
    Ok(timeline)
}

/// What makes one timeline of another.
fn difference(shown: &Timeline, now: &Timeline) -> Vec<Feed> {
    let shorter = now.items.len() < shown.items.len();
    let known = if shorter { &[] } else { shown.items.as_slice() };
    let changed = now.items.iter().enumerate().filter(|(place, item)| known.get(*place) != Some(*item));
    let changes: Vec<Change> = changed.map(|(_, item)| Change::Put(Box::new(item.clone()))).collect();
    let anew = shorter.then_some(Feed::Anew);
    anew.into_iter().chain([Feed::Changes(changes)]).collect()
}

/// What the files of a session look like from outside.
#[derive(Debug, PartialEq)]
struct Look(Vec<(PathBuf, Option<(u64, SystemTime)>)>);

impl Look {
    fn of(session: &Session, logs: &[Log]) -> Self {
        let paths = session.logs.iter().map(|place| &logs[*place].file.path);
        let look = |path: &PathBuf| {
            let file = fs::metadata(path).ok()?;
            Some((file.len(), file.modified().ok()?))
        };
        Self(paths.map(|path| (path.clone(), look(path))).collect())
    }
}
