//! What a search looks for: words and phrases, and the rule by which a text matches them.
//!
//! A text matches when every term is in it. A term is a word, or a phrase: words with any whitespace between them. A term
//! matches whole words unless substrings are asked for: `art` is not in `start`, and `parser.rs` is in `src/parser.rs:12`.
//! Upper and lower case are the same in all scripts. Scripts that are written without spaces between words, and Korean, whose
//! words have endings attached, have no word boundaries: `日本` is in `日本語`.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memchr2_iter;

/// Terms that must all be in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    terms: Vec<Term>,
    substring: bool,
    /// All terms are ASCII, so texts are compared as they are.
    is_ascii: bool,
}

/// The words of a phrase, or the only one, in one case.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Term(Vec<String>);

impl Pattern {
    /// The pattern of command-line arguments, each of them one word or phrase: an argument with spaces is a phrase, because
    /// the shell has removed the quotes around it. Quotes within an argument are read as in [`Pattern::parse`].
    /// `None` when there is nothing to look for.
    pub fn from_arguments<T: AsRef<str>>(arguments: &[T]) -> Option<Self> {
        let terms = arguments
            .iter()
            .map(AsRef::as_ref)
            .flat_map(|argument| if argument.contains('"') { terms(argument) } else { Term::of(argument).into_iter().collect() });
        Self::of(terms.collect())
    }

    /// The pattern of one line of text: words, and phrases between double quotes. `None` when there is nothing to look for.
    pub fn parse(text: &str) -> Option<Self> {
        Self::of(terms(text))
    }

    /// The same pattern, which matches within words too.
    #[must_use]
    pub fn with_substrings(self, substring: bool) -> Self {
        Self { substring, ..self }
    }

    fn of(terms: Vec<Term>) -> Option<Self> {
        let is_ascii = terms.iter().flat_map(|term| &term.0).all(|word| word.is_ascii());
        (!terms.is_empty()).then_some(Self { terms, substring: false, is_ascii })
    }

    /// Every word of every term, in one case: a text that lacks one of them as a substring does not match.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.terms.iter().flat_map(|term| &term.0).map(String::as_str)
    }

    /// Whether all terms are in the text.
    pub fn matches(&self, text: &str) -> bool {
        self.find(text).is_some()
    }

    /// The first occurrence of any term, in a text that has all of them.
    pub fn find(&self, text: &str) -> Option<Range<usize>> {
        let folded = self.folded(text);
        let mut first: Option<Range<usize>> = None;
        for term in &self.terms {
            let found = term.find(&folded, self.substring)?;
            first = Some(first.filter(|first| first.start <= found.start).unwrap_or(found));
        }
        first.map(|range| place_in(text, &folded, range))
    }

    /// The first occurrence of any term, whether or not the others are in the text.
    pub fn find_any(&self, text: &str) -> Option<Range<usize>> {
        let folded = self.folded(text);
        let found = self.terms.iter().filter_map(|term| term.find(&folded, self.substring));
        found.min_by_key(|range| range.start).map(|range| place_in(text, &folded, range))
    }

    /// The text in one case; letters of ASCII keep theirs.
    fn folded<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.is_ascii || text.is_ascii() { Cow::Borrowed(text) } else { Cow::Owned(folded(text)) }
    }
}

impl Term {
    /// The phrase of a text, if it has a word.
    fn of(text: &str) -> Option<Self> {
        let words: Vec<String> = text.split_whitespace().map(folded).collect();
        (!words.is_empty()).then_some(Self(words))
    }

    /// Its first occurrence in a folded text.
    fn find(&self, text: &str, substring: bool) -> Option<Range<usize>> {
        let (first, rest) = self.0.split_first()?;
        let lead = *first.as_bytes().first()?;
        let starts = memchr2_iter(lead, lead.to_ascii_uppercase(), text.as_bytes());
        starts.filter_map(|start| end_of(text, start, first, rest).map(|end| start..end)).find(|range| {
            let is_edge = |at: usize| !joins(text[..at].chars().next_back()) || !joins(text[at..].chars().next());
            substring || is_edge(range.start) && is_edge(range.end)
        })
    }
}

