//! What the store, the shipper, the publisher and the collector of one open database share.
//!
//! Lock rule: every event that RocksDB reports locks `state`, except an append to the newest WAL after its
//! first bytes and, with durability `local`, a sync of that WAL. A thread holds this lock for work in memory
//! and to open local files, never during a request or a sync. A thread that holds the lock of `state` is
//! allowed to lock `Files`; a thread that holds a lock of `Files` must not lock `state`. `changed` is the
//! condition variable of `state`. It is signalled whenever a thread that waits for a change of `state` may
//! be able to go on.

use super::gc::{GcTuning, HistoryQueue, Inbox};
use crate::config::Durability;
use crate::error::{Result, StoreError};
use crate::files::Files;
use crate::log::{Level, LogFn};
use crate::protocol::format::codec::Nonce;
use crate::protocol::format::records::Fence;
use crate::protocol::format::settings_record::KeptSettings;
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

/// The intervals, sizes and limits by which the tasks of an open database work. A server uses the default
/// values; tests use shorter intervals and smaller sizes.
#[derive(Debug, Clone)]
pub(crate) struct Tuning {
    /// While no thread waits for the log to be in the bucket, the shipper cuts a chunk after this time. With
    /// durability `async` it waits for a part of the lag limit if that is longer, see `ships_per_lag`.
    pub(crate) ship_interval: Duration,
    /// With durability `async`, a chunk is cut this many times per lag limit: with 4 and the limit of 2 s,
    /// every 500 ms. The remaining time of the limit is for the request and one repetition.
    pub(crate) ships_per_lag: u32,
    /// When more bytes of the log than this wait to be shipped, the shipper cuts a chunk before the interval
    /// ends.
    pub(crate) ship_bytes: u64,
    /// The most bytes of the log in one chunk. A request is repeated when it has not been answered within a
    /// second per MiB. So with larger chunks, a request that is never answered would cost more time.
    pub(crate) chunk_bytes_max: u64,
    /// The least timeout of the first attempt to create a slot. The timeout is half of the lag limit. With a
    /// very small lag limit it is this time instead, so that a request is not repeated merely because a
    /// healthy bucket is slow.
    pub(crate) slot_timeout_min: Duration,
    pub(crate) chunks_in_flight: usize,
    /// The limits that decide when the merger replaces many chunks by one merged object, so that a restore
    /// reads few objects.
    pub(crate) merge: MergeLimits,
    /// The publisher begins at most one publish per interval, so 5 per second by default, unless a thread
    /// waits for a publish.
    pub(crate) publish_interval: Duration,
    /// For this long after RocksDB has opened, nothing is published or shipped unless a thread waits. In this
    /// time RocksDB deletes the WALs that it has replayed. If they were shipped before, nobody would need the
    /// chunks.
    pub(crate) settle_after_open: Duration,
    /// With durability `local`, a publish that would ship more bytes of the log than this first waits for
    /// flushes, which can make these bytes superfluous.
    pub(crate) spared_log_bytes: u64,
    /// With durability `local`, how long a publish waits for flushes that make bytes of the log superfluous.
    /// It is the time of several flushes of 64 MiB, compressed on one core.
    pub(crate) flush_patience: Duration,
    /// The owner writes the hint that it lives once in this time. With every second hint, it also reads
    /// whether a successor has fenced it. That is 3 requests in 130 s, at most 15 in 10 minutes, which leaves
    /// room for the requests of a flush of older changes.
    pub(crate) alive_interval: Duration,
    /// How long a starting server watches an owner that shows no sign of life before it takes over. It is two
    /// intervals and 10 s for slow requests, so that an owner does not seem dead when one hint gets lost. A
    /// starting server looks every 5 s, and has the database open within 150 s.
    pub(crate) alive_patience: Duration,
    /// The limits that decide when a file map is stored in parts, so that a publish uploads only what has
    /// changed.
    pub(crate) map: MapLimits,
    /// A MANIFEST that would have more objects than this is uploaded again as a copy of few objects, so that
    /// a restore reads few.
    pub(crate) manifest_chunks_max: usize,
    /// How many older roots of this epoch the collector keeps besides the newest one, so that people can look
    /// at them.
    pub(crate) roots_kept: u64,
    pub(crate) gc: GcTuning,
    /// True: a publish waits until the WAL that its root needs is in the bucket (gates PUB-G2, PUB-G7). Only
    /// tests set this to false, to show that these gates are needed.
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

/// Whether the collector is allowed to delete the objects that former epochs left in the bucket, once this
/// epoch has a root. The state is set when the database is opened, and once more when RocksDB has replayed
/// the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Former {
    /// They stay until RocksDB is open and has replayed all records of the bucket's WAL before the last one.
    /// The number is the sequence number at which that last record starts. 0: the bucket has no record that
    /// must be replayed.
    NeededTo(u64),
    /// RocksDB has replayed the bucket's WAL to its end, so the collector is allowed to delete them.
    Superfluous,
    /// They stay as long as this process lives, because the local log could not be compared with the bucket's
    /// to the end, or because RocksDB's replay ended too early.
    Kept,
}

