//! What a run comes to, read from its timeline.

use std::collections::BTreeMap;

use sabir_core::event::{Outcome, ToolStatus};
use sabir_core::fold::TokensReport;
use sabir_core::fold::timeline::{Item, Step, What};
use sabir_core::time::Timestamp;

/// A run in figures.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Facts {
    pub(crate) agent: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) cwd: Option<String>,
    pub(crate) turns: usize,
    pub(crate) tools: usize,
    pub(crate) failed: usize,
    pub(crate) troubles: usize,
    /// Path, and the lines added and removed if they are known of all changes; in the order in which they were first changed.
    pub(crate) files: Vec<(String, Option<(u64, u64)>)>,
    pub(crate) plan: Vec<Step>,
    pub(crate) used: Used,
    pub(crate) cost: Option<f64>,
    /// Tokens of each turn.
    pub(crate) by_turn: Vec<u64>,
    /// The call that runs now: its name and what it does.
    pub(crate) tool: Option<u64>,
    pub(crate) outcome: Option<Outcome>,
    pub(crate) first: Option<i64>,
    pub(crate) last: Option<i64>,
}

/// Tokens by class.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Used {
    pub(crate) input: u64,
    pub(crate) cached: u64,
    pub(crate) written: u64,
    pub(crate) output: u64,
    pub(crate) total: Option<u64>,
}

impl Used {
    fn add(&mut self, tokens: &TokensReport) {
        let Some(total) = tokens.total else { return };
        self.input += tokens.uncached_input.unwrap_or(0);
        self.cached += tokens.cache_read.unwrap_or(0);
        self.written += tokens.cache_write.unwrap_or(0);
        self.output += tokens.output.unwrap_or(0);
        self.total = Some(self.total.unwrap_or(0) + total);
    }

    fn join(&mut self, other: Self) {
        self.input += other.input;
        self.cached += other.cached;
        self.written += other.written;
        self.output += other.output;
        self.total = match (self.total, other.total) {
            (None, None) => None,
            (one, two) => Some(one.unwrap_or(0) + two.unwrap_or(0)),
        };
    }
}

/// What one run of a session used so far.
#[derive(Default)]
struct Spent {
    used: Used,
    cost: Option<f64>,
}

impl Facts {
    pub(super) fn of(items: &[Item]) -> Self {
        let mut facts = Self::default();
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        let mut spent = Spent::default();
        for item in items {
            let (at, until) = (item.at.map(Timestamp::as_millis), item.until.map(Timestamp::as_millis));
            facts.first = facts.first.or(at);
            facts.last = facts.last.max(at).max(until);
            facts.troubles += usize::from(item.what.is_trouble());
            match &item.what {
                What::Run { agent, agent_version, model, cwd, .. } => {
                    facts.settle(&std::mem::take(&mut spent));
                    facts.agent = Some(agent.clone());
                    facts.version.clone_from(agent_version);
                    facts.model = model.clone().or(facts.model.take());
                    facts.cwd = cwd.clone().or(facts.cwd.take());
                    (facts.outcome, facts.tool) = (None, None);
                }
                What::Turn { tokens, cost_usd, .. } => {
                    facts.turns += 1;
                    let total = tokens.as_ref().and_then(|tokens| tokens.total);
                    facts.by_turn.push(total.unwrap_or(0));
                    if let Some(tokens) = tokens {
                        spent.used.add(tokens);
                    }
                    if let Some(cost) = cost_usd {
                        spent.cost = Some(spent.cost.unwrap_or(0.0) + cost);
                    }
                }
                What::Tool { status, .. } => {
                    facts.tools += 1;
                    facts.failed += usize::from(status.is_some_and(|status| status != ToolStatus::Ok));
                    if status.is_none() {
                        facts.tool = Some(item.id);
                    }
                }
                What::File { path, added, removed, .. } => {
                    let place = *places.entry(path).or_insert(facts.files.len());
                    if place == facts.files.len() {
                        facts.files.push((path.clone(), Some((0, 0))));
                    }
                    let lines = &mut facts.files[place].1;
                    *lines = lines
                        .zip(added.zip(*removed))
                        .map(|(all, one)| (all.0.saturating_add(one.0), all.1.saturating_add(one.1)));
                }
                What::Plan { items } => facts.plan.clone_from(items),
                What::End { outcome, tokens, cost_usd, .. } => {
                    facts.outcome = Some(*outcome);
                    facts.tool = None;
                    // The end knows better than the turns: it counts what is of no turn too.
                    if let Some(tokens) = tokens.as_ref().filter(|tokens| tokens.total.is_some()) {
                        spent.used = Used::default();
                        spent.used.add(tokens);
                    }
                    spent.cost = cost_usd.or(spent.cost);
                }
                _ => {}
            }
        }
        facts.settle(&spent);
        facts
    }

    fn settle(&mut self, spent: &Spent) {
        self.used.join(spent.used);
        if let Some(cost) = spent.cost {
            self.cost = Some(self.cost.unwrap_or(0.0) + cost);
        }
    }
}
