//! What a run cost: what the agent says, what the price table says, and why one of them is missing.

use super::shape::{Cost, CostSource, ModelUse, SessionResult};
use crate::event::CostParts;
use crate::fold::tokens::{TokensReport, TokensSource, UsageSum, UsageTally};
use crate::price::Table;

/// Fills in the models and the cost.
pub(super) fn fill(result: &mut SessionResult, tally: &UsageTally, source: TokensSource, prices: &Table) {
    let mut reported = Some(0.0);
    let mut reported_parts = Some(CostParts::default());
    let mut computed: Result<CostParts, String> = Ok(CostParts::default());
    let mut models = Vec::new();
    for (model, sum) in tally.by_model() {
        // Agents that use one model often name it only once, at the start.
        let model = model.or_else(|| result.model.clone());
        let of_model = compute(&sum, model.as_deref(), prices);
        let of_model_usd = of_model.as_ref().ok().map(CostParts::total);
        reported = reported.zip(sum.reported_cost).map(|(all, one)| all + one);
        reported_parts = reported_parts.zip(sum.reported_parts).map(|(all, one)| all + one);
        computed = computed.and_then(|all| of_model.map(|one| all + one));
        models.push(ModelUse {
            model,
            tokens: TokensReport::new(&sum.tokens, source),
            cost_usd: sum.reported_cost.or(of_model_usd),
        });
    }
    if models.is_empty() {
        reported = None;
        reported_parts = None;
        computed = Err("the agent reports no tokens".to_owned());
    }
    let reported_parts = reported_parts.filter(|_| reported.is_some());
    let parts = reported_parts.as_ref().or(computed.as_ref().ok());
    let computed_usd = computed.as_ref().ok().map(CostParts::total);
    result.cost = Cost {
        total: reported.or(computed_usd),
        input: parts.map(|parts| parts.input),
        output: parts.map(|parts| parts.output),
        cache_read: parts.map(|parts| parts.cache_read),
        cache_write: parts.map(|parts| parts.cache_write),
        source: match (reported, computed_usd) {
            (Some(_), _) => CostSource::Reported,
            (None, Some(_)) => CostSource::Computed,
            (None, None) => CostSource::Unknown,
        },
        reported_usd: reported,
        computed_usd,
        reason: computed.err(),
    };
    result.models = models;
}

/// Tokens times prices, or why that can't be told.
fn compute(sum: &UsageSum, model: Option<&str>, prices: &Table) -> Result<CostParts, String> {
    match sum.tokens.total() {
        None => return Err("the agent reports no tokens".to_owned()),
        Some(0) => return Ok(CostParts::default()),
        Some(_) => {}
    }
    let model = model.ok_or("the agent does not say which model it used")?;
    let price = prices.find(model).ok_or_else(|| format!("no price is known for the model {model}"))?;
    if sum.tokens.undivided.is_some() {
        return Err("the agent reports only a total, not input and output".to_owned());
    }
    sum.bill.cost(price).ok_or_else(|| format!("the price of {model} lacks a class of tokens that was used"))
}
