//! What a log says in short, closed: a piece of bytes that is looked at where it is.
//!
//! Lists and sums look at all logs each time, and nearly all of these have not changed. So what is kept of one stays the
//! bytes that it was written as, in memory too: nothing is taken apart before somebody asks for it, and only a log that has
//! grown becomes a [`Ledger`] again.
//!
//! ```text
//! head:  where each part ends, u32 │ first i64 │ last i64 │ bad lines u64 │ calls u32 │ moments u8 │ outcome u8
//! parts: session │ parent │ cwd │ version │ title │ models │ claimed │ stretches │ keys │ records │ state
//! ```
//!
//! Everything in the head has its place, little-endian, so that one of a thousand accounts is asked by looking there.
//! Responses that are alike are added up in [stretches](Stretch); the records of single ones are behind
//! them, and before those their keys, by which all logs are compared. The state is what only reading on needs.

use bytes::Bytes;

mod responses;
mod usage_run;
mod varint;

use sabir_core::event::Outcome;
use sabir_core::history::{Ledger, OpenResponse, Response, Spent};

pub use responses::Records;
pub use usage_run::Stretch;
use varint::VarintReader;

/// The [key](Response::key) of a response as it is kept, little-endian.
pub type Key = [u8; 8];

/// The account of one file of a history. The default is that of a log that says nothing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Account(Bytes);

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
    Models,
    Claimed,
    Stretches,
    Keys,
    Records,
    State,
}

const PARTS: usize = Part::State as usize + 1;

// Where in the head things are.
const FIRST: usize = 4 * PARTS;
const LAST: usize = FIRST + 8;
const BAD_LINES: usize = LAST + 8;
const CALLS: usize = BAD_LINES + 8;
const MOMENTS: usize = CALLS + 4;
const OUTCOME: usize = MOMENTS + 1;
const HEAD: usize = OUTCOME + 1;

// Which moments are known.
const HAS_FIRST: u8 = 1;
const HAS_LAST: u8 = 2;

