//! Responses in bytes, each in a record of the same length. All records of a list are of one form:
//!
//! ```text
//! plain   flags u8 │ id u64 │ at i64 │ model u16 │ calls u16 │ six figures, u32 each
//! full    flags u8 │ id u64 │ at i64 │ model u16 │ calls u16 │ six figures, u64 each │ cost f64
//! ```

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::{Paid, Response, Spent, packed};

/// Records of responses.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Records {
    /// All figures are below 2³² and no cost is a figure.
    Plain(#[serde(with = "packed::pieces")] Box<[Plain]>),
    /// Any.
    Full(#[serde(with = "packed::pieces")] Box<[Full]>),
}

type Plain = [u8; HEAD + 6 * 4];
type Full = [u8; HEAD + 6 * 8 + 8];

/// What stands before the figures of a response.
const HEAD: usize = 1 + 8 + 8 + 2 + 2;

/// It is a copy of another session's.
const COPIED: u8 = 1;
/// The agent says what it cost.
const REPORTED: u8 = 2;
/// A price table said what it cost.
const COMPUTED: u8 = 4;
/// Nothing can say what it cost.
const UNKNOWN: u8 = 8;

impl Records {
    pub(super) fn of(responses: &[Response]) -> Self {
        let is_narrow = |spent: &Spent| figures(spent).iter().all(|figure| u32::try_from(*figure).is_ok());
        if responses.iter().all(|response| usd(response).is_none() && is_narrow(&response.spent)) {
            Self::Plain(responses.iter().map(plain_record).collect())
        } else {
            Self::Full(responses.iter().map(full_record).collect())
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Plain(records) => records.len(),
            Self::Full(records) => records.len(),
        }
    }

    /// The responses at these places, if there are such places.
    pub(super) fn range(&self, places: Range<usize>) -> impl Iterator<Item = Response> {
        let (plain, full): (&[Plain], &[Full]) = match self {
            Self::Plain(records) => (records.get(places).unwrap_or_default(), &[]),
            Self::Full(records) => (&[], records.get(places).unwrap_or_default()),
        };
        plain.iter().map(plain_response).chain(full.iter().map(full_response))
    }
}

fn figures(spent: &Spent) -> [u64; 6] {
    let Spent { input, cache_read, cache_write, output, cache_write_1h, reasoning } = *spent;
    [input, cache_read, cache_write, output, cache_write_1h, reasoning]
}

fn usd(response: &Response) -> Option<f64> {
    match response.cost {
        Some(Paid::Reported(usd) | Paid::Computed(usd)) => Some(usd),
        Some(Paid::Unknown) | None => None,
    }
}

/// A record without its figures.
fn record<const N: usize>(response: &Response) -> [u8; N] {
    let Response { id, at, model, calls, copied, .. } = *response;
    let priced = match response.cost {
        None => 0,
        Some(Paid::Reported(_)) => REPORTED,
        Some(Paid::Computed(_)) => COMPUTED,
        Some(Paid::Unknown) => UNKNOWN,
    };
    let mut record = [0; N];
    record[0] = priced | if copied { COPIED } else { 0 };
    record[1..9].copy_from_slice(&id.to_le_bytes());
    record[9..17].copy_from_slice(&at.to_le_bytes());
    record[17..19].copy_from_slice(&model.to_le_bytes());
    record[19..HEAD].copy_from_slice(&calls.to_le_bytes());
    record
}

fn plain_record(response: &Response) -> Plain {
    let mut record: Plain = record(response);
    let (places, _) = record[HEAD..].as_chunks_mut();
    for (place, figure) in places.iter_mut().zip(figures(&response.spent)) {
        *place = u32::try_from(figure).unwrap_or(u32::MAX).to_le_bytes();
    }
    record
}

fn full_record(response: &Response) -> Full {
    let mut record: Full = record(response);
    let (places, _) = record[HEAD..].as_chunks_mut();
    let usd = usd(response).unwrap_or(0.0).to_bits();
    for (place, figure) in places.iter_mut().zip(figures(&response.spent).into_iter().chain([usd])) {
        *place = figure.to_le_bytes();
    }
    record
}

#[inline]
fn plain_response(record: &Plain) -> Response {
    response(record, |place| u64::from(u32::from_le_bytes(field(record, HEAD + place * 4))), 0.0)
}

#[inline]
fn full_response(record: &Full) -> Response {
    let usd = f64::from_le_bytes(field(record, HEAD + 6 * 8));
    response(record, |place| u64::from_le_bytes(field(record, HEAD + place * 8)), usd)
}

#[inline]
fn response<const N: usize>(record: &[u8; N], figure: impl Fn(usize) -> u64, usd: f64) -> Response {
    let flags = record[0];
    Response {
        id: u64::from_le_bytes(field(record, 1)),
        at: i64::from_le_bytes(field(record, 9)),
        model: u16::from_le_bytes(field(record, 17)),
        calls: u16::from_le_bytes(field(record, 19)),
        spent: Spent {
            input: figure(0),
            cache_read: figure(1),
            cache_write: figure(2),
            output: figure(3),
            cache_write_1h: figure(4),
            reasoning: figure(5),
        },
        cost: match flags & (REPORTED | COMPUTED | UNKNOWN) {
            REPORTED => Some(Paid::Reported(usd)),
            COMPUTED => Some(Paid::Computed(usd)),
            UNKNOWN => Some(Paid::Unknown),
            _ => None,
        },
        copied: flags & COPIED != 0,
    }
}

/// The bytes at a place of a record. The places are known when this is compiled, and so is that they are in it.
#[inline]
fn field<const N: usize, const M: usize>(record: &[u8; N], place: usize) -> [u8; M] {
    std::array::from_fn(|byte| record[place + byte])
}

#[cfg(test)]
mod tests {
    use super::{Paid, Records, Response, Spent};

    #[test]
    fn what_is_recorded_comes_back() {
        let narrow =
            Spent { input: 1, cache_read: 2, cache_write: 3, output: 4, cache_write_1h: 5, reasoning: u64::from(u32::MAX) };
        let wide = Spent { cache_read: u64::MAX, ..narrow };
        let response =
            |spent, cost| Response { id: u64::MAX - 7, at: -1, model: 513, calls: u16::MAX, spent, cost, copied: true };
        let plain = [response(narrow, None), Response { copied: false, ..response(narrow, Some(Paid::Unknown)) }];
        let records = Records::of(&plain);
        assert!(matches!(records, Records::Plain(_)) && records.range(0..2).eq(plain));
        for other in
            [response(wide, None), response(narrow, Some(Paid::Reported(0.0))), response(wide, Some(Paid::Computed(1e-9)))]
        {
            let full = [plain[0], other, plain[1]];
            let records = Records::of(&full);
            assert!(matches!(records, Records::Full(_)) && records.range(0..3).eq(full));
            assert_eq!((records.len(), records.range(1..2).next(), records.range(2..4).count()), (3, Some(other), 0));
        }
    }
}
