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

use sabir_core::event::{Event, Text};
use sabir_core::fold::{FileChange, ResultOptions, SessionResult, SessionResultFold, Taker, ToolCall, Turn};

use crate::failure::Failure;

/// So much of a list stays in memory.
const IN_MEMORY: usize = 4 << 20;
/// So much of a file is read at once.
const CHUNK: usize = 256 << 10;

/// Makes the JSON of a result.
#[derive(Default)]
pub(crate) struct ResultJson {
    fold: SessionResultFold,
    lists: Lists,
}

impl ResultJson {
    pub(crate) fn new(options: ResultOptions) -> Self {
        Self { fold: SessionResult::fold_with(options), lists: Lists::default() }
    }

    /// One that is made in the memory of another.
    pub(crate) fn within(lists: Lists) -> Self {
        Self { fold: SessionResultFold::default(), lists }
    }

    /// Takes note of the next event.
    pub(crate) fn event(&mut self, event: &Event<'_>) {
        self.fold.event_with(event, &mut self.lists);
    }

    /// The JSON of all events.
    pub(crate) fn finish(mut self) -> Result<Made, Failure> {
        self.fold.close_with(&mut self.lists);
        if let Some(error) = self.lists.failed.take() {
            return Err(Failure::io("putting a long session away failed", &error));
        }
        let around = self.fold.finish().around_lists();
        let around = around.map_err(|error| Failure::io("writing JSON failed", &error.into()))?;
        Ok(Made { around, lists: self.lists })
    }
}

/// The items of the long lists of a result.
#[derive(Default)]
pub(crate) struct Lists {
    turns: List,
    calls: List,
    /// Where the calls are, in the order in which they began: they are put away in the order in which they ended.
    places: Vec<Range<u64>>,
    file_changes: List,
    /// What could not be put away, and why.
    failed: Option<io::Error>,
}

impl Lists {
    fn all(&mut self) -> [&mut List; 3] {
        [&mut self.turns, &mut self.calls, &mut self.file_changes]
    }

    /// Empties them. Their memory is for the next ones, where it is not larger than that.
    pub(crate) fn clear(&mut self, largest: usize) {
        self.places.clear();
        self.all().into_iter().for_each(|list| list.clear(largest));
    }
}

impl Taker for Lists {
    fn turn(&mut self, turn: Turn) {
        let place = self.turns.push(|out| turn.write_json(out));
        self.failed = self.failed.take().or(place.err());
    }

    fn call(&mut self, number: usize, call: ToolCall, output: Option<&Text<'_>>) {
        if self.places.len() <= number {
            self.places.resize(number + 1, 0..0);
        }
        match self.calls.push(|out| call.write_json(output, out)) {
            Ok(place) => self.places[number] = place,
            Err(error) => drop(self.failed.get_or_insert(error)),
        }
    }

    fn file_change(&mut self, change: FileChange) {
        let place = self.file_changes.push(|out| change.write_json(out));
        self.failed = self.failed.take().or(place.err());
    }
}

/// A result as JSON.
pub(crate) struct Made {
    /// What stands around the lists.
    around: [Vec<u8>; 4],
    lists: Lists,
}

impl Made {
    /// Hands it out, piece by piece.
    pub(crate) fn give(&mut self, take: &mut dyn FnMut(&[u8]) -> Result<(), Failure>) -> Result<(), Failure> {
        let [before_turns, before_calls, before_changes, end] = &self.around;
        let Lists { turns, calls, places, file_changes, .. } = &mut self.lists;
        take(before_turns)?;
        turns.give(&[turns.all()], take)?;
        take(before_calls)?;
        calls.give(&joined(places), take)?;
        take(before_changes)?;
        file_changes.give(&[file_changes.all()], take)?;
        take(end)
    }

