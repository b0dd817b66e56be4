//! Takes secrets out of what is told to others.
//!
//! Two things are looked for, in one pass over a text: the values of secrets that are known (those of variables whose names say so,
//! and those that the user configured), as they are and as JSON, base64 and addresses write them; and what has the form of
//! a key ([`rules`]). A key is looked at closely only where the letters stand that its form begins with.
//!
//! A secret that is found is `[secret NAME]`, where NAME is the variable's, or the form's.
//!
//! Text that comes in pieces is looked at as a whole: [`Stream`] holds back the end of a piece for as long as it may be the
//! beginning of a secret.

mod forms;
mod json;
pub mod rules;
mod stream;
mod view;

use std::borrow::Cow;
use std::collections::BTreeMap;

use aho_corasick::{AhoCorasick, MatchKind};

use crate::Failure;
use rules::{Look, Verdict};
pub use stream::Stream;
use view::View;

/// Finds secrets.
#[derive(Debug)]
pub struct Redactor {
    /// What is looked for in a text.
    words: Words,
    /// What is looked for in its [`View`], if anything.
    unescaped: Option<Words>,
    names: Vec<String>,
}

/// Words, and the automaton that finds them.
#[derive(Debug)]
struct Words {
    automaton: AhoCorasick,
    /// What each word is.
    what: Vec<What>,
    /// The words by their first byte, for the ends of pieces.
    by_first: Vec<Vec<usize>>,
    literals: Vec<Vec<u8>>,
    longest: usize,
}

#[derive(Debug, Clone, Copy)]
enum What {
    /// A secret, whose name has this index.
    Secret(usize),
    /// The beginning of a rule's form.
    Rule(usize),
}

/// What was found in a text.
#[derive(Debug, Default)]
struct Seen {
    /// Where secrets are, in order, and not touching each other.
    spans: Vec<Span>,
    /// From here on it is not decided.
    open: Option<usize>,
}

#[derive(Debug, Clone, Copy)]
struct Span {
    from: usize,
    to: usize,
    what: What,
}

/// So many bytes are unescaped at a time.
const PART: usize = 256 << 10;
/// An escaped secret that is longer may not be found.
const OVERLAP: usize = 64 << 10;

/// What a text follows.
#[derive(Debug, Clone, Copy, Default)]
struct Before {
    byte: Option<u8>,
    /// The letters of base64 at its end, as [`view::base64_run`] counts them.
    run: usize,
}

impl Before {
    /// What follows the text, which follows this.
    fn then(self, text: &[u8]) -> Self {
        Self { byte: text.last().copied().or(self.byte), run: view::base64_run(text, self.run) }
    }
}

/// Which words are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Only {
    All,
    /// Names of things look like keys and have to stay different.
    Secrets,
}

impl Redactor {
    /// Looks for these secrets, given with their names, and for all forms of keys.
    pub fn new(secrets: impl IntoIterator<Item = (String, String)>) -> Result<Self, Failure> {
        let (mut words, mut unescaped, mut names) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        for (name, value) in secrets {
            let what = What::Secret(names.len());
            for form in forms::of(value.trim()) {
                words.entry(form).or_insert(what);
            }
            for form in forms::unescaped(value.trim()) {
                unescaped.entry(form).or_insert(what);
            }
            names.push(name);
        }
        for (index, rule) in rules::ALL.iter().enumerate() {
            for prefix in rule.begins {
                words.entry(prefix.as_bytes().to_vec()).or_insert(What::Rule(index));
            }
        }
        let unescaped = if unescaped.is_empty() { None } else { Some(Words::new(unescaped)?) };
        Ok(Self { words: Words::new(words)?, unescaped, names })
    }

