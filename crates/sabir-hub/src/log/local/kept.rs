//! What is kept of this machine's sessions while somebody asks, and the thread that keeps it up to date.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use sabir_core::fold::Overview;
use sabir_protocol::SessionId;
use sabir_store::notice::Notice;
use sabir_store::whole::run_of;
use sabir_store::{Home, past, summary};

use super::Sources;
use super::list::{self, List};
use super::spool::Spool;
use crate::auth::token::Token;
use crate::lock::locked;
use crate::log::heads::Heads;
use crate::log::{Head, Session, Trouble};

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
/// Who asks about a session that goes on waits so long for what its events say, and is else told what is known in short.
const AT_ONCE: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Kept {
    pub(super) sources: Sources,
    pub(super) heads: Heads,
    list: Mutex<Arc<List>>,
    spools: Mutex<HashMap<SessionId, Arc<Spool>>>,
    pub(super) tokens: Mutex<Vec<Token>>,
    /// When the files were last looked at. Who looks holds it.
    looked: Mutex<Instant>,
    /// When somebody last asked for something.
    asked: Mutex<Instant>,
    asking: Condvar,
    stop: AtomicBool,
}

fn look(sources: &Sources, watch: &mut dyn FnMut(usize, usize)) -> List {
    let index = sources.home.as_ref().map(Home::index);
    List::new(past::load(&sources.places, sources.home.as_ref(), index.as_deref(), |_| true, watch))
}

impl Kept {
    /// Looks at everything once.
    pub(super) fn new(sources: Sources, watch: &mut dyn FnMut(usize, usize)) -> Self {
        let list = look(&sources, watch);
        Self {
            sources,
            heads: Heads::default(),
            list: Mutex::new(Arc::new(list)),
            spools: Mutex::default(),
            tokens: Mutex::default(),
            looked: Mutex::new(Instant::now()),
            asked: Mutex::new(Instant::now()),
            asking: Condvar::new(),
            stop: AtomicBool::new(false),
        }
    }

    /// Says to the thread that it is over.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.asking.notify_all();
    }

    pub(super) fn list(&self) -> Arc<List> {
        Arc::clone(&locked(&self.list))
    }

    /// Somebody asks.
    pub(super) fn ask(&self) {
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

    /// Looks at the files again and tells what has changed, unless that was done within this time: then it is false.
    fn look_again(&self, unless: Duration) -> bool {
        let mut looked = locked(&self.looked);
        if looked.elapsed() < unless {
            return false;
        }
        let before = self.list();
        let list = Arc::new(look(&self.sources, &mut |_, _| ()));
        *looked = Instant::now();
        *locked(&self.list) = Arc::clone(&list);
        drop(looked);
        for listed in &list.all {
            let id = &listed.session.session;
            if before.session(id).as_ref() != Some(&listed.session) {
                let head = self.spooled(id).map_or_else(Head::default, |spool| spool.head());
                self.heads.changed(id, head);
            }
        }
        true
    }

    /// What the thread does.
    pub(super) fn keep(self: &Arc<Self>) {
        let mut notice = Notice::default();
        let mut watched = Arc::default();
        // Something has changed since the last look.
        let mut changed = false;
        while !self.stop.load(Ordering::Relaxed) {
            let asked = locked(&self.asked);
            if asked.elapsed() >= IDLE && !self.heads.anybody() {
                // Woken by the next question, or now and then to see whether it is over.
                let _ = self.asking.wait_timeout(asked, IDLE);
                continue;
            }
            drop(asked);
            let list = self.list();
            self.follow_runs(&list);
            if !Arc::ptr_eq(&list, &watched) {
                notice.watch(folders(&list, &self.sources));
                watched = Arc::clone(&list);
            }
            let told = notice.wait(WAIT);
            self.pump_all(&list, told);
            changed |= told;
            if self.look_again(if changed { LOOK } else { LOOK_ANYWAY }) {
                changed = false;
            }
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
        let tell = |head| self.heads.at_least(id, head);
        if spool.pump(logged, &list.past.logs, live, &tell) {
            self.heads.changed(id, spool.head());
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
    pub(super) fn spool(self: &Arc<Self>, id: &SessionId) -> Result<Option<Arc<Spool>>, Trouble> {
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

    /// One session. What it does now is only in its events, so those of one that may go on are read, unless many are already.
    pub(super) fn session(self: &Arc<Self>, id: &SessionId) -> Option<Session> {
        let list = self.list();
        let session = list.session(id)?;
        let spools = locked(&self.spools);
        let room = spools.len() < LIVE || spools.contains_key(id);
        drop(spools);
        // One that can't be read is told as it is known in short.
        if room
            && list.logged(id).is_some_and(|logged| list::is_live(&list.past, logged))
            && let Ok(Some(spool)) = self.spool(id)
        {
            spool.wait(None, AT_ONCE);
        }
        Some(self.freshened(session))
    }

    /// A session as it is now.
    pub(super) fn freshened(&self, session: Session) -> Session {
        let Some(spool) = self.spooled(&session.session) else { return session };
        let last = spool.head().last;
        let short = session.overview;
        // The short reading counts every response once, where it counts any; what goes on is only in the events.
        let overview = match spool.overview() {
            Some(now) if spool.is_live() && !short.phase.is_over() => Overview {
                cwd: now.cwd.clone().or(short.cwd),
                title: short.title.or(now.title.clone()),
                model: now.model.clone().or(short.model),
                tokens: short.tokens.or(now.tokens),
                usage: short.usage.or(now.usage),
                cost_usd: short.cost_usd.or(now.cost_usd),
                cost_source: if short.cost_usd.is_some() { short.cost_source } else { now.cost_source },
                ..now
            },
            // These are in no short reading.
            Some(seen) => Overview { turns: seen.turns, file_changes: seen.file_changes, errors: seen.errors, ..short },
            None => short,
        };
        Session { last, folded: last, overview, ..session }
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