/// Where the phrase ends that begins at `start`, if it is there.
fn end_of(text: &str, start: usize, first: &str, rest: &[String]) -> Option<usize> {
    let mut end = begins_with(&text[start..], first)? + start;
    for word in rest {
        let after = text[end..].trim_start();
        let next = text.len() - after.len();
        if next == end {
            return None;
        }
        end = next + begins_with(after, word)?;
    }
    Some(end)
}

/// How many bytes of the text a word takes with which it begins.
fn begins_with(text: &str, word: &str) -> Option<usize> {
    text.as_bytes().get(..word.len())?.eq_ignore_ascii_case(word.as_bytes()).then_some(word.len())
}

/// The words and quoted phrases of a text. A quote begins a phrase where a word could begin, and ends it where one could end;
/// others are characters like any.
fn terms(text: &str) -> Vec<Term> {
    let mut terms = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (term, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_at(phrase_end(quoted)),
            None => rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len())),
        };
        terms.extend(Term::of(term));
        rest = after.strip_prefix('"').unwrap_or(after).trim_start();
    }
    terms
}

/// Where a phrase ends: at the quote before whitespace or before the end.
fn phrase_end(text: &str) -> usize {
    let quotes = text.match_indices('"').map(|(at, _)| at);
    let mut ends = quotes.filter(|at| text[at + 1..].chars().next().is_none_or(char::is_whitespace));
    ends.next().unwrap_or(text.len())
}

/// Whether a character is a part of a word that goes on beside it.
fn joins(character: Option<char>) -> bool {
    character.is_some_and(|c| c == '_' || c.is_alphanumeric() && !is_unspaced(c))
}

/// Whether a character is of a script whose words have no boundaries that a computer sees.
fn is_unspaced(c: char) -> bool {
    matches!(u32::from(c),
        0x0e00..=0x0eff // Thai, Lao
        | 0x1000..=0x109f // Burmese
        | 0x1100..=0x11ff // Hangul
        | 0x1780..=0x17ff // Khmer
        | 0x2e80..=0xa4cf // CJK, kana, Bopomofo, Yi
        | 0xac00..=0xd7ff // Hangul
        | 0xf900..=0xfaff | 0xff66..=0xffdc // CJK compatibility, halfwidth kana and Hangul
        | 0x2_0000..=0x3_ffff)
}

/// A text with one case for all letters. Letter by letter, so that the same word is the same wherever it stands.
fn folded(text: &str) -> String {
    text.chars().map(fold).collect()
}

/// A letter in the case that it is compared in. One whose other case is several letters stays, and none becomes one of
/// ASCII: what is of ASCII is found in texts as they are.
fn fold(letter: char) -> char {
    fn only(mut letters: impl Iterator<Item = char>) -> Option<char> {
        letters.next().filter(|_| letters.next().is_none())
    }
    if letter.is_ascii() {
        return letter.to_ascii_lowercase();
    }
    let upper = only(letter.to_uppercase()).unwrap_or(letter);
    only(upper.to_lowercase()).filter(|lower| !lower.is_ascii()).unwrap_or(letter)
}

