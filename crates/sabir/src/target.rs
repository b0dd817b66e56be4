//! A file that a user names to be written: all of it, or it stays as it was.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::failure::Failure;

/// A file that is being written.
pub(crate) struct Target<'p> {
    /// As the user named it.
    name: &'p Path,
    place: Place,
}

enum Place {
    /// A file beside the one that is meant, whose place it takes at the end.
    Beside(NamedTempFile, PathBuf),
    /// A pipe, a terminal, a device: there is nothing to put in its place.
    Itself(File),
}

impl<'p> Target<'p> {
    /// Makes sure that the file can be written. What is in it stays until [`Self::finish`].
    pub(crate) fn create(name: &'p Path) -> Result<Self, Failure> {
        let place = Place::of(name).map_err(|error| {
            let why = match (error.kind(), name.parent()) {
                (io::ErrorKind::NotFound, Some(folder)) => format!("there is no folder {}", folder.display()),
                _ => error.to_string(),
            };
            Failure::usage(format!("can't write {}: {why}", name.display())).hint("name another file with --output")
        })?;
        Ok(Self { name, place })
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let written = match &mut self.place {
            Place::Beside(file, _) => file.as_file_mut().write_all(bytes),
            Place::Itself(file) => file.write_all(bytes),
        };
        written.map_err(|error| failed(self.name, &error))
    }

    /// Puts what was written in place.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        let Place::Beside(file, path) = self.place else { return Ok(()) };
        // Some disks say only now that they are full.
        let synced = file.as_file().sync_all();
        let persisted = synced.and_then(|()| file.persist(path).map(drop).map_err(|error| error.error));
        persisted.map_err(|error| failed(self.name, &error))
    }
}

fn failed(name: &Path, error: &io::Error) -> Failure {
    Failure::io(format_args!("writing {} failed", name.display()), error)
}

impl Place {
    fn of(name: &Path) -> io::Result<Self> {
        let is_link = fs::symlink_metadata(name).is_ok_and(|there| there.is_symlink());
        match fs::metadata(name) {
            Ok(there) if there.is_file() && !is_of_a_process(name) => {
                // Who may not write to a file may not put another one in its place either.
                OpenOptions::new().write(true).open(name)?;
                // What a link leads to is written, and the link stays.
                let path = fs::canonicalize(name)?;
                match beside(&path) {
                    Ok(file) => {
                        file.as_file().set_permissions(there.permissions())?;
                        Ok(Self::Beside(file, path))
                    }
                    // One may write to the file, but make none in its folder.
                    Err(_) => Ok(Self::Itself(File::create(name)?)),
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound && !is_link => Ok(Self::Beside(beside(name)?, name.to_owned())),
            // Also a link to a file that is not there yet.
            _ => Ok(Self::Itself(File::create(name)?)),
        }
    }
}

/// Whether this is a name like `/dev/stdout`, for what a process has open.
fn is_of_a_process(name: &Path) -> bool {
    ["/dev", "/proc"].iter().any(|folder| name.starts_with(folder))
}

/// A new file in the folder of another one, which may be read by whom any new file may.
fn beside(path: &Path) -> io::Result<NamedTempFile> {
    // `a/` and `..` are no names of files.
    if path.file_name().is_none() || path.as_os_str().to_string_lossy().ends_with(std::path::MAIN_SEPARATOR) {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    builder.prefix(".sabir-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    // Of an error the cause is told: the name of a file that nobody asked for tells nobody anything.
    builder
        .tempfile_in(folder)
        .map_err(|error| error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error))
}
