//! Redaction of secrets.
//!
//! One pass over a text finds known secrets (values of variables with telling names, and those that the user configured),
//! verbatim and in JSON, base64 and URL encodings, and strings that look like keys ([`rules`]). A rule is evaluated only where
//! its prefix occurs.
//!
//! A secret is replaced by `[secret NAME]`, where NAME is that of the variable or rule.
//!
//! For streamed text, [`EventRedactor`] holds back the end of a delta while it may be the beginning of a secret.

mod encodings;
mod json;
pub mod rules;
mod stream;
mod unescape;

use std::borrow::Cow;
use std::collections::BTreeMap;

use aho_corasick::{AhoCorasick, MatchKind};

use crate::error::{RunnerError, Source};
use rules::{Candidate, Match};
pub use stream::EventRedactor;
use unescape::UnescapedText;

/// Finds and replaces secrets.
#[derive(Debug)]
pub struct Redactor {
    /// Patterns for verbatim text.
    patterns: Matcher,
    /// Patterns for [`UnescapedText`].
    unescaped: Option<Matcher>,
    names: Vec<String>,
}

/// Literals and the automaton that finds them.
#[derive(Debug)]
struct Matcher {
    automaton: AhoCorasick,
    /// Source of each literal.
    pattern: Vec<Pattern>,
    /// Literals by first byte, for matches cut off at the end of a text.
    by_first: Vec<Vec<usize>>,
    literals: Vec<Vec<u8>>,
    longest: usize,
}

#[derive(Debug, Clone, Copy)]
enum Pattern {
    /// A secret; the index of its name.
    Secret(usize),
    /// Prefix of a rule.
    Rule(usize),
}

/// Matches in a text.
#[derive(Debug, Default)]
struct Matches {
    /// Disjoint spans of secrets, in order.
    spans: Vec<Span>,
    /// From here on, further text decides.
    undecided: Option<usize>,
}

#[derive(Debug, Clone, Copy)]
struct Span {
    from: usize,
    to: usize,
    pattern: Pattern,
}

/// Size of a chunk to unescape.
const CHUNK_BYTES: usize = 256 << 10;
/// Longer escaped secrets may be missed.
const CHUNK_OVERLAP: usize = 64 << 10;

/// The text before the current one.
#[derive(Debug, Clone, Copy, Default)]
struct Preceding {
    byte: Option<u8>,
    /// Trailing base64 letters, counted by [`unescape::base64_run`].
    run: usize,
}

impl Preceding {
    /// The state after `text`.
    fn followed_by(self, text: &[u8]) -> Self {
        Self { byte: text.last().copied().or(self.byte), run: unescape::base64_run(text, self.run) }
    }
}

/// Patterns to apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kinds {
    All,
    /// For identifiers, which look like keys and must stay distinct.
    KnownSecrets,
}

impl Redactor {
    /// Redacts these secrets (name, value) and everything that looks like a key.
    pub fn new(secrets: impl IntoIterator<Item = (String, String)>) -> Result<Self, RunnerError> {
        let (mut patterns, mut unescaped, mut names) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        for (name, value) in secrets {
            let pattern = Pattern::Secret(names.len());
            for form in encodings::encoded_forms(value.trim()) {
                patterns.entry(form).or_insert(pattern);
            }
            for form in encodings::unescaped_forms(value.trim()) {
                unescaped.entry(form).or_insert(pattern);
            }
            names.push(name);
        }
        for (index, rule) in rules::ALL.iter().enumerate() {
            for prefix in rule.prefixes {
                patterns.entry(prefix.as_bytes().to_vec()).or_insert(Pattern::Rule(index));
            }
        }
        let unescaped = if unescaped.is_empty() { None } else { Some(Matcher::new(unescaped)?) };
        Ok(Self { patterns: Matcher::new(patterns)?, unescaped, names })
    }

    /// Redacts a text.
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.redact_text(text, Kinds::All).map_or(Cow::Borrowed(text), Cow::Owned)
    }

    /// Redacts a JSON text. The result is valid JSON.
    pub fn json<'t>(&self, text: &'t str) -> Cow<'t, str> {
        json::redact(self, text).map_or(Cow::Borrowed(text), Cow::Owned)
    }

    /// Redacts a text; `None` if it has no secrets.
    fn redact_text(&self, text: &str, kinds: Kinds) -> Option<String> {
        let matches = self.find(text, Preceding::default(), true, kinds);
        (!matches.spans.is_empty()).then(|| self.replace(text, &matches.spans))
    }

    fn replace(&self, text: &str, spans: &[Span]) -> String {
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        for span in spans {
            out.push_str(&text[at..span.from]);
            self.write_marker(span.pattern, &mut out);
            at = span.to;
        }
        out.push_str(&text[at..]);
        out
    }

    fn write_marker(&self, pattern: Pattern, out: &mut String) {
        let name = match pattern {
            Pattern::Secret(index) => self.names.get(index).map_or("", String::as_str),
            Pattern::Rule(index) => rules::ALL[index].name,
        };
        out.push_str("[secret");
        if !name.is_empty() {
            out.push(' ');
            out.push_str(name);
        }
        out.push(']');
    }

    /// Finds secrets in a text that follows other text; `is_final` if no more follows.
    fn find(&self, text: &str, preceding: Preceding, is_final: bool, kinds: Kinds) -> Matches {
        let bytes = text.as_bytes();
        let mut matches = Matches::default();
        for hit in self.patterns.automaton.find_overlapping_iter(text) {
            let pattern = self.patterns.pattern[hit.pattern().as_usize()];
            match pattern {
                Pattern::Secret(_) => matches.spans.push(Span { from: hit.start(), to: hit.end(), pattern }),
                Pattern::Rule(_) if kinds == Kinds::KnownSecrets => {}
                Pattern::Rule(index) => {
                    let candidate = Candidate { bytes, before: preceding.byte, is_final, start: hit.start(), after: hit.end() };
                    match rules::ALL[index].matches(&candidate) {
                        Match::No => {}
                        Match::Yes { from, to } => matches.spans.push(Span { from, to, pattern }),
                        Match::Undecided => matches.undecided_from(hit.start()),
                    }
                }
            }
        }
        if !is_final && let Some(at) = self.patterns.partial_match(bytes, preceding.byte) {
            matches.undecided_from(at);
        }
        if let Some(patterns) = &self.unescaped {
            patterns.find_unescaped(bytes, preceding, is_final, &mut matches);
        }
        matches.merge();
        // Spans must not split a character.
        matches.spans.retain(|span| text.is_char_boundary(span.from) && text.is_char_boundary(span.to));
        matches.undecided = matches.undecided.map(|at| (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0));
        matches
    }
}

