//! Single responses in few bytes. They are beside the stretch that they are of, which says what they have in common, and
//! beside their keys, which tell their ids:
//!
//! ```text
//! at, from the one before │ calls │ six figures │ cost f64, if it is a figure
//! ```
//!
//! All but the cost are [varints](super::varint).

use sabir_core::history::{Paid, Response, id_of_key};

use super::varint::{self, VarintReader};
use super::{Key, Stretch};

/// Appends the responses of a stretch whose first moment is that.
pub(super) fn write(first: i64, responses: &[Response], bytes: &mut Vec<u8>) {
    let mut before = first;
    for Response { at, calls, spent, cost, .. } in responses {
        varint::write_signed(at.wrapping_sub(before), bytes);
        before = *at;
        varint::write(u64::from(*calls), bytes);
        varint::write_usage(spent, bytes);
        if let Some(Paid::Reported(usd) | Paid::Computed(usd)) = cost {
            bytes.extend_from_slice(&usd.to_le_bytes());
        }
    }
}

/// The responses of a stretch one by one.
#[derive(Debug, Clone)]
pub struct Records<'b> {
    model: u16,
    copied: bool,
    /// How the costs are known.
    cost: Option<Paid>,
    keys: std::slice::Iter<'b, Key>,
    bytes: VarintReader<'b>,
    before: i64,
}

impl<'b> Records<'b> {
    pub(super) fn new(stretch: &Stretch, keys: &'b [Key], bytes: &'b [u8]) -> Self {
        let Stretch { model, copied, cost, first, .. } = *stretch;
        Self { model, copied, cost, keys: keys.iter(), bytes: VarintReader(bytes), before: first }
    }
}

impl Iterator for Records<'_> {
    type Item = Response;

    fn next(&mut self) -> Option<Response> {
        let key = u64::from_le_bytes(*self.keys.next()?);
        let at = self.before.wrapping_add(self.bytes.signed()?);
        self.before = at;
        let calls = self.bytes.small()?;
        let spent = self.bytes.usage()?;
        let (model, copied) = (self.model, self.copied);
        let cost = match self.cost {
            Some(Paid::Reported(_)) => Some(Paid::Reported(self.bytes.f64()?)),
            Some(Paid::Computed(_)) => Some(Paid::Computed(self.bytes.f64()?)),
            other => other,
        };
        Some(Response { id: id_of_key(key, &spent), at, model, calls, spent, cost, copied })
    }
}

#[cfg(test)]
mod tests {
    use sabir_core::history::Spent;

    use super::{Paid, Records, Response, Stretch, write};

    #[test]
    fn what_is_written_comes_back() {
        let small = Spent { input: 127, cache_read: 128, cache_write: 300, output: 0, cache_write_1h: 1, reasoning: 1 << 20 };
        let large = Spent { cache_read: u64::MAX, reasoning: 1 << 63, ..small };
        for cost in [None, Some(Paid::Unknown), Some(Paid::Reported(0.25)), Some(Paid::Computed(1e-9))] {
            let response = |id, at, spent| Response { id, at, model: 513, calls: u32::MAX, spent, cost, copied: true };
            let list = [
                response(7, 1_000, small),
                response(u64::MAX, 0, large),
                response(0, i64::MAX, small),
                response(1, i64::MIN, Spent::default()),
            ];
            let (stretch, mut bytes) = (Stretch::of(&list[0]), Vec::new());
            write(stretch.first, &list, &mut bytes);
            let keys = list.map(|response| response.key().to_le_bytes());
            assert!(Records::new(&stretch, &keys, &bytes).eq(list));
            // Of half of them, no more than half is told.
            for length in 0..bytes.len() {
                let count = Records::new(&stretch, &keys, &bytes[..length]).count();
                assert!(count < list.len() && Records::new(&stretch, &keys, &bytes[..length]).eq(list[..count].iter().copied()));
            }
        }
    }
}
