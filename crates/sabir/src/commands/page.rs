//! `sabir export ID --to html`: a session as one file that a browser shows.

use std::path::Path;

use sabir_core::export::{Exporter as _, Options};
use sabir_core::fold::OverviewFold;
use sabir_core::fold::timeline::{Clipping, Timeline};
use sabir_core::time::Timestamp;
use sabir_hub::store::SessionRecord;
use sabir_protocol::envelope::Envelope;
use sabir_protocol::envelope::timeline::LogTimeline;
use sabir_store::account::Session;
use sabir_store::{summary, whole};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::past::Past;
use crate::print::json::Out;
use crate::target::Target;

/// So much of the beginning of a text is in the file, and as much of its end.
const CLIPPING: Clipping = Clipping { speech: 256 << 10, output: 256 << 10 };

pub(crate) fn export(past: &Past, session: &Session, to: Option<&Path>) -> Result<Exit, Failure> {
    let file = to.map(Target::create).transpose()?;
    let (shown, timeline) = timeline(past, session)?;
    let page = sabir_hub::single_file(shown, &timeline.items);
    let page = page.map_err(|error| Failure::io("making the page failed", &error.into()))?;
    match file {
        Some(mut file) => {
            file.write(page.as_bytes())?;
            file.finish()?;
        }
        None => {
            let mut out = Out::default();
            out.buffer().extend_from_slice(page.as_bytes());
            out.write()?;
        }
    }
    Ok(Exit::Completed)
}

/// A session as the page shows it. It goes the way of a log, so that the numbers are those that a hub would give.
fn timeline(past: &Past, session: &Session) -> Result<(SessionRecord, Timeline), Failure> {
    let unreadable = |error: &std::io::Error| Failure::io(format_args!("reading session {} failed", session.id), error);
    let id = session.id.parse().map_err(|error| Failure::usage(format!("session {}: {error}", session.id)))?;
    let meta = whole::run_of(session, &past.logs).and_then(|folder| summary::summary(folder).ok()?.meta);
    let prompt = meta.map(|meta| meta.prompt).filter(|prompt| !prompt.is_empty());
    let mut view = Envelope::new(&Options { session_id: Some(session.id.clone()), events: true, prompt, ..Options::default() });
    let (mut overview, mut fold, mut timeline) = (OverviewFold::default(), LogTimeline::new(CLIPPING), Timeline::default());
    let (mut lines, mut changes) = (Vec::new(), Vec::new());
    let mut tell = |lines: &mut Vec<u8>| {
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            fold.message(line, &mut changes);
        }
        lines.clear();
        changes.drain(..).for_each(|change| timeline.apply(change, CLIPPING));
    };
    past.decode(session, &mut |event| {
        overview.event(event);
        view.event(event, &mut lines);
        tell(&mut lines);
    })
    .map_err(|error| unreadable(&error))?;
    view.end(&mut lines);
    tell(&mut lines);
    let last = view.seq();
    let mut overview = overview.overview();
    overview.title = overview.title.or_else(|| session.account(&past.logs).title().map(str::to_owned));
    overview.cwd = overview.cwd.or_else(|| session.account(&past.logs).cwd().map(str::to_owned));
    let time = |millis: Option<i64>| millis.and_then(Timestamp::from_millis).unwrap_or(Timestamp::EPOCH);
    let (created, updated) = (time(session.first), time(session.last));
    let (runner, accepts) = (None, Vec::new());
    let shown = SessionRecord { id, last, folded: last, overview, runner, accepts, created, updated, damage: None };
    Ok((shown, timeline))
}
