//! Runs of the journal in the same list as the sessions that agents logged.

use std::io;

use sabir_core::agent::{self, Agent};
use sabir_core::event::Outcome;
use sabir_core::fold::CostSource;
use sabir_core::history::{Ledger, Paid, Response, Spent, id_of};
use serde::Deserialize;

use crate::history::{LogFile, Progress, Role};
use crate::index::Log;
use crate::layout::{Home, RunFolder};
use crate::summary::{self, State, Summary};

/// A run of the journal, as a log.
#[derive(Debug)]
pub struct RunLog {
    /// What it says in short.
    pub log: Log,
    /// The agent's id of the session that the run was a part of, once it is known.
    pub session: Option<String>,
    /// Whether it goes on.
    pub state: State,
}

/// The result as far as a list needs it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Short {
    #[serde(default)]
    agent_version: Option<String>,
    #[serde(default)]
    session_id: Option<String>,
    outcome: Outcome,
    #[serde(default)]
    models: Vec<ModelShare>,
    #[serde(default)]
    cost: Costs,
    #[serde(default)]
    tool_calls: Vec<serde::de::IgnoredAny>,
    #[serde(default)]
    duration_ms: Option<i64>,
}

#[derive(Default, Deserialize)]
struct Costs {
    #[serde(default)]
    source: CostSource,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ModelShare {
    model: Option<String>,
    tokens: Tokens,
    #[serde(default)]
    cost_usd: Option<f64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tokens {
    uncached_input: Option<u64>,
    cache_read: Option<u64>,
    cache_write: Option<u64>,
    output: Option<u64>,
    reasoning: Option<u64>,
    total: Option<u64>,
}

impl ModelShare {
    fn spent(&self) -> (Spent, bool) {
        let tokens = &self.tokens;
        let mut spent = Spent {
            input: tokens.uncached_input.unwrap_or(0),
            cache_read: tokens.cache_read.unwrap_or(0),
            cache_write: tokens.cache_write.unwrap_or(0),
            output: tokens.output.unwrap_or(0),
            reasoning: tokens.reasoning.unwrap_or(0),
            ..Spent::default()
        };
        // What the agent does not divide is input for the most part; it only can't be priced.
        let undivided = tokens.total.unwrap_or(0).saturating_sub(spent.total());
        spent.input = spent.input.saturating_add(undivided);
        (spent, undivided > 0)
    }
}

/// Every run of the journal that can be read. A run of an agent that this version does not know is left out.
pub fn runs(home: &Home) -> io::Result<Vec<RunLog>> {
    let folders = home.runs()?;
    Ok(folders.into_iter().filter_map(|folder| run(&folder, summary::summary(&folder).ok()?)).collect())
}

fn run(folder: &RunFolder, summary: Summary) -> Option<RunLog> {
    let Summary { state, meta, result, .. } = summary;
    let meta = meta?;
    let agent: &'static Agent = agent::find(&meta.agent)?;
    let started = meta.started.map(sabir_core::time::Timestamp::as_millis);
    let result: Option<Short> = result.and_then(|result| serde_json::from_slice(&result).ok());
    let mut ledger = Ledger::default();
    ledger.session = Some(folder.id().to_owned());
    ledger.cwd = Some(meta.cwd);
    ledger.version = meta.agent_version;
    ledger.saw(started);
    ledger.outcome = Some(if state == State::Died { Outcome::Crashed } else { Outcome::Incomplete });
    ledger.entitle(&meta.prompt);
    let mut session = None;
    if let Some(result) = result {
        ledger.last = started.zip(result.duration_ms).map(|(start, duration)| start.saturating_add(duration)).or(started);
        ledger.outcome = Some(result.outcome);
        ledger.version = result.agent_version.or(ledger.version);
        session = result.session_id;
        let mut calls = u16::try_from(result.tool_calls.len()).unwrap_or(u16::MAX);
        for share in result.models {
            let (spent, undivided) = share.spent();
            let name = share.model.unwrap_or_default();
            let cost = match (share.cost_usd, result.cost.source) {
                (Some(cost), CostSource::Reported) => Some(Paid::Reported(cost)),
                (Some(cost), _) => Some(Paid::Computed(cost)),
                (None, _) if undivided => Some(Paid::Unknown),
                (None, _) => None,
            };
            let id = id_of(format!("{} {name}", folder.id()));
            let model = ledger.model_number(&name);
            let at = ledger.last.unwrap_or(0);
            ledger.responses.push(Response { copied: false, id, at, model, calls: std::mem::take(&mut calls), spent, cost });
        }
    }
    let file = LogFile {
        agent,
        path: folder.path().to_path_buf(),
        role: Role::Run(folder.clone()),
        size: 0,
        modified: 0,
        identity: (0, 0),
    };
    Some(RunLog { log: Log { file, ledger: Box::new(ledger), progress: Progress::default() }, session, state })
}

#[cfg(test)]
mod tests {
    use super::{ModelShare, Spent};

    #[test]
    fn a_total_that_is_not_divided_counts_and_has_no_price() {
        let spent = |json: &str| serde_json::from_str::<ModelShare>(json).expect("a share").spent();
        let total = spent(r#"{"model":"m","tokens":{"output":110,"total":2310}}"#);
        assert_eq!(total, (Spent { input: 2200, output: 110, ..Spent::default() }, true));
        let divided = spent(r#"{"model":"m","tokens":{"uncachedInput":5,"cacheRead":1,"output":2,"total":8}}"#);
        assert_eq!(divided, (Spent { input: 5, cache_read: 1, output: 2, ..Spent::default() }, false));
    }
}
