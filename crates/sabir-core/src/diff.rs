//! Line diffs, for file changes whose agent gives the two texts but no patch.

use std::fmt::Write as _;

use similar::{Algorithm, ChangeTag, TextDiff};

use crate::event::Text;

/// A unified diff and its line counts.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Diff {
    /// `---`/`+++` head and hunks. Hunks of an edit whose place in the file is unknown start with a bare `@@`.
    pub text: Text<'static>,
    /// Lines added.
    pub added: u64,
    /// Lines removed.
    pub removed: u64,
}

/// Beyond this many lines the middle of an edit is not compared but shown as removed and added: comparing takes time
/// that grows with the square of the difference.
const COMPARED_LINES: usize = 2_000;

/// The diff of replacements in a file, each given as the text before and the text after.
pub fn of_edits<'e>(path: &str, edits: impl IntoIterator<Item = (&'e str, &'e str)>) -> Diff {
    let mut diff = Growing { text: head(Some(path), Some(path)), ..Growing::default() };
    for (old, new) in edits {
        diff.text.push_str("@@\n");
        if old.lines().count() + new.lines().count() > COMPARED_LINES {
            old.lines().for_each(|line| diff.push('-', line));
            new.lines().for_each(|line| diff.push('+', line));
            continue;
        }
        for change in TextDiff::configure().algorithm(Algorithm::Myers).diff_lines(old, new).iter_all_changes() {
            let line = change.value().strip_suffix('\n').unwrap_or(change.value());
            diff.push(sign(change.tag()), line);
        }
    }
    diff.done()
}

fn sign(tag: ChangeTag) -> char {
    match tag {
        ChangeTag::Equal => ' ',
        ChangeTag::Delete => '-',
        ChangeTag::Insert => '+',
    }
}

/// The diff of a file whose two contents are known: one hunk, with its place and three lines around it.
pub fn of_change(path: &str, old: &str, new: &str) -> Diff {
    const AROUND: usize = 3;
    let mut diff = Growing { text: head(Some(path), Some(path)), ..Growing::default() };
    let (old_lines, new_lines): (Vec<&str>, Vec<&str>) =
        (old.split_inclusive('\n').collect(), new.split_inclusive('\n').collect());
    let same = old_lines.iter().zip(&new_lines).take_while(|(old, new)| old == new).count();
    let (old_rest, new_rest) = (&old_lines[same..], &new_lines[same..]);
    let same_end = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(old, new)| old == new).count();
    if old_rest.is_empty() && new_rest.is_empty() {
        return diff.done();
    }
    let (removed, added) = (&old_rest[..old_rest.len() - same_end], &new_rest[..new_rest.len() - same_end]);
    let (before, after) = (same.min(AROUND), same_end.min(AROUND));
    let range = |changed: usize| {
        let (start, count) = (same - before, before + changed + after);
        // An empty range stands behind the line that it names.
        format!("{},{count}", start + usize::from(count > 0))
    };
    let _ = writeln!(diff.text, "@@ -{} +{} @@", range(removed.len()), range(added.len()));
    old_lines[same - before..same].iter().for_each(|line| diff.push_whole(' ', line));
    if removed.len() + added.len() > COMPARED_LINES {
        removed.iter().for_each(|line| diff.push_whole('-', line));
        added.iter().for_each(|line| diff.push_whole('+', line));
    } else {
        let compared = TextDiff::configure().algorithm(Algorithm::Myers).diff_slices(removed, added);
        for change in compared.iter_all_changes() {
            diff.push_whole(sign(change.tag()), change.value());
        }
    }
    let end = old_lines.len() - same_end;
    old_lines[end..end + after].iter().for_each(|line| diff.push_whole(' ', line));
    diff.done()
}

