//! Usage rollup: tokens and cost of all sessions by day, agent, model and project.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use sabir_core::fold::{Tokens, TokensReport, TokensSource};
use sabir_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::error::{ApiError, malformed};
use crate::extract::{ApiQuery, Viewer};
use crate::openapi::CommonErrors;
use crate::state::{AppState, ReportError as _, SharedState};
use crate::store::{SessionFilter, SessionRecord};

/// Number of sessions per read.
const PAGE: usize = 500;
/// Note on a rollup that is computed from overviews.
const NOTE: &str = "A session counts on the day on which it began (UTC), with its main model.";

/// Token usage and cost by day, agent, model and project, for clients to aggregate.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct UsageRollup {
    /// Always `sabir.usage-cube/1`.
    pub schema: &'static str,
    /// Rows, sorted by day, agent, model and project.
    pub rows: Vec<UsageRow>,
    /// Caveat about the numbers.
    pub note: Option<String>,
}

/// Usage of one agent and model on one day in one project.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageRow {
    /// Day, such as `2026-11-16`.
    pub day: String,
    /// Name of the agent.
    pub agent: String,
    /// Name of the model; empty if unknown.
    pub model: String,
    /// Working directory or workspace; empty if unknown.
    pub project: String,
    /// Number of sessions.
    pub sessions: u64,
    /// Token counts.
    #[schema(value_type = Object)]
    pub tokens: TokensReport,
    /// Cost of the tokens that have a price; `null` if none has.
    pub cost_usd: Option<f64>,
}

/// Day, agent, model and project of a row.
pub type UsageKey = (String, String, String, String);

/// Sums usage into rows.
#[derive(Debug, Default)]
pub struct UsageRollupBuilder(BTreeMap<UsageKey, (u64, Tokens, Option<f64>)>);

impl UsageRollupBuilder {
    /// Adds the usage of some sessions to a row.
    pub fn add(&mut self, key: UsageKey, sessions: u64, tokens: &Tokens, cost_usd: Option<f64>) {
        let (all, sum, cost) = self.0.entry(key).or_default();
        *all += sessions;
        sum.add(tokens);
        *cost = match (*cost, cost_usd) {
            (Some(before), Some(more)) => Some(before + more),
            (before, more) => before.or(more),
        };
    }

    /// The rollup.
    pub fn finish(self, note: Option<String>) -> UsageRollup {
        let row = |((day, agent, model, project), (sessions, tokens, cost_usd)): (UsageKey, (u64, Tokens, Option<f64>))| {
            let tokens = TokensReport::new(&tokens, TokensSource::Summed);
            UsageRow { day, agent, model, project, sessions, tokens, cost_usd }
        };
        UsageRollup { schema: "sabir.usage-cube/1", rows: self.0.into_iter().map(row).collect(), note }
    }
}

/// Period of a rollup. Times are RFC 3339 timestamps or days.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct UsageQuery {
    /// Start, inclusive.
    since: Option<String>,
    /// End, exclusive.
    until: Option<String>,
}

/// A half-open range of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Period {
    /// Start, inclusive.
    pub since: Option<Timestamp>,
    /// End, exclusive.
    pub until: Option<Timestamp>,
}

impl Period {
    fn contains(self, at: Timestamp) -> bool {
        self.since.is_none_or(|since| at >= since) && self.until.is_none_or(|until| at < until)
    }
}

/// Returns token usage and cost by day, agent, model and project.
#[utoipa::path(get, path = "/v1/usage", operation_id = "getUsage", tag = "sessions",
    params(UsageQuery),
    responses(
        (status = 200, description = "Usage, to be aggregated by the client", body = UsageRollup),
        (status = 400, description = "Invalid time"), CommonErrors,
    ))]
pub(crate) async fn usage(
    State(state): State<SharedState>,
    _: Viewer,
    ApiQuery(UsageQuery { since, until }): ApiQuery<UsageQuery>,
) -> Result<Json<UsageRollup>, ApiError> {
    let time = |text: String| {
        let midnight = || Timestamp::parse(&format!("{text}T00:00:00Z"));
        let invalid = || malformed(format_args!("invalid time `{text}`: use RFC 3339 or a day"));
        Timestamp::parse(&text).or_else(midnight).ok_or_else(invalid)
    };
    let period = Period { since: since.map(time).transpose()?, until: until.map(time).transpose()? };
    match state.store.sessions.usage(period).await.report(&state)? {
        Some(rollup) => Ok(Json(rollup)),
        None => Ok(Json(of_overviews(&state, period).await?)),
    }
}

/// Sums the overviews of all sessions.
async fn of_overviews(state: &AppState, period: Period) -> Result<UsageRollup, ApiError> {
    let mut rollup = UsageRollupBuilder::default();
    let mut cursor = None;
    loop {
        // A session without changes since the start of the period has no usage in it.
        let filter = SessionFilter { since: period.since, limit: PAGE, cursor, ..SessionFilter::default() };
        let page = state.store.sessions.sessions(filter).await.report(state)?;
        for session in page.sessions {
            let SessionRecord { overview, created, .. } = state.live.refresh(session).0;
            let started = overview.started.unwrap_or(created);
            let Some(usage) = overview.usage.filter(|_| period.contains(started)) else { continue };
            let day: String = started.to_string().chars().take(10).collect();
            let project = overview.cwd.or(overview.workspace).unwrap_or_default();
            let key = (day, overview.agent.unwrap_or_default(), overview.model.unwrap_or_default(), project);
            rollup.add(key, 1, &tokens(&usage), overview.cost_usd);
        }
        cursor = page.next;
        if cursor.is_none() {
            return Ok(rollup.finish(Some(NOTE.to_owned())));
        }
    }
}

fn tokens(report: &TokensReport) -> Tokens {
    let TokensReport { uncached_input, cache_read, cache_write, output, reasoning, total, .. } = *report;
    let classified = Tokens { uncached_input, cache_read, cache_write, output, reasoning, ..Tokens::default() };
    let rest = total.unwrap_or(0).saturating_sub(classified.total().unwrap_or(0));
    Tokens { undivided: Some(rest).filter(|rest| *rest > 0), ..classified }
}
