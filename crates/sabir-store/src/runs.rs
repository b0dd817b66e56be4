//! Runs of the journal in the same list as the sessions that agents logged.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use sabir_core::agent::{Agent, Registry};
use sabir_core::event::{Event, EventKind, Outcome, Prompt, Session};
use sabir_core::fold::{CostSource, Over, SessionResult};
use sabir_core::history::{Ledger, Paid, Response, Spent, id_of, id_with};
use sabir_core::time::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};

use crate::history::{LogFile, Look, Progress, Role, names};
use crate::index::summary::Account;
use crate::index::{Index, Kind, Log};
use crate::layout::{Home, RunFolder};
use crate::reader::{Damage, Reader};
use crate::reused::is_one_run;
use crate::summary::{self, State, Summary};
use crate::{record, whole};

/// A run of the journal, as a log.
#[derive(Debug)]
pub struct RunLog {
    /// What it says in short.
    pub log: Log,
    /// The agent's id of the session that the run was a part of, once it is known.
    pub session: Option<String>,
    /// Whether it goes on.
    pub state: State,
    /// When its journal was closed, in milliseconds since 1970.
    pub ended: Option<i64>,
    /// What of its journal can't be read, beside a torn end.
    pub damage: Damage,
}

/// The result as far as a list needs it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Short {
    #[serde(default)]
    agent: Option<String>,
    #[serde(default)]
    agent_version: Option<String>,
    #[serde(default)]
    session_id: Option<String>,
    outcome: Outcome,
    #[serde(default)]
    models: Vec<ModelShare>,
    #[serde(default)]
    cost: Costs,
    #[serde(default, deserialize_with = "length")]
    tool_calls: usize,
    #[serde(default)]
    duration_ms: Option<i64>,
}

/// How many items a list has.
fn length<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    Vec::<serde::de::IgnoredAny>::deserialize(deserializer).map(|items| items.len())
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

/// What there is in a journal.
#[derive(Debug, Default)]
pub struct Runs {
    /// The runs.
    pub runs: Vec<RunLog>,
    /// Runs that can't be told of, and why.
    pub failures: Vec<(PathBuf, io::Error)>,
}

/// What a run tells that is not written any more, beside its account. As long as its segments are the same, it tells the
/// same.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct KnownRun {
    /// Made of what its segments were.
    stamp: u64,
    agent: String,
    session: Option<String>,
    state: State,
    ended: Option<i64>,
    damage: Damage,
}

/// Every run of the journal, where an index knows some of them.
pub(crate) fn runs(home: &Home, registry: &Registry, index: &mut Index) -> io::Result<Runs> {
    let mut all = Runs::default();
    for folder in home.runs()? {
        match read_folder(&folder, registry, index, &mut all.runs) {
            // It was removed meanwhile.
            Err(error) if error.kind() != io::ErrorKind::NotFound => all.failures.push((folder.path().to_path_buf(), error)),
            _ => {}
        }
    }
    Ok(all)
}

/// Reads the runs in a folder: one, unless its id was used more than once.
fn read_folder(folder: &RunFolder, registry: &Registry, index: &mut Index, runs: &mut Vec<RunLog>) -> io::Result<()> {
    let names = names(index, folder.path(), &Look::at(folder.path())?)?;
    let numbers = folder.segments_of(names.iter().map(|(name, _)| name));
    if is_one_run(&numbers) {
        runs.extend(known_or_read(folder, &numbers, registry, index)?);
        return Ok(());
    }
    let mut outcome = Ok(());
    for part in folder.runs()? {
        let numbers = part.segments_of(names.iter().map(|(name, _)| name));
        match known_or_read(&part, &numbers, registry, index) {
            Ok(run) => runs.extend(run),
            Err(error) => outcome = Err(error),
        }
    }
    outcome
}

/// What the events of a run tell where its first or its last record is lost.
struct Told {
    result: Option<Short>,
    started: Option<Timestamp>,
    last: Option<Timestamp>,
    cwd: Option<String>,
    prompt: Option<String>,
    ended: bool,
}

impl Told {
    fn by_events(folder: &RunFolder) -> io::Result<Self> {
        let mut told = Self { result: None, started: None, last: None, cwd: None, prompt: None, ended: false };
        let (mut fold, mut calls) = (SessionResult::fold(), 0);
        let mut count = |over: &mut Over| {
            calls += over.calls.len();
            *over = Over::default();
        };
        whole::kept_events(folder, &mut |event| {
            told.started = told.started.or(event.at);
            told.last = event.at.or(told.last);
            match &event.kind {
                EventKind::Session(Session { cwd: Some(cwd), .. }) if told.cwd.is_none() => {
                    told.cwd = Some(cwd.clone().into_owned());
                }
                EventKind::Prompt(Prompt { text, .. }) if told.prompt.is_none() => told.prompt = Some(text.clone().into_owned()),
                EventKind::Exited(_) => told.ended = true,
                _ => {}
            }
            fold.event(event);
            count(fold.over());
        })?;
        count(fold.close());
        let result: Option<Short> = serde_json::to_vec(&fold.finish()).ok().and_then(|json| serde_json::from_slice(&json).ok());
        told.result = result.map(|result| Short { tool_calls: calls, ..result });
        Ok(told)
    }
}

/// A number that is another one when something was written to a run, or a part of it was removed, and for another version
/// of Sabir, which may make something else of its events. Who takes up a run again begins a segment.
fn stamp(folder: &RunFolder, numbers: &[u32]) -> io::Result<u64> {
    numbers.iter().try_fold(id_of(env!("CARGO_PKG_VERSION")), |stamp, number| {
        let look = Look::at(&folder.segment(*number))?;
        Ok(id_with(stamp, [u64::from(*number), look.size, look.modified.unsigned_abs(), look.identity.1]))
    })
}

