//! Reads and checks the messages of a session's log, and decodes the events that are in them.

use std::borrow::Cow;

use sabir_core::cut;
use sabir_core::event::{Event, EventKind, Permission, Plan, PlanItem, PlanStatus, RunId, Session};
use sabir_core::json::Str;
use sabir_core::time::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The type of a message that stands for one that the hub had and can't read any more.
pub const GAP: &str = "gap";

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
    /// Names and lists in events are bounded.
    bounded: bool,
    /// How many events were longer than the limit.
    left_out: u64,
}

/// Events of fewer bytes than this have nothing that is cut.
const SHORT: usize = 256;
/// Longest path in a bounded event, in bytes.
const PATH_BYTES: usize = 4 << 10;
/// Longest line for people in a bounded event, in bytes.
const PROSE_BYTES: usize = 1 << 10;
/// Longest replacement of a suggested edit in a bounded event, in bytes.
const EDIT_BYTES: usize = 64 << 10;
/// Most entries of a list in a bounded event.
const MOST_ENTRIES: usize = 1_000;
/// Most answers that a question offers in a bounded event.
const MOST_OPTIONS: usize = 16;

/// Bounds what a fold keeps of an event beside its texts, which folds clip themselves.
fn bound(event: &mut Event<'_>) {
    if event.run_id.as_str().len() > SHORT {
        event.run_id = RunId::from(cut::name(event.run_id.as_str()).into_owned());
    }
    if let Some(parent) = &mut event.parent_tool_call_id
        && parent.len() > SHORT
    {
        *parent = cut::name(parent).into_owned().into();
    }
    match &mut event.kind {
        EventKind::Plan(Plan { items, .. }) if items.len() > MOST_ENTRIES => {
            let more = items.len() - MOST_ENTRIES;
            items.truncate(MOST_ENTRIES);
            items.push(PlanItem { text: format!("… and {more} more").into(), status: PlanStatus::Pending });
        }
        EventKind::Permission(Permission { options: Some(options), .. }) => options.truncate(MOST_OPTIONS),
        EventKind::Session(Session { tools: Some(tools), .. }) => tools.truncate(MOST_ENTRIES),
        _ => {}
    }
    event.kind.change_texts(&mut |key, text| {
        let cut = match key {
            "text" | "delta" | "input" | "output" | "outputDelta" | "diff" | "raw" => return None,
            "cwd" | "path" | "from" => cut::ellipsis(text, PATH_BYTES),
            "title" | "message" | "items" => cut::ellipsis(text, PROSE_BYTES),
            "edits" => cut::ellipsis(text, EDIT_BYTES),
            _ => cut::name(text),
        };
        matches!(cut, Cow::Owned(_)).then(|| cut.into_owned())
    });
}

impl Default for Events {
    fn default() -> Self {
        Self::of_at_most(LONGEST)
    }
}

impl Events {
    /// The same, for those who have less memory: pieces of an event that is longer are dropped.
    pub fn of_at_most(longest: usize) -> Self {
        Self { longest, open: None, heard: 0, bounded: false, left_out: 0 }
    }

    /// The same, for folds that keep state for a session that they do not trust: ids, names, paths and lines for people
    /// are cut, and a text that was cut has an ellipsis in it. Ids that were equal still are.
    #[must_use]
    pub fn bounded(self) -> Self {
        Self { bounded: true, ..self }
    }

    /// How many events were left out because they are too long.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// How many bytes are kept of an event whose last piece has not come.
    pub fn held(&self) -> usize {
        self.open.as_ref().map_or(0, |(id, text)| id.len() + text.capacity())
    }

    fn tell<T>(&self, json: &str, tell: impl FnOnce(&Event<'_>) -> T) -> Option<T> {
        let mut event: Event<'_> = serde_json::from_str(json).ok()?;
        if self.bounded && json.len() > SHORT {
            bound(&mut event);
        }
        Some(tell(&event))
    }

    /// Hands over the event that the message completes, if it does.
    pub fn message<T>(&mut self, message: &Message<'_>, tell: impl FnOnce(&Event<'_>) -> T) -> Option<T> {
        let json = message.payload.json.filter(|_| message.r#type == "event")?;
        let Some(partial) = &message.payload.partial else {
            self.open = None;
            return self.tell(json.get(), tell);
        };
        if partial.index == 0 {
            (self.open, self.heard) = (Some((partial.id.clone().into_owned(), String::new())), 0);
        }
        let piece: Cow<'_, str> = serde_json::from_str(json.get()).ok()?;
        let (id, text) = self.open.as_mut()?;
        let is_too_long = text.len() + piece.len() > self.longest;
        if *id != partial.id || self.heard != partial.index || is_too_long {
            self.open = None;
            self.left_out += u64::from(is_too_long);
            return None;
        }
        text.push_str(&piece);
        self.heard += 1;
        if self.heard < partial.total {
            return None;
        }
        let (_, text) = self.open.take()?;
        self.tell(&text, tell)
    }
}
