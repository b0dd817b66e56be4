//! How long lists are kept: one piece of bytes for all of one, which is read many times as fast as one figure after
//! another. Lists and sums read every response of every log each time. A response is
//!
//! ```text
//! flags u8 │ id u64 │ at i64 │ model u16 │ calls u16 │ six figures, u32 or u64 each │ cost f64, if it is known
//! ```

use std::fmt;

use serde::de::{self, Deserializer, Visitor};
use serde::ser::Serializer;

use super::{Paid, Response, Spent};

const COPIED: u8 = 1;
/// The agent says what it cost.
const REPORTED: u8 = 2;
/// A figure needs eight bytes.
const WIDE: u8 = 4;
/// A price table said what it cost.
const COMPUTED: u8 = 8;
/// Nothing can say what it cost.
const UNKNOWN: u8 = 16;

/// What stands before the figures of a response.
const HEAD: usize = 1 + 8 + 8 + 2 + 2;
/// What a response takes at the least.
const LEAST: usize = HEAD + 6 * 4;

/// For `serde(with)`: a list of responses.
pub(super) mod responses {
    use super::{Deserializer, LEAST, Response, Rest, Serializer, de, from_bytes, pack, unpack};

    pub(in crate::history) fn serialize<S: Serializer>(responses: &[Response], serializer: S) -> Result<S::Ok, S::Error> {
        let mut bytes = Vec::with_capacity(responses.len() * (LEAST + 8));
        responses.iter().for_each(|response| pack(response, &mut bytes));
        serializer.serialize_bytes(&bytes)
    }

    pub(in crate::history) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Response>, D::Error> {
        from_bytes(deserializer, |bytes| {
            let mut responses = Vec::with_capacity(bytes.len() / LEAST);
            let mut rest = Rest(bytes);
            while !rest.0.is_empty() {
                responses.push(unpack(&mut rest)?);
            }
            Some(responses)
        })?
        .ok_or_else(|| de::Error::custom("half a response"))
    }
}

/// For `serde(with)`: a list of numbers.
pub(super) mod numbers {
    use super::{Deserializer, Serializer, de, from_bytes};

    pub(in crate::history) fn serialize<S: Serializer>(numbers: &[u64], serializer: S) -> Result<S::Ok, S::Error> {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        serializer.serialize_bytes(&bytes)
    }

    pub(in crate::history) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u64>, D::Error> {
        from_bytes(deserializer, |bytes| {
            let (numbers, rest) = bytes.as_chunks();
            rest.is_empty().then(|| numbers.iter().map(|number| u64::from_le_bytes(*number)).collect())
        })?
        .ok_or_else(|| de::Error::custom("half a number"))
    }
}

/// What is read out of bytes, without a copy of them.
fn from_bytes<'de, T, D: Deserializer<'de>>(deserializer: D, read: impl FnOnce(&[u8]) -> T) -> Result<T, D::Error> {
    struct Bytes<F>(F);
    impl<T, F: FnOnce(&[u8]) -> T> Visitor<'_> for Bytes<F> {
        type Value = T;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("bytes")
        }
        fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<T, E> {
            Ok((self.0)(bytes))
        }
    }
    deserializer.deserialize_bytes(Bytes(read))
}

fn pack(response: &Response, bytes: &mut Vec<u8>) {
    let Response { id, at, model, calls, spent, cost, copied } = response;
    let Spent { input, cache_read, cache_write, output, cache_write_1h, reasoning } = *spent;
    let (priced, usd) = match cost {
        None => (0, None),
        Some(Paid::Reported(usd)) => (REPORTED, Some(*usd)),
        Some(Paid::Computed(usd)) => (COMPUTED, Some(*usd)),
        Some(Paid::Unknown) => (UNKNOWN, None),
    };
    let figures = [input, cache_read, cache_write, output, cache_write_1h, reasoning];
    let narrow = figures.map(|figure| u32::try_from(figure).ok());
    let wide = narrow.contains(&None);
    let flag = |is: bool, flag: u8| if is { flag } else { 0 };
    bytes.push(flag(*copied, COPIED) | flag(wide, WIDE) | priced);
    bytes.extend_from_slice(&id.to_le_bytes());
    bytes.extend_from_slice(&at.to_le_bytes());
    bytes.extend_from_slice(&model.to_le_bytes());
    bytes.extend_from_slice(&calls.to_le_bytes());
    if wide {
        figures.iter().for_each(|figure| bytes.extend_from_slice(&figure.to_le_bytes()));
    } else {
        narrow.iter().flatten().for_each(|figure| bytes.extend_from_slice(&figure.to_le_bytes()));
    }
    if let Some(usd) = usd {
        bytes.extend_from_slice(&usd.to_le_bytes());
    }
}

/// What has not been read.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    #[inline]
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }
}

#[inline]
fn unpack(rest: &mut Rest<'_>) -> Option<Response> {
    let head: [u8; HEAD] = rest.take()?;
    // All of it is there, so that the places in it need not be looked at one by one.
    let mut fields = Rest(&head);
    let [flags] = fields.take()?;
    let id = u64::from_le_bytes(fields.take()?);
    let at = i64::from_le_bytes(fields.take()?);
    let model = u16::from_le_bytes(fields.take()?);
    let calls = u16::from_le_bytes(fields.take()?);
    let figures = if flags & WIDE == 0 {
        let narrow: [u8; 6 * 4] = rest.take()?;
        let (narrow, _) = narrow.as_chunks();
        std::array::from_fn(|place| u64::from(u32::from_le_bytes(narrow[place])))
    } else {
        let wide: [u8; 6 * 8] = rest.take()?;
        let (wide, _) = wide.as_chunks();
        std::array::from_fn(|place| u64::from_le_bytes(wide[place]))
    };
    let [input, cache_read, cache_write, output, cache_write_1h, reasoning] = figures;
    let spent = Spent { input, cache_read, cache_write, output, cache_write_1h, reasoning };
    let cost = match flags & (REPORTED | COMPUTED | UNKNOWN) {
        REPORTED => Some(Paid::Reported(f64::from_le_bytes(rest.take()?))),
        COMPUTED => Some(Paid::Computed(f64::from_le_bytes(rest.take()?))),
        UNKNOWN => Some(Paid::Unknown),
        _ => None,
    };
    Some(Response { id, at, model, calls, spent, cost, copied: flags & COPIED != 0 })
}

#[cfg(test)]
mod tests {
    use super::{Paid, Rest, pack, unpack};
    use crate::history::{Response, Spent};

    #[test]
    fn what_is_packed_comes_back() {
        let small =
            Spent { input: 1, cache_read: 2, cache_write: 3, output: 4, cache_write_1h: 5, reasoning: u64::from(u32::MAX) };
        let large = Spent { cache_read: u64::MAX, ..small };
        let mut all = Vec::new();
        let mut bytes = Vec::new();
        for (spent, cost, copied) in [
            (small, None, false),
            (large, Some(Paid::Reported(0.25)), true),
            (small, Some(Paid::Computed(1e-9)), false),
            (small, Some(Paid::Unknown), true),
        ] {
            let response = Response { id: u64::MAX - 7, at: -1, model: 513, calls: u16::MAX, spent, cost, copied };
            pack(&response, &mut bytes);
            all.push(response);
        }
        let mut rest = Rest(&bytes);
        for response in all {
            assert_eq!(unpack(&mut rest), Some(response));
        }
        assert!(rest.0.is_empty());
        let half = (1..super::LEAST).all(|length| unpack(&mut Rest(&bytes[..length])).is_none());
        assert!(half);
    }
}
