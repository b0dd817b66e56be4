//! Responses added up as far as nobody may want them apart.

use super::varint::{self, VarintReader};
use sabir_core::history::{Paid, Response, Spent};

/// Responses that follow one another in a log and are alike, added up: of one model, on one day in UTC, with costs that are
/// known in the same way.
///
/// Nearly every question about a log is answered by its stretches. Who divides by other days or prices long inputs
/// otherwise looks at the responses of a stretch one by one where that makes a difference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stretch {
    /// How many responses.
    pub responses: u32,
    /// The model of all of them.
    pub model: u16,
    /// The log says of all of them that they are another session's.
    pub copied: bool,
    /// The first moment, in milliseconds since 1970.
    pub first: i64,
    /// The last one.
    pub last: i64,
    /// Their tool calls.
    pub calls: u64,
    /// Their tokens.
    pub spent: Spent,
    /// The tokens of the longest input, cached ones included.
    pub longest_input: u64,
    /// Their cost, as far as the log says something about it.
    pub cost: Option<Paid>,
}

/// In milliseconds.
const DAY: i64 = 24 * 60 * 60_000;

impl Stretch {
    /// One response.
    pub fn of(response: &Response) -> Self {
        let Response { at, model, calls, spent, cost, copied, .. } = *response;
        let longest_input = spent.whole_input();
        Self { responses: 1, model, copied, first: at, last: at, calls: calls.into(), spent, longest_input, cost }
    }

    /// Adds the response that follows, if it is like these.
    pub(super) fn takes(&mut self, response: &Response) -> bool {
        let next = Self::of(response);
        let is_alike = (self.model, self.copied) == (next.model, next.copied)
            && self.first.div_euclid(DAY) == next.first.div_euclid(DAY)
            && [self.spent, next.spent].iter().all(Spent::is_sound);
        let cost = match (self.cost, next.cost) {
            (None, None) => None,
            (Some(Paid::Reported(some)), Some(Paid::Reported(more))) => Some(Paid::Reported(some + more)),
            (Some(Paid::Computed(some)), Some(Paid::Computed(more))) => Some(Paid::Computed(some + more)),
            (Some(Paid::Unknown), Some(Paid::Unknown)) => Some(Paid::Unknown),
            _ => return false,
        };
        let Some(responses) = self.responses.checked_add(1).filter(|_| is_alike) else { return false };
        self.responses = responses;
        self.first = self.first.min(next.first);
        self.last = self.last.max(next.last);
        self.calls += next.calls;
        self.spent.add(&next.spent);
        self.longest_input = self.longest_input.max(next.longest_input);
        self.cost = cost;
        true
    }
    /// Appends it.
    pub(super) fn write(&self, bytes: &mut Vec<u8>) {
        let Self { responses, model, copied, first, last, calls, spent, longest_input, cost } = self;
        let (how, usd) = match cost {
            None => (0, None),
            Some(Paid::Unknown) => (1, None),
            Some(Paid::Reported(usd)) => (2, Some(usd)),
            Some(Paid::Computed(usd)) => (3, Some(usd)),
        };
        for number in [u64::from(*responses), u64::from(*model), u64::from(*copied) << 2 | how] {
            varint::write(number, bytes);
        }
        varint::write_signed(*first, bytes);
        varint::write_signed(last.wrapping_sub(*first), bytes);
        varint::write(*calls, bytes);
        varint::write_usage(spent, bytes);
        varint::write(*longest_input, bytes);
        usd.iter().for_each(|usd| bytes.extend_from_slice(&usd.to_le_bytes()));
    }

    /// Reads the next one.
    pub(super) fn read(bytes: &mut VarintReader<'_>) -> Option<Self> {
        let (responses, model, how) = (bytes.small()?, bytes.small()?, bytes.number()?);
        let first = bytes.signed()?;
        let last = first.wrapping_add(bytes.signed()?);
        let (calls, spent, longest_input) = (bytes.number()?, bytes.usage()?, bytes.number()?);
        let cost = match how & 3 {
            0 => None,
            1 => Some(Paid::Unknown),
            2 => Some(Paid::Reported(bytes.f64()?)),
            _ => Some(Paid::Computed(bytes.f64()?)),
        };
        Some(Self { responses, model, copied: how >> 2 != 0, first, last, calls, spent, longest_input, cost })
    }
}
