//! The log that this machine has anyway: what agents logged of their sessions, and the journal. It is only read.
//!
//! ```text
//!   files ──► Past, in short ──► List ──► sessions         looked at again when files change
//!   one session, when somebody looks at it ──► Spool ──► read, follow
//!                                                ▲
//!   a thread: waits for changes, looks again, fills the spools of sessions that go on
//! ```
//!
//! While nobody asks for anything, nothing is looked at. It is here and not in the command because it is one of the logs:
//! what stands before a log, and the tests of that, are the same for all of them.

mod list;
mod spool;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use sabir_core::fold::{Overview, Tokens};
use sabir_core::price::Table;
use sabir_core::time::Timestamp;
use sabir_protocol::{Code, Hello, Order, Refusal, SessionId, Taken};
use sabir_store::history::Places;
use sabir_store::notice::Notice;
use sabir_store::search::Words;
use sabir_store::usage::{By, Question, TimeZone};
use sabir_store::whole::{self, run_of};
use sabir_store::{Home, account, past, summary, usage};
use tokio::sync::{broadcast, watch};

use super::heads::Heads;
use super::{
    Answer, Append, Appended, Artifact, Begun, Filter, Head, Limit, Log, Page, Placed, RawLine, Session, Stored, Trouble,
};
use crate::auth::token::Token;
use crate::lock::locked;
use crate::usage::{Cube, CubeFold, Period};
use list::List;
use spool::Spool;

/// It is looked at most so often for new sessions.
const LOOK: Duration = Duration::from_secs(2);
/// And at least so often, while somebody asks: a folder may be new.
const LOOK_ANYWAY: Duration = Duration::from_secs(10);
/// How long a change is waited for at a time.
const WAIT: Duration = Duration::from_millis(250);
/// After this long with no question, nothing is looked at any more.
const IDLE: Duration = Duration::from_secs(60);
/// So many sessions are kept as messages, beside those that somebody follows.
const SPOOLS: usize = 8;
/// So many runs that go on are read along, so that the list says what they do.
const LIVE: usize = 16;
/// Who begins to follow waits so long for what there is.
const PATIENCE: Duration = Duration::from_secs(2);

/// Where the logs are.
#[derive(Debug, Clone)]
pub struct Sources {
    /// Where agents keep theirs.
    pub places: Places,
    /// Where the journal and the index are.
    pub home: Option<Home>,
    /// Where days begin.
    pub zone: TimeZone,
}

/// The log of this machine.
#[derive(Debug)]
pub struct Local {
    kept: Arc<Kept>,
    thread: Option<std::thread::JoinHandle<()>>,
}

#[derive(Debug)]
struct Kept {
    sources: Sources,
    heads: Heads,
    list: Mutex<Arc<List>>,
    spools: Mutex<HashMap<SessionId, Arc<Spool>>>,
    tokens: Mutex<Vec<Token>>,
    /// When the files were last looked at. Who looks holds it.
    looked: Mutex<Instant>,
    /// When somebody last asked for something.
    asked: Mutex<Instant>,
    asking: Condvar,
    stop: AtomicBool,
}

impl Local {
    /// Reads everything in short once. The watcher hears how many of the files that must be read have been, and how many
    /// there are.
    pub fn open(sources: Sources, watch: &mut dyn FnMut(usize, usize)) -> std::io::Result<Self> {
        let list = look(&sources, watch);
        let kept = Arc::new(Kept {
            sources,
            heads: Heads::default(),
            list: Mutex::new(Arc::new(list)),
            spools: Mutex::default(),
            tokens: Mutex::default(),
            looked: Mutex::new(Instant::now()),
            asked: Mutex::new(Instant::now()),
            asking: Condvar::new(),
            stop: AtomicBool::new(false),
        });
        let keeper = Arc::clone(&kept);
        let thread = std::thread::Builder::new().name("local log".to_owned()).spawn(move || keeper.keep())?;
        Ok(Self { kept, thread: Some(thread) })
    }

    /// What could not be read, and why.
    pub fn failures(&self) -> Vec<(PathBuf, String)> {
        let list = self.kept.list();
        list.past.failures.iter().map(|(path, error)| (path.clone(), error.to_string())).collect()
    }

