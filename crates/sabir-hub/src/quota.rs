//! Size limit of a hub, shared by messages, the full-text index, artifacts and the audit log.
//!
//! Each part reports its size, and asks how large it may become. The sum may exceed the limit by the data that is written between
//! two reports: a few megabytes.

use std::sync::atomic::{AtomicU64, Ordering};

/// Data that counts towards the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Messages,
    Words,
    Artifacts,
    Audit,
}

const PARTS: usize = 4;

/// Sizes of the parts, and the limit of their sum.
#[derive(Debug)]
pub struct Quota {
    limit: AtomicU64,
    used: [AtomicU64; PARTS],
}

impl Default for Quota {
    fn default() -> Self {
        Self { limit: AtomicU64::new(u64::MAX), used: Default::default() }
    }
}

impl Quota {
    /// The limit in bytes, if there is one.
    pub fn limit(&self) -> Option<u64> {
        Some(self.limit.load(Ordering::Relaxed)).filter(|limit| *limit < u64::MAX)
    }

    pub(crate) fn set_limit(&self, limit: Option<u64>) {
        self.limit.store(limit.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Reports the size of a part.
    pub(crate) fn set(&self, part: Part, bytes: u64) {
        self.used[part as usize].store(bytes, Ordering::Relaxed);
    }

    /// Size that a part may reach while the others keep theirs; `None` without a limit.
    pub(crate) fn share(&self, part: Part) -> Option<u64> {
        let all: u64 = self.used.iter().map(|used| used.load(Ordering::Relaxed)).sum();
        let others = all - self.used[part as usize].load(Ordering::Relaxed).min(all);
        self.limit().map(|limit| limit.saturating_sub(others))
    }

    /// Returns whether a part has reached its share.
    pub(crate) fn is_full(&self, part: Part) -> bool {
        self.share(part).is_some_and(|share| self.used[part as usize].load(Ordering::Relaxed) >= share)
    }

    /// Adds to the size of a part; `false` if that would exceed the limit.
    pub(crate) fn reserve(&self, part: Part, bytes: u64) -> bool {
        let used = &self.used[part as usize];
        let before = used.fetch_add(bytes, Ordering::Relaxed);
        let fits = self.share(part).is_none_or(|share| before.saturating_add(bytes) <= share);
        if !fits {
            self.release(part, bytes);
        }
        fits
    }

    /// Subtracts from the size of a part.
    pub(crate) fn release(&self, part: Part, bytes: u64) {
        let less = |used: u64| Some(used.saturating_sub(bytes));
        let _ = self.used[part as usize].fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}

#[cfg(test)]
mod tests {
    use super::{Part, Quota};

    #[test]
    fn quota_is_shared_by_all_parts() {
        let quota = Quota::default();
        assert!(quota.reserve(Part::Artifacts, 1 << 40) && !quota.is_full(Part::Artifacts));
        assert_eq!(quota.share(Part::Messages), None);
        quota.release(Part::Artifacts, 1 << 40);
        quota.set_limit(Some(100));
        quota.set(Part::Messages, 60);
        assert_eq!((quota.share(Part::Messages), quota.share(Part::Words)), (Some(100), Some(40)));
        assert!(!quota.reserve(Part::Artifacts, 41) && quota.reserve(Part::Artifacts, 40));
        assert!(quota.is_full(Part::Words) && quota.is_full(Part::Messages) && !quota.reserve(Part::Artifacts, 1));
        quota.release(Part::Artifacts, 50);
        assert_eq!(quota.share(Part::Messages), Some(100));
    }
}
