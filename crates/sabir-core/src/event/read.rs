//! JSON text back to events.
//!
//! Fields of one name have one type in all kinds, so an event is read in one pass into all the fields that there are,
//! whatever their order, and the kind picks its own. Fields that this version does not know are passed over: a newer
//! writer may add some.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Deserializer};

use super::words::{Cause, Change, ChangeSource, Detection, Outcome, Timeout, ToolKind, ToolStatus, UsageScope};
use super::{Accounting, CostParts, Event, EventKind, PermissionOption, PlanItem, RunId, SuggestedEdit, Text, Told, Word};
use crate::time::Timestamp;

/// Every field that an event of any kind may have.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Fields<'a> {
    #[serde(borrow)]
    kind: Word<'a>,
    run_id: Option<Word<'a>>,
    seq: Option<u64>,
    at: Option<Timestamp>,
    line: Option<u64>,
    parent_tool_call_id: Option<Word<'a>>,

    pub(super) agent: Option<Word<'a>>,
    pub(super) agent_version: Option<Word<'a>>,
    pub(super) detection: Option<Detection>,
    pub(super) accounting: Option<Accounting>,
    pub(super) session_id: Option<Word<'a>>,
    pub(super) model: Option<Word<'a>>,
    pub(super) cwd: Option<Word<'a>>,
    pub(super) permission_mode: Option<Word<'a>>,
    pub(super) tools: Option<Vec<Word<'a>>>,
    pub(super) turn: Option<u32>,
    pub(super) stop_reason: Option<Word<'a>>,
    #[serde(borrow)]
    pub(super) delta: Option<Text<'a>>,
    pub(super) message_id: Option<Word<'a>>,
    pub(super) tool_call_id: Option<Word<'a>>,
    pub(super) name: Option<Word<'a>>,
    pub(super) input: Option<Word<'a>>,
    pub(super) tool_kind: Option<ToolKind>,
    pub(super) title: Option<Word<'a>>,
    #[serde(borrow)]
    pub(super) output_delta: Option<Text<'a>>,
    pub(super) ok: Option<bool>,
    #[serde(borrow)]
    pub(super) output: Option<Text<'a>>,
    pub(super) status: Option<ToolStatus>,
    pub(super) exit_code: Option<i32>,
    pub(super) duration_ms: Option<u64>,
    pub(super) path: Option<Word<'a>>,
    pub(super) change: Option<Change>,
    pub(super) from: Option<Word<'a>>,
    #[serde(borrow)]
    pub(super) diff: Option<Text<'a>>,
    pub(super) added: Option<u64>,
    pub(super) removed: Option<u64>,
    pub(super) source: Option<ChangeSource>,
    pub(super) edits: Option<Vec<SuggestedEdit<'a>>>,
    pub(super) items: Option<Vec<PlanItem<'a>>>,
    pub(super) request_id: Option<Word<'a>>,
    pub(super) options: Option<Vec<PermissionOption<'a>>>,
    pub(super) decision: Option<Word<'a>>,
    pub(super) attempt: Option<u32>,
    pub(super) max_attempts: Option<u32>,
    pub(super) delay_ms: Option<u64>,
    pub(super) message: Option<Word<'a>>,
    pub(super) input_tokens: Option<u64>,
    pub(super) output_tokens: Option<u64>,
    pub(super) total_tokens: Option<u64>,
    pub(super) cache_read_tokens: Option<u64>,
    pub(super) cache_write_tokens: Option<u64>,
    #[serde(rename = "cacheWrite1hTokens")]
    pub(super) cache_write_1h_tokens: Option<u64>,
    pub(super) reasoning_tokens: Option<u64>,
    pub(super) cost_usd: Option<f64>,
    pub(super) cost_parts: Option<CostParts>,
    pub(super) scope: Option<UsageScope>,
    pub(super) text: Option<Word<'a>>,
    pub(super) class: Option<Cause>,
    pub(super) fatal: Option<bool>,
    pub(super) r#type: Option<Word<'a>>,
    pub(super) raw: Option<Word<'a>>,
    pub(super) signal: Option<Word<'a>>,
    pub(super) cancelled: Option<bool>,
    pub(super) outcome: Option<Outcome>,
    pub(super) cause: Option<Cause>,
    pub(super) timeout: Option<Timeout>,
    pub(super) quiescent: Option<bool>,
    pub(super) turns: Option<u32>,
    pub(super) api_duration_ms: Option<u64>,
}