    /// How many sessions there are.
    pub fn count(&self) -> usize {
        self.kept.list().all.len()
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.kept.stop.store(true, Ordering::Relaxed);
        self.kept.asking.notify_all();
        // A thread that panicked has nothing left to do.
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

fn look(sources: &Sources, watch: &mut dyn FnMut(usize, usize)) -> List {
    let index = sources.home.as_ref().map(Home::index);
    List::new(past::load(&sources.places, sources.home.as_ref(), index.as_deref(), |_| true, watch))
}

impl Kept {
    fn list(&self) -> Arc<List> {
        Arc::clone(&locked(&self.list))
    }

    /// Somebody asks.
    fn ask(&self) {
        let mut asked = locked(&self.asked);
        let slept = asked.elapsed() >= IDLE;
        *asked = Instant::now();
        drop(asked);
        if slept {
            // Nobody has looked for a while, so what is known may be old.
            self.look_again(LOOK);
            self.asking.notify_all();
        }
    }

    /// Looks at the files again, unless that was done within this time, and tells what has changed.
    fn look_again(&self, unless: Duration) {
        let mut looked = locked(&self.looked);
        if looked.elapsed() < unless {
            return;
        }
        let before = self.list();
        let list = Arc::new(look(&self.sources, &mut |_, _| ()));
        *looked = Instant::now();
        *locked(&self.list) = Arc::clone(&list);
        drop(looked);
        for listed in &list.all {
            let id = &listed.session.session;
            if before.session(id).as_ref() != Some(&listed.session) {
                let last = self.spooled(id).map_or(0, |spool| spool.last());
                self.heads.changed(id, Head { last, ..Head::default() });
            }
        }
    }

    /// What the thread does.
    fn keep(self: &Arc<Self>) {
        let mut notice = Notice::default();
        while !self.stop.load(Ordering::Relaxed) {
            let asked = locked(&self.asked);
            if asked.elapsed() >= IDLE && !self.heads.anybody() {
                // Woken by the next question, or now and then to see whether it is over.
                let _ = self.asking.wait_timeout(asked, IDLE);
                continue;
            }
            drop(asked);
            let list = self.list();
            notice.watch(folders(&list, &self.sources));
            let told = notice.wait(WAIT);
            self.follow_runs(&list);
            self.pump_all(&list, told);
            self.look_again(if told { LOOK } else { LOOK_ANYWAY });
        }
    }

    /// Runs that go on are read along.
    fn follow_runs(self: &Arc<Self>, list: &List) {
        let runs = list
            .all
            .iter()
            .filter(|listed| listed.live)
            .filter(|listed| list.logged_of(listed).is_some_and(|logged| run_of(logged, &list.past.logs).is_some()));
        for listed in runs.take(LIVE) {
            let id = &listed.session.session;
            if self.spooled(id).is_none() {
                // One that can't be read is listed as it is known in short.
                let _ = self.spool(id);
            }
        }
    }

    fn pump_all(&self, list: &List, told: bool) {
        let spools: Vec<_> = locked(&self.spools).iter().map(|(id, spool)| (id.clone(), Arc::clone(spool))).collect();
        for (id, spool) in spools {
            if told || spool.is_live() {
                self.pump(list, &id, &spool);
            }
        }
        self.let_go();
    }

    fn pump(&self, list: &List, id: &SessionId, spool: &Spool) {
        let Some(logged) = list.logged(id) else { return };
        let live = list::is_live(&list.past, logged);
        let tell = |last| self.heads.at_least(id, Head { last, ..Head::default() });
        if spool.pump(logged, &list.past.logs, live, &tell).news {
            self.heads.changed(id, Head { last: spool.last(), ..Head::default() });
        }
    }

    /// Forgets the messages of sessions that nobody has asked for lately.
    fn let_go(&self) {
        let mut spools = locked(&self.spools);
        let mut idle: Vec<(Instant, SessionId)> = spools
            .iter()
            .filter(|(id, spool)| !spool.is_live() && !self.heads.is_followed(id))
            .map(|(id, spool)| (spool.touched(), id.clone()))
            .collect();
        idle.sort();
        let many = spools.len().saturating_sub(SPOOLS);
        for (_, id) in idle.into_iter().take(many) {
            spools.remove(&id);
        }
    }

    fn spooled(&self, id: &SessionId) -> Option<Arc<Spool>> {
        locked(&self.spools).get(id).map(Arc::clone)
    }

    /// The messages of a session, which are made behind; `None` when it is not known.
    fn spool(self: &Arc<Self>, id: &SessionId) -> Result<Option<Arc<Spool>>, Trouble> {
        if let Some(spool) = self.spooled(id) {
            spool.touch();
            return Ok(Some(spool));
        }
        let list = self.list();
        let Some(logged) = list.logged(id) else { return Ok(None) };
        // What was asked is not among the events of a run.
        let meta = run_of(logged, &list.past.logs).and_then(|folder| summary::summary(folder).ok()?.meta);
        let prompt = meta.map(|meta| meta.prompt).filter(|prompt| !prompt.is_empty());
        let unreadable = |error: std::io::Error| Trouble::Unavailable(format!("can't read the session {id}: {error}"));
        let spool = Arc::new(Spool::new(logged, &list.past.logs, prompt).map_err(unreadable)?);
        let mut spools = locked(&self.spools);
        let spool = Arc::clone(spools.entry(id.clone()).or_insert(spool));
        drop(spools);
        let (kept, id, filled) = (Arc::clone(self), id.clone(), Arc::clone(&spool));
        let fill = move || kept.pump(&list, &id, &filled);
        std::thread::Builder::new().name("session".to_owned()).spawn(fill).map_err(unreadable)?;
        Ok(Some(spool))
    }

    /// A session as it is now.
    fn freshened(&self, session: Session) -> Session {
        let Some(spool) = self.spooled(&session.session) else { return session };
        let last = spool.last();
        let short = session.overview;
        // Of what is over, the short reading knows every response once; what goes on is only in its events.
        let overview = match spool.overview().filter(|_| spool.is_live() && !short.phase.is_over()) {
            Some(now) => Overview {
                cwd: now.cwd.clone().or(short.cwd),
                title: short.title.or(now.title.clone()),
                model: now.model.clone().or(short.model),
                tokens: now.tokens.max(short.tokens),
                usage: now.usage.or(short.usage),
                cost_usd: now.cost_usd.or(short.cost_usd),
                ..now
            },
            None => short,
        };
        Session { last, folded: last, overview, ..session }
    }

    fn found(&self, filter: &Filter) -> Page {
        let list = self.list();
        let words = filter.text.as_deref().and_then(|text| Words::new(&[text]));
        let mut page = Page::default();
        for listed in &list.all {
            let session = self.freshened(listed.session.clone());
            let seen = &session.overview;
            let fits = filter.agent.as_ref().is_none_or(|agent| seen.agent.as_ref() == Some(agent))
                && filter.phase.is_none_or(|phase| seen.phase == phase)
                && filter.workspace.as_ref().is_none_or(|workspace| seen.workspace.as_ref() == Some(workspace))
                && filter.since.is_none_or(|since| session.updated >= since)
                && filter.cursor.is_none_or(|cursor| listed.number < cursor);
            let says = || {
                let logged = list.logged_of(listed);
                words.as_ref().is_none_or(|words| logged.is_some_and(|logged| words.are_in(logged, &list.past.logs)))
            };
            if !fits || !says() {
                continue;
            }
            if page.sessions.len() == filter.limit {
                page.next = page.sessions.last().and_then(|last| {
                    list.all.iter().find(|listed| listed.session.session == last.session).map(|listed| listed.number)
                });
                break;
            }
            page.sessions.push(session);
        }
        page
    }

    fn cube(&self, period: Period) -> Cube {
        let list = self.list();
        let past = &list.past;
        let counted = account::responses(&past.logs, &past.sessions);
        let millis = |time: Option<Timestamp>| time.map(Timestamp::as_millis);
        let zone = self.sources.zone.clone();
        let question = Question { by: By::Day, since: millis(period.since), until: millis(period.until), zone };
        let mut fold = CubeFold::default();
        let mut unpriced = 0;
        for ([day, agent, model, project], sum) in usage::cube(&counted, &past.sessions, &question, Table::embedded()) {
            let spent = &sum.spent;
            let tokens = Tokens {
                uncached_input: Some(spent.input),
                cache_read: Some(spent.cache_read),
                cache_write: Some(spent.cache_write),
                output: Some(spent.output),
                reasoning: Some(spent.reasoning),
                ..Tokens::default()
            };
            unpriced += sum.unpriced_tokens;
            fold.add((day, agent, model, project), sum.sessions.len() as u64, &tokens, sum.cost().0);
        }
        let note = (unpriced > 0).then(|| format!("{unpriced} tokens have no price and are not in the cost."));
        fold.finish(note)
    }
}

/// The folders in which something may change.
fn folders(list: &List, sources: &Sources) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = sources.home.iter().map(|home| home.path().to_path_buf()).collect();
    for log in &list.past.logs {
        // The folder above that may get another one beside it: a project, a day.
        folders.extend(log.file.path.ancestors().skip(1).take(2).map(PathBuf::from));
    }
    let live = list.all.iter().filter(|listed| listed.live).filter_map(|listed| list.logged_of(listed));
    folders.extend(live.filter_map(|logged| run_of(logged, &list.past.logs)).map(|folder| folder.path().to_path_buf()));
    folders
}

/// Does what takes its time elsewhere.
fn behind<T: Send + 'static>(
    kept: &Arc<Kept>,
    work: impl FnOnce(&Arc<Kept>) -> Result<T, Trouble> + Send + 'static,
) -> Answer<T> {
    let kept = Arc::clone(kept);
    Box::pin(async move {
        let done = tokio::task::spawn_blocking(move || {
            kept.ask();
            work(&kept)
        });
        done.await.map_err(|error| Trouble::Internal(error.to_string()))?
    })
}

