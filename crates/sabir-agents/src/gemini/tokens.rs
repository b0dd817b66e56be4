//! Gemini's counters in our classes.
//!
//! Its input contains what was cached, and its output leaves thoughts out: they are only in the total.

use std::borrow::Cow;
use std::collections::BTreeMap;

use sabir_core::dialect::Facts;
use sabir_core::event::{Usage, UsageScope};
use sabir_core::json::{self, Str};
use serde::Deserialize;

/// `stats` of a stream's result: the whole run, sub-agents and helper models included.
#[derive(Deserialize)]
pub(super) struct Stats<'a> {
    total_tokens: Option<u64>,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cached: Option<u64>,
    input: Option<u64>,
    pub(super) duration_ms: Option<u64>,
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    models: Option<BTreeMap<Str<'a>, Flat>>,
}

/// Counters of a model in a stream's result.
#[derive(Deserialize, Clone, Copy)]
struct Flat {
    total_tokens: Option<u64>,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cached: Option<u64>,
    input: Option<u64>,
}

/// Counters of a model in the `json` object.
#[derive(Deserialize, Clone, Copy)]
pub(super) struct Detailed {
    input: Option<u64>,
    prompt: Option<u64>,
    candidates: Option<u64>,
    cached: Option<u64>,
    thoughts: Option<u64>,
    /// Prompt tokens of tools that the provider runs itself; the prompt leaves them out.
    tool: Option<u64>,
}

/// The same in our classes.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Tokens {
    input: Option<u64>,
    output: Option<u64>,
    cache_read: Option<u64>,
    reasoning: Option<u64>,
}

impl From<Flat> for Tokens {
    fn from(flat: Flat) -> Self {
        let reasoning = flat.total_tokens.zip(flat.input_tokens).zip(flat.output_tokens);
        let reasoning = reasoning.and_then(|((total, input), output)| total.checked_sub(input)?.checked_sub(output));
        Self {
            input: flat.input.or_else(|| uncached(flat.input_tokens, flat.cached)),
            output: flat.output_tokens.map(|output| output.saturating_add(reasoning.unwrap_or(0))),
            cache_read: flat.cached,
            reasoning,
        }
    }
}

impl From<Detailed> for Tokens {
    fn from(detailed: Detailed) -> Self {
        let input = detailed.input.or_else(|| uncached(detailed.prompt, detailed.cached));
        Self {
            input: input.map(|input| input.saturating_add(detailed.tool.unwrap_or(0))),
            output: detailed.candidates.map(|output| output.saturating_add(detailed.thoughts.unwrap_or(0))),
            cache_read: detailed.cached,
            reasoning: detailed.thoughts,
        }
    }
}

fn uncached(input: Option<u64>, cached: Option<u64>) -> Option<u64> {
    input.map(|input| input.saturating_sub(cached.unwrap_or(0)))
}

impl Tokens {
    /// Reports them as the run's.
    pub(super) fn report<'a>(self, model: Option<Cow<'a, str>>, facts: &mut Facts<'a>) {
        if self == Self::default() {
            return;
        }
        facts.push(
            Usage::new(UsageScope::Run)
                .input_tokens(self.input)
                .output_tokens(self.output)
                .cache_read_tokens(self.cache_read)
                .reasoning_tokens(self.reasoning)
                .model(model),
        );
    }
}

impl<'a> Stats<'a> {
    /// The only model of the run, when it was one.
    pub(super) fn only_model(&self) -> Option<&str> {
        match self.models.as_ref()?.keys().next() {
            Some(name) if self.models.as_ref().is_some_and(|models| models.len() == 1) => Some(name),
            _ => None,
        }
    }

    /// Reports the usage by model where that adds up, else as a whole.
    pub(super) fn report(self, facts: &mut Facts<'a>) {
        let Self { total_tokens, input_tokens, output_tokens, cached, input, models, .. } = self;
        let models = models.unwrap_or_default();
        let counted = models.values().map(|model| model.total_tokens.unwrap_or(0)).fold(0, u64::saturating_add);
        if !models.is_empty() && Some(counted) == total_tokens {
            for (name, counters) in models {
                Tokens::from(counters).report(Some(name.into()), facts);
            }
        } else {
            let all = Flat { total_tokens, input_tokens, output_tokens, cached, input };
            Tokens::from(all).report(None, facts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Detailed, Flat, Tokens};

    #[test]
    fn thoughts_are_what_the_total_has_more() {
        let flat: Flat = serde_json::from_str(
            r#"{"total_tokens":2340,"input_tokens":2200,"output_tokens":110,"cached":900,"input":1300,"new":1}"#,
        )
        .expect("counters");
        let detailed: Detailed = serde_json::from_str(
            r#"{"input":1300,"prompt":2200,"candidates":110,"total":2340,"cached":900,"thoughts":30,"tool":0}"#,
        )
        .expect("counters");
        let want = Tokens { input: Some(1300), output: Some(140), cache_read: Some(900), reasoning: Some(30) };
        assert_eq!(Tokens::from(flat), want);
        assert_eq!(Tokens::from(detailed), want);
    }

    #[test]
    fn what_an_older_version_does_not_count_is_unknown() {
        let flat: Flat = serde_json::from_str(r#"{"input_tokens":10,"output_tokens":2}"#).expect("counters");
        let want = Tokens { input: Some(10), output: Some(2), cache_read: None, reasoning: None };
        assert_eq!(Tokens::from(flat), want);
    }
}