    /// A text without its secrets.
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.whole(text, Only::All).map_or(Cow::Borrowed(text), Cow::Owned)
    }

    /// A JSON text without its secrets, which is JSON still.
    pub fn json<'t>(&self, text: &'t str) -> Cow<'t, str> {
        json::redact(self, text).map_or(Cow::Borrowed(text), Cow::Owned)
    }

    /// The text without its secrets, when there are any.
    fn whole(&self, text: &str, only: Only) -> Option<String> {
        let seen = self.look(text, Before::default(), true, only);
        (!seen.spans.is_empty()).then(|| self.without(text, &seen.spans))
    }

    fn without(&self, text: &str, spans: &[Span]) -> String {
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        for span in spans {
            out.push_str(&text[at..span.from]);
            self.mark(span.what, &mut out);
            at = span.to;
        }
        out.push_str(&text[at..]);
        out
    }

    fn mark(&self, what: What, out: &mut String) {
        let name = match what {
            What::Secret(index) => self.names.get(index).map_or("", String::as_str),
            What::Rule(index) => rules::ALL[index].name,
        };
        out.push_str("[secret");
        if !name.is_empty() {
            out.push(' ');
            out.push_str(name);
        }
        out.push(']');
    }

    /// Looks at a text that follows another; `whole` when nothing more comes.
    fn look(&self, text: &str, before: Before, whole: bool, only: Only) -> Seen {
        let bytes = text.as_bytes();
        let mut seen = Seen::default();
        for hit in self.words.automaton.find_overlapping_iter(text) {
            let what = self.words.what[hit.pattern().as_usize()];
            match what {
                What::Secret(_) => seen.spans.push(Span { from: hit.start(), to: hit.end(), what }),
                What::Rule(_) if only == Only::Secrets => {}
                What::Rule(index) => {
                    let look = Look { bytes, before: before.byte, whole, start: hit.start(), after: hit.end() };
                    match rules::ALL[index].verdict(&look) {
                        Verdict::No => {}
                        Verdict::Yes { from, to } => seen.spans.push(Span { from, to, what }),
                        Verdict::Open => seen.open_at(hit.start()),
                    }
                }
            }
        }
        if !whole && let Some(at) = self.words.partial(bytes, before.byte) {
            seen.open_at(at);
        }
        if let Some(words) = &self.unescaped {
            words.look_unescaped(bytes, before, whole, &mut seen);
        }
        seen.settle();
        // A cut inside a character would be no text.
        seen.spans.retain(|span| text.is_char_boundary(span.from) && text.is_char_boundary(span.to));
        seen.open = seen.open.map(|at| (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0));
        seen
    }
}

impl Words {
    fn new(words: BTreeMap<Vec<u8>, What>) -> Result<Self, Failure> {
        let (literals, what): (Vec<Vec<u8>>, Vec<What>) = words.into_iter().unzip();
        let mut by_first = vec![Vec::new(); 256];
        for (index, literal) in literals.iter().enumerate() {
            by_first[usize::from(literal[0])].push(index);
        }
        let longest = literals.iter().map(Vec::len).max().unwrap_or(0);
        let automaton = AhoCorasick::builder().match_kind(MatchKind::Standard).build(&literals);
        let automaton = automaton.map_err(|error| Failure::usage(format!("the secrets can't be looked for: {error}")))?;
        Ok(Self { automaton, what, by_first, literals, longest })
    }

    /// Looks at a text without its escapes, where it has any.
    fn look_unescaped(&self, text: &[u8], before: Before, whole: bool, seen: &mut Seen) {
        for region in view::regions(text, before.run, whole, self.longest) {
            // A long one is looked at in parts that overlap, so that its view takes no more memory than theirs.
            let mut from = region.start;
            loop {
                let to = region.end.min(from + PART);
                let whole = whole || to < text.len();
                if let Some(view) = View::of(&text[from..to], before.then(&text[..from]).run, whole) {
                    for hit in self.automaton.find_overlapping_iter(&view.bytes) {
                        let what = self.what[hit.pattern().as_usize()];
                        seen.spans.push(Span { from: from + view.start(hit.start()), to: from + view.end(hit.end()), what });
                    }
                    if !whole && let Some(at) = self.partial(&view.bytes, None).or(view.incomplete) {
                        seen.open_at(from + view.start(at));
                    }
                }
                if to == region.end {
                    break;
                }
                from = to - OVERLAP;
            }
        }
    }

    /// Where a word begins of which the text ends with a part.
    fn partial(&self, bytes: &[u8], before: Option<u8>) -> Option<usize> {
        let first = bytes.len().saturating_sub(self.longest.saturating_sub(1));
        (first..bytes.len()).find(|at| {
            let end = &bytes[*at..];
            self.by_first[usize::from(bytes[*at])].iter().any(|index| {
                let literal = &self.literals[*index];
                let could_stand_here = match self.what[*index] {
                    What::Secret(_) => true,
                    What::Rule(rule) => rules::ALL[rule].may_begin(bytes, before, *at),
                };
                literal.len() > end.len() && literal.starts_with(end) && could_stand_here
            })
        })
    }
}

impl Seen {
    fn open_at(&mut self, at: usize) {
        self.open = Some(self.open.map_or(at, |open| open.min(at)));
    }

    /// Joins spans that overlap, and opens those that reach into what is open.
    fn settle(&mut self) {
        self.spans.sort_by_key(|span| (span.from, std::cmp::Reverse(span.to)));
        let mut joined: Vec<Span> = Vec::with_capacity(self.spans.len());
        for span in self.spans.drain(..) {
            match joined.last_mut() {
                Some(last) if span.from < last.to => {
                    // A known secret says more than a form.
                    if matches!((last.what, span.what), (What::Rule(_), What::Secret(_))) {
                        last.what = span.what;
                    }
                    last.to = last.to.max(span.to);
                }
                _ => joined.push(span),
            }
        }
        if let Some(open) = &mut self.open {
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