    /// All pieces of it, where they are in memory.
    pub(crate) fn pieces(&self) -> Option<Vec<&[u8]>> {
        let [before_turns, before_calls, before_changes, end] = &self.around;
        let Lists { turns, calls, places, file_changes, .. } = &self.lists;
        let mut pieces = vec![before_turns.as_slice()];
        turns.pieces(&[turns.all()], &mut pieces)?;
        pieces.push(before_calls);
        calls.pieces(&joined(places), &mut pieces)?;
        pieces.push(before_changes);
        file_changes.pieces(&[file_changes.all()], &mut pieces)?;
        pieces.push(end);
        Some(pieces)
    }

    /// The memory that it lies in.
    pub(crate) fn into_lists(self) -> Lists {
        self.lists
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
    fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> io::Result<Range<u64>> {
        let start = self.all().end;
        write(&mut self.bytes);
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

    /// Gives what is at these places, without the last comma; `None` where that is in a file.
    fn pieces<'l>(&'l self, places: &[Range<u64>], pieces: &mut Vec<&'l [u8]>) -> Option<()> {
        if self.file.is_some() {
            return None;
        }
        for place in places {
            let [start, end] = [place.start, place.end].map(|at| usize::try_from(at).unwrap_or(self.bytes.len()));
            pieces.push(self.bytes.get(start..end)?);
        }
        if let (false, Some(last)) = (places.is_empty(), pieces.last_mut()) {
            *last = last.strip_suffix(b",").unwrap_or(last);
        }
        Some(())
    }

    /// Empties it. Memory that is not larger than that is for the next one.
    fn clear(&mut self, largest: usize) {
        self.file = None;
        self.in_file = 0;
        self.bytes.clear();
        if self.bytes.capacity() > largest {
            self.bytes = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use sabir_core::decode::{Decoder, Start};
    use sabir_core::dialect::End;
    use sabir_core::event::{Event, EventKind};
    use sabir_core::fold::SessionResult;
    use sabir_core::line::Line;

    use super::{IN_MEMORY, Lists, ResultJson};

    /// The JSON that comes out, which must be that of a fold that keeps all.
    fn check(lists: &mut Lists, lines: &[String], is_over: bool) -> String {
        let mut result = ResultJson::within(std::mem::take(lists));
        let mut decoder =
            Decoder::new(Start::of(crate::commands::agents::registry().find("claude-code").expect("an agent").clone()));
        let mut fold = SessionResult::fold();
        let ends = |event: &Event<'_>| matches!(event.kind, EventKind::ToolEnd(_) | EventKind::Exited(_));
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
        let mut made = result.finish().expect("put away");
        made.give(&mut crate::output::onto(&mut json)).expect("read back");
        let is_in_memory = [&made.lists.turns, &made.lists.calls].iter().all(|list| list.file.is_none());
        assert_eq!(made.pieces().map(|pieces| pieces.concat()), is_in_memory.then(|| json.clone()));
        *lists = made.into_lists();
        lists.clear(IN_MEMORY);
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
        let mut lists = Lists::default();
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
            check(&mut lists, &lines, true);
        }
    }

    #[test]
    fn a_long_run_is_put_away() {
        let lines = |size| [call(1), output(1, size)];
        let mut result = ResultJson::default();
        let mut decoder =
            Decoder::new(Start::of(crate::commands::agents::registry().find("claude-code").expect("an agent").clone()));
        let mut calls = 0;
        while result.lists.calls.file.is_none() {
            for line in lines(40_000) {
                let mut events = Vec::new();
                decoder.line(&Line::of(1, line.as_str()), &mut events);
                events.iter().for_each(|event| result.event(event));
            }
            calls += 1;
            assert!(calls * 30_000 < 2 * IN_MEMORY, "nothing is put away");
            assert!(result.lists.calls.bytes.len() <= IN_MEMORY);
        }
    }

    #[test]
    fn a_run_that_breaks_off_has_its_open_calls() {
        let json = check(&mut Lists::default(), &[call(7)], false);
        assert!(json.contains(r#""toolCalls":[{"id":"t7""#), "{json}");
    }
}
