//! `sabir query`: SQL over what ran.

use std::io::IsTerminal as _;

use sabir_core::price::Table;
use sabir_store::account::Session;
use sabir_store::query::{self, Subject, TABLES, Value};

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

pub(crate) fn run(arguments: &QueryArguments) -> Result<Exit, Failure> {
    let mut out = Out::default();
    let Some(sql) = arguments.sql.as_deref().filter(|_| !arguments.tables) else {
        out.buffer().extend_from_slice(TABLES.as_bytes());
        out.buffer().push(b'\n');
        out.write()?;
        return Ok(Exit::Completed);
    };
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
    let mut written = Ok(());
    let asked = query::query(&subject, sql, &mut |names, row| {
        if arguments.json && written.is_ok() {
            write_object(names, row, out.buffer());
            written = out.write_if_full();
        } else if !arguments.json {
            rows.push(row.iter().map(|value| cell(value, room)).collect());
        }
    });
    let names = asked.map_err(|error| {
        Failure::usage(format!("the question can't be answered: {error}"))
            .hint("`sabir query --tables` prints the tables and their columns; a question can only read")
    })?;
    written?;
    out.write()?;
    if !arguments.json {
        table::print_with_room(&names.iter().map(String::as_str).collect::<Vec<_>>(), &rows, &[], 0)?;
    }
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
