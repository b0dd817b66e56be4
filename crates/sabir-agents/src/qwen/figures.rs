//! Qwen Code's token figures.
//!
//! Its input contains what was cached, and its output contains thoughts. The figures of a result count the requests
//! that no message shows (sub-agents in the background, its own memory) and grow over the prompts of a process. A
//! resumed session starts with the figures of its earlier runs, and nothing in the stream says so: who started it has to.

use std::borrow::Cow;
use std::collections::BTreeMap;

use sabir_core::dialect::Facts;
use sabir_core::event::{self, UsageScope};
use sabir_core::json::{self, Str};
use serde::Deserialize;

/// `usage` of a message or a result.
#[derive(Deserialize, Clone, Copy)]
pub(super) struct Usage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
}

/// `stats` of a result, which only `--output-format json` has.
#[derive(Deserialize)]
pub(super) struct Stats<'a> {
    #[serde(borrow, default, deserialize_with = "json::lenient")]
    models: Option<BTreeMap<Str<'a>, Model>>,
}

#[derive(Deserialize)]
struct Model {
    tokens: Counters,
}

#[derive(Deserialize)]
struct Counters {
    prompt: Option<u64>,
    candidates: Option<u64>,
    cached: Option<u64>,
    thoughts: Option<u64>,
}

/// Tokens as they are counted here: `cached` is a part of `input`, `thoughts` of `output`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Figures {
    input: Option<u64>,
    output: Option<u64>,
    cached: Option<u64>,
    thoughts: Option<u64>,
}

impl From<Usage> for Figures {
    fn from(usage: Usage) -> Self {
        let Usage { input_tokens, output_tokens, cache_read_input_tokens } = usage;
        Self { input: input_tokens, output: output_tokens, cached: cache_read_input_tokens, thoughts: None }
    }
}

impl From<Counters> for Figures {
    fn from(counters: Counters) -> Self {
        let Counters { prompt, candidates, cached, thoughts } = counters;
        Self { input: prompt, output: candidates, cached, thoughts }
    }
}

impl Figures {
    /// Messages that are only a part of a response have zeros.
    pub(super) fn is_nothing(&self) -> bool {
        self.input.unwrap_or(0) == 0 && self.output.unwrap_or(0) == 0
    }

    /// What was added since; all of it when a figure went down, since it is no continuation then.
    fn since(&self, earlier: &Self) -> Self {
        let grown = |now: Option<u64>, then: Option<u64>| match now {
            Some(now) => now.checked_sub(then.unwrap_or(0)).map(Some),
            None => Some(None),
        };
        let added = || {
            Some(Self {
                input: grown(self.input, earlier.input)?,
                output: grown(self.output, earlier.output)?,
                cached: grown(self.cached, earlier.cached)?,
                thoughts: grown(self.thoughts, earlier.thoughts)?,
            })
        };
        added().unwrap_or(*self)
    }

