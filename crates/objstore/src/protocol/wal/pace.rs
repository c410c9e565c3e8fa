//! The pace of the shipper: how long it waits between two chunks that commits wait for. The cuts are spread
//! over the time of a PUT, and are farther apart while too many chunks wait to be merged.
//!
//! Without a pace, the shipper cuts a chunk for each of the first commits that arrive together, until all
//! PUTs are in flight. The other commits wait for one of these PUTs and then for their own. So the shipper
//! spreads its cuts evenly over the time of a PUT: a commit waits at most for the next cut, and then for one
//! PUT.

use std::time::Duration;

/// Tokio's timer has steps of a millisecond, so a shorter wait would become longer.
const WAIT_MIN: Duration = Duration::from_millis(1);
/// The longest wait: one slow answer of the bucket must not hold back the commits after it for long.
const WAIT_MAX: Duration = Duration::from_millis(50);
/// The newest PUT counts as one part in this many in the moving mean.
const MEMORY: u32 = 8;

/// How much each object in excess (see [`catch_up_wait`]) adds to the wait, and the longest wait that results
/// from this.
const CATCH_UP_STEP: Duration = Duration::from_millis(4);
const CATCH_UP_MAX: Duration = Duration::from_millis(100);

/// The least time between two small chunks while a restore would read `excess_objects` more objects than it
/// should, because merging is late; zero: no wait.
///
/// A single client whose commits each wait for a chunk has only one chunk in flight anyway, so a limit on the
/// chunks in flight does not hold it back. The wait grows with the excess, until chunks come only as fast as
/// they are merged; that is the case a few objects above the limit.
pub(crate) fn catch_up_wait(excess_objects: usize) -> Duration {
    let steps = u32::try_from(excess_objects).unwrap_or(u32::MAX);
    CATCH_UP_STEP.saturating_mul(steps).min(CATCH_UP_MAX)
}

/// The pace of one shipper, which follows from the times of its PUTs.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Moving mean of the time from cutting a chunk until the bucket has it.
    put: Duration,
}

impl Pace {
    /// Notes the time from cutting a chunk until the bucket had it.
    pub(crate) fn arrived(&mut self, put: Duration) {
        self.put = if self.put.is_zero() { put } else { (self.put * (MEMORY - 1) + put) / MEMORY };
    }

    /// The least time between two cuts when at most `chunks_in_flight` chunks are in flight at once; zero: no
    /// wait.
    pub(crate) fn distance(&self, chunks_in_flight: usize) -> Duration {
        let distance = self.put / u32::try_from(chunks_in_flight.max(1)).unwrap_or(u32::MAX);
        if distance < WAIT_MIN { Duration::ZERO } else { distance.min(WAIT_MAX) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn chunks_are_spread_over_the_time_of_a_put() {
        let mut pace = Pace::default();
        assert_eq!(pace.distance(4), Duration::ZERO, "nothing is known yet");
        pace.arrived(MS(60));
        assert_eq!(pace.distance(4), MS(15));
        assert_eq!(pace.distance(1), MS(50), "the longest wait");
        for _ in 0..100 {
            pace.arrived(MS(20));
        }
        assert!(pace.distance(4) >= MS(5) && pace.distance(4) < MS(6), "{pace:?}");
    }

    #[test]
    fn the_wait_grows_with_what_is_left_to_merge() {
        assert_eq!(catch_up_wait(0), Duration::ZERO);
        assert_eq!(catch_up_wait(10), MS(40));
        assert_eq!(catch_up_wait(usize::MAX), CATCH_UP_MAX);
    }

    #[test]
    fn a_near_bucket_and_one_slow_answer_cost_no_wait_worth_mentioning() {
        let mut pace = Pace::default();
        pace.arrived(MS(3));
        assert_eq!(pace.distance(4), Duration::ZERO);
        pace.arrived(Duration::from_secs(3600));
        assert_eq!(pace.distance(4), WAIT_MAX);
    }
}
