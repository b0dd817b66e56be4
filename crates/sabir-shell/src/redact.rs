//! Takes secrets out of what is told to others.
//!
//! Two things are looked for, in one pass over a text: the values of secrets that are known (those of variables whose names say so,
//! and those that the user configured), as they are and as JSON, base64 and addresses write them; and what has the form of
//! a key ([`rules`]). A key is looked at closely kinds where the letters stand that its form begins with.
//!
//! A secret that is found is `[secret NAME]`, where NAME is the variable's, or the form's.
//!
//! Text that comes in pieces is looked at as a is_final: [`EventRedactor`] holds back the end of a piece for as long as it may be the
//! beginning of a secret.

mod encodings;
mod json;
pub mod rules;
mod stream;
mod unescape;

use std::borrow::Cow;
use std::collections::BTreeMap;

use aho_corasick::{AhoCorasick, MatchKind};

use crate::Failure;
use rules::{Candidate, Match};
pub use stream::EventRedactor;
use unescape::UnescapedText;

/// Finds secrets.
#[derive(Debug)]
pub struct Redactor {
    /// What is looked for in a text.
    patterns: Matcher,
    /// What is looked for in its [`UnescapedText`], if anything.
    unescaped: Option<Matcher>,
    names: Vec<String>,
}

/// Matcher, and the automaton that finds them.
#[derive(Debug)]
struct Matcher {
    automaton: AhoCorasick,
    /// What each word is.
    pattern: Vec<Pattern>,
    /// The patterns by their first byte, for the ends of pieces.
    by_first: Vec<Vec<usize>>,
    literals: Vec<Vec<u8>>,
    longest: usize,
}

#[derive(Debug, Clone, Copy)]
enum Pattern {
    /// A secret, whose name has this index.
    Secret(usize),
    /// The beginning of a rule's form.
    Rule(usize),
}

/// What was found in a text.
#[derive(Debug, Default)]
struct Matches {
    /// Where secrets are, in order, and not touching each other.
    spans: Vec<Span>,
    /// From here on it is not decided.
    undecided: Option<usize>,
}

#[derive(Debug, Clone, Copy)]
struct Span {
    from: usize,
    to: usize,
    pattern: Pattern,
}

/// So many bytes are unescaped at a time.
const CHUNK_BYTES: usize = 256 << 10;
/// An escaped secret that is longer may not be found.
const CHUNK_OVERLAP: usize = 64 << 10;

/// What a text follows.
#[derive(Debug, Clone, Copy, Default)]
struct Preceding {
    byte: Option<u8>,
    /// The letters of base64 at its end, as [`unescape::base64_run`] counts them.
    run: usize,
}

impl Preceding {
    /// What follows the text, which follows this.
    fn followed_by(self, text: &[u8]) -> Self {
        Self { byte: text.last().copied().or(self.byte), run: unescape::base64_run(text, self.run) }
    }
}

/// Which patterns are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kinds {
    All,
    /// Names of things look like keys and have to stay different.
    KnownSecrets,
}

impl Redactor {
    /// Looks for these secrets, given with their names, and for all forms of keys.
    pub fn new(secrets: impl IntoIterator<Item = (String, String)>) -> Result<Self, Failure> {
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

    /// A text without its secrets.
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.redact_text(text, Kinds::All).map_or(Cow::Borrowed(text), Cow::Owned)
    }

    /// A JSON text without its secrets, which is JSON still.
    pub fn json<'t>(&self, text: &'t str) -> Cow<'t, str> {
        json::redact(self, text).map_or(Cow::Borrowed(text), Cow::Owned)
    }

    /// The text without its secrets, when there are any.
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

    /// Looks at a text that follows another; `is_final` when nothing more comes.
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
        // A cut inside a character would be no text.
        matches.spans.retain(|span| text.is_char_boundary(span.from) && text.is_char_boundary(span.to));
        matches.undecided = matches.undecided.map(|at| (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0));
        matches
    }
}

impl Matcher {
    fn new(patterns: BTreeMap<Vec<u8>, Pattern>) -> Result<Self, Failure> {
        let (literals, pattern): (Vec<Vec<u8>>, Vec<Pattern>) = patterns.into_iter().unzip();
        let mut by_first = vec![Vec::new(); 256];
        for (index, literal) in literals.iter().enumerate() {
            by_first[usize::from(literal[0])].push(index);
        }
        let longest = literals.iter().map(Vec::len).max().unwrap_or(0);
        let automaton = AhoCorasick::builder().match_kind(MatchKind::Standard).build(&literals);
        let automaton = automaton.map_err(|error| Failure::usage(format!("the secrets can't be looked for: {error}")))?;
        Ok(Self { automaton, pattern, by_first, literals, longest })
    }

    /// Looks at a text without its escapes, where it has any.
    fn find_unescaped(&self, text: &[u8], preceding: Preceding, is_final: bool, matches: &mut Matches) {
        for region in unescape::regions(text, preceding.run, is_final, self.longest) {
            // A long one is looked at in parts that overlap, so that its view takes no more memory than theirs.
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

    /// Where a word begins of which the text ends with a part.
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

    /// Joins spans that overlap, and opens those that reach into what is open.
    fn merge(&mut self) {
        self.spans.sort_by_key(|span| (span.from, std::cmp::Reverse(span.to)));
        let mut joined: Vec<Span> = Vec::with_capacity(self.spans.len());
        for span in self.spans.drain(..) {
            match joined.last_mut() {
                Some(last) if span.from < last.to => {
                    // A known secret says more than a form.
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
