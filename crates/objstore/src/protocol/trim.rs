//! Deletes what no published root needs any more: WAL chunks, old roots, replaced MANIFESTs, and once after an open
//! what former epochs left behind.
//!
//! T1: a key is queued only after a root that does not need it is in the bucket (G3, G4). So even a fenced owner that
//!     is late deletes nothing that its successor reads: the successor starts from that root or a later one.
//! T2: epoch claims, claim roots and fences are never deleted.
//! T3: any error of a LIST ends the sweep; what is not known to be garbage stays.
//! T4: a file of a former epoch can only leave the map, never come back; so the map of the first root of this epoch
//!     decides for the whole sweep.
//! T5: the sweep waits until RocksDB is open and has come to the end of the bucket's WAL, as far as that can be told.

use super::names::{self, ManifestCopy};
use super::records::{FENCE_BYTES, Root};
use super::shared::{Former, Shared};
use super::wal_record::WalRun;
use crate::bucket::ObjectInfo;
use crate::error::{Result, StoreError};
use crate::log::Level;
use futures_util::{StreamExt, stream};
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::mpsc;

const PARALLEL_DELETES: usize = 8;
const RETRY_DELAY: Duration = Duration::from_secs(10);
/// How often to look whether RocksDB is open.
const OPENING_INTERVAL: Duration = Duration::from_millis(100);
/// Objects of other tools: while one exists, nothing of former epochs is swept.
const PIN_DIR: &str = "pin/";

/// Knows what the roots published so far have made superfluous.
pub(crate) struct Trimmer {
    keys: mpsc::UnboundedSender<Job>,
    epoch: u64,
    roots_kept: u64,
    wal_end: u64,
    /// The merged objects that the newest root names.
    runs: Vec<WalRun>,
    /// (slot, slot of its full map) of the roots that are still there.
    roots: VecDeque<(u64, u64)>,
    manifest: Option<(ManifestCopy, Vec<u64>)>,
}

enum Job {
    Delete(String),
    /// The keys of all table files of the first root.
    Sweep(HashSet<String>),
}

impl Trimmer {
    /// The trimmer, and the task that carries its decisions out.
    pub(crate) fn new(shared: &Arc<Shared>) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let (keys, jobs) = mpsc::unbounded_channel();
        let trimmer = Self {
            keys,
            epoch: shared.epoch,
            roots_kept: shared.tuning.roots_kept,
            wal_end: 0,
            runs: Vec::new(),
            roots: VecDeque::new(),
            manifest: None,
        };
        (trimmer, run(shared.clone(), jobs))
    }

    /// `root` is in the bucket; its MANIFEST is stored at `offsets`.
    pub(crate) fn root_published<'a>(
        &mut self,
        root: &Root,
        offsets: &[u64],
        files: impl Iterator<Item = &'a str>,
    ) {
        if self.manifest.is_none() {
            self.send(Job::Sweep(files.map(str::to_owned).collect()));
        }
        self.runs_published(root);
        self.trim_manifest(root, offsets);
    }

    /// `root` is in the bucket; it differs from the one before at most in the merged objects it names.
    pub(crate) fn runs_published(&mut self, root: &Root) {
        for chunk in self.wal_end..root.wal_loose_first() {
            self.delete(names::wal_chunk(self.epoch, chunk));
        }
        self.wal_end = self.wal_end.max(root.wal_loose_first());
        for run in std::mem::replace(&mut self.runs, root.wal_runs.clone()) {
            if !root.wal_runs.contains(&run) {
                self.delete(names::merged_chunks(self.epoch, run.first, run.end));
            }
        }
        self.trim_roots(root);
    }

    /// Keeps the newest roots, and behind them every root that their file maps are built on.
    fn trim_roots(&mut self, root: &Root) {
        self.roots.push_back((root.id.slot, root.map_slot));
        let oldest_kept = root.id.slot.saturating_sub(self.roots_kept);
        let floor = self.roots.iter().find(|(slot, _)| *slot >= oldest_kept).map_or(0, |(_, map)| *map);
        while let Some((slot, _)) = self.roots.front().copied().filter(|(slot, _)| *slot < floor) {
            self.delete(names::root(self.epoch, slot));
            self.roots.pop_front();
        }
    }

    fn trim_manifest(&mut self, root: &Root, offsets: &[u64]) {
        if let Some((manifest, stored)) = self.manifest.take_if(|(stored, _)| *stored != root.manifest) {
            for offset in stored {
                self.delete(names::manifest_chunk(self.epoch, manifest, offset));
            }
        }
        let (_, stored) = self.manifest.get_or_insert((root.manifest, Vec::new()));
        stored.extend_from_slice(&offsets[stored.len().min(offsets.len())..]);
    }

    fn delete(&self, key: String) {
        self.send(Job::Delete(key));
    }

    fn send(&self, job: Job) {
        // The other end goes away when the database is closing; the next owner's sweep finds the rest.
        let _ = self.keys.send(job);
    }
}

