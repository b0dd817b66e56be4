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

mod kept;
mod list;
mod question;
mod spool;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sabir_core::fold::Overview;
use sabir_core::time::Timestamp;
use sabir_protocol::{Code, Hello, Order, Refusal, SessionId, Taken};
use sabir_store::Home;
use sabir_store::history::Places;
use sabir_store::usage::TimeZone;
use sabir_store::whole;
use tokio::sync::{broadcast, watch};

use super::{
    Added, Answer, Append, Appended, Artifact, Begun, Filter, Head, Limit, Log, Page, Placed, RawLine, Session, Stored, Trouble,
};
use crate::auth::token::Token;
use crate::lock::locked;
use crate::usage::{Cube, Period};
use kept::Kept;

/// Who asks for a message waits so long for it, where messages are still being made.
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

impl Local {
    /// Reads everything in short once. The watcher hears how many of the files that must be read have been, and how many
    /// there are.
    pub fn open(sources: Sources, watch: &mut dyn FnMut(usize, usize)) -> std::io::Result<Self> {
        let kept = Arc::new(Kept::new(sources, watch));
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
        self.kept.stop();
        // A thread that panicked has nothing left to do.
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
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
                spool.wait(Some(after), PATIENCE);
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
            kept.heads.at_least(&id, spool.head());
            Ok(Some(receiver))
        })
    }

    fn changes(&self) -> broadcast::Receiver<SessionId> {
        self.kept.heads.changes()
    }

    fn add_order(&self, _: &SessionId, _: Order, _: Timestamp) -> Answer<Added> {
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
        behind(&self.kept, move |kept| Ok(kept.session(&id)))
    }

    fn length(&self, session: &SessionId) -> Answer<Option<u64>> {
        let id = session.clone();
        behind(&self.kept, move |kept| {
            let spool = kept.spool(&id)?;
            Ok(spool.map(|spool| {
                spool.wait(None, Duration::MAX);
                spool.head().last
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

    fn agents(&self) -> Answer<Vec<String>> {
        behind(&self.kept, |kept| Ok(kept.agents()))
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
