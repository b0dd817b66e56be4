//! In-memory backend: the reference implementation for tests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use sabir_core::fold::Overview;
use sabir_core::pattern::Pattern;
use sabir_core::time::Timestamp;
use sabir_protocol::{Hello, Order, SessionId, Taken};
use tokio::sync::{broadcast, watch};

use super::fencing::{self, WriterState};
use super::session_watch::SessionWatch;
use super::{
    AddCommandResult, AppendRequest, AppendResult, Artifact, ArtifactStore, CommandOutcome, CommandStore, MessageReader,
    MessageWriter, OpenResult, OverviewStore, ReadLimit, SessionFilter, SessionHead, SessionIndex, SessionPage, SessionRecord,
    Store, StoreFuture, StoredCommand, StoredMessage, TokenStore, tokenize,
};
use crate::auth::token::Token;
use crate::error::StoreError;
use crate::lock;
use crate::now;

/// A store that lives as long as the process.
#[derive(Debug, Default)]
pub struct MemoryStore {
    data: Arc<Mutex<Data>>,
    watch: Arc<SessionWatch>,
}

#[derive(Debug, Default)]
struct Data {
    sessions: BTreeMap<SessionId, Session>,
    tokens: BTreeMap<String, Token>,
    /// Number of sessions that were ever created.
    created: u64,
}

#[derive(Debug)]
struct Session {
    number: u64,
    writer: WriterState,
    messages: Vec<Bytes>,
    commands: Vec<StoredCommand>,
    artifacts: BTreeMap<String, Artifact>,
    folded: u64,
    overview: Overview,
    runner: Option<String>,
    accepts: Vec<String>,
    created: Timestamp,
    updated: Timestamp,
}

impl Session {
    fn head(&self, connection: u64) -> SessionHead {
        SessionHead {
            last: self.writer.last,
            epoch: self.writer.epoch,
            connection,
            last_command: self.commands.len() as u64,
            caught_up: true,
        }
    }

    fn record(&self, id: &SessionId) -> SessionRecord {
        SessionRecord {
            id: id.clone(),
            last: self.writer.last,
            folded: self.folded,
            overview: self.overview.clone(),
            runner: self.runner.clone(),
            accepts: self.accepts.clone(),
            created: self.created,
            updated: self.updated,
            damage: None,
        }
    }

    fn pending(&self) -> impl Iterator<Item = &Order> {
        self.commands.iter().filter(|stored| stored.outcome.is_none()).map(|stored| &stored.command)
    }
}

impl Data {
    /// Sets the writer of a session, which is created if necessary.
    fn set_writer(&mut self, session: &SessionId, writer: WriterState) -> &mut Session {
        let now = now();
        let created = &mut self.created;
        let entry = self.sessions.entry(session.clone()).or_insert_with(|| {
            *created += 1;
            Session {
                number: *created,
                writer: writer.clone(),
                messages: Vec::new(),
                commands: Vec::new(),
                artifacts: BTreeMap::new(),
                folded: 0,
                overview: Overview::default(),
                runner: None,
                accepts: Vec::new(),
                created: now,
                updated: now,
            }
        });
        entry.writer = writer;
        entry.updated = now;
        entry
    }
}

fn ready<T: Send + 'static>(value: T) -> StoreFuture<T> {
    Box::pin(std::future::ready(Ok::<T, StoreError>(value)))
}

impl From<Arc<MemoryStore>> for Store {
    fn from(backend: Arc<MemoryStore>) -> Self {
        Self::writable(backend, Arc::default())
    }
}

impl MessageReader for MemoryStore {
    fn read(&self, session: &SessionId, after: u64, limit: ReadLimit) -> StoreFuture<Vec<StoredMessage>> {
        let data = lock(&self.data);
        let messages = data.sessions.get(session).map_or(&[][..], |session| session.messages.as_slice());
        let rest = messages.get(usize::try_from(after).unwrap_or(usize::MAX)..).unwrap_or_default();
        let mut bytes = 0;
        let fits = |line: &&Bytes| {
            let fits = bytes < limit.bytes;
            bytes += line.len();
            fits
        };
        let lines = rest.iter().take(limit.messages).take_while(fits);
        ready(lines.zip(after.saturating_add(1)..).map(|(line, seq)| StoredMessage { seq, line: line.clone() }).collect())
    }

