//! Plain text for people: a coloured `[tool]` line before each call and `⎿` lines with the head of what it gave back.
//! The answer is what comes after the last of them.

use sabir_core::dialect::text::PlainText;
use sabir_core::dialect::{Dialect, End, Facts, Verdict};
use sabir_core::event::Activity;
use sabir_core::line::Line;

/// Reads the text.
#[derive(Default)]
pub(super) struct Text {
    rest: PlainText,
}

impl Dialect for Text {
    fn line<'a>(&mut self, line: &Line<'a>, facts: &mut Facts<'a>) {
        if is_of_a_tool(&line.text) {
            self.rest.start_over();
            facts.push(Activity::new(without_colours(&line.text)));
        } else {
            self.rest.line(line, facts);
        }
    }

    fn end(&mut self, end: &End, facts: &mut Facts<'static>) -> Verdict {
        self.rest.end(end, facts)
    }
}

/// Only the colours tell such a line from one that the model wrote.
fn is_of_a_tool(line: &str) -> bool {
    line.starts_with("\u{1b}[36m[") || line.trim_start_matches(' ').starts_with("\u{1b}[90m⎿")
}

fn without_colours(line: &str) -> String {
    let mut pieces = line.split("\u{1b}[");
    let mut plain = pieces.next().unwrap_or("").to_owned();
    for piece in pieces {
        plain.push_str(piece.split_once('m').map_or(piece, |(_, text)| text));
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::{is_of_a_tool, without_colours};

    #[test]
    fn lines_of_tools_are_coloured() {
        let call = "\u{1b}[36m[run_commands]\u{1b}[0m make test";
        assert!(is_of_a_tool(call) && is_of_a_tool("   \u{1b}[90m⎿ \u{1b}[0m\u{1b}[2mok\u{1b}[0m"));
        assert!(!is_of_a_tool("[run_commands] make test"));
        assert_eq!(without_colours(call), "[run_commands] make test");
    }
}
