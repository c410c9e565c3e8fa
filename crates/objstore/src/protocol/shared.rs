//! What the store, the shipper, the publisher and the collector of one open database share.
//!
//! Lock rule: every event of RocksDB except a plain append to a WAL locks `state`. A thread holds this lock
//! for work in memory and to open local files, never during a request or a sync. A thread that holds it may
//! lock `Files`, but not the other way round. `changed` belongs to `state` and is signalled whenever a
//! waiting thread may go on.

use super::gc::{GcTuning, HistoryQueue, Inbox};
use crate::error::{Result, StoreError};
use crate::files::Files;
use crate::log::{Level, LogFn};
use crate::protocol::format::codec::Nonce;
use crate::protocol::format::records::Fence;
use crate::protocol::format::slots::fenced_error;
use crate::protocol::publish::map_writer::MapLimits;
use crate::protocol::start::claim::OwnEpoch;
use crate::protocol::start::local::wal_path;
use crate::protocol::wal::lag::CommitPath;
use crate::protocol::wal::position::Tracker;
use crate::protocol::wal::wal_runs::MergeLimits;
use crate::protocol::wal::wal_table::WalTable;
use crate::requests::bucket::Bucket;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Intervals and sizes; tests shorten them.
#[derive(Debug, Clone)]
pub(crate) struct Tuning {
    /// The shortest time between two chunks for which no thread waits.
    pub(crate) ship_interval: Duration,
    /// With durability `async`, a chunk is cut this many times per lag limit: with 4 and the limit of 2 s,
    /// every 500 ms. The remaining time of the limit is for the request and one repetition.
    pub(crate) ships_per_lag: u32,
    /// When more bytes than this wait to be shipped, they are shipped before the interval ends.
    pub(crate) ship_bytes: u64,
    /// The largest chunk. A request has a second per MiB before it is repeated, so a stuck request with a
    /// larger chunk would cost much time.
    pub(crate) chunk_bytes_max: u64,
    /// The first attempt to create a slot may take half of the lag limit, but not less than this. So a
    /// request is not repeated merely because a healthy bucket is slow.
    pub(crate) slot_timeout_min: Duration,
    pub(crate) chunks_in_flight: usize,
    /// When chunks are merged, so that a restore reads few objects.
    pub(crate) merge: MergeLimits,
    /// At most one publish per interval unless somebody waits: 5 per second.
    pub(crate) publish_interval: Duration,
    /// For this long after RocksDB has opened, nothing is published or shipped unless a thread waits. RocksDB
    /// deletes the WALs that it has replayed in this time, so they are not shipped for nothing.
    pub(crate) settle_after_open: Duration,
    /// With durability `local`, a publish that would ship more bytes of the log than this waits for flushes
    /// first.
    pub(crate) spared_log_bytes: u64,
    /// With durability `local`, how long a publish waits for flushes that make bytes of the log superfluous.
    /// It is the time of several flushes of 64 MiB, compressed on one core.
    pub(crate) flush_patience: Duration,
    /// The owner writes its hint once in this time, and looks for a successor with every second hint. That is
    /// 3 requests in 130 s, at most 15 in 10 minutes, which leaves room for the requests of a flush of older
    /// changes.
    pub(crate) alive_interval: Duration,
    /// How long a starting server watches an owner that shows no sign of life. It is two intervals and 10 s
    /// for slow requests, so that one hint may get lost. A server that starts looks every 5 s, and has the
    /// database open within 150 s.
    pub(crate) alive_patience: Duration,
    /// When the file map is split into parts, so that a publish costs only what has changed.
    pub(crate) map: MapLimits,
    /// A MANIFEST that would have more objects than this is uploaded again as a copy of few objects, so that
    /// a restore reads few.
    pub(crate) manifest_chunks_max: usize,
    /// How many roots are kept besides the newest one, so that people can look at them.
    pub(crate) roots_kept: u64,
    pub(crate) gc: GcTuning,
    /// Whether a publish waits until the WAL is shipped (gate PUB-G2). Only a test switches this off, to show
    /// that the gate is needed.
    pub(crate) gate_wal: bool,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            ship_interval: Duration::from_millis(100),
            ships_per_lag: 4,
            ship_bytes: 256 << 10,
            chunk_bytes_max: 2 << 20,
            slot_timeout_min: Duration::from_millis(500),
            chunks_in_flight: 4,
            merge: MergeLimits::SERVER,
            publish_interval: Duration::from_millis(200),
            settle_after_open: Duration::from_millis(500),
            spared_log_bytes: 1 << 20,
            flush_patience: Duration::from_secs(5),
            alive_interval: Duration::from_secs(65),
            alive_patience: Duration::from_secs(140),
            map: MapLimits { small_files: 256, part_files: 4096, changes_bytes: 10 << 10, parts_max: 40 },
            manifest_chunks_max: 20,
            roots_kept: 16,
            gc: GcTuning::default(),
            gate_wal: true,
        }
    }
}

