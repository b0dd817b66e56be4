//! Searching the texts of sessions.
//!
//! A log is first looked through as it lies on the disk, which is as fast as reading it; only where all words are is it
//! worth decoding. No index of words is kept: it would be as large as half the logs and always a little out of date.

use std::fs::File;
use std::io::{self, Read as _};
use std::ops::Range;
use std::path::Path;

use aho_corasick::AhoCorasick;
use sabir_core::event::{Event, EventKind, Prompt, TextDelta, ThinkingDelta};
use sabir_core::pattern::Pattern;
use sabir_core::time::Timestamp;

use crate::account::Session;
use crate::history::Role;
use crate::index::Log;
use crate::layout::RunFolder;
use crate::meta::Meta;
use crate::reader::Reader;
use crate::record::Kind;
use crate::whole::{self, Workspace};

/// A pattern, and what of it can be looked for in raw logs.
#[derive(Debug)]
pub struct Words {
    pattern: Pattern,
    /// The longest part of each word that is written in a log as it is, whatever is escaped around it.
    raw: AhoCorasick,
    /// Of each word, whether it has no such part.
    unknown: Vec<bool>,
    longest: usize,
}

/// A text of a session that matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The number of the event, [`Event::seq`]; of a text in several pieces, of the piece with the first match. `None` for the
    /// prompt that a run was started with, which is no event.
    pub seq: Option<u64>,
    /// When it was said.
    pub at: Option<Timestamp>,
    /// What it is, by the kind of its event.
    pub kind: &'static str,
    /// The text around the first match.
    pub snippet: String,
}

/// How much of a file is looked through at once.
const CHUNK: usize = 1 << 18;
/// How many characters of a text are shown before the first match, and after it.
const BEFORE: usize = 60;
const AFTER: usize = 140;
/// The kind of what a run was started with.
const PROMPT: &str = "prompt";

impl Words {
    /// `None` when the pattern is too large.
    pub fn new(pattern: Pattern) -> Option<Self> {
        let raw: Vec<&str> = pattern.words().map(longest_plain).collect();
        let longest = raw.iter().map(|word| word.len()).max().unwrap_or(0);
        let unknown = raw.iter().map(|word| word.is_empty()).collect();
        let raw = AhoCorasick::builder().ascii_case_insensitive(true).build(&raw).ok()?;
        Some(Self { pattern, raw, unknown, longest })
    }

    /// Whether all words may be in a session, by its raw files. A database is not looked through raw, since the latest of it
    /// is in another file.
    fn may_be_in(&self, session: &Session, logs: &[Log]) -> io::Result<bool> {
        let (mut seen, mut outcome) = (self.unknown.clone(), Ok(()));
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

    /// The text around the first match, where the text matches.
    pub fn snippet(&self, text: &str) -> Option<String> {
        self.pattern.find(text).map(|found| snippet(text, found))
    }

    /// Whether the pattern matches a text of a session. It is decoded only where its raw log has all words.
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
        if let Some(folder) = whole::run_of(session, logs) {
            return self.places_in_run(folder, take);
        }
        let mut texts = Texts::new(&self.pattern, take);
        whole::events_in(workspace, session, logs, &mut |event| texts.event(event))?;
        texts.end();
        Ok(())
    }

    /// The same of a run of the journal, where what it was started with is no event. An agent that says it again does not
    /// make it two places.
    fn places_in_run(&self, folder: &RunFolder, take: &mut dyn FnMut(Place)) -> io::Result<()> {
        let mut reader = Reader::of(folder.clone()).map_err(|trouble| io::Error::other(trouble.what))?;
        let mut asked: Option<String> = None;
        let mut texts = Texts::new(&self.pattern, take);
        while let Some(record) = reader.next()? {
            match record.kind {
                Kind::Meta => {
                    let Ok(Meta { prompt, started, .. }) = serde_json::from_slice(record.payload) else { continue };
                    texts.end();
                    texts.text(None, started, PROMPT, &prompt);
                    asked = Some(prompt);
                }
                Kind::Event => {
                    let Ok(event) = serde_json::from_slice::<Event<'_>>(record.payload) else { continue };
                    let is_asked = |text: &str| asked.as_ref().is_some_and(|asked| asked.trim() == text.trim());
                    match &event.kind {
                        EventKind::Prompt(Prompt { text, .. }) if is_asked(text) => texts.end(),
                        _ => texts.event(&event),
                    }
                }
                _ => {}
            }
        }
        texts.end();
        Ok(())
    }
}

