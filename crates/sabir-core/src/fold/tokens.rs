//! Counting every token once.
//!
//! Agents say the same tokens several times: per response, per turn, per run. The rule that makes one figure of them is
//! the vocabulary's: figures of one scope add up, and a figure of a wider scope replaces the narrower ones before it.
//!
//! ```text
//! message 10, message 20, run 31 (the agent counted a sub-agent too), message 5 (then it was killed)  →  31 + 5
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::agent::Accounting;
use crate::cut;
use crate::event::{CostParts, EventKind, Usage, UsageScope};
use crate::price::{Bill, Billable, Table};

/// Tokens in classes that mean the same for every agent. `None` is unknown, not zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tokens {
    /// Input that was neither read from nor written to the cache.
    pub uncached_input: Option<u64>,
    /// Input read from the cache.
    pub cache_read: Option<u64>,
    /// Input written to the cache.
    pub cache_write: Option<u64>,
    /// The part of `cache_write` that is kept for an hour.
    pub cache_write_1h: Option<u64>,
    /// Output, reasoning included.
    pub output: Option<u64>,
    /// The part of `output` that was reasoning.
    pub reasoning: Option<u64>,
    /// A total that the agent gives without saying of what it consists.
    pub undivided: Option<u64>,
}

impl Tokens {
    /// The tokens that a usage event tells.
    pub fn of_event(kind: &EventKind<'_>) -> Option<Self> {
        let EventKind::Usage(Usage {
            input_tokens,
            output_tokens,
            total_tokens,
            cache_read_tokens,
            cache_write_tokens,
            cache_write_1h_tokens,
            reasoning_tokens,
            ..
        }) = kind
        else {
            return None;
        };
        let classes = [*input_tokens, *output_tokens, *cache_read_tokens, *cache_write_tokens];
        // Of a total whose classes are not all known, the rest belongs to those that are not.
        let known = classes.into_iter().flatten().fold(0, u64::saturating_add);
        let undivided = total_tokens.filter(|_| input_tokens.is_none() || output_tokens.is_none());
        Some(Self {
            uncached_input: *input_tokens,
            cache_read: *cache_read_tokens,
            cache_write: *cache_write_tokens,
            cache_write_1h: *cache_write_1h_tokens,
            output: *output_tokens,
            reasoning: *reasoning_tokens,
            undivided: undivided.map(|total| total.saturating_sub(known)),
        })
    }

    /// The tokens by what they cost.
    fn billable(&self) -> Billable {
        let write = self.cache_write.unwrap_or(0);
        let write_1h = self.cache_write_1h.unwrap_or(0).min(write);
        Billable {
            uncached_input: self.uncached_input.unwrap_or(0),
            cache_read: self.cache_read.unwrap_or(0),
            cache_write_5m: write - write_1h,
            cache_write_1h: write_1h,
            output: self.output.unwrap_or(0),
        }
    }

    /// Adds figures; what either side knows is known.
    pub fn add(&mut self, other: &Self) {
        let sum = |a: &mut Option<u64>, b: Option<u64>| {
            if let Some(b) = b {
                *a = Some(a.unwrap_or(0).saturating_add(b));
            }
        };
        sum(&mut self.uncached_input, other.uncached_input);
        sum(&mut self.cache_read, other.cache_read);
        sum(&mut self.cache_write, other.cache_write);
        sum(&mut self.cache_write_1h, other.cache_write_1h);
        sum(&mut self.output, other.output);
        sum(&mut self.reasoning, other.reasoning);
        sum(&mut self.undivided, other.undivided);
    }

    /// All tokens: the four disjoint classes, or the agent's undivided total.
    pub fn total(&self) -> Option<u64> {
        let classes = [self.uncached_input, self.cache_read, self.cache_write, self.output];
        let divided =
            classes.into_iter().flatten().fold(None, |sum: Option<u64>, class| Some(sum.unwrap_or(0).saturating_add(class)));
        match (divided, self.undivided) {
            (Some(divided), Some(undivided)) => Some(divided.saturating_add(undivided)),
            (divided, undivided) => divided.or(undivided),
        }
    }

    /// The figures as the agent itself counts them.
    pub fn native(&self, accounting: Accounting) -> NativeUsage {
        let cached = self.cache_read.unwrap_or(0).saturating_add(self.cache_write.unwrap_or(0));
        let reasoning = self.reasoning.unwrap_or(0);
        let Accounting { input_includes_cache, output_excludes_reasoning } = accounting;
        NativeUsage {
            input: self.uncached_input.map(|input| if input_includes_cache { input.saturating_add(cached) } else { input }),
            output: self.output.map(|output| if output_excludes_reasoning { output.saturating_sub(reasoning) } else { output }),
            cache_read: self.cache_read,
            cache_write: self.cache_write,
            reasoning: self.reasoning,
            total: self.total(),
        }
    }
}

