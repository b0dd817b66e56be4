//! Codex's token figures, which grow over a thread.

use sabir_core::event::{Usage, UsageScope};
use serde::Deserialize;

/// Tokens as Codex counts them: `cached` and `cache_write` are parts of `input`, `reasoning` is a part of `output`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub(super) struct Figures {
    #[serde(rename = "input_tokens")]
    pub(super) input: Option<u64>,
    #[serde(rename = "cached_input_tokens")]
    pub(super) cached: Option<u64>,
    #[serde(rename = "cache_write_input_tokens")]
    pub(super) cache_write: Option<u64>,
    #[serde(rename = "output_tokens")]
    pub(super) output: Option<u64>,
    #[serde(rename = "reasoning_output_tokens")]
    pub(super) reasoning: Option<u64>,
}

impl Figures {
    /// What was added since `earlier`; `None` when a figure went down, so that it is no continuation of it.
    fn since(&self, earlier: &Self) -> Option<Self> {
        let grown = |now: Option<u64>, then: Option<u64>| match (now, then) {
            (Some(now), then) => now.checked_sub(then.unwrap_or(0)).map(Some),
            (None, _) => Some(None),
        };
        Some(Self {
            input: grown(self.input, earlier.input)?,
            cached: grown(self.cached, earlier.cached)?,
            cache_write: grown(self.cache_write, earlier.cache_write)?,
            output: grown(self.output, earlier.output)?,
            reasoning: grown(self.reasoning, earlier.reasoning)?,
        })
    }

    fn is_nothing(&self) -> bool {
        [self.input, self.output].into_iter().all(|figure| figure.unwrap_or(0) == 0)
    }

    /// For people, where it is not known how much of it is of this run.
    pub(super) fn so_far(&self) -> String {
        let total = self.input.unwrap_or(0).saturating_add(self.output.unwrap_or(0));
        format!("{total} tokens in the thread so far, earlier runs included")
    }

    /// The figures in the vocabulary's disjoint classes.
    pub(super) fn usage(self, scope: UsageScope) -> Usage<'static> {
        let cached = self.cached.unwrap_or(0).saturating_add(self.cache_write.unwrap_or(0));
        Usage::new(scope)
            .input_tokens(self.input.map(|input| input.saturating_sub(cached)))
            .output_tokens(self.output)
            .cache_read_tokens(self.cached)
            .cache_write_tokens(self.cache_write)
            .reasoning_tokens(self.reasoning)
    }
}

/// Reduces figures that grow to what each report adds.
#[derive(Debug, Default)]
pub(super) struct Counter {
    total: Option<Figures>,
    /// The first total begins with what earlier runs used.
    resumed: bool,
}

impl Counter {
    /// The thread was there before this run. How much of its first total is of this run can't be known, so that it says
    /// nothing; those after it say what they add.
    pub(super) fn resume(&mut self) {
        self.resumed = true;
    }

    /// Whether the next total begins with what earlier runs used.
    pub(super) fn begins_before(&self) -> bool {
        self.resumed && self.total.is_none()
    }

    /// What a new total adds to the one before; `None` when that is nothing, as in a repeated report.
    ///
    /// Totals count the whole thread since 0.80 and one turn before that. A stream of those old versions has one turn,
    /// so that figures which grow are totals of the thread, and figures which go down can only be those of one turn.
    pub(super) fn add(&mut self, total: Figures) -> Option<Figures> {
        let added = self.total.and_then(|earlier| total.since(&earlier)).unwrap_or(total);
        let repeated = self.total.is_some() && added.is_nothing();
        let unknown = self.begins_before();
        self.total = Some(total);
        (!repeated && !unknown).then_some(added)
    }

    /// The same where the figures of the last response are given beside the total: they are what the first report adds,
    /// since its total may begin with an earlier run of the thread.
    pub(super) fn add_response(&mut self, total: Figures, last: Option<Figures>) -> Option<Figures> {
        let first = self.total.is_none();
        let added = self.add(total)?;
        if first { last.or(Some(added)) } else { Some(added) }
    }
}

#[cfg(test)]
mod tests {
    use super::{Counter, Figures};

    fn figures(input: u64, cached: u64, output: u64) -> Figures {
        Figures { input: Some(input), cached: Some(cached), output: Some(output), ..Figures::default() }
    }

    #[test]
    fn growing_totals_are_reduced_to_what_they_add() {
        let mut counter = Counter::default();
        assert_eq!(counter.add(figures(1000, 400, 25)), Some(figures(1000, 400, 25)));
        assert_eq!(counter.add(figures(2200, 900, 85)), Some(figures(1200, 500, 60)));
        assert_eq!(counter.add(figures(2200, 900, 85)), None);
    }

    #[test]
    fn totals_that_go_down_are_of_one_turn() {
        let mut counter = Counter::default();
        counter.add(figures(1000, 400, 25));
        assert_eq!(counter.add(figures(700, 500, 60)), Some(figures(700, 500, 60)));
    }

    #[test]
    fn a_run_that_reports_zeros_says_so() {
        assert_eq!(Counter::default().add(figures(0, 0, 0)), Some(figures(0, 0, 0)));
    }

    #[test]
    fn the_first_total_of_a_resumed_thread_says_nothing() {
        let mut counter = Counter::default();
        counter.resume();
        assert_eq!(counter.add(figures(2200, 900, 110)), None);
        assert_eq!(counter.add(figures(3700, 2000, 180)), Some(figures(1500, 1100, 70)));
    }

    #[test]
    fn what_an_earlier_run_used_is_left_out() {
        let mut counter = Counter::default();
        assert_eq!(counter.add_response(figures(2200, 900, 110), Some(figures(1200, 900, 60))), Some(figures(1200, 900, 60)));
        assert_eq!(counter.add_response(figures(3700, 2000, 180), None), Some(figures(1500, 1100, 70)));
    }
}
