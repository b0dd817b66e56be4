//! Where the logs are.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use sabir_core::agent::{Agent, Registry};
use sabir_core::history::{FileRole, LogRoot, LogSpec};
use serde::{Deserialize, Serialize};

use super::folders::{Names, names};
use super::look::{Base, Look};
use crate::index::Index;
use crate::layout::RunFolder;

/// Where to look: the user's home folder and the variables that move an agent's folder.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// The agents whose logs to look for.
    pub registry: Registry,
    /// The home folder.
    pub home: Option<PathBuf>,
    /// Environment variables by name.
    pub variables: BTreeMap<String, OsString>,
}

/// A file of an agent's history.
#[derive(Debug, Clone)]
pub struct LogFile {
    /// Whose it is.
    pub agent: Arc<Agent>,
    /// Where it is.
    pub path: PathBuf,
    /// What it is.
    pub role: Role,
    /// Its size in bytes.
    pub size: u64,
    /// When it was last written, in nanoseconds since 1970.
    pub modified: i64,
    /// When it was last changed in any way, what may be done to it included, by the system's own clock. Where there is no such
    /// clock, all files have the same.
    pub changed: i64,
    /// What names the file whatever its path: device and number.
    pub identity: (u64, u64),
}

impl LogFile {
    /// Whether it is one JSON object, and not a line for each thing that happened.
    pub(crate) fn is_one_object(&self) -> bool {
        self.path.extension().is_some_and(|extension| extension == "json")
    }
}

/// What a file is among the files of a history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// The log of the session of that id, or of one whose id begins so.
    Session(String),
    /// It belongs to the session of that id.
    Of(String),
    /// It belongs to a session that only its lines name.
    Stray,
    /// A database of sessions.
    Database,
    /// A run of the journal. It is in no index.
    #[serde(skip)]
    Run(Box<RunFolder>),
}

/// What there is.
#[derive(Debug, Default)]
pub struct Found {
    /// The files, sorted by path within an agent.
    pub files: Vec<LogFile>,
    /// What could not be looked at, and why.
    pub failures: Vec<(PathBuf, io::Error)>,
}

/// How deep folders are looked into. No agent nests so deep, and a link may go in circles.
const DEPTH: usize = 12;
/// So many names of a folder are many.
const MANY: usize = 8;

/// Finds the logs of the agents that the choice says yes to.
pub fn find(places: &Places, chosen: impl Fn(&Agent) -> bool) -> Found {
    find_in(&mut Index::default(), places, chosen)
}

/// The same where an index knows what some folders hold.
pub fn find_in(index: &mut Index, places: &Places, chosen: impl Fn(&Agent) -> bool) -> Found {
    // Nearly all that is there was there the last time.
    let mut found = Found { files: Vec::with_capacity(index.len()), failures: Vec::new() };
    for agent in places.registry.iter().filter(|agent| chosen(agent)) {
        let Some(history) = &agent.log else { continue };
        let mut roots: Vec<PathBuf> = history.roots.iter().flat_map(|root| named_by(root, places)).collect();
        roots.sort();
        roots.dedup();
        for root in roots {
            let base = Base::new(&root);
            Walk { agent, history, root: &root, base, index, found: &mut found }.start();
        }
    }
    found
}

/// The folders that a root stands for: a variable may name several, with commas between.
fn named_by(root: &LogRoot, places: &Places) -> Vec<PathBuf> {
    let set = root.env_var.as_deref().and_then(|name| places.variables.get(name)).filter(|value| !value.is_empty());
    match set {
        Some(value) => match value.to_str() {
            Some(list) => list.split(',').map(|folder| Path::new(folder.trim()).join(&*root.subpath)).collect(),
            None => vec![Path::new(value).join(&*root.subpath)],
        },
        None => places.home.iter().map(|home| home.join(&*root.home_dir).join(&*root.subpath)).collect(),
    }
}

struct Walk<'w> {
    agent: &'w Arc<Agent>,
    history: &'w LogSpec,
    root: &'w Path,
    base: Base<'w>,
    index: &'w mut Index,
    found: &'w mut Found,
}

