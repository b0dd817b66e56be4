//! Deserialization of events.
//!
//! A field name has the same type in every kind, so an event is parsed in one pass into one struct of all fields,
//! whatever their order, and its kind takes its own. Unknown fields are ignored, since a newer writer may add some.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Deserializer};

use super::enums::{Cause, Change, ChangeSource, Detection, Outcome, Timeout, ToolKind, ToolStatus, UsageScope};
use super::{Accounting, CostParts, Event, EventKind, PartialEvent, PermissionOption, PlanItem, RunId, SuggestedEdit, Text};
use crate::time::Timestamp;

/// The fields of all kinds.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Fields<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
    run_id: Option<Cow<'a, str>>,
    seq: Option<u64>,
    at: Option<Timestamp>,
    line: Option<u64>,
    parent_tool_call_id: Option<Cow<'a, str>>,

    pub(super) agent: Option<Cow<'a, str>>,
    pub(super) agent_version: Option<Cow<'a, str>>,
    pub(super) detection: Option<Detection>,
    pub(super) accounting: Option<Accounting>,
    pub(super) session_id: Option<Cow<'a, str>>,
    pub(super) model: Option<Cow<'a, str>>,
    pub(super) cwd: Option<Cow<'a, str>>,
    pub(super) permission_mode: Option<Cow<'a, str>>,
    pub(super) tools: Option<Vec<Cow<'a, str>>>,
    pub(super) turn: Option<u32>,
    pub(super) stop_reason: Option<Cow<'a, str>>,
    pub(super) delta: Option<Text<'a>>,
    pub(super) message_id: Option<Cow<'a, str>>,
    pub(super) tool_call_id: Option<Cow<'a, str>>,
    pub(super) name: Option<Cow<'a, str>>,
    pub(super) input: Option<Cow<'a, str>>,
    pub(super) tool_kind: Option<ToolKind>,
    pub(super) title: Option<Cow<'a, str>>,
    pub(super) output_delta: Option<Text<'a>>,
    pub(super) ok: Option<bool>,
    pub(super) output: Option<Text<'a>>,
    pub(super) status: Option<ToolStatus>,
    pub(super) exit_code: Option<i32>,
    pub(super) duration_ms: Option<u64>,
    pub(super) path: Option<Cow<'a, str>>,
    pub(super) change: Option<Change>,
    pub(super) from: Option<Cow<'a, str>>,
    pub(super) diff: Option<Text<'a>>,
    pub(super) added: Option<u64>,
    pub(super) removed: Option<u64>,
    pub(super) source: Option<ChangeSource>,
    pub(super) edits: Option<Vec<SuggestedEdit<'a>>>,
    pub(super) items: Option<Vec<PlanItem<'a>>>,
    pub(super) request_id: Option<Cow<'a, str>>,
    pub(super) options: Option<Vec<PermissionOption<'a>>>,
    pub(super) decision: Option<Cow<'a, str>>,
    pub(super) attempt: Option<u32>,
    pub(super) max_attempts: Option<u32>,
    pub(super) delay_ms: Option<u64>,
    pub(super) message: Option<Cow<'a, str>>,
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
    pub(super) text: Option<Cow<'a, str>>,
    pub(super) class: Option<Cause>,
    pub(super) fatal: Option<bool>,
    pub(super) r#type: Option<Cow<'a, str>>,
    pub(super) raw: Option<Cow<'a, str>>,
    pub(super) signal: Option<Cow<'a, str>>,
    pub(super) cancelled: Option<bool>,
    pub(super) outcome: Option<Outcome>,
    pub(super) cause: Option<Cause>,
    pub(super) timeout: Option<Timeout>,
    pub(super) quiescent: Option<bool>,
    pub(super) turns: Option<u32>,
    pub(super) api_duration_ms: Option<u64>,
}

/// Reason for which a JSON object is not an event of this version.
pub(super) enum ReadError {
    /// Unknown kind.
    Kind(String),
    /// Missing required field.
    Missing(&'static str),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind(kind) => write!(f, "unknown event kind `{kind}`"),
            Self::Missing(key) => write!(f, "missing field `{key}`"),
        }
    }
}

