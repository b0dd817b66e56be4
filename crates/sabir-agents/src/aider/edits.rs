//! The edits that an answer proposes, as far as they tell what an applied one did to its file.

use sabir_core::dialect::Held;

/// A block that replaces nothing makes a file, or adds to one that was there; Aider asks before it makes one.
#[derive(Debug, Default)]
pub(super) struct Edits {
    /// The line that may name the file of the next block.
    name: Option<String>,
    /// The line before was the start of a block.
    opened: bool,
    /// Files whose block replaces nothing, one on a line.
    fresh: Held,
}

impl Edits {
    /// Takes a line of an answer.
    pub(super) fn line(&mut self, line: &str) {
        let opened = std::mem::take(&mut self.opened);
        if line.starts_with("<<<<<<< SEARCH") {
            self.opened = true;
        } else if opened && line == "=======" {
            if let Some(name) = self.name.take() {
                self.fresh.push(&name);
                self.fresh.push("\n");
            }
        } else if !line.starts_with("```") && !line.trim().is_empty() {
            // A path is short; an answer's line need not be.
            self.name = (line.len() <= 4_096).then(|| line.trim().to_owned());
        }
    }

    /// Whether an edit of that file may have made it.
    pub(super) fn is_fresh(&self, path: &str) -> bool {
        self.fresh.as_str().lines().any(|name| name == path)
    }

    /// The next answer begins.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::Edits;

    #[test]
    fn a_block_that_replaces_nothing_is_fresh() {
        let mut edits = Edits::default();
        let answer = "calc.py\n```python\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n```\n\nnotes.txt\n```\n<<<<<<< SEARCH\n\
                      =======\nalpha\n>>>>>>> REPLACE\n```";
        answer.lines().for_each(|line| edits.line(line));
        assert!(edits.is_fresh("notes.txt"));
        assert!(!edits.is_fresh("calc.py"));
    }
}