/// Why a JSON object is not an event of this version.
pub(super) enum Unreadable {
    /// A kind that we do not know.
    Kind(String),
    /// A field that the kind must have.
    Missing(&'static str),
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind(kind) => write!(f, "unknown event kind `{kind}`"),
            Self::Missing(key) => write!(f, "missing field `{key}`"),
        }
    }
}

/// A field as its kind declares it: required, or optional.
pub(super) trait Declared<T>: Sized {
    fn declared(value: Option<T>, key: &'static str) -> Result<Self, Unreadable>;
}

impl<T> Declared<T> for Option<T> {
    fn declared(value: Option<T>, _: &'static str) -> Result<Self, Unreadable> {
        Ok(value)
    }
}

impl<T> Declared<T> for T {
    fn declared(value: Option<T>, key: &'static str) -> Result<Self, Unreadable> {
        value.ok_or(Unreadable::Missing(key))
    }
}

pub(super) fn take<T, D: Declared<T>>(value: Option<T>, key: &'static str) -> Result<D, Unreadable> {
    D::declared(value, key)
}

impl<'de: 'a, 'a> Deserialize<'de> for Event<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = Fields::deserialize(deserializer)?;
        let missing = |key| serde::de::Error::custom(Unreadable::Missing(key));
        let run_id = RunId::from(fields.run_id.take().ok_or_else(|| missing("runId"))?.as_ref());
        let seq = fields.seq.ok_or_else(|| missing("seq"))?;
        let line = fields.line;
        let Told { at, parent_tool_call_id, kind } = told(fields).map_err(serde::de::Error::custom)?;
        Ok(Self { run_id, seq, at, line, parent_tool_call_id, kind })
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Told<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = Fields::deserialize(deserializer)?;
        fields.supply();
        told(fields).map_err(serde::de::Error::custom)
    }
}

fn told(mut fields: Fields<'_>) -> Result<Told<'_>, Unreadable> {
    let kind = std::mem::take(&mut fields.kind);
    let at = fields.at;
    let parent_tool_call_id: Option<Cow<'_, str>> = fields.parent_tool_call_id.take();
    let kind = EventKind::from_fields(&kind, fields)?;
    Ok(Told { at, parent_tool_call_id, kind })
}

impl Fields<'_> {
    /// Supplies what our own events always say and what follows from the rest where another program leaves it out. The
    /// kind picks its own fields, so one that it does not have is supplied in vain and does no harm.
    fn supply(&mut self) {
        self.turn.get_or_insert(0);
        self.cancelled.get_or_insert(false);
        self.fatal.get_or_insert(false);
        self.source.get_or_insert(ChangeSource::Reported);
        self.scope.get_or_insert(UsageScope::Message);
        if self.tool_kind.is_none() {
            self.tool_kind = Some(ToolKind::of_name(self.name.as_deref().unwrap_or_default()));
        }
        match (self.ok, self.status) {
            (Some(ok), None) => self.status = Some(if ok { ToolStatus::Ok } else { ToolStatus::Error }),
            (None, Some(status)) => self.ok = Some(status == ToolStatus::Ok),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::event::{Event, EventKind, Exited, Outcome, TextDelta, Told, ToolEnd, ToolKind, ToolStart, ToolStatus};

    #[test]
    fn a_head_is_needed_for_an_event_and_not_for_what_is_told() {
        let text = r#"{"kind":"text","delta":"a\nb"}"#;
        assert!(serde_json::from_str::<Event<'_>>(text).is_err());
        let told: Told<'_> = serde_json::from_str(text).expect("told");
        assert_eq!(told.kind, EventKind::Text(TextDelta::new("a\nb")));
        assert!(serde_json::from_str::<Told<'_>>(r#"{"kind":"text"}"#).is_err());
        assert!(serde_json::from_str::<Told<'_>>(r#"{"kind":"nope","delta":"a"}"#).is_err());
    }

    #[test]
    fn what_follows_from_the_rest_need_not_be_said() {
        let told = |text: &'static str| serde_json::from_str::<Told<'_>>(text).expect(text).kind;
        assert!(matches!(
            told(r#"{"kind":"toolStart","toolCallId":"1","name":"bash"}"#),
            EventKind::ToolStart(ToolStart { tool_kind: ToolKind::Execute, .. })
        ));
        assert!(matches!(
            told(r#"{"kind":"toolEnd","toolCallId":"1","ok":false}"#),
            EventKind::ToolEnd(ToolEnd { status: ToolStatus::Error, .. })
        ));
        assert!(matches!(
            told(r#"{"kind":"exited","outcome":"completed"}"#),
            EventKind::Exited(Exited { outcome: Outcome::Completed, cancelled: false, .. })
        ));
    }
}
