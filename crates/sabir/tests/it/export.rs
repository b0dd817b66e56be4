//! `sabir export -o`: a file is written whole, or stays as it was.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use crate::past::{CLAUDE, Home};
use crate::{stderr, stdout};

/// What is written into a file, in two ways.
const VIEWS: [&str; 2] = ["events", "html"];

/// All names in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<_> = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name")).collect();
    names.sort_unstable();
    names
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("a file").permissions().mode() & 0o777
}

#[test]
fn a_file_is_replaced_by_all_of_a_session() {
    let home = Home::new();
    fs::create_dir(home.path("out")).expect("made");
    fs::write(home.path("out/new"), "").expect("written");
    let usual = mode(&home.path("out/new"));
    fs::write(home.path("out/old"), "before").expect("written");
    fs::set_permissions(home.path("out/old"), fs::Permissions::from_mode(0o640)).expect("set");
    symlink("old", home.path("out/link")).expect("linked");
    for view in VIEWS {
        let printed = home.answer(&["export", CLAUDE, "--to", view]);
        for (name, written, expected) in [("fresh", "fresh", usual), ("old", "old", 0o640), ("link", "old", 0o640)] {
            assert_eq!(home.answer(&["export", CLAUDE, "--to", view, "-o", &format!("out/{name}")]), "");
            let path = home.path("out").join(written);
            assert_eq!(fs::read_to_string(&path).expect("a file"), printed, "{view} {name}");
            assert_eq!(mode(&path), expected, "{view} {name}");
        }
        fs::remove_file(home.path("out/fresh")).expect("removed");
        assert!(fs::symlink_metadata(home.path("out/link")).expect("a link").is_symlink());
        assert_eq!(names(&home.path("out")), ["link", "new", "old"]);
    }
}

#[test]
fn what_cannot_be_written_leaves_the_file_as_it_was() {
    let home = Home::new();
    fs::create_dir(home.path("out")).expect("made");
    fs::write(home.path("out/old"), "before").expect("written");
    for view in VIEWS {
        let failed = home.ask_on_a_full_disk(&["export", CLAUDE, "--to", view, "-o", "out/old"]);
        assert_eq!(failed.status.code(), Some(6), "{}", stderr(&failed));
        assert!(stderr(&failed).contains("writing out/old failed: "), "{}", stderr(&failed));
        assert_eq!(fs::read_to_string(home.path("out/old")).expect("a file"), "before");
        let failed = home.ask_on_a_full_disk(&["export", CLAUDE, "--to", view, "-o", "out/new"]);
        assert_eq!(failed.status.code(), Some(6), "{}", stderr(&failed));
        assert_eq!(names(&home.path("out")), ["old"], "nothing is left of it");
        for path in ["out/no/such/folder", "out", "out/"] {
            let refused = home.ask(&["export", CLAUDE, "--to", view, "-o", path]);
            assert_eq!(refused.status.code(), Some(2), "{path}: {}", stderr(&refused));
            assert!(stderr(&refused).contains("can't write out") && stderr(&refused).contains("hint: "), "{}", stderr(&refused));
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn what_is_no_file_is_written_itself() {
    let home = Home::new();
    for view in VIEWS {
        let printed = home.answer(&["export", CLAUDE, "--to", view]);
        let output = home.ask(&["export", CLAUDE, "--to", view, "-o", "/dev/stdout"]);
        assert_eq!((output.status.code(), stdout(&output)), (Some(0), printed.as_str()), "{}", stderr(&output));
        let full = home.ask(&["export", CLAUDE, "--to", view, "-o", "/dev/full"]);
        assert_eq!(full.status.code(), Some(6), "{}", stderr(&full));
    }
}
