//! Playing things at the speed at which they happened.

use std::time::{Duration, Instant};

use sabir_core::time::Timestamp;

/// Waits as long as it took then, divided by a speed.
pub(crate) struct Pace {
    speed: f64,
    started: Instant,
    first: Option<Timestamp>,
}

impl Pace {
    /// A speed of 0 is as fast as possible.
    pub(crate) fn new(speed: f64) -> Self {
        Self { speed, started: Instant::now(), first: None }
    }

    /// How long to wait for what happened at that moment; nothing where the moment is not known.
    pub(crate) fn until(&mut self, at: Option<Timestamp>) -> Duration {
        let Some(at) = at else { return Duration::ZERO };
        let first = *self.first.get_or_insert(at);
        self.until_after(Duration::from_millis(at.millis_since(first).unwrap_or(0)))
    }

    /// How long to wait for what happened that long after the beginning.
    pub(crate) fn until_after(&self, since_first: Duration) -> Duration {
        if self.speed <= 0.0 {
            return Duration::ZERO;
        }
        // A speed close to nothing would wait for ever; nobody does.
        let due = Duration::try_from_secs_f64(since_first.as_secs_f64() / self.speed).unwrap_or(Duration::MAX);
        due.saturating_sub(self.started.elapsed())
    }
}
