//! The interface of one open database in one bucket, for the C ABI (crate `objstore-ffi`) and the tests.
//!
//! RocksDB's file system reports here what happens to MANIFEST and WAL, and committing threads ask here
//! whether they must wait. Table files have an interface of their own, [`Files`].
//!
//! Threads: every method can be called from any thread except those of a tokio runtime.

use super::gc;
use super::gc::HistoryLimits;
use super::shared::{Former, Shared, State};
use crate::config::{Durability, StoreConfig};
use crate::error::{Result, StoreError};
use crate::files::Files;
use crate::log::{Level, LogFn};
use crate::machine::{self, Executor};
use crate::protocol::format::records::{Alive, RootId, RootSlot};
use crate::protocol::format::slots::read_root_slot;
use crate::protocol::publish::publisher::Publisher;
use crate::protocol::publish::shared_notes::write_note;
use crate::protocol::start::alive;
use crate::protocol::start::aside::note_closed;
use crate::protocol::start::claim::wall_clock_ms;
use crate::protocol::start::opener::Opener;
use crate::protocol::wal::marks::Gtid;
use crate::protocol::wal::merger;
use crate::protocol::wal::position::NotedCommit;
use crate::protocol::wal::replay::short_replay;
use crate::protocol::wal::shipper;
use parking_lot::Mutex;
use std::fs::File;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// An open database. This process is its owner until it closes the database or another server fences it.
pub struct Store {
    pub(super) shared: Arc<Shared>,
    was_restored: bool,
    executor: Mutex<Option<Executor>>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
    /// The lock file of the local directory. This process holds the lock while the file is open, so that no
    /// other process uses the directory.
    lock: File,
}

impl Store {
    /// Connects to the bucket of `config`, claims the database, and restores the local directory if it is
    /// absent.
    ///
    /// Makes one attempt. Use [`Opener`] for a start that may have to wait until another owner counts as
    /// dead. Errors: `Invalid`, `Unavailable`, `ReadOnly`, `Corruption`, as `atoll_store_open` in objstore.h
    /// says.
    pub fn open(config: &StoreConfig, log: LogFn) -> Result<Arc<Self>> {
        Opener::default().open(config, log)
    }

    pub(crate) fn start(shared: Arc<Shared>, on: Executor, lock: File, was_restored: bool) -> Arc<Self> {
        let publisher = Publisher::new(shared.clone());
        let supervisor = shared.files.supervisor();
        let owner = Arc::downgrade(&shared);
        supervisor.on_death(Box::new(move |error| {
            if let Some(shared) = owner.upgrade() {
                shared.set_fenced(error);
            }
        }));
        let is_ending = |shared: Arc<Shared>| move || shared.is_ending();
        let tasks = vec![
            supervisor.spawn("shipper of the log", is_ending(shared.clone()), shipper::run(shared.clone())),
            supervisor.spawn("merger of the log", is_ending(shared.clone()), merger::run(shared.clone())),
            supervisor.spawn("publisher", is_ending(shared.clone()), publisher.run()),
            supervisor.spawn("collector", is_ending(shared.clone()), gc::run(shared.clone())),
            supervisor.spawn("watch for other owners", is_ending(shared.clone()), watch(shared.clone())),
        ];
        let (executor, tasks) = (Mutex::new(Some(on)), Mutex::new(tasks));
        Arc::new(Self { shared, was_restored, executor, tasks, lock })
    }

    /// Waits at most `timeout` until everything local is in the bucket, then writes the hint that the owner
    /// has closed the database. The hint tells other servers and `atollctl` that the bucket has everything, so
    /// it is not written when something could not be published: they then treat this owner as one that may
    /// live.
    ///
    /// Errors: `Unavailable` when something could not be published; `Fenced`. The store is closed in spite of
    /// an error.
    pub fn close(&self, timeout: Duration) -> Result<()> {
        let deadline = Instant::now() + timeout;
        let published = self.publish(timeout);
        self.shared.state.lock().closing = true;
        self.shared.wake_all();
        let Some(executor) = self.executor.lock().take() else { return Ok(()) };
        // The tasks have at least a second to end in order, even if the publish has used up the time.
        let rest = deadline.saturating_duration_since(Instant::now()).max(Duration::from_secs(1));
        let tasks: Vec<_> = std::mem::take(&mut *self.tasks.lock());
        executor.block_on(async {
            let _ = tokio::time::timeout(rest, self.end(tasks, published.is_ok())).await;
        });
        executor.shutdown_timeout(Duration::from_secs(1));
        // From now on another process can take over the directory, even while a caller still has a reference
        // to this store.
        let _ = self.lock.unlock();
        published
    }