impl Account {
    /// Closes a ledger. Texts that say nothing are not told.
    pub fn of(ledger: &Ledger) -> Self {
        let mut account = Writer::new();
        let texts = [&ledger.session, &ledger.parent, &ledger.cwd, &ledger.version, &ledger.title];
        for text in texts {
            account.part(|bytes| bytes.extend_from_slice(text.as_deref().unwrap_or_default().as_bytes()));
        }
        account.part(|bytes| ledger.models.iter().for_each(|model| varint::write_bytes(model.as_bytes(), bytes)));
        account.part(|bytes| {
            for (model, spent) in &ledger.claimed {
                varint::write(u64::from(*model), bytes);
                varint::write_usage(spent, bytes);
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
        let (parts, account) = (bytes.len().checked_sub(HEAD)?, Self(bytes));
        let mut before = 0;
        for part in 0..PARTS {
            let end = account.end(part);
            if end < before {
                return None;
            }
            before = end;
        }
        (before == parts).then_some(account)
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
            first: self.first(),
            last: self.last(),
            outcome: self.outcome(),
            responses: self.responses().collect(),
            models: self.models().map(str::to_owned).collect(),
            claimed: self.claimed().collect(),
            bad_lines: self.bad_lines(),
            calls: self.calls(),
            ..Ledger::default()
        };
        read_state(self.part(Part::State), &mut ledger)?;
        // Who goes on from less than what was told would tell less.
        (ledger.responses.len() == self.keys().len()).then_some(ledger)
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The first moment that a line tells, in milliseconds since 1970.
    pub fn first(&self) -> Option<i64> {
        self.moment(HAS_FIRST, FIRST)
    }

    /// The last one.
    pub fn last(&self) -> Option<i64> {
        self.moment(HAS_LAST, LAST)
    }

    /// How the session stands after the lines so far.
    pub fn outcome(&self) -> Option<Outcome> {
        Outcome::ALL.get(usize::from(self.byte(OUTCOME).checked_sub(1)?)).copied()
    }

    /// Tool calls whose response is not told.
    pub fn calls(&self) -> u32 {
        u32::from_le_bytes(self.field(CALLS))
    }

    /// Lines that are not what the agent writes.
    pub fn bad_lines(&self) -> u64 {
        u64::from_le_bytes(self.field(BAD_LINES))
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
        let mut numbers = VarintReader(self.part(Part::Models));
        std::iter::from_fn(move || Some(std::str::from_utf8(numbers.bytes()?).unwrap_or_default()))
    }

    /// The name of the model of that number.
    pub fn model(&self, number: u16) -> Option<&str> {
        self.models().nth(number.into())
    }

    /// What the agent itself says that the session has spent, by model.
    pub fn claimed(&self) -> impl Iterator<Item = (u16, Spent)> {
        let mut numbers = VarintReader(self.part(Part::Claimed));
        std::iter::from_fn(move || Some((numbers.small()?, numbers.usage()?)))
    }

    /// The keys of all responses.
    pub fn keys(&self) -> &[Key] {
        self.part(Part::Keys).as_chunks().0
    }

    /// All responses in stretches, and those of each apart if somebody wants to look at them.
    pub fn stretches(&self) -> impl Iterator<Item = (Stretch, Records<'_>)> {
        let mut numbers = VarintReader(self.part(Part::Stretches));
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
        let start = place.checked_sub(1).map_or(0, |before| self.end(before));
        self.0.get(HEAD + start..HEAD + self.end(place)).unwrap_or_default()
    }

    /// Where the part of that number ends.
    fn end(&self, part: usize) -> usize {
        u32::from_le_bytes(self.field(4 * part)) as usize
    }

    fn moment(&self, flag: u8, place: usize) -> Option<i64> {
        (self.byte(MOMENTS) & flag != 0).then(|| i64::from_le_bytes(self.field(place)))
    }

    fn byte(&self, place: usize) -> u8 {
        let [byte] = self.field(place);
        byte
    }

    /// What is at a place of the head; nothing but zeros where there is none.
    fn field<const LENGTH: usize>(&self, place: usize) -> [u8; LENGTH] {
        self.0.get(place..).and_then(<[u8]>::first_chunk).copied().unwrap_or([0; LENGTH])
    }
}

/// A head, and parts one after another.
struct Writer {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl Writer {
    fn new() -> Self {
        Self { bytes: vec![0; HEAD], ends: Vec::with_capacity(PARTS) }
    }

    fn part(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        // What is too long to be told makes an account that is none.
        self.ends.push(u32::try_from(self.bytes.len() - HEAD).unwrap_or(u32::MAX));
    }

    /// Fills in the head.
    fn finish(self, ledger: &Ledger) -> Bytes {
        let Self { mut bytes, ends } = self;
        let mut put = |place: usize, field: &[u8]| bytes[place..place + field.len()].copy_from_slice(field);
        for (part, end) in ends.iter().enumerate() {
            put(4 * part, &end.to_le_bytes());
        }
        put(FIRST, &ledger.first.unwrap_or(0).to_le_bytes());
        put(LAST, &ledger.last.unwrap_or(0).to_le_bytes());
        put(BAD_LINES, &ledger.bad_lines.to_le_bytes());
        put(CALLS, &ledger.calls.to_le_bytes());
        let flag = |moment: Option<i64>, flag: u8| if moment.is_some() { flag } else { 0 };
        put(MOMENTS, &[flag(ledger.first, HAS_FIRST) | flag(ledger.last, HAS_LAST)]);
        put(OUTCOME, &[ledger.outcome.map_or(0, number_of)]);
        bytes.into()
    }
}

/// The number of an outcome, from 1.
fn number_of(outcome: Outcome) -> u8 {
    let place = Outcome::ALL.iter().position(|known| *known == outcome);
    place.and_then(|place| u8::try_from(place + 1).ok()).unwrap_or(0)
}

/// Appends the stretches of a list, each with the number of bytes that its records take, and the records elsewhere.
fn write_stretches(list: &[Response], bytes: &mut Vec<u8>, singles: &mut Vec<u8>) {
    let mut rest = list;
    while let Some((first, others)) = rest.split_first() {
        let mut stretch = Stretch::of(first);
        let count = 1 + others.iter().take_while(|response| stretch.takes(response)).count();
        let (of_stretch, behind) = rest.split_at(count);
        let start = singles.len();
        responses::write(stretch.first, of_stretch, singles);
        stretch.write(bytes);
        varint::write((singles.len() - start) as u64, bytes);
        rest = behind;
    }
}

/// Appends what only reading on needs.
fn write_state(ledger: &Ledger, bytes: &mut Vec<u8>) {
    varint::write(ledger.model.map_or(0, |model| u64::from(model) + 1), bytes);
    varint::write_usage(&ledger.sum, bytes);
    for number in [u64::from(ledger.recorded), u64::from(ledger.itemized), ledger.owner, ledger.step] {
        varint::write(number, bytes);
    }
    varint::write(ledger.threads.len() as u64, bytes);
    for (began, number) in &ledger.threads {
        varint::write_signed(*began, bytes);
        varint::write(*number, bytes);
    }
    for OpenResponse { name, request, id, input, since } in ledger.open {
        [name, request, id, input, since].into_iter().for_each(|number| varint::write(number, bytes));
    }
    ledger.recent_calls.iter().for_each(|call| bytes.extend_from_slice(&call.to_le_bytes()));
}

fn read_state(state: &[u8], ledger: &mut Ledger) -> Option<()> {
    let mut numbers = VarintReader(state);
    ledger.model = numbers.small::<u16>()?.checked_sub(1);
    ledger.sum = numbers.usage()?;
    ledger.recorded = numbers.number()? != 0;
    ledger.itemized = numbers.number()? != 0;
    ledger.owner = numbers.number()?;
    ledger.step = numbers.number()?;
    for _ in 0..numbers.number()? {
        ledger.threads.push((numbers.signed()?, numbers.number()?));
    }
    for open in &mut ledger.open {
        let OpenResponse { name, request, id, input, since } = open;
        for number in [name, request, id, input, since] {
            *number = numbers.number()?;
        }
    }
    let (calls, rest) = numbers.0.as_chunks();
    ledger.recent_calls = calls.iter().map(|call| u64::from_le_bytes(*call)).collect();
    rest.is_empty().then_some(())
}

#[cfg(test)]
mod tests;