/// The type of a field of a kind: `T` if it is required, `Option<T>` otherwise.
pub(super) trait FieldType<T>: Sized {
    fn from_read(value: Option<T>, key: &'static str) -> Result<Self, ReadError>;
}

impl<T> FieldType<T> for Option<T> {
    fn from_read(value: Option<T>, _: &'static str) -> Result<Self, ReadError> {
        Ok(value)
    }
}

impl<T> FieldType<T> for T {
    fn from_read(value: Option<T>, key: &'static str) -> Result<Self, ReadError> {
        value.ok_or(ReadError::Missing(key))
    }
}

pub(super) fn take<T, D: FieldType<T>>(value: Option<T>, key: &'static str) -> Result<D, ReadError> {
    D::from_read(value, key)
}

impl<'de: 'a, 'a> Deserialize<'de> for Event<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = Fields::deserialize(deserializer)?;
        let missing = |key| serde::de::Error::custom(ReadError::Missing(key));
        let run_id = RunId::from(fields.run_id.take().ok_or_else(|| missing("runId"))?.as_ref());
        let seq = fields.seq.ok_or_else(|| missing("seq"))?;
        let line = fields.line;
        let PartialEvent { at, parent_tool_call_id, kind } = partial_event(fields).map_err(serde::de::Error::custom)?;
        Ok(Self { run_id, seq, at, line, parent_tool_call_id, kind })
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for PartialEvent<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = Fields::deserialize(deserializer)?;
        fields.fill_defaults();
        partial_event(fields).map_err(serde::de::Error::custom)
    }
}

fn partial_event(mut fields: Fields<'_>) -> Result<PartialEvent<'_>, ReadError> {
    let kind = std::mem::take(&mut fields.kind);
    let at = fields.at;
    let parent_tool_call_id: Option<Cow<'_, str>> = fields.parent_tool_call_id.take();
    let kind = EventKind::from_fields(&kind, fields)?;
    Ok(PartialEvent { at, parent_tool_call_id, kind })
}

impl Fields<'_> {
    /// Fills required fields that another program left out and that have a default or follow from other fields. Fields
    /// that the kind does not have are filled too; it ignores them.
    fn fill_defaults(&mut self) {
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
    use crate::event::{Event, EventKind, Exited, Outcome, PartialEvent, TextDelta, ToolEnd, ToolKind, ToolStart, ToolStatus};

    #[test]
    fn event_needs_a_head_and_partial_event_does_not() {
        let text = r#"{"kind":"text","delta":"a\nb"}"#;
        assert!(serde_json::from_str::<Event<'_>>(text).is_err());
        let event: PartialEvent<'_> = serde_json::from_str(text).expect("an event");
        assert_eq!(event.kind, EventKind::Text(TextDelta::new("a\nb")));
        assert!(serde_json::from_str::<PartialEvent<'_>>(r#"{"kind":"text"}"#).is_err());
        assert!(serde_json::from_str::<PartialEvent<'_>>(r#"{"kind":"nope","delta":"a"}"#).is_err());
    }

    #[test]
    fn partial_event_fills_missing_fields() {
        let kind = |text: &'static str| serde_json::from_str::<PartialEvent<'_>>(text).expect(text).kind;
        assert!(matches!(
            kind(r#"{"kind":"toolStart","toolCallId":"1","name":"bash"}"#),
            EventKind::ToolStart(ToolStart { tool_kind: ToolKind::Execute, .. })
        ));
        assert!(matches!(
            kind(r#"{"kind":"toolEnd","toolCallId":"1","ok":false}"#),
            EventKind::ToolEnd(ToolEnd { status: ToolStatus::Error, .. })
        ));
        assert!(matches!(
            kind(r#"{"kind":"exited","outcome":"completed"}"#),
            EventKind::Exited(Exited { outcome: Outcome::Completed, cancelled: false, .. })
        ));
    }
}