impl Matcher {
    fn new(patterns: BTreeMap<Vec<u8>, Pattern>) -> Result<Self, RunnerError> {
        let (literals, pattern): (Vec<Vec<u8>>, Vec<Pattern>) = patterns.into_iter().unzip();
        let mut by_first = vec![Vec::new(); 256];
        for (index, literal) in literals.iter().enumerate() {
            by_first[usize::from(literal[0])].push(index);
        }
        let longest = literals.iter().map(Vec::len).max().unwrap_or(0);
        let automaton = AhoCorasick::builder().match_kind(MatchKind::Standard).build(&literals);
        let automaton = automaton.map_err(|error| RunnerError::Redaction(Source::new(error)))?;
        Ok(Self { automaton, pattern, by_first, literals, longest })
    }

    /// Finds secrets in the escaped regions of a text.
    fn find_unescaped(&self, text: &[u8], preceding: Preceding, is_final: bool, matches: &mut Matches) {
        for region in unescape::regions(text, preceding.run, is_final, self.longest) {
            // Overlapping chunks bound the memory of the unescaped copy.
            let mut from = region.start;
            loop {
                let to = region.end.min(from + CHUNK_BYTES);
                let is_final = is_final || to < text.len();
                if let Some(view) = UnescapedText::new(&text[from..to], preceding.followed_by(&text[..from]).run, is_final) {
                    for hit in self.automaton.find_overlapping_iter(&view.bytes) {
                        let pattern = self.pattern[hit.pattern().as_usize()];
                        matches.spans.push(Span {
                            from: from + view.start(hit.start()),
                            to: from + view.end(hit.end()),
                            pattern,
                        });
                    }
                    if !is_final && let Some(at) = self.partial_match(&view.bytes, None).or(view.incomplete) {
                        matches.undecided_from(from + view.start(at));
                    }
                }
                if to == region.end {
                    break;
                }
                from = to - CHUNK_OVERLAP;
            }
        }
    }

    /// Start of a literal that is cut off at the end of the text.
    fn partial_match(&self, bytes: &[u8], before: Option<u8>) -> Option<usize> {
        let first = bytes.len().saturating_sub(self.longest.saturating_sub(1));
        (first..bytes.len()).find(|at| {
            let end = &bytes[*at..];
            self.by_first[usize::from(bytes[*at])].iter().any(|index| {
                let literal = &self.literals[*index];
                let may_start_here = match self.pattern[*index] {
                    Pattern::Secret(_) => true,
                    Pattern::Rule(rule) => rules::ALL[rule].may_start(bytes, before, *at),
                };
                literal.len() > end.len() && literal.starts_with(end) && may_start_here
            })
        })
    }
}

impl Matches {
    fn undecided_from(&mut self, at: usize) {
        self.undecided = Some(self.undecided.map_or(at, |open| open.min(at)));
    }

    /// Merges overlapping spans, and drops those that reach into the undecided end.
    fn merge(&mut self) {
        self.spans.sort_by_key(|span| (span.from, std::cmp::Reverse(span.to)));
        let mut joined: Vec<Span> = Vec::with_capacity(self.spans.len());
        for span in self.spans.drain(..) {
            match joined.last_mut() {
                Some(last) if span.from < last.to => {
                    // A known secret is more specific than a rule.
                    if matches!((last.pattern, span.pattern), (Pattern::Rule(_), Pattern::Secret(_))) {
                        last.pattern = span.pattern;
                    }
                    last.to = last.to.max(span.to);
                }
                _ => joined.push(span),
            }
        }
        if let Some(open) = &mut self.undecided {
            for span in joined.iter().rev().filter(|span| span.to > *open).map(|span| span.from).collect::<Vec<_>>() {
                *open = (*open).min(span);
            }
            joined.retain(|span| span.to <= *open);
        }
        self.spans = joined;
    }
}

#[cfg(test)]
mod tests;