/// Matches the texts of events. A message that comes in pieces is one text.
struct Texts<'t> {
    pattern: &'t Pattern,
    take: &'t mut dyn FnMut(Place),
    open: Option<Message>,
}

/// The pieces of a message so far.
struct Message {
    kind: &'static str,
    id: Option<String>,
    parent: Option<String>,
    text: String,
    /// Where each piece begins, its event's number and its time.
    pieces: Vec<(usize, u64, Option<Timestamp>)>,
}

/// A message that is longer is matched in parts of this many bytes.
const LONGEST_MESSAGE: usize = 4 << 20;

impl<'t> Texts<'t> {
    fn new(pattern: &'t Pattern, take: &'t mut dyn FnMut(Place)) -> Self {
        Self { pattern, take, open: None }
    }

    fn event(&mut self, event: &Event<'_>) {
        let kind = event.kind.tag();
        if let EventKind::Text(TextDelta { delta, message_id, .. })
        | EventKind::Thinking(ThinkingDelta { delta, message_id, .. }) = &event.kind
        {
            let (id, parent) = (message_id.as_deref(), event.parent_tool_call_id.as_deref());
            let goes_on = |open: &&mut Message| {
                (open.kind, open.id.as_deref(), open.parent.as_deref()) == (kind, id, parent) && open.text.len() < LONGEST_MESSAGE
            };
            if let Some(open) = self.open.as_mut().filter(goes_on) {
                open.pieces.push((open.text.len(), event.seq, event.at));
                open.text.push_str(delta);
                return;
            }
            self.end();
            let pieces = vec![(0, event.seq, event.at)];
            let (id, parent, text) = (id.map(str::to_owned), parent.map(str::to_owned), delta.as_ref().to_owned());
            self.open = Some(Message { kind, id, parent, text, pieces });
            return;
        }
        // What else tells a text ends the message, and so does what is between two.
        self.end();
        if let Some(text) = event.kind.said() {
            self.text(Some(event.seq), event.at, kind, text);
        }
    }

    fn text(&mut self, seq: Option<u64>, at: Option<Timestamp>, kind: &'static str, text: &str) {
        if let Some(found) = self.pattern.find(text) {
            (self.take)(Place { seq, at, kind, snippet: snippet(text, found) });
        }
    }

    /// Matches the message that is open.
    fn end(&mut self) {
        let Some(Message { kind, text, pieces, .. }) = self.open.take() else { return };
        let Some(found) = self.pattern.find(&text) else { return };
        let piece = pieces.partition_point(|(start, ..)| *start <= found.start).saturating_sub(1);
        if let Some((_, seq, at)) = pieces.get(piece) {
            (self.take)(Place { seq: Some(*seq), at: *at, kind, snippet: snippet(&text, found) });
        }
    }
}

