//! `sabir query`: SQL over what ran.

use std::io::IsTerminal as _;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use sabir_core::price::Table;
use sabir_store::account::Session;
use sabir_store::query::{self, Answer, Subject, TABLES, Value};

use crate::cli::past::QueryArguments;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output;
use crate::past::{self, Filter};
use crate::print::human::visible;
use crate::print::json::Out;
use crate::print::table;
use crate::when;

/// How much of a value a person sees.
const CELL: usize = 60;
/// Rows that come slowly are not kept back longer than that.
const HELD: Duration = Duration::from_millis(50);

pub(crate) fn run(arguments: &QueryArguments) -> Result<Exit, Failure> {
    let mut out = Out::default();
    let Some(sql) = arguments.sql.as_deref().filter(|_| !arguments.tables) else {
        out.buffer().extend_from_slice(TABLES.as_bytes());
        out.buffer().push(b'\n');
        out.write()?;
        return Ok(Exit::Completed);
    };
    if sql.trim().is_empty() {
        return Err(Failure::usage("the question is empty")
            .hint("ask in SQL: `sabir query \"SELECT id, prompt FROM sessions\"`; `sabir query --tables` prints the tables"));
    }
    let zone = when::zone(None)?;
    let which = Filter::new(&arguments.which, &zone)?;
    let own = arguments.prices.as_deref().map(output::read_prices).transpose()?;
    let past = past::load(which.agent, !arguments.which.no_index);
    let chosen = |session: &Session| which.session(session, &past.logs);
    let subject = Subject {
        sessions: &past.sessions,
        logs: &past.logs,
        prices: own.as_ref().unwrap_or_else(|| Table::embedded()),
        chosen: &chosen,
    };
    // What a program reads is whole.
    let room = if std::io::stdout().is_terminal() { CELL } else { usize::MAX };
    let mut rows: Vec<Vec<String>> = Vec::new();
    let (mut written, mut last) = (Ok(()), None);
    let asked = query::query(&subject, sql, &mut |names, row| {
        if !arguments.json {
            rows.push(row.iter().map(|value| cell(value, room)).collect());
            return ControlFlow::Continue(());
        }
        write_object(names, row, out.buffer());
        if out.is_full() || last.is_none_or(|last: Instant| last.elapsed() > HELD) {
            written = out.write();
            last = Some(Instant::now());
        }
        // Who reads no more of a question without an end ends it.
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    let Answer { columns, failures, mut damaged } = asked.map_err(|error| {
        Failure::usage(format!("the question can't be answered: {error}"))
            .hint("`sabir query --tables` prints the tables and their columns; a question can only read")
    })?;
    written?;
    out.write()?;
    if !arguments.json {
        table::print_with_room(&columns.iter().map(String::as_str).collect::<Vec<_>>(), &rows, &[], 0)?;
    }
    past::tell_unread(failures);
    let known = past.sessions.iter().filter(|session| chosen(session)).filter_map(|session| past.damage(session));
    damaged.extend(known.map(|(run, damage)| (run.to_owned(), damage)));
    past::tell_damaged(&damaged);
    Ok(Exit::Completed)
}

fn cell(value: &Value, room: usize) -> String {
    match value {
        Value::Null => "—".to_owned(),
        Value::Integer(number) => number.to_string(),
        Value::Real(number) => format!("{number:.4}"),
        Value::Text(text) => table::fit(&visible(text), room),
    }
}

fn write_object(names: &[String], row: &[Value], out: &mut Vec<u8>) {
    let object: serde_json::Map<String, serde_json::Value> = names
        .iter()
        .zip(row)
        .map(|(name, value)| {
            let value = match value {
                Value::Null => serde_json::Value::Null,
                Value::Integer(number) => (*number).into(),
                Value::Real(number) => (*number).into(),
                Value::Text(text) => text.as_str().into(),
            };
            (name.clone(), value)
        })
        .collect();
    // A map of plain values is always written.
    let _ = serde_json::to_writer(&mut *out, &object);
    out.push(b'\n');
}
