//! What a log says in short, closed: a piece of bytes that is looked at where it is.
//!
//! Lists and sums look at all logs each time, and nearly all of these have not changed. So what is kept of one stays the
//! bytes that it was written as, in memory too: nothing is taken apart before somebody asks for it, and only a log that has
//! grown becomes a [`Ledger`] again.
//!
//! ```text
//! numbers: the length of each part │ flags │ first │ last │ calls │ bad lines
//! parts:   session │ parent │ cwd │ version │ title │ outcome │ models │ claimed │ stretches │ keys │ records │ state
//! ```
//!
//! Responses that are alike are added up in [stretches](Stretch); the [records](super::records) of single ones are behind
//! them, and before those their keys, by which all logs are compared. The state is what only reading on needs.

use bytes::Bytes;

use super::numbers::{self, Numbers};
use super::{Ledger, Records, Response, Spent, Stretch, records};
use crate::event::Outcome;

/// The [key](Response::key) of a response as it is kept, little-endian.
pub type Key = [u8; 8];

/// The account of one file of a history.
#[derive(Debug, Clone)]
pub struct Account {
    bytes: Bytes,
    /// Where the parts begin.
    start: u32,
    /// Where each of them ends.
    ends: [u32; PARTS],
    /// The first moment that a line tells, in milliseconds since 1970.
    pub first: Option<i64>,
    /// The last one.
    pub last: Option<i64>,
    /// How the session stands after the lines so far.
    pub outcome: Option<Outcome>,
    /// Tool calls whose response is not told.
    pub calls: u16,
    /// Lines that are not what the agent writes.
    pub bad_lines: u64,
}

/// What the responses of a log are together.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Totals {
    /// All tokens.
    pub spent: Spent,
    /// The tool calls of all responses,
    pub calls_of_all: u64,
    /// and of those that the log does not say to be another session's.
    pub calls_of_own: u64,
}

/// The parts, in their order.
#[derive(Clone, Copy)]
enum Part {
    Session,
    Parent,
    Cwd,
    Version,
    Title,
    Outcome,
    Models,
    Claimed,
    Stretches,
    Keys,
    Records,
    State,
}

const PARTS: usize = Part::State as usize + 1;

impl Account {
    /// Closes a ledger. Texts that say nothing are not told.
    pub fn of(ledger: &Ledger) -> Self {
        let mut account = Writer::default();
        let texts = [&ledger.session, &ledger.parent, &ledger.cwd, &ledger.version, &ledger.title];
        for text in texts {
            account.part(|bytes| bytes.extend_from_slice(text.as_deref().unwrap_or_default().as_bytes()));
        }
        account.part(|bytes| bytes.extend_from_slice(ledger.outcome.map_or("", Outcome::as_str).as_bytes()));
        account.part(|bytes| ledger.models.iter().for_each(|model| numbers::write_piece(model.as_bytes(), bytes)));
        account.part(|bytes| {
            for (model, spent) in &ledger.claimed {
                numbers::write(u64::from(*model), bytes);
                spent.write(bytes);
            }
        });
        let mut singles = Vec::new();
        account.part(|bytes| write_stretches(&ledger.responses, bytes, &mut singles));
        account.part(|bytes| ledger.responses.iter().for_each(|response| bytes.extend_from_slice(&response.key().to_le_bytes())));
        account.part(|bytes| bytes.append(&mut singles));
        account.part(|bytes| write_state(ledger, bytes));
        Self::read(account.finish(ledger)).unwrap_or_default()
    }

    /// The account that these bytes are. `None` when they are none.
    pub fn read(bytes: Bytes) -> Option<Self> {
        let mut numbers = Numbers(&bytes);
        let mut ends = [0; PARTS];
        let mut end: u32 = 0;
        for part in &mut ends {
            end = end.checked_add(numbers.small()?)?;
            *part = end;
        }
        let flags = numbers.number()?;
        let mut moment = |flag: u64| if flags & flag == 0 { Some(None) } else { numbers.signed().map(Some) };
        let (first, last) = (moment(FIRST)?, moment(LAST)?);
        let (calls, bad_lines) = (numbers.small()?, numbers.number()?);
        if numbers.0.len() != end as usize {
            return None;
        }
        let start = u32::try_from(bytes.len()).ok()? - end;
        let mut account = Self { bytes, start, ends, first, last, outcome: None, calls, bad_lines };
        let outcome = account.text(Part::Outcome);
        account.outcome = Outcome::ALL.iter().find(|known| Some(known.as_str()) == outcome).copied();
        Some(account)
    }

