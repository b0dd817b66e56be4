//! `sabir search`: words in everything that was said and done.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use sabir_core::pattern::Pattern;
use sabir_core::time::Timestamp;
use sabir_store::account::Session;
use sabir_store::search::{self, Words};
use sabir_store::whole::Workspace;
use serde::Serialize;

use crate::cli::past::SearchArguments;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::past::{self, Filter, Past, ShortIds};
use crate::print::human::visible;
use crate::print::json::Out;
use crate::print::{self, color, width};
use crate::when;

/// A place where the words are.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Place {
    session: String,
    agent: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<Timestamp>,
    kind: &'static str,
    snippet: String,
}

pub(crate) fn run(arguments: &SearchArguments) -> Result<Exit, Failure> {
    let zone = when::zone(None)?;
    let which = Filter::new(&arguments.which, &zone)?;
    let Some(pattern) = Pattern::from_arguments(&arguments.words) else {
        return Err(Failure::usage("there is no word to look for").hint("give one or more: `sabir search parser`"));
    };
    let pattern = pattern.with_substrings(arguments.substring);
    let words = Words::new(pattern.clone()).ok_or_else(|| Failure::usage("too many search terms").hint("use fewer words"))?;
    let past = past::load(which.agent, !arguments.which.no_index);
    let mut sessions: Vec<&Session> = past.sessions.iter().filter(|session| which.session(session, &past.logs)).collect();
    sessions.sort_by_key(|session| std::cmp::Reverse(session.last));
    let ids = ShortIds::new(&past);
    let mut out = Out::default();
    let mut left = arguments.limit;
    let (mut found, mut failures, mut first) = (0_usize, Vec::new(), None);
    // The latest come first, so the rest need not be looked at when there are enough.
    let is_enough = AtomicBool::new(false);
    past::SESSIONS.run(
        &sessions,
        Workspace::default,
        |workspace, session| {
            if is_enough.load(Ordering::Relaxed) { Found::default() } else { places(&past, session, &words, workspace) }
        },
        &mut |_| (),
        |Found { places, failure }| {
            failures.extend(failure);
            found += places.len();
            is_enough.store(found > arguments.limit, Ordering::Relaxed);
            for place in places.into_iter().take(left) {
                left -= 1;
                if arguments.json {
                    serde_json::to_writer(&mut *out.buffer(), &place)
                        .map_err(|error| Failure::io("writing JSON failed", &error.into()))?;
                    out.buffer().push(b'\n');
                } else {
                    let open = || place.seq.map(|seq| format!("sabir show {} --event {seq}", ids.of(&place.session)));
                    first = first.take().or_else(open);
                    print_place(&place, &ids, &pattern, &zone, out.buffer());
                }
            }
            out.write_if_full()
        },
    )?;
    out.write()?;
    past::tell_unread(failures);
    if found == 0 && !arguments.json {
        print::note("nothing has these words together in one text");
    } else if found > arguments.limit {
        print::note(&format!("the latest {}; -n {} shows more", arguments.limit, arguments.limit.saturating_mul(10)));
    }
    if let Some(command) = first.filter(|_| io::stdout().is_terminal()) {
        print::hint(&format!("`{command}` shows the first of these events"));
    }
    Ok(if found == 0 { Exit::Failed } else { Exit::Completed })
}

/// What is in a session.
#[derive(Default)]
struct Found {
    places: Vec<Place>,
    /// Why not all of it could be looked at.
    failure: Option<(PathBuf, io::Error)>,
}

/// The places in a session, in order.
fn places(past: &Past, session: &Session, words: &Words, workspace: &mut Workspace) -> Found {
    let mut places = Vec::new();
    let read = words.places(workspace, session, &past.logs, &mut |search::Place { seq, at, kind, snippet }| {
        places.push(Place { session: session.id.clone(), agent: session.agent.id.to_string(), seq, at, kind, snippet });
    });
    Found { places, failure: read.err().map(|error| (session.path_to_name(&past.logs), error)) }
}

fn print_place(place: &Place, ids: &ShortIds<'_>, pattern: &Pattern, zone: &jiff::tz::TimeZone, out: &mut Vec<u8>) {
    let bold = anstyle::Style::new().bold();
    let dim = anstyle::Style::new().dimmed();
    let at = place.at.map_or_else(String::new, |at| when::shown(at.as_millis(), zone));
    let number = place.seq.map_or_else(String::new, |seq| format!("  event {seq}"));
    let head = format!("{}  {at}  {}  {}{number}", visible(&ids.of(&place.session)), place.agent, place.kind);
    let text = print::table::fit(&visible(&place.snippet), width().saturating_sub(2));
    if color() {
        let mut marked = String::new();
        let mut rest = text.as_str();
        while let Some(range) = pattern.find_any(rest) {
            marked.push_str(&rest[..range.start]);
            let _ = write!(marked, "{bold}{}{bold:#}", &rest[range.clone()]);
            rest = &rest[range.end..];
        }
        marked.push_str(rest);
        let _ = writeln!(out, "{dim}{head}{dim:#}\n  {marked}");
    } else {
        let _ = writeln!(out, "{head}\n  {text}");
    }
}
