//! Messages that no event causes: what a shell says of itself.

use std::borrow::Cow;

use super::message::{self, Level, Meta, Origin, Payload};
use super::{Envelope, Ids};
use sabir_core::time::Timestamp;

/// Something that was asked of the session from outside, and what became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order<'a> {
    /// Its number.
    pub number: u64,
    /// It is a further prompt.
    pub prompt: bool,
    /// What is told about it; of a prompt, its text.
    pub text: &'a str,
    /// Who gave it.
    pub by: Option<&'a str>,
    /// Why it is not carried out.
    pub refused: Option<&'a str>,
}

/// A file that the session leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// Its path, from the working folder.
    pub path: String,
    /// The hash of its bytes, in hexadecimal.
    pub sha256: String,
    /// How many they are.
    pub bytes: u64,
}

impl Envelope {
    /// Appends what became of an order: a `prompt` that is carried out, or a `log`.
    pub fn order(&mut self, at: Timestamp, order: &Order<'_>, out: &mut Vec<u8>) {
        let text = match order.refused {
            Some(why) => Cow::Owned(format!("{}: refused, {why}", order.text)),
            None => Cow::Borrowed(order.text),
        };
        let meta = Meta {
            role: Some("order"),
            order: Some(order.number),
            accepted: Some(order.refused.is_none()),
            by: order.by.map(Cow::Borrowed),
            ..Meta::default()
        };
        let payload = Payload { text: Some(text), meta: Some(meta), ..Payload::default() };
        let (r#type, level) = match (order.prompt, order.refused) {
            (true, None) => ("prompt", Level::Info),
            (_, None) => ("log", Level::Info),
            _ => ("log", Level::Warn),
        };
        self.aside(at, Origin::Backend, r#type, level, &payload, out);
    }

    /// Appends a line for people.
    pub fn note(&mut self, at: Timestamp, text: &str, out: &mut Vec<u8>) {
        let meta = Meta { role: Some("shell"), ..Meta::default() };
        let payload = Payload { text: Some(Cow::Borrowed(text)), meta: Some(meta), ..Payload::default() };
        self.aside(at, Origin::Runner, "log", Level::Info, &payload, out);
    }

    /// Appends what is known of a file, whose bytes may come later.
    pub fn artifact(&mut self, at: Timestamp, artifact: &Artifact, out: &mut Vec<u8>) {
        let one = message::Artifact {
            path: Cow::Borrowed(&artifact.path),
            sha256: Cow::Borrowed(&artifact.sha256),
            bytes: artifact.bytes,
        };
        let payload = Payload { artifacts: Some(vec![one]), ..Payload::default() };
        self.aside(at, Origin::Runner, "artifact", Level::Info, &payload, out);
    }

    /// Sends a message that belongs to no run: it does not open one.
    fn aside(
        &mut self,
        at: Timestamp,
        origin: Origin,
        r#type: &'static str,
        level: Level,
        payload: &Payload<'_>,
        out: &mut Vec<u8>,
    ) {
        self.clock.set(Some(at));
        let in_a_run = self.session.is_some();
        if !in_a_run {
            let session = self.options.session_id.clone().unwrap_or_else(|| self.run_id.clone());
            let ids = Ids::of(&["envelope", &session]);
            self.session = Some((session, ids));
        }
        self.send_from(origin, r#type, level, payload, out);
        if !in_a_run {
            self.session = None;
        }
    }
}