    /// The ledger that it was made of, to read on.
    pub fn ledger(&self) -> Option<Ledger> {
        let text = |part| self.text(part).map(str::to_owned);
        let mut ledger = Ledger {
            session: text(Part::Session),
            parent: text(Part::Parent),
            cwd: text(Part::Cwd),
            version: text(Part::Version),
            title: text(Part::Title),
            first: self.first,
            last: self.last,
            outcome: self.outcome,
            responses: self.responses().collect(),
            models: self.models().map(str::to_owned).collect(),
            claimed: self.claimed().collect(),
            bad_lines: self.bad_lines,
            calls: self.calls,
            ..Ledger::default()
        };
        read_state(self.part(Part::State), &mut ledger)?;
        Some(ledger)
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The agent's id of the session.
    pub fn session(&self) -> Option<&str> {
        self.text(Part::Session)
    }

    /// The session that started this one as a sub-agent.
    pub fn parent(&self) -> Option<&str> {
        self.text(Part::Parent)
    }

    /// The working folder.
    pub fn cwd(&self) -> Option<&str> {
        self.text(Part::Cwd)
    }

    /// The agent's version.
    pub fn version(&self) -> Option<&str> {
        self.text(Part::Version)
    }

    /// The first prompt, its first line.
    pub fn title(&self) -> Option<&str> {
        self.text(Part::Title)
    }

    /// Names of the models that [`Response::model`] counts by.
    pub fn models(&self) -> impl Iterator<Item = &str> {
        let mut numbers = Numbers(self.part(Part::Models));
        std::iter::from_fn(move || Some(std::str::from_utf8(numbers.piece()?).unwrap_or_default()))
    }

    /// The name of the model of that number.
    pub fn model(&self, number: u16) -> Option<&str> {
        self.models().nth(number.into())
    }

    /// What the agent itself says that the session has spent, by model.
    pub fn claimed(&self) -> impl Iterator<Item = (u16, Spent)> {
        let mut numbers = Numbers(self.part(Part::Claimed));
        std::iter::from_fn(move || Some((numbers.small()?, Spent::read(&mut numbers)?)))
    }

    /// The keys of all responses.
    pub fn keys(&self) -> &[Key] {
        self.part(Part::Keys).as_chunks().0
    }

    /// All responses in stretches, and those of each apart if somebody wants to look at them.
    pub fn stretches(&self) -> impl Iterator<Item = (Stretch, Records<'_>)> {
        let mut numbers = Numbers(self.part(Part::Stretches));
        let (mut keys, mut singles) = (self.keys(), self.part(Part::Records));
        std::iter::from_fn(move || {
            let stretch = Stretch::read(&mut numbers)?;
            let (of_stretch, others) = keys.split_at_checked(stretch.responses as usize)?;
            let (bytes, behind) = singles.split_at_checked(numbers.small()?)?;
            (keys, singles) = (others, behind);
            Some((stretch, Records::new(&stretch, of_stretch, bytes)))
        })
    }

    /// What the stretches are together.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for (stretch, _) in self.stretches() {
            totals.spent.add(&stretch.spent);
            totals.calls_of_all = totals.calls_of_all.saturating_add(stretch.calls);
            totals.calls_of_own = totals.calls_of_own.saturating_add(if stretch.copied { 0 } else { stretch.calls });
        }
        totals
    }

    /// All responses.
    pub fn responses(&self) -> impl Iterator<Item = Response> {
        self.stretches().flat_map(|(_, records)| records)
    }

    fn text(&self, part: Part) -> Option<&str> {
        std::str::from_utf8(self.part(part)).ok().filter(|text| !text.is_empty())
    }

    fn part(&self, part: Part) -> &[u8] {
        let place = part as usize;
        let from = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        let (start, end) = (self.start + from, self.start + self.ends[place]);
        self.bytes.get(start as usize..end as usize).unwrap_or_default()
    }
}