/// What the runtime itself counts as input and output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct NativeUsage {
    /// Input as the agent counts it; for some that includes the cached tokens.
    pub input: Option<u64>,
    /// Output as the agent counts it; for some that leaves reasoning out.
    pub output: Option<u64>,
    /// Cache reads.
    pub cache_read: Option<u64>,
    /// Cache writes.
    pub cache_write: Option<u64>,
    /// Reasoning.
    pub reasoning: Option<u64>,
    /// All tokens, each once.
    pub total: Option<u64>,
}

/// Comparable tokens: `uncachedInput`, `cacheRead`, `cacheWrite` and `output` are disjoint and sum to `total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TokensReport {
    /// Input that was neither read from nor written to the cache.
    pub uncached_input: Option<u64>,
    /// Input read from the cache.
    pub cache_read: Option<u64>,
    /// Input written to the cache.
    pub cache_write: Option<u64>,
    /// Output, reasoning included.
    pub output: Option<u64>,
    /// The part of `output` that was reasoning.
    pub reasoning: Option<u64>,
    /// All tokens, each once.
    pub total: Option<u64>,
    /// Where the figures come from.
    pub source: TokensSource,
}

impl TokensReport {
    /// The report of those figures.
    pub fn new(tokens: &Tokens, source: TokensSource) -> Self {
        Self {
            uncached_input: tokens.uncached_input,
            cache_read: tokens.cache_read,
            cache_write: tokens.cache_write,
            output: tokens.output,
            reasoning: tokens.reasoning,
            total: tokens.total(),
            source,
        }
    }
}

/// Where token figures come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum TokensSource {
    /// The agent gave a total.
    Reported,
    /// The sum of what it gave per response or turn.
    Summed,
    /// A floor: the run broke off before the agent could give all of it.
    Estimated,
    /// The agent gives none.
    Unknown,
}

/// What one model used.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct UsageSum {
    /// The tokens.
    pub tokens: Tokens,
    /// The cost as the agent reports it; `None` as soon as a part of it has no price.
    pub reported_cost: Option<f64>,
    /// The reported cost by class.
    pub reported_parts: Option<CostParts>,
    /// The same tokens by price tier. Tokens of a turn or a run, of which the single requests are not known, are in the base
    /// tier.
    pub bill: Bill,
}

type ByModel = BTreeMap<Option<String>, UsageSum>;

/// Adds up usage events by the rule above.
#[derive(Debug, Clone, Default)]
pub struct UsageTally {
    run: ByModel,
    turn: ByModel,
    message: ByModel,
}

/// Beyond this many models of one scope the others are counted together. Their tokens are right, and their cost is unknown
/// unless the agent reports it.
const MOST_MODELS: usize = 64;
/// The models that are counted together.
const OTHER_MODELS: &str = "(other models)";

impl UsageTally {
    /// Adds a usage event; ignores other kinds. Requests are sorted into the tiers of the embedded price table.
    pub fn event(&mut self, kind: &EventKind<'_>) {
        self.event_priced(kind, None);
    }

    /// Adds a usage event whose cost will be computed with `prices`, or with the embedded table.
    pub fn event_priced(&mut self, kind: &EventKind<'_>, prices: Option<&Table>) {
        let EventKind::Usage(Usage { cost_usd, cost_parts, model, scope, .. }) = kind else { return };
        let Some(tokens) = Tokens::of_event(kind) else { return };
        // Agents write 0 for models whose price they do not know.
        let cost_usd = cost_usd.filter(|cost| *cost > 0.0);
        if tokens == Tokens::default() && cost_usd.is_none() && cost_parts.is_none() {
            return;
        }
        let level = match scope {
            UsageScope::Message => &mut self.message,
            UsageScope::Turn => {
                self.message.clear();
                &mut self.turn
            }
            _ => {
                self.message.clear();
                self.turn.clear();
                &mut self.run
            }
        };
        let first = UsageSum { reported_cost: Some(0.0), reported_parts: Some(CostParts::default()), ..UsageSum::default() };
        let mut model = model.as_deref().map(|model| cut::name(model).into_owned());
        if level.len() >= MOST_MODELS && !level.contains_key(&model) {
            model = Some(OTHER_MODELS.to_owned());
        }
        let sum = level.entry(model).or_insert(first);
        sum.tokens.add(&tokens);
        let costs_nothing = tokens.total() == Some(0);
        match cost_usd {
            Some(cost) => sum.reported_cost = sum.reported_cost.map(|sum| sum + cost),
            None if costs_nothing => {}
            None => sum.reported_cost = None,
        }
        match cost_parts {
            Some(parts) => sum.reported_parts = sum.reported_parts.map(|sum| sum + *parts),
            None if costs_nothing => {}
            None => sum.reported_parts = None,
        }
        let billable = tokens.billable();
        let threshold = match scope {
            UsageScope::Message => prices.unwrap_or_else(|| Table::embedded()).threshold(billable.input()),
            _ => 0,
        };
        sum.bill.add(threshold, &billable);
    }

