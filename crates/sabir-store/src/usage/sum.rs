//! Figures added up, and what they cost.

use std::collections::BTreeMap;

use crate::index::summary::Stretch;
use sabir_core::fold::CostSource;
use sabir_core::history::{Paid, Response, Spent};
use sabir_core::price::{Bill, Billable, Price};

/// Figures of a row, or of all.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sum {
    /// Tokens.
    pub spent: Spent,
    /// Responses of models.
    pub responses: u64,
    /// Tool calls.
    pub calls: u64,
    /// Cost of what has a price.
    pub cost: f64,
    /// Responses whose cost the agent reports.
    pub reported: u64,
    /// Responses whose cost is computed from list prices.
    pub computed: u64,
    /// The sessions that spent it, each once.
    pub sessions: Vec<usize>,
    /// Tokens that have no price.
    pub unpriced_tokens: u64,
    /// The same by model.
    pub unpriced: BTreeMap<String, u64>,
}

impl Sum {
    /// Adds. Sessions may be there twice until [settled](Self::settle).
    pub(super) fn add(&mut self, other: &Self) {
        self.spent.add(&other.spent);
        self.responses += other.responses;
        self.calls += other.calls;
        self.cost += other.cost;
        self.reported += other.reported;
        self.computed += other.computed;
        self.sessions.extend_from_slice(&other.sessions);
        self.unpriced_tokens += other.unpriced_tokens;
        for (model, tokens) in &other.unpriced {
            *self.unpriced.entry(model.clone()).or_default() += tokens;
        }
    }

    /// Adds what a session spent.
    pub(super) fn add_of(&mut self, session: usize, spent: &Self) {
        self.add(spent);
        self.sessions.push(session);
    }

    /// Leaves every session once.
    pub(super) fn settle(&mut self) {
        self.sessions.sort_unstable();
        self.sessions.dedup();
    }

    /// Whether any tokens are known. Agents that do not report them leave responses without any.
    pub fn has_tokens(&self) -> bool {
        self.spent.total() > 0
    }

    /// Where the [full cost](Self::full_cost) is from: of a sum, the price table as soon as it has a part in it.
    pub fn source(&self) -> CostSource {
        match self.full_cost().1 {
            "unknown" => CostSource::Unknown,
            "reported" => CostSource::Reported,
            _ => CostSource::Computed,
        }
    }

    /// The cost, and where the figure is from; `None` when nothing of it has a price, or no tokens are known.
    pub fn cost(&self) -> (Option<f64>, &'static str) {
        match (self.reported, self.computed) {
            (0, 0) => (None, "unknown"),
            (0, _) if !self.has_tokens() && self.cost <= 0.0 => (None, "unknown"),
            (0, _) => (Some(self.cost), "computed"),
            (_, 0) => (Some(self.cost), "reported"),
            _ => (Some(self.cost), "mixed"),
        }
    }

    /// The cost of all of it, as for the result of a session; `None` when a part of it has no price.
    pub fn full_cost(&self) -> (Option<f64>, &'static str) {
        if self.unpriced_tokens > 0 { (None, "unknown") } else { self.cost() }
    }
}

/// The usage of one model, added up.
pub(super) struct Tally<'p> {
    sum: Sum,
    price: Option<&'p Price>,
    bill: Bill,
}

/// Whether the responses of a stretch cost together what they cost one by one: all of them are in the base tier and have a
/// price, or none of them is priced.
pub(super) fn has_one_price(stretch: &Stretch, price: Option<&Price>) -> bool {
    let Some(price) = price.filter(|_| stretch.responses > 1 && stretch.cost.is_none()) else { return true };
    price.threshold(stretch.longest_input) == 0 && price.rates(0).know(&billable(&stretch.spent))
}

impl<'p> Tally<'p> {
    pub(super) fn new(price: Option<&'p Price>) -> Self {
        Self { sum: Sum::default(), price, bill: Bill::default() }
    }

    /// Adds one response, or several that [have one price](has_one_price).
    pub(super) fn count(&mut self, stretch: &Stretch) {
        let Self { sum, price, bill } = self;
        let responses = u64::from(stretch.responses);
        sum.spent.add(&stretch.spent);
        sum.responses += responses;
        sum.calls += stretch.calls;
        match stretch.cost {
            Some(Paid::Reported(cost)) => {
                sum.cost += cost;
                sum.reported += responses;
            }
            Some(Paid::Computed(cost)) => {
                sum.cost += cost;
                sum.computed += responses;
            }
            cost => {
                let tokens = billable(&stretch.spent);
                let priced = price.filter(|_| cost.is_none()).map(|price| (price, price.threshold(stretch.longest_input)));
                match priced.filter(|(price, threshold)| price.rates(*threshold).know(&tokens)) {
                    Some((_, threshold)) => {
                        bill.add(threshold, &tokens);
                        sum.computed += responses;
                    }
                    None => sum.unpriced_tokens += stretch.spent.total(),
                }
            }
        }
    }

    /// What was spent on that model.
    pub(super) fn finish(mut self, model: &str) -> Sum {
        self.sum.cost += self.price.and_then(|price| self.bill.cost(price)).map_or(0.0, |parts| parts.total());
        if self.sum.unpriced_tokens > 0 {
            self.sum.unpriced.insert(model.to_owned(), self.sum.unpriced_tokens);
        }
        self.sum
    }
}

fn billable(spent: &Spent) -> Billable {
    let Spent { input, cache_read, cache_write, output, cache_write_1h, .. } = *spent;
    Billable {
        uncached_input: input,
        cache_read,
        cache_write_5m: cache_write.saturating_sub(cache_write_1h),
        cache_write_1h: cache_write_1h.min(cache_write),
        output,
    }
}

/// What a response cost, where that is known.
pub fn cost_of(response: &Response, price: Option<&Price>) -> Option<f64> {
    let mut tally = Tally::new(price);
    tally.count(&Stretch::of(response));
    tally.finish("").cost().0
}
