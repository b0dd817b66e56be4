//! Finding words in logs.
//!
//! A log is first looked through as it lies on the disk, which is as fast as reading it; only where all words are is it
//! worth decoding. No index of words is kept: it would be as large as half the logs and always a little out of date.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read as _};
use std::ops::Range;
use std::path::Path;

use aho_corasick::{AhoCorasick, MatchKind};
use sabir_core::event::{Event, EventKind};
use sabir_core::time::Timestamp;

use crate::account::Session;
use crate::history::Role;
use crate::index::Log;
use crate::layout::RunFolder;
use crate::meta::Meta;
use crate::reader::Reader;
use crate::record::Kind;
use crate::whole::{self, Workspace};

/// Words to look for, upper and lower case alike.
#[derive(Debug)]
pub struct Words {
    words: Vec<String>,
    /// The longest part of each word that is written in a log as it is, whatever is escaped around it.
    raw: AhoCorasick,
    longest: usize,
    /// Any of the words, in a folded text.
    any: AhoCorasick,
    /// All words are of ASCII, so texts are looked through as they are.
    plain: bool,
}

/// A text of a session that has all the words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The number of the event; `None` for the prompt that a run was started with, which is none.
    pub seq: Option<u64>,
    /// When it was said.
    pub at: Option<Timestamp>,
    /// What it is, by the kind of its event.
    pub kind: &'static str,
    /// The text around the first word.
    pub snippet: String,
}

/// How much of a file is looked through at once.
const CHUNK: usize = 1 << 18;
/// How many characters of a text are shown before the first word, and after it.
const BEFORE: usize = 60;
const AFTER: usize = 140;
/// The kind of what a run was started with.
const PROMPT: &str = "prompt";

impl Words {
    /// `None` when there is no word, or too much of it.
    pub fn new<T: AsRef<str>>(words: &[T]) -> Option<Self> {
        let split = words.iter().flat_map(|word| word.as_ref().split_whitespace());
        let words: Vec<String> = split.map(folded).collect();
        if words.is_empty() {
            return None;
        }
        let raw: Vec<&str> = words.iter().map(|word| longest_plain(word)).collect();
        let longest = raw.iter().map(|word| word.len()).max().unwrap_or(0);
        let build =
            |words: &[&str]| AhoCorasick::builder().ascii_case_insensitive(true).match_kind(MatchKind::Standard).build(words);
        let any: Vec<&str> = words.iter().map(String::as_str).collect();
        let any = AhoCorasick::builder().ascii_case_insensitive(true).match_kind(MatchKind::LeftmostLongest).build(&any).ok()?;
        let plain = words.iter().all(|word| word.is_ascii());
        Some(Self { raw: build(&raw).ok()?, longest, any, plain, words })
    }

    /// Whether all words may be in a session, by its raw files. A database is not looked through raw, since the latest of it
    /// is in another file.
    fn may_be_in(&self, session: &Session, logs: &[Log]) -> io::Result<bool> {
        let (mut seen, mut outcome) = (self.none_seen(), Ok(()));
        for file in session.logs.iter().map(|place| &logs[*place].file) {
            let looked = match &file.role {
                Role::Run(folder) => folder
                    .segments()
                    .and_then(|numbers| numbers.iter().try_for_each(|number| self.look(&folder.segment(*number), &mut seen))),
                _ if file.path.extension().is_some_and(|extension| extension == "db") => return Ok(true),
                _ => self.look(&file.path, &mut seen),
            };
            match looked {
                // A file that is gone has no words. Of one that can't be read nobody knows, and the others may have them.
                Err(error) if error.kind() != io::ErrorKind::NotFound => outcome = Err(error),
                _ => {}
            }
        }
        if all(&seen) { Ok(true) } else { outcome.map(|()| false) }
    }

    /// No word was seen yet, but for those that can't be looked for in a raw log.
    fn none_seen(&self) -> Vec<bool> {
        self.words.iter().map(|word| longest_plain(word).is_empty()).collect()
    }

