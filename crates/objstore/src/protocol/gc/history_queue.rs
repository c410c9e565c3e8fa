//! How much history is to be kept, and which roots are to be pinned for it.
//!
//! A restore can bring back every commit from a pinned root and the log behind it, up to the next change of the MANIFEST that the log
//! depends on (gate PUB-G8). So a root gets a pin when it is the first of a process and when it contains such a change. Other roots get a
//! pin from time to time, so that a restore replays little of the log and the collector can delete old files.

use crate::protocol::format::records::{Root, RootId};
use parking_lot::Mutex;
use std::time::Duration;

/// A retention of an hour gives a pin each 28 s. So at most 28 s more are kept than were asked for, and at
/// most 28 s of the log are replayed.
const PINS_PER_RETENTION: u32 = 128;

/// What the server's settings ask for. Zero: no history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryLimits {
    /// Every commit that is at most this old can be restored...
    pub retention: Duration,
    /// ...unless the history alone would keep more bytes than these.
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

/// What the publisher and the collector agree about the history.
#[derive(Debug, Default)]
pub(crate) struct HistoryQueue {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    limits: HistoryLimits,
    /// The newest root of this process.
    newest: Option<Offer>,
    /// The last root that was to be pinned.
    last: Option<Offer>,
    /// The first root of a history that began while this process runs; pins before it are of a former history.
    first: Option<RootId>,
    waiting: Vec<RootId>,
}

#[derive(Debug, Clone, Copy)]
struct Offer {
    id: RootId,
    published_ms: u64,
    ddl_seq: u64,
}

impl HistoryQueue {
    pub(crate) fn limits(&self) -> HistoryLimits {
        self.state.lock().limits
    }

    /// Sets the limits. If the history begins now, the newest root is its first root.
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

    /// Whether `root` belongs to a history that was ended, even if another history began at once.
    pub(crate) fn is_of_former(&self, root: RootId) -> bool {
        let state = self.state.lock();
        !state.limits.is_on() || state.first.is_some_and(|first| root < first)
    }

    /// Queues the base of this process for a pin: a restore needs it for the commits from there to the first root of this process.
    pub(crate) fn offer_base(&self, base: RootId) {
        let mut state = self.state.lock();
        if state.limits.is_on() {
            state.waiting.push(base);
        }
    }

    /// Notes that `root` is in the bucket. Returns whether it is to be pinned. `interval_min`: the shortest
    /// time between two pins that are not necessary.
    pub(crate) fn offer(&self, root: &Root, interval_min: Duration) -> bool {
        let mut state = self.state.lock();
        state.newest = Some(Offer { id: root.id, published_ms: root.published_ms, ddl_seq: root.ddl_seq });
        let interval = (state.limits.retention / PINS_PER_RETENTION).max(interval_min).as_millis() as u64;
        let is_due = state.last.is_none_or(|last| {
            root.ddl_seq > last.ddl_seq || root.published_ms.abs_diff(last.published_ms) >= interval
        });
        state.limits.is_on() && is_due && state.pin_newest()
    }

    /// Queues the newest root for a pin if it has none and was published before `cutoff_ms`: a restore can then bring back from that root
    /// all moments that are still wanted.
    pub(crate) fn pin_old_newest(&self, cutoff_ms: u64) {
        let mut state = self.state.lock();
        if state.unpinned().is_some_and(|newest| newest.published_ms <= cutoff_ms) {
            state.pin_newest();
        }
    }

    /// When the newest root was published, if it has no pin.
    pub(crate) fn unpinned_ms(&self) -> Option<u64> {
        self.state.lock().unpinned().map(|newest| newest.published_ms)
    }

    /// The next root to pin.
    pub(crate) fn next(&self) -> Option<RootId> {
        self.state.lock().waiting.first().copied()
    }

    /// Takes `root` from the queue: it has its pin, or cannot have one.
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
