//! Publishes roots: the one task that moves the bucket from one consistent state to the next.
//!
//! ```text
//! snapshot under the lock: MANIFEST number and length, DDL number, table files, WALs, gate position
//! PUB-G1  wait until every table file of the snapshot is in the bucket
//! PUB-G2  wait until every older WAL is shipped
//! PUB-G7  wait until the newest WAL is shipped up to the commits that dropped data
//!     PUT the new MANIFEST bytes          man/E/<manifest>/<offset>
//!     PUT new parts of the file map       map/E/<part>      (publisher/map.rs; small maps have none)
//!     write ATOLL_FILES and ATOLL locally (DIR-2)
//!     create root/E/S+1                   the commit point of the bucket
//! PUB-G3, PUB-G4  tell the collector what the root has made superfluous (gc/)
//! ```
//!
//! Merged WAL objects (merger.rs) are named by the next root. When no other root is due, a root that repeats
//! the newest one in everything else is published for them.
//!
//! PUB-1: the snapshot is consistent. RocksDB removes a table file only after a MANIFEST sync, and the notice
//!        of that sync waits for the lock that the snapshot holds. So the snapshot may have files that its
//!        MANIFEST does not name yet, but it never lacks one.
//! PUB-2: a slot, a MANIFEST chunk or a part of the map is sent with the same bytes until the outcome is
//!        known, so a root is published exactly once.
//!
//! DDL number (`ddl_seq`): see docs/glossary.md. A restore replays a WAL chunk only over a root whose DDL
//! number is at least that of the chunk (PUB-G8).
//!
//! Threads: one task per database; only it writes `Published`.

mod map;
mod step;

use self::step::Step;
use crate::crc::{crc32c, crc32c_join};
use crate::error::{Result, StoreError};
use crate::files::{FilesSnapshot, Uploaded as UploadedFiles};
use crate::protocol::format::names::{self, ManifestCopy};
use crate::protocol::format::records::{ManifestChunk, Root, RootId, RootSlot};
use crate::protocol::format::slots::{decode_root_slot, settle};
use crate::protocol::gc::RootHistory;
use crate::protocol::publish::map_writer::MapWriter;
use crate::protocol::shared::{Shared, State, Tuning};
use crate::protocol::start::claim::wall_clock_ms;
use crate::protocol::start::local::{manifest_path, random_nonce, read_range};
use crate::protocol::wal::position::Position;
use crate::requests::bucket::SlotOutcome;
use crate::requests::upload::blocking;
use crate::stats::{add, read};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::Instant;

/// A MANIFEST is cut into objects of at most this size.
const MANIFEST_CHUNK_BYTES_MAX: u64 = 4 << 20;
/// The shortest and the longest wait after a failed publish.
const RETRY_DELAY_MIN: Duration = Duration::from_millis(200);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(5);
/// How often the publisher looks for work when no event wakes it.
const IDLE_INTERVAL: Duration = Duration::from_secs(1);
/// What an error of a publish is reported as.
const PUBLISHING: &str = "publishing to the bucket";

/// The state of the database that one root will record.
struct Snapshot {
    ticket: u64,
    manifest: u64,
    manifest_bytes: u64,
    ddl_seq: u64,
    wal_min: u64,
    /// Gate PUB-G2: a restore of the root needs all WALs below this number.
    wal_needed: u64,
    /// Gates PUB-G2 and PUB-G7: the WAL must be shipped up to this position before the root is created.
    gate: u64,
    /// The newest commits (position.rs). No commit whose rows are in files of this MANIFEST is newer.
    position: Position,
    files: FilesSnapshot,
}

/// How much of the MANIFEST is in the bucket.
#[derive(Default)]
struct Uploaded {
    manifest: ManifestCopy,
    bytes: u64,
    crc32c: u32,
    offsets: Vec<u64>,
}

/// The publisher's own state between roots.
pub(crate) struct Publisher {
    shared: Arc<Shared>,
    uploaded: Uploaded,
    /// The newest root of this process; None before its first publish.
    published: Option<Root>,
    map: MapWriter,
    /// `map` has changes that the newest root lacks: a publish failed after they had been made.
    is_map_ahead: bool,
    history: RootHistory,
    /// RocksDB removed a file of the last snapshot before its upload, so the next snapshot holds its files.
    hold_files: bool,
}

