//! Where things are on disk: the only place that knows the name of a file or folder.
//!
//! ```text
//! $SABIR_HOME/
//!   history.index          what was read of agents' own logs; may be removed at any time
//!   runs/
//!     0199a2c4-…/          one run; its name is the run id, with %XX for what a file name should not hold
//!       lock               held by the process that writes the run
//!       00000001.seg       the records, in order; see `segment`
//!       00000002.seg
//!     .pruned-0199…/       a run that is being removed
//!   outbox/
//!     session-1/           the log of a session that a shell delivers; the same files as those of a run
//!   hub/                   what a hub keeps, unless it is told to keep it elsewhere
//! ```
//!
//! Folders are for their owner alone (0700), and so are files (0600); wider ones are tightened when they are opened to write.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::cursor::Cursor;
use crate::private;
use crate::reader::Reader;
use crate::trouble::{Trouble, Why};

const RUNS: &str = "runs";
const OUTBOX: &str = "outbox";
const HUB: &str = "hub";
const INDEX: &str = "history.index";
const LOCK: &str = "lock";
const SEGMENT: &str = ".seg";
const PRUNED: &str = ".pruned-";

/// Names of folders are kept shorter than this; file systems take 255 bytes.
const LONGEST_NAME: usize = 200;

/// The folder that Sabir keeps everything in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home(PathBuf);

impl Home {
    /// `$SABIR_HOME`, else the folder that the system has for data of programs.
    pub fn find() -> Result<Self, Trouble> {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let found = set("SABIR_HOME").or_else(|| {
            let home = std::env::home_dir().filter(|home| home.is_absolute());
            let data = if cfg!(windows) {
                set("LOCALAPPDATA").or_else(|| home.map(|home| home.join("AppData").join("Local")))
            } else if cfg!(target_os = "macos") {
                home.map(|home| home.join("Library").join("Application Support"))
            } else {
                let named = set("XDG_DATA_HOME").filter(|folder| folder.is_absolute());
                named.or_else(|| home.map(|home| home.join(".local").join("share")))
            };
            data.map(|data| data.join("sabir"))
        });
        let none = || {
            let hint = "SABIR_HOME names a folder to keep it in; --no-journal keeps no journal";
            Trouble::new(Why::NoHome, "there is no home folder to keep the journal in", hint)
        };
        std::path::absolute(found.ok_or_else(none)?).map(Self).map_err(|_| none())
    }

    /// This folder. It need not exist yet.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The index of what agents logged. It need not exist yet.
    pub fn index(&self) -> PathBuf {
        self.0.join(INDEX)
    }

    /// What a hub keeps. It need not exist yet.
    pub fn hub(&self) -> PathBuf {
        self.0.join(HUB)
    }

    /// The folder of a run. It need not exist yet.
    pub fn run(&self, id: &str) -> Result<RunFolder, Trouble> {
        self.folder(RUNS, id)
    }

    /// The folder of the log of a session that is delivered. It need not exist yet.
    pub fn outbox(&self, session: &str) -> Result<RunFolder, Trouble> {
        self.folder(OUTBOX, session)
    }

    fn folder(&self, under: &str, id: &str) -> Result<RunFolder, Trouble> {
        let name = file_name(id);
        if name.is_empty() || name.len() > LONGEST_NAME {
            let hint = "an id has 1 to 200 letters, digits, dashes and underscores; other characters count for more";
            return Err(Trouble::new(Why::BadId, format!("{id:?} can't be the id of a run or a session"), hint));
        }
        Ok(RunFolder { id: id.to_owned(), path: self.0.join(under).join(name), part: None })
    }

    /// The folders of all runs, in the order of their names: those that Sabir named are in the order of time. A folder whose
    /// id was used more than once is one of them; [`RunFolder::runs`] takes it apart.
    pub fn runs(&self) -> io::Result<Vec<RunFolder>> {
        self.folders(RUNS)
    }

    /// The outboxes of all sessions that have one, in the order of their names.
    pub fn outboxes(&self) -> io::Result<Vec<RunFolder>> {
        self.folders(OUTBOX)
    }

