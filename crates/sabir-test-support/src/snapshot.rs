//! Expected output in files: compared with a diff, or rewritten with `SABIR_UPDATE=1`.

use std::path::Path;

use similar::TextDiff;

/// Compares text with the file that holds the expected text; an error has the whole diff.
///
/// With `SABIR_UPDATE=1` the file is written instead. Under `CI` that variable is an error: no comparison would ever fail.
pub fn check(path: &Path, actual: &str) -> Result<(), String> {
    check_as(mode(crate::is_set("SABIR_UPDATE"), crate::is_ci())?, path, actual)
}

/// As [`check`], but panics where that is an error.
#[track_caller]
pub fn assert(path: &Path, actual: &str) {
    if let Err(error) = check(path, actual) {
        panic!("{error}");
    }
}

/// A unified diff of two texts; `None` if they are equal.
pub fn diff(expected: &str, actual: &str) -> Option<String> {
    (expected != actual).then(|| TextDiff::from_lines(expected, actual).unified_diff().header("expected", "actual").to_string())
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Mode {
    Compare,
    Update,
}

fn mode(is_update: bool, is_ci: bool) -> Result<Mode, String> {
    match (is_update, is_ci) {
        (false, _) => Ok(Mode::Compare),
        (true, false) => Ok(Mode::Update),
        (true, true) => {
            Err("SABIR_UPDATE is set under CI, where expected files are only compared\nhint: unset SABIR_UPDATE".to_owned())
        }
    }
}

fn check_as(mode: Mode, path: &Path, actual: &str) -> Result<(), String> {
    if mode == Mode::Update {
        let folder = path.parent().expect("a file is in a folder");
        let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(path, actual));
        return written.map_err(|error| format!("could not write {}: {error}", path.display()));
    }
    let expected = match std::fs::read_to_string(path) {
        Ok(expected) => expected,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(format!("could not read {}: {error}", path.display())),
    };
    let diff = diff(&expected, actual).map(|diff| format!("{} differs\n{diff}hint: SABIR_UPDATE=1 rewrites it", path.display()));
    diff.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::{Mode, check_as, mode};

    #[test]
    fn mode_refuses_updates_under_ci() {
        assert_eq!(mode(false, true), Ok(Mode::Compare));
        assert_eq!(mode(true, false), Ok(Mode::Update));
        assert!(mode(true, true).unwrap_err().contains("under CI"));
    }

    #[test]
    fn check_shows_every_difference() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("expected.txt");
        let lines = |first: &str, last: &str| [first, "2", "3", "4", "5", "6", "7", "8", last, ""].join("\n");
        check_as(Mode::Update, &path, &lines("1", "9")).unwrap();
        assert_eq!(check_as(Mode::Compare, &path, &lines("1", "9")), Ok(()));
        let error = check_as(Mode::Compare, &path, &lines("one", "nine")).unwrap_err();
        for part in ["expected.txt differs", "-1\n+one\n", "-9\n+nine\n", "SABIR_UPDATE=1"] {
            assert!(error.contains(part), "{part} is not in {error}");
        }
    }

    #[test]
    fn check_compares_a_missing_file_with_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/expected.txt");
        assert!(check_as(Mode::Compare, &path, "new\n").unwrap_err().contains("+new\n"));
        check_as(Mode::Update, &path, "new\n").unwrap();
        assert_eq!(check_as(Mode::Compare, &path, "new\n"), Ok(()));
    }
}
