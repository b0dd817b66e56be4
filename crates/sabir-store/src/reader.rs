//! Reads the records of a run, in order, while it is written or long after.
//!
//! Only whole records are given out. In the last segment of a live run, bytes that are not a whole record are not there yet:
//! the writer may be in the middle of them, so nothing is said about them. Everywhere else they are damage: they are counted
//! and stepped over, to the next record that is whole.
//!
//! Memory is bounded by the largest record ([`MAX_PAYLOAD`](crate::record::MAX_PAYLOAD)), not by the run.

use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cursor::Cursor;
use crate::layout::{Home, RunFolder};
use crate::record::{self, HEAD, Head, Kind, Record};
use crate::segment::{FIXED, Header, Opening};
use crate::trouble::{Trouble, Why};
use crate::wait::Watch;
use crate::window::Window;

/// What of a journal can't be read, counted. All zero: nothing is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Damage {
    /// Bytes at the end of the last segment that are no whole record: a crash while writing.
    pub torn_bytes: u64,
    /// The same, but all of them zero: a crash of the machine.
    pub zero_bytes: u64,
    /// Places between records where bytes are not what was written.
    pub places: u64,
    /// The bytes of those places.
    pub bytes: u64,
    /// Heads of segments that are damaged. Their records are found all the same.
    pub headers: u64,
    /// Records that are missing, by their numbers.
    pub missing: u64,
    /// Records that come again, or too late; they are left out.
    pub out_of_order: u64,
    /// Segments that a newer version wrote; they are left out.
    pub newer_segments: u64,
    /// Records of a kind that this version does not know; they are given out.
    pub unknown_kinds: u64,
}

impl Damage {
    /// Whether all that was written can be read.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The same without what a crash leaves: a torn or zeroed end, which the outcome of the run tells.
    #[must_use]
    pub fn beyond_the_end(self) -> Self {
        Self { torn_bytes: 0, zero_bytes: 0, unknown_kinds: 0, ..self }
    }
}

/// What came of waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// There may be more to read.
    More,
    /// Nobody writes the run, and all of it has been read.
    Ended,
    /// The time is over.
    TimedOut,
}

/// The records of one run.
#[derive(Debug)]
pub struct Reader {
    folder: RunFolder,
    run_id: String,
    seed: u32,
    current: Option<Current>,
    /// The segments up to this number have been read.
    done: u32,
    /// The record that was looked at last.
    position: Cursor,
    /// Records up to this one are not given out.
    after: Cursor,
    damage: Damage,
    watch: Option<Watch>,
    /// The run was seen to be over, and everything was read again since.
    over: bool,
    /// Only one segment is read, and this process holds the lock of the run.
    only: bool,
}

/// The segment that is being read.
#[derive(Debug)]
struct Current {
    number: u32,
    window: Window,
    at: u64,
    /// What its head says; `None` until that was read, or when it is damaged.
    header: Option<Header>,
    head_read: bool,
    /// Nothing will be added to it: there is a later one, or nobody writes.
    sealed: bool,
    /// There is a later one, so the rest of it is no tail.
    inner: bool,
    /// None of it is read.
    skipped: bool,
}

/// What stands at a place.
enum Look {
    Record(Head),
    End,
    Nothing,
}

impl Reader {
    /// Reads a run from its first record.
    pub fn open(home: &Home, run_id: &str) -> Result<Self, Trouble> {
        Self::of(home.run(run_id)?)
    }

