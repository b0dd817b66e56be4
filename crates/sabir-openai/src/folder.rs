//! The working folder: every file is opened under it, and nothing leads out of it.
//!
//! Paths are resolved by the kernel beneath an open folder (or step by step where it can't), so that `..`, absolute
//! paths and links that lead outside are refused, also when a link is put there between a look and a step.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::Dir;

/// A file larger than this is not for a model.
const LARGEST: u64 = 16 * 1024 * 1024;

/// An open working folder.
pub(crate) struct Folder {
    dir: Dir,
    /// The paths that stand for it: as it was given, and as it really is.
    paths: Vec<PathBuf>,
}

/// Why a file can't be had.
#[derive(Debug)]
pub(crate) enum Refused {
    /// It is outside of the folder.
    Outside(String),
    /// Anything else.
    Failed(String),
}

impl Folder {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let real = path.canonicalize()?;
        let dir = Dir::open_ambient_dir(&real, ambient_authority())?;
        Ok(Self { dir, paths: vec![path.to_path_buf(), real] })
    }

    /// The folder itself, with no links in its path.
    pub(crate) fn path(&self) -> &Path {
        self.paths.last().map_or(Path::new("."), PathBuf::as_path)
    }

    /// A path as seen from the folder. Models like to give whole paths.
    pub(crate) fn relative(&self, path: &str) -> Result<PathBuf, Refused> {
        let path = Path::new(path);
        let relative = if path.is_absolute() {
            let inside = self.paths.iter().find_map(|folder| path.strip_prefix(folder).ok());
            inside.ok_or_else(|| outside(path))?
        } else {
            path
        };
        Ok(if relative.as_os_str().is_empty() { PathBuf::from(".") } else { relative.to_path_buf() })
    }

    /// The content of a file, or `None` when there is none.
    pub(crate) fn read(&self, path: &Path) -> Result<Option<Vec<u8>>, Refused> {
        let file = match self.dir.metadata(path) {
            // Opening anything else may wait for ever.
            Ok(about) if about.is_file() => self.dir.open(path),
            Ok(_) => return Err(Refused::Failed(format!("{} is not a file", path.display()))),
            Err(error) => Err(error),
        };
        let mut content = Vec::new();
        match file.and_then(|file| file.take(LARGEST + 1).read_to_end(&mut content)) {
            Ok(_) if content.len() as u64 > LARGEST => {
                Err(Refused::Failed(format!("{} is larger than {} MiB", path.display(), LARGEST >> 20)))
            }
            Ok(_) => Ok(Some(content)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(refused(path, &error)),
        }
    }

    /// Writes a file, and makes the folders that it is in.
    pub(crate) fn write(&self, path: &Path, content: &str) -> Result<(), Refused> {
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            self.dir.create_dir_all(parent).map_err(|error| refused(parent, &error))?;
        }
        self.dir.write(path, content).map_err(|error| refused(path, &error))
    }

    /// The entries of a folder in order of name, folders with a slash behind them, down to that depth.
    pub(crate) fn list(&self, path: &Path, depth: u32, most: usize) -> Result<Vec<String>, Refused> {
        let dir = self.dir.open_dir(path).map_err(|error| refused(path, &error))?;
        let mut entries = Vec::new();
        list(&dir, "", depth, most, &mut entries).map_err(|error| refused(path, &error))?;
        Ok(entries)
    }
}

fn list(dir: &Dir, before: &str, depth: u32, most: usize, entries: &mut Vec<String>) -> io::Result<()> {
    let mut names: Vec<(String, bool)> = Vec::new();
    for entry in dir.entries()? {
        let entry = entry?;
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        names.push((entry.file_name().to_string_lossy().into_owned(), is_folder));
    }
    names.sort();
    for (name, is_folder) in names {
        if entries.len() >= most {
            return Ok(());
        }
        let path = format!("{before}{name}");
        entries.push(if is_folder { format!("{path}/") } else { path.clone() });
        // What Git keeps is of no use to a reader.
        if is_folder && depth > 1 && name != ".git" {
            // A folder that can't be opened is listed by its name.
            if let Ok(inner) = dir.open_dir(&name) {
                list(&inner, &format!("{path}/"), depth - 1, most, entries)?;
            }
        }
    }
    Ok(())
}

fn refused(path: &Path, error: &io::Error) -> Refused {
    // An escape is refused before the system is asked, so it has no error number of the system.
    if error.kind() == io::ErrorKind::PermissionDenied && error.raw_os_error().is_none() {
        outside(path)
    } else {
        Refused::Failed(format!("{}: {error}", path.display()))
    }
}

fn outside(path: &Path) -> Refused {
    Refused::Outside(format!("{} is outside of the working folder", path.display()))
}
