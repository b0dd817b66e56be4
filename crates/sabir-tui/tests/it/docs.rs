//! The documentation tells the keys of the table.

use std::fmt::Write as _;
use std::path::Path;

use sabir_tui::keys::{Scope, of};

/// Stands before and behind the tables in the document.
const MARKS: (&str, &str) = ("<!-- keys -->\n", "<!-- end of keys -->\n");

#[test]
fn the_documented_keys_are_those_of_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tui.md");
    let text = std::fs::read_to_string(&path).expect("docs/tui.md").replace("\r\n", "\n");
    let mut tables = String::new();
    for scope in Scope::ALL {
        let _ = write!(tables, "\n### {}\n\n| keys | |\n|---|---|\n", scope.title());
        for row in of(scope) {
            let keys: Vec<String> = row.keys.iter().map(|key| format!("`{}`", key.name())).collect();
            let _ = writeln!(tables, "| {} | {} |", keys.join(" "), row.help);
        }
    }
    tables.push('\n');
    let (before, rest) = text.split_once(MARKS.0).expect("the first mark");
    let (told, after) = rest.split_once(MARKS.1).expect("the second mark");
    if std::env::var_os("SABIR_UPDATE").is_some() {
        std::fs::write(&path, format!("{before}{}{tables}{}{after}", MARKS.0, MARKS.1)).expect("written");
        return;
    }
    assert_eq!(told, tables, "SABIR_UPDATE=1 writes the tables anew");
}
