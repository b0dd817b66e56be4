//! What was spent, by day, model, project and so on.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::civil::Date;
pub use jiff::tz::TimeZone;
use sabir_core::fold::CostSource;
use sabir_core::history::{Paid, Spent};
use sabir_core::price::{Billable, Price, Table};

use crate::account::{Counted, Session};

/// What rows are made by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// The day, in the time zone of the question.
    Day,
    /// The week, named by its Monday.
    Week,
    /// The month.
    Month,
    /// The session.
    Session,
    /// The model.
    Model,
    /// The agent.
    Agent,
    /// The working folder.
    Project,
}

impl By {
    /// All of them, in the order that people see.
    pub const ALL: [Self; 7] = [Self::Day, Self::Week, Self::Month, Self::Session, Self::Model, Self::Agent, Self::Project];

    /// The word that users type.
    pub fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Session => "session",
            Self::Model => "model",
            Self::Agent => "agent",
            Self::Project => "project",
        }
    }
}

/// What is asked.
#[derive(Debug, Clone)]
pub struct Question {
    /// What rows are made by.
    pub by: By,
    /// Only what happened at or after this moment, in milliseconds since 1970.
    pub since: Option<i64>,
    /// Only what happened before this one.
    pub until: Option<i64>,
    /// Where days begin.
    pub zone: TimeZone,
}

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
    /// The sessions that spent it.
    pub sessions: BTreeSet<usize>,
    /// Tokens that have no price.
    pub unpriced_tokens: u64,
    /// The same by model.
    pub unpriced: BTreeMap<String, u64>,
}

/// One row of the answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Row {
    /// The figures.
    pub sum: Sum,
    /// The same by model.
    pub models: BTreeMap<String, Sum>,
}

/// The answer: rows by their key, which sorts them, and the sum of all.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    /// The rows.
    pub rows: BTreeMap<String, Row>,
    /// All together.
    pub total: Row,
}

/// Adds up what counts.
pub fn usage<'l>(
    counted: impl IntoIterator<Item = Counted<'l>>,
    sessions: &[Session],
    question: &Question,
    prices: &Table,
) -> Answer {
    let mut answer = Answer::default();
    stretches(counted, question, prices, &mut |run| answer.add(run, sessions, question.by));
    answer
}

/// Adds up what counts by session, in the order of the sessions.
pub fn by_session<'l>(counted: impl IntoIterator<Item = Counted<'l>>, sessions: &[Session], prices: &Table) -> Vec<Sum> {
    let mut known: HashMap<&str, Option<&Price>, foldhash::fast::RandomState> = HashMap::default();
    let mut sums = vec![Sum::default(); sessions.len()];
    counted.into_iter().for_each(|counted| {
        let price = *known.entry(counted.model).or_insert_with(|| prices.find(counted.model));
        sums[counted.session].count(&counted, price);
    });
    sums
}

/// What a cell of a cube is of: a day, an agent, a model and a project, which is empty when it is not known.
pub type Cell = [String; 4];

/// Adds up what counts by day, agent, model and project at once. What rows of the question would be made by does not matter.
pub fn cube<'l>(
    counted: impl IntoIterator<Item = Counted<'l>>,
    sessions: &[Session],
    question: &Question,
    prices: &Table,
) -> BTreeMap<Cell, Sum> {
    let mut cells: BTreeMap<Cell, Sum> = BTreeMap::new();
    stretches(counted, question, prices, &mut |run| {
        let session = &sessions[run.session];
        let project = session.cwd.clone().unwrap_or_default();
        let cell = [name_of_day(run.day, By::Day), session.agent.id.0.to_owned(), run.model.to_owned(), project];
        cells.entry(cell).or_default().add(&run.sum, run);
    });
    cells
}

/// Hands out responses that follow one another, added up.
fn stretches<'l>(
    counted: impl IntoIterator<Item = Counted<'l>>,
    question: &Question,
    prices: &Table,
    take: &mut dyn FnMut(&Run<'_>),
) {
    let mut days = Days { zone: &question.zone, quarter: i64::MIN, offset: 0 };
    let mut known: HashMap<&str, Option<&Price>, foldhash::fast::RandomState> = HashMap::default();
    let mut run: Option<Run<'_>> = None;
    counted.into_iter().for_each(|counted| {
        let at = counted.response.at;
        if question.since.is_some_and(|since| at < since) || question.until.is_some_and(|until| at >= until) {
            return;
        }
        let day = days.day(at);
        // The model of a whole log is one piece of text.
        let same_model = |run: &Run<'_>| std::ptr::eq(run.model, counted.model) || run.model == counted.model;
        let same = |run: &Run<'_>| run.session == counted.session && run.day == day && same_model(run);
        if !run.as_ref().is_some_and(same) {
            if let Some(run) = run.take() {
                take(&run);
            }
            let price = *known.entry(counted.model).or_insert_with(|| prices.find(counted.model));
            run = Some(Run { session: counted.session, model: counted.model, day, price, sum: Sum::default() });
        }
        if let Some(run) = &mut run {
            run.sum.count(&counted, run.price);
        }
    });
    if let Some(run) = run {
        take(&run);
    }
}