fn ready<T: Send + 'static>(value: T) -> Answer<T> {
    Box::pin(std::future::ready(Ok(value)))
}

fn read_only() -> Refusal {
    Refusal::new(Code::Forbidden, "this shows what the machine has, and takes nothing")
}

impl Log for Local {
    fn begin(&self, _: Hello, _: bool) -> Answer<Begun> {
        ready(Begun::Refused(read_only()))
    }

    fn append(&self, _: Append) -> Answer<Appended> {
        ready(Appended::Refused(read_only()))
    }

    fn read(&self, session: &SessionId, after: u64, limit: Limit) -> Answer<Vec<Stored>> {
        let id = session.clone();
        behind(&self.kept, move |kept| match kept.spool(&id)? {
            Some(spool) => {
                if spool.last() <= after {
                    spool.wait(PATIENCE);
                }
                spool.read(after, limit).map_err(|error| Trouble::Unavailable(error.to_string()))
            }
            None => Ok(Vec::new()),
        })
    }

    fn follow(&self, session: &SessionId) -> Answer<Option<watch::Receiver<Head>>> {
        let id = session.clone();
        behind(&self.kept, move |kept| {
            let receiver = kept.heads.follow(&id);
            let Some(spool) = kept.spool(&id)? else { return Ok(None) };
            spool.wait(PATIENCE);
            kept.heads.at_least(&id, Head { last: spool.last(), ..Head::default() });
            Ok(Some(receiver))
        })
    }