    /// Looks through a file until all words have been seen.
    fn look(&self, path: &Path, seen: &mut [bool]) -> io::Result<()> {
        if all(seen) {
            return Ok(());
        }
        let mut file = File::open(path)?;
        let mut buffer = vec![0; CHUNK + self.longest];
        // The end of one chunk is the beginning of the next, so that no word is cut.
        let mut kept = 0;
        loop {
            let count = match file.read(&mut buffer[kept..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                count => count?,
            };
            if count == 0 {
                return Ok(());
            }
            let end = kept + count;
            for found in self.raw.find_overlapping_iter(&buffer[..end]) {
                seen[found.pattern().as_usize()] = true;
                if all(seen) {
                    return Ok(());
                }
            }
            kept = self.longest.saturating_sub(1).min(end);
            buffer.copy_within(end - kept..end, 0);
        }
    }

    /// The text around the first word, where all words are in the text.
    pub fn snippet(&self, text: &str) -> Option<String> {
        let folded = self.folded(text);
        let first = self.first(text, &folded)?;
        if !self.words.iter().all(|word| contains(&folded, word)) {
            return None;
        }
        let start = text[..first.start].char_indices().rev().nth(BEFORE).map_or(0, |(at, _)| at);
        let end = text[first.end..].char_indices().nth(AFTER).map_or(text.len(), |(at, _)| first.end + at);
        let mut snippet = String::new();
        if start > 0 {
            snippet.push('…');
        }
        snippet.push_str(text[start..end].trim());
        if end < text.len() {
            snippet.push('…');
        }
        Some(snippet.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    /// Whether all words are together in one text of a session. It is decoded only where its raw log has all of them.
    pub fn are_in(&self, session: &Session, logs: &[Log]) -> bool {
        let mut found = false;
        // A log that can't be read any more has no words.
        let _ = self.places(&mut Workspace::default(), session, logs, &mut |_| found = true);
        found
    }

    /// Hands out the places in a session, in order. It is decoded only where its raw log has all words.
    pub fn places(
        &self,
        workspace: &mut Workspace,
        session: &Session,
        logs: &[Log],
        take: &mut dyn FnMut(Place),
    ) -> io::Result<()> {
        if !self.may_be_in(session, logs)? {
            return Ok(());
        }
        match whole::run_of(session, logs) {
            Some(folder) => self.places_in_run(folder, take),
            None => whole::events_in(workspace, session, logs, &mut |event| self.place(event).into_iter().for_each(&mut *take))
                .map(drop),
        }
    }

    fn place(&self, event: &Event<'_>) -> Option<Place> {
        let snippet = self.snippet(event.kind.said()?)?;
        Some(Place { seq: Some(event.seq), at: event.at, kind: event.kind.tag(), snippet })
    }

    /// The same of a run of the journal, where what it was started with is no event. An agent that says it again does not
    /// make it two places.
    fn places_in_run(&self, folder: &RunFolder, take: &mut dyn FnMut(Place)) -> io::Result<()> {
        let mut reader = Reader::of(folder.clone()).map_err(|trouble| io::Error::other(trouble.what))?;
        let mut asked = None;
        while let Some(record) = reader.next()? {
            match record.kind {
                Kind::Meta => {
                    let Ok(Meta { prompt, started, .. }) = serde_json::from_slice(record.payload) else { continue };
                    if let Some(snippet) = self.snippet(&prompt) {
                        take(Place { seq: None, at: started, kind: PROMPT, snippet });
                    }
                    asked = Some(prompt);
                }
                Kind::Event => {
                    let Ok(event) = serde_json::from_slice::<Event<'_>>(record.payload) else { continue };
                    let is_asked = |text: &str| asked.as_ref().is_some_and(|asked| asked.trim() == text.trim());
                    match &event.kind {
                        EventKind::Prompt { text } if is_asked(text) => {}
                        _ => self.place(&event).into_iter().for_each(&mut *take),
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Where the first of the words is in a text.
    pub fn first_in(&self, text: &str) -> Option<Range<usize>> {
        self.first(text, &self.folded(text))
    }

    /// A text in which the words are where they are in upper or lower case.
    fn folded<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.plain || text.is_ascii() { Cow::Borrowed(text) } else { Cow::Owned(folded(text)) }
    }

    /// Where the first of the words is in a text that is folded like that.
    fn first(&self, text: &str, folded: &str) -> Option<Range<usize>> {
        let found = self.any.find(folded)?.range();
        if std::ptr::eq(folded, text) {
            return Some(found);
        }
        // A letter may be longer in another case, and is one letter all the same.
        let place = |letters: usize| text.char_indices().nth(letters).map_or(text.len(), |(at, _)| at);
        let before = folded[..found.start].chars().count();
        Some(place(before)..place(before + folded[found].chars().count()))
    }
}

/// Whether all words were seen.
fn all(seen: &[bool]) -> bool {
    seen.iter().all(|seen| *seen)
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

/// Whether a folded text has a word; letters of ASCII may be in any case.
fn contains(text: &str, word: &str) -> bool {
    let (text, word) = (text.as_bytes(), word.as_bytes());
    text.windows(word.len()).any(|window| window.eq_ignore_ascii_case(word))
}

/// The longest part of a word that JSON never escapes and that has no other case than the ASCII one.
fn longest_plain(word: &str) -> &str {
    let plain = |character: char| character.is_ascii_graphic() && !matches!(character, '"' | '\\' | '/' | '<' | '>' | '&' | '\'');
    word.split(|character| !plain(character)).max_by_key(|part| part.len()).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::{Words, longest_plain};

    #[test]
    fn words_are_found_over_the_border_of_chunks() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let words = Words::new(&["Needle", "hay"]).expect("words");
        for at in [0, 5, super::CHUNK - 3, super::CHUNK, super::CHUNK + 1, 2 * super::CHUNK - 1] {
            let mut text = vec![b'.'; 3 * super::CHUNK];
            text[at..at + 6].copy_from_slice(b"nEEDLE");
            std::fs::write(&path, &text).expect("written");
            let mut seen = words.none_seen();
            words.look(&path, &mut seen).expect("read");
            assert_eq!(seen, [true, false], "at {at}");
        }
    }

    #[test]
    fn all_words_must_be_in_one_text() {
        let words = Words::new(&["parser error"]).expect("words");
        assert_eq!(words.snippet("An ERROR in\nthe Parser"), Some("An ERROR in the Parser".to_owned()));
        assert_eq!(words.snippet("an error"), None);
        assert_eq!(words.snippet("nothing"), None);
        let long = format!("{} the parser error {}", "x".repeat(500), "é".repeat(500));
        let snippet = words.snippet(&long).expect("found");
        assert!(snippet.starts_with('…') && snippet.ends_with('…') && snippet.contains("parser error"), "{snippet}");
    }

    #[test]
    fn upper_and_lower_case_are_the_same_for_all_letters() {
        let words = |text: &str| Words::new(&[text]).expect("words");
        for (one, other) in
            [("ÄPFEL", "äpfel"), ("ПРИВЕТ", "привет"), ("Éclair", "éCLAIR"), ("ΟΔΟΣ", "οδος"), ("ẞ", "ß"), ("Ⱥ", "ⱥ")]
        {
            for (asked, told) in [(one, one), (one, other), (other, one), (other, other)] {
                let text = format!("Ⱥ İ say {told} now");
                assert_eq!(words(asked).snippet(&text), Some(text.clone()), "{asked} in {told}");
                assert_eq!(words(asked).first_in(&text[2..]).map(|range| &text[2..][range]), Some(told), "{asked} in {told}");
            }
        }
        // One that has no other case of one letter is found as it is; a letter of ASCII is no other one.
        assert!(words("İ").snippet("in İzmir").is_some() && words("\u{212a}").snippet("3 \u{212a}").is_some());
        assert!(words("k").snippet("3 \u{212a}").is_none());
        // Letters that are longer or shorter in another case move no border.
        let long = format!("{}ÄPFEL{}", "Ⱥ".repeat(300), "İ".repeat(300));
        let snippet = words("äpfel").snippet(&long).expect("found");
        assert_eq!(snippet, format!("…{}ÄPFEL{}…", "Ⱥ".repeat(super::BEFORE + 1), "İ".repeat(super::AFTER)));
    }

    #[test]
    fn what_json_escapes_is_not_looked_for_in_raw_logs() {
        assert_eq!(longest_plain("src/main.rs"), "main.rs");
        assert_eq!(longest_plain("\"a\""), "a");
        assert_eq!(longest_plain("naïvely"), "vely");
        assert_eq!(longest_plain("日本"), "");
        assert!(Words::new(&[" "]).is_none());
    }
}
