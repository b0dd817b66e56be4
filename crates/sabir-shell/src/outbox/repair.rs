//! Repair of damaged outboxes: collects the readable messages and appends copies of them.
//!
//! Two kinds of damage occur. A disk changes or loses bytes: records are missing, and the sequence numbers around the gap
//! identify them. Earlier versions wrote messages with raw line breaks as one record per line: consecutive pieces are joined.

use std::ops::RangeInclusive;

use sabir_core::json::RawJson;
use sabir_protocol::SessionId;
use sabir_protocol::envelope::read;
use sabir_store::{Journal, Kind, RunFolder};
use serde::{Deserialize, Serialize};

use super::{Meta, millis, put_meta, recover};
use crate::{RunnerError, now};

/// Result of a repair.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Repair {
    /// Sequence numbers of lost messages, each replaced by an error message.
    pub lost: Vec<RangeInclusive<u64>>,
    /// Number of messages joined from pieces.
    pub restored: u64,
    /// Unreadable bytes at the end: a crash during a write, or a damaged disk.
    pub torn_bytes: u64,
}

impl Repair {
    /// Returns whether no repair was needed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Number of lost messages.
    pub fn lost_count(&self) -> u64 {
        self.lost.iter().map(|range| range.end() - range.start() + 1).sum()
    }

    fn record_loss(&mut self, seq: u64) {
        match self.lost.last_mut() {
            Some(range) if *range.end() + 1 == seq => *range = *range.start()..=seq,
            _ => self.lost.push(seq..=seq),
        }
    }
}

/// `2 messages are lost (40, 52), 3 messages are restored`.
impl std::fmt::Display for Repair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let messages = |count: u64| if count == 1 { "1 message is".to_owned() } else { format!("{count} messages are") };
        let mut parts = Vec::new();
        if !self.lost.is_empty() {
            let range = |range: &RangeInclusive<u64>| match (range.start(), range.end()) {
                (first, last) if first == last => first.to_string(),
                (first, last) => format!("{first}–{last}"),
            };
            let numbers: Vec<String> = self.lost.iter().map(range).collect();
            parts.push(format!("{} lost ({})", messages(self.lost_count()), numbers.join(", ")));
        }
        if self.restored > 0 {
            parts.push(format!("{} restored", messages(self.restored)));
        }
        if self.torn_bytes > 0 {
            parts.push(format!("{} bytes at the end can't be read", self.torn_bytes));
        }
        f.write_str(&parts.join(", "))
    }
}

/// Meta records around a rebuild. A rebuild without `Done` is ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Rebuild {
    /// Copies follow.
    Begun,
    /// All copies are written.
    Done,
}

/// Maximum size of a joined message.
const MAX_JOINED_BYTES: usize = 4 << 20;
/// Larger jumps of the sequence number are treated as corruption.
const MAX_GAP: u64 = 1 << 20;

/// One sequence number: a message, or a lost one.
pub(super) enum Slot<'a> {
    Message(&'a [u8]),
    Lost,
}

/// Receives messages in order, without gaps.
pub(super) type SlotVisitor<'t> = dyn FnMut(Slot<'_>) -> Result<(), RunnerError> + 't;

/// Assembles messages from records.
#[derive(Debug)]
pub(super) struct MessageAssembler {
    session: SessionId,
    /// Next sequence number.
    next: u64,
    /// Messages of this epoch were validated when appended.
    is_checked: bool,
    /// Records missing since the last message.
    missing: u64,
    /// Records that are not messages by themselves.
    pieces: Vec<u8>,
    /// The records differ from what readers expect.
    pub(super) is_damaged: bool,
    pub(super) repair: Repair,
}

impl MessageAssembler {
    pub(super) fn new(meta: &Meta) -> Self {
        Self {
            session: meta.session.clone(),
            next: meta.after + 1,
            is_checked: meta.checked,
            missing: 0,
            pieces: Vec::new(),
            is_damaged: false,
            repair: Repair::default(),
        }
    }

    /// Starts the next epoch.
    pub(super) fn start_epoch(&mut self, meta: &Meta, visit: &mut SlotVisitor<'_>) -> Result<(), RunnerError> {
        self.join_pieces(visit)?;
        self.is_checked = meta.checked;
        Ok(())
    }

    /// Reports missing records.
    pub(super) fn missing(&mut self, records: u64) {
        self.missing += records;
    }

