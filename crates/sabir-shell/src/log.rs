//! The one place where messages are made: events without their secrets, in the envelope, into the outbox.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use sabir_core::event::Event;
use sabir_core::export::{Exporter as _, Options};
use sabir_protocol::envelope::Envelope;
use sabir_protocol::envelope::notes::{Artifact, Order};

use crate::redact::{Redactor, Stream};
use crate::{Failure, Outbox, now};

/// Texts are sent in pieces of so many bytes: however they are escaped, a message with one is not too long for a hub.
const PIECE: usize = 128 * 1024;

/// The log of a session, as those see it who have something to tell. Clones write to the same log.
#[derive(Debug, Clone)]
pub struct Log {
    outbox: Arc<Outbox>,
    redactor: Arc<Redactor>,
    options: Options,
    writing: Arc<Mutex<Writing>>,
}

#[derive(Debug)]
struct Writing {
    envelope: Envelope,
    stream: Stream,
    lines: Vec<u8>,
}

impl Log {
    /// A log that goes on where the outbox ends. The options say what messages tell of the session.
    pub fn new(outbox: Arc<Outbox>, redactor: Arc<Redactor>, options: Options) -> Self {
        let clean = |text: Option<String>| text.map(|text| redactor.text(&text).into_owned());
        let options = Options {
            session_id: Some(outbox.session().as_str().to_owned()),
            events: true,
            partial_bytes: PIECE,
            repo: clean(options.repo),
            branch: clean(options.branch),
            workspace: clean(options.workspace),
            prompt: None,
            ..options
        };
        let envelope = Envelope::new(&Options { after: outbox.last(), ..options.clone() });
        let writing = Writing { envelope, stream: Stream::new(Arc::clone(&redactor)), lines: Vec::new() };
        Self { outbox, redactor, options, writing: Arc::new(Mutex::new(writing)) }
    }

    /// Where it is written.
    pub fn outbox(&self) -> &Arc<Outbox> {
        &self.outbox
    }

    /// A text without its secrets.
    pub fn redacted(&self, text: &str) -> String {
        self.redactor.text(text).into_owned()
    }

    /// A run begins. Its prompt is told, unless the log has it already.
    pub fn begin(&self, prompt: Option<&str>) {
        self.begin_with(Options { prompt: prompt.map(|text| self.redacted(text)), ..self.options.clone() });
    }

    /// The rest of a run that an earlier shell did not finish; `events` whether its events are missing too.
    pub(crate) fn take_up(&self, agent: &str, events: bool) {
        self.begin_with(Options { adapter: Some(agent.to_owned()), events, ..self.options.clone() });
    }

    fn begin_with(&self, options: Options) {
        let mut writing = self.lock();
        let after = writing.envelope.seq();
        writing.envelope = Envelope::new(&Options { after, ..options });
        writing.stream = Stream::new(Arc::clone(&self.redactor));
    }

    /// Something happened in the run.
    pub fn event(&self, event: &Event<'_>) {
        let mut writing = self.lock();
        let Writing { envelope, stream, lines } = &mut *writing;
        stream.event(event, &mut |event| envelope.event(event, lines));
        self.put(writing);
    }

    /// Something that belongs to a run of an earlier shell: its number stays.
    pub(crate) fn event_as_it_is(&self, event: &Event<'_>) {
        self.write(|envelope, lines| envelope.event(event, lines));
    }

    /// The run is over.
    pub fn end(&self) {
        self.write(sabir_core::export::Exporter::end);
    }

    /// What became of an order. It is on the disk when this comes back.
    pub fn order(&self, order: &Order<'_>) -> Result<(), Failure> {
        let text = self.redacted(order.text);
        self.write(|envelope, lines| envelope.order(now(), &Order { text: &text, ..*order }, lines));
        self.outbox.sync()
    }

    /// A line for people.
    pub fn note(&self, text: &str) {
        let text = self.redacted(text);
        self.write(|envelope, lines| envelope.note(now(), &text, lines));
    }

    /// What is known of a file.
    pub fn artifact(&self, artifact: &Artifact) {
        self.write(|envelope, lines| envelope.artifact(now(), artifact, lines));
    }

    /// A sign of life.
    pub fn heartbeat(&self) {
        self.write(|envelope, lines| envelope.heartbeat(now(), lines));
    }

    /// Ready when more can be taken without memory growing.
    pub fn poll_room(&self, context: &mut Context<'_>) -> Poll<()> {
        self.outbox.journal().poll_room(context)
    }

    fn write(&self, tell: impl FnOnce(&mut Envelope, &mut Vec<u8>)) {
        let mut writing = self.lock();
        let Writing { envelope, lines, .. } = &mut *writing;
        tell(envelope, lines);
        self.put(writing);
    }

    fn put(&self, mut writing: MutexGuard<'_, Writing>) {
        self.outbox.append(&writing.lines);
        writing.lines.clear();
        writing.lines.shrink_to(4 * PIECE);
    }

    fn lock(&self) -> MutexGuard<'_, Writing> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
