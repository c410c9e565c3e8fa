//! Decides how much history is kept, and which roots get a pin for it.
//!
//! From a pinned root and the later log, a restore can bring back every commit up to the next MANIFEST edit
//! on which the log depends (gate PUB-G8). So the first root of a process gets a pin, and each root that
//! contains such an edit. Other roots get a pin from time to time, so that a restore replays little of the
//! log and the collector can delete old files.

use crate::protocol::format::records::{Root, RootId};
use parking_lot::Mutex;
use std::time::Duration;

/// How many pins are spread over the retention, and how many over `bytes_max`. With a retention of an hour
/// there is a pin every 28 s. So at most 28 s more than asked for are kept, and a restore replays at most 28 s
/// of the log. With a `bytes_max` of 128 GiB there is a pin for each uploaded GiB, so that the collector can
/// drop the oldest GiB when the history becomes too large.
const PINS_PER_RETENTION: u32 = 128;
/// Fewer uploaded bytes than these are no reason for a pin, however small `bytes_max` is.
const PIN_BYTES_MIN: u64 = 1 << 20;

/// The history that the server's settings ask for. A retention of zero: no history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryLimits {
    /// Every commit that is at most this old can be restored, within `bytes_max`.
    pub retention: Duration,
    /// The history alone keeps at most this many bytes. Above that, its oldest part is dropped before the
    /// retention ends.
    pub bytes_max: u64,
}

impl Default for HistoryLimits {
    fn default() -> Self {
        Self { retention: Duration::ZERO, bytes_max: u64::MAX }
    }
}

impl HistoryLimits {
    pub(crate) fn is_on(&self) -> bool {
        !self.retention.is_zero()
    }
}

/// The state that the publisher and the collector share about the history.
#[derive(Debug, Default)]
pub(crate) struct HistoryQueue {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    limits: HistoryLimits,
    /// The newest root of this process. None: this process has published no root.
    newest: Option<Offer>,
    /// The last root that was queued for a pin. None: the history is off, or no root was queued since it was
    /// switched on.
    last: Option<Offer>,
    /// The first root of a history that was switched on while this process runs. Pins of older roots belong
    /// to a former history, so they are dropped. None: no history was switched on after the first root of
    /// this process.
    first: Option<RootId>,
    waiting: Vec<RootId>,
}

#[derive(Debug, Clone, Copy)]
struct Offer {
    id: RootId,
    published_ms: u64,
    ddl_seq: u64,
    /// The bytes that this process had uploaded by then.
    uploaded_bytes: u64,
}

impl HistoryQueue {
    pub(crate) fn limits(&self) -> HistoryLimits {
        self.state.lock().limits
    }

    /// Sets the limits. If they begin a history, the newest root becomes its first root.
    pub(crate) fn set_limits(&self, limits: HistoryLimits) {
        let mut state = self.state.lock();
        state.limits = limits;
        if !limits.is_on() {
            (state.last, state.waiting) = (None, Vec::new());
        } else if state.last.is_none() {
            state.pin_newest();
            state.first = state.newest.map(|newest| newest.id);
        }
    }

    /// Whether `root` belongs to a history that was switched off, so that its pin must be dropped. This is
    /// true even if the history was switched on again immediately.
    pub(crate) fn is_of_former(&self, root: RootId) -> bool {
        let state = self.state.lock();
        !state.limits.is_on() || state.first.is_some_and(|first| root < first)
    }

    /// Queues the base of this process, the root from which the process started, for a pin. A restore of a
    /// commit that was made between the base and the first root of this process needs the base.
    pub(crate) fn offer_base(&self, base: RootId) {
        let mut state = self.state.lock();
        if state.limits.is_on() {
            state.waiting.push(base);
        }
    }