    fn changes(&self) -> broadcast::Receiver<SessionId> {
        self.kept.heads.changes()
    }

    fn add_order(&self, _: &SessionId, _: Order, _: Timestamp) -> Answer<Option<Order>> {
        Box::pin(std::future::ready(Err(Trouble::Unavailable(read_only().message))))
    }

    fn orders(&self, _: &SessionId, _: u64) -> Answer<Vec<Placed>> {
        ready(Vec::new())
    }

    fn taken(&self, _: &SessionId, _: Taken, _: Timestamp) -> Answer<bool> {
        ready(false)
    }

    fn describe(&self, _: &SessionId, _: u64, _: Overview) -> Answer<()> {
        ready(())
    }

    fn session(&self, session: &SessionId) -> Answer<Option<Session>> {
        let id = session.clone();
        behind(&self.kept, move |kept| Ok(kept.list().session(&id).map(|session| kept.freshened(session))))
    }

    fn length(&self, session: &SessionId) -> Answer<Option<u64>> {
        let id = session.clone();
        behind(&self.kept, move |kept| {
            let spool = kept.spool(&id)?;
            Ok(spool.map(|spool| {
                spool.wait(Duration::MAX);
                spool.last()
            }))
        })
    }

    fn sessions(&self, filter: Filter) -> Answer<Page> {
        behind(&self.kept, move |kept| Ok(kept.found(&filter)))
    }

    fn raw_line(&self, session: &SessionId, number: u64) -> Answer<RawLine> {
        let id = session.clone();
        behind(&self.kept, move |kept| {
            let list = kept.list();
            let Some(logged) = list.logged(&id) else { return Ok(RawLine::Missing) };
            let line = whole::line(logged, &list.past.logs, number);
            let line = line.map_err(|error| Trouble::Unavailable(format!("can't read the session {id}: {error}")))?;
            Ok(line.map_or(RawLine::Missing, |line| RawLine::Here(line.into())))
        })
    }

    fn usage(&self, period: Period) -> Answer<Option<Cube>> {
        behind(&self.kept, move |kept| Ok(Some(kept.cube(period))))
    }

    fn behind(&self) -> Answer<Vec<SessionId>> {
        ready(Vec::new())
    }

    fn put_artifact(&self, _: &SessionId, _: Artifact) -> Answer<bool> {
        ready(false)
    }

    fn artifacts(&self, _: &SessionId) -> Answer<Vec<Artifact>> {
        ready(Vec::new())
    }

    fn add_token(&self, token: Token) -> Answer<()> {
        locked(&self.kept.tokens).push(token);
        ready(())
    }

    fn tokens(&self) -> Answer<Vec<Token>> {
        ready(locked(&self.kept.tokens).clone())
    }

    fn revoke_token(&self, id: &str, at: Timestamp) -> Answer<bool> {
        let mut tokens = locked(&self.kept.tokens);
        let token = tokens.iter_mut().find(|token| token.id == id).map(|token| token.revoked.get_or_insert(at));
        ready(token.is_some())
    }
}