    async fn end(&self, tasks: Vec<JoinHandle<()>>, is_published: bool) {
        let shared = &self.shared;
        // The tasks get only 800 ms to finish their requests, because publish() has already waited for the
        // uploads.
        let aborts: Vec<_> = tasks.iter().map(JoinHandle::abort_handle).collect();
        if tokio::time::timeout(Duration::from_millis(800), futures_util::future::join_all(tasks))
            .await
            .is_err()
        {
            aborts.iter().for_each(tokio::task::AbortHandle::abort);
        }
        shared.files.stop().await;
        if is_published && !shared.path.is_fenced() {
            // If this hint cannot be written, the next owner only has to wait until it believes that this one
            // is dead (alive.rs).
            let _ = alive::show(&shared.bucket, &hint(shared, u64::MAX, Some(u64::MAX))).await;
            // Without this note, the directory only counts as one that may have more than the bucket.
            let _ = note_closed(&shared.local_dir);
        }
    }

    /// Whether open() restored the local directory from the bucket.
    pub fn was_restored(&self) -> bool {
        self.was_restored
    }

    /// Returns the newest GTID of each replication domain among the commits that the database has.
    pub fn newest_gtids(&self) -> Vec<Gtid> {
        self.shared.commits.lock().position().gtids.values().copied().collect()
    }

    /// Returns the interface of the database's table files.
    pub fn files(&self) -> &Arc<Files> {
        &self.shared.files
    }

    /// Makes table file `number` share the object of table file `from` (`atoll_store_share_file` in
    /// objstore.h). This is durable on local disk when the function returns.
    ///
    /// Errors: as [`Files::uploaded_record`]; `Unavailable`, `NoSpace` (local disk).
    pub fn share_file(&self, from: u64, number: u64) -> Result<()> {
        let record = self.files().uploaded_record(from)?;
        let shared = write_note(&self.shared.local_dir, &self.shared.db_uuid, number, record)?;
        self.files().share(Some(from), shared)
    }

    /// RocksDB reports that the first `length` bytes of MANIFEST `number` are durable.
    pub fn manifest_synced(&self, number: u64, length: u64) {
        let mut state = self.shared.lock();
        let known = state.manifests.entry(number).or_insert(0);
        *known = (*known).max(length);
        if state.current == Some(number) {
            state.set_dirty();
            self.shared.wake_publisher.notify_one();
        }
    }

    /// RocksDB reports that CURRENT names MANIFEST `number`.
    pub fn current_set(&self, number: u64) {
        let mut state = self.shared.lock();
        state.current = Some(number);
        state.opened_at.get_or_insert_with(Instant::now);
        state.set_dirty();
        drop(state);
        self.shared.wake_all();
    }

    /// RocksDB is open, and `last_sequence` is the number of its last change. Before this call no object of
    /// former epochs is deleted from the bucket. If the replay ended before the end of the bucket's WAL, no
    /// such object is deleted as long as this process lives, and an error is logged. No request.
    pub fn opened(&self, last_sequence: u64) {
        let mut state = self.shared.lock();
        let Former::NeededTo(start) = state.former else { return };
        let is_whole = last_sequence.saturating_add(1) >= start;
        state.former = if is_whole { Former::Superfluous } else { Former::Kept };
        drop(state);
        self.shared.inbox.wake.notify_one();
        if !is_whole {
            (self.shared.log)(Level::Error, &short_replay(&self.shared.local_dir, last_sequence, start));
        }
    }

