//! Token usage of Qwen Code.
//!
//! Input counts include cached tokens, and output counts include reasoning. The usage of a result covers requests without a
//! message (sub-agents in the background, memory) and accumulates over the prompts of a process. The usage of a resumed session
//! includes its earlier runs, which the stream does not say.

use std::borrow::Cow;
use std::collections::BTreeMap;

use sabir_core::dialect::Facts;
use sabir_core::event::{self, UsageScope};
use sabir_core::json::{self, Str};
use serde::Deserialize;

use crate::family::anthropic::wire::Usage;

/// `stats` of a result, with `--output-format json` only.
#[derive(Deserialize)]
pub(super) struct Stats<'a> {
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    models: Option<BTreeMap<Str<'a>, Model>>,
}

#[derive(Deserialize)]
struct Model {
    tokens: ModelCounts,
}

#[derive(Deserialize)]
struct ModelCounts {
    prompt: Option<u64>,
    candidates: Option<u64>,
    cached: Option<u64>,
    thoughts: Option<u64>,
}

/// Token counts, where `input` includes `cached` and `output` includes `thoughts`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct TokenCounts {
    input: Option<u64>,
    output: Option<u64>,
    cached: Option<u64>,
    thoughts: Option<u64>,
}

impl From<Usage> for TokenCounts {
    fn from(usage: Usage) -> Self {
        let Usage { input_tokens: input, output_tokens: output, cache_read_input_tokens: cached, .. } = usage;
        Self { input, output, cached, thoughts: None }
    }
}

impl From<ModelCounts> for TokenCounts {
    fn from(counts: ModelCounts) -> Self {
        let ModelCounts { prompt, candidates, cached, thoughts } = counts;
        Self { input: prompt, output: candidates, cached, thoughts }
    }
}

impl TokenCounts {
    /// Whether there are no counts. Lines that are not the last one of a response have zeros.
    pub(super) fn is_zero(&self) -> bool {
        self.input.unwrap_or(0) == 0 && self.output.unwrap_or(0) == 0
    }

    /// Returns the difference to `earlier` counts; all of it if a count decreased, as the counter was reset then.
    fn since(&self, earlier: &Self) -> Self {
        let difference = |now: Option<u64>, then: Option<u64>| match now {
            Some(now) => now.checked_sub(then.unwrap_or(0)).map(Some),
            None => Some(None),
        };
        let added = || {
            Some(Self {
                input: difference(self.input, earlier.input)?,
                output: difference(self.output, earlier.output)?,
                cached: difference(self.cached, earlier.cached)?,
                thoughts: difference(self.thoughts, earlier.thoughts)?,
            })
        };
        added().unwrap_or(*self)
    }

    /// Pushes the counts as disjoint classes.
    pub(super) fn report<'a>(self, model: Option<Cow<'a, str>>, scope: UsageScope, facts: &mut Facts<'a>) {
        if self.is_zero() {
            return;
        }
        facts.push(
            event::Usage::new(scope)
                .input_tokens(self.input.map(|input| input.saturating_sub(self.cached.unwrap_or(0))))
                .output_tokens(self.output)
                .cache_read_tokens(self.cached)
                .reasoning_tokens(self.thoughts)
                .model(model),
        );
    }
}

/// Models that responded in the stream.
#[derive(Debug, Default, PartialEq)]
enum Models {
    #[default]
    None,
    One(String),
    Several,
}

/// Usage of results, reduced to what each of them adds.
#[derive(Debug, Default)]
pub(super) struct RunUsage {
    models: Models,
    before: BTreeMap<Option<String>, TokenCounts>,
    /// Whether the first result includes earlier runs.
    resumed: bool,
}

impl RunUsage {
    /// Marks the session as resumed: its first result is a base line, and only messages count until then.
    pub(super) fn mark_resumed(&mut self) {
        self.resumed = true;
    }

    /// Records a model that responded.
    pub(super) fn record_model(&mut self, model: &str) {
        match &self.models {
            Models::None => self.models = Models::One(model.to_owned()),
            Models::One(known) if known != model => self.models = Models::Several,
            _ => {}
        }
    }

