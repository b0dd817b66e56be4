//! The one place where messages are made: events without their secrets, in the envelope, into the outbox.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use sabir_core::event::Event;
use sabir_core::export::{Exporter as _, Options};
use sabir_protocol::envelope::Envelope;
use sabir_protocol::envelope::notes::{Artifact, Order};

use crate::redact::{EventRedactor, Redactor};
use crate::{Failure, Outbox, now};

/// Texts are sent in pieces of so many bytes: however they are escaped, a message with one is not too long for a hub.
const MAX_TEXT_BYTES: usize = 128 * 1024;

/// The log of a session, as those see it who have something to tell. Clones write to the same log.
#[derive(Debug, Clone)]
pub struct SessionLog {
    outbox: Arc<Outbox>,
    redactor: Arc<Redactor>,
    options: Options,
    writer: Arc<Mutex<Writer>>,
}

#[derive(Debug)]
struct Writer {
    envelope: Envelope,
    redaction: EventRedactor,
    lines: Vec<u8>,
}

impl SessionLog {
    /// A log that goes on where the outbox ends. The options say what messages tell of the session.
    pub fn new(outbox: Arc<Outbox>, redactor: Arc<Redactor>, options: Options) -> Self {
        let redact = |text: Option<String>| text.map(|text| redactor.text(&text).into_owned());
        let options = Options {
            session_id: Some(outbox.session().as_str().to_owned()),
            events: true,
            partial_bytes: MAX_TEXT_BYTES,
            repo: redact(options.repo),
            branch: redact(options.branch),
            workspace: redact(options.workspace),
            prompt: None,
            ..options
        };
        let envelope = Envelope::new(&Options { after: outbox.last(), ..options.clone() });
        let writer = Writer { envelope, redaction: EventRedactor::new(Arc::clone(&redactor)), lines: Vec::new() };
        Self { outbox, redactor, options, writer: Arc::new(Mutex::new(writer)) }
    }

    /// Where it is written.
    pub fn outbox(&self) -> &Arc<Outbox> {
        &self.outbox
    }

    /// A text without its secrets.
    pub fn redact(&self, text: &str) -> String {
        self.redactor.text(text).into_owned()
    }

    /// A run begins. Its prompt is told, unless the log has it already.
    pub fn begin_run(&self, prompt: Option<&str>) {
        self.start_envelope(Options { prompt: prompt.map(|text| self.redact(text)), ..self.options.clone() });
    }

    /// The rest of a run that an earlier shell did not finish; `events` whether its events are missing too.
    pub(crate) fn resume_run(&self, agent: &str, events: bool) {
        self.start_envelope(Options { adapter: Some(agent.to_owned()), events, ..self.options.clone() });
    }

    fn start_envelope(&self, options: Options) {
        let mut writer = self.lock();
        let after = writer.envelope.seq();
        writer.envelope = Envelope::new(&Options { after, ..options });
        writer.redaction = EventRedactor::new(Arc::clone(&self.redactor));
    }

    /// Something happened in the run.
    pub fn event(&self, event: &Event<'_>) {
        let mut writer = self.lock();
        let Writer { envelope, redaction, lines } = &mut *writer;
        redaction.event(event, &mut |event| envelope.event(event, lines));
        self.append(writer);
    }

    /// Something that belongs to a run of an earlier shell: its number stays.
    pub(crate) fn append_verbatim(&self, event: &Event<'_>) {
        self.write(|envelope, lines| envelope.event(event, lines));
    }

    /// The run is over.
    pub fn end_run(&self) {
        self.write(sabir_core::export::Exporter::end);
    }

    /// What became of an order. It is on the disk when this comes back.
    pub fn command(&self, command: &Order<'_>) -> Result<(), Failure> {
        let text = self.redact(command.text);
        self.write(|envelope, lines| envelope.order(now(), &Order { text: &text, ..*command }, lines));
        self.outbox.sync()
    }

    /// A line for people.
    pub fn note(&self, text: &str) {
        let text = self.redact(text);
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
    pub fn poll_ready(&self, context: &mut Context<'_>) -> Poll<()> {
        self.outbox.journal().poll_room(context)
    }

    fn write(&self, write: impl FnOnce(&mut Envelope, &mut Vec<u8>)) {
        let mut writer = self.lock();
        let Writer { envelope, lines, .. } = &mut *writer;
        write(envelope, lines);
        self.append(writer);
    }

    fn append(&self, mut writer: MutexGuard<'_, Writer>) {
        self.outbox.append(&writer.lines);
        writer.lines.clear();
        writer.lines.shrink_to(4 * MAX_TEXT_BYTES);
    }

    fn lock(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
