//! `sabir ls`: the sessions, the latest first.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use clap::builder::PossibleValuesParser;
use sabir_core::event::Outcome;
use sabir_core::price::Table;
use sabir_core::readable::cents;
use sabir_core::time::Timestamp;
use sabir_store::account::Session;
use sabir_store::usage::{self, Sum};
use sabir_store::{
    Damage, RunFolder,
    whole::{self, Workspace},
};
use serde::Serialize;

use crate::cli::past::LsArguments;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::past::{self, Filter, Past, ShortIds};
use crate::print::human::{grouped, visible};
use crate::print::json::Out;
use crate::print::progress::Progress;
use crate::print::{self, table};
use crate::result::{Lists, Made, ResultJson};
use crate::when;

/// How many sessions a person sees.
const SHOWN: usize = 20;
/// How wide the name of a folder is at most.
const FOLDER: usize = 20;
/// The columns that a narrow terminal does without, in their order, and how much of the prompt is worth that.
const DROPPED: &[usize] = &[6, 4, 7, 5, 1];
const PROMPT: usize = 24;

pub(crate) fn run(arguments: &LsArguments) -> Result<Exit, Failure> {
    let zone = when::zone(None)?;
    let which = Filter::new(&arguments.which, &zone)?;
    let status = arguments.status.as_deref();
    let past = past::load(which.agent, !arguments.which.no_index);
    past::tell_bad_lines(&past.logs);
    let sums = usage::by_session(&past.logs, &past.sessions, Table::embedded());
    let mut sessions: Vec<(&Session, &Sum)> = past
        .sessions
        .iter()
        .zip(&sums)
        .filter(|(session, _)| which.session(session, &past.logs))
        .filter(|(session, _)| status.is_none_or(|status| state(&past, session).eq_ignore_ascii_case(status)))
        .collect();
    sessions.sort_by_key(|(session, _)| std::cmp::Reverse(session.last));
    let all = sessions.len();
    let shown = arguments.limit.unwrap_or(if arguments.json || !std::io::stdout().is_terminal() { all } else { SHOWN });
    sessions.truncate(shown);
    let damaged = || past::tell_damaged(&damaged(&past, &sessions));
    if arguments.json {
        let listed = list(&past, &sessions, arguments.results);
        damaged();
        return listed;
    }
    if past.sessions.is_empty() {
        past::tell_nothing();
        return Ok(Exit::Completed);
    } else if sessions.is_empty() {
        print::note("no session is like that");
        return Ok(Exit::Completed);
    }
    let ids = ShortIds::new(&past);
    let rows: Vec<Vec<String>> = sessions
        .iter()
        .map(|(session, sum)| {
            vec![
                ids.of(&session.id),
                session.last.map_or_else(|| "—".to_owned(), |last| when::shown(last, &zone)),
                session.agent.id.as_str().to_owned(),
                state(&past, session).to_owned(),
                total_tokens(&past, session, sum).map_or_else(|| "—".to_owned(), grouped),
                sum.full_cost().0.map_or_else(|| "—".to_owned(), cents),
                session.calls(&past.logs).to_string(),
                table::fit(&visible(&folder(session.account(&past.logs).cwd())), FOLDER),
                visible(session.account(&past.logs).title().unwrap_or("—")),
            ]
        })
        .collect();
    let head = ["ID", "LAST", "AGENT", "STATUS", "TOKENS", "COST", "TOOLS", "PROJECT", "PROMPT"];
    table::print_with_room(&head, &rows, DROPPED, PROMPT)?;
    damaged();
    if all > shown {
        print::note(&format!("{shown} of {all} sessions; -n {all} shows all"));
    }
    Ok(Exit::Completed)
}

/// The damaged journals among sessions.
fn damaged(past: &Past, sessions: &[(&Session, &Sum)]) -> BTreeMap<String, Damage> {
    let damage = sessions.iter().filter_map(|(session, _)| past.damage(session));
    damage.map(|(run, damage)| (run.to_owned(), damage)).collect()
}

/// The word for a session that goes on.
const RUNNING: &str = "running";

/// How a session stands: a run that somebody watches now is running.
fn state(past: &Past, session: &Session) -> &'static str {
    let live = whole::run_behind(session, &past.logs).is_some_and(RunFolder::is_live);
    if live { RUNNING } else { session.outcome.as_str() }
}

/// What a session spent, if that is known.
fn total_tokens(past: &Past, session: &Session, sum: &Sum) -> Option<u64> {
    session.tells_tokens(&past.logs).then(|| sum.spent.total())
}

/// The words of `--status`.
pub(crate) fn statuses() -> PossibleValuesParser {
    PossibleValuesParser::new(Outcome::ALL.iter().map(|outcome| outcome.as_str()).chain([RUNNING]))
}