/// Responses that follow one another in one session, on one day, of one model. Nearly all do, so a row is looked up
/// once for many.
struct Run<'c> {
    session: usize,
    model: &'c str,
    day: i64,
    price: Option<&'c Price>,
    sum: Sum,
}

impl Answer {
    fn add(&mut self, run: &Run<'_>, sessions: &[Session], by: By) {
        let session = &sessions[run.session];
        let key = match by {
            By::Day | By::Week | By::Month => name_of_day(run.day, by),
            By::Session => session.id.clone(),
            By::Model => run.model.to_owned(),
            By::Agent => session.agent.id.0.to_owned(),
            By::Project => session.cwd.clone().unwrap_or_else(|| "unknown".to_owned()),
        };
        for row in [self.rows.entry(key).or_default(), &mut self.total] {
            row.sum.add(&run.sum, run);
            row.models.entry(run.model.to_owned()).or_default().add(&run.sum, run);
        }
    }
}

#[derive(Clone, Copy)]
enum Cost {
    Reported(f64),
    Computed(f64),
    Unknown,
}

fn cost(counted: &Counted<'_>, price: Option<&Price>) -> Cost {
    match counted.response.cost {
        Some(Paid::Reported(cost)) => return Cost::Reported(cost),
        Some(Paid::Computed(cost)) => return Cost::Computed(cost),
        Some(Paid::Unknown) => return Cost::Unknown,
        None => {}
    }
    let Spent { input, cache_read, cache_write, output, cache_write_1h, .. } = counted.response.spent;
    let tokens = Billable {
        uncached_input: input,
        cache_read,
        cache_write_5m: cache_write.saturating_sub(cache_write_1h),
        cache_write_1h: cache_write_1h.min(cache_write),
        output,
    };
    match price.and_then(|price| price.cost(&tokens)) {
        Some(parts) => Cost::Computed(parts.total()),
        None => Cost::Unknown,
    }
}

/// What a response cost, where that is known.
pub fn cost_of(counted: &Counted<'_>, price: Option<&Price>) -> Option<f64> {
    match cost(counted, price) {
        Cost::Reported(cost) | Cost::Computed(cost) => Some(cost),
        Cost::Unknown => None,
    }
}

impl Sum {
    fn count(&mut self, counted: &Counted<'_>, price: Option<&Price>) {
        self.spent.add(&counted.response.spent);
        self.responses += 1;
        self.calls += u64::from(counted.response.calls);
        match cost(counted, price) {
            Cost::Reported(cost) => {
                self.cost += cost;
                self.reported += 1;
            }
            Cost::Computed(cost) => {
                self.cost += cost;
                self.computed += 1;
            }
            Cost::Unknown => self.unpriced_tokens += counted.response.spent.total(),
        }
    }

    fn add(&mut self, other: &Self, run: &Run<'_>) {
        self.spent.add(&other.spent);
        self.responses += other.responses;
        self.calls += other.calls;
        self.cost += other.cost;
        self.reported += other.reported;
        self.computed += other.computed;
        self.unpriced_tokens += other.unpriced_tokens;
        self.sessions.insert(run.session);
        if other.unpriced_tokens > 0 {
            *self.unpriced.entry(run.model.to_owned()).or_default() += other.unpriced_tokens;
        }
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

/// Which day a moment is in. Zones change their offset at quarters of an hour at the finest, so the rule of the zone is
/// asked once for each.
struct Days<'z> {
    zone: &'z TimeZone,
    quarter: i64,
    offset: i64,
}

impl Days<'_> {
    const QUARTER: i64 = 15 * 60_000;
    const DAY: i64 = 24 * 60 * 60_000;

    /// Days since 1970.
    fn day(&mut self, at: i64) -> i64 {
        let quarter = at.div_euclid(Self::QUARTER);
        if quarter != self.quarter {
            let moment = jiff::Timestamp::from_millisecond(at).unwrap_or_default();
            self.quarter = quarter;
            self.offset = i64::from(self.zone.to_offset(moment).seconds()) * 1000;
        }
        at.saturating_add(self.offset).div_euclid(Self::DAY)
    }
}

fn name_of_day(days: i64, by: By) -> String {
    let date = jiff::Timestamp::from_millisecond(days.saturating_mul(Days::DAY))
        .map_or(Date::ZERO, |moment| TimeZone::UTC.to_datetime(moment).date());
    match by {
        By::Month => format!("{:04}-{:02}", date.year(), date.month()),
        By::Week => {
            let since_monday = i64::from(date.weekday().to_monday_zero_offset());
            name_of_day(days - since_monday, By::Day)
        }
        _ => date.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::{By, name_of_day};

    #[test]
    fn days_weeks_and_months_have_names() {
        // 2026-11-15 is a Sunday.
        assert_eq!(name_of_day(20_772, By::Day), "2026-11-15");
        assert_eq!(name_of_day(20_772, By::Week), "2026-11-09");
        assert_eq!(name_of_day(20_772, By::Month), "2026-11");
    }
}
