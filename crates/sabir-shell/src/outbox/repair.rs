//! Repairs a damaged outbox: finds the messages that can be read, and copies them behind the damage.
//!
//! Two things damage an outbox. A disk changes or loses bytes: then records are missing, and the numbers of the messages around
//! the gap tell which. And versions before this one wrote messages with raw line breaks as one record per line: their pieces
//! follow each other and are joined again.

use std::ops::RangeInclusive;

use sabir_core::json::RawJson;
use sabir_protocol::SessionId;
use sabir_protocol::envelope::read;
use sabir_store::{Journal, Kind, RunFolder};
use serde::{Deserialize, Serialize};

use super::{Meta, millis, put_meta, recover};
use crate::{Failure, now};

/// What a repair did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Repair {
    /// The numbers of messages that are lost. An error message stands in the place of each.
    pub lost: Vec<RangeInclusive<u64>>,
    /// How many messages were joined from their pieces.
    pub restored: u64,
    /// How many bytes at the end can't be read: a crash in the middle of a write, or a damaged disk.
    pub torn_bytes: u64,
}

impl Repair {
    /// Whether there was nothing to do.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// How many messages are lost.
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

/// A step of a rebuild, as its meta records say it. One that was broken off has no second step, and does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Rebuild {
    /// The copies follow.
    Begun,
    /// All of them were written.
    Done,
}

/// The longest message that is joined from pieces.
const MAX_JOINED_BYTES: usize = 4 << 20;
/// A number that is further ahead than this is not one of ours.
const MAX_GAP: u64 = 1 << 20;

/// A message with the next number, or nothing in its place.
pub(super) enum Slot<'a> {
    Message(&'a [u8]),
    Lost,
}

/// Receives the messages of a log in the order of their numbers, without a gap.
pub(super) type SlotVisitor<'t> = dyn FnMut(Slot<'_>) -> Result<(), Failure> + 't;

/// Makes messages of the records of a log.
#[derive(Debug)]
pub(super) struct MessageAssembler {
    session: SessionId,
    /// The number that comes next.
    next: u64,
    /// Records of this opening were validated when they were appended.
    is_checked: bool,
    /// Records that are missing since the last message.
    missing: u64,
    /// Records that are no message by themselves.
    pieces: Vec<u8>,
    /// Records are not what readers may be given.
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

    /// The log was opened once more.
    pub(super) fn start_epoch(&mut self, meta: &Meta, visit: &mut SlotVisitor<'_>) -> Result<(), Failure> {
        self.join_pieces(visit)?;
        self.is_checked = meta.checked;
        Ok(())
    }

    /// Records are missing here.
    pub(super) fn missing(&mut self, records: u64) {
        self.missing += records;
    }

    pub(super) fn record(&mut self, payload: &[u8], visit: &mut SlotVisitor<'_>) -> Result<(), Failure> {
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

    /// There are no more records: what may have stood at the end is lost.
    pub(super) fn end(&mut self, visit: &mut SlotVisitor<'_>) -> Result<(), Failure> {
        self.join_pieces(visit)?;
        let lost = self.missing + u64::from(!std::mem::take(&mut self.pieces).is_empty());
        self.fill_gap(self.next.saturating_add(lost), visit)
    }

    fn accept(&mut self, seq: u64, payload: &[u8], visit: &mut SlotVisitor<'_>) -> Result<(), Failure> {
        if seq < self.next {
            // It is there twice.
            self.is_damaged = true;
            return Ok(());
        }
        self.fill_gap(seq, visit)?;
        self.emit(payload, visit)
    }

    fn emit(&mut self, payload: &[u8], visit: &mut SlotVisitor<'_>) -> Result<(), Failure> {
        (self.next, self.missing) = (self.next + 1, 0);
        visit(Slot::Message(payload))
    }

    fn fill_gap(&mut self, seq: u64, visit: &mut SlotVisitor<'_>) -> Result<(), Failure> {
        if seq - self.next > MAX_GAP {
            let what = format!("the outbox is damaged: message {seq} stands where {} should be", self.next);
            return Err(Failure::delivery(what));
        }
        while self.next < seq {
            self.is_damaged = true;
            self.repair.record_loss(self.next);
            self.next += 1;
            visit(Slot::Lost)?;
        }
        Ok(())
    }

    /// Makes one message of the pieces, if they are all there.
    fn join_pieces(&mut self, visit: &mut SlotVisitor<'_>) -> Result<(), Failure> {
        let joined = if self.pieces.is_empty() { None } else { std::str::from_utf8(&self.pieces).ok().and_then(RawJson::parse) };
        let Some(json) = joined else { return Ok(()) };
        let Ok(seq) = read::check(json.get().as_bytes(), self.session.as_str()) else { return Ok(()) };
        self.pieces.clear();
        self.repair.restored += u64::from(seq >= self.next);
        self.accept(seq, json.get().as_bytes(), visit)
    }
}

/// Copies all messages that can be read to the end of the journal, which is open for its next epoch.
pub(super) fn rebuild(journal: &Journal, folder: &RunFolder, log: &recover::ScannedOutbox) -> Result<Repair, Failure> {
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

/// A message of the runner about its own log, with a number that would be missing.
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