/// What RocksDB has reported so far, and what waits to be shipped and published.
#[derive(Debug)]
pub(crate) struct State {
    /// For each MANIFEST, by its number: how many of its first bytes are durable on local disk.
    pub(crate) manifests: BTreeMap<u64, u64>,
    /// The number of the MANIFEST that CURRENT names. None: RocksDB has not opened the database yet.
    pub(crate) current: Option<u64>,
    /// When this process set CURRENT for the first time. None: RocksDB has not opened the database yet.
    pub(crate) opened_at: Option<Instant>,
    pub(crate) wal: WalTable,
    pub(crate) former: Former,
    /// Requests to publish are numbered. These are the number of the last request, and of the last request
    /// that a root has fulfilled. A thread that waits for a publish compares them.
    pub(crate) publish_asked: u64,
    pub(crate) publish_done: u64,
    /// A thread or the publisher waits until the WAL up to this position is in the bucket, so the shipper
    /// uploads it at once.
    pub(crate) ship_wanted: u64,
    /// Gate PUB-G7: the WAL up to this position must be in the bucket before the next root is created, see
    /// [`super::store::Store::note_drop`].
    pub(crate) drop_noted: u64,
    /// Since when there are changes that the publisher has not begun to publish. None: there are no such
    /// changes.
    pub(crate) dirty_since: Option<Instant>,
    /// Since when the changes that the publisher is publishing now have waited for a root. None: it is
    /// publishing no changes.
    pub(crate) publishing_since: Option<Instant>,
    pub(crate) closing: bool,
    /// Why this process is not allowed to write any more: another owner, or a background task that died.
    /// None: it is allowed to write.
    pub(crate) fenced: Option<StoreError>,
}

/// Who this server is as the owner of the database, and where its local directory is.
#[derive(Debug, Clone)]
pub(crate) struct Owner {
    pub(crate) local_dir: PathBuf,
    pub(crate) db_uuid: String,
    pub(crate) masked_in: Vec<String>,
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
    /// `Identity::masked_in` of the database.
    pub(crate) masked_in: Vec<String>,
    pub(crate) server_id: String,
    pub(crate) epoch: u64,
    /// The nonce of this epoch's claim. The marker stores it, so that the next start notices when the bucket
    /// has another claim of this epoch.
    pub(crate) claim_nonce: Nonce,
    pub(crate) tuning: Tuning,
    pub(crate) path: CommitPath,
    pub(crate) state: Mutex<State>,
    /// The newest commits, which the next root records. A thread takes this lock after all others and holds
    /// it briefly.
    pub(crate) commits: Mutex<Tracker>,
    pub(crate) changed: Condvar,
    pub(crate) wake_publisher: Notify,
    pub(crate) wake_shipper: Notify,
    pub(crate) wake_watch: Notify,
    /// What the publisher passes to the collector: what the newest root needs, and the keys of superfluous
    /// objects.
    pub(crate) inbox: Inbox,
    /// How much history is kept, and which roots wait for a pin.
    pub(crate) history: HistoryQueue,
    /// The settings of the database (kept_settings.rs), as this process has last read or changed them.
    pub(crate) settings: Mutex<KeptSettings>,
    /// The keys of the pins that keep the states which this process has mounted for reading (mount.rs). The
    /// collector deletes every other pin of a mount.
    pub(crate) mounts: Mutex<BTreeSet<String>>,
    /// Wakes the task that merges chunks: chunks have arrived, or a root names the last merged object, so
    /// there may be more to merge.
    pub(crate) wake_merger: Notify,
    /// Signalled when a merged object is in the bucket and waits until the publisher creates a root that
    /// names it.
    pub(crate) merged: Notify,
    /// Signalled when the shipped position moves, for the publisher, whose gate waits for it.
    pub(crate) shipped: Notify,
    /// The last published slot of this epoch; 0 before the first root.
    pub(crate) slot: AtomicU64,
    reported: Mutex<Option<Instant>>,
}