/// What happens to the objects that former epochs left in the bucket, once this epoch has a root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Former {
    /// They stay until RocksDB is open and has replayed everything in front of the record that starts at this
    /// sequence number. This is the last record of the bucket's WAL. 0: the bucket has no record that must be
    /// replayed.
    NeededTo(u64),
    /// The collector may delete them.
    Superfluous,
    /// They stay as long as this process lives, because something was wrong at open.
    Kept,
}

/// What RocksDB has reported so far, and what waits to be shipped and published.
#[derive(Debug)]
pub(crate) struct State {
    /// Durable length of each MANIFEST.
    pub(crate) manifests: BTreeMap<u64, u64>,
    /// The MANIFEST that CURRENT names.
    pub(crate) current: Option<u64>,
    /// When CURRENT was set for the first time.
    pub(crate) opened_at: Option<Instant>,
    pub(crate) wal: WalTable,
    pub(crate) former: Former,
    /// The number of the last request to publish, and of the last one that was fulfilled.
    pub(crate) publish_asked: u64,
    pub(crate) publish_done: u64,
    /// A thread waits until the WAL is shipped up to this position.
    pub(crate) ship_wanted: u64,
    /// Gate PUB-G2: the WAL up to here must be in the bucket before the next root, see
    /// [`super::store::Store::note_drop`].
    pub(crate) drop_noted: u64,
    /// Since when there are unpublished changes that no snapshot of the publisher contains.
    pub(crate) dirty_since: Option<Instant>,
    /// Since when there are unpublished changes in the snapshot that the publisher is publishing now.
    pub(crate) publishing_since: Option<Instant>,
    pub(crate) closing: bool,
    /// Why this process may not write any more: another owner, or a background task that died.
    pub(crate) fenced: Option<StoreError>,
}

/// This server as the owner of the database.
#[derive(Debug, Clone)]
pub(crate) struct Owner {
    pub(crate) local_dir: PathBuf,
    pub(crate) db_uuid: String,
    pub(crate) server_id: String,
    pub(crate) epoch: OwnEpoch,
}

