//! Redaction over the files of this repository: text of the kind that agents print, with no key in it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::path::{Path, PathBuf};
use std::time::Instant;

use sabir_shell::Redactor;

/// The files beneath a folder that are text.
fn texts(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            texts(&path, found);
        } else if let Ok(text) = std::fs::read_to_string(&path) {
            found.push((path, text));
        }
    }
}

#[test]
fn redaction_leaves_this_repository_alone() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository");
    let mut files = Vec::new();
    // Not sabir-shell: its tests are made of keys.
    for folder in ["crates/sabir-core", "crates/sabir-store/src", "crates/sabir-run/src", "docs", "xtask/src", "lab/src"] {
        texts(&root.join(folder), &mut files);
    }
    let bytes: usize = files.iter().map(|(_, text)| text.len()).sum();
    let redactor = Redactor::new([]).expect("a redactor");
    let begin = Instant::now();
    let marks = |text: &str| redactor.text(text).matches("[secret ").count() - text.matches("[secret ").count();
    let hits: Vec<_> = files.iter().map(|(path, text)| (path, marks(text))).filter(|(_, count)| *count > 0).collect();
    let total: usize = hits.iter().map(|(_, count)| count).sum();
    println!("{total} marks in {:.1} MB of {} files, {:.0} MB/s", megabytes(bytes), files.len(), speed(bytes, begin));
    for (path, count) in &hits {
        println!("  {count} in {}", path.display());
    }
    for count in [1, 10] {
        let secrets =
            (0..count).map(|number| (format!("S{number}"), format!("{:040x}", 0x9e37_79b9_7f4a_7c15_u128 * (number + 1))));
        let redactor = Redactor::new(secrets).expect("a redactor");
        let begin = Instant::now();
        let written: usize = files.iter().map(|(_, text)| redactor.text(text).len()).sum();
        println!("with {count} known secrets: {:.0} MB/s, {written} bytes", speed(bytes, begin));
    }
    assert!(total * 1_000_000 <= 3 * bytes, "{hits:?}");
}

fn megabytes(bytes: usize) -> f64 {
    bytes as f64 / 1e6
}

fn speed(bytes: usize, begin: Instant) -> f64 {
    megabytes(bytes) / begin.elapsed().as_secs_f64()
}