    /// What counts, by model. The model is `None` where the agent does not say.
    pub fn by_model(&self) -> BTreeMap<Option<String>, UsageSum> {
        let mut all = ByModel::new();
        for level in [&self.run, &self.turn, &self.message] {
            for (model, sum) in level {
                match all.get_mut(model) {
                    None => {
                        all.insert(model.clone(), sum.clone());
                    }
                    Some(known) => {
                        known.tokens.add(&sum.tokens);
                        known.reported_cost = known.reported_cost.zip(sum.reported_cost).map(|(a, b)| a + b);
                        known.reported_parts = known.reported_parts.zip(sum.reported_parts).map(|(a, b)| a + b);
                        known.bill.add_all(&sum.bill);
                    }
                }
            }
        }
        all
    }

    /// What counts, all models together.
    pub fn total(&self) -> Tokens {
        let mut total = Tokens::default();
        for level in [&self.run, &self.turn, &self.message] {
            level.values().for_each(|sum| total.add(&sum.tokens));
        }
        total
    }

    /// Where the total comes from, if the run was not broken off.
    pub fn source(&self) -> TokensSource {
        if self.total().total().is_none() {
            TokensSource::Unknown
        } else if self.turn.is_empty() && self.message.is_empty() {
            TokensSource::Reported
        } else {
            TokensSource::Summed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{TokensSource, UsageTally};
    use crate::event::{EventKind, Usage, UsageScope};
    use crate::price::Table;

    fn usage(scope: UsageScope, input: u64, model: &'static str) -> EventKind<'static> {
        Usage::new(scope).input_tokens(input).output_tokens(1).model(model).into()
    }

    #[test]
    fn a_wider_figure_replaces_the_narrower_ones_before_it() {
        let mut tally = UsageTally::default();
        for (scope, input, model) in [
            (UsageScope::Message, 10, "a"),
            (UsageScope::Message, 20, "a"),
            (UsageScope::Run, 31, "a"),
            (UsageScope::Run, 7, "b"),
        ] {
            tally.event(&usage(scope, input, model));
        }
        assert_eq!((tally.total().uncached_input, tally.source()), (Some(38), TokensSource::Reported));
        tally.event(&usage(UsageScope::Message, 5, "a"));
        assert_eq!((tally.total().uncached_input, tally.source()), (Some(43), TokensSource::Summed));
        assert_eq!(tally.by_model()[&Some("a".to_owned())].tokens.uncached_input, Some(36));
    }

    #[test]
    fn what_a_total_does_not_divide_is_counted_and_no_class_is_made_up() {
        let mut tally = UsageTally::default();
        let mut usage = usage(UsageScope::Turn, 0, "a");
        if let EventKind::Usage(Usage { input_tokens, output_tokens, total_tokens, .. }) = &mut usage {
            (*input_tokens, *output_tokens, *total_tokens) = (None, Some(110), Some(2_310));
        }
        tally.event(&usage);
        let total = tally.total();
        assert_eq!((total.uncached_input, total.output, total.undivided), (None, Some(110), Some(2_200)));
        assert_eq!(total.total(), Some(2_310));
    }

    #[test]
    fn usage_without_figures_is_unknown_and_not_zero() {
        let mut tally = UsageTally::default();
        let mut empty = usage(UsageScope::Run, 0, "a");
        if let EventKind::Usage(Usage { input_tokens, output_tokens, .. }) = &mut empty {
            (*input_tokens, *output_tokens) = (None, None);
        }
        tally.event(&empty);
        assert_eq!((tally.total().total(), tally.source()), (None, TokensSource::Unknown));
        assert!(tally.by_model().is_empty());
        // It does not replace what is known either.
        tally.event(&usage(UsageScope::Message, 10, "a"));
        tally.event(&empty);
        assert_eq!(tally.total().total(), Some(11));
    }

    #[test]
    fn models_beyond_the_limit_are_one_and_their_tokens_count() {
        let mut tally = UsageTally::default();
        for number in 0..1_000_u32 {
            let mut usage = usage(UsageScope::Message, 10, "");
            if let EventKind::Usage(Usage { model, .. }) = &mut usage {
                *model = Some(format!("model-{number}").into());
            }
            tally.event(&usage);
        }
        assert_eq!((tally.total().total(), tally.by_model().len()), (Some(11_000), super::MOST_MODELS + 1));
    }

    #[test]
    fn tiers_of_requests_are_kept_apart_and_totals_are_at_the_base_price() {
        let table = Table::parse(
            r#"{"taken":"2026-01-01","source":"a test","providers":{"p":{"models":{"a":{"input":1,"output":0,
                "tiers":[{"aboveInputTokens":100,"input":2},{"aboveInputTokens":1000,"input":4}]}}}}}"#,
        )
        .expect("a table");
        let mut tally = UsageTally::default();
        tally.event_priced(&usage(UsageScope::Run, 5_000, "a"), Some(&table));
        for input in [100, 101, 1_000, 1_001] {
            tally.event_priced(&usage(UsageScope::Message, input, "a"), Some(&table));
        }
        let cost = tally.by_model()[&Some("a".to_owned())].bill.cost(table.find("a").expect("known"));
        let dollars = 5_000.0 + 100.0 + 2.0 * 1_101.0 + 4.0 * 1_001.0;
        assert_eq!(cost.map(|cost| cost.input), Some(dollars / 1e6));
    }
}
