//! The tools for files. Each runs in a thread that can reach nothing but the working folder.

use std::sync::PoisonError;
use std::thread;

use sabir_core::diff;
use sabir_core::event::Change;
use serde::Deserialize;
use serde_json::Value;

use super::{Changed, Done, Place, take};
use crate::capped;
use crate::folder::Refused;

/// How many entries are listed.
const MOST_ENTRIES: usize = 2_000;

#[derive(Deserialize)]
struct List {
    path: Option<String>,
    depth: Option<u32>,
}

#[derive(Deserialize)]
struct Read {
    path: String,
    offset: Option<usize>,
    limit: Option<usize>,
}

#[derive(Deserialize)]
struct Write {
    path: String,
    content: String,
}

#[derive(Deserialize)]
struct Edit {
    path: String,
    old_string: String,
    new_string: String,
    #[serde(default)]
    replace_all: bool,
}

pub(super) fn list(place: &Place<'_>, arguments: Value) -> Done {
    confined(place, || {
        let List { path, depth } = take(arguments)?;
        let path = place.folder.relative(path.as_deref().unwrap_or("."))?;
        let entries = place.folder.list(&path, depth.unwrap_or(1).clamp(1, 8), MOST_ENTRIES + 1)?;
        if entries.is_empty() {
            return Ok(Done::ok("(empty)"));
        }
        let more = entries.len() > MOST_ENTRIES;
        let mut text = entries[..entries.len().min(MOST_ENTRIES)].join("\n");
        if more {
            text.push_str("\n[… more are not listed …]");
        }
        Ok(Done::ok(capped::text(&text)))
    })
}

pub(super) fn read(place: &Place<'_>, arguments: Value) -> Done {
    confined(place, || {
        let Read { path, offset, limit } = take(arguments)?;
        let content = existing(place, &path)?;
        if content.contains(&0) {
            return Err(Done::failed(format!("{path} is not text")));
        }
        let text = String::from_utf8_lossy(&content);
        if offset.is_none() && limit.is_none() {
            return Ok(Done::ok(capped::text(&text)));
        }
        let lines = text.split_inclusive('\n').skip(offset.unwrap_or(1).saturating_sub(1)).take(limit.unwrap_or(usize::MAX));
        Ok(Done::ok(capped::text(&lines.collect::<String>())))
    })
}

pub(super) fn write(place: &Place<'_>, arguments: Value) -> Done {
    confined(place, || {
        let Write { path, content } = take(arguments)?;
        let _changing = place.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let relative = place.folder.relative(&path)?;
        let old = place.folder.read(&relative)?;
        place.folder.write(&relative, &content)?;
        let (change, diff) = match &old {
            Some(old) => (Change::Update, diff::of_change(&path, &String::from_utf8_lossy(old), &content)),
            None => (Change::Create, diff::of_new_file(&path, &content.as_str().into())),
        };
        let output = format!("wrote {} bytes to {path}", content.len());
        Ok(Done { changed: Some(Box::new(Changed { path, change, diff })), ..Done::ok(output) })
    })
}

pub(super) fn edit(place: &Place<'_>, arguments: Value) -> Done {
    confined(place, || {
        let Edit { path, old_string, new_string, replace_all } = take(arguments)?;
        let _changing = place.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let Ok(old) = String::from_utf8(existing(place, &path)?) else {
            return Err(Done::failed(format!("{path} is not UTF-8 text")));
        };
        let found = if old_string.is_empty() { 0 } else { old.matches(&old_string).count() };
        match found {
            0 => return Err(Done::failed(format!("old_string is not in {path}"))),
            1 => {}
            _ if replace_all => {}
            _ => return Err(Done::failed(format!("old_string is in {path} {found} times: give more of what is around it"))),
        }
        if old_string == new_string {
            return Err(Done::failed("old_string and new_string are the same"));
        }
        let new = old.replace(&old_string, &new_string);
        place.folder.write(&place.folder.relative(&path)?, &new)?;
        let diff = diff::of_change(&path, &old, &new);
        let output = format!("replaced {found} time{}", if found == 1 { "" } else { "s" });
        Ok(Done { changed: Some(Box::new(Changed { path, change: Change::Update, diff })), ..Done::ok(output) })
    })
}

fn existing(place: &Place<'_>, path: &str) -> Result<Vec<u8>, Done> {
    let relative = place.folder.relative(path)?;
    Ok(place.folder.read(&relative)?.ok_or_else(|| Refused::Failed(format!("there is no file {path}")))?)
}

/// Does something in a thread of its own that has given up every right that it does not need. The folder is confined
/// without that too; this is the second lock.
fn confined(place: &Place<'_>, work: impl FnOnce() -> Result<Done, Done> + Send) -> Done {
    let confinement = place.confinement;
    thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, move || match confinement.apply() {
            Ok(_) => work().unwrap_or_else(|done| done),
            Err(error) => Done::failed(format!("the tool can't be confined: {error}")),
        });
        match thread.map(thread::ScopedJoinHandle::join) {
            Ok(Ok(done)) => done,
            Ok(Err(_)) => Done::failed("the tool broke"),
            Err(error) => Done::failed(format!("the tool can't be run: {error}")),
        }
    })
}
