//! Maps by numbers that are digests, and so well mixed already.

use std::hash::{BuildHasherDefault, Hasher};

/// For maps by digests.
pub(crate) type DigestState = BuildHasherDefault<DigestHasher>;

/// Takes a digest for the hash that it is.
#[derive(Debug, Default)]
pub(crate) struct DigestHasher(u64);

impl Hasher for DigestHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, digest: u64) {
        self.0 = digest;
    }
}
