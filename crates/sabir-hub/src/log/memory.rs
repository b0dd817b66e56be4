//! The log in memory: for tests, and to show what the other one must do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use sabir_core::fold::Overview;
use sabir_core::pattern::Pattern;
use sabir_core::time::Timestamp;
use sabir_protocol::{Hello, Order, SessionId, Taken};
use tokio::sync::{broadcast, watch};

use super::heads::Heads;
use super::rules::{self, Place};
use super::{
    Added, Answer, Append, Appended, Artifact, Begun, Filter, Head, Limit, Log, Outcome, Page, Placed, Session, Stored, Trouble,
    words,
};
use crate::auth::token::Token;
use crate::clock::now;
use crate::lock::locked;

/// A log that is gone when the process is.
#[derive(Debug, Default)]
pub struct Memory {
    kept: Arc<Mutex<Kept>>,
    heads: Arc<Heads>,
}

#[derive(Debug, Default)]
struct Kept {
    sessions: BTreeMap<SessionId, One>,
    tokens: BTreeMap<String, Token>,
    /// How many sessions began.
    began: u64,
}

#[derive(Debug)]
struct One {
    number: u64,
    place: Place,
    messages: Vec<Bytes>,
    orders: Vec<Placed>,
    artifacts: BTreeMap<String, Artifact>,
    folded: u64,
    overview: Overview,
    shell: Option<String>,
    takes: Vec<String>,
    created: Timestamp,
    updated: Timestamp,
}

impl One {
    fn head(&self, connection: u64) -> Head {
        Head { last: self.place.last, epoch: self.place.epoch, connection, orders: self.orders.len() as u64, whole: true }
    }

    fn session(&self, id: &SessionId) -> Session {
        Session {
            session: id.clone(),
            last: self.place.last,
            folded: self.folded,
            overview: self.overview.clone(),
            shell: self.shell.clone(),
            takes: self.takes.clone(),
            created: self.created,
            updated: self.updated,
            damaged: None,
        }
    }
}

impl Kept {
    fn place(&mut self, session: &SessionId, place: Place) -> &mut One {
        let now = now();
        let began = &mut self.began;
        let one = self.sessions.entry(session.clone()).or_insert_with(|| {
            *began += 1;
            One {
                number: *began,
                place: place.clone(),
                messages: Vec::new(),
                orders: Vec::new(),
                artifacts: BTreeMap::new(),
                folded: 0,
                overview: Overview::default(),
                shell: None,
                takes: Vec::new(),
                created: now,
                updated: now,
            }
        });
        one.place = place;
        one.updated = now;
        one
    }
}

fn ready<T: Send + 'static>(value: T) -> Answer<T> {
    Box::pin(std::future::ready(Ok::<T, Trouble>(value)))
}

impl Log for Memory {
    fn begin(&self, hello: Hello, connection: bool) -> Answer<Begun> {
        let mut kept = locked(&self.kept);
        let known = kept.sessions.get(&hello.session).map(|one| &one.place);
        let place = match rules::begin(known, &hello) {
            Ok(place) => place,
            Err(refusal) => return ready(Begun::Refused(refusal)),
        };
        let one = kept.place(&hello.session, place);
        (one.shell, one.takes) = (hello.shell, hello.takes);
        if one.overview.agent.is_none() {
            one.overview.agent = hello.agent;
        }
        let connection = if connection { self.heads.connection() } else { 0 };
        let head = one.head(connection);
        let orders = one.orders.iter().filter(|placed| placed.taken.is_none()).map(|placed| placed.order.clone()).collect();
        drop(kept);
        self.heads.changed(&hello.session, head);
        ready(Begun::Welcome { epoch: head.epoch, last: head.last, connection, orders })
    }

    fn append(&self, batch: Append) -> Answer<Appended> {
        let mut kept = locked(&self.kept);
        let known = kept.sessions.get(&batch.session);
        let place = match rules::admit(known.map(|one| &one.place), &batch.writer, batch.epoch) {
            Ok(place) => place,
            Err(refusal) => return ready(Appended::Refused(refusal)),
        };
        if batch.first > place.last + 1 {
            return ready(Appended::Gap { expected: place.last + 1 });
        }
        let overlap = usize::try_from(place.last + 1 - batch.first).unwrap_or(usize::MAX).min(batch.messages.len());
        let (again, new) = batch.messages.split_at(overlap);
        for (seq, line) in (batch.first..).zip(again) {
            let before = known.and_then(|one| one.messages.get(usize::try_from(seq).ok()? - 1));
            if before != Some(line) {
                return ready(Appended::Refused(rules::differs(seq)));
            }
        }
        let last = place.last + new.len() as u64;
        let one = kept.place(&batch.session, Place { last, ..place });
        one.messages.extend_from_slice(new);
        let head = one.head(0);
        drop(kept);
        self.heads.changed(&batch.session, head);
        ready(Appended::Kept { last, new: new.len() })
    }

    fn read(&self, session: &SessionId, after: u64, limit: Limit) -> Answer<Vec<Stored>> {
        let kept = locked(&self.kept);
        let messages = kept.sessions.get(session).map_or(&[][..], |one| one.messages.as_slice());
        let rest = messages.get(usize::try_from(after).unwrap_or(usize::MAX)..).unwrap_or_default();
        let mut bytes = 0;
        let fits = |line: &&Bytes| {
            let fits = bytes < limit.bytes;
            bytes += line.len();
            fits
        };
        let lines = rest.iter().take(limit.messages).take_while(fits);
        ready(lines.zip(after.saturating_add(1)..).map(|(line, seq)| Stored { seq, line: line.clone() }).collect())
    }