    /// Reports them in the vocabulary's disjoint classes.
    pub(super) fn report<'a>(self, model: Option<Cow<'a, str>>, scope: UsageScope, facts: &mut Facts<'a>) {
        if self.is_nothing() {
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

/// The models that answered, as far as the stream shows them.
#[derive(Debug, Default, PartialEq)]
enum Models {
    #[default]
    None,
    One(String),
    Several,
}

/// The figures of results, reduced to what each of them adds.
#[derive(Debug, Default)]
pub(super) struct Tally {
    models: Models,
    before: BTreeMap<Option<String>, Figures>,
    /// The first result begins with what earlier runs used.
    resumed: bool,
}

impl Tally {
    /// The session was there before this run: what its messages say counts, and its first result says nothing.
    pub(super) fn resume(&mut self) {
        self.resumed = true;
    }

    /// Takes note of a model that answered.
    pub(super) fn answered(&mut self, model: &str) {
        match &self.models {
            Models::None => self.models = Models::One(model.to_owned()),
            Models::One(known) if known != model => self.models = Models::Several,
            _ => {}
        }
    }

    /// Reports what a result adds, by model where its counters add up to the whole.
    pub(super) fn result(&mut self, usage: Option<Usage>, stats: Option<Stats<'_>>, facts: &mut Facts<'_>) {
        let whole = usage.map(Figures::from);
        let models: Vec<(Option<String>, Figures)> = stats
            .and_then(|stats| stats.models)
            .into_iter()
            .flatten()
            .map(|(name, model)| (Some(name.to_string()), Figures::from(model.tokens)))
            .collect();
        let sum = |of: fn(&Figures) -> Option<u64>| models.iter().filter_map(|(_, it)| of(it)).fold(0, u64::saturating_add);
        let adds_up = !models.is_empty()
            && whole.is_none_or(|whole| {
                sum(|it| it.input) == whole.input.unwrap_or(0) && sum(|it| it.output) == whole.output.unwrap_or(0)
            });
        let main = match &self.models {
            Models::One(model) => Some(model.clone()),
            Models::None | Models::Several => None,
        };
        let reported = if adds_up { models } else { whole.map(|whole| (main, whole)).into_iter().collect() };
        let unknown = std::mem::take(&mut self.resumed);
        for (model, now) in reported {
            let earlier = self.before.insert(model.clone(), now).unwrap_or_default();
            if unknown {
                continue;
            }
            now.since(&earlier).report(model.map(Cow::Owned), UsageScope::Run, facts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Figures, Stats, Tally, Usage};
    use sabir_core::dialect::Facts;
    use sabir_core::event::{self, EventKind};

    fn told(facts: &mut Facts<'_>) -> Vec<(Option<u64>, Option<u64>, Option<u64>)> {
        let classes = |kind: EventKind<'_>| match kind {
            EventKind::Usage(event::Usage { input_tokens, cache_read_tokens, output_tokens, .. }) => {
                (input_tokens, cache_read_tokens, output_tokens)
            }
            other => panic!("{other:?}"),
        };
        facts.drain().map(|fact| classes(fact.kind)).collect()
    }

    #[test]
    fn a_second_result_adds_what_is_new() {
        let usage = |input, output| Usage {
            input_tokens: Some(input),
            output_tokens: Some(output),
            cache_read_input_tokens: Some(input / 2),
        };
        let mut tally = Tally::default();
        tally.answered("m");
        let mut facts = Facts::default();
        tally.result(Some(usage(100, 10)), None, &mut facts);
        tally.result(Some(usage(300, 15)), None, &mut facts);
        tally.result(Some(usage(300, 15)), None, &mut facts);
        tally.result(Some(usage(40, 4)), None, &mut facts);
        let want = [(50, 50, 10), (100, 100, 5), (20, 20, 4)].map(|(a, b, c)| (Some(a), Some(b), Some(c)));
        assert_eq!(told(&mut facts), want);
    }

    #[test]
    fn the_first_result_of_a_resumed_session_says_nothing() {
        let usage =
            |input| Usage { input_tokens: Some(input), output_tokens: Some(input / 10), cache_read_input_tokens: Some(0) };
        let mut tally = Tally::default();
        tally.resume();
        let mut facts = Facts::default();
        tally.result(Some(usage(300)), None, &mut facts);
        tally.result(Some(usage(500)), None, &mut facts);
        assert_eq!(told(&mut facts), [(Some(200), Some(0), Some(20))]);
    }

    #[test]
    fn counters_of_models_count_when_they_add_up() {
        let stats = || -> Stats<'static> {
            serde_json::from_str(r#"{"models":{"a":{"tokens":{"prompt":10,"candidates":2,"cached":4,"thoughts":1}}}}"#)
                .expect("counters")
        };
        let usage = |input| Usage { input_tokens: Some(input), output_tokens: Some(2), cache_read_input_tokens: Some(4) };
        let mut facts = Facts::default();
        Tally::default().result(Some(usage(10)), Some(stats()), &mut facts);
        Tally::default().result(Some(usage(30)), Some(stats()), &mut facts);
        assert_eq!(told(&mut facts), [(Some(6), Some(4), Some(2)), (Some(26), Some(4), Some(2))]);
        assert!(Figures::default().is_nothing());
    }
}