/// What all tasks and threads of one open database have in common.
pub(crate) struct Shared {
    pub(crate) bucket: Bucket,
    pub(crate) files: Arc<Files>,
    pub(crate) log: LogFn,
    pub(crate) local_dir: PathBuf,
    pub(crate) db_uuid: String,
    pub(crate) server_id: String,
    pub(crate) epoch: u64,
    /// The nonce of the epoch's claim, for the marker.
    pub(crate) claim_nonce: Nonce,
    pub(crate) tuning: Tuning,
    pub(crate) path: CommitPath,
    pub(crate) state: Mutex<State>,
    /// The position of the newest commits. A thread takes this lock after all others and holds it briefly.
    pub(crate) commits: Mutex<Tracker>,
    pub(crate) changed: Condvar,
    pub(crate) wake_publisher: Notify,
    pub(crate) wake_shipper: Notify,
    pub(crate) wake_watch: Notify,
    /// What the publisher passes to the collector.
    pub(crate) inbox: Inbox,
    /// How much history is kept, and which roots wait for a pin.
    pub(crate) history: HistoryQueue,
    /// The keys of the pins of this process's mounts (mount.rs).
    pub(crate) mounts: Mutex<BTreeSet<String>>,
    /// Wakes the merger: chunks have arrived, or a root names the last merged objects, so there may be more
    /// to merge.
    pub(crate) wake_merger: Notify,
    /// Signalled when a merged object waits for a root that names it.
    pub(crate) merged: Notify,
    /// Signalled when the shipped position moves, for the publisher, whose gate waits for it.
    pub(crate) shipped: Notify,
    /// The last published slot of this epoch; 0 before the first root.
    pub(crate) slot: AtomicU64,
    reported: Mutex<Option<Instant>>,
}

/// Failures are logged at most once in this time. The status variable always shows the newest one.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

impl State {
    pub(crate) fn new() -> Self {
        Self {
            manifests: BTreeMap::new(),
            current: None,
            opened_at: None,
            wal: WalTable::new(),
            former: Former::NeededTo(0),
            publish_asked: 0,
            publish_done: 0,
            ship_wanted: 0,
            drop_noted: 0,
            dirty_since: None,
            publishing_since: None,
            closing: false,
            fenced: None,
        }
    }

    /// Whether RocksDB has been open for `age`.
    pub(crate) fn is_open_for(&self, age: Duration) -> bool {
        self.opened_at.is_some_and(|opened| opened.elapsed() >= age)
    }

    pub(crate) fn set_dirty(&mut self) {
        self.dirty_since.get_or_insert_with(Instant::now);
    }

    /// Since when there are unpublished changes. None: the newest root has everything.
    pub(crate) fn unpublished_since(&self) -> Option<Instant> {
        [self.dirty_since, self.publishing_since].into_iter().flatten().min()
    }
}

impl Shared {
    pub(crate) fn new(
        bucket: Bucket,
        files: Arc<Files>,
        owner: Owner,
        path: CommitPath,
        tuning: Tuning,
        log: LogFn,
    ) -> Self {
        Self {
            bucket,
            files,
            log,
            local_dir: owner.local_dir,
            db_uuid: owner.db_uuid,
            server_id: owner.server_id,
            epoch: owner.epoch.number,
            claim_nonce: owner.epoch.nonce,
            tuning,
            path,
            state: Mutex::new(State::new()),
            commits: Mutex::default(),
            changed: Condvar::new(),
            wake_publisher: Notify::new(),
            wake_shipper: Notify::new(),
            wake_watch: Notify::new(),
            inbox: Inbox::default(),
            history: HistoryQueue::default(),
            mounts: Mutex::default(),
            wake_merger: Notify::new(),
            merged: Notify::new(),
            shipped: Notify::new(),
            slot: AtomicU64::new(0),
            reported: Mutex::new(None),
        }
    }

    /// Returns the bucket with a timeout for the slots for which commits wait, so that a stuck request is
    /// repeated while the lag limit still has room for the repetition.
    pub(crate) fn slots(&self) -> Bucket {
        self.bucket.with_slot_timeout((self.path.lag_max() / 2).max(self.tuning.slot_timeout_min))
    }