/// At most one failure is logged in this time. The newest failure is kept in any case, for
/// `StoreStats::last_error`.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// The operation of an error that does not end: this process is not allowed to write any more.
const NEVER: &str = "writing to the database of another owner";

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

    /// Whether RocksDB has been open for at least `age`.
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
            masked_in: owner.masked_in,
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
            settings: Mutex::default(),
            mounts: Mutex::default(),
            wake_merger: Notify::new(),
            merged: Notify::new(),
            shipped: Notify::new(),
            slot: AtomicU64::new(0),
            reported: Mutex::new(None),
        }
    }

    /// Whether the log is shipped as it is written. Otherwise, with durability `local` and without a history,
    /// it is shipped only when a thread or a root needs it.
    pub(crate) fn ships_all(&self) -> bool {
        self.path.durability() != Durability::Local || self.history.limits().is_on()
    }

    /// Returns the bucket with a shorter timeout for the creation of slots. Commits wait for these slots. So
    /// a request that is never answered is repeated while the lag limit still leaves time for the repetition.
    pub(crate) fn slots(&self) -> Bucket {
        self.bucket.with_slot_timeout((self.path.lag_max() / 2).max(self.tuning.slot_timeout_min))
    }

    /// Locks the state, and adds to the WAL table the appends and syncs that threads have counted without the
    /// lock.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock();
        let synced = self.path.synced_position();
        state.wal.catch_up(synced, self.path.position());
        state
    }

    /// Passes the newest WAL and the position from the WAL table to the atomics of the commit path (lag.rs).
    /// A caller does this after each change of the table, while it holds the lock.
    pub(crate) fn sync_path(&self, state: &State) {
        match state.wal.active() {
            Some((wal, base)) => self.path.activate(wal, base),
            None => self.path.deactivate(),
        }
        if state.wal.position() > self.path.position() {
            self.path.advance(state.wal.position());
        }
    }

    /// Notes that the WAL bytes after `position` depend on something that no root has yet: on a MANIFEST
    /// edit, or on log that is never shipped. So a restore replays these bytes only over a root that is
    /// published from now on (gate PUB-G8).
    pub(crate) fn note_ddl(&self, state: &mut State, position: u64) {
        let number = self.path.note_ddl();
        state.wal.ddl_noted(position, number);
        state.set_dirty();
        self.wake_publisher.notify_one();
    }

    /// Raises the covered position, up to which a restore from the bucket finds all commits, as far as the
    /// chunks and roots in the bucket allow. Wakes the threads that wait for it.
    pub(crate) fn cover(&self, state: &mut State) {
        let covered = state.wal.cover(self.path.ddl_published());
        let position = covered.unwrap_or_else(|| self.path.covered());
        let later_since = state.wal.appended_after(position);
        self.path.set_covered(position, later_since);
        self.changed.notify_all();
    }

    /// Opens a WAL for shipping. None: RocksDB has deleted it. Errors: all others of the local disk.
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

    /// Takes this process's right to write away, for the reason `error`. If this is called again, the first
    /// reason stays.
    pub(crate) fn set_fenced(&self, error: StoreError) {
        let mut state = self.state.lock();
        if state.fenced.is_none() {
            (self.log)(Level::Error, &error.to_string());
            self.bucket.stats().last_error.set(NEVER, &error.to_string());
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

    /// Returns an error, the reason, once this process is not allowed to write any more.
    pub(crate) fn check_fence(&self) -> Result<()> {
        if !self.path.is_fenced() {
            return Ok(());
        }
        let reason = self.state.lock().fenced.clone();
        Err(reason.unwrap_or_else(|| StoreError::Fenced("a newer server owns the database".to_owned())))
    }

    /// Whether the background tasks should end, because the store closes or this process is fenced.
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

    /// Reports that `what` has failed and will be tried again. The newest failure replaces the last error in
    /// the status, until `what` works again; the log gets at most one failure per `REPORT_INTERVAL`.
    pub(crate) fn report(&self, what: &'static str, error: &StoreError) {
        let message = format!("{what}: {error}. It is tried again until it works");
        self.bucket.stats().last_error.explain(what, &error.to_string(), &message);
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
