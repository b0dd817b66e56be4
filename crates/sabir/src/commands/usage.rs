//! `sabir usage`: what was spent.

use std::collections::{BTreeMap, HashMap};

use sabir_core::history::Spent;
use sabir_core::price::Table;
use sabir_core::readable::cents;
use sabir_store::account::{Portion, Session};
use sabir_store::usage::{self, Answer, By, Question, Row, Sum};
use serde::Serialize;

use crate::cli::past::UsageArguments;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output;
use crate::past::{self, Past, ShortIds};
use crate::print;
use crate::print::human::{grouped, visible};
use crate::print::json::{Out, object};
use crate::print::table::{self, FigureTable};
use crate::when;
use sabir_store::index::summary::Account;

pub(crate) fn run(arguments: &UsageArguments) -> Result<Exit, Failure> {
    let zone = when::zone(arguments.timezone.as_deref())?;
    let which = past::Filter::new(&arguments.which, &zone)?;
    let by = By::ALL.into_iter().find(|by| by.name() == arguments.by).unwrap_or(By::Day);
    let own = arguments.prices.as_deref().map(output::read_prices).transpose()?;
    let past = past::load(which.agent, !arguments.which.no_index);
    past::tell_bad_lines(&past.logs);
    let chosen = |portion: &Portion<'_>| {
        !which.narrows() || which.project(&past.sessions[portion.session], &past.logs) && which.model(portion.model)
    };
    let question = Question { by, since: which.since, until: which.until, zone, breakdown: arguments.breakdown };
    let prices = own.as_ref().unwrap_or_else(|| Table::embedded());
    let answer = usage::usage(&past.logs, &past.sessions, &chosen, &question, prices);
    let asked = || past.sessions.iter().filter(|session| which.session(session, &past.logs));
    let unknown = asked().filter(|session| !session.tells_tokens(&past.logs)).count();
    if arguments.json {
        let mut out = Out::default();
        object(&report(&answer, by, arguments.breakdown, unknown), out.buffer())?;
        out.write()?;
    } else if past.sessions.is_empty() {
        past::tell_nothing();
    } else {
        if !answer.rows.is_empty() {
            show(&past, &answer, by, arguments.breakdown)?;
        } else if unknown == 0 {
            print::note("nothing that was spent is like that");
        }
        if unknown > 0 {
            let all = asked().count();
            print::note(&format!("{unknown} of {all} sessions do not tell their tokens; what they spent is not known"));
        }
    }
    if !answer.total.sum.unpriced.is_empty() && !arguments.json {
        let models: Vec<&str> = answer.total.sum.unpriced.keys().map(String::as_str).collect();
        let tokens = grouped(answer.total.sum.unpriced_tokens);
        print::warning(&format!("{tokens} tokens have no price and are not in the cost: {}", models.join(", ")));
        print::hint("a list with their prices can be given with --prices; see docs/prices.md");
    }
    let damaged = past.sessions.iter().filter(|session| which.session(session, &past.logs));
    past::tell_damaged(
        &damaged.filter_map(|session| past.damage(session)).map(|(run, damage)| (run.to_owned(), damage)).collect(),
    );
    Ok(Exit::Completed)
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    by: &'static str,
    rows: Vec<Figures>,
    total: Figures,
    /// Sessions whose logs have no token counts: what they used is not in the sums.
    #[serde(rename = "sessionsWithoutTokens")]
    sessions_without_tokens: usize,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Figures {
    /// Absent in the total.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    sessions: usize,
    responses: u64,
    tool_calls: u64,
    /// `None` when no session tells any.
    tokens: Option<Tokens>,
    cost_usd: Option<f64>,
    cost_source: &'static str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    unpriced: BTreeMap<String, u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    models: Option<Vec<Figures>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tokens {
    uncached_input: u64,
    cache_read: u64,
    cache_write: u64,
    output: u64,
    reasoning: u64,
    total: u64,
}

fn report(answer: &Answer, by: By, breakdown: bool, sessions_without_tokens: usize) -> Report {
    let rows = answer.rows.iter().map(|(key, row)| row_figures(Some(key.as_str()), row, breakdown)).collect();
    let total = row_figures(None, &answer.total, breakdown);
    Report { schema: "sabir.usage/1", by: by.name(), rows, total, sessions_without_tokens }
}

fn row_figures(key: Option<&str>, row: &Row, breakdown: bool) -> Figures {
    let models = breakdown.then(|| row.models.iter().map(|(model, sum)| figures(Some(model.as_str()), sum)).collect());
    Figures { models, ..figures(key, &row.sum) }
}

fn figures(key: Option<&str>, sum: &Sum) -> Figures {
    let Spent { input, cache_read, cache_write, output, reasoning, .. } = sum.spent;
    let (cost_usd, cost_source) = sum.cost();
    let total = sum.spent.total();
    let tokens = Tokens { uncached_input: input, cache_read, cache_write, output, reasoning, total };
    Figures {
        key: key.map(str::to_owned),
        sessions: sum.sessions.len(),
        responses: sum.responses,
        tool_calls: sum.calls,
        tokens: sum.has_tokens().then_some(tokens),
        cost_usd,
        cost_source,
        unpriced: sum.unpriced.clone(),
        models: None,
    }
}