    fn folders(&self, under: &str) -> io::Result<Vec<RunFolder>> {
        let mut runs: Vec<RunFolder> = self
            .entries(under)?
            .into_iter()
            .filter_map(|(name, path)| Some(RunFolder { id: decode(&name)?, path, part: None }))
            .filter(RunFolder::exists)
            .collect();
        runs.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(runs)
    }

    /// Removed runs whose files a crash left.
    pub(crate) fn half_removed(&self) -> io::Result<Vec<PathBuf>> {
        Ok(self.entries(RUNS)?.into_iter().filter(|(name, _)| name.starts_with(PRUNED)).map(|(_, path)| path).collect())
    }

    fn entries(&self, under: &str) -> io::Result<Vec<(String, PathBuf)>> {
        let entries = match fs::read_dir(self.0.join(under)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut all = Vec::new();
        for entry in entries {
            let entry = entry?;
            if let (Ok(name), true) = (entry.file_name().into_string(), entry.file_type()?.is_dir()) {
                all.push((name, entry.path()));
            }
        }
        Ok(all)
    }
}

/// The folder of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFolder {
    id: String,
    path: PathBuf,
    /// The run is a part of what is in the folder, because its id was used more than once.
    part: Option<Part>,
}

/// One of several runs in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    /// The id that all of them were written with.
    written_id: String,
    span: Span,
}

/// The segments of one run in a folder of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) first: u32,
    /// `u32::MAX` for the latest run, which may still be written.
    pub(crate) last: u32,
    /// The last record before them.
    pub(crate) before: Cursor,
}

impl RunFolder {
    /// The id of the run. Where the id was used more than once, the earlier runs have a suffix.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The id that the run was written with: records are checked against it.
    pub(crate) fn written_id(&self) -> &str {
        self.part.as_ref().map_or(&self.id, |part| &part.written_id)
    }

    /// The segments of the run, where it is one of several in the folder.
    pub(crate) fn span(&self) -> Option<Span> {
        self.part.as_ref().map(|part| part.span)
    }

    /// Whether no later run is in the folder.
    pub(crate) fn is_latest(&self) -> bool {
        self.span().is_none_or(|span| span.last == u32::MAX)
    }

    /// The folder with all runs that are in it.
    pub(crate) fn folder(&self) -> Self {
        Self { id: self.written_id().to_owned(), path: self.path.clone(), part: None }
    }

    /// The runs in the folder, the earliest first: several where an id was used more than once.
    pub fn runs(&self) -> io::Result<Vec<Self>> {
        crate::reused::split(self)
    }

    /// One of several runs in this folder. An earlier run has its epoch as a suffix of its id.
    pub(crate) fn part(&self, epoch: Option<u32>, span: Span) -> Self {
        let mut id = self.id.clone();
        if let Some(epoch) = epoch {
            id = format!("{id}.{epoch}");
            while self.path.with_file_name(file_name(&id)).exists() {
                id.push('.');
            }
        }
        Self { id, path: self.path.clone(), part: Some(Part { written_id: self.id.clone(), span }) }
    }

    /// Whether anything was ever written to the run: its writer may have only begun, or was killed before it had.
    pub fn has_records(&self) -> io::Result<bool> {
        let mut reader = match Reader::of(self.clone()) {
            Err(trouble) if trouble.why == Why::NotFound => return Ok(false),
            reader => reader.map_err(|trouble| io::Error::other(trouble.what))?,
        };
        Ok(reader.next()?.is_some() || !reader.damage().is_none())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether there is a journal, or at least the beginning of one. A folder that can't be looked into may be one.
    pub fn exists(&self) -> bool {
        self.path.join(LOCK).is_file()
            || self.segments().map_or_else(|error| error.kind() == io::ErrorKind::PermissionDenied, |numbers| !numbers.is_empty())
    }

    /// The file of a segment.
    pub fn segment(&self, number: u32) -> PathBuf {
        self.path.join(format!("{number:08}{SEGMENT}"))
    }

    /// The numbers of the segments that there are, in order.
    pub fn segments(&self) -> io::Result<Vec<u32>> {
        let names = fs::read_dir(&self.path)?.map(|entry| entry.map(|entry| entry.file_name()));
        let names: Vec<OsString> = names.collect::<io::Result<_>>()?;
        Ok(self.segments_of(names.iter().filter_map(|name| name.to_str())))
    }

    /// The numbers of the segments among names of files, in order.
    pub(crate) fn segments_of<'n>(&self, names: impl Iterator<Item = &'n str>) -> Vec<u32> {
        // Only the name that `segment` gives to a number is that number's.
        let number = |name: &str| {
            let number = name.strip_suffix(SEGMENT)?.parse().ok()?;
            (self.segment(number).file_name() == Some(name.as_ref())).then_some(number)
        };
        let mut numbers: Vec<u32> = names.filter_map(number).collect();
        if let Some(Span { first, last, .. }) = self.span() {
            numbers.retain(|number| (first..=last).contains(number));
        }
        numbers.sort_unstable();
        numbers
    }

