//! Token-bucket rate limiter, one bucket per client key.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use sabir_protocol::{Code, Refusal};

use crate::lock;

/// Smallest number of buckets at which full ones are dropped: a full bucket behaves like a new one.
const MIN_SWEEP: usize = 4_096;
/// Capacity of a bucket, in seconds of refill.
const BURST_SECONDS: f64 = 2.0;

/// Limits requests per second and client.
#[derive(Debug)]
pub(crate) struct RateLimiter {
    refill_per_second: f64,
    buckets: Mutex<Buckets>,
}

#[derive(Debug)]
struct Buckets {
    by_client: HashMap<String, Bucket>,
    /// Number of buckets at which full ones are dropped. It doubles with those that remain, so sweeps are rare.
    sweep_at: usize,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    level: f64,
    updated: Instant,
}

impl RateLimiter {
    pub(crate) fn new(requests_per_second: u32) -> Self {
        let buckets = Mutex::new(Buckets { by_client: HashMap::new(), sweep_at: MIN_SWEEP });
        Self { refill_per_second: f64::from(requests_per_second.max(1)), buckets }
    }

    /// Takes one token from the bucket of `client`, or returns `SlowDown` if it is empty.
    pub(crate) fn acquire(&self, client: &str) -> Result<(), Refusal> {
        self.acquire_at(client, Instant::now())
    }

    /// Takes `cost` tokens from the bucket of `client`, which may overdraw it, and returns the time until it has recovered: for
    /// clients that are read more slowly instead of being refused.
    pub(crate) fn charge(&self, client: &str, cost: f64) -> Duration {
        self.charge_at(client, cost, Instant::now())
    }

    fn acquire_at(&self, client: &str, now: Instant) -> Result<(), Refusal> {
        let level = self.take(client, 1.0, now, 1.0);
        if level < 1.0 {
            let refusal = Refusal::new(Code::SlowDown, "too many requests");
            return Err(Refusal { retry_after_seconds: Some(1), ..refusal });
        }
        Ok(())
    }

    fn charge_at(&self, client: &str, cost: f64, now: Instant) -> Duration {
        let level = self.take(client, cost, now, f64::NEG_INFINITY) - cost;
        Duration::from_secs_f64((-level / self.refill_per_second).max(0.0))
    }

    /// Takes `cost` tokens if the bucket has at least `min`; returns the level before.
    fn take(&self, client: &str, cost: f64, now: Instant, min: f64) -> f64 {
        let capacity = self.refill_per_second * BURST_SECONDS;
        let level_of = |bucket: &Bucket| {
            let refill = now.saturating_duration_since(bucket.updated).as_secs_f64() * self.refill_per_second;
            (bucket.level + refill).min(capacity)
        };
        let mut buckets = lock(&self.buckets);
        if buckets.by_client.len() >= buckets.sweep_at {
            buckets.by_client.retain(|_, bucket| level_of(bucket) < capacity);
            buckets.sweep_at = MIN_SWEEP.max(2 * buckets.by_client.len());
        }
        let level = buckets.by_client.get(client).map_or(capacity, level_of);
        if level >= min {
            buckets.by_client.insert(client.to_owned(), Bucket { level: level - cost, updated: now });
        }
        level
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::RateLimiter;

    #[test]
    fn rate_limiter_limits_each_client_separately() {
        let limiter = RateLimiter::new(5);
        let start = Instant::now();
        let allowed = (0..100).filter(|_| limiter.acquire_at("a", start).is_ok()).count();
        assert_eq!(allowed, 10);
        assert!(limiter.acquire_at("b", start).is_ok());
        let later = start + Duration::from_secs(1);
        assert_eq!((0..100).filter(|_| limiter.acquire_at("a", later).is_ok()).count(), 5);
    }

    #[test]
    fn rate_limiter_drops_full_buckets() {
        let limiter = RateLimiter::new(1);
        let start = Instant::now();
        let count = |limiter: &RateLimiter| super::lock(&limiter.buckets).by_client.len();
        for number in 0..10_000 {
            limiter.charge_at(&number.to_string(), 1.0, start);
        }
        assert_eq!(count(&limiter), 10_000, "none of them is full yet");
        for number in 0..10_000 {
            limiter.charge_at(&format!("later {number}"), 1.0, start + Duration::from_secs(60));
        }
        assert!(count(&limiter) < 16_000, "{}", count(&limiter));
    }

    #[test]
    fn charge_returns_the_time_until_the_bucket_has_recovered() {
        let limiter = RateLimiter::new(10);
        let start = Instant::now();
        let pauses: Vec<u128> = (0..22).map(|_| limiter.charge_at("a", 1.0, start).as_millis()).collect();
        assert_eq!((&pauses[..20], &pauses[20..]), (&[0; 20][..], &[100, 200][..]));
        assert!(limiter.acquire_at("a", start).is_err() && limiter.acquire_at("b", start).is_ok());
        assert_eq!(limiter.charge_at("a", 0.5, start + Duration::from_secs(1)).as_millis(), 0);
    }
}