/// How many columns the bars take.
const BAR: usize = 16;

/// How much of the prompt a session's row has at least, and of its folder at most.
const PROMPT: usize = 16;
const FOLDER: usize = 20;

fn show(past: &Past, answer: &Answer, by: By, breakdown: bool) -> Result<(), Failure> {
    let most = answer.rows.values().map(|row| weight(&row.sum)).fold(0.0, f64::max);
    let mut rows: Vec<(&String, &Row)> = answer.rows.iter().collect();
    if !matches!(by, By::Day | By::Week | By::Month) {
        rows.sort_by(|a, b| weight(&b.1.sum).total_cmp(&weight(&a.1.sum)));
    }
    if by == By::Session {
        return show_sessions(past, answer, &rows, breakdown);
    }
    let head = by.name().to_uppercase();
    let head = [&*head, "SESSIONS", "INPUT", "CACHE READ", "CACHE WRITE", "OUTPUT", "TOTAL", "COST", ""];
    let with_bar = |key: &str, sum: &Sum, bar: String| {
        let [key, figures @ ..] = cells(key, sum);
        [vec![key, sum.sessions.len().to_string()], figures.to_vec(), vec![bar]].concat()
    };
    let mut lines = Vec::new();
    for (key, row) in rows {
        lines.push(with_bar(key, &row.sum, bar(weight(&row.sum), most)));
        if breakdown && (row.models.len() > 1 || by != By::Model) {
            lines.extend(row.models.iter().map(|(model, sum)| with_bar(&format!("  {model}"), sum, String::new())));
        }
    }
    lines.push(with_bar("all", &answer.total.sum, String::new()));
    FigureTable { head: &head, texts: &[0, 8], droppable: &[8, 4, 3, 2, 1, 5], room: None }.print(&lines)
}

/// Sessions have a short id and say what they were about.
fn show_sessions(past: &Past, answer: &Answer, rows: &[(&String, &Row)], breakdown: bool) -> Result<(), Failure> {
    let known: HashMap<&str, &Session> = past.sessions.iter().map(|session| (session.id.as_str(), session)).collect();
    let ids = ShortIds::new(past);
    let head = ["SESSION", "INPUT", "CACHE READ", "CACHE WRITE", "OUTPUT", "TOTAL", "COST", "PROJECT", "PROMPT"];
    let line = |key: &str, sum: &Sum, about: [String; 2]| [cells(key, sum).to_vec(), about.to_vec()].concat();
    let mut lines = Vec::new();
    for (id, row) in rows {
        let account = known.get(id.as_str()).map(|session| session.account(&past.logs));
        let project = table::fit(&visible(&super::ls::folder(account.and_then(Account::cwd))), FOLDER);
        let prompt = account.and_then(Account::title).unwrap_or("—");
        lines.push(line(&ids.of(id), &row.sum, [project, prompt.to_owned()]));
        if breakdown {
            lines.extend(row.models.iter().map(|(model, sum)| line(&format!("  {model}"), sum, Default::default())));
        }
    }
    lines.push(line("all", &answer.total.sum, Default::default()));
    FigureTable { head: &head, texts: &[0, 7, 8], droppable: &[8, 7, 3, 2, 1, 4], room: Some(PROMPT) }.print(&lines)
}

/// Rows are weighed by cost, or by tokens where nothing has a price.
fn weight(sum: &Sum) -> f64 {
    if sum.cost > 0.0 { sum.cost } else { sum.spent.total() as f64 * 1e-12 }
}

/// The key of a row, its tokens and its cost.
fn cells(key: &str, sum: &Sum) -> [String; 7] {
    let Spent { input, cache_read, cache_write, output, .. } = sum.spent;
    let cost = sum.cost().0.map_or_else(|| "—".to_owned(), amount);
    let count = |tokens: u64| if sum.has_tokens() { grouped(tokens) } else { "—".to_owned() };
    let [input, cache_read, cache_write, output, total] = [input, cache_read, cache_write, output, sum.spent.total()].map(count);
    [key.to_owned(), input, cache_read, cache_write, output, total, cost]
}

/// To the cent, however much it is; what is less than one is not nothing.
fn amount(cost: f64) -> String {
    if cost > 0.0 && cost < 0.01 { cents(cost) } else { format!("${cost:.2}") }
}

/// A bar as long as the share, to an eighth of a column.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn bar(part: f64, most: f64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    if most <= 0.0 {
        return String::new();
    }
    // A share is between nothing and all, so the cast is exact enough.
    let eighths = (part / most * (BAR * 8) as f64).round() as usize;
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

#[cfg(test)]
mod tests {
    use super::{amount, bar};

    #[test]
    fn amounts_are_to_the_cent_and_small_ones_are_not_nothing() {
        assert_eq!([0.0, 0.0042, 0.01, 3839.944].map(amount), ["$0.00", "$0.0042", "$0.01", "$3839.94"]);
    }

    #[test]
    fn bars_are_as_long_as_their_share() {
        assert_eq!(bar(1.0, 1.0), "█".repeat(16));
        assert_eq!(bar(0.5, 1.0), "█".repeat(8));
        assert_eq!(bar(0.0, 1.0), "");
        assert_eq!(bar(1.0, 0.0), "");
        assert_eq!(bar(1.0, 128.0), "▏");
    }
}
