//! What ran before: the sessions that agents logged, as one list.

use std::collections::BTreeMap;
use std::io;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::tz::TimeZone;
use sabir_core::agent::Agent;
use sabir_core::event::Event;
use sabir_store::account::Session;
use sabir_store::history::{Places, Role};
use sabir_store::index::Log;
use sabir_store::{Damage, Home, parallel, whole};

use crate::cli::past::Which;
use crate::commands::agents;
use crate::commands::agents::registry;
use crate::failure::Failure;
use crate::print::progress::Progress;
use crate::print::{hint, note, warning};
use crate::when;

/// All sessions in short. To take apart what was read of a large history takes a while, and the process ends anyway.
pub(crate) struct Past(ManuallyDrop<sabir_store::past::Past>);

impl Deref for Past {
    type Target = sabir_store::past::Past;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// Reads all logs in short, those of one agent where it is named. What can't be read is said and left out.
pub(crate) fn load(agent: Option<&'static Arc<Agent>>, index: bool) -> Past {
    let home = Home::find().ok();
    let index = home.as_ref().filter(|_| index).map(Home::index);
    let mut progress = Progress::new("reading logs");
    let chosen = |candidate: &Agent| agent.is_none_or(|agent| agent.id == candidate.id);
    let past =
        sabir_store::past::load(&places(), home.as_ref(), index.as_deref(), chosen, &mut |done, all| progress.show(done, all));
    progress.end();
    tell_failures(&past.failures);
    Past(ManuallyDrop::new(past))
}

/// The same with the index and without a word, for a shell that asks while somebody types.
pub(crate) fn load_quietly(agent: Option<&'static Arc<Agent>>) -> Past {
    let home = Home::find().ok();
    let index = home.as_ref().map(Home::index);
    let chosen = |candidate: &Agent| agent.is_none_or(|agent| agent.id == candidate.id);
    let past = sabir_store::past::load(&places(), home.as_ref(), index.as_deref(), chosen, &mut |_, _| {});
    Past(ManuallyDrop::new(past))
}

/// How many unreadable files are named one by one.
const NAMED: usize = 3;

/// Names what could not be read, each file once.
pub(crate) fn tell_unread(mut failures: Vec<(PathBuf, io::Error)>) {
    failures.sort_by(|(one, _), (other, _)| one.cmp(other));
    failures.dedup_by(|(one, _), (other, _)| one == other);
    tell_failures(&failures);
}

fn tell_failures(failures: &[(PathBuf, io::Error)]) {
    for (path, error) in failures.iter().take(NAMED) {
        warning(&format!("can't read {}: {error}", path.display()));
    }
    if failures.len() > NAMED {
        warning(&format!("… and {} more files or folders can't be read", failures.len() - NAMED));
    }
    if failures.iter().any(|(_, error)| error.kind() == io::ErrorKind::PermissionDenied) {
        hint("what can't be read is left out of the figures; check the permissions");
    }
}

/// Says which journals are damaged, each once.
pub(crate) fn tell_damaged(damaged: &BTreeMap<String, Damage>) {
    for (run, damage) in damaged.iter().take(NAMED) {
        warn_of_damage(run, damage);
    }
    if damaged.len() > NAMED {
        warning(&format!("… and the journals of {} more runs are damaged", damaged.len() - NAMED));
    }
    if !damaged.is_empty() {
        hint("only their readable records are shown");
    }
}

/// Says what of the journal of a run can't be read. That its last record is half a one is told by its outcome.
pub(crate) fn tell_damage(run: &str, damage: &Damage) {
    if warn_of_damage(run, damage) {
        hint("only its readable records are shown");
    }
}

/// Warns of a damaged journal; false if it is not.
fn warn_of_damage(run: &str, damage: &Damage) -> bool {
    let Damage { places, bytes, headers, missing, out_of_order, newer_segments, .. } = *damage;
    let counted = [
        (places, format!("{bytes} bytes in {places} places are not what was written")),
        (headers, format!("heads of segments are damaged: {headers}")),
        (missing, format!("records are missing: {missing}")),
        (out_of_order, format!("records come again or too late: {out_of_order}")),
        (newer_segments, format!("segments are of a newer version of Sabir: {newer_segments}")),
    ];
    let told: Vec<String> = counted.into_iter().filter(|(count, _)| *count > 0).map(|(_, text)| text).collect();
    if !told.is_empty() {
        warning(&format!("the journal of {run} is damaged; {}", told.join("; ")));
    }
    !told.is_empty()
}

/// Says that there is nothing, and what could be.
pub(crate) fn tell_nothing() {
    note("no agent has logged anything here yet");
    hint("`sabir doctor` says which agents are installed; `sabir demo` shows runs of some");
}

/// Says how many lines do not count, and in which logs: `show` tells what they are.
pub(crate) fn tell_bad_lines(logs: &[Log]) {
    let bad = |log: &&Log| log.account.bad_lines() + log.progress.long_lines > 0;
    let lines: u64 = logs.iter().map(|log| log.account.bad_lines() + log.progress.long_lines).sum();
    let Some(first) = logs.iter().find(bad) else { return };
    let more = match logs.iter().filter(bad).count() - 1 {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    warning(&format!("lines that are not JSON or too long, and do not count: {lines}, in {}{more}", first.file.path.display()));
}

/// The home folder and the variables that move agents' folders.
pub(crate) fn places() -> Places {
    let roots = registry().iter().filter_map(|agent| agent.log.as_ref()).flat_map(|log| &log.roots);
    let names = roots.filter_map(|root| root.env_var.as_deref());
    let variables = names.filter_map(|name| Some((name.to_owned(), std::env::var_os(name)?))).collect();
    Places { registry: registry().clone(), home: std::env::home_dir(), variables }
}

/// A shorter text is not taken for the beginning of an id: some agents resume by a number or a word.
const LEAST: usize = 4;

/// The agent's id of the session that is to be resumed: the given one, unless it is the beginning of another. What is no
/// beginning of any id that its logs tell is left to the agent.
pub(crate) fn resumed(agent: &'static Arc<Agent>, given: &str) -> Result<String, Failure> {
    if given.chars().count() < LEAST {
        return Ok(given.to_owned());
    }
    let past = load_quietly(Some(agent));
    let is_logged = |session: &&Session| session.agent.id == agent.id && whole::run_of(session, &past.logs).is_none();
    let mut matching: Vec<&Session> =
        past.sessions.iter().filter(is_logged).filter(|session| session.id.starts_with(given)).collect();
    matching.sort_by_key(|session| std::cmp::Reverse(session.last));
    let mut ids: Vec<&str> = Vec::new();
    for session in &matching {
        if !ids.contains(&&*session.id) {
            ids.push(&session.id);
        }
    }
    match *ids {
        [] => Ok(given.to_owned()),
        _ if ids.contains(&given) => Ok(given.to_owned()),
        [id] => Ok(id.to_owned()),
        _ => Err(ambiguous(&format!("sessions of {}", agent.id), given, &ids)),
    }
}

impl Past {
    /// Decodes a session whole and hands out its events. What of a journal can't be read is said.
    pub(crate) fn decode(&self, session: &Session, take: &mut dyn FnMut(&Event<'_>)) -> io::Result<()> {
        self.0.decode(session, take).map(|damage| tell_damage(&session.id, &damage))
    }

    /// The session whose id starts so.
    pub(crate) fn session(&self, prefix: &str) -> Result<&Session, Failure> {
        if prefix.is_empty() {
            return Err(Failure::usage("the id is empty").hint("`sabir ls` lists the sessions"));
        }
        let all = || self.sessions.iter().chain(&self.parts);
        let mut matching: Vec<&Session> = all().filter(|session| session.id.starts_with(prefix)).collect();
        let is_one = |session: &&&Session| session.id == prefix || matching.iter().all(|other| other.id == session.id);
        let of_one: Vec<&Session> = matching.iter().filter(is_one).copied().collect();
        if let Some(furthest) = of_one.iter().max_by_key(|session| session.last) {
            self.tell_others(furthest, of_one.len() - 1);
            return Ok(furthest);
        }
        if matching.is_empty() {
            matching = all().filter(|session| self.has_part(session, prefix)).collect();
        }
        matching.sort_by_key(|session| std::cmp::Reverse(session.last));
        match *matching {
            [session] => Ok(session),
            [] => Err(Failure::usage(format!("there is no session whose id starts with {prefix}"))
                .hint("`sabir ls` lists the sessions")),
            _ => {
                let ids = ShortIds::new(self);
                let ids: Vec<String> = matching.iter().map(|session| ids.of(&session.id)).collect();
                Err(ambiguous("sessions", prefix, &ids))
            }
        }
    }

    /// Says that others have the same id: logs that were copied together and went apart.
    fn tell_others(&self, chosen: &Session, others: usize) {
        if others > 0 {
            let path = self.logs[chosen.logs[0]].file.path.display();
            note(&format!("{} sessions have the id {}; this is the one that goes furthest: {path}", others + 1, chosen.id));
        }
    }

    /// Whether a log of that id is a part of the session: a sub-agent may have an id of its own.
    fn has_part(&self, session: &Session, prefix: &str) -> bool {
        let mut roles = session.logs.iter().map(|place| &self.logs[*place].file.role);
        roles.any(|role| matches!(role, Role::Session(id) if id.starts_with(prefix)))
    }
}

/// How many ids of several that start alike are named.
const CANDIDATES: usize = 8;

/// Why the beginning of an id is not enough, with the ids that it may be, the latest first.
pub(crate) fn ambiguous<T: AsRef<str>>(what: &str, prefix: &str, ids: &[T]) -> Failure {
    let named: Vec<&str> = ids.iter().take(CANDIDATES).map(AsRef::as_ref).collect();
    let more = if ids.len() > CANDIDATES { format!(" or {} more", ids.len() - CANDIDATES) } else { String::new() };
    Failure::usage(format!("{} {what} start with {prefix}", ids.len()))
        .hint(format!("give more of the id: {}{more}", named.join(", ")))
}

/// How much of an id is shown where that is enough.
const SHORT: usize = 8;

/// Beginnings of ids that tell all sessions apart.
pub(crate) struct ShortIds<'p>(Vec<&'p str>);

impl<'p> ShortIds<'p> {
    pub(crate) fn new(past: &'p Past) -> Self {
        let mut ids: Vec<&str> = past.sessions.iter().chain(&past.parts).map(|session| session.id.as_str()).collect();
        ids.sort_unstable();
        ids.dedup();
        Self(ids)
    }

    /// The shortest beginning of an id that no other one has.
    pub(crate) fn of(&self, id: &str) -> String {
        let place = self.0.partition_point(|known| *known < id);
        let before = place.checked_sub(1).and_then(|before| self.0.get(before));
        let after = self.0[place..].iter().find(|known| **known != id);
        let shared = |other: &&str| id.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
        let needed = before.into_iter().chain(after).map(shared).max().map_or(0, |shared| shared + 1);
        id.chars().take(needed.max(SHORT)).collect()
    }
}

/// Which sessions are meant.
pub(crate) struct Filter {
    pub(crate) agent: Option<&'static Arc<Agent>>,
    pub(crate) since: Option<i64>,
    pub(crate) until: Option<i64>,
    project: Option<Project>,
    model: Option<String>,
}

/// Which working folders are meant.
enum Project {
    /// This one and those in it.
    Folder(PathBuf),
    /// Those whose path has this in it.
    Word(String),
}

impl Project {
    /// A folder is meant by its path; a mere name may be any part of one.
    fn of(text: &str) -> Self {
        match std::fs::canonicalize(text) {
            Ok(path) if text.contains(['/', '\\', '.']) => Self::Folder(path),
            // One that is gone.
            _ if Path::new(text).is_absolute() => Self::Folder(PathBuf::from(text)),
            _ => Self::Word(text.to_owned()),
        }
    }

    fn has(&self, cwd: &str) -> bool {
        match self {
            Self::Folder(folder) => Path::new(cwd).starts_with(folder),
            Self::Word(word) => cwd.contains(word.as_str()),
        }
    }
}

impl Filter {
    pub(crate) fn new(which: &Which, zone: &TimeZone) -> Result<Self, Failure> {
        let moment = |text: &Option<String>, is_end| text.as_deref().map(|text| when::parse(text, zone, is_end)).transpose();
        Ok(Self {
            agent: which.agent.as_deref().map(agents::find).transpose()?,
            since: moment(&which.since, false)?,
            until: moment(&which.until, true)?,
            project: which.project.as_deref().map(Project::of),
            model: which.model.as_deref().map(str::to_lowercase),
        })
    }

    /// Whether responses must be looked at one by one.
    pub(crate) fn narrows(&self) -> bool {
        self.project.is_some() || self.model.is_some()
    }

    /// Whether a session is meant.
    pub(crate) fn session(&self, session: &Session, logs: &[Log]) -> bool {
        self.project(session, logs) && self.time(session) && self.models(session, logs)
    }

    /// Whether a session is in the project.
    pub(crate) fn project(&self, session: &Session, logs: &[Log]) -> bool {
        let inside = |project: &Project| session.account(logs).cwd().is_some_and(|cwd| project.has(cwd));
        self.project.as_ref().is_none_or(inside)
    }

    /// Whether anything of a session was in that time.
    fn time(&self, session: &Session) -> bool {
        let late_enough = self.since.is_none_or(|since| session.last.is_some_and(|last| last >= since));
        late_enough && self.until.is_none_or(|until| session.first.is_some_and(|first| first < until))
    }

    /// Whether a model is meant.
    pub(crate) fn model(&self, model: &str) -> bool {
        self.model.as_ref().is_none_or(|wanted| model.to_lowercase().contains(wanted.as_str()))
    }

    /// Whether one of the session's models is meant.
    fn models(&self, session: &Session, logs: &[Log]) -> bool {
        self.model.is_none() || session.models(logs).into_iter().any(|model| self.model(model))
    }
}

/// Sessions are read on all cores, and what was made of twice as many of them at most is in memory at once.
pub(crate) const SESSIONS: parallel::Plan = parallel::Plan { window: 16 };

#[cfg(test)]
mod tests {
    use super::{Project, ShortIds};

    #[test]
    fn a_path_is_a_folder_and_a_word_is_a_part_of_one() {
        let folder = Project::of("/nowhere/app/");
        assert!(folder.has("/nowhere/app") && folder.has("/nowhere/app/src"));
        assert!(!folder.has("/nowhere/app2") && !folder.has("/home/nowhere/app"));
        assert!(Project::of("app").has("/nowhere/app2"));
    }

    #[test]
    fn beginnings_of_ids_tell_them_apart() {
        let ids = ShortIds(vec!["01a1e06f-9000", "01a1e06f-b000", "01a1e06f-b100", "d4e764d0-f891", "s"]);
        let short = |id: &str| ids.of(id);
        assert_eq!(short("01a1e06f-9000"), "01a1e06f-9");
        assert_eq!(short("01a1e06f-b000"), "01a1e06f-b0");
        assert_eq!(short("01a1e06f-b100"), "01a1e06f-b1");
        assert_eq!(short("d4e764d0-f891"), "d4e764d0");
        assert_eq!(short("s"), "s");
    }
}
