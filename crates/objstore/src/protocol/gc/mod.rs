//! The collector: the one place where an owner decides which objects it deletes from the bucket, and the one
//! task that deletes them.
//!
//! ```text
//! A key is proposed when
//!     a new root makes its object superfluous (history.rs),
//!     RocksDB gives up its table file (files/), or
//!     a search finds it unnamed (collector.rs): a late upload, or a leftover of a lost tomb or former owner.
//! Then the collector
//!     gathers keys and writes them into tomb/<E>/<n> (tombs.rs),
//!     waits for the grace time,
//!     pins the roots that the history wants (collector/history.rs),
//!     creates a record below gc/horizon/ for the root that was the newest when the tomb was written,
//!     looks for a fence, and reads what pins hold (held.rs) and what is needed now (keep.rs),
//!     deletes the objects that are still not needed, at a limited rate, and then the tomb.
//! ```
//!
//! GC-1: a key is proposed only after a root that does not need the object is in the bucket (PUB-G3, PUB-G4).
//!     The successor of a fenced owner starts from that root or a later one. So a DELETE of the fenced owner
//!     that takes effect late removes nothing that the successor reads.
//! GC-2: a tomb only proposes. When the grace time is over, the keep-set decides: an object that is needed
//!     again by then stays.
//! GC-3: epoch claims, claim roots, fences, and objects whose names are not of the protocol are never
//!     deleted.
//! GC-4: after any error before a batch, also an error while it looks for fences and pins, the collector does
//!     not delete the batch.
//! GC-5: a file of a former epoch can leave the file map. It comes back only while a pin of this epoch holds
//!     its object (FILE-7 in files/share.rs). So the map of this epoch's first root and the registry decide
//!     about all files of former epochs.
//! GC-6: objects of former epochs are not deleted until RocksDB is open and has replayed the bucket's WAL to
//!     its end.
//! GC-7: before each batch, the collector raises the horizon and then lists the pins (pin.rs, PIN-1). The
//!     horizon is the root that was the newest when the tomb was written. So a pin always comes in time if
//!     its root was the newest at some moment within the grace time.
//! GC-8, GC-9: the collector believes no answer that contradicts what it knows, and holds everything while the
//!     root of a pin that certainly counts is absent (held.rs).
//!
//! When the collector forgets keys because the server crashes or there are too many of them, the next search
//! finds the objects.

mod clock;
mod collector;
mod held;
mod held_history;
mod history;
mod history_queue;
mod keep;
mod plan;
mod tombs;

pub(crate) use collector::run;
pub(crate) use held::{Doubts, Held, drop_command, held_among, keys_of_pin, with_remedy};
pub(crate) use history::RootHistory;
pub use history_queue::HistoryLimits;
pub(crate) use history_queue::HistoryQueue;
pub(crate) use keep::{Needs, Use, epoch_of};
pub use plan::GcPlan;
pub(crate) use plan::is_pause;
#[cfg(any(test, feature = "fuzzing"))]
pub(super) use tombs::decode as decode_tomb;
pub(super) use tombs::listed_keys as tombed_keys;

use crate::protocol::history::mounts::reader::PIN_LIFE;
use parking_lot::Mutex;
use std::time::Duration;
use tokio::sync::Notify;

/// How many keys the collector remembers, in about 10 MB. It forgets keys beyond these, and the next search
/// of the bucket finds their objects.
const KEYS_MAX: usize = 100_000;

/// Intervals and rates of the collector; tests shorten them.
#[derive(Debug, Clone)]
pub(crate) struct GcTuning {
    /// How long the collector gathers keys before it writes them into a tomb, so that one tomb holds many
    /// keys.
    pub(crate) gather: Duration,
    /// The time from the tomb to the deletion, for which an object that has just become superfluous is still
    /// kept. It is twice as long as the longest request.
    pub(crate) grace: Duration,
    /// True: the collector creates a horizon before each batch (rule GC-7). Only a test sets this to false,
    /// to show that the rule is needed.
    pub(crate) raises_horizon: bool,
    /// What the collector does not believe at once (rules GC-8 and GC-9).
    pub(crate) doubts: Doubts,
    /// A time of day that is ahead counts after this time (rule HISTORY-3).
    pub(crate) clock_trust: Duration,
    /// While a pin forbids all deletions, the collector lists the pins again after this time. With these
    /// requests, an idle owner sends 19 requests in 10 minutes.
    pub(crate) hold_interval: Duration,
    /// For how long a pin of a reader stays (rule READER-1).
    pub(crate) reader_pin_life: Duration,
    /// The time from one search of the bucket to the next, if anything was published since; a minute is added
    /// for each page of the listing.
    pub(crate) search_interval: Duration,
    /// The most DELETEs per second. A busy server makes at most a few hundred objects superfluous per second,
    /// and S3 allows 3500 DELETEs.
    pub(crate) deletes_per_second: u32,
    /// The shortest time between two pins of the history that only serve to shorten restores. Each pin costs
    /// some requests.
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
            doubts: Doubts::default(),
            clock_trust: Duration::from_secs(3600),
            hold_interval: Duration::from_secs(150),
            reader_pin_life: PIN_LIFE,
            search_interval: Duration::from_secs(3600),
            deletes_per_second: 500,
            history_interval_min: Duration::from_secs(10),
            retry_min: Duration::from_secs(10),
            retry_max: Duration::from_secs(600),
        }
    }
}

/// What the publisher passes to the collector.
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
    /// Proposes the objects `keys`, which no published root needs, for deletion.
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

    /// Returns what the newest root of this epoch needs. None: this epoch has no root yet.
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
