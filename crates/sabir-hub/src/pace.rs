//! How often somebody may ask: a bucket that fills with time, and is emptied by requests.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use sabir_protocol::{Code, Refusal};

use crate::lock::locked;

/// With fewer buckets than this, full ones are not forgotten: a full bucket is the same as none.
const SWEEP: usize = 4_096;
/// A bucket holds what comes in this many seconds.
const BURST_SECONDS: f64 = 2.0;

#[derive(Debug)]
pub(crate) struct Pace {
    per_second: f64,
    buckets: Mutex<Buckets>,
}

#[derive(Debug)]
struct Buckets {
    levels: HashMap<String, (f64, Instant)>,
    /// With so many buckets the full ones are forgotten. It grows with those that remain, so that nobody pays for it often.
    sweep: usize,
}

impl Pace {
    pub(crate) fn new(per_second: u32) -> Self {
        let buckets = Mutex::new(Buckets { levels: HashMap::new(), sweep: SWEEP });
        Self { per_second: f64::from(per_second.max(1)), buckets }
    }

    /// Takes one from the bucket of somebody.
    pub(crate) fn step(&self, key: &str) -> Result<(), Refusal> {
        self.step_at(key, Instant::now())
    }

    /// Takes `cost` from the bucket of somebody who is not refused but read more slowly, and returns for how long to read nothing.
    pub(crate) fn spend(&self, key: &str, cost: f64) -> Duration {
        self.spend_at(key, cost, Instant::now())
    }

    fn step_at(&self, key: &str, now: Instant) -> Result<(), Refusal> {
        let level = self.take_at(key, 1.0, now, 1.0);
        if level < 1.0 {
            let refusal = Refusal::new(Code::SlowDown, "too many requests");
            return Err(Refusal { retry_after_seconds: Some(1), ..refusal });
        }
        Ok(())
    }

    fn spend_at(&self, key: &str, cost: f64, now: Instant) -> Duration {
        let level = self.take_at(key, cost, now, f64::NEG_INFINITY) - cost;
        Duration::from_secs_f64((-level / self.per_second).max(0.0))
    }

    /// Takes `cost` from a bucket that holds at least `least`, and returns what it held before.
    fn take_at(&self, key: &str, cost: f64, now: Instant, least: f64) -> f64 {
        let full = self.per_second * BURST_SECONDS;
        let filled =
            |(level, at): (f64, Instant)| (level + now.saturating_duration_since(at).as_secs_f64() * self.per_second).min(full);
        let mut buckets = locked(&self.buckets);
        if buckets.levels.len() >= buckets.sweep {
            buckets.levels.retain(|_, bucket| filled(*bucket) < full);
            buckets.sweep = SWEEP.max(2 * buckets.levels.len());
        }
        let level = buckets.levels.get(key).map_or(full, |bucket| filled(*bucket));
        if level >= least {
            buckets.levels.insert(key.to_owned(), (level - cost, now));
        }
        level
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::Pace;

    #[test]
    fn who_asks_too_often_waits_and_nobody_else_does() {
        let pace = Pace::new(5);
        let start = Instant::now();
        let asked = (0..100).filter(|_| pace.step_at("a", start).is_ok()).count();
        assert_eq!(asked, 10);
        assert!(pace.step_at("b", start).is_ok());
        let later = start + Duration::from_secs(1);
        assert_eq!((0..100).filter(|_| pace.step_at("a", later).is_ok()).count(), 5);
    }

    #[test]
    fn full_buckets_are_forgotten() {
        let pace = Pace::new(1);
        let start = Instant::now();
        let count = |pace: &Pace| super::locked(&pace.buckets).levels.len();
        for number in 0..10_000 {
            pace.spend_at(&number.to_string(), 1.0, start);
        }
        assert_eq!(count(&pace), 10_000, "none of them is full yet");
        for number in 0..10_000 {
            pace.spend_at(&format!("later {number}"), 1.0, start + Duration::from_secs(60));
        }
        assert!(count(&pace) < 16_000, "{}", count(&pace));
    }

    #[test]
    fn spending_beyond_the_bucket_tells_how_long_to_pause() {
        let pace = Pace::new(10);
        let start = Instant::now();
        let pauses: Vec<u128> = (0..22).map(|_| pace.spend_at("a", 1.0, start).as_millis()).collect();
        assert_eq!((&pauses[..20], &pauses[20..]), (&[0; 20][..], &[100, 200][..]));
        assert!(pace.step_at("a", start).is_err() && pace.step_at("b", start).is_ok());
        assert_eq!(pace.spend_at("a", 0.5, start + Duration::from_secs(1)).as_millis(), 0);
    }
}