    pub(super) fn record(&mut self, payload: &[u8], visit: &mut SlotVisitor<'_>) -> Result<(), RunnerError> {
        if self.is_checked && self.missing == 0 {
            return self.emit(payload, visit);
        }
        match read::check(payload, self.session.as_str()) {
            Ok(seq) => {
                self.join_pieces(visit)?;
                self.is_damaged |= !self.pieces.is_empty();
                self.pieces.clear();
                self.accept(seq, payload, visit)
            }
            Err(_) => {
                if payload.first() == Some(&b'{') {
                    self.join_pieces(visit)?;
                }
                self.is_damaged = true;
                if self.pieces.len() + payload.len() > MAX_JOINED_BYTES {
                    self.pieces.clear();
                }
                self.pieces.extend_from_slice(payload);
                self.pieces.push(b'\n');
                Ok(())
            }
        }
    }

    /// Ends assembly. Pieces and missing records at the end are lost messages.
    pub(super) fn end(&mut self, visit: &mut SlotVisitor<'_>) -> Result<(), RunnerError> {
        self.join_pieces(visit)?;
        let lost = self.missing + u64::from(!std::mem::take(&mut self.pieces).is_empty());
        self.fill_gap(self.next.saturating_add(lost), visit)
    }

    fn accept(&mut self, seq: u64, payload: &[u8], visit: &mut SlotVisitor<'_>) -> Result<(), RunnerError> {
        if seq < self.next {
            // A duplicate.
            self.is_damaged = true;
            return Ok(());
        }
        self.fill_gap(seq, visit)?;
        self.emit(payload, visit)
    }

    fn emit(&mut self, payload: &[u8], visit: &mut SlotVisitor<'_>) -> Result<(), RunnerError> {
        (self.next, self.missing) = (self.next + 1, 0);
        visit(Slot::Message(payload))
    }

    fn fill_gap(&mut self, seq: u64, visit: &mut SlotVisitor<'_>) -> Result<(), RunnerError> {
        if seq - self.next > MAX_GAP {
            return Err(RunnerError::OutboxSequence { found: seq, expected: self.next });
        }
        while self.next < seq {
            self.is_damaged = true;
            self.repair.record_loss(self.next);
            self.next += 1;
            visit(Slot::Lost)?;
        }
        Ok(())
    }

    /// Joins the pieces to a message, if they are complete.
    fn join_pieces(&mut self, visit: &mut SlotVisitor<'_>) -> Result<(), RunnerError> {
        let joined = if self.pieces.is_empty() { None } else { std::str::from_utf8(&self.pieces).ok().and_then(RawJson::parse) };
        let Some(json) = joined else { return Ok(()) };
        let Ok(seq) = read::check(json.get().as_bytes(), self.session.as_str()) else { return Ok(()) };
        self.pieces.clear();
        self.repair.restored += u64::from(seq >= self.next);
        self.accept(seq, json.get().as_bytes(), visit)
    }
}

/// Appends copies of all readable messages to the journal, which is open for its next epoch.
pub(super) fn rebuild(journal: &Journal, folder: &RunFolder, log: &recover::ScannedOutbox) -> Result<Repair, RunnerError> {
    let meta = Meta { checked: true, delivered: false, ..log.meta.clone() };
    put_meta(journal, &Meta { rebuild: Some(Rebuild::Begun), ..meta.clone() })?;
    let mut next = meta.after + 1;
    let repair = recover::replay(folder, log, journal.epoch(), &mut |item| {
        let message;
        let line = match item {
            Slot::Message(line) => line,
            Slot::Lost => {
                let text = format!("message {next} was lost: the outbox on the runner's disk was damaged");
                message = runner_message(meta.session.as_str(), next, "error", None, &text);
                &message
            }
        };
        next += 1;
        let appended = journal.append(Kind::Message, millis(), |out| out.extend_from_slice(line));
        match (appended, journal.trouble()) {
            (None, Some(trouble)) => Err(trouble.into()),
            _ => Ok(()),
        }
    })?;
    put_meta(journal, &Meta { rebuild: Some(Rebuild::Done), ..meta })?;
    Ok(repair)
}

/// A log message of the runner itself.
pub(crate) fn runner_message(session: &str, seq: u64, level: &str, command: Option<u64>, text: &str) -> Vec<u8> {
    let message = serde_json::json!({
        "id": uuid::Uuid::new_v4().to_string(),
        "sessionId": session,
        "ts": now(),
        "type": "log",
        "level": level,
        "origin": "runner",
        "seq": seq,
        "payload": { "text": text, "meta": { "role": "shell", "order": command } },
    });
    message.to_string().into_bytes()
}