    fn last_seq(&self, session: &SessionId) -> StoreFuture<Option<u64>> {
        ready(lock(&self.data).sessions.get(session).map(|session| session.writer.last))
    }

    fn watch(&self, session: &SessionId) -> StoreFuture<Option<watch::Receiver<SessionHead>>> {
        let receiver = self.watch.subscribe(session);
        let head = lock(&self.data).sessions.get(session).map(|session| session.head(0));
        ready(head.map(|head| {
            self.watch.raise(session, head);
            receiver
        }))
    }
}

impl SessionIndex for MemoryStore {
    fn session(&self, session: &SessionId) -> StoreFuture<Option<SessionRecord>> {
        ready(lock(&self.data).sessions.get(session).map(|entry| entry.record(session)))
    }

    fn sessions(&self, filter: SessionFilter) -> StoreFuture<SessionPage> {
        let pattern = filter.text.as_deref().and_then(Pattern::parse);
        let has_text = |session: &Session| {
            pattern.as_ref().is_none_or(|pattern| session.messages.iter().any(|line| tokenize::matches(line, pattern)))
        };
        let data = lock(&self.data);
        let mut matching: Vec<(u64, SessionRecord)> = data
            .sessions
            .iter()
            .map(|(id, session)| (session, session.record(id)))
            .filter(|(session, record)| filter.matches(record, session.number) && has_text(session))
            .map(|(session, record)| (session.number, record))
            .collect();
        matching.sort_by_key(|(number, _)| std::cmp::Reverse(*number));
        let more = matching.len() > filter.limit;
        matching.truncate(filter.limit);
        let next = matching.last().map(|(number, _)| *number).filter(|_| more);
        ready(SessionPage { sessions: matching.into_iter().map(|(_, record)| record).collect(), next })
    }

    fn agents(&self) -> StoreFuture<Vec<String>> {
        let data = lock(&self.data);
        let agents: BTreeSet<String> = data.sessions.values().filter_map(|session| session.overview.agent.clone()).collect();
        ready(agents.into_iter().collect())
    }

    fn changes(&self) -> broadcast::Receiver<SessionId> {
        self.watch.changes()
    }
}

impl MessageWriter for MemoryStore {
    fn open_session(&self, hello: Hello, connection: bool) -> StoreFuture<OpenResult> {
        let mut data = lock(&self.data);
        let current = data.sessions.get(&hello.session).map(|session| &session.writer);
        let writer = match fencing::open(current, &hello) {
            Ok(writer) => writer,
            Err(refusal) => return ready(OpenResult::Refused(refusal)),
        };
        let session = data.set_writer(&hello.session, writer);
        (session.runner, session.accepts) = (hello.shell, hello.takes);
        if session.overview.agent.is_none() {
            session.overview.agent = hello.agent;
        }
        let connection = if connection { self.watch.next_connection() } else { 0 };
        let head = session.head(connection);
        let commands = session.pending().cloned().collect();
        drop(data);
        self.watch.publish(&hello.session, head);
        ready(OpenResult::Welcome { epoch: head.epoch, last: head.last, connection, commands })
    }

    fn append(&self, request: AppendRequest) -> StoreFuture<AppendResult> {
        let mut data = lock(&self.data);
        let current = data.sessions.get(&request.session);
        let writer = match fencing::admit(current.map(|session| &session.writer), &request.writer, request.epoch) {
            Ok(writer) => writer,
            Err(refusal) => return ready(AppendResult::Refused(refusal)),
        };
        if request.first > writer.last + 1 {
            return ready(AppendResult::Gap { expected: writer.last + 1 });
        }
        let overlap = usize::try_from(writer.last + 1 - request.first).unwrap_or(usize::MAX).min(request.messages.len());
        let (repeated, new) = request.messages.split_at(overlap);
        for (seq, line) in (request.first..).zip(repeated) {
            let stored = current.and_then(|session| session.messages.get(usize::try_from(seq).ok()? - 1));
            if stored != Some(line) {
                return ready(AppendResult::Refused(fencing::changed_message(seq)));
            }
        }
        let last = writer.last + new.len() as u64;
        let session = data.set_writer(&request.session, WriterState { last, ..writer });
        session.messages.extend_from_slice(new);
        let head = session.head(0);
        drop(data);
        self.watch.publish(&request.session, head);
        ready(AppendResult::Stored { last, new: new.len() })
    }
}

