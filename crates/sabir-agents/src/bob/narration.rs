//! What Bob's assistant text is made of: words, `<thinking>` between tags, and `[using tool …]` echoes that Bob itself
//! puts in. A tag or an echo may be cut anywhere between two pieces.

use std::borrow::Cow;

use sabir_core::dialect::Facts;
use sabir_core::event::{Activity, EventKind, TextDelta, ThinkingDelta};

const OPEN: &str = "<thinking>";
const CLOSE: &str = "</thinking>";
const ECHO: &str = "[using tool ";
/// An echo is one line; what is longer is text that only begins like one.
const ECHO_BYTES: usize = 4096;

/// One stretch of the text.
#[derive(Debug, PartialEq)]
pub(super) enum Part<'a> {
    Text(Cow<'a, str>),
    Thinking(Cow<'a, str>),
    /// An echo without its line end.
    Echo(Cow<'a, str>),
}

impl<'a> Part<'a> {
    /// The event of it; an echo is a line for people.
    pub(super) fn push(self, facts: &mut Facts<'a>) {
        facts.push(match self {
            Self::Text(delta) => EventKind::Text(TextDelta::new(delta)),
            Self::Thinking(delta) => EventKind::Thinking(ThinkingDelta::new(delta)),
            Self::Echo(message) => EventKind::Activity(Activity::new(message)),
        });
    }
}

/// Takes the text apart, piece by piece.
#[derive(Debug, Default)]
pub(super) struct Narration {
    thinking: bool,
    /// The tail of the last piece, when it may be the head of a tag or an echo.
    pending: String,
}

impl Narration {
    /// The parts that the next piece completes.
    pub(super) fn piece<'a>(&mut self, piece: Cow<'a, str>, parts: &mut Vec<Part<'a>>) {
        if self.pending.is_empty() && !self.thinking && memchr::memchr2(b'<', b'[', piece.as_bytes()).is_none() {
            parts.push(Part::Text(piece));
            return;
        }
        let mut text = std::mem::take(&mut self.pending);
        text.push_str(&piece);
        self.pending = self.split(&text, parts).to_owned();
    }

    /// The parts that are certain, and the tail that is not.
    fn split<'t>(&mut self, text: &'t str, parts: &mut Vec<Part<'_>>) -> &'t str {
        let mut rest = text;
        loop {
            let marks: &[&str] = if self.thinking { &[CLOSE] } else { &[OPEN, ECHO] };
            let found = marks.iter().filter_map(|mark| Some((rest.find(mark)?, *mark))).min();
            let Some((at, mark)) = found else {
                let keep = marks.iter().map(|mark| overlap(rest, mark)).max().unwrap_or(0);
                let (sure, tail) = rest.split_at(rest.len() - keep);
                self.say(sure, parts);
                return tail;
            };
            let (before, after) = rest.split_at(at);
            self.say(before, parts);
            if mark == ECHO {
                let Some((echo, after)) = echo(after) else { return after };
                if echo.len() > ECHO_BYTES {
                    self.say(echo, parts);
                } else {
                    parts.push(Part::Echo(Cow::Owned(echo.to_owned())));
                }
                rest = after;
            } else {
                self.thinking = mark == OPEN;
                rest = &after[mark.len()..];
            }
        }
    }

    fn say(&self, text: &str, parts: &mut Vec<Part<'_>>) {
        if !text.is_empty() {
            let text = Cow::Owned(text.to_owned());
            parts.push(if self.thinking { Part::Thinking(text) } else { Part::Text(text) });
        }
    }

    /// The message is over: what was held back is what it looks like.
    pub(super) fn end(&mut self, parts: &mut Vec<Part<'_>>) {
        let pending = std::mem::take(&mut self.pending);
        if pending.starts_with(ECHO) {
            parts.push(Part::Echo(Cow::Owned(pending)));
        } else {
            self.say(&pending, parts);
        }
        self.thinking = false;
    }
}

/// The echo that a text begins with and what follows it; `None` while its end has not come. An echo quotes arguments,
/// so that only a bracket at the end of a line, or of a piece, ends it.
fn echo(text: &str) -> Option<(&str, &str)> {
    match text.find("]\n") {
        Some(end) => Some((&text[..=end], &text[end + 2..])),
        None if text.ends_with(']') || text.len() > ECHO_BYTES => Some((text, "")),
        None => None,
    }
}

/// Length of the longest end of a text that a mark begins with.
fn overlap(text: &str, mark: &str) -> usize {
    (1..mark.len()).rev().find(|length| text.ends_with(&mark[..*length])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{Narration, Part};

    /// The parts of a text given in pieces, neighbours of one kind joined.
    fn parts(pieces: &[&str]) -> Vec<(char, String)> {
        let mut narration = Narration::default();
        let mut all = Vec::new();
        for piece in pieces {
            narration.piece((*piece).into(), &mut all);
        }
        narration.end(&mut all);
        let mut joined: Vec<(char, String)> = Vec::new();
        for part in all {
            let (kind, text) = match part {
                Part::Text(text) => ('t', text),
                Part::Thinking(text) => ('k', text),
                Part::Echo(text) => ('e', text),
            };
            match joined.last_mut() {
                Some(last) if last.0 == kind && kind != 'e' => last.1.push_str(&text),
                _ => joined.push((kind, text.into_owned())),
            }
        }
        joined
    }

    #[test]
    fn a_tag_may_be_cut_anywhere() {
        let text = "a<thinking>\nb < c</thinking>\nd <think e";
        let want: Vec<(char, String)> =
            [('t', "a"), ('k', "\nb < c"), ('t', "\nd <think e")].map(|(kind, text)| (kind, text.to_owned())).into();
        for cut in 0..=text.len() {
            for second in cut..=text.len() {
                assert_eq!(parts(&[&text[..cut], &text[cut..second], &text[second..]]), want, "{cut} {second}");
            }
        }
    }

    #[test]
    fn echoes_are_not_text() {
        let want = vec![('t', "I look. ".to_owned()), ('e', "[using tool grep: a[0]]".to_owned()), ('t', "Done".to_owned())];
        assert_eq!(parts(&["I look. [using tool grep: a[0]]\nDone"]), want);
        assert_eq!(parts(&["I look. [using to", "ol grep: a[0", "]]\n", "Done"]), want);
        assert_eq!(parts(&["[using"]), [('t', "[using".to_owned())]);
    }

    #[test]
    fn characters_of_several_bytes_stay_whole() {
        assert_eq!(parts(&["é<", "é</thinking>ü"]), [('t', "é<é</thinking>ü".to_owned())]);
    }
}
