//! Watch channels for the progress of sessions.
//!
//! Only sessions with subscribers have a channel. No number of a [`SessionHead`] ever decreases, so a head that is read from
//! the database during a commit is merged with the committed one by taking the maximum of each number.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use sabir_protocol::SessionId;
use tokio::sync::{broadcast, watch};

use super::SessionHead;
use crate::lock;

/// Capacity of the channel of changed sessions.
const CHANGES: usize = 4_096;
/// Smallest number of channels at which unused ones are removed.
const MIN_SWEEP: usize = 256;

/// Progress of the sessions of a store.
#[derive(Debug)]
pub(super) struct SessionWatch {
    channels: Mutex<HashMap<SessionId, watch::Sender<SessionHead>>>,
    changes: broadcast::Sender<SessionId>,
    connections: AtomicU64,
    /// Number of channels at which unused ones are removed.
    sweep_at: AtomicUsize,
}

impl Default for SessionWatch {
    fn default() -> Self {
        Self {
            channels: Mutex::default(),
            changes: broadcast::channel(CHANGES).0,
            connections: AtomicU64::new(0),
            sweep_at: AtomicUsize::new(MIN_SWEEP),
        }
    }
}

impl SessionWatch {
    /// Subscribes to a session. The head is empty until [`raise`](Self::raise) is called, unless there are other subscribers.
    pub(super) fn subscribe(&self, session: &SessionId) -> watch::Receiver<SessionHead> {
        let mut channels = lock(&self.channels);
        if channels.len() >= self.sweep_at.load(Ordering::Relaxed) {
            // Channels of ended sessions are removed here alone, since nothing raises their heads again.
            channels.retain(|_, sender| sender.receiver_count() > 0);
            self.sweep_at.store((channels.len() * 2).max(MIN_SWEEP), Ordering::Relaxed);
        }
        let sender = channels.entry(session.clone()).or_insert_with(|| watch::channel(SessionHead::default()).0);
        if sender.receiver_count() == 0 {
            // Messages that are derived from an agent log may have been dropped since, and start from the first again.
            sender.send_replace(SessionHead::default());
        }
        sender.subscribe()
    }

    /// Raises the head of a session to at least `head`.
    pub(super) fn raise(&self, session: &SessionId, head: SessionHead) {
        let mut channels = lock(&self.channels);
        let Some(sender) = channels.get(session) else { return };
        if sender.receiver_count() == 0 {
            channels.remove(session);
            return;
        }
        sender.send_if_modified(|current| {
            let raised = SessionHead {
                last: current.last.max(head.last),
                epoch: current.epoch.max(head.epoch),
                connection: current.connection.max(head.connection),
                last_command: current.last_command.max(head.last_command),
                caught_up: current.caught_up || head.caught_up,
            };
            std::mem::replace(current, raised) != raised
        });
    }

    /// Raises the head of a session and announces the change.
    pub(super) fn publish(&self, session: &SessionId, head: SessionHead) {
        self.raise(session, head);
        // Fails without receivers.
        let _ = self.changes.send(session.clone());
    }

    /// Ids of sessions as they change.
    pub(super) fn changes(&self) -> broadcast::Receiver<SessionId> {
        self.changes.subscribe()
    }

    /// Returns whether a session has subscribers.
    pub(super) fn has_subscribers(&self, session: &SessionId) -> bool {
        lock(&self.channels).get(session).is_some_and(|sender| sender.receiver_count() > 0)
    }

    /// Returns whether any session, or the list, has subscribers.
    pub(super) fn is_active(&self) -> bool {
        self.changes.receiver_count() > 0 || lock(&self.channels).values().any(|sender| sender.receiver_count() > 0)
    }

    /// Number of the next connection.
    pub(super) fn next_connection(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::Relaxed) + 1
    }
}