impl OverviewStore for MemoryStore {
    fn put_overview(&self, session: &SessionId, seq: u64, overview: Overview) -> StoreFuture<()> {
        if let Some(session) = lock(&self.data).sessions.get_mut(session).filter(|session| session.folded <= seq) {
            (session.folded, session.overview) = (seq, overview);
        }
        ready(())
    }

    fn outdated_overviews(&self) -> StoreFuture<Vec<SessionId>> {
        let data = lock(&self.data);
        let outdated = data.sessions.iter().filter(|(_, session)| session.folded < session.writer.last);
        ready(outdated.map(|(id, _)| id.clone()).collect())
    }
}

impl CommandStore for MemoryStore {
    fn add_command(&self, session: &SessionId, command: Order, at: Timestamp) -> StoreFuture<AddCommandResult> {
        let mut data = lock(&self.data);
        let Some(entry) = data.sessions.get_mut(session) else { return ready(AddCommandResult::UnknownSession) };
        let pending = entry.pending().map(fencing::encoded_size).sum();
        if !fencing::fits_pending(pending, &command) {
            return ready(AddCommandResult::Full { pending });
        }
        let command = Order { order: entry.commands.len() as u64 + 1, ..command };
        entry.commands.push(StoredCommand { command: command.clone(), at, outcome: None });
        let head = entry.head(0);
        drop(data);
        self.watch.publish(session, head);
        ready(AddCommandResult::Added(command))
    }

    fn commands(&self, session: &SessionId, after: u64) -> StoreFuture<Vec<StoredCommand>> {
        let data = lock(&self.data);
        let all = data.sessions.get(session).map(|session| session.commands.iter());
        ready(all.into_iter().flatten().filter(|stored| stored.command.order > after).cloned().collect())
    }

    fn resolve_command(&self, session: &SessionId, taken: Taken, at: Timestamp) -> StoreFuture<bool> {
        let mut data = lock(&self.data);
        let commands = data.sessions.get_mut(session).map(|session| session.commands.iter_mut());
        let mut pending = commands.into_iter().flatten().filter(|stored| stored.outcome.is_none());
        let command = pending.find(|stored| stored.command.order == taken.order);
        let outcome = CommandOutcome { accepted: taken.accepted, reason: taken.reason, at };
        ready(command.map(|stored| stored.outcome = Some(outcome)).is_some())
    }
}

impl ArtifactStore for MemoryStore {
    fn put_artifact(&self, session: &SessionId, artifact: Artifact) -> StoreFuture<bool> {
        let mut data = lock(&self.data);
        let session = data.sessions.get_mut(session);
        ready(session.map(|session| session.artifacts.insert(artifact.digest.clone(), artifact)).is_some())
    }

    fn artifacts(&self, session: &SessionId) -> StoreFuture<Vec<Artifact>> {
        let data = lock(&self.data);
        ready(data.sessions.get(session).map(|session| session.artifacts.values().cloned().collect()).unwrap_or_default())
    }
}

impl TokenStore for MemoryStore {
    fn add_token(&self, token: Token) -> StoreFuture<()> {
        lock(&self.data).tokens.insert(token.id.clone(), token);
        ready(())
    }

    fn tokens(&self) -> StoreFuture<Vec<Token>> {
        ready(lock(&self.data).tokens.values().cloned().collect())
    }

    fn revoke_token(&self, id: &str, at: Timestamp) -> StoreFuture<bool> {
        let mut data = lock(&self.data);
        let token = data.tokens.get_mut(id).map(|token| token.revoked.get_or_insert(at));
        ready(token.is_some())
    }
}
