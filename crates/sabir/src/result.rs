//! A session result as JSON, made while the events come.
//!
//! ```text
//!   events ──► fold ──► what is over ──► lists of JSON: in memory, or in files without a name
//!                  └──► the rest ───────► the JSON around them
//! ```
//!
//! A session may be larger than the memory, and its calls with it. What is kept of those there is where each of them lies.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::ops::Range;

use sabir_core::event::Event;
use sabir_core::fold::{Over, ResultOptions, SessionResult, SessionResultFold};
use serde::Serialize;

use crate::failure::Failure;

/// So much of a list stays in memory.
const IN_MEMORY: usize = 4 << 20;
/// So much of a file is read at once.
const CHUNK: usize = 256 << 10;

/// Makes the JSON of one result, or of several one after another in the same memory.
#[derive(Default)]
pub(crate) struct ResultJson {
    fold: SessionResultFold,
    turns: List,
    calls: List,
    /// Where the calls are, in the order in which they began: they are put away in the order in which they ended.
    places: Vec<Range<u64>>,
    file_changes: List,
    /// What could not be put away, and why.
    failed: Option<io::Error>,
}

impl ResultJson {
    pub(crate) fn new(options: ResultOptions) -> Self {
        Self { fold: SessionResult::fold_with(options), ..Self::default() }
    }

    /// Takes note of the next event.
    pub(crate) fn event(&mut self, event: &Event<'_>) {
        self.fold.event(event);
        self.put_away(SessionResultFold::over);
    }

    fn put_away(&mut self, over: impl FnOnce(&mut SessionResultFold) -> &mut Over) {
        let Over { turns, calls, file_changes } = over(&mut self.fold);
        let mut keep = || -> io::Result<()> {
            for turn in turns.drain(..) {
                self.turns.push(&turn)?;
            }
            for (number, call) in calls.drain(..) {
                if self.places.len() <= number {
                    self.places.resize(number + 1, 0..0);
                }
                self.places[number] = self.calls.push(&call)?;
            }
            for change in file_changes.drain(..) {
                self.file_changes.push(&change)?;
            }
            Ok(())
        };
        if let Err(error) = keep() {
            self.failed.get_or_insert(error);
        }
    }

    /// Whether it is larger than what one would have in memory.
    pub(crate) fn is_large(&self) -> bool {
        [&self.turns, &self.calls, &self.file_changes].iter().any(|list| list.file.is_some())
    }

    /// Hands out the JSON of all events so far, piece by piece. What comes next is another result.
    pub(crate) fn finish(&mut self, take: &mut dyn FnMut(&[u8]) -> Result<(), Failure>) -> Result<(), Failure> {
        self.put_away(SessionResultFold::close);
        if let Some(error) = self.failed.take() {
            return Err(Failure::io("putting a long session away failed", &error));
        }
        let around = std::mem::take(&mut self.fold).finish().around_lists();
        let [before_turns, before_calls, before_changes, end] =
            around.map_err(|error| Failure::io("writing JSON failed", &error.into()))?;
        take(&before_turns)?;
        self.turns.give(&[self.turns.all()], take)?;
        take(&before_calls)?;
        self.calls.give(&joined(&self.places), take)?;
        take(&before_changes)?;
        self.file_changes.give(&[self.file_changes.all()], take)?;
        take(&end)?;
        self.places.clear();
        [&mut self.turns, &mut self.calls, &mut self.file_changes].into_iter().for_each(List::clear);
        Ok(())
    }
}

/// Pieces that follow one another, as one.
fn joined(places: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut joined: Vec<Range<u64>> = Vec::new();
    for place in places.iter().filter(|place| !place.is_empty()) {
        match joined.last_mut() {
            Some(last) if last.end == place.start => last.end = place.end,
            _ => joined.push(place.clone()),
        }
    }
    joined
}

/// Values as JSON, each with a comma behind it.
#[derive(Default)]
struct List {
    /// What came first, when there is much.
    file: Option<File>,
    in_file: u64,
    bytes: Vec<u8>,
}

impl List {
    /// Where the value is now.
    fn push(&mut self, value: &impl Serialize) -> io::Result<Range<u64>> {
        let start = self.all().end;
        serde_json::to_writer(&mut self.bytes, value)?;
        self.bytes.push(b',');
        let place = start..self.all().end;
        if self.bytes.len() > IN_MEMORY {
            if self.file.is_none() {
                self.file = Some(tempfile::tempfile()?);
            }
            if let Some(file) = &mut self.file {
                file.seek(SeekFrom::Start(self.in_file))?;
                file.write_all(&self.bytes)?;
                self.in_file += self.bytes.len() as u64;
                self.bytes.clear();
            }
        }
        Ok(place)
    }

    /// Where all of it is.
    fn all(&self) -> Range<u64> {
        0..self.in_file + self.bytes.len() as u64
    }

