//! The small records that some fields hold.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::words::PlanStatus;

/// A range of UTF-8 bytes in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ByteRange {
    /// First byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
}

/// An edit that the agent proposes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SuggestedEdit<'a> {
    /// The file.
    #[serde(borrow)]
    pub file_path: Cow<'a, str>,
    /// What to replace.
    pub range: ByteRange,
    /// What to put there.
    pub replacement: Cow<'a, str>,
    /// A line for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<Cow<'a, str>>,
}

impl SuggestedEdit<'_> {
    /// Copies what is borrowed.
    pub fn into_owned(self) -> SuggestedEdit<'static> {
        SuggestedEdit {
            file_path: own(self.file_path),
            range: self.range,
            replacement: own(self.replacement),
            title: self.title.map(own),
        }
    }
}

/// One step of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlanItem<'a> {
    /// The step.
    #[serde(borrow)]
    pub text: Cow<'a, str>,
    /// How far it is.
    pub status: PlanStatus,
}

impl PlanItem<'_> {
    /// Copies what is borrowed.
    pub fn into_owned(self) -> PlanItem<'static> {
        PlanItem { text: own(self.text), status: self.status }
    }
}

/// One answer that a permission question can be given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PermissionOption<'a> {
    /// What to send back.
    #[serde(borrow)]
    pub id: Cow<'a, str>,
    /// What it means.
    pub label: Cow<'a, str>,
}

impl PermissionOption<'_> {
    /// Copies what is borrowed.
    pub fn into_owned(self) -> PermissionOption<'static> {
        PermissionOption { id: own(self.id), label: own(self.label) }
    }
}

/// How an agent composes the token counts that it shows, so that they can be shown the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Accounting {
    /// Its input count includes cached tokens.
    pub input_includes_cache: bool,
    /// Its output count excludes reasoning tokens.
    pub output_excludes_reasoning: bool,
}

impl Accounting {
    /// Accounting of the agent of a stream whose `started` event does not carry it, as before version 0.2.
    pub(crate) fn legacy(agent: &str) -> Self {
        let (input_includes_cache, output_excludes_reasoning) = match agent {
            "aider" | "bob" | "cline" | "codex" | "copilot" | "goose" | "openai" | "qwen" => (true, false),
            "gemini" => (true, true),
            "opencode" | "kilo" => (false, true),
            _ => (false, false),
        };
        Self { input_includes_cache, output_excludes_reasoning }
    }
}

/// A cost in US dollars, by class of token.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CostParts {
    /// Uncached input.
    pub input: f64,
    /// Output.
    pub output: f64,
    /// Cache reads.
    pub cache_read: f64,
    /// Cache writes.
    pub cache_write: f64,
}

impl CostParts {
    /// All classes together.
    pub fn total(&self) -> f64 {
        self.input + self.output + self.cache_read + self.cache_write
    }
}

impl std::ops::Add for CostParts {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            input: self.input + other.input,
            output: self.output + other.output,
            cache_read: self.cache_read + other.cache_read,
            cache_write: self.cache_write + other.cache_write,
        }
    }
}

fn own(text: Cow<'_, str>) -> Cow<'static, str> {
    Cow::Owned(text.into_owned())
}