    /// RocksDB has made a MANIFEST edit on which later WAL bytes depend. A restore replays these bytes only
    /// over a root that contains the edit (gate PUB-G8).
    pub fn note_ddl(&self) {
        let mut state = self.shared.lock();
        let position = state.wal.position();
        self.shared.note_ddl(&mut state, position);
    }

    /// Data is about to leave the MANIFEST. The WAL bytes appended before this call have removed the last
    /// reference to it.
    ///
    /// A root without the data waits until those bytes are in the bucket (gate PUB-G7). Otherwise a restore
    /// would find a reference to data that is gone.
    pub fn note_drop(&self) {
        let mut state = self.shared.lock();
        state.drop_noted = state.wal.position();
    }

    /// RocksDB has created WAL `number`.
    pub fn wal_created(&self, number: u64) {
        let mut state = self.shared.lock();
        state.wal.created(number);
        self.shared.sync_path(&state);
        drop(state);
        self.shared.hold_wals();
    }

    /// The server's recovery has written the end of a commit (two-phase commit) into the log. Possibly a
    /// former process has acknowledged this commit. So with durability `async`, no new commit is acknowledged
    /// before the bucket covers this one (`lag.rs`, LAG-3). No request.
    pub fn note_recovered(&self) {
        self.shared.path.set_inherited();
    }

    /// RocksDB reports that WAL `number` has `length` bytes now. Costs a few atomic operations. It locks the
    /// state only for the first bytes of a WAL, and for a WAL that is not the newest.
    pub fn wal_appended(&self, number: u64, length: u64) {
        if !self.shared.path.appended(number, length) {
            let mut state = self.shared.lock();
            state.wal.appended(number, length);
            self.shared.sync_path(&state);
        }
    }

    /// RocksDB reports that the first `length` bytes of WAL `number` are durable. With durability `local`
    /// this costs a few atomic operations: no commit waits for the shipper, and the shipper reads the atomics
    /// when it looks for bytes. Otherwise this locks the state, and wakes the shipper when many bytes wait to
    /// be shipped.
    pub fn wal_synced(&self, number: u64, length: u64) {
        let path = &self.shared.path;
        if path.durability() == Durability::Local && path.synced(number, length) {
            return;
        }
        let mut state = self.shared.lock();
        state.wal.synced(number, length);
        self.shared.sync_path(&state);
        let is_much = state.wal.uncut_bytes() > self.shared.tuning.ship_bytes;
        drop(state);
        if is_much && self.shared.ships_all() {
            self.shared.wake_shipper.notify_one();
        }
    }

    /// RocksDB reports that WAL `number` will not grow beyond `length`.
    pub fn wal_closed(&self, number: u64, length: u64) {
        let mut state = self.shared.lock();
        state.wal.closed(number, length);
        self.shared.sync_path(&state);
    }

    /// RocksDB reports that it no longer needs WAL `number`.
    pub fn wal_deleted(&self, number: u64) {
        let mut state = self.shared.lock();
        if let Some(position) = state.wal.deleted(number) {
            self.shared.note_ddl(&mut state, position);
        }
        state.set_dirty();
        drop(state);
        self.shared.wake_publisher.notify_one();
    }

    /// A commit was written to the WAL; see `atoll_store_note_commit` in objstore.h.
    pub fn note_commit(&self, commit: &NotedCommit) {
        self.shared.commits.lock().note(commit);
    }

    /// How many bytes this process has appended to the WAL so far.
    pub fn wal_position(&self) -> u64 {
        self.shared.path.position()
    }

    /// Waits until the bucket covers the WAL up to `position` and every MANIFEST edit noted before.
    ///
    /// Errors: `Fenced`, `Unavailable` after `timeout`, `Interrupted` at close.
    pub fn wait_shipped(&self, position: u64, timeout: Duration) -> Result<()> {
        let path = &self.shared.path;
        let ddl = path.ddl_noted();
        if !path.is_fenced() && path.is_covered(position, ddl) {
            return Ok(());
        }
        self.want(position, ddl);
        self.wait(timeout, "the bucket has not taken the last commits", |_| path.is_covered(position, ddl))
    }

