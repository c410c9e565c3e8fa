//! The files that have changed since the last publish. A publish takes a snapshot of them, waits for their
//! uploads, and reports that they are published.
//!
//! The cost of a publish depends on the number of changes, because no function here looks at all files. Only
//! in the first publish of a process do all files count as changed.

use super::entry::{Entry, Upload};
use super::{FileRecord, Files, State, closing};
use crate::error::{Result, StoreError};
use crate::requests::origin;
use crate::stats::add;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The changes by file number: the record of a file that is new or different, None for a file that is gone.
pub type FileChanges = BTreeMap<u64, Option<FileRecord>>;

/// The files that differ, at one moment, from the last published snapshot. The caller gives the snapshot back
/// to [`Files::published`] or [`Files::release`]. Changes that were not published are also in the next
/// snapshot.
#[derive(Debug, Clone)]
pub struct FilesSnapshot {
    /// The generation of the registry at the snapshot. It grows with every change of the registry.
    pub generation: u64,
    changes: BTreeMap<u64, Option<Arc<Entry>>>,
    files: usize,
    pub(super) is_held: bool,
}

impl FilesSnapshot {
    /// The numbers that may have changed, ascending, each with the key of its object; None: the database has
    /// no such file now.
    pub fn changes(&self) -> impl Iterator<Item = (u64, Option<&str>)> {
        self.changes.iter().map(|(number, entry)| (*number, entry.as_ref().map(|entry| entry.key.as_ref())))
    }

    /// How many files are live, changed or not.
    pub fn files(&self) -> usize {
        self.files
    }
}

/// How waiting for the uploads of a snapshot ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Uploaded {
    /// Every file of the snapshot is in the bucket, as these records say.
    Complete(FileChanges),
    /// RocksDB removed a file before it was uploaded: take a newer snapshot.
    Stale,
}

impl Files {
    /// Returns the files that have changed until now.
    pub fn snapshot(&self) -> FilesSnapshot {
        self.snapshot_of(&self.state.lock(), false)
    }

    /// Returns the files that have changed until now. Those that RocksDB removes later are uploaded all the
    /// same, so that waiting for this snapshot ends. It costs uploads of short-lived files, so take it only
    /// after a `Stale`.
    pub fn snapshot_held(&self) -> FilesSnapshot {
        let mut state = self.state.lock();
        state.held_count += 1;
        self.snapshot_of(&state, true)
    }

    fn snapshot_of(&self, state: &State, is_held: bool) -> FilesSnapshot {
        add(&self.bucket.stats().map_entries_visited, state.changed.len() as u64);
        let changes = state.changed.iter().map(|number| (*number, state.live.get(number).cloned()));
        FilesSnapshot {
            generation: state.generation,
            changes: changes.collect(),
            files: state.live.len(),
            is_held,
        }
    }

    /// Waits until every file of `snapshot` is in the bucket. The files that did not change have been there
    /// since they were published.
    ///
    /// Errors: `Fenced`, `Interrupted` at close; `Corruption` when a local file has vanished.
    pub async fn wait_uploaded(&self, snapshot: &FilesSnapshot) -> Result<Uploaded> {
        let mut changes = self.changed.subscribe();
        let mut open: Vec<&Arc<Entry>> = snapshot.changes.values().flatten().collect();
        loop {
            changes.borrow_and_update();
            if let Some(ended) = self.state.lock().ended.clone() {
                return Err(ended);
            }
            let mut is_stale = false;
            let mut failed = None;
            open.retain(|entry| match &*entry.upload.lock() {
                Upload::Done { .. } => false,
                Upload::Dropped => {
                    is_stale = true;
                    true
                }
                Upload::Failed(error) => {
                    failed = Some(error.clone());
                    true
                }
                Upload::Queued | Upload::Running => true,
            });
            if let Some(error) = failed {
                return Err(error);
            }
            if is_stale {
                return Ok(Uploaded::Stale);
            }
            if open.is_empty() {
                return records_of(snapshot);
            }
            if changes.changed().await.is_err() {
                return Err(closing());
            }
        }
    }

    /// Reports that a root with the changes in `snapshot` is in the bucket, so that the local copies of the
    /// named files may move to the cache. Returns at once the keys of the objects whose files RocksDB removed
    /// before the snapshot: they may be deleted now. Objects of other databases are not among them.
    #[must_use]
    pub fn published(self: &Arc<Self>, snapshot: FilesSnapshot) -> Vec<String> {
        let mut state = self.state.lock();
        self.let_go(&mut state, &snapshot);
        for (number, entry) in &snapshot.changes {
            if is_same(state.live.get(number), entry.as_ref()) {
                state.changed.remove(number);
            }
        }
        let (due, rest) = std::mem::take(&mut state.garbage)
            .into_iter()
            .partition::<Vec<_>, _>(|garbage| garbage.generation <= snapshot.generation);
        state.garbage = rest;
        for garbage in &due {
            state.keys.remove(&garbage.key);
        }
        let is_named = |entry: &Arc<Entry>| {
            let named = snapshot.changes.get(&entry.number()).and_then(Option::as_ref);
            entry.is_uploaded() && is_same(named, Some(entry))
        };
        let (named, rest) = std::mem::take(&mut state.unpublished).into_iter().partition(is_named);
        state.unpublished = rest;
        named.iter().for_each(|entry| entry.delete_note());
        drop(state);
        self.settle(named);
        let own = due.into_iter().filter(|garbage| !origin::is_foreign(&garbage.key));
        own.map(|garbage| garbage.key.as_ref().to_owned()).collect()
    }

    /// Gives back a snapshot that was not published. Its changes are also in the next snapshot.
    pub fn release(&self, snapshot: FilesSnapshot) {
        let mut state = self.state.lock();
        self.let_go(&mut state, &snapshot);
    }
}

fn is_same(left: Option<&Arc<Entry>>, right: Option<&Arc<Entry>>) -> bool {
    match (left, right) {
        (None, None) => true,
        (Some(left), Some(right)) => Arc::ptr_eq(left, right),
        _ => false,
    }
}

fn records_of(snapshot: &FilesSnapshot) -> Result<Uploaded> {
    let record = |(number, entry): (&u64, &Option<Arc<Entry>>)| {
        let without_checksum =
            || StoreError::Bug(format!("file {number} counts as uploaded and has no checksum"));
        let record = entry.as_ref().map(|entry| entry.record().ok_or_else(without_checksum));
        Ok((*number, record.transpose()?))
    };
    snapshot.changes.iter().map(record).collect::<Result<_>>().map(Uploaded::Complete)
}