impl Walk<'_> {
    /// A root is a folder, or the one file that an agent keeps.
    fn start(&mut self) {
        match self.base.look("") {
            Ok(look) if look.is_file => {
                let name = self.root.file_name().and_then(|name| name.to_str());
                if let Some(role) = name.and_then(|name| self.role(name)) {
                    self.file("", role, &look);
                }
            }
            Ok(look) => self.listed(&mut String::new(), &look),
            // An agent that was never used has no folder.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => self.found.failures.push((self.root.to_path_buf(), error)),
        }
    }

    /// Looks into the folder at a path below the root, which is as it was afterwards.
    fn folder(&mut self, below: &mut String) {
        if let Some(only) = self.history.filter.as_ref().filter(|only| only.depth == depth(below)) {
            return self.only(below, &only.name);
        }
        match self.base.look(below) {
            Ok(look) => self.listed(below, &look),
            Err(error) => self.found.failures.push((self.path(below), error)),
        }
    }

    /// Looks at the one name in a folder that matters.
    fn only(&mut self, below: &mut String, name: &str) {
        let length = below.len();
        below.push('/');
        below.push_str(name);
        match (self.base.look(below), self.role(below)) {
            (Ok(look), Some(role)) => self.file(below, role, &look),
            (Ok(look), None) if !look.is_file => self.listed(below, &look),
            (Ok(_), None) => {}
            // Most such folders have nothing of ours in them.
            (Err(error), _) if error.kind() == io::ErrorKind::NotFound => {}
            (Err(error), _) => self.found.failures.push((self.path(below), error)),
        }
        below.truncate(length);
    }

    /// Looks at all that is in a folder of which that is seen.
    fn listed(&mut self, below: &mut String, look: &Look) {
        let path = self.path(below);
        let names = match names(self.index, &path, look) {
            Ok(names) => names,
            Err(error) => return self.found.failures.push((path, error)),
        };
        self.unnamed(below, &path, &names);
        // To open a folder pays off when many are asked from there.
        let near = names.iter().nth(MANY).is_some().then(|| Base::new(&path));
        let length = below.len();
        for (name, is_folder) in names.iter() {
            if length > 0 {
                below.push('/');
            }
            below.push_str(name);
            if !is_folder {
                if let Some(role) = self.role(below) {
                    match near.as_ref().map_or_else(|| self.base.look(below), |near| near.look(name)) {
                        Ok(look) => self.file(below, role, &look),
                        Err(error) => self.found.failures.push((self.path(below), error)),
                    }
                }
            } else if depth(below) < DEPTH {
                self.folder(below);
            }
            below.truncate(length);
        }
    }

    /// Says which entries of a folder have names that are no text: folders, and files that would be logs.
    fn unnamed(&mut self, below: &str, folder: &Path, names: &Names) {
        for (name, is_folder) in &names.unnamed {
            let begun = if below.is_empty() { String::new() } else { format!("{below}/") };
            if *is_folder || self.role(&(begun + &name.to_string_lossy())).is_some() {
                let error = io::Error::new(io::ErrorKind::InvalidData, "its name is not text");
                self.found.failures.push((folder.join(name), error));
            }
        }
    }

    /// What the file is whose names below the root are these.
    fn role(&self, below: &str) -> Option<Role> {
        let (mut names, mut count, mut rest) = ([""; DEPTH], 1, below);
        while let Some((name, behind)) = memchr::memchr(b'/', rest.as_bytes()).map(|end| (&rest[..end], &rest[end + 1..]))
            && count < DEPTH
        {
            (names[count - 1], rest) = (name, behind);
            count += 1;
        }
        names[count - 1] = rest;
        Some(match self.history.classify(&names[..count])? {
            FileRole::Session(id) => Role::Session(id.to_owned()),
            FileRole::Child(id) => Role::Of(id.to_owned()),
            FileRole::Orphan => Role::Stray,
            FileRole::Database => Role::Database,
        })
    }

    /// Takes what is seen at a path below the root, if it is a file.
    fn file(&mut self, below: &str, role: Role, look: &Look) {
        if !look.is_file {
            return;
        }
        let path = self.path(below);
        // What was written last to a database is in a file beside it.
        let beside = (role == Role::Database).then(|| Look::at(&with_ending(&path, "-wal")).ok()).flatten();
        self.found.files.push(LogFile {
            agent: Arc::clone(self.agent),
            role,
            size: look.size + beside.map_or(0, |beside| beside.size),
            modified: look.modified.max(beside.map_or(0, |beside| beside.modified)),
            // Who reads a database that is in use may change the file beside it so, and nothing in it.
            changed: look.changed(),
            identity: look.identity,
            path,
        });
    }

    fn path(&self, below: &str) -> PathBuf {
        let mut path = PathBuf::with_capacity(self.root.as_os_str().len() + 1 + below.len());
        path.push(self.root);
        // To push nothing would put a slash behind it.
        if !below.is_empty() {
            path.push(below);
        }
        path
    }
}

/// How many folders below the root a folder is.
fn depth(below: &str) -> usize {
    1 + memchr::memchr_iter(b'/', below.as_bytes()).count()
}

pub(super) fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// When a file was last written, in nanoseconds since 1970.
pub(crate) fn modified(data: &Metadata) -> i64 {
    let since = data.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.and_then(|since| i64::try_from(since.as_nanos()).ok()).unwrap_or(0)
}