    /// A commit calls this before it is acknowledged, and waits here as its durability demands; see
    /// `atoll_store_after_commit` in objstore.h.
    pub fn after_commit(&self, position: u64, timeout: Duration) -> Result<()> {
        let path = &self.shared.path;
        if path.is_fenced() {
            return self.shared.check_fence();
        }
        match path.durability() {
            Durability::Local => Ok(()),
            Durability::Sync => self.wait_shipped(position, timeout),
            Durability::Async if path.is_within_bounds() => Ok(()),
            Durability::Async => {
                self.want(position, path.ddl_noted());
                self.wait(timeout, "the bucket lags more behind than atoll's limits allow", |_| {
                    path.durability() == Durability::Local || path.is_within_bounds()
                })
            }
        }
    }

    /// Publishes everything that is local now: MANIFEST, table files and WAL.
    ///
    /// Errors: as `wait_shipped`.
    pub fn publish(&self, timeout: Duration) -> Result<()> {
        self.shared.check_fence()?;
        let path = &self.shared.path;
        let (ticket, position, ddl) = {
            let mut state = self.shared.lock();
            if state.current.is_none() {
                // RocksDB has not been opened: nothing is local.
                return Ok(());
            }
            state.publish_asked += 1;
            state.ship_wanted = state.ship_wanted.max(state.wal.position());
            (state.publish_asked, state.wal.position(), path.ddl_noted())
        };
        self.shared.wake_all();
        self.wait(timeout, "the bucket has not taken everything that is local", |state| {
            state.publish_done >= ticket && path.is_covered(position, ddl)
        })
    }

    /// Returns an error once this process is not allowed to write any more: `Fenced` with the name of the new
    /// owner when that owner has closed this epoch, or the error that stopped the writing, for example of a
    /// background task that died. As long as writing is allowed, this costs one atomic load.
    pub fn may_write(&self) -> Result<()> {
        self.shared.check_fence()
    }

    /// Changes the durability, and how far the bucket may be behind with durability `async`.
    pub fn set_durability(&self, durability: Durability, lag_max: Duration, lag_bytes_max: u64) {
        self.shared.path.set_durability(durability, lag_max, lag_bytes_max);
        self.shared.wake_all();
    }

    /// Changes how much history is kept. If the history becomes shorter, the collector drops the pins that
    /// are too old, and later deletes the objects that only they kept.
    pub fn set_history(&self, limits: HistoryLimits) {
        self.shared.history.set_limits(limits);
        self.shared.hold_wals();
        self.shared.inbox.wake.notify_one();
        self.shared.wake_shipper.notify_one();
    }

    /// Asks the shipper to upload the WAL up to `position`, and the publisher to publish a root with the
    /// MANIFEST edit number `ddl`. Both begin without waiting for their intervals.
    pub(super) fn want(&self, position: u64, ddl: u64) {
        let shared = &self.shared;
        let mut state = shared.lock();
        state.ship_wanted = state.ship_wanted.max(position);
        if shared.path.ddl_published() < ddl {
            state.publish_asked += 1;
            state.set_dirty();
            shared.wake_publisher.notify_one();
        }
        drop(state);
        shared.wake_shipper.notify_one();
    }

    fn wait(&self, timeout: Duration, what: &str, is_done: impl Fn(&State) -> bool) -> Result<()> {
        let deadline = Instant::now() + timeout;
        let mut state = self.shared.state.lock();
        loop {
            if let Some(fenced) = &state.fenced {
                return Err(fenced.clone());
            }
            if is_done(&state) {
                return Ok(());
            }
            if state.closing {
                return Err(StoreError::Interrupted("the store is being closed".to_owned()));
            }
            // The age of the lag grows without any event that would wake this thread, so the condition is
            // checked every 50 ms at least.
            let rest = deadline.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return Err(self.late(timeout, what));
            }
            machine::wait_for(&self.shared.changed, &mut state, rest.min(Duration::from_millis(50)));
        }
    }

    fn late(&self, timeout: Duration, what: &str) -> StoreError {
        let last_error = self.shared.bucket.stats().last_error.message();
        let because =
            if last_error.is_empty() { String::new() } else { format!(". Last error: {last_error}") };
        let lag = self.shared.path.lag();
        StoreError::Unavailable(format!(
            "{what} within {} ms; it is {} bytes and {} ms behind. Nothing is lost locally{because}",
            timeout.as_millis(),
            self.shared.path.lag_bytes(),
            lag.as_millis()
        ))
    }
}