/// The diff of a new file.
pub fn of_new_file(path: &str, content: &Text<'_>) -> Diff {
    match content.escaped() {
        None => {
            let ends: Vec<usize> = memchr::memchr_iter(b'\n', content.as_bytes()).collect();
            let (mut text, added) = head_of_new_file(path, content, &ends, "\n");
            push_added(&mut text, content, &ends, "\n");
            Diff { text: text.into(), added, removed: 0 }
        }
        // To unescape a whole file, and to escape it again when the event is written, is slow; as JSON, the diff of it is
        // made in the same way.
        Some(json) => {
            let ends: Vec<usize> = escaped_line_ends(json).collect();
            let (head, added) = head_of_new_file(path, json, &ends, "\\n");
            let mut text = serde_json::Value::from(head.as_str()).to_string();
            text.pop();
            push_added(&mut text, json, &ends, "\\n");
            text.push('"');
            // Beside the head and the content it says a plus for each line, and the end of the last one where that has none.
            let open_end = usize::from(added > ends.len() as u64);
            let said = head.len() + content.size() + ends.len() + 2 * open_end;
            Diff { text: Text::from_own_json(text, said), added, removed: 0 }
        }
    }
}

/// What comes before the lines of a new file, and how many they are. `line_end` is how the content writes that.
fn head_of_new_file(path: &str, content: &str, ends: &[usize], line_end: &str) -> (String, u64) {
    let last = ends.last().map_or(0, |end| end + line_end.len());
    let count = ends.len() + usize::from(last < content.len());
    let mut text = head(None, Some(path));
    if count > 0 {
        let _ = writeln!(text, "@@ -0,0 +1,{count} @@");
    }
    (text, count as u64)
}

/// Appends the lines of a content that end there, as added.
fn push_added(text: &mut String, content: &str, ends: &[usize], line_end: &str) {
    text.reserve(content.len() + ends.len() + 8);
    let mut start = 0;
    for &end in ends {
        text.extend(["+", &content[start..end], line_end]);
        start = end + line_end.len();
    }
    if start < content.len() {
        text.extend(["+", &content[start..], line_end]);
    }
}

/// Where a line feed stands in the inside of a JSON string.
pub fn escaped_line_ends(json: &str) -> impl Iterator<Item = usize> {
    let bytes = json.as_bytes();
    let mut from = 0;
    let escapes = std::iter::from_fn(move || {
        let at = from + memchr::memchr(b'\\', bytes.get(from..)?)?;
        // What is escaped may be a backslash.
        from = at + 2;
        Some(at)
    });
    escapes.filter(|at| bytes.get(at + 1) == Some(&b'n'))
}

/// The two lines that name the file before and after. An absolute path is under `a/` and `b/` like any other; a side
/// that is not there is `/dev/null`.
pub fn head(from: Option<&str>, to: Option<&str>) -> String {
    let side = |letter: char, path: Option<&str>| {
        path.map_or_else(|| "/dev/null".to_owned(), |path| format!("{letter}/{}", path.trim_start_matches('/')))
    };
    format!("--- {}\n+++ {}\n", side('a', from), side('b', to))
}

/// Lines added and removed by a unified diff.
pub fn count(patch: &str) -> (u64, u64) {
    let (mut added, mut removed) = (0, 0);
    let mut in_hunk = false;
    for line in patch.lines() {
        match line.as_bytes().first() {
            Some(b'@') if line.starts_with("@@") => in_hunk = true,
            Some(b'd') if line.starts_with("diff --git ") => in_hunk = false,
            // The head of the next file looks like a removed and an added line.
            Some(b'-') if line.starts_with("--- ") && !in_hunk => {}
            Some(b'+') if line.starts_with("+++ ") && !in_hunk => {}
            Some(b'+') => added += 1,
            Some(b'-') => removed += 1,
            _ => {}
        }
    }
    (added, removed)
}

/// A diff that grows line by line.
#[derive(Default)]
struct Growing {
    text: String,
    added: u64,
    removed: u64,
}

impl Growing {
    /// Adds a line with its end, or says that it has none.
    fn push_whole(&mut self, sign: char, line: &str) {
        self.push(sign, line.strip_suffix('\n').unwrap_or(line));
        if !line.ends_with('\n') {
            self.text.push_str("\\ No newline at end of file\n");
        }
    }