/// Where a range of the folded text is in the text: a letter may be longer in another case.
fn place_in(text: &str, folded: &str, range: Range<usize>) -> Range<usize> {
    if std::ptr::eq(folded, text) {
        return range;
    }
    let place = |letters: usize| text.char_indices().nth(letters).map_or(text.len(), |(at, _)| at);
    let before = folded[..range.start].chars().count();
    place(before)..place(before + folded[range].chars().count())
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    fn pattern(arguments: &[&str]) -> Pattern {
        Pattern::from_arguments(arguments).expect("a pattern")
    }

    fn finds(arguments: &[&str], text: &str) -> bool {
        pattern(arguments).matches(text)
    }

    #[test]
    fn phrase_matches_its_words_in_order() {
        for phrase in ["off by one", "\"off by one\"", "OFF  by\tOne"] {
            assert!(finds(&[phrase], "an off by one error"), "{phrase}");
            assert!(finds(&[phrase], "an Off\n  by one."), "any whitespace between them");
            for other in ["one by off", "off or by one", "off-by-one", "off by", "turn off by ones", "take-off byone"] {
                assert!(!finds(&[phrase], other), "{phrase} in {other}");
            }
        }
        assert!(finds(&["off", "by", "one"], "one by off"), "words are in any order");
        assert!(finds(&["error", "off by one"], "off by one: an error") && !finds(&["error", "off by one"], "off by one"));
        assert!(finds(&["say \"off by one\" twice"], "twice: off by one, say I") && !finds(&["say \"a b\""], "a say b"));
        assert!(finds(&["off by off by one"], "off by off by one") && finds(&["off by one"], "off by off by one"));
    }

    #[test]
    fn words_match_whole_words_unless_substrings_are_asked_for() {
        for (word, text) in [("art", "start"), ("art", "arts"), ("art", "art_2"), ("1", "12"), ("é", "café")] {
            assert!(!finds(&[word], text), "{word} in {text}");
            assert!(pattern(&[word]).with_substrings(true).matches(text), "{word} within {text}");
            for text in [format!("an {word}."), format!("{text} {word}"), format!("{word}-{text}"), word.to_owned()] {
                assert!(finds(&[word], &text), "{word} in {text}");
            }
        }
        assert!(finds(&["parser.rs"], "see src/parser.rs:12") && !finds(&["parser.rs"], "src/parser.rst"));
        assert!(finds(&["--flag"], "x--flag=1") && finds(&["日本"], "これは日本語です") && finds(&["파일"], "파일을 읽는다"));
    }

    #[test]
    fn case_is_the_same_for_all_letters() {
        let pairs = [("ÄPFEL", "äpfel"), ("ПРИВЕТ", "привет"), ("Éclair", "éCLAIR"), ("ΟΔΟΣ", "οδος"), ("ẞ", "ß"), ("Ⱥ", "ⱥ")];
        for (one, other) in pairs {
            for (asked, told) in [(one, one), (one, other), (other, one), (other, other)] {
                let text = format!("Ⱥ İ say {told} now");
                assert!(finds(&[asked], &text), "{asked} in {told}");
                let range = pattern(&[asked]).find_any(&text[2..]);
                assert_eq!(range.map(|range| &text[2..][range]), Some(told), "{asked} in {told}");
            }
        }
        // One that has no other case of one letter is found as it is; a letter of ASCII is no other one.
        assert!(finds(&["İzmir"], "in İzmir") && finds(&["\u{212a}"], "3 \u{212a}") && !finds(&["k"], "3 \u{212a}"));
    }

    #[test]
    fn quotes_are_read_as_in_a_search_box() {
        let words =
            |text: &str| Pattern::parse(text).map(|pattern| pattern.terms.into_iter().map(|term| term.0.join(" ")).collect());
        let some = |terms: &[&str]| Some(terms.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(words("a \"b  C\" d"), some(&["a", "b c", "d"]));
        assert_eq!(words("\"open end"), some(&["open end"]));
        assert_eq!(words("5\" \"type\":\"x\""), some(&["5\"", "type\":\"x"]));
        assert_eq!((words(" "), words("\"\""), words("\" \"")), (None, None, None));
        assert_eq!(Pattern::from_arguments(&["", " "]), None);
    }

    #[test]
    fn first_occurrence_is_of_any_term() {
        let found = |text: &str| pattern(&["two", "one"]).find(text).map(|range| text[range].to_owned());
        assert_eq!(found("onetwo one two"), Some("one".to_owned()));
        assert_eq!((found("two"), found("")), (None, None));
    }
}
