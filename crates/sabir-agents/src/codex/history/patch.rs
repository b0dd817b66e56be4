//! Patches in the words that the model writes them in, and what came of them.
//!
//! ```text
//! *** Begin Patch
//! *** Update File: stats.py
//! *** Move to: mean.py
//! @@ def mean(values):
//! -    return 0
//! +    return 0.0
//! *** End Patch
//! ```

use std::borrow::Cow;
use std::sync::LazyLock;

use memchr::memmem::Finder;
use sabir_core::diff;
use sabir_core::event::{Change, FileChange};

use crate::codex::report;

/// The patch in a text that has one.
pub(super) fn find(text: &str) -> Option<&str> {
    static BEGIN: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("*** Begin Patch"));
    static END: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("*** End Patch"));
    let start = BEGIN.find(text.as_bytes())?;
    let end = END.find(&text.as_bytes()[start..]).map_or(text.len(), |end| start + end);
    text.get(start..end)
}

/// Says what the patch changed, when the tool says that it was applied.
pub(super) fn applied(patch: &str, output: &str, id: &str) -> Vec<FileChange<'static>> {
    if !output.contains("Success. Updated the following files:") {
        return Vec::new();
    }
    let mut changes = Vec::new();
    let mut lines = patch.lines().peekable();
    while let Some(line) = lines.next() {
        let named = |kind: &str| line.strip_prefix("*** ")?.strip_prefix(kind)?.strip_prefix(" File: ").map(str::to_owned);
        let (change, path) = match (named("Add"), named("Update"), named("Delete")) {
            (Some(path), _, _) => (Change::Create, path),
            (_, Some(path), _) => (Change::Update, path),
            (_, _, Some(path)) => (Change::Delete, path),
            _ => continue,
        };
        let moved = lines.next_if(|line| line.starts_with("*** Move to: ")).map(|line| line["*** Move to: ".len()..].to_owned());
        let mut body = String::new();
        while let Some(line) = lines.next_if(|line| !line.starts_with("*** ")) {
            let line = if change == Change::Create { line.strip_prefix('+').unwrap_or(line) } else { line };
            body.push_str(line);
            body.push('\n');
        }
        let diff = match change {
            Change::Create => Some(diff::of_new_file(&path, &body.as_str().into())),
            Change::Update => Some(report::diff_of_patch(&path, moved.as_deref().unwrap_or(&path), &body)),
            _ => None,
        };
        let id = Cow::Owned(id.to_owned());
        changes.push(match moved {
            Some(to) => report::changed(Cow::Owned(to), Change::Rename, Some(Cow::Owned(path)), diff, id),
            None => report::changed(Cow::Owned(path), change, None, diff, id),
        });
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::{applied, find};
    use sabir_core::event::Change;

    const PATCH: &str = "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: notes.txt\n+alpha\n+beta\n*** Update File: a.py\n\
                         *** Move to: b.py\n@@\n-old\n+new\n+more\n*** Delete File: c.py\n*** End Patch\nEOF\n";

    #[test]
    fn a_patch_that_was_applied_is_told_by_file() {
        let patch = find(PATCH).expect("a patch");
        let changes = applied(patch, "Success. Updated the following files:\nA notes.txt\n", "call");
        let told: Vec<_> = changes
            .iter()
            .map(|file| (file.path.as_ref(), file.change, file.from.as_deref(), file.added, file.removed))
            .collect();
        assert_eq!(
            told,
            [
                ("notes.txt", Change::Create, None, Some(2), Some(0)),
                ("b.py", Change::Rename, Some("a.py"), Some(2), Some(1)),
                ("c.py", Change::Delete, None, None, None),
            ]
        );
    }

    #[test]
    fn what_was_not_applied_changed_nothing() {
        assert!(applied(PATCH, "patch rejected: writing outside of the project", "call").is_empty());
        assert_eq!(find("echo hello"), None);
    }
}
