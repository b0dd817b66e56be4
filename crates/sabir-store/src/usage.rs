//! What was spent, by day, model, project and so on.

mod day;
mod sum;

use std::collections::{BTreeMap, HashMap};

pub use jiff::tz::TimeZone;
use sabir_core::price::{Price, Table};

use crate::account::{Portion, Session, each_portion};
use crate::index::Log;
use crate::index::summary::Stretch;
use day::{Days, name_of_day};
pub use sum::{Sum, cost_of};
use sum::{Tally, has_one_price};

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
    /// Whether rows are told by model too.
    pub breakdown: bool,
}

impl Question {
    /// Whether it asks for what happened at that moment.
    fn has(&self, at: i64) -> bool {
        self.since.is_none_or(|since| at >= since) && self.until.is_none_or(|until| at < until)
    }
}

/// One row of the answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Row {
    /// The figures.
    pub sum: Sum,
    /// The same by model, if that was asked.
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

/// What a row is of, before it has a name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Key<'s> {
    Day(i64),
    Text(&'s str),
}

/// Adds up what counts and was chosen.
pub fn usage(
    logs: &[Log],
    sessions: &[Session],
    chosen: &dyn Fn(&Portion<'_>) -> bool,
    question: &Question,
    prices: &Table,
) -> Answer {
    let by = question.by;
    // Sums are large, so they stay where they are.
    let (mut cells, mut sums): (HashMap<_, usize, foldhash::fast::RandomState>, Vec<Sum>) = Default::default();
    let mut adding = Adding::new(question, prices, |group: Group<'_>, sum: &Sum| {
        let session = &sessions[group.session];
        let key = match by {
            By::Day | By::Week | By::Month => Key::Day(group.day),
            By::Session => Key::Text(&session.id),
            By::Model => Key::Text(group.model),
            By::Agent => Key::Text(session.agent.id.as_str()),
            By::Project => Key::Text(session.account(logs).cwd().unwrap_or("unknown")),
        };
        let cell = *cells.entry((key, group.model)).or_insert(sums.len());
        if cell == sums.len() {
            sums.push(Sum::default());
        }
        sums[cell].add_of(group.session, sum);
    });
    each_portion(logs, sessions, &mut |portion| {
        if chosen(&portion) {
            adding.add(&portion);
        }
    });
    adding.finish();
    // Always in one order: what is added up otherwise may differ in the last digit.
    let mut cells: Vec<_> = cells.into_iter().collect();
    cells.sort_unstable();
    let mut answer = Answer::default();
    for ((key, model), cell) in cells {
        let name = match key {
            Key::Day(day) => name_of_day(day, by),
            Key::Text(text) => text.to_owned(),
        };
        for row in [answer.rows.entry(name).or_default(), &mut answer.total] {
            row.add(&sums[cell], question.breakdown.then_some(model));
        }
    }
    answer.rows.values_mut().chain([&mut answer.total]).for_each(Row::settle);
    answer
}

impl Row {
    fn add(&mut self, sum: &Sum, of_model: Option<&str>) {
        self.sum.add(sum);
        if let Some(model) = of_model {
            self.models.entry(model.to_owned()).or_default().add(sum);
        }
    }

    fn settle(&mut self) {
        self.models.values_mut().chain([&mut self.sum]).for_each(Sum::settle);
    }
}

/// Adds up what counts by session, in the order of the sessions.
pub fn by_session(logs: &[Log], sessions: &[Session], prices: &Table) -> Vec<Sum> {
    let whole = Question { by: By::Session, since: None, until: None, zone: TimeZone::UTC, breakdown: false };
    let mut sums = vec![Sum::default(); sessions.len()];
    let mut adding = Adding::new(&whole, prices, |group: Group<'_>, sum: &Sum| sums[group.session].add_of(group.session, sum));
    each_portion(logs, sessions, &mut |portion| adding.add(&portion));
    adding.finish();
    sums.iter_mut().for_each(Sum::settle);
    sums
}

/// What a cell of a cube is of: a day, an agent, a model and a project, which is empty when it is not known.
pub type Cell = [String; 4];

/// Adds up what counts by day, agent, model and project at once. What rows of the question would be made by does not matter.
pub fn cube(logs: &[Log], sessions: &[Session], question: &Question, prices: &Table) -> BTreeMap<Cell, Sum> {
    let mut cells: BTreeMap<(i64, [&str; 3]), Sum> = BTreeMap::new();
    let mut adding = Adding::new(question, prices, |group: Group<'_>, sum: &Sum| {
        let session = &sessions[group.session];
        let project = session.account(logs).cwd().unwrap_or_default();
        cells.entry((group.day, [session.agent.id.as_str(), group.model, project])).or_default().add_of(group.session, sum);
    });
    each_portion(logs, sessions, &mut |portion| adding.add(&portion));
    adding.finish();
    let named = cells.into_iter().map(|((day, [agent, model, project]), mut sum)| {
        sum.settle();
        ([name_of_day(day, By::Day), agent.to_owned(), model.to_owned(), project.to_owned()], sum)
    });
    named.collect()
}

/// What follows one another in one session, on one day, of one model. Nearly all does, so a row is looked up once for much.
#[derive(Clone, Copy, PartialEq)]
struct Group<'l> {
    session: usize,
    model: &'l str,
    day: i64,
}

/// Adds up what follows one another, and hands it out when something else comes.
struct Adding<'l, 'q, F> {
    question: &'q Question,
    days: Days<'q>,
    prices: &'q Table,
    known: HashMap<&'l str, Option<&'q Price>, foldhash::fast::RandomState>,
    open: Option<(Group<'l>, Tally<'q>)>,
    take: F,
}

impl<'l, 'q, F: FnMut(Group<'l>, &Sum)> Adding<'l, 'q, F> {
    fn new(question: &'q Question, prices: &'q Table, take: F) -> Self {
        Self { question, days: Days::new(&question.zone), prices, known: HashMap::default(), open: None, take }
    }

    fn add(&mut self, portion: &Portion<'l>) {
        let Portion { model, ref stretch, .. } = *portion;
        let price = *self.known.entry(model).or_insert_with(|| self.prices.find(model));
        let day = self.days.day(stretch.first);
        let is_of_one_day =
            day == self.days.day(stretch.last) && self.question.has(stretch.first) && self.question.has(stretch.last);
        if is_of_one_day && has_one_price(stretch, price) {
            return self.count(portion, stretch, day, price);
        }
        for response in portion.responses().filter(|response| self.question.has(response.at)) {
            let day = self.days.day(response.at);
            self.count(portion, &Stretch::of(&response), day, price);
        }
    }

    fn count(&mut self, portion: &Portion<'l>, stretch: &Stretch, day: i64, price: Option<&'q Price>) {
        let group = Group { session: portion.session, model: portion.model, day };
        let tally = match &mut self.open {
            Some((same, tally)) if *same == group => tally,
            _ => {
                self.finish();
                &mut self.open.insert((group, Tally::new(price))).1
            }
        };
        tally.count(stretch);
    }

    /// Hands out what is added up so far.
    fn finish(&mut self) {
        if let Some((group, tally)) = self.open.take() {
            (self.take)(group, &tally.finish(group.model));
        }
    }
}
