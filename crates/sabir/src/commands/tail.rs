//! `sabir tail`: the last lines of a run of the journal, and those that come.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use sabir_core::event::Event;
use sabir_store::{Home, Kind, Reader, RunFolder, Waited, prune};

use crate::cli::past::TailArguments;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{self, Options, Output};
use crate::past;
use crate::print::json::Out;

/// How long one waiting takes at most. What comes ends it at once.
const WAIT: Duration = Duration::from_secs(60);

pub(crate) fn run(arguments: &TailArguments) -> Result<Exit, Failure> {
    let home = Home::find().map_err(|trouble| Failure::usage(trouble.what).hint("SABIR_HOME names the folder"))?;
    let folder = choose(&home, arguments.id.as_deref())?;
    let id = folder.id().to_owned();
    let failed = |error: &io::Error| super::prune::unreadable(&home, error);
    let mut reader = Reader::of(folder).map_err(|trouble| Failure::usage(trouble.what).hint(trouble.hint))?;
    let mut output = Output::new(output::named(arguments.json, &arguments.to), Options::default());
    let mut out = Out::default();
    let mut selected = Selected::new(if arguments.all { Lines::From(1) } else { arguments.lines });
    let mut printed = Vec::new();
    loop {
        while let Some(record) = reader.next().map_err(|error| failed(&error))? {
            if record.kind == Kind::Event
                && let Ok(event) = serde_json::from_slice::<Event<'_>>(record.payload)
            {
                output.event(&event, &mut printed);
                selected.take(&printed, out.buffer());
                printed.clear();
            }
            out.write_if_full()?;
        }
        // What comes from here on is new.
        selected.give_all(out.buffer());
        out.write()?;
        if !arguments.follow || reader.wait(WAIT).map_err(|error| failed(&error))? == Waited::Ended {
            break;
        }
    }
    output.end(&mut |piece| out.record(piece))?;
    out.write()?;
    past::tell_damage(&id, &reader.damage());
    Ok(Exit::Completed)
}

/// Which lines of the output are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lines {
    /// The last of this number.
    Last(usize),
    /// From this line on, counted from 1.
    From(u64),
}

/// Reads `10` and `+3`.
pub(crate) fn lines(text: &str) -> Result<Lines, String> {
    let lines = match text.strip_prefix('+') {
        Some(first) => first.parse().ok().map(|first: u64| Lines::From(first.max(1))),
        None => text.parse().ok().map(Lines::Last),
    };
    lines.ok_or_else(|| "use a number of lines, or +N to start at line N".to_owned())
}

/// Selects lines of what is printed piece by piece.
struct Selected {
    lines: Lines,
    /// The last lines; the last of them may be unfinished.
    last: VecDeque<Vec<u8>>,
    /// Lines that were ended so far.
    ended: u64,
}

impl Selected {
    fn new(lines: Lines) -> Self {
        Self { lines, last: VecDeque::new(), ended: 0 }
    }

    /// Takes a piece, and gives what is surely selected.
    fn take(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            let is_end = part.last() == Some(&b'\n');
            match self.lines {
                Lines::From(first) if self.ended + 1 >= first => out.extend_from_slice(part),
                Lines::From(_) => {}
                Lines::Last(most) => {
                    match self.last.back_mut().filter(|line| line.last() != Some(&b'\n')) {
                        Some(line) => line.extend_from_slice(part),
                        None => self.last.push_back(part.to_vec()),
                    }
                    if self.last.len() > most {
                        self.last.pop_front();
                    }
                }
            }
            self.ended += u64::from(is_end);
        }
    }

    /// Gives what is selected of all so far, and selects everything that comes.
    fn give_all(&mut self, out: &mut Vec<u8>) {
        self.last.drain(..).for_each(|line| out.extend_from_slice(&line));
        self.lines = match self.lines {
            // With fewer lines than that, the first of them is still to come.
            Lines::From(first) if self.ended + 1 < first => Lines::From(first),
            _ => Lines::From(1),
        };
    }
}

/// The run whose id starts so, or the latest.
fn choose(home: &Home, prefix: Option<&str>) -> Result<RunFolder, Failure> {
    if prefix.is_some_and(str::is_empty) {
        return Err(Failure::usage("the id is empty").hint("`sabir ls` lists the sessions"));
    }
    let stored = prune::stored(home).map_err(|error| super::prune::unreadable(home, &error))?;
    let mut runs: Vec<RunFolder> = stored.into_iter().rev().map(|run| run.folder).collect();
    runs.retain(|run| prefix.is_none_or(|prefix| run.id().starts_with(prefix)));
    if let Some(exact) = runs.iter().find(|run| Some(run.id()) == prefix) {
        return Ok(exact.clone());
    }
    match (runs.pop(), prefix) {
        (Some(latest), None) => Ok(latest),
        (Some(run), Some(_)) if runs.is_empty() => Ok(run),
        (Some(latest), Some(prefix)) => {
            let ids: Vec<&str> = std::iter::once(&latest).chain(runs.iter().rev()).map(RunFolder::id).collect();
            Err(past::ambiguous("runs", prefix, &ids))
        }
        (None, Some(prefix)) => Err(Failure::usage(format!("there is no run whose id starts with {prefix}"))
            .hint("`sabir ls` lists the sessions; only what `sabir run` started can be watched")),
        (None, None) => {
            Err(Failure::usage("nothing has been run yet")
                .hint("`sabir run AGENT PROMPT` runs an agent and keeps a journal of it"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Lines, Selected, lines};

    #[test]
    fn lines_are_selected_however_they_come_in_pieces() {
        let text = "one\ntwo\nthree\nfour";
        let select = |lines: Lines, size: usize| {
            let (mut selected, mut out) = (Selected::new(lines), Vec::new());
            text.as_bytes().chunks(size).for_each(|piece| selected.take(piece, &mut out));
            selected.give_all(&mut out);
            selected.take(b" and more\nlast\n", &mut out);
            String::from_utf8(out).expect("text")
        };
        for size in [1, 3, 4, 5, 100] {
            assert_eq!(select(Lines::Last(2), size), "three\nfour and more\nlast\n");
            assert_eq!(select(Lines::Last(0), size), " and more\nlast\n");
            assert_eq!(select(Lines::Last(9), size), format!("{text} and more\nlast\n"));
            assert_eq!(select(Lines::From(1), size), format!("{text} and more\nlast\n"));
            assert_eq!(select(Lines::From(3), size), "three\nfour and more\nlast\n");
            assert_eq!(select(Lines::From(5), size), "last\n");
        }
        assert_eq!((lines("10"), lines("+3"), lines("+0")), (Ok(Lines::Last(10)), Ok(Lines::From(3)), Ok(Lines::From(1))));
        assert!(lines("-1").is_err() && lines("ten").is_err() && lines("").is_err());
    }
}