impl Publisher {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let (uploaded, published) = Default::default();
        let map = MapWriter::new(shared.epoch, shared.tuning.map.clone());
        let history = RootHistory::new(shared.epoch, shared.tuning.roots_kept);
        Self { shared, uploaded, published, map, is_map_ahead: false, history, hold_files: false }
    }

    /// Runs until the database is closed or fenced.
    pub(crate) async fn run(mut self) {
        let mut delay = RETRY_DELAY_MIN;
        while !self.shared.is_ending() {
            let shared = self.shared.clone();
            tokio::select! {
                biased;
                () = shared.wake_publisher.notified() => {}
                () = shared.merged.notified() => {}
                () = tokio::time::sleep(IDLE_INTERVAL) => {}
            }
            let started = Instant::now();
            while !shared.is_ending() {
                match self.publish_once().await {
                    Ok(Step::Again) => {}
                    Ok(Step::Published | Step::Done | Step::Nothing) => {
                        shared.bucket.stats().last_error.works(PUBLISHING);
                        delay = RETRY_DELAY_MIN;
                        break;
                    }
                    Err(StoreError::Fenced(_) | StoreError::Interrupted(_)) if shared.is_ending() => break,
                    Err(error) => {
                        shared.report(PUBLISHING, &error);
                        tokio::time::sleep(delay).await;
                        delay = (delay * 2).min(RETRY_DELAY_MAX);
                    }
                }
            }
            self.rest(started).await;
        }
    }

    /// Waits until one publish interval has passed since `started`. Returns early when a thread has asked for
    /// a publish, when the store closes, and when too many chunks wait to be merged and the merger itself
    /// waits for a root that names its last merged object.
    async fn rest(&self, started: Instant) {
        let interval = self.shared.tuning.publish_interval;
        while started.elapsed() < interval {
            let is_asked = {
                let state = self.shared.state.lock();
                let runs = &state.wal.runs;
                let merger_waits = runs.is_unnamed() && runs.excess(&self.shared.tuning.merge) > 0;
                merger_waits || state.publish_asked > state.publish_done || state.closing
            };
            if is_asked {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5).min(interval)).await;
        }
    }

    async fn publish_once(&mut self) -> Result<Step> {
        let Some(snapshot) = self.take_snapshot() else {
            return self.publish_runs().await.map(|()| Step::Nothing);
        };
        let outcome = self.publish(&snapshot).await;
        let shared = &self.shared;
        {
            let mut state = shared.state.lock();
            if !matches!(outcome, Ok(Step::Published | Step::Done)) {
                state.dirty_since = state.unpublished_since();
            }
            state.publishing_since = None;
        }
        match outcome {
            Ok(Step::Published) => shared.inbox.propose(shared.files.published(snapshot.files)),
            _ => shared.files.release(snapshot.files),
        }
        outcome
    }

    fn take_snapshot(&self) -> Option<Snapshot> {
        let shared = &self.shared;
        let mut state = shared.lock();
        let is_asked = state.publish_asked > state.publish_done;
        // It happens that RocksDB gives files up without a MANIFEST edit. Their objects are deleted only
        // after a root that does not name them, so a publish is needed for them, too.
        let has_news = state.dirty_since.is_some() || shared.files.has_garbage();
        let is_time = has_news
            && state.is_open_for(shared.tuning.settle_after_open)
            && !self.may_flushes_spare_the_log(&state);
        if !is_asked && !is_time {
            return None;
        }
        let manifest = state.current?;
        let manifest_bytes = *state.manifests.get(&manifest)?;
        let gate = self.gate(&mut state);
        state.publishing_since = state.dirty_since.take();
        let snapshot = Snapshot {
            ticket: state.publish_asked,
            manifest,
            manifest_bytes,
            ddl_seq: shared.path.ddl_noted(),
            wal_min: state.wal.min_live(),
            wal_needed: state.wal.gate_end(),
            gate,
            position: shared.commits.lock().position().clone(),
            files: if self.hold_files { shared.files.snapshot_held() } else { shared.files.snapshot() },
        };
        state.ship_wanted = state.ship_wanted.max(gate);
        shared.wake_shipper.notify_one();
        Some(snapshot)
    }

    /// Whether a publish should wait for flushes that may make the log superfluous: with durability `local`
    /// and without a history, the log is shipped only when a root needs it. A root needs it while one column family is flushed and
    /// another one, with rows in the same log, is not.
    fn may_flushes_spare_the_log(&self, state: &State) -> bool {
        let Tuning { spared_log_bytes, flush_patience, .. } = self.shared.tuning;
        !self.shared.ships_all()
            && state.wal.uncut_below_newest() > spared_log_bytes
            && state.dirty_since.is_some_and(|since| since.elapsed() < flush_patience)
    }

    /// Returns the position up to which the log must be shipped (PUB-G2, PUB-G7): the end of all WALs below
    /// the newest, or the end of the commits that dropped data, whichever is higher. A WAL whose file is gone
    /// is given up here, which raises the DDL number. So `take_snapshot` reads that number only afterwards.
    fn gate(&self, state: &mut State) -> u64 {
        if !self.shared.tuning.gate_wal {
            return 0;
        }
        let (gate, gone) = state.wal.gate(|number| self.shared.open_wal(number).ok().flatten());
        for number in gone {
            if let Some(position) = state.wal.vanished(number) {
                self.shared.note_ddl(state, position);
            }
        }
        gate.max(state.drop_noted)
    }

    async fn publish(&mut self, snapshot: &Snapshot) -> Result<Step> {
        if self.is_unchanged(snapshot) {
            self.finish(snapshot);
            return self.publish_runs().await.map(|()| Step::Published);
        }
        // Gate PUB-G1: the root waits for every file that it will name.
        let UploadedFiles::Complete(changes) = self.wait_for_files(snapshot).await? else {
            self.hold_files = true;
            return Ok(Step::Again);
        };
        self.hold_files = false;
        self.wait_for_wal(snapshot.gate).await?;
        if let Step::Again = self.put_manifest(snapshot).await? {
            return Ok(Step::Again);
        }
        self.change_map(snapshot, changes)?;
        self.put_map_parts().await?;
        let (root, bytes, nonce) = self.root(snapshot)?;
        self.write_local(&root, &nonce, self.is_map_ahead).await?;
        if !self.create_root(&root, &bytes, &nonce).await? {
            return Ok(Step::Done);
        }
        self.after_root(root, snapshot);
        Ok(Step::Published)
    }

    fn is_unchanged(&self, snapshot: &Snapshot) -> bool {
        let mut changes = snapshot.files.changes();
        let files = self.map.files();
        self.published.as_ref().is_some_and(|root| {
            !self.is_map_ahead
                && (root.manifest.number, root.manifest_bytes, root.ddl_seq, root.wal_min)
                    == (snapshot.manifest, snapshot.manifest_bytes, snapshot.ddl_seq, snapshot.wal_min)
                && changes.all(|(number, key)| files.get(&number).map(|file| file.key.as_ref()) == key)
        })
    }

    /// Gate PUB-G1: waits until the files of `snapshot` are uploaded. During a load that may take long, so
    /// merged WAL objects are named meanwhile by roots of their own.
    async fn wait_for_files(&mut self, snapshot: &Snapshot) -> Result<UploadedFiles> {
        let shared = self.shared.clone();
        let mut uploaded = std::pin::pin!(shared.files.wait_uploaded(&snapshot.files));
        loop {
            self.publish_runs().await?;
            tokio::select! {
                biased;
                outcome = &mut uploaded => return outcome,
                () = shared.merged.notified() => {}
            }
        }
    }

    /// Gates PUB-G2 and PUB-G7: waits until the WAL is shipped up to `gate`.
    async fn wait_for_wal(&mut self, gate: u64) -> Result<()> {
        let shared = self.shared.clone();
        loop {
            let moved = shared.shipped.notified();
            if shared.state.lock().wal.shipped() >= gate {
                return Ok(());
            }
            if shared.is_ending() {
                return Err(StoreError::Interrupted("the store is closing".to_owned()));
            }
            // A signal may come between the test and the wait; the timeout then ends the wait.
            let _ = tokio::time::timeout(Duration::from_millis(100), moved).await;
            self.publish_runs().await?;
        }
    }

    /// Publishes a root that names new merged WAL objects and repeats the newest root in everything else.
    /// This root needs no gate, because all that the gates wait for was in the bucket before the newest root.
    /// Does nothing when there is no new merged object.
    async fn publish_runs(&mut self) -> Result<()> {
        let Some(newest) = &self.published else { return Ok(()) };
        let wal_runs = {
            let state = self.shared.state.lock();
            if !state.wal.runs.is_unnamed() {
                return Ok(());
            }
            state.wal.runs.runs().to_vec()
        };
        let slot = self.shared.published_slot() + 1;
        let id = RootId { epoch: self.shared.epoch, slot };
        let root = Root { id, published_ms: wall_clock_ms(), map_slot: slot, wal_runs, ..newest.clone() };
        let nonce = random_nonce()?;
        let bytes = Bytes::from(root.encode(&nonce));
        self.write_local(&root, &nonce, false).await?;
        if self.create_root(&root, &bytes, &nonce).await? {
            self.root_created(&root);
            let (needs, superfluous) = self.history.published(&root, None);
            self.shared.inbox.root_published(needs, superfluous);
            self.published = Some(root);
        }
        Ok(())
    }

    /// Puts the bytes of the snapshot's MANIFEST that the bucket lacks. `Again`: RocksDB has deleted it.
    async fn put_manifest(&mut self, snapshot: &Snapshot) -> Result<Step> {
        let ManifestCopy { number, copy } = self.uploaded.manifest;
        if number != snapshot.manifest || self.uploaded.offsets.len() >= self.manifest_chunks_max() {
            let copy = if number == snapshot.manifest { copy + 1 } else { 0 };
            let manifest = ManifestCopy { number: snapshot.manifest, copy };
            self.uploaded = Uploaded { manifest, ..Uploaded::default() };
        }
        while self.uploaded.bytes < snapshot.manifest_bytes {
            let offset = self.uploaded.bytes;
            let length = (snapshot.manifest_bytes - offset).min(MANIFEST_CHUNK_BYTES_MAX);
            let Some(bytes) = self.read_manifest(snapshot.manifest, offset, length).await? else {
                return Ok(Step::Again);
            };
            self.put_manifest_chunk(offset, bytes).await?;
        }
        Ok(Step::Done)
    }

    /// How many chunks a MANIFEST may have. A MANIFEST with more chunks is put again, as a new copy in fewer,
    /// larger chunks. The limit is at least twice the number of full chunks, so that a large MANIFEST is not
    /// put again and again.
    fn manifest_chunks_max(&self) -> usize {
        let full_chunks = self.uploaded.bytes.div_ceil(MANIFEST_CHUNK_BYTES_MAX) as usize;
        self.shared.tuning.manifest_chunks_max.max(2 * full_chunks)
    }

    async fn put_manifest_chunk(&mut self, offset: u64, bytes: Vec<u8>) -> Result<()> {
        let shared = &self.shared;
        let manifest = self.uploaded.manifest;
        let (crc, length) = (crc32c(&bytes), bytes.len() as u64);
        let key = names::manifest_chunk(shared.epoch, manifest, offset);
        let nonce = random_nonce()?;
        let record = ManifestChunk { epoch: shared.epoch, manifest, offset, bytes }.encode(&nonce).into();
        match self.settle(&key, &record, &nonce).await? {
            SlotOutcome::Mine => {}
            SlotOutcome::Lost(_) => {
                shared.slot_taken(&key);
                return shared.check_fence();
            }
        }
        self.uploaded.crc32c = crc32c_join(self.uploaded.crc32c, crc, length);
        self.uploaded.bytes += length;
        self.uploaded.offsets.push(offset);
        Ok(())
    }

    /// Reads bytes of a MANIFEST; None when RocksDB has rolled to another MANIFEST and deleted this one.
    async fn read_manifest(&self, manifest: u64, offset: u64, length: u64) -> Result<Option<Vec<u8>>> {
        let path = manifest_path(&self.shared.local_dir, manifest);
        let read = blocking(move || read_range(&path, offset, length)).await;
        match read {
            Ok(bytes) => Ok(Some(bytes)),
            Err(_) if self.shared.state.lock().current != Some(manifest) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes the next root. Also returns its encoded bytes and the nonce in them.
    fn root(&self, snapshot: &Snapshot) -> Result<(Root, Bytes, [u8; 16])> {
        let shared = &self.shared;
        let slot = shared.published_slot() + 1;
        let (added, map_in_parts) = self.map.content();
        let (wal_first_chunk, wal_needed_end, wal_runs) = {
            let state = shared.state.lock();
            let wal = &state.wal;
            let first = |log| wal.first_chunk_from(log);
            (first(snapshot.wal_min), first(snapshot.wal_needed), wal.runs.runs().to_vec())
        };
        let root = Root {
            id: RootId { epoch: shared.epoch, slot },
            manifest: self.uploaded.manifest,
            manifest_bytes: self.uploaded.bytes,
            manifest_crc32c: self.uploaded.crc32c,
            ddl_seq: snapshot.ddl_seq,
            wal_min: snapshot.wal_min,
            wal_first_chunk,
            wal_needed_end: if shared.tuning.gate_wal { wal_needed_end } else { wal_first_chunk },
            published_ms: wall_clock_ms(),
            map_slot: slot,
            files_count: self.map.files().len() as u64,
            map_in_parts,
            added,
            removed: Vec::new(),
            wal_runs,
            position: Some(snapshot.position.clone()),
            opened: Some(shared.commits.lock().opened()),
        };
        let nonce = random_nonce()?;
        let bytes = Bytes::from(root.encode(&nonce));
        Ok((root, bytes, nonce))
    }

    /// Creates the root, the commit point of a publish. Returns false when this process is fenced.
    async fn create_root(&self, root: &Root, bytes: &Bytes, nonce: &[u8; 16]) -> Result<bool> {
        let key = names::root(root.id.epoch, root.id.slot);
        match self.settle(&key, bytes, nonce).await? {
            SlotOutcome::Mine => Ok(true),
            SlotOutcome::Lost(other) => {
                match decode_root_slot(&key, &other, root.id) {
                    Ok(RootSlot::Fence(fence)) => self.shared.fenced_by(&fence),
                    _ => self.shared.slot_taken(&key),
                }
                Ok(false)
            }
        }
    }

    /// Creates `key`; retries after an error until the outcome is known (PUB-2). If it returned the error,
    /// the next attempt could use other bytes for the same slot.
    async fn settle(&self, key: &str, bytes: &Bytes, nonce: &[u8; 16]) -> Result<SlotOutcome> {
        let report = |error: &StoreError| self.shared.report(PUBLISHING, error);
        loop {
            match settle(&self.shared.slots(), key, bytes, nonce, report).await {
                Err(error) if !self.shared.is_ending() => report(&error),
                outcome => return outcome,
            }
            tokio::time::sleep(RETRY_DELAY_MAX).await;
        }
    }

    /// The root is in the bucket: tells the collector which objects are superfluous (PUB-G3, PUB-G4) and
    /// wakes the threads that wait for the publish.
    fn after_root(&mut self, root: Root, snapshot: &Snapshot) {
        self.root_created(&root);
        self.shared.path.set_ddl_published(root.ddl_seq);
        let (needs, superfluous) = self.history.published(&root, Some(&self.uploaded.offsets));
        self.shared.inbox.root_published(needs, superfluous);
        self.published = Some(root);
        self.is_map_ahead = false;
        self.finish(snapshot);
    }

    /// Tells the history, the WAL table and the merger about a new root.
    fn root_created(&self, root: &Root) {
        let (shared, stats) = (&self.shared, self.shared.bucket.stats());
        add(&stats.roots_published, 1);
        debug_assert!(
            root.id.slot > shared.published_slot(),
            "root {} comes after a later one",
            root.id.slot
        );
        shared.slot.store(root.id.slot, Ordering::SeqCst);
        if shared.history.offer(root, read(&stats.bytes_uploaded), shared.tuning.gc.history_interval_min) {
            shared.inbox.wake.notify_one();
        }
        let mut state = shared.state.lock();
        state.wal.trimmed_below(root.wal_min);
        state.wal.runs.root_published(&root.wal_runs, root.wal_first_chunk);
        drop(state);
        shared.wake_merger.notify_one();
    }

    fn finish(&self, snapshot: &Snapshot) {
        let mut state = self.shared.lock();
        let current = state.current;
        state.manifests.retain(|number, _| Some(*number) >= current);
        state.publish_done = state.publish_done.max(snapshot.ticket);
        self.shared.cover(&mut state);
    }
}
