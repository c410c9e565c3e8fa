//! The time by which the history becomes too old.
//!
//! HISTORY-3: a clock that is ahead destroys no history. The time of day of this machine is believed at once
//!     when it is earlier than expected, and otherwise when it has been ahead for an hour without a break.
//!     Until then the time goes on by the monotonic clock: from the time of day at the start of the process,
//!     or from the newest pin that a former owner has left, if that is earlier. So a history stays a little
//!     longer after each start and each jump of the clock, but what is deleted is really too old.

use std::time::Duration;
use tokio::time::Instant;

/// See the head of this file. A time is in milliseconds since 1970. An offset is the time at the monotonic
/// clock's `began`.
#[derive(Debug)]
pub(super) struct HistoryClock {
    began: Instant,
    trust_after: Duration,
    /// The time of day when the process began.
    begin_ms: u64,
    /// The offset that is believed. None: [`Self::now_ms`] was not called yet.
    offset_ms: Option<u64>,
    /// Since when the time of day has been ahead of what is believed, and its least offset since then. None:
    /// it is not ahead.
    ahead: Option<(Instant, u64)>,
}

impl HistoryClock {
    /// A clock that believes the time of day after it has been ahead for `trust_after`. `wall_ms`: the time of
    /// day.
    pub(super) fn new(trust_after: Duration, wall_ms: u64) -> Self {
        Self { began: Instant::now(), trust_after, begin_ms: wall_ms, offset_ms: None, ahead: None }
    }

    /// Returns the time. `wall_ms`: the time of day. `former_ms`: the time of the newest pin that a former
    /// owner has left; it only counts in the first call.
    pub(super) fn now_ms(&mut self, wall_ms: u64, former_ms: Option<u64>) -> u64 {
        let now = Instant::now();
        let passed_ms = now.duration_since(self.began).as_millis() as u64;
        let offset_ms = wall_ms.saturating_sub(passed_ms);
        let first_ms = former_ms.map_or(self.begin_ms, |former_ms| former_ms.min(self.begin_ms));
        let believed_ms = self.offset_ms.get_or_insert(first_ms);
        if offset_ms <= *believed_ms {
            *believed_ms = offset_ms;
            self.ahead = None;
        } else {
            let (since, least_ms) = self.ahead.get_or_insert((now, offset_ms));
            *least_ms = offset_ms.min(*least_ms);
            if now.duration_since(*since) >= self.trust_after {
                *believed_ms = *least_ms;
                self.ahead = None;
            }
        }
        *believed_ms + passed_ms
    }

    /// Returns when the time will be `due_ms`. `now_ms`: what [`Self::now_ms`] has just returned.
    pub(super) fn moment_of(&self, due_ms: u64, now_ms: u64) -> Instant {
        let now = Instant::now();
        let after = |now_ms: u64| now + Duration::from_millis(due_ms.saturating_sub(now_ms));
        let Some((since, least_ms)) = self.ahead else { return after(now_ms) };
        let gained_ms = least_ms.saturating_sub(self.offset_ms.unwrap_or(least_ms));
        after(now_ms).min(after(now_ms + gained_ms).max(since + self.trust_after))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    const HOUR: Duration = Duration::from_secs(3600);
    const DAY_MS: u64 = 86_400_000;
    const MINUTE: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_is_ahead_for_a_while_is_not_believed() {
        let mut clock = HistoryClock::new(HOUR, 10 * DAY_MS);
        assert_eq!(clock.now_ms(10 * DAY_MS, None), 10 * DAY_MS);
        advance(MINUTE).await;
        let real_ms = 10 * DAY_MS + 60_000;
        assert_eq!(clock.now_ms(real_ms + 3 * DAY_MS, None), real_ms);
        advance(MINUTE).await;
        assert_eq!(clock.now_ms(real_ms + 60_000, None), real_ms + 60_000);
        // It is behind, and comes back.
        assert_eq!(clock.now_ms(real_ms - DAY_MS, None), real_ms - DAY_MS);
        advance(2 * HOUR).await;
        let real_ms = real_ms + 60_000 + 2 * 3_600_000;
        assert_eq!(clock.now_ms(real_ms, None), real_ms - DAY_MS - 60_000);
        advance(HOUR).await;
        assert_eq!(clock.now_ms(real_ms + 3_600_000, None), real_ms + 3_600_000);
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_stays_ahead_is_believed_after_an_hour() {
        let mut clock = HistoryClock::new(HOUR, 10 * DAY_MS);
        // The former owner left its newest pin three days before.
        let now_ms = clock.now_ms(10 * DAY_MS, Some(7 * DAY_MS));
        assert_eq!(now_ms, 7 * DAY_MS);
        let in_two_days = clock.moment_of(9 * DAY_MS, now_ms);
        assert_eq!(in_two_days, Instant::now() + HOUR, "it is due as soon as the clock is believed");
        assert_eq!(clock.moment_of(7 * DAY_MS + 5, now_ms), Instant::now() + Duration::from_millis(5));
        advance(HOUR).await;
        assert_eq!(clock.now_ms(10 * DAY_MS + 3_600_000, Some(1)), 10 * DAY_MS + 3_600_000);
    }
}