    /// Whether a process is writing the run now. The system lets go of the lock when that process is gone, however it
    /// ended. On a file system without locks no run is live.
    pub fn is_live(&self) -> bool {
        self.is_latest()
            && File::open(self.path.join(LOCK)).is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    /// The file whose lock says that the run is being written; made if it is not there.
    pub(crate) fn lock_file(&self) -> io::Result<File> {
        private::options(OpenOptions::new().read(true).write(true).create(true).truncate(false)).open(self.path.join(LOCK))
    }

    pub(crate) fn has_lock_file(&self) -> bool {
        self.path.join(LOCK).exists()
    }

    /// Creates the folder, and removes the access of others from one that exists.
    pub(crate) fn create(&self) -> io::Result<()> {
        private::create_folder(&self.path)?;
        self.path.parent().into_iter().for_each(private::tighten);
        private::tighten_folder(&self.path);
        Ok(())
    }

    /// Makes a segment, which must be new, to append to.
    pub(crate) fn create_segment(&self, number: u32) -> io::Result<File> {
        private::options(OpenOptions::new().append(true).create_new(true)).open(self.segment(number))
    }

    /// Makes the names of new files and folders durable.
    pub(crate) fn sync_folders(&self) -> io::Result<()> {
        // The run's folder, `runs`, and the home, which may all be new.
        self.path.ancestors().take(3).try_for_each(sync_folder)
    }

    /// Where a run goes while it is removed.
    pub(crate) fn pruned(&self) -> PathBuf {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        self.path.with_file_name(format!("{PRUNED}{name}"))
    }
}

#[cfg(unix)]
fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Where folders can't be opened, the system looks after their entries itself.
#[cfg(not(unix))]
fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

/// A name that every file system takes, that leads nowhere else, and that tells the id.
pub fn file_name(id: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    id.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// The id that was encoded so; `None` for a name that [`file_name`] does not give.
fn decode(name: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((before, after)) = rest.split_once('%') {
        bytes.extend_from_slice(before.as_bytes());
        bytes.push(u8::from_str_radix(after.get(..2)?, 16).ok()?);
        rest = &after[2..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8(bytes).ok().filter(|id| file_name(id) == name)
}

#[cfg(test)]
mod tests {
    use super::{Home, decode, file_name};

    #[test]
    fn any_id_is_one_folder_name_and_comes_back() {
        for id in ["0199a2c4-7f00", "a/b", "..", ".", "ü x", "%41", "a.b", "C:\\x", "\u{0}"] {
            let name = file_name(id);
            assert!(!name.contains(['/', '\\', '.', ':', '\0']), "{id} → {name}");
            assert_eq!(decode(&name).as_deref(), Some(id));
        }
        for name in [".pruned-x", "a b", "%", "%4", "%zz", "%41", "%ff", "%FF"] {
            assert_eq!(decode(name), None, "{name}");
        }
    }

    #[test]
    fn an_id_that_cannot_be_a_name_is_refused() {
        let home = Home::at("/home");
        assert!(home.run("").is_err() && home.run(&"x".repeat(201)).is_err());
        assert!(home.run("../../etc").is_ok_and(|run| run.path().starts_with("/home/runs")));
    }
}
