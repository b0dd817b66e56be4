//! What was spent, in a form that is added up by whoever shows it: by day, agent, model or project.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use sabir_core::fold::{Tokens, TokensReport, TokensSource};
use sabir_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::auth::Deed;
use crate::hub::{Asker, Hub, Refused, Shared, malformed};
use crate::openapi::Refusals;
use crate::store::{SessionFilter, SessionRecord};

/// So many sessions are read at once.
const PAGE: usize = 500;
/// What is said of a hub's rows.
const NOTE: &str = "A session counts on the day on which it began (UTC), with its main model.";

/// What was spent.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct UsageRollup {
    /// `sabir.usage-cube/1`.
    pub schema: &'static str,
    /// By day, agent, model and project, in that order.
    pub rows: Vec<Row>,
    /// What one should know about the figures.
    pub note: Option<String>,
}

/// What was spent on one day, by one agent with one model in one project.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// As in `2026-11-16`.
    pub day: String,
    /// The agent.
    pub agent: String,
    /// The model; empty when it is not known.
    pub model: String,
    /// The working folder, or the workspace; empty when it is not known.
    pub project: String,
    /// How many sessions.
    pub sessions: u64,
    /// Their tokens.
    #[schema(value_type = Object)]
    pub tokens: TokensReport,
    /// What those cost that have a price; `null` when none has.
    pub cost_usd: Option<f64>,
}

/// What a row is of.
pub type Key = (String, String, String, String);

/// Adds figures up into rows.
#[derive(Debug, Default)]
pub struct UsageRollupBuilder(BTreeMap<Key, (u64, Tokens, Option<f64>)>);

impl UsageRollupBuilder {
    /// Adds what so many sessions spent: day, agent, model and project say to which row.
    pub fn add(&mut self, key: Key, sessions: u64, tokens: &Tokens, cost_usd: Option<f64>) {
        let (all, sum, cost) = self.0.entry(key).or_default();
        *all += sessions;
        sum.add(tokens);
        *cost = match (*cost, cost_usd) {
            (Some(before), Some(more)) => Some(before + more),
            (before, more) => before.or(more),
        };
    }

    /// All rows.
    pub fn finish(self, note: Option<String>) -> UsageRollup {
        let row = |((day, agent, model, project), (sessions, tokens, cost_usd)): (Key, (u64, Tokens, Option<f64>))| {
            let tokens = TokensReport::new(&tokens, TokensSource::Summed);
            Row { day, agent, model, project, sessions, tokens, cost_usd }
        };
        UsageRollup { schema: "sabir.usage-cube/1", rows: self.0.into_iter().map(row).collect(), note }
    }
}

/// From when to when; both are times as in RFC 3339, or days.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Asked {
    /// Not what was before this time or day.
    since: Option<String>,
    /// Nor what was at this time or later.
    until: Option<String>,
}

/// A span of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Period {
    /// Not what was before.
    pub since: Option<Timestamp>,
    /// Nor what was at this time or later.
    pub until: Option<Timestamp>,
}

impl Period {
    fn has(self, at: Timestamp) -> bool {
        self.since.is_none_or(|since| at >= since) && self.until.is_none_or(|until| at < until)
    }
}

/// What was spent, by day, agent, model and project.
#[utoipa::path(
    get,
    path = "/v1/usage",
    operation_id = "getUsage",
    tag = "sessions",
    params(Asked),
    responses(
        (status = 200, description = "Rows to be added up", body = UsageRollup),
        (status = 400, description = "Not a time"),
        Refusals,
    ),
    security(("token" = []))
)]
pub(crate) async fn usage(
    State(hub): State<Shared>,
    asker: Asker,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Json<UsageRollup>, Refused> {
    asker.may(Deed::See)?;
    let Query(Asked { since, until }) = asked.map_err(|error| malformed(error.body_text()))?;
    let time = |text: String| {
        let midnight = || Timestamp::parse(&format!("{text}T00:00:00Z"));
        Timestamp::parse(&text).or_else(midnight).ok_or_else(|| malformed("a time is written as in RFC 3339, or as a day"))
    };
    let period = Period { since: since.map(time).transpose()?, until: until.map(time).transpose()? };
    let known = hub.store.sessions.usage(period).await.map_err(|trouble| hub.trouble(trouble))?;
    match known {
        Some(cube) => Ok(Json(cube)),
        None => Ok(Json(of_overviews(&hub, period).await?)),
    }
}

/// What the overviews of all sessions say.
async fn of_overviews(hub: &Hub, period: Period) -> Result<UsageRollup, Refused> {
    let mut fold = UsageRollupBuilder::default();
    let mut cursor = None;
    loop {
        // A session that nothing came from since then spent nothing since then.
        let filter = SessionFilter { since: period.since, limit: PAGE, cursor, ..SessionFilter::default() };
        let page = hub.store.sessions.sessions(filter).await.map_err(|trouble| hub.trouble(trouble))?;
        for session in page.sessions {
            let SessionRecord { overview, created, .. } = hub.live.freshen(session).0;
            let began = overview.started.unwrap_or(created);
            let Some(usage) = overview.usage.filter(|_| period.has(began)) else { continue };
            let day: String = began.to_string().chars().take(10).collect();
            let project = overview.cwd.or(overview.workspace).unwrap_or_default();
            let key = (day, overview.agent.unwrap_or_default(), overview.model.unwrap_or_default(), project);
            fold.add(key, 1, &tokens(&usage), overview.cost_usd);
        }
        cursor = page.next;
        if cursor.is_none() {
            return Ok(fold.finish(Some(NOTE.to_owned())));
        }
    }
}

fn tokens(report: &TokensReport) -> Tokens {
    let TokensReport { uncached_input, cache_read, cache_write, output, reasoning, total, .. } = *report;
    let divided = Tokens { uncached_input, cache_read, cache_write, output, reasoning, ..Tokens::default() };
    let rest = total.unwrap_or(0).saturating_sub(divided.total().unwrap_or(0));
    Tokens { undivided: Some(rest).filter(|rest| *rest > 0), ..divided }
}
