//! Reads and checks the messages of a session's log, and decodes the events that are in them.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::event::Event;
use crate::json::Str;
use crate::time::Timestamp;

/// What a reader needs of a message. The rest of it is for people, and for those who know its type.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Message<'a> {
    /// The session whose log it is in.
    #[serde(borrow)]
    pub session_id: Cow<'a, str>,
    /// Its number in the log, from 1.
    pub seq: u64,
    /// When it was said, RFC 3339.
    #[serde(borrow)]
    pub ts: Cow<'a, str>,
    /// What it is: `init`, `log`, `event`, …
    #[serde(borrow)]
    pub r#type: Cow<'a, str>,
    #[serde(borrow)]
    payload: Payload<'a>,
    /// How bad it is: `info`, `warn` or `error`.
    #[serde(borrow, default)]
    pub level: Cow<'a, str>,
}

/// Checks that a line is a message of this session's log, and returns its number. A hub refuses a batch in which one message
/// is not, and with it everything that follows.
pub fn check(line: &[u8], session: &str) -> Result<u64, &'static str> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Head<'a> {
        #[serde(borrow)]
        session_id: Str<'a>,
        seq: u64,
        #[serde(borrow)]
        ts: Str<'a>,
        #[serde(borrow)]
        r#type: Str<'a>,
        #[serde(borrow)]
        payload: &'a RawValue,
    }
    // What nobody reads must be text as well.
    let line = std::str::from_utf8(line).map_err(|_| "it is not UTF-8")?;
    let head: Head<'_> = serde_json::from_str(line).map_err(|_| "it is not a message")?;
    if *head.session_id != *session {
        return Err("it is of another session");
    }
    if Timestamp::parse(&head.ts).is_none() {
        return Err("its time is not RFC 3339");
    }
    if head.r#type.is_empty() || !head.payload.get().starts_with('{') {
        return Err("it has no type or no payload");
    }
    Ok(head.seq)
}

#[derive(Debug, Clone, Deserialize)]
struct Payload<'a> {
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    phase: Option<&'a RawValue>,
    /// The event, or a piece of its text.
    #[serde(borrow, default)]
    json: Option<&'a RawValue>,
    #[serde(borrow, default)]
    partial: Option<Partial<'a>>,
    #[serde(default)]
    meta: Option<Meta>,
}

#[derive(Debug, Clone, Deserialize)]
struct Partial<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    index: usize,
    total: usize,
}

#[derive(Debug, Clone, Deserialize)]
struct Meta {
    #[serde(default)]
    order: Option<u64>,
}

impl Message<'_> {
    /// The number of the order that the message is about.
    pub fn order(&self) -> Option<u64> {
        self.payload.meta.as_ref()?.order
    }

    /// Which fragment of a longer message it is, from 0, and of how many; `None` where it is a whole one.
    pub fn piece(&self) -> Option<(usize, usize)> {
        self.payload.partial.as_ref().map(|partial| (partial.index, partial.total))
    }

    /// What it says in words: of a `log` or a `prompt`.
    pub fn text(&self) -> Option<String> {
        serde_json::from_str(self.payload.text?.get()).ok()
    }

    /// How far the run is: `starting`, `running`, `finalizing` or `done`, of a `status`.
    pub fn phase(&self) -> Option<&str> {
        self.payload.phase?.get().strip_prefix('"')?.strip_suffix('"')
    }
}

/// No event has a longer text; the pieces of one that has are dropped.
const LONGEST: usize = 256 << 20;

/// Makes events of the messages of one log, in order.
#[derive(Debug)]
pub struct Events {
    /// Bytes of the longest event that is put together.
    longest: usize,
    /// Pieces of a long one: their common id, and the text so far.
    open: Option<(String, String)>,
    /// How many pieces were heard.
    heard: usize,
}

impl Default for Events {
    fn default() -> Self {
        Self::of_at_most(LONGEST)
    }
}

impl Events {
    /// The same, for those who have less memory: pieces of an event that is longer are dropped.
    pub fn of_at_most(longest: usize) -> Self {
        Self { longest, open: None, heard: 0 }
    }

    /// Hands over the event that the message completes, if it does.
    pub fn message<T>(&mut self, message: &Message<'_>, tell: impl FnOnce(&Event<'_>) -> T) -> Option<T> {
        let json = message.payload.json.filter(|_| message.r#type == "event")?;
        let Some(partial) = &message.payload.partial else {
            self.open = None;
            return Some(tell(&serde_json::from_str(json.get()).ok()?));
        };
        if partial.index == 0 {
            (self.open, self.heard) = (Some((partial.id.clone().into_owned(), String::new())), 0);
        }
        let piece: Cow<'_, str> = serde_json::from_str(json.get()).ok()?;
        let (id, text) = self.open.as_mut()?;
        if *id != partial.id || self.heard != partial.index || text.len() + piece.len() > self.longest {
            self.open = None;
            return None;
        }
        text.push_str(&piece);
        self.heard += 1;
        if self.heard < partial.total {
            return None;
        }
        let (_, text) = self.open.take()?;
        Some(tell(&serde_json::from_str(&text).ok()?))
    }
}