    /// Pushes what a result adds, by model if the counts of the models add up to the total.
    pub(super) fn result(&mut self, usage: Option<Usage>, stats: Option<Stats<'_>>, facts: &mut Facts<'_>) {
        let total = usage.map(TokenCounts::from);
        let models: Vec<(Option<String>, TokenCounts)> = stats
            .and_then(|stats| stats.models)
            .into_iter()
            .flatten()
            .map(|(name, model)| (Some(name.to_string()), TokenCounts::from(model.tokens)))
            .collect();
        let sum = |of: fn(&TokenCounts) -> Option<u64>| models.iter().filter_map(|(_, it)| of(it)).fold(0, u64::saturating_add);
        let adds_up = !models.is_empty()
            && total.is_none_or(|total| {
                sum(|it| it.input) == total.input.unwrap_or(0) && sum(|it| it.output) == total.output.unwrap_or(0)
            });
        let main = match &self.models {
            Models::One(model) => Some(model.clone()),
            Models::None | Models::Several => None,
        };
        let reported = if adds_up { models } else { total.map(|total| (main, total)).into_iter().collect() };
        let is_baseline = std::mem::take(&mut self.resumed);
        for (model, now) in reported {
            let earlier = self.before.insert(model.clone(), now).unwrap_or_default();
            if is_baseline {
                continue;
            }
            now.since(&earlier).report(model.map(Cow::Owned), UsageScope::Run, facts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{RunUsage, Stats, TokenCounts, Usage};
    use sabir_core::dialect::Facts;
    use sabir_core::event::{self, EventKind};

    fn counts(facts: &mut Facts<'_>) -> Vec<(Option<u64>, Option<u64>, Option<u64>)> {
        let classes = |kind: EventKind<'_>| match kind {
            EventKind::Usage(event::Usage { input_tokens, cache_read_tokens, output_tokens, .. }) => {
                (input_tokens, cache_read_tokens, output_tokens)
            }
            other => panic!("{other:?}"),
        };
        facts.drain().map(|fact| classes(fact.kind)).collect()
    }

    #[test]
    fn result_reports_the_difference_to_the_previous_one() {
        let usage = |input, output| Usage {
            input_tokens: Some(input),
            output_tokens: Some(output),
            cache_read_input_tokens: Some(input / 2),
            ..Usage::default()
        };
        let mut totals = RunUsage::default();
        totals.record_model("m");
        let mut facts = Facts::default();
        totals.result(Some(usage(100, 10)), None, &mut facts);
        totals.result(Some(usage(300, 15)), None, &mut facts);
        totals.result(Some(usage(300, 15)), None, &mut facts);
        totals.result(Some(usage(40, 4)), None, &mut facts);
        let want = [(50, 50, 10), (100, 100, 5), (20, 20, 4)].map(|(a, b, c)| (Some(a), Some(b), Some(c)));
        assert_eq!(counts(&mut facts), want);
    }

    #[test]
    fn first_result_of_a_resumed_session_is_the_base_line() {
        let usage = |input| Usage {
            input_tokens: Some(input),
            output_tokens: Some(input / 10),
            cache_read_input_tokens: Some(0),
            ..Usage::default()
        };
        let mut totals = RunUsage::default();
        totals.mark_resumed();
        let mut facts = Facts::default();
        totals.result(Some(usage(300)), None, &mut facts);
        totals.result(Some(usage(500)), None, &mut facts);
        assert_eq!(counts(&mut facts), [(Some(200), Some(0), Some(20))]);
    }

    #[test]
    fn result_is_split_by_model_if_the_counts_add_up() {
        let stats = || -> Stats<'static> {
            serde_json::from_str(r#"{"models":{"a":{"tokens":{"prompt":10,"candidates":2,"cached":4,"thoughts":1}}}}"#)
                .expect("counters")
        };
        let usage = |input| Usage {
            input_tokens: Some(input),
            output_tokens: Some(2),
            cache_read_input_tokens: Some(4),
            ..Usage::default()
        };
        let mut facts = Facts::default();
        RunUsage::default().result(Some(usage(10)), Some(stats()), &mut facts);
        RunUsage::default().result(Some(usage(30)), Some(stats()), &mut facts);
        assert_eq!(counts(&mut facts), [(Some(6), Some(4), Some(2)), (Some(26), Some(4), Some(2))]);
        assert!(TokenCounts::default().is_zero());
    }
}