    /// Hands out what is at these places, without the last comma.
    fn give(&mut self, places: &[Range<u64>], take: &mut dyn FnMut(&[u8]) -> Result<(), Failure>) -> Result<(), Failure> {
        let unreadable = |error: io::Error| Failure::io("reading what was put away failed", &error);
        let mut chunk = Vec::new();
        for (number, place) in places.iter().enumerate() {
            let Range { mut start, mut end } = *place;
            if number + 1 == places.len() {
                end = end.saturating_sub(1);
            }
            while start < end.min(self.in_file)
                && let Some(file) = &mut self.file
            {
                let length = usize::try_from(end.min(self.in_file) - start).map_or(CHUNK, |length| length.min(CHUNK));
                chunk.resize(length, 0);
                file.seek(SeekFrom::Start(start)).and_then(|_| file.read_exact(&mut chunk)).map_err(unreadable)?;
                take(&chunk)?;
                start += length as u64;
            }
            if start < end {
                let [from, to] = [start, end].map(|at| usize::try_from(at - self.in_file).unwrap_or(self.bytes.len()));
                take(&self.bytes[from..to])?;
            }
        }
        Ok(())
    }

    /// Empties it. The memory is for the next one.
    fn clear(&mut self) {
        self.file = None;
        self.in_file = 0;
        self.bytes.clear();
    }
}

#[cfg(test)]
mod tests {
    use sabir_core::decode::{Decoder, Start};
    use sabir_core::dialect::End;
    use sabir_core::event::{Event, EventKind};
    use sabir_core::fold::SessionResult;
    use sabir_core::line::Line;

    use super::{IN_MEMORY, ResultJson};

    /// The JSON that comes out, which must be that of a fold that keeps all.
    fn check(result: &mut ResultJson, lines: &[String], is_over: bool) -> String {
        let mut decoder = Decoder::new(Start::named("claude-code").expect("an agent"));
        let mut fold = SessionResult::fold();
        let ends = |event: &Event<'_>| matches!(event.kind, EventKind::ToolEnd { .. } | EventKind::Exited { .. });
        let mut note = |events: &[Event<'_>]| {
            for event in events.iter().filter(|event| is_over || !ends(event)) {
                fold.event(event);
                result.event(event);
            }
        };
        for (number, line) in (1..).zip(lines) {
            let mut events = Vec::new();
            decoder.line(&Line::of(number, line.as_str()), &mut events);
            note(&events);
        }
        let mut events = Vec::new();
        decoder.end(&End::default(), &mut events);
        note(&events);
        let mut json = Vec::new();
        result.finish(&mut crate::output::onto(&mut json)).expect("put away and read back");
        let json = String::from_utf8(json).expect("text");
        let expected = serde_json::to_string(&fold.finish()).expect("JSON");
        assert!(json == expected, "{} lines", lines.len());
        json
    }

    fn call(number: usize) -> String {
        // What it writes looks like the JSON that it will be in.
        let input = format!(r#"{{"file_path":"/f{number}","content":"\"turnDetails\":[],\"toolCalls\":["}}"#);
        let block = format!(r#"{{"type":"tool_use","id":"t{number}","name":"Write","input":{input}}}"#);
        format!(r#"{{"type":"assistant","message":{{"id":"m{number}","content":[{block}],"usage":{{"output_tokens":2}}}}}}"#)
    }

    fn output(number: usize, size: usize) -> String {
        let text = "é\\n".repeat(size / 4);
        let block = format!(r#"{{"type":"tool_result","tool_use_id":"t{number}","content":"{text}"}}"#);
        format!(r#"{{"type":"user","message":{{"content":[{block}]}}}}"#)
    }

    #[test]
    fn it_is_the_same_json_however_long_the_run_and_one_after_another() {
        let mut result = ResultJson::default();
        for (calls, size) in [(0, 0), (1, 40), (10, 400), (900, 20_000), (5, 4)] {
            let mut lines = Vec::new();
            // Every third call ends after the next one.
            let mut late = None;
            for number in 0..calls {
                lines.push(call(number));
                if number % 3 == 0 {
                    late = Some(number);
                } else {
                    lines.extend([number].into_iter().chain(late.take()).map(|number| output(number, size)));
                }
            }
            check(&mut result, &lines, true);
        }
    }

    #[test]
    fn a_long_run_is_put_away() {
        let lines = |size| [call(1), output(1, size)];
        let mut result = ResultJson::default();
        let mut decoder = Decoder::new(Start::named("claude-code").expect("an agent"));
        let mut calls = 0;
        while !result.is_large() {
            for line in lines(40_000) {
                let mut events = Vec::new();
                decoder.line(&Line::of(1, line.as_str()), &mut events);
                events.iter().for_each(|event| result.event(event));
            }
            calls += 1;
            assert!(calls * 30_000 < 2 * IN_MEMORY, "nothing is put away");
            assert!(result.calls.bytes.len() <= IN_MEMORY);
        }
    }

    #[test]
    fn a_run_that_breaks_off_has_its_open_calls() {
        let json = check(&mut ResultJson::default(), &[call(7)], false);
        assert!(json.contains(r#""toolCalls":[{"id":"t7""#), "{json}");
    }
}
