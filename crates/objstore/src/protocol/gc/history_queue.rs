//! Decides how much history is kept, and which roots get a pin for it.
//!
//! From a pinned root and the later log, a restore can bring back every commit up to the next MANIFEST edit
//! on which the log depends (gate PUB-G8). So the first root of a process gets a pin, and each root that
//! contains such an edit. Other roots get a pin from time to time, so that a restore replays little of the
//! log and the collector can delete old files.

use crate::protocol::format::records::{Root, RootId};
use parking_lot::Mutex;
use std::time::Duration;

/// How many pins are spread over the retention. With a retention of an hour there is a pin every 28 s. So at
/// most 28 s more than asked for are kept, and a restore replays at most 28 s of the log.
const PINS_PER_RETENTION: u32 = 128;

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

    /// Notes that `root` is in the bucket. Returns true if the root was queued for a pin. `interval_min`: the
    /// shortest time between two pins that only serve to shorten restores.
    pub(crate) fn offer(&self, root: &Root, interval_min: Duration) -> bool {
        let mut state = self.state.lock();
        state.newest = Some(Offer { id: root.id, published_ms: root.published_ms, ddl_seq: root.ddl_seq });
        let interval = (state.limits.retention / PINS_PER_RETENTION).max(interval_min).as_millis() as u64;
        let is_due = state.last.is_none_or(|last| {
            root.ddl_seq > last.ddl_seq || root.published_ms.abs_diff(last.published_ms) >= interval
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
