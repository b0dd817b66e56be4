//! The key table as the documents show it: `cargo xtask docs` copies `keys.md` into docs/tui.md.

use std::fmt::Write as _;
use std::path::Path;

use sabir_test_support::snapshot;
use sabir_tui::keys::{Scope, of};

#[test]
fn are_written_for_the_documents() {
    let mut tables = Vec::new();
    for scope in Scope::ALL {
        let mut table = format!("### {}\n\n| keys | |\n|---|---|\n", scope.title());
        for row in of(scope) {
            let keys: Vec<String> = row.keys.iter().map(|key| format!("`{}`", key.name())).collect();
            let _ = writeln!(table, "| {} | {} |", keys.join(" "), row.help);
        }
        tables.push(table);
    }
    snapshot::assert(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/keys.md"), &tables.join("\n"));
}
