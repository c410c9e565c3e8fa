//! How long and how often one request is tried. The only place where waiting between attempts is decided.
//!
//! Which failures are worth another attempt is decided in failure.rs; whether a repeated request is harmless
//! is decided by the caller in bucket.rs: all requests there are idempotent except the create-only PUT, which
//! has its own loop.

use crate::machine::fill_random;
use std::time::Duration;

/// Bounds of one logical request.
#[derive(Debug, Clone)]
pub struct RetryPolicy {
    /// Attempts, the first one included. `u32::MAX` means without end.
    pub attempts_max: u32,
    /// Wait after the first failure; doubles from there.
    pub delay_min: Duration,
    /// Longest wait between two attempts.
    pub delay_max: Duration,
    /// The longest time of one attempt, from sending the first byte to receiving the last.
    pub request_timeout: Duration,
}

impl Default for RetryPolicy {
    /// Five attempts wait 0.1 + 0.2 + 0.4 + 0.8 = 1.5 s together: longer than a load balancer's hiccup or a
    /// throttling window, shorter than a client's patience.
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
    /// The wait before attempt `attempt + 1`, with 50..100 % jitter so that many waiters spread out.
    ///
    /// Requires: `attempt` counts from 1.
    pub fn delay(&self, attempt: u32) -> Duration {
        let doubled = self.delay_min.saturating_mul(1u32 << attempt.saturating_sub(1).min(16));
        let full = doubled.min(self.delay_max);
        full.mul_f64(0.5 + 0.5 * random_unit())
    }

    /// The bound of one attempt that moves `bytes`: the configured one, and a second per MiB, so that a short
    /// bound for small requests does not make big objects impossible on a slow line.
    pub fn timeout_for(&self, bytes: u64) -> Duration {
        self.request_timeout + Duration::from_millis(bytes >> 10)
    }

    /// Whether another attempt is allowed after `attempt` of them failed.
    pub fn allows_another(&self, attempt: u32) -> bool {
        attempt < self.attempts_max
    }
}

/// A number in 0..1 for jitter; 0.5 when the system has no randomness, which only costs spreading.
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
