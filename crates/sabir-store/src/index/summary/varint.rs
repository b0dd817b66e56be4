//! LEB128 varints and length-prefixed byte strings.

use sabir_core::history::Spent;

/// Maximum length of a varint in bytes.
const LONGEST: usize = 10;

/// Appends an unsigned varint.
pub(super) fn write(mut number: u64, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    bytes.push(number.to_le_bytes()[0]);
}

/// Appends a zigzag-encoded signed varint.
pub(super) fn write_signed(number: i64, bytes: &mut Vec<u8>) {
    write((number << 1 ^ number >> 63).cast_unsigned(), bytes);
}

/// Appends a length-prefixed byte string.
pub(super) fn write_bytes(piece: &[u8], bytes: &mut Vec<u8>) {
    write(piece.len() as u64, bytes);
    bytes.extend_from_slice(piece);
}

/// Reads values from a byte slice; `None` once it is too short.
#[derive(Debug, Clone)]
pub(super) struct VarintReader<'b>(pub(super) &'b [u8]);

impl<'b> VarintReader<'b> {
    /// An unsigned varint.
    #[inline]
    pub(super) fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for (place, byte) in self.0.iter().enumerate().take(LONGEST) {
            number |= u64::from(byte & 0x7f) << (7 * place);
            if *byte < 0x80 {
                self.0 = &self.0[place + 1..];
                return Some(number);
            }
        }
        None
    }

    /// A zigzag-encoded signed varint.
    pub(super) fn signed(&mut self) -> Option<i64> {
        let number = self.number()?;
        Some((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }

    /// An unsigned varint that fits `T`.
    pub(super) fn small<T: TryFrom<u64>>(&mut self) -> Option<T> {
        T::try_from(self.number()?).ok()
    }

    /// Eight bytes, little-endian.
    pub(super) fn f64(&mut self) -> Option<f64> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(f64::from_le_bytes(*bytes))
    }

    /// Token counts.
    pub(super) fn usage(&mut self) -> Option<Spent> {
        Some(Spent {
            input: self.number()?,
            cache_read: self.number()?,
            cache_write: self.number()?,
            output: self.number()?,
            cache_write_1h: self.number()?,
            reasoning: self.number()?,
        })
    }

    /// A length-prefixed byte string.
    pub(super) fn bytes(&mut self) -> Option<&'b [u8]> {
        let length = self.small()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }
}

/// Appends token counts.
pub(super) fn write_usage(usage: &Spent, bytes: &mut Vec<u8>) {
    let Spent { input, cache_read, cache_write, output, cache_write_1h, reasoning } = *usage;
    for number in [input, cache_read, cache_write, output, cache_write_1h, reasoning] {
        write(number, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::{VarintReader, write, write_bytes, write_signed};

    #[test]
    fn what_is_written_comes_back() {
        let (numbers, mut bytes) = ([0, 1, 0x7f, 0x80, 300, u64::MAX], Vec::new());
        for number in numbers {
            write(number, &mut bytes);
            write_signed(number.cast_signed(), &mut bytes);
            write_bytes(&number.to_le_bytes(), &mut bytes);
        }
        let mut read = VarintReader(&bytes);
        for number in numbers {
            assert_eq!((read.number(), read.signed()), (Some(number), Some(number.cast_signed())));
            assert_eq!(read.bytes(), Some(&number.to_le_bytes()[..]));
        }
        assert!(read.0.is_empty() && read.number().is_none() && read.bytes().is_none() && read.f64().is_none());
    }

    #[test]
    fn numbers_of_any_length_are_read_whatever_is_behind_them() {
        for shift in 0..64 {
            for number in [1 << shift, (1 << shift) - 1, u64::MAX >> shift, 0x5555_5555_5555_5555 >> shift] {
                let mut bytes = Vec::new();
                write(number, &mut bytes);
                let length = bytes.len();
                for behind in [0, 0x7f, 0x80, 0xff] {
                    for more in [0, 3, 12] {
                        bytes.resize(length, 0);
                        bytes.resize(length + more, behind);
                        let mut read = VarintReader(&bytes);
                        assert_eq!((read.number(), read.0.len()), (Some(number), more));
                    }
                }
            }
        }
    }

    #[test]
    fn nothing_is_read_out_of_half_of_it() {
        assert_eq!(
            (VarintReader(&[0x80]).number(), VarintReader(&[2, 7]).bytes(), VarintReader(&[0; 7]).f64()),
            (None, None, None)
        );
        assert_eq!((VarintReader(&[0x80, 2]).small::<u8>(), VarintReader(&[0x7f]).small::<u8>()), (None, Some(0x7f)));
        assert_eq!(VarintReader(&[[0xff; 30].as_slice(), &[0]].concat()).number(), None, "no number is so long");
    }
}