async fn run(shared: Arc<Shared>, mut jobs: mpsc::UnboundedReceiver<Job>) {
    while let Some(job) = jobs.recv().await {
        match job {
            Job::Sweep(live) => {
                if !are_superfluous(&shared).await {
                    continue;
                }
                if let Err(error) = sweep(&shared, &live).await {
                    let message = format!("objects of former owners stay until the next start: {error}");
                    (shared.log)(Level::Warning, &message);
                }
            }
            Job::Delete(first) => {
                let mut keys = vec![first];
                while let Some(Job::Delete(key)) = next_delete(&mut jobs, keys.len()) {
                    keys.push(key);
                }
                delete_all(&shared, keys).await;
            }
        }
    }
}

/// Another key that is already waiting. A sweep comes first in the queue, so none is lost here.
fn next_delete(jobs: &mut mpsc::UnboundedReceiver<Job>, taken: usize) -> Option<Job> {
    if taken >= 256 { None } else { jobs.try_recv().ok() }
}

/// Deletes `keys`, trying again until each is gone.
async fn delete_all(shared: &Arc<Shared>, mut keys: Vec<String>) {
    loop {
        let outcomes: Vec<(String, Result<()>)> = stream::iter(keys)
            .map(|key| async move {
                let outcome = shared.bucket.delete(&key).await;
                (key, outcome)
            })
            .buffer_unordered(PARALLEL_DELETES)
            .collect()
            .await;
        let failed: Vec<_> = outcomes.into_iter().filter_map(|(key, r)| r.err().map(|e| (key, e))).collect();
        let is_refused = failed.iter().any(|(_, error)| matches!(error, StoreError::Refused(_)));
        shared.bucket.stats().trim_disabled.store(is_refused, Ordering::Relaxed);
        let Some((_, error)) = failed.first() else { return };
        shared.report("deleting objects that are no longer needed", error);
        keys = failed.into_iter().map(|(key, _)| key).collect();
        tokio::time::sleep(RETRY_DELAY).await;
    }
}

/// Waits until it is known whether what former epochs left may go (T5).
async fn are_superfluous(shared: &Shared) -> bool {
    while !shared.is_ending() {
        let former = shared.state.lock().former;
        match former {
            Former::NeededTo(_) => {}
            Former::Superfluous => return true,
            Former::Kept => return false,
        }
        tokio::time::sleep(OPENING_INTERVAL).await;
    }
    false
}

/// Deletes what former epochs left: table files in no map, and their roots, MANIFESTs and WAL.
async fn sweep(shared: &Arc<Shared>, live: &HashSet<String>) -> Result<()> {
    let bucket = &shared.bucket;
    if !bucket.list(PIN_DIR, None).await?.is_empty() {
        (shared.log)(Level::Info, "objects of former owners stay, because snapshots pin the bucket");
        return Ok(());
    }
    let mut keys = Vec::new();
    for dir in [names::FILE_DIR, names::ROOT_DIR, names::WAL_DIR, names::MANIFEST_DIR] {
        let objects = bucket.list(dir, None).await?;
        keys.extend(objects.into_iter().filter(|o| is_left_over(o, shared.epoch, live)).map(|o| o.key));
    }
    let count = keys.len();
    for batch in keys.chunks(256) {
        delete_all(shared, batch.to_vec()).await;
    }
    if count > 0 {
        (shared.log)(Level::Info, &format!("deleted {count} objects that former owners left in the bucket"));
    }
    Ok(())
}

/// Whether nobody can need `object` once `epoch` has published a root with the table files `live`.
fn is_left_over(object: &ObjectInfo, epoch: u64, live: &HashSet<String>) -> bool {
    let key = object.key.as_str();
    if let Some(owner) = names::parse_file_epoch(key) {
        return owner < epoch && !live.contains(key);
    }
    is_left_over_record(object, epoch)
}

/// The same for what is no table file.
pub(crate) fn is_left_over_record(object: &ObjectInfo, epoch: u64) -> bool {
    let key = object.key.as_str();
    if let Some((owner, _, _)) = names::parse_manifest_chunk(key) {
        return owner < epoch;
    }
    if let Some((owner, _, _)) = names::parse_merged_chunks(key) {
        return owner < epoch;
    }
    // A record of a fence's size may be a fence, and slot 0 is a claim or a fence: both stay.
    let is_fence = object.size == FENCE_BYTES;
    match (names::parse_slot(names::ROOT_DIR, key), names::parse_slot(names::WAL_DIR, key)) {
        (Some((owner, slot)), _) => owner < epoch && slot > 0 && !is_fence,
        (_, Some((owner, _))) => owner < epoch && !is_fence,
        _ => false,
    }
}
