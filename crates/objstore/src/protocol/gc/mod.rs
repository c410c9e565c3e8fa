//! The collector: the one place that decides what may leave the bucket, and the one task that deletes it.
//!
//! ```text
//! a new root makes objects superfluous (history.rs) · RocksDB gives table files up (files/) · a search of the bucket finds
//! objects that nothing names (collector.rs): late uploads, lost tombs, what former owners left
//!     gather, write tomb/<E>/<n>: a list of keys (tombs.rs)
//!     wait for the grace time
//!     pin what the history wants (collector/history.rs)
//!     raise gc/horizon/ to the newest root of that time
//!     am I fenced? what do pins hold (held.rs)? what is needed now? (keep.rs)
//!     delete what is still not needed, at a rate of its own; delete the tomb
//! ```
//!
//! GC-1: a key is proposed only after a root that does not need it is in the bucket (PUB-G3, PUB-G4). So even when a deletion by a fenced
//!       owner lands late, it deletes nothing that the successor reads: the successor starts from that root or a later one.
//! GC-2: a tomb only proposes. The keep-set decides when the grace time is over: what is needed again by then stays.
//! GC-3: epoch claims, claim roots, fences, and what has no name of the protocol are never deleted.
//! GC-4: after any error before a batch, also an error in the look for fences and pins, the collector deletes nothing.
//! GC-5: a file of a former epoch can only leave the map, never come back; so the map of this epoch's first root
//!       decides about all files of former epochs.
//! GC-6: nothing of former epochs is deleted until RocksDB is open and has come to the end of the bucket's WAL.
//! GC-7: before each batch, the collector raises the horizon and then lists the pins (pin.rs, PIN-1). The horizon is the root that was the
//!     newest when the tomb was written. So a writer of a pin never has to give the pin up if its root was the newest within the grace
//!     time.
//!
//! The next search finds what the collector forgets because it crashed or has too much to remember.

mod collector;
mod held;
mod held_history;
mod history;
mod history_queue;
mod keep;
mod plan;
mod tombs;

pub(crate) use collector::run;
pub(crate) use held::{Held, held_among, keys_of_pin};
pub(crate) use history::RootHistory;
pub use history_queue::HistoryLimits;
pub(crate) use history_queue::HistoryQueue;
pub(crate) use keep::{Needs, Use, epoch_of};
pub use plan::GcPlan;
#[cfg(any(test, feature = "fuzzing"))]
pub(super) use tombs::decode as decode_tomb;

use parking_lot::Mutex;
use std::time::Duration;
use tokio::sync::Notify;

/// Keys that the collector remembers, about 10 MB; more than these are left to the next search.
const KEYS_MAX: usize = 100_000;

/// Intervals and rates of the collector; tests shorten them.
#[derive(Debug, Clone)]
pub(crate) struct GcTuning {
    /// How long keys are gathered, so that they get one tomb together.
    pub(crate) gather: Duration,
    /// The time from the tomb to the deletion: what a root of this time needed is still there. It is twice as
    /// long as the longest request.
    pub(crate) grace: Duration,
    /// GC-7. Switched off only by the test that shows that it is needed.
    pub(crate) raises_horizon: bool,
    /// The time between two looks whether a pin still holds everything. These and the other requests of an
    /// idle owner are 19 in 10 minutes.
    pub(crate) hold_interval: Duration,
    /// The time from one search of the bucket to the next, if anything was published since; a minute is added
    /// for each page of the listing.
    pub(crate) search_interval: Duration,
    /// A busy server makes at most some hundred objects superfluous per second; S3 allows 3500 DELETEs.
    pub(crate) deletes_per_second: u32,
    /// The shortest time between two pins of the history that are not necessary: each costs some requests.
    pub(crate) history_interval_min: Duration,
    /// The shortest and the longest wait after failed requests.
    pub(crate) retry_min: Duration,
    pub(crate) retry_max: Duration,
}

impl Default for GcTuning {
    fn default() -> Self {
        Self {
            gather: Duration::from_secs(10),
            grace: Duration::from_secs(60),
            raises_horizon: true,
            hold_interval: Duration::from_secs(150),
            search_interval: Duration::from_secs(3600),
            deletes_per_second: 500,
            history_interval_min: Duration::from_secs(10),
            retry_min: Duration::from_secs(10),
            retry_max: Duration::from_secs(600),
        }
    }
}

/// What the publisher tells the collector.
#[derive(Default)]
pub(crate) struct Inbox {
    state: Mutex<InboxState>,
    /// Wakes the collector: there is something to do, or the database is closing.
    pub(crate) wake: Notify,
}

#[derive(Default)]
struct InboxState {
    keys: Vec<String>,
    needs: Option<Needs>,
}

impl Inbox {
    /// Proposes objects that no published root needs.
    pub(crate) fn propose(&self, keys: impl IntoIterator<Item = String>) {
        let mut state = self.state.lock();
        let room = KEYS_MAX.saturating_sub(state.keys.len());
        state.keys.extend(keys.into_iter().take(room));
        if !state.keys.is_empty() {
            self.wake.notify_one();
        }
    }

    /// Notes that a root is in the bucket and what it needs, and proposes the `superfluous` objects.
    pub(crate) fn root_published(&self, needs: Needs, superfluous: Vec<String>) {
        self.state.lock().needs = Some(needs);
        self.propose(superfluous);
        self.wake.notify_one();
    }

    /// What the newest root of this epoch needs; None before the first.
    fn needs(&self) -> Option<Needs> {
        self.state.lock().needs.clone()
    }

    fn has_keys(&self) -> bool {
        !self.state.lock().keys.is_empty()
    }

    fn take_keys(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().keys)
    }
}