    fn push(&mut self, sign: char, line: &str) {
        self.text.push(sign);
        self.text.push_str(line);
        self.text.push('\n');
        match sign {
            '+' => self.added += 1,
            '-' => self.removed += 1,
            _ => {}
        }
    }

    fn done(self) -> Diff {
        Diff { text: self.text.into(), added: self.added, removed: self.removed }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::{count, head, of_change, of_edits, of_new_file};
    use crate::event::Text;

    #[test]
    fn an_edit_shows_what_changed_and_counts_it() {
        let diff = of_edits("a.txt", [("one\ntwo\n", "one\nTWO\nthree\n")]);
        assert_eq!(diff.text, "--- a/a.txt\n+++ b/a.txt\n@@\n one\n-two\n+TWO\n+three\n");
        assert_eq!((diff.added, diff.removed), (2, 1));
        assert_eq!(count(&diff.text), (2, 1));
    }

    #[test]
    fn a_change_has_its_place_and_a_little_around_it() {
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
        let new = old.replace("5\n", "five\nand more\n");
        let diff = of_change("n", old, &new);
        assert_eq!(diff.text, "--- a/n\n+++ b/n\n@@ -2,7 +2,8 @@\n 2\n 3\n 4\n-5\n+five\n+and more\n 6\n 7\n 8\n");
        assert_eq!((diff.added, diff.removed), (2, 1));
        assert_eq!(of_change("n", "", "a").text, "--- a/n\n+++ b/n\n@@ -0,0 +1,1 @@\n+a\n\\ No newline at end of file\n");
        assert_eq!(of_change("n", "a\n", "").text, "--- a/n\n+++ b/n\n@@ -1,1 +0,0 @@\n-a\n");
        assert_eq!(of_change("n", "a\n", "a\n").text, "--- a/n\n+++ b/n\n");
        let huge = of_change("n", &"a\n".repeat(3_000), &"b\n".repeat(3_000));
        assert_eq!((huge.added, huge.removed), (3_000, 3_000));
    }

    #[test]
    fn a_new_file_is_all_added() {
        let diff = of_new_file("n", &"a\nb".into());
        assert_eq!(diff.text, "--- /dev/null\n+++ b/n\n@@ -0,0 +1,2 @@\n+a\n+b\n");
        assert_eq!((diff.added, diff.removed, count(&diff.text)), (2, 0, (2, 0)));
        assert_eq!(of_new_file("n", &"".into()).added, 0);
    }

    #[test]
    fn a_new_file_that_came_as_json_has_the_same_diff() {
        for content in ["a\nb", "\n", "\n\n", "a\n", "a\r\nb\n", "\\n is no line end\n", "\"\\", "\\\n\t\u{2028}é"] {
            let json = serde_json::Value::from(content).to_string();
            let raw: &RawValue = serde_json::from_str(&json).expect("JSON");
            let text = Text::from_json(raw).expect("a string");
            assert!(text.escaped().is_some());
            let diff = of_new_file("a \"path\"\n", &text);
            assert_eq!(diff, of_new_file("a \"path\"\n", &content.into()), "{json}");
            assert_eq!(diff.text.size(), diff.text.len(), "{json}");
        }
    }

    #[test]
    fn huge_edits_are_not_compared() {
        let old = "a\n".repeat(3_000);
        let new = "b\n".repeat(3_000);
        let diff = of_edits("big", [(old.as_str(), new.as_str())]);
        assert_eq!((diff.added, diff.removed), (3_000, 3_000));
    }

    #[test]
    fn heads_name_what_is_there() {
        assert_eq!(head(None, Some("/home/user/a")), "--- /dev/null\n+++ b/home/user/a\n");
        assert_eq!(head(Some("a"), None), "--- a/a\n+++ /dev/null\n");
    }

    #[test]
    fn heads_are_not_counted() {
        assert_eq!(count("--- a/x\n+++ b/x\n@@ -1 +1 @@\n--- old\n+new\n"), (1, 1));
    }
}