    /// Locks the state, and adds the appends and syncs that threads have counted without the lock.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock();
        let synced = self.path.synced_position();
        state.wal.catch_up(synced, self.path.position());
        state
    }

    /// Passes the position of the WAL table to the commit path, after a change that was made under the lock.
    pub(crate) fn sync_path(&self, state: &State) {
        match state.wal.active() {
            Some((wal, base)) => self.path.activate(wal, base),
            None => self.path.deactivate(),
        }
        if state.wal.position() > self.path.position() {
            self.path.advance(state.wal.position());
        }
    }

    /// Gate PUB-G8: bytes behind `position` are replayed only over a root that is published from now on.
    pub(crate) fn note_ddl(&self, state: &mut State, position: u64) {
        let number = self.path.note_ddl();
        state.wal.ddl_noted(position, number);
        state.set_dirty();
        self.wake_publisher.notify_one();
    }

    /// Moves the covered position as far as the chunks and roots in the bucket allow, and wakes the threads
    /// that wait for it.
    pub(crate) fn cover(&self, state: &mut State) {
        let covered = state.wal.cover(self.path.ddl_published());
        let position = covered.unwrap_or_else(|| self.path.covered());
        let later_since = state.wal.appended_after(position);
        self.path.set_covered(position, later_since);
        self.changed.notify_all();
    }

    /// Opens a WAL for shipping; None when RocksDB has deleted it.
    pub(crate) fn open_wal(&self, number: u64) -> std::io::Result<Option<Arc<File>>> {
        match File::open(wal_path(&self.local_dir, number)) {
            Ok(file) => Ok(Some(Arc::new(file))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// If there is a history, opens the newest WAL and keeps it open. So a WAL that RocksDB deletes is still
    /// shipped to its end. Otherwise the history would lack the commits at the end of that WAL.
    pub(crate) fn hold_wals(&self) {
        if self.history.limits().is_on() {
            self.state.lock().wal.hold(|number| self.open_wal(number).ok().flatten());
        }
    }

    /// Takes this process's right to write away. If this is called again, the first reason stays.
    pub(crate) fn set_fenced(&self, error: StoreError) {
        let mut state = self.state.lock();
        if state.fenced.is_none() {
            (self.log)(Level::Error, &error.to_string());
            self.bucket.stats().set_last_error(&error.to_string());
            state.fenced = Some(error.clone());
        }
        self.path.set_fenced();
        drop(state);
        self.files.fence(error);
        self.wake_all();
    }

    pub(crate) fn fenced_by(&self, fence: &Fence) {
        self.set_fenced(fenced_error(self.epoch, fence));
    }

    /// A slot of this server's own epoch has an object that this server did not write and that is no fence.
    /// So this server stops writing.
    pub(crate) fn slot_taken(&self, key: &str) {
        self.set_fenced(StoreError::Fenced(format!(
            "{key} in the bucket was written by another process in this server's own epoch {}: this server stops \
             writing. Look for a second server on a copy of the same data directory",
            self.epoch
        )));
    }

    /// Returns the reason as an error once this process is fenced.
    pub(crate) fn check_fence(&self) -> Result<()> {
        if !self.path.is_fenced() {
            return Ok(());
        }
        let reason = self.state.lock().fenced.clone();
        Err(reason.unwrap_or_else(|| StoreError::Fenced("a newer server owns the database".to_owned())))
    }

    /// Whether the background tasks should end.
    pub(crate) fn is_ending(&self) -> bool {
        self.path.is_fenced() || self.state.lock().closing
    }

    pub(crate) fn wake_all(&self) {
        self.wake_publisher.notify_one();
        self.wake_shipper.notify_one();
        self.wake_watch.notify_one();
        self.wake_merger.notify_one();
        self.inbox.wake.notify_one();
        self.shipped.notify_waiters();
        self.changed.notify_all();
    }

    /// Reports a failure that will be tried again.
    pub(crate) fn report(&self, what: &str, error: &StoreError) {
        let message = format!("{what}: {error}. It is tried again until it works");
        self.bucket.stats().set_last_error(&message);
        let mut reported = self.reported.lock();
        if reported.is_none_or(|last| last.elapsed() >= REPORT_INTERVAL) {
            *reported = Some(Instant::now());
            (self.log)(Level::Warning, &message);
        }
    }

    #[cfg(test)]
    pub(crate) fn is_dirty(&self) -> bool {
        self.state.lock().unpublished_since().is_some()
    }

    pub(crate) fn published_slot(&self) -> u64 {
        self.slot.load(Ordering::SeqCst)
    }
}
