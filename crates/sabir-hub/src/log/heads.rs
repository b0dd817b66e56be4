//! How far each session is that somebody follows.
//!
//! A session that nobody follows takes no room. None of the figures ever goes down, so a head that is read from the disk
//! while a commit goes on is put together with it by taking the higher of each.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use sabir_protocol::SessionId;
use tokio::sync::{broadcast, watch};

use super::Head;
use crate::lock::locked;

/// How many changes may wait for who listens to all of them.
const CHANGES: usize = 4_096;
const SWEEP: usize = 256;

#[derive(Debug)]
pub(super) struct Heads {
    followed: Mutex<HashMap<SessionId, watch::Sender<Head>>>,
    changes: broadcast::Sender<SessionId>,
    connections: AtomicU64,
    /// With that many sessions it is looked which of them nobody follows any more.
    sweep_at: AtomicUsize,
}

impl Default for Heads {
    fn default() -> Self {
        Self {
            followed: Mutex::default(),
            changes: broadcast::channel(CHANGES).0,
            connections: AtomicU64::new(0),
            sweep_at: AtomicUsize::new(SWEEP),
        }
    }
}

impl Heads {
    /// Begins to follow a session, of which nothing is known yet unless others follow it.
    pub(super) fn follow(&self, session: &SessionId) -> watch::Receiver<Head> {
        let mut followed = locked(&self.followed);
        if followed.len() >= self.sweep_at.load(Ordering::Relaxed) {
            // Sessions that are over are never told of again, so nothing else lets go of those.
            followed.retain(|_, sender| sender.receiver_count() > 0);
            self.sweep_at.store((followed.len() * 2).max(SWEEP), Ordering::Relaxed);
        }
        let sender = followed.entry(session.clone()).or_insert_with(|| watch::channel(Head::default()).0);
        if sender.receiver_count() == 0 {
            // What nobody follows may have been made anew meanwhile, and not be that far yet.
            sender.send_replace(Head::default());
        }
        sender.subscribe()
    }

    /// A session is at least that far.
    pub(super) fn at_least(&self, session: &SessionId, head: Head) {
        let mut followed = locked(&self.followed);
        let Some(sender) = followed.get(session) else { return };
        if sender.receiver_count() == 0 {
            followed.remove(session);
            return;
        }
        sender.send_if_modified(|known| {
            let higher = Head {
                last: known.last.max(head.last),
                epoch: known.epoch.max(head.epoch),
                connection: known.connection.max(head.connection),
                orders: known.orders.max(head.orders),
                whole: known.whole || head.whole,
            };
            std::mem::replace(known, higher) != higher
        });
    }

    /// A session has changed and is at least that far.
    pub(super) fn changed(&self, session: &SessionId, head: Head) {
        self.at_least(session, head);
        // Nobody listens: nobody misses anything.
        let _ = self.changes.send(session.clone());
    }

    pub(super) fn changes(&self) -> broadcast::Receiver<SessionId> {
        self.changes.subscribe()
    }

    /// Whether somebody follows a session.
    pub(super) fn is_followed(&self, session: &SessionId) -> bool {
        locked(&self.followed).get(session).is_some_and(|sender| sender.receiver_count() > 0)
    }

    /// Whether somebody follows any session, or the list.
    pub(super) fn anybody(&self) -> bool {
        self.changes.receiver_count() > 0 || locked(&self.followed).values().any(|sender| sender.receiver_count() > 0)
    }

    /// The number of the next connection.
    pub(super) fn connection(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::Relaxed) + 1
    }
}