    /// Reads the run in this folder from its first record.
    pub fn of(folder: RunFolder) -> Result<Self, Trouble> {
        match folder.segments() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let what = format!("the journal has no run {}", folder.id());
                return Err(Trouble::new(Why::NotFound, what, "runs that were pruned, or ran with --no-journal, are not there"));
            }
            Err(error) => {
                return Err(Trouble::io(format_args!("can't read the journal of the run {}", folder.id()), &error));
            }
            Ok(_) => {}
        }
        let before = folder.span().map_or(Cursor::START, |span| span.before);
        Ok(Self { position: before, ..Self::from_segment(folder, 0) })
    }

    /// Goes on after a record that was dealt with.
    pub fn resume(home: &Home, run_id: &str, after: Cursor) -> Result<Self, Trouble> {
        Self::resume_in(home.run(run_id)?, after)
    }

    /// The same in any folder.
    pub fn resume_in(folder: RunFolder, after: Cursor) -> Result<Self, Trouble> {
        let mut reader = Self::of(folder)?;
        reader.skip_to(after).map_err(|error| Trouble::io("can't read the journal", &error))?;
        Ok(reader)
    }

    /// Reads from the segment after this one on.
    pub(crate) fn from_segment(folder: RunFolder, done: u32) -> Self {
        Self {
            run_id: folder.written_id().to_owned(),
            seed: record::seed(folder.written_id()),
            folder,
            current: None,
            done,
            position: Cursor::START,
            after: Cursor::START,
            damage: Damage::default(),
            watch: None,
            over: false,
            only: false,
        }
    }

    /// The run.
    pub fn run_id(&self) -> &str {
        &self.run_id
    }

    /// The record that was given out last: what to keep in order to go on from here later.
    pub fn cursor(&self) -> Cursor {
        self.position.max(self.after)
    }

    /// What could not be read so far.
    pub fn damage(&self) -> Damage {
        self.damage
    }

    /// The next whole record; `None` when there is none for now.
    #[allow(clippy::should_implement_trait, reason = "what it gives borrows from the reader")]
    pub fn next(&mut self) -> io::Result<Option<Record<'_>>> {
        loop {
            let Some(mut current) = self.current.take() else {
                if self.open_next()? {
                    continue;
                }
                return Ok(None);
            };
            match self.step(&mut current)? {
                Step::Give(head, at) => {
                    let current = self.current.insert(current);
                    let bytes = current.window.bytes(at, head.size)?;
                    let payload = bytes.get(HEAD..).unwrap_or_default();
                    return Ok(Some(Record { kind: head.kind, cursor: head.cursor, at: head.at, payload }));
                }
                Step::On => self.current = Some(current),
                Step::Wait => {
                    self.current = Some(current);
                    return Ok(None);
                }
                Step::Done => self.done = current.number,
            }
        }
    }

    /// Waits until there may be more, at most this long. Nothing is polled where the system tells of changes.
    pub fn wait(&mut self, limit: Duration) -> io::Result<Waited> {
        if self.over {
            // It may have been taken up again.
            self.over = self.folder.segments()?.last().is_none_or(|last| *last <= self.last_number());
            return Ok(if self.over { Waited::Ended } else { Waited::More });
        }
        let Some(watch) = &mut self.watch else {
            // What was written before the watch began is not told of, so it has to be looked for once more.
            self.watch = Some(Watch::new(&self.folder)?);
            return Ok(Waited::More);
        };
        if !self.folder.is_live() {
            // The last records may have come after the last look.
            self.over = true;
            return Ok(Waited::More);
        }
        Ok(if watch.wait(&self.folder, limit)? { Waited::More } else { Waited::TimedOut })
    }

    fn last_number(&self) -> u32 {
        self.current.as_ref().map_or(self.done, |current| current.number)
    }

    fn open_next(&mut self) -> io::Result<bool> {
        let Some(number) = self.folder.segments()?.into_iter().find(|number| *number > self.done) else { return Ok(false) };
        let window = Window::open(&self.folder.segment(number))?;
        self.current =
            Some(Current { number, window, at: 0, header: None, head_read: false, sealed: false, inner: false, skipped: false });
        Ok(true)
    }

    /// Begins with the last segment that can hold what comes after the cursor.
    fn skip_to(&mut self, after: Cursor) -> io::Result<()> {
        self.after = after;
        let numbers = self.folder.segments()?;
        for pair in numbers.windows(2).rev() {
            let head = Window::open(&self.folder.segment(pair[1]))?.bytes(0, usize::from(u16::MAX))?.to_vec();
            if let Opening::Whole(header, _) = Header::parse(&head)
                && header.before() <= after
            {
                self.done = pair[0];
                self.position = header.before();
                break;
            }
        }
        Ok(())
    }

    fn step(&mut self, current: &mut Current) -> io::Result<Step> {
        if !current.head_read {
            return self.head(current);
        }
        match look(current, self.seed)? {
            Look::Record(head) => {
                let at = current.at;
                current.at += head.size as u64;
                Ok(if self.take(&head) { Step::Give(head, at) } else { Step::On })
            }
            Look::End if current.sealed && current.inner => Ok(Step::Done),
            Look::Nothing if current.sealed => self.step_over(current).map(|()| Step::On),
            Look::End | Look::Nothing => self.seal(current),
        }
    }

    /// Finds out whether anything can still be added to the segment. When not, it has to be looked at once more.
    fn seal(&self, current: &mut Current) -> io::Result<Step> {
        let inner = !self.only && self.folder.segments()?.last().is_some_and(|last| *last > current.number);
        let sealed = inner || self.only || !self.folder.is_live();
        if (inner, sealed) == (current.inner, current.sealed) {
            // What is there now may be half of what will be there.
            current.window.forget();
            return Ok(Step::Wait);
        }
        (current.inner, current.sealed) = (inner, sealed);
        current.window.forget();
        Ok(Step::On)
    }

    fn head(&mut self, current: &mut Current) -> io::Result<Step> {
        let mut opening = Header::parse(current.window.bytes(0, FIXED)?);
        if let Opening::Short(size) = opening {
            opening = Header::parse(current.window.bytes(0, size)?);
        }
        match opening {
            Opening::Whole(header, size) => {
                if self.run_id != header.run_id {
                    // A copy of the folder under another name: its records are still those of the run.
                    self.seed = record::seed(&header.run_id);
                    self.run_id.clone_from(&header.run_id);
                }
                (current.at, current.header) = (size as u64, Some(header));
            }
            Opening::Newer(_) => {
                self.damage.newer_segments += 1;
                current.skipped = true;
            }
            Opening::Short(_) | Opening::Damaged if !current.sealed => return self.seal(current),
            // A file without a byte was made, and then came the crash; or its torn head was cut off.
            Opening::Short(_) if current.window.len()? == 0 => {}
            Opening::Short(_) => self.damage.headers += u64::from(current.inner),
            Opening::Damaged => self.damage.headers += 1,
        }
        current.head_read = true;
        Ok(Step::On)
    }

    /// Takes note of a whole record; whether it is given out.
    fn take(&mut self, head: &Head) -> bool {
        if head.cursor.seq <= self.position.seq || head.cursor.epoch < self.position.epoch {
            // A record that was lost in a crash has its number given to another one of a later epoch.
            self.damage.out_of_order += 1;
            return false;
        }
        self.damage.missing += head.cursor.seq - self.position.seq - 1;
        self.position = head.cursor;
        if head.cursor <= self.after {
            return false;
        }
        self.damage.unknown_kinds += u64::from(matches!(head.kind, Kind::Other(_)));
        true
    }

    /// Steps over bytes that are no record, to the next one that is whole, or to the end.
    fn step_over(&mut self, current: &mut Current) -> io::Result<()> {
        let end = current.window.len()?;
        let from = current.at;
        let position = current.header.as_ref().map_or(self.position, |header| self.position.max(header.before()));
        let mut at = from + 1;
        let mut zero = current.window.bytes(from, 1)?.first() == Some(&0);
        while at < end {
            let bytes = current.window.bytes(at, SCANNED + HEAD - 1)?;
            let places = bytes.len().saturating_sub(HEAD - 1).min(SCANNED);
            zero = zero && bytes.iter().all(|byte| *byte == 0);
            let found = (0..places).find(|offset| {
                Head::parse(&bytes[*offset..]).is_some_and(|head| {
                    let here = at + *offset as u64;
                    // A record that comes next has the next numbers: as many may be missing as could have stood here.
                    let missing_at_most = (here - from) / HEAD as u64 + 1;
                    let next = position.seq..=position.seq.saturating_add(missing_at_most);
                    let numbered = next.contains(&head.cursor.seq.saturating_sub(1)) || position == Cursor::START;
                    let of_epoch = current.header.as_ref().is_none_or(|header| head.cursor.epoch == header.epoch);
                    numbered && of_epoch && here + head.size as u64 <= end
                })
            });
            let Some(offset) = found else {
                if places == 0 {
                    break;
                }
                at += places as u64;
                continue;
            };
            at += offset as u64;
            current.at = at;
            if let Look::Record(_) = look(current, self.seed)? {
                self.damage.places += 1;
                self.damage.bytes += at - from;
                return Ok(());
            }
            at += 1;
        }
        current.at = end;
        let count = end.saturating_sub(from);
        match (current.inner, zero) {
            (false, true) => self.damage.zero_bytes += count,
            (false, false) => self.damage.torn_bytes += count,
            (true, _) => {
                self.damage.places += 1;
                self.damage.bytes += count;
            }
        }
        Ok(())
    }

    /// Reads one segment alone, which nobody else writes.
    pub(crate) fn only(folder: RunFolder, number: u32) -> Self {
        Self { only: true, ..Self::from_segment(folder, number.saturating_sub(1)) }
    }

    /// Where the whole records of the segment that was read alone end: what is behind that can be cut off.
    pub(crate) fn whole_up_to(&self) -> u64 {
        self.current.as_ref().map_or(0, |current| current.at.saturating_sub(self.damage.torn_bytes + self.damage.zero_bytes))
    }

    pub(crate) fn position(&self) -> Cursor {
        self.position
    }

    /// The last record before the segment that is read, as its head tells.
    pub(crate) fn before(&self) -> Option<Cursor> {
        self.current.as_ref()?.header.as_ref().map(Header::before)
    }
}

/// How many places are looked at at once when a record is searched for.
const SCANNED: usize = 64 * 1024;

enum Step {
    Give(Head, u64),
    On,
    Wait,
    Done,
}

fn look(current: &mut Current, seed: u32) -> io::Result<Look> {
    let head = if current.skipped { &[] } else { current.window.bytes(current.at, HEAD)? };
    if head.is_empty() {
        return Ok(Look::End);
    }
    let Some(head) = Head::parse(head).filter(|_| head.len() == HEAD) else { return Ok(Look::Nothing) };
    // The file is asked before memory is taken for what the length says.
    if head.size > SCANNED && current.window.len()? < current.at + head.size as u64 {
        return Ok(Look::Nothing);
    }
    let bytes = current.window.bytes(current.at, head.size)?;
    Ok(if bytes.len() == head.size && head.holds(bytes, seed) { Look::Record(head) } else { Look::Nothing })
}
