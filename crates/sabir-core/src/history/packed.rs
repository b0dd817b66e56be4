//! How long lists are kept: one piece of bytes for all of one, which is read many times as fast as one figure after
//! another.

use std::fmt;

use serde::de::{self, Deserializer, Visitor};

/// For `serde(with)`: a list of numbers.
pub(super) mod numbers {
    use serde::ser::Serializer;

    use super::{Deserializer, de, from_bytes};

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

/// For `serde(with)`: bytes.
pub(super) mod bytes {
    use serde::ser::Serializer;

    use super::{Deserializer, from_bytes};

    pub(in crate::history) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(bytes)
    }

    pub(in crate::history) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<[u8]>, D::Error> {
        from_bytes(deserializer, |bytes| bytes.into())
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