/// The text around a match, on one line.
fn snippet(text: &str, found: Range<usize>) -> String {
    let start = text[..found.start].char_indices().rev().nth(BEFORE).map_or(0, |(at, _)| at);
    let end = text[found.end..].char_indices().nth(AFTER).map_or(text.len(), |(at, _)| found.end + at);
    let mut snippet = String::new();
    if start > 0 {
        snippet.push('…');
    }
    snippet.push_str(text[start..end].trim());
    if end < text.len() {
        snippet.push('…');
    }
    snippet.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether all words were seen.
fn all(seen: &[bool]) -> bool {
    seen.iter().all(|seen| *seen)
}

/// The longest part of a word that JSON never escapes and that has no other case than the ASCII one.
fn longest_plain(word: &str) -> &str {
    let plain = |character: char| character.is_ascii_graphic() && !matches!(character, '"' | '\\' | '/' | '<' | '>' | '&' | '\'');
    word.split(|character| !plain(character)).max_by_key(|part| part.len()).unwrap_or("")
}

#[cfg(test)]
mod tests {

    use sabir_core::event::{Event, RunId, TextDelta};
    use sabir_core::pattern::Pattern;

    use super::{Place, Texts, Words, longest_plain};

    fn words(arguments: &[&str]) -> Words {
        Pattern::from_arguments(arguments).and_then(Words::new).expect("words")
    }

    #[test]
    fn words_are_found_over_the_border_of_chunks() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let words = words(&["Needle", "hay"]);
        for at in [0, 5, super::CHUNK - 3, super::CHUNK, super::CHUNK + 1, 2 * super::CHUNK - 1] {
            let mut text = vec![b'.'; 3 * super::CHUNK];
            text[at..at + 6].copy_from_slice(b"nEEDLE");
            std::fs::write(&path, &text).expect("written");
            let mut seen = words.unknown.clone();
            words.look(&path, &mut seen).expect("read");
            assert_eq!(seen, [true, false], "at {at}");
        }
    }

    #[test]
    fn snippets_are_the_text_around_the_first_match() {
        let words = words(&["parser", "error"]);
        assert_eq!(words.snippet("An ERROR in\nthe Parser"), Some("An ERROR in the Parser".to_owned()));
        assert_eq!(words.snippet("an error"), None);
        let long = format!("{} the parser error {}", "x".repeat(500), "é".repeat(500));
        let snippet = words.snippet(&long).expect("found");
        assert!(snippet.starts_with('…') && snippet.ends_with('…') && snippet.contains("parser error"), "{snippet}");
    }

    #[test]
    fn snippets_of_letters_that_are_longer_in_another_case_are_as_long() {
        let long = format!("{} ÄPFEL {}", "Ⱥ".repeat(300), "İ".repeat(300));
        let snippet = words(&["äpfel"]).snippet(&long).expect("found");
        assert_eq!(snippet, format!("…{} ÄPFEL {}…", "Ⱥ".repeat(super::BEFORE), "İ".repeat(super::AFTER - 1)));
    }

    #[test]
    fn message_in_pieces_is_one_text() {
        let pattern = Pattern::from_arguments(&["off by one"]).expect("a pattern");
        let found = |pieces: &[(&str, Option<&str>)]| {
            let mut places = Vec::new();
            let mut take = |place: Place| places.push((place.seq, place.snippet));
            let mut texts = Texts::new(&pattern, &mut take);
            for ((text, id), seq) in pieces.iter().zip(1..) {
                let kind = TextDelta::new(*text).message_id(*id).into();
                let run_id = RunId::from("r");
                texts.event(&Event { run_id, seq, at: None, line: None, parent_tool_call_id: None, kind });
            }
            texts.end();
            places
        };
        assert_eq!(found(&[("it is o", None), ("ff by", None), (" one.", None)]), [(Some(1), "it is off by one.".to_owned())]);
        assert_eq!(found(&[("it is", None), (" off by", None), (" one", None)])[0].0, Some(2), "the piece with the first match");
        assert_eq!(found(&[("off by one", None), ("self", None)]), [], "the word goes on");
        assert_eq!(found(&[("off by", Some("a")), (" one", Some("b"))]), [], "two messages");
    }

    #[test]
    fn what_json_escapes_is_not_looked_for_in_raw_logs() {
        assert_eq!(longest_plain("src/main.rs"), "main.rs");
        assert_eq!(longest_plain("\"a\""), "a");
        assert_eq!(longest_plain("naïvely"), "vely");
        assert_eq!(longest_plain("日本"), "");
    }
}