/// A run: from what is known of it, from its summary, or from its events.
fn known_or_read(folder: &RunFolder, numbers: &[u32], registry: &Registry, index: &mut Index) -> io::Result<Option<RunLog>> {
    // Before anything of it is read: what is written meanwhile makes it another one.
    let stamp = stamp(folder, numbers)?;
    // Several runs in one folder are told apart by their first segments.
    let path = match (folder.span(), numbers.first()) {
        (Some(_), Some(first)) => folder.segment(*first),
        _ => folder.path().to_path_buf(),
    };
    if let Some((KnownRun { stamp: known, agent, session, state, ended, damage }, account)) = index.recall(Kind::Run, &path)
        && known == stamp
        && let Some(account) = Account::read(account)
    {
        let agent = agent_named(registry, agent);
        return Ok(Some(RunLog { log: log(folder, agent, account), session, state, ended, damage }));
    }
    let (summary, damage) = summary::checked(folder)?;
    let run = run(folder, summary, damage.beyond_the_end(), registry)?;
    if let Some(RunLog { log: Log { file, account, .. }, session, state, ended, damage }) = &run
        && *state != State::Running
    {
        let (agent, session) = (file.agent.id.as_str().to_owned(), session.clone());
        let known = KnownRun { stamp, agent, session, state: *state, ended: *ended, damage: *damage };
        index.remember(Kind::Run, &path, &known, account.as_bytes());
    }
    Ok(run)
}

fn run(folder: &RunFolder, summary: Summary, damage: Damage, registry: &Registry) -> io::Result<Option<RunLog>> {
    let Summary { state, meta, result, ended, .. } = summary;
    let mut result: Option<Short> = result.and_then(|result| serde_json::from_slice(&result).ok());
    let is_broken_off = state != State::Running && result.is_none();
    let told = if meta.is_none() || is_broken_off { Some(Told::by_events(folder)?) } else { None };
    let has_ended = result.is_some() || told.as_ref().is_some_and(|told| told.ended);
    let (mut started, mut last, mut cwd, mut prompt) = (None, None, None, None);
    if let Some(told) = told {
        result = result.or(told.result);
        (started, last, cwd, prompt) = (told.started, told.last, told.cwd, told.prompt);
    }
    let mut version = None;
    let name = match meta {
        Some(meta) => {
            (started, cwd, prompt) = (meta.started.or(started), Some(meta.cwd), Some(meta.prompt));
            version = meta.agent_version;
            Some(meta.agent)
        }
        None => result.as_ref().and_then(|result| result.agent.clone()),
    };
    // Who was killed at once has told nothing yet.
    let name = name.filter(|name| !name.is_empty());
    let name = match name {
        Some(name) => name,
        None if state == State::Running || !folder.has_records()? => return Ok(None),
        None => return Err(io::Error::other("the beginning of the run is damaged, and with it whose it was")),
    };
    let agent = agent_named(registry, name);
    let started = started.map(Timestamp::as_millis);
    let session = Some(folder.id().to_owned());
    let mut ledger = Ledger { session, cwd, version, outcome: Some(Outcome::Incomplete), ..Ledger::default() };
    ledger.saw(started);
    ledger.entitle(&prompt.unwrap_or_default());
    let mut session = None;
    if state == State::Running {
        ledger.saw(written(folder));
        session = session_so_far(folder)?;
    }
    if let Some(result) = result {
        let over = started.zip(result.duration_ms).map(|(start, duration)| start.saturating_add(duration));
        ledger.saw(over.or(last.map(Timestamp::as_millis)));
        if has_ended {
            ledger.outcome = Some(result.outcome);
        }
        ledger.version = result.agent_version.or(ledger.version);
        session = result.session_id;
        let mut calls = u32::try_from(result.tool_calls).unwrap_or(u32::MAX);
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
    Ok(Some(RunLog { log: log(folder, agent, Account::of(&ledger)), session, state, ended, damage }))
}

/// The agent of a run. A journal outlives the agents that a program knows, so an unknown one is an agent without dialects.
fn agent_named(registry: &Registry, name: String) -> Arc<Agent> {
    registry.find(&name).cloned().unwrap_or_else(|| Arc::new(Agent::new(name.clone(), name)))
}

/// When something was last written to a run, in milliseconds since 1970.
fn written(folder: &RunFolder) -> Option<i64> {
    let last = *folder.segments().ok()?.last()?;
    Look::at(&folder.segment(last)).ok().map(|look| look.modified / 1_000_000)
}

/// How many records are looked at for the id of a session. Agents that tell it do so in one of their first lines.
const FIRST: usize = 200;

/// The agent's id of the session that a run which goes on is a part of, if it was told.
fn session_so_far(folder: &RunFolder) -> io::Result<Option<String>> {
    let mut reader = Reader::of(folder.clone()).map_err(|trouble| io::Error::other(trouble.what))?;
    for _ in 0..FIRST {
        let Some(record) = reader.next()? else { break };
        if record.kind == record::Kind::Event
            && let Ok(event) = serde_json::from_slice::<Event<'_>>(record.payload)
            && let EventKind::Session(Session { session_id: Some(id), .. }) = event.kind
        {
            return Ok(Some(id.into_owned()));
        }
    }
    Ok(None)
}

fn log(folder: &RunFolder, agent: Arc<Agent>, account: Account) -> Log {
    let (path, role) = (folder.path().to_path_buf(), Role::Run(Box::new(folder.clone())));
    let file = LogFile { agent, path, role, size: 0, modified: 0, changed: 0, identity: (0, 0) };
    Log { file, account, progress: Progress::default() }
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