/// The last name of a path: the rest is mostly the same.
pub(super) fn folder(path: Option<&str>) -> String {
    path.map_or_else(|| "—".to_owned(), |path| path.trim_end_matches('/').rsplit('/').next().unwrap_or(path).to_owned())
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed<'s> {
    id: &'s str,
    agent: &'s str,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_version: Option<&'s str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<&'s str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<&'s str>,
    first: Option<Timestamp>,
    last: Option<Timestamp>,
    outcome: &'static str,
    models: Vec<&'s str>,
    total_tokens: Option<u64>,
    cost_usd: Option<f64>,
    cost_source: &'static str,
    tool_calls: u64,
    files: Vec<String>,
    /// What of the journal can't be read; absent where all of it can.
    #[serde(skip_serializing_if = "Option::is_none")]
    damage: Option<Damage>,
}

/// A line for a program.
struct Line {
    /// All of it but what is around the result.
    listed: Vec<u8>,
    result: Option<Box<Made>>,
}

fn list(past: &Past, sessions: &[(&Session, &Sum)], results: bool) -> Result<Exit, Failure> {
    let mut out = Out::default();
    let (spare, unread) = (Spare::default(), Mutex::new(Vec::new()));
    let line = |workspace: &mut Workspace, (session, sum): &(&Session, &Sum)| -> Result<Line, Failure> {
        let listed = serde_json::to_vec(&listed(past, session, sum));
        let listed = listed.map_err(|error| Failure::io("writing JSON failed", &error.into()))?;
        if !results {
            return Ok(Line { listed, result: None });
        }
        let mut result = ResultJson::within(spare.lists());
        // A log that is gone or unreadable by now is listed without a result, and named.
        let read = past.decode_in(workspace, session, &mut |event| result.event(event));
        let read = read.map_err(|error| unread.lock().map(|mut list| list.push((session.path_to_name(&past.logs), error))));
        let result = read.ok().map(|_| result.finish()).transpose()?.map(Box::new);
        Ok(Line { listed, result })
    };
    let take = |line: Result<Line, Failure>| {
        let Line { listed, result } = line?;
        let Some(mut result) = result else { return out.pieces(&[&listed, b"\n"]) };
        let begun = listed.strip_suffix(b"}").unwrap_or(&listed);
        if let Some(pieces) = result.pieces() {
            out.pieces(&[&[begun, b",\"result\":"], pieces.as_slice(), &[b"}\n"]].concat())?;
        } else {
            out.pieces(&[begun, b",\"result\":"])?;
            result.give(&mut |piece| out.record(piece))?;
            out.record(b"}\n")?;
        }
        spare.give_back(result.into_lists());
        Ok::<(), Failure>(())
    };
    let mut progress = Progress::beside_output("reading sessions");
    let read = past::SESSIONS.run(sessions, Workspace::default, line, &mut |done| progress.show(done, sessions.len()), take);
    progress.end();
    read?;
    out.write()?;
    past::tell_unread(unread.into_inner().unwrap_or_else(PoisonError::into_inner));
    Ok(Exit::Completed)
}

/// Results that were written. The next ones go to the same memory: to take new memory for each of thousands of results of
/// megabytes costs more than to write them.
#[derive(Default)]
struct Spare(Mutex<Vec<Lists>>);

impl Spare {
    /// A larger list does not keep its memory.
    const LARGEST: usize = 1 << 20;

    fn all(&self) -> MutexGuard<'_, Vec<Lists>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lists(&self) -> Lists {
        self.all().pop().unwrap_or_default()
    }

    fn give_back(&self, mut lists: Lists) {
        lists.clear(Self::LARGEST);
        self.all().push(lists);
    }
}

fn listed<'s>(past: &'s Past, session: &'s Session, sum: &Sum) -> Listed<'s> {
    let (account, (cost_usd, cost_source)) = (session.account(&past.logs), sum.full_cost());
    let files = session.logs.iter().map(|place| past.logs[*place].file.path.display().to_string());
    Listed {
        id: &session.id,
        agent: session.agent.id.as_str(),
        agent_version: account.version(),
        cwd: account.cwd(),
        prompt: account.title(),
        first: session.first.and_then(Timestamp::from_millis),
        last: session.last.and_then(Timestamp::from_millis),
        outcome: state(past, session),
        models: session.models(&past.logs),
        total_tokens: total_tokens(past, session, sum),
        cost_usd,
        cost_source,
        tool_calls: session.calls(&past.logs),
        files: files.collect(),
        damage: past.damage(session).map(|(_, damage)| damage),
    }
}