    /// Notes that `root` is in the bucket. Returns true if the root was queued for a pin. `uploaded_bytes`: the
    /// bytes that this process has uploaded so far. `interval_min`: the shortest time between two pins that
    /// only serve to shorten restores or to drop old parts of the history.
    pub(crate) fn offer(&self, root: &Root, uploaded_bytes: u64, interval_min: Duration) -> bool {
        let mut state = self.state.lock();
        let (id, published_ms, ddl_seq) = (root.id, root.published_ms, root.ddl_seq);
        state.newest = Some(Offer { id, published_ms, ddl_seq, uploaded_bytes });
        let HistoryLimits { retention, bytes_max } = state.limits;
        let bytes_between = (bytes_max / u64::from(PINS_PER_RETENTION)).max(PIN_BYTES_MIN);
        let is_due = state.last.is_none_or(|last| {
            let age = Duration::from_millis(published_ms.abs_diff(last.published_ms));
            let bytes = uploaded_bytes - last.uploaded_bytes;
            let is_much = age >= retention / PINS_PER_RETENTION || bytes >= bytes_between;
            ddl_seq > last.ddl_seq || (age >= interval_min && is_much)
        });
        state.limits.is_on() && is_due && state.pin_newest()
    }

    /// Queues the newest root for a pin if it has none and was published before `cutoff_ms`. From that root a
    /// restore can bring back all moments that the retention still covers, so the older pins can be dropped.
    pub(crate) fn pin_old_newest(&self, cutoff_ms: u64) {
        let mut state = self.state.lock();
        if state.unpinned().is_some_and(|newest| newest.published_ms <= cutoff_ms) {
            state.pin_newest();
        }
    }

    /// Returns when the newest root was published. None: it has a pin or waits for one, or there is no root.
    pub(crate) fn unpinned_ms(&self) -> Option<u64> {
        self.state.lock().unpinned().map(|newest| newest.published_ms)
    }

    /// Returns the next root to pin. None: no root waits for a pin.
    pub(crate) fn next(&self) -> Option<RootId> {
        self.state.lock().waiting.first().copied()
    }

    /// Takes `root` from the queue, because it has its pin or cannot get one.
    pub(crate) fn done(&self, root: RootId) {
        self.state.lock().waiting.retain(|waiting| *waiting != root);
    }
}

impl State {
    fn unpinned(&self) -> Option<Offer> {
        self.newest.filter(|newest| self.last.is_none_or(|last| last.id != newest.id))
    }

    fn pin_newest(&mut self) -> bool {
        let Some(newest) = self.newest else { return false };
        self.last = Some(newest);
        self.waiting.push(newest.id);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::format::records_test::root_of_format_1;

    const HOUR: Duration = Duration::from_secs(3600);
    const MIB: u64 = 1 << 20;

    /// Offers a root that is published `seconds` after the first one, when `uploaded_bytes` were uploaded.
    fn offer(queue: &HistoryQueue, seconds: u64, uploaded_bytes: u64) -> bool {
        let id = RootId { epoch: 1, slot: 1 + seconds };
        let root = Root { id, published_ms: 1_000_000 + seconds * 1000, ddl_seq: 1, ..root_of_format_1() };
        queue.offer(&root, uploaded_bytes, Duration::from_secs(10))
    }

    #[test]
    fn a_root_is_pinned_when_time_or_bytes_have_passed() {
        let queue = HistoryQueue::default();
        queue.set_limits(HistoryLimits { retention: HOUR, bytes_max: 128 * MIB });
        assert!(offer(&queue, 0, 0), "the first root");
        assert!(!offer(&queue, 27, MIB - 1), "neither a 128th of the retention nor of the bytes");
        assert!(offer(&queue, 28 + 1, MIB - 1), "a 128th of the retention");
        assert!(!offer(&queue, 29 + 9, 100 * MIB), "pins are at least ten seconds apart");
        assert!(offer(&queue, 29 + 10, 2 * MIB), "a 128th of the bytes");
        assert!(!offer(&queue, 39 + 10, 2 * MIB), "an idle server");
    }
}
