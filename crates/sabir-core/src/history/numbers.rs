//! Numbers in as many bytes as they need, seven bits in each, and what is between them.

/// So many bytes a number takes at most.
const LONGEST: usize = 10;

/// Appends a number.
pub(super) fn write(mut number: u64, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    bytes.push(number.to_le_bytes()[0]);
}

/// Appends a number that may be below zero. Those near zero are short, on both sides of it.
pub(super) fn write_signed(number: i64, bytes: &mut Vec<u8>) {
    write((number << 1 ^ number >> 63).cast_unsigned(), bytes);
}

/// Appends a piece of bytes behind its length.
pub(super) fn write_piece(piece: &[u8], bytes: &mut Vec<u8>) {
    write(piece.len() as u64, bytes);
    bytes.extend_from_slice(piece);
}

/// What is left to read. Nothing is read out of less than it takes.
#[derive(Debug, Clone)]
pub(super) struct Numbers<'b>(pub(super) &'b [u8]);

impl<'b> Numbers<'b> {
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

    pub(super) fn signed(&mut self) -> Option<i64> {
        let number = self.number()?;
        Some((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }

    /// A number that is smaller than most can be.
    pub(super) fn small<T: TryFrom<u64>>(&mut self) -> Option<T> {
        T::try_from(self.number()?).ok()
    }

    pub(super) fn usd(&mut self) -> Option<f64> {
        let (usd, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(f64::from_le_bytes(*usd))
    }

    pub(super) fn piece(&mut self) -> Option<&'b [u8]> {
        let length = self.small()?;
        let (piece, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::{Numbers, write, write_piece, write_signed};

    #[test]
    fn what_is_written_comes_back() {
        let (numbers, mut bytes) = ([0, 1, 0x7f, 0x80, 300, u64::MAX], Vec::new());
        for number in numbers {
            write(number, &mut bytes);
            write_signed(number.cast_signed(), &mut bytes);
            write_piece(&number.to_le_bytes(), &mut bytes);
        }
        let mut read = Numbers(&bytes);
        for number in numbers {
            assert_eq!((read.number(), read.signed()), (Some(number), Some(number.cast_signed())));
            assert_eq!(read.piece(), Some(&number.to_le_bytes()[..]));
        }
        assert!(read.0.is_empty() && read.number().is_none() && read.piece().is_none() && read.usd().is_none());
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
                        let mut read = Numbers(&bytes);
                        assert_eq!((read.number(), read.0.len()), (Some(number), more));
                    }
                }
            }
        }
    }

    #[test]
    fn nothing_is_read_out_of_half_of_it() {
        assert_eq!((Numbers(&[0x80]).number(), Numbers(&[2, 7]).piece(), Numbers(&[0; 7]).usd()), (None, None, None));
        assert_eq!((Numbers(&[0x80, 2]).small::<u8>(), Numbers(&[0x7f]).small::<u8>()), (None, Some(0x7f)));
        assert_eq!(Numbers(&[[0xff; 30].as_slice(), &[0]].concat()).number(), None, "no number is so long");
    }
}