#[cfg(test)]
impl Store {
    /// Simulates the death of the process: the tasks end where they are, and nothing is written any more.
    pub(crate) fn kill(&self) {
        self.shared.state.lock().closing = true;
        self.tasks.lock().iter().for_each(JoinHandle::abort);
        self.shared.files.abort();
        if let Some(executor) = self.executor.lock().take() {
            executor.shutdown_timeout(Duration::from_secs(10));
        }
        self.lock.unlock().unwrap();
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl Drop for Store {
    /// A drop without close() is like a crash: nothing is flushed, and the tasks end where they are.
    fn drop(&mut self) {
        self.shared.state.lock().closing = true;
        if let Some(executor) = self.executor.lock().take() {
            executor.shutdown_background();
        }
    }
}

fn hint(shared: &Shared, counter: u64, covered_us: Option<u64>) -> Alive {
    let closed = covered_us == Some(u64::MAX);
    Alive { epoch: shared.epoch, server_id: shared.server_id.clone(), counter, closed, covered_us }
}

/// Returns the time for the field `covered_us` of the next hint, in microseconds since 1970: now, when the
/// bucket has everything, and otherwise the time of the last hint, `before`. A time that the clock has been
/// set back from does not count.
fn covered_us(shared: &Shared, before: Option<u64>) -> Option<u64> {
    // The clock is read first: a commit that was acknowledged before this moment is counted already.
    let now_us = wall_clock_ms() * 1000;
    if shared.path.is_all_covered() { Some(now_us) } else { before.filter(|before| *before <= now_us) }
}

/// The time after which the owner tries again to write the hint that it lives, when a request has failed. It
/// doubles with each failure, up to the interval of the hints. It is short because a server that waits to
/// take over must see a hint before it believes that this owner is dead.
const HINT_RETRY_DELAY: Duration = Duration::from_secs(5);

/// With every second hint, an owner reads its next root slot, to see whether a successor has put a fence
/// there. Only an idle owner needs this GET: one that publishes or ships finds the fence in the slot that it
/// tries to create.
const HINTS_PER_LOOK: u64 = 2;

/// Writes the hints that this owner is alive, and notices a fence even when nothing is written.
///
/// Requests: one PUT per `alive_interval`, one GET per two of them.
async fn watch(shared: Arc<Shared>) {
    let interval = shared.tuning.alive_interval;
    let (mut counter, mut delay) = (0, interval);
    let mut next = Instant::now() + interval;
    let mut covered = None;
    while !shared.is_ending() {
        // The task is also woken early for other reasons than the close of the store. Then it writes no hint
        // yet.
        if tokio::time::timeout_at(next, shared.wake_watch.notified()).await.is_ok() {
            continue;
        }
        counter += 1;
        if counter % HINTS_PER_LOOK == 0 {
            notice_fence(&shared).await;
        }
        if shared.is_ending() {
            return;
        }
        covered = covered_us(&shared, covered);
        delay = match alive::show(&shared.bucket, &hint(&shared, counter, covered)).await {
            Ok(()) => interval,
            Err(error) => {
                shared.report("writing the liveness hint", &error);
                if delay == interval { HINT_RETRY_DELAY } else { delay * 2 }.min(interval)
            }
        };
        next = Instant::now() + delay;
    }
}

/// Reads the slot that follows the newest root of this epoch. It is empty, holds a root that this server is
/// publishing, or holds a fence. A fence takes this server's right to write away. An error of the request has
/// no effect, because the slot is read again later.
async fn notice_fence(shared: &Shared) {
    let id = RootId { epoch: shared.epoch, slot: shared.published_slot() + 1 };
    if let Ok(RootSlot::Fence(fence)) = read_root_slot(&shared.bucket, id).await {
        shared.fenced_by(&fence);
    }
}
