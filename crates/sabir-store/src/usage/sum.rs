//! Figures added up, and what they cost.

use std::collections::BTreeMap;

use sabir_core::fold::CostSource;
use sabir_core::history::{Paid, Response, Spent, Stretch};
use sabir_core::price::{Billable, Price, Rates};

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

    /// Where the cost is from: of a sum, the price table as soon as it has a part in it.
    pub fn source(&self) -> CostSource {
        match (self.reported, self.computed) {
            (0, 0) => CostSource::Unknown,
            (_, 0) => CostSource::Reported,
            (..) => CostSource::Computed,
        }
    }

    /// The cost, and where the figure is from; `None` when nothing of it has a price.
    pub fn cost(&self) -> (Option<f64>, &'static str) {
        match (self.reported, self.computed) {
            (0, 0) => (None, "unknown"),
            (0, _) => (Some(self.cost), "computed"),
            (_, 0) => (Some(self.cost), "reported"),
            _ => (Some(self.cost), "mixed"),
        }
    }
}

/// Responses of one model, added up. Tokens that have the same rates are priced together.
pub(super) struct Tally<'p> {
    sum: Sum,
    bill: Option<Bill<'p>>,
}

struct Bill<'p> {
    price: &'p Price,
    rates: Rates,
    /// What these rates hold for and is not in the sum yet.
    tokens: Billable,
}

/// Whether the responses of a stretch cost together what they cost one by one: all of them have the same rates, or no rates
/// are asked.
pub(super) fn has_one_price(stretch: &Stretch, price: Option<&Price>) -> bool {
    let Some(price) = price.filter(|_| stretch.responses > 1 && stretch.cost.is_none()) else { return true };
    let shortest = price.rates(0);
    shortest.hold_for(stretch.longest_input) && shortest.know(&billable(&stretch.spent))
}

impl<'p> Tally<'p> {
    pub(super) fn new(price: Option<&'p Price>) -> Self {
        let bill = price.map(|price| Bill { price, rates: price.rates(0), tokens: Billable::default() });
        Self { sum: Sum::default(), bill }
    }

    /// Adds one response, or several that [have one price](has_one_price).
    pub(super) fn count(&mut self, stretch: &Stretch) {
        let Self { sum, bill } = self;
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
                let bill = bill.as_mut().filter(|_| cost.is_none());
                if bill.is_some_and(|bill| bill.takes(stretch, &mut sum.cost)) {
                    sum.computed += responses;
                } else {
                    sum.unpriced_tokens += stretch.spent.total();
                }
            }
        }
    }

    /// What was spent on that model.
    pub(super) fn finish(mut self, model: &str) -> Sum {
        if let Some(bill) = &mut self.bill {
            bill.settle(&mut self.sum.cost);
        }
        if self.sum.unpriced_tokens > 0 {
            self.sum.unpriced.insert(model.to_owned(), self.sum.unpriced_tokens);
        }
        self.sum
    }
}

impl Bill<'_> {
    /// Whether what was asked for has a price, and is on the bill then.
    fn takes(&mut self, stretch: &Stretch, cost: &mut f64) -> bool {
        if !self.rates.hold_for(stretch.longest_input) {
            self.settle(cost);
            self.rates = self.price.rates(stretch.longest_input);
        }
        let tokens = billable(&stretch.spent);
        let known = self.rates.know(&tokens);
        if known {
            self.tokens.add(&tokens);
        }
        known
    }

    fn settle(&mut self, cost: &mut f64) {
        let tokens = std::mem::take(&mut self.tokens);
        *cost += self.rates.cost(&tokens).map_or(0.0, |parts| parts.total());
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
