//! What ran before: the sessions that agents logged, as one list.

use std::io;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::path::PathBuf;

use jiff::tz::TimeZone;
use sabir_core::agent::{self, Agent};
use sabir_store::account::Session;
use sabir_store::history::Places;
use sabir_store::{Home, parallel};

use crate::cli::past::Which;
use crate::commands::agents;
use crate::failure::Failure;
use crate::print::progress::Progress;
use crate::print::{hint, warning};
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
pub(crate) fn load(agent: Option<&'static Agent>, index: bool) -> Past {
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
pub(crate) fn load_quietly() -> Past {
    let home = Home::find().ok();
    let index = home.as_ref().map(Home::index);
    let past = sabir_store::past::load(&places(), home.as_ref(), index.as_deref(), |_| true, &mut |_, _| {});
    Past(ManuallyDrop::new(past))
}

/// How many unreadable files are named one by one.
const NAMED: usize = 3;

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

/// The home folder and the variables that move agents' folders.
pub(crate) fn places() -> Places {
    let roots = agent::ALL.iter().filter_map(|agent| agent.history.as_ref()).flat_map(|history| history.roots);
    let names = roots.filter_map(|root| root.variable);
    let variables = names.filter_map(|name| Some((name.to_owned(), std::env::var_os(name)?))).collect();
    Places { home: std::env::home_dir(), variables }
}

impl Past {
    /// The session whose id starts so.
    pub(crate) fn session(&self, prefix: &str) -> Result<&Session, Failure> {
        let all = self.sessions.iter().chain(&self.parts);
        let mut matching: Vec<&Session> = all.filter(|session| session.id.starts_with(prefix)).collect();
        if let Some(exact) = matching.iter().find(|session| session.id == prefix) {
            return Ok(exact);
        }
        matching.sort_by_key(|session| std::cmp::Reverse(session.last));
        match *matching {
            [session] => Ok(session),
            [] => Err(Failure::usage(format!("there is no session whose id starts with {prefix}"))
                .hint("`sabir ls` lists the sessions")),
            [first, second, ..] => Err(Failure::usage(format!("{} sessions start with {prefix}", matching.len())).hint(format!(
                "give more of the id, e.g. {} or {}",
                unique(&first.id, &second.id),
                unique(&second.id, &first.id)
            ))),
        }
    }
}

/// The shortest beginning of an id that another one does not have.
fn unique(id: &str, other: &str) -> String {
    let shared = id.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
    id.chars().take(shared + 1).collect()
}

/// Which sessions are meant.
pub(crate) struct Filter {
    pub(crate) agent: Option<&'static Agent>,
    pub(crate) since: Option<i64>,
    pub(crate) until: Option<i64>,
    project: Option<String>,
    model: Option<String>,
}

impl Filter {
    pub(crate) fn new(which: &Which, zone: &TimeZone) -> Result<Self, Failure> {
        let moment = |text: &Option<String>, is_end| text.as_deref().map(|text| when::parse(text, zone, is_end)).transpose();
        // A folder is meant by its path; a mere name may be any part of one.
        let project = which.project.as_deref().map(|project| match std::fs::canonicalize(project) {
            Ok(path) if project.contains(['/', '\\', '.']) => path.display().to_string(),
            _ => project.to_owned(),
        });
        Ok(Self {
            agent: which.agent.as_deref().map(agents::find).transpose()?,
            since: moment(&which.since, false)?,
            until: moment(&which.until, true)?,
            project,
            model: which.model.as_deref().map(str::to_lowercase),
        })
    }

    /// Whether responses must be looked at one by one.
    pub(crate) fn narrows(&self) -> bool {
        self.project.is_some() || self.model.is_some()
    }

    /// Whether a session is in the project.
    pub(crate) fn session(&self, session: &Session) -> bool {
        let inside = |project: &String| session.cwd.as_ref().is_some_and(|cwd| cwd.contains(project.as_str()));
        self.project.as_ref().is_none_or(inside)
    }

    /// Whether anything of a session was in that time.
    pub(crate) fn time(&self, session: &Session) -> bool {
        let late_enough = self.since.is_none_or(|since| session.last.is_some_and(|last| last >= since));
        late_enough && self.until.is_none_or(|until| session.first.is_some_and(|first| first < until))
    }

    /// Whether a model is meant.
    pub(crate) fn model(&self, model: &str) -> bool {
        self.model.as_ref().is_none_or(|wanted| model.to_lowercase().contains(wanted.as_str()))
    }

    /// Whether one of the session's models is meant.
    pub(crate) fn models(&self, session: &Session) -> bool {
        self.model.is_none() || session.models.iter().any(|model| self.model(model))
    }
}

/// Sessions are read on all cores, and what was made of so many of them is in memory at once.
pub(crate) const SESSIONS: parallel::Plan = parallel::Plan { window: 32 };