    fn follow(&self, session: &SessionId) -> Answer<Option<watch::Receiver<Head>>> {
        let receiver = self.heads.follow(session);
        let head = locked(&self.kept).sessions.get(session).map(|one| one.head(0));
        ready(head.map(|head| {
            self.heads.at_least(session, head);
            receiver
        }))
    }

    fn changes(&self) -> broadcast::Receiver<SessionId> {
        self.heads.changes()
    }

    fn add_order(&self, session: &SessionId, order: Order, at: Timestamp) -> Answer<Added> {
        let mut kept = locked(&self.kept);
        let Some(one) = kept.sessions.get_mut(session) else { return ready(Added::NoSession) };
        let pending = one.orders.iter().filter(|placed| placed.taken.is_none()).map(|placed| rules::size(&placed.order)).sum();
        if !rules::has_room(pending, &order) {
            return ready(Added::Full { pending });
        }
        let order = Order { order: one.orders.len() as u64 + 1, ..order };
        one.orders.push(Placed { order: order.clone(), at, taken: None });
        let head = one.head(0);
        drop(kept);
        self.heads.changed(session, head);
        ready(Added::Order(order))
    }

    fn orders(&self, session: &SessionId, after: u64) -> Answer<Vec<Placed>> {
        let kept = locked(&self.kept);
        let all = kept.sessions.get(session).map(|one| one.orders.iter());
        ready(all.into_iter().flatten().filter(|placed| placed.order.order > after).cloned().collect())
    }

    fn taken(&self, session: &SessionId, taken: Taken, at: Timestamp) -> Answer<bool> {
        let mut kept = locked(&self.kept);
        let orders = kept.sessions.get_mut(session).map(|one| one.orders.iter_mut());
        let mut placed = orders.into_iter().flatten().filter(|placed| placed.order.order == taken.order);
        let open = placed.find(|placed| placed.taken.is_none());
        ready(open.map(|placed| placed.taken = Some(Outcome { accepted: taken.accepted, reason: taken.reason, at })).is_some())
    }

    fn describe(&self, session: &SessionId, folded: u64, overview: Overview) -> Answer<()> {
        if let Some(one) = locked(&self.kept).sessions.get_mut(session).filter(|one| one.folded <= folded) {
            (one.folded, one.overview) = (folded, overview);
        }
        ready(())
    }

    fn session(&self, session: &SessionId) -> Answer<Option<Session>> {
        ready(locked(&self.kept).sessions.get(session).map(|one| one.session(session)))
    }

    fn sessions(&self, filter: Filter) -> Answer<Page> {
        let pattern = filter.text.as_deref().and_then(Pattern::parse);
        let matches =
            |one: &One| pattern.as_ref().is_none_or(|pattern| one.messages.iter().any(|line| words::matches(line, pattern)));
        let kept = locked(&self.kept);
        let mut found: Vec<(u64, Session)> = kept
            .sessions
            .iter()
            .filter(|(id, one)| {
                let seen = &one.overview;
                filter.agent.as_ref().is_none_or(|agent| seen.agent.as_ref() == Some(agent))
                    && filter.phase.is_none_or(|phase| seen.phase == phase)
                    && filter.workspace.as_ref().is_none_or(|workspace| seen.workspace.as_ref() == Some(workspace))
                    && filter.since.is_none_or(|since| one.updated >= since)
                    && filter.prefix.as_ref().is_none_or(|prefix| id.as_str().starts_with(prefix))
                    && filter.cursor.is_none_or(|cursor| one.number < cursor)
                    && matches(one)
            })
            .map(|(id, one)| (one.number, one.session(id)))
            .collect();
        found.sort_by_key(|(number, _)| std::cmp::Reverse(*number));
        let more = found.len() > filter.limit;
        found.truncate(filter.limit);
        let next = found.last().map(|(number, _)| *number).filter(|_| more);
        ready(Page { sessions: found.into_iter().map(|(_, session)| session).collect(), next })
    }

    fn agents(&self) -> Answer<Vec<String>> {
        let kept = locked(&self.kept);
        let agents: BTreeSet<String> = kept.sessions.values().filter_map(|one| one.overview.agent.clone()).collect();
        ready(agents.into_iter().collect())
    }

    fn behind(&self) -> Answer<Vec<SessionId>> {
        let kept = locked(&self.kept);
        let behind = kept.sessions.iter().filter(|(_, one)| one.folded < one.place.last);
        ready(behind.map(|(id, _)| id.clone()).collect())
    }

    fn put_artifact(&self, session: &SessionId, artifact: Artifact) -> Answer<bool> {
        let mut kept = locked(&self.kept);
        let one = kept.sessions.get_mut(session);
        ready(one.map(|one| one.artifacts.insert(artifact.digest.clone(), artifact)).is_some())
    }

    fn artifacts(&self, session: &SessionId) -> Answer<Vec<Artifact>> {
        let kept = locked(&self.kept);
        ready(kept.sessions.get(session).map(|one| one.artifacts.values().cloned().collect()).unwrap_or_default())
    }

    fn add_token(&self, token: Token) -> Answer<()> {
        locked(&self.kept).tokens.insert(token.id.clone(), token);
        ready(())
    }

    fn tokens(&self) -> Answer<Vec<Token>> {
        ready(locked(&self.kept).tokens.values().cloned().collect())
    }

    fn revoke_token(&self, id: &str, at: Timestamp) -> Answer<bool> {
        let mut kept = locked(&self.kept);
        let token = kept.tokens.get_mut(id).map(|token| token.revoked.get_or_insert(at));
        ready(token.is_some())
    }
}
