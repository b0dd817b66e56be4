//! The session log: turns events into redacted envelope messages and appends them to the outbox.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use sabir_core::event::Event;
use sabir_core::export::{Exporter as _, Options};
use sabir_protocol::envelope::Envelope;
use sabir_protocol::envelope::notes::{Artifact, Order};

use crate::redact::{EventRedactor, Redactor};
use crate::{Outbox, RunnerError, now};

/// Longer texts are split, so that no message exceeds the hub's limit however it is escaped.
const MAX_TEXT_BYTES: usize = 128 * 1024;

/// Log of a session. Clones share one writer.
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
    /// A log that continues the outbox. `options` is the session's metadata in messages.
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

    /// Outbox of the session.
    pub fn outbox(&self) -> &Arc<Outbox> {
        &self.outbox
    }

    /// Redacts secrets in a text.
    pub fn redact(&self, text: &str) -> String {
        self.redactor.text(text).into_owned()
    }

    /// Starts a run. Its prompt is written unless the log already has it.
    pub fn begin_run(&self, prompt: Option<&str>) {
        self.start_envelope(Options { prompt: prompt.map(|text| self.redact(text)), ..self.options.clone() });
    }

    /// Starts the missing rest of an earlier runner's run; `events` if its events are missing as well.
    pub(crate) fn resume_run(&self, agent: &str, events: bool) {
        self.start_envelope(Options { adapter: Some(agent.to_owned()), events, ..self.options.clone() });
    }

    fn start_envelope(&self, options: Options) {
        let mut writer = self.lock();
        let after = writer.envelope.seq();
        writer.envelope = Envelope::new(&Options { after, ..options });
        writer.redaction = EventRedactor::new(Arc::clone(&self.redactor));
    }

    /// Appends an event of the current run.
    pub fn event(&self, event: &Event<'_>) {
        let mut writer = self.lock();
        let Writer { envelope, redaction, lines } = &mut *writer;
        redaction.event(event, &mut |event| envelope.event(event, lines));
        self.append(writer);
    }

    /// Appends an event of an earlier runner's run, with its sequence number.
    pub(crate) fn append_verbatim(&self, event: &Event<'_>) {
        self.write(|envelope, lines| envelope.event(event, lines));
    }

    /// Ends the current run.
    pub fn end_run(&self) {
        self.write(sabir_core::export::Exporter::end);
    }

    /// Records a command and its decision. Durable on return.
    pub fn command(&self, command: &Order<'_>) -> Result<(), RunnerError> {
        let text = self.redact(command.text);
        self.write(|envelope, lines| envelope.order(now(), &Order { text: &text, ..*command }, lines));
        self.outbox.sync()
    }

    /// Appends a note for humans.
    pub fn note(&self, text: &str) {
        let text = self.redact(text);
        self.write(|envelope, lines| envelope.note(now(), &text, lines));
    }

    /// Announces an artifact.
    pub fn artifact(&self, artifact: &Artifact) {
        self.write(|envelope, lines| envelope.artifact(now(), artifact, lines));
    }

    /// Appends a heartbeat.
    pub fn heartbeat(&self) {
        self.write(|envelope, lines| envelope.heartbeat(now(), lines));
    }

    /// Backpressure: ready once appended messages do not accumulate in memory.
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
