//! How long and how often one request is tried. No other file decides about waits between attempts.
//!
//! failure.rs decides which failures are worth another attempt. The callers in bucket.rs decide whether
//! repeating a request is harmless: all their requests are idempotent except the create-only PUT, which has
//! its own loop.

use crate::machine::fill_random;
use std::time::Duration;

/// The limits of one request: how many attempts, how long each may take, and how long to wait between them.
#[derive(Debug, Clone)]
pub struct RetryPolicy {
    /// The most attempts, the first one included. `u32::MAX` means that attempts never end.
    pub attempts_max: u32,
    /// The longest wait after the first failed attempt. After each further failed attempt it doubles.
    pub delay_min: Duration,
    /// The longest wait between two attempts, after all doubling.
    pub delay_max: Duration,
    /// The longest time of one attempt that transfers few bytes, from sending the first byte to receiving the
    /// last. [`Self::timeout_for`] adds time for more bytes.
    pub request_timeout: Duration,
}

impl Default for RetryPolicy {
    /// Five attempts wait 0.1 + 0.2 + 0.4 + 0.8 = 1.5 s together at most. This outlasts a short failure of a
    /// load balancer or a period of throttling, and clients do not give up that soon.
    fn default() -> Self {
        Self {
            attempts_max: 5,
            delay_min: Duration::from_millis(100),
            delay_max: Duration::from_secs(5),
            request_timeout: Duration::from_secs(30),
        }
    }
}

impl RetryPolicy {
    /// The wait before attempt `attempt + 1`: a random 50 to 100 % of the longest wait, so that many waiters
    /// do not all send their requests at once.
    ///
    /// Requires: `attempt` counts from 1.
    pub fn delay(&self, attempt: u32) -> Duration {
        let doubled = self.delay_min.saturating_mul(1u32 << attempt.saturating_sub(1).min(16));
        let full = doubled.min(self.delay_max);
        full.mul_f64(0.5 + 0.5 * random_unit())
    }

    /// The time limit of one attempt that transfers `bytes`: the configured limit plus a second per MiB. So a
    /// short limit for small requests does not make large objects impossible on a slow network.
    pub fn timeout_for(&self, bytes: u64) -> Duration {
        self.request_timeout + Duration::from_millis(bytes >> 10)
    }

    /// Whether another attempt is allowed after `attempt` of them failed.
    pub fn allows_another(&self, attempt: u32) -> bool {
        attempt < self.attempts_max
    }
}

/// A random number in 0..1 for jitter. It is 0.5 if the system gives no random bytes; then attempts of
/// several waiters are only less spread out.
fn random_unit() -> f64 {
    let mut bits = [0; 4];
    match fill_random(&mut bits) {
        Ok(()) => f64::from(u32::from_le_bytes(bits)) / (f64::from(u32::MAX) + 1.0),
        Err(_) => 0.5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_and_stay_in_bounds() {
        let policy = RetryPolicy::default();
        for attempt in 1..100 {
            let delay = policy.delay(attempt);
            assert!(delay <= policy.delay_max, "attempt {attempt}: {delay:?}");
            assert!(delay >= policy.delay_min / 2, "attempt {attempt}: {delay:?}");
        }
        assert!(policy.delay(4) > policy.delay_min);
    }
}
