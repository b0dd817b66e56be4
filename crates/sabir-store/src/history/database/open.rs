//! Opening a database without a trace.
//!
//! Who opens a database whose writes go to a file beside it makes that file and another one, also for reading alone, and can't
//! where the folder is not for writing. One that its writers closed has no such file: it is read as one that nobody changes.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::super::Look;
use super::super::find::with_ending;

/// How long a writer is waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// Where a database says how it is written and read, and what it says when its writes go to a file beside it.
const FORMATS: usize = 18;
const BESIDE: [u8; 2] = [2, 2];

/// Opens a database for reading, and says what its file was if nobody writes to it.
pub(super) fn open(path: &Path) -> rusqlite::Result<(Connection, Option<Look>)> {
    match (at_rest(path), address(path)) {
        (Some(look), Some(address)) => {
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
            Ok((Connection::open_with_flags(address, flags)?, Some(look)))
        }
        _ => Ok((in_use(path)?, None)),
    }
}

/// Opens a database that somebody may write to.
pub(super) fn in_use(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(PATIENCE)?;
    Ok(connection)
}

/// What the file of a database is to which nobody writes: all of it is in the one file, and its writers would write to
/// another one.
pub(super) fn at_rest(path: &Path) -> Option<Look> {
    if fs::metadata(with_ending(path, "-wal")).is_ok_and(|beside| beside.len() > 0) {
        return None;
    }
    let look = Look::at(path).ok()?;
    let mut head = [0; FORMATS + BESIDE.len()];
    File::open(path).and_then(|mut file| file.read_exact(&mut head)).ok()?;
    (head[FORMATS..] == BESIDE).then_some(look)
}

/// The address of a file that does not change; `None` for a path that can't be written as one.
fn address(path: &Path) -> Option<String> {
    use std::fmt::Write as _;
    let mut address = String::from(if path.is_absolute() { "file://" } else { "file:" });
    for byte in &*bytes(path)? {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b'~' => address.push(char::from(*byte)),
            // Memory takes it.
            _ => drop(write!(address, "%{byte:02X}")),
        }
    }
    address.push_str("?immutable=1");
    Some(address)
}

#[cfg(unix)]
#[allow(clippy::unnecessary_wraps, reason = "elsewhere there are paths that can't be written")]
fn bytes(path: &Path) -> Option<std::borrow::Cow<'_, [u8]>> {
    use std::os::unix::ffi::OsStrExt as _;
    Some(path.as_os_str().as_bytes().into())
}

/// `C:\a` is `/C:/a` there; a path of another kind than that has no address.
#[cfg(not(unix))]
fn bytes(path: &Path) -> Option<std::borrow::Cow<'_, [u8]>> {
    let text = path.to_str().filter(|text| !text.starts_with('\\'))?.replace('\\', "/");
    Some(if path.is_absolute() { format!("/{text}") } else { text }.into_bytes().into())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    #[test]
    #[cfg(unix)]
    fn a_path_is_one_address_whatever_is_in_it() {
        let address = |path: &str| super::address(Path::new(path)).expect("an address");
        assert_eq!(address("/a b/c?d#e%.db"), "file:///a%20b/c%3Fd%23e%25.db?immutable=1");
        assert_eq!(address("é.db"), "file:%C3%A9.db?immutable=1");
    }
}
