//! Tokens. Each model call has its figures; the sums that follow them leave sub-agents out.

use sabir_core::event::{Usage, UsageScope};
use serde::Deserialize;

/// Tokens and cost, of a call or of an agent. Cached tokens are a part of the input, reasoning of the output.
#[derive(Deserialize, Clone, Copy, Default, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub(super) struct Figures {
    pub(super) input_tokens: Option<u64>,
    pub(super) output_tokens: Option<u64>,
    pub(super) cache_read_tokens: Option<u64>,
    pub(super) cache_write_tokens: Option<u64>,
    pub(super) total_cost: Option<f64>,
}

impl Figures {
    /// Input and output, for comparing sums.
    pub(super) fn sum(self) -> (u64, u64) {
        (self.input_tokens.unwrap_or(0), self.output_tokens.unwrap_or(0))
    }

    /// The event; `None` when there are no figures, which Cline writes as zeros.
    pub(super) fn event(self, scope: UsageScope) -> Option<Usage<'static>> {
        if self.sum() == (0, 0) {
            return None;
        }
        let cached = self.cache_read_tokens.unwrap_or(0).saturating_add(self.cache_write_tokens.unwrap_or(0));
        Some(
            Usage::new(scope)
                // Input that is smaller than what was cached can't contain it.
                .input_tokens(self.input_tokens.map(|input| input.checked_sub(cached).unwrap_or(input)))
                .output_tokens(self.output_tokens)
                .cache_read_tokens(self.cache_read_tokens)
                .cache_write_tokens(self.cache_write_tokens)
                // A model without a price costs 0 in Cline's book.
                .cost_usd(self.total_cost.filter(|cost| *cost > 0.0)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{Figures, Usage, UsageScope};

    #[test]
    fn cached_tokens_are_taken_out_of_the_input() {
        let figures =
            Figures { input_tokens: Some(1_000), output_tokens: Some(5), cache_read_tokens: Some(400), ..Figures::default() };
        let event = figures.event(UsageScope::Message);
        assert!(matches!(event, Some(Usage { input_tokens: Some(600), cache_write_tokens: None, cost_usd: None, .. })));
        assert_eq!(Figures::default().event(UsageScope::Message), None);
    }
}