impl Default for Account {
    /// The account of a log that says nothing.
    fn default() -> Self {
        let (first, last, outcome) = (None, None, None);
        Self { bytes: Bytes::new(), start: 0, ends: [0; PARTS], first, last, outcome, calls: 0, bad_lines: 0 }
    }
}

impl PartialEq for Account {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

const FIRST: u64 = 1;
const LAST: u64 = 2;

/// Parts one after another.
#[derive(Default)]
struct Writer {
    lengths: Vec<usize>,
    bytes: Vec<u8>,
}

impl Writer {
    fn part(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        write(&mut self.bytes);
        self.lengths.push(self.bytes.len() - start);
    }

    /// The parts behind the numbers.
    fn finish(self, ledger: &Ledger) -> Bytes {
        let Self { lengths, bytes: parts } = self;
        // Most numbers are of one byte or two.
        let mut bytes = Vec::with_capacity(parts.len() + 4 * PARTS);
        lengths.iter().for_each(|length| numbers::write(*length as u64, &mut bytes));
        let flag = |moment: Option<i64>, flag: u64| if moment.is_some() { flag } else { 0 };
        numbers::write(flag(ledger.first, FIRST) | flag(ledger.last, LAST), &mut bytes);
        [ledger.first, ledger.last].iter().flatten().for_each(|moment| numbers::write_signed(*moment, &mut bytes));
        numbers::write(u64::from(ledger.calls), &mut bytes);
        numbers::write(ledger.bad_lines, &mut bytes);
        bytes.extend_from_slice(&parts);
        bytes.into()
    }
}

/// Appends the stretches of a list, each with the number of bytes that its records take, and the records elsewhere.
fn write_stretches(list: &[Response], bytes: &mut Vec<u8>, singles: &mut Vec<u8>) {
    let mut rest = list;
    while let Some((first, others)) = rest.split_first() {
        let mut stretch = Stretch::of(first);
        let count = 1 + others.iter().take_while(|response| stretch.takes(response)).count();
        let (of_stretch, behind) = rest.split_at(count);
        let start = singles.len();
        records::write(stretch.first, of_stretch, singles);
        stretch.write(bytes);
        numbers::write((singles.len() - start) as u64, bytes);
        rest = behind;
    }
}

/// Appends what only reading on needs.
fn write_state(ledger: &Ledger, bytes: &mut Vec<u8>) {
    numbers::write(ledger.model.map_or(0, |model| u64::from(model) + 1), bytes);
    ledger.sum.write(bytes);
    for number in [u64::from(ledger.recorded), u64::from(ledger.itemized), ledger.owner, ledger.step] {
        numbers::write(number, bytes);
    }
    numbers::write(ledger.threads.len() as u64, bytes);
    for (began, number) in &ledger.threads {
        numbers::write_signed(*began, bytes);
        numbers::write(*number, bytes);
    }
    ledger.recent_calls.iter().for_each(|call| bytes.extend_from_slice(&call.to_le_bytes()));
}

fn read_state(state: &[u8], ledger: &mut Ledger) -> Option<()> {
    let mut numbers = Numbers(state);
    ledger.model = numbers.small::<u16>()?.checked_sub(1);
    ledger.sum = Spent::read(&mut numbers)?;
    ledger.recorded = numbers.number()? != 0;
    ledger.itemized = numbers.number()? != 0;
    ledger.owner = numbers.number()?;
    ledger.step = numbers.number()?;
    for _ in 0..numbers.number()? {
        ledger.threads.push((numbers.signed()?, numbers.number()?));
    }
    let (calls, rest) = numbers.0.as_chunks();
    ledger.recent_calls = calls.iter().map(|call| u64::from_le_bytes(*call)).collect();
    rest.is_empty().then_some(())
}

#[cfg(test)]
mod tests;
