//! One table file: its object, its upload, and where its bytes are read from.

use super::{FileRecord, Labels};
use crate::error::StoreError;
use parking_lot::{Mutex, RwLock};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How far the upload is.
#[derive(Debug)]
pub(super) enum Upload {
    Queued,
    Running,
    /// In the bucket. `part_crcs` is empty for files of an earlier process.
    Done {
        crc32c: u32,
        part_crcs: Vec<u32>,
    },
    /// RocksDB removed the file before the upload ended.
    Dropped,
    /// The local file vanished: nothing can be uploaded.
    Failed(StoreError),
}

/// Where the bytes are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// The whole file is here. Readers hold the lock while they read it, because it may become a cache file,
    /// and those are full of holes.
    Local(PathBuf),
    /// The file is in the bucket, parts of it in the cache. This never changes back.
    Bucket,
}

/// A table file known to the store.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: Arc<str>,
    pub(super) size: u64,
    labels: Labels,
    number: AtomicU64,
    pub(super) upload: Mutex<Upload>,
    pub(super) place: RwLock<Place>,
    /// The note that says which shared object this number has; kept until a root says so (FILE-6).
    note: Mutex<Option<PathBuf>>,
}

impl Entry {
    /// A local file that has to be uploaded.
    pub(super) fn local(key: Arc<str>, size: u64, path: &Path) -> Self {
        Self {
            key,
            size,
            labels: Labels::default(),
            number: AtomicU64::new(0),
            upload: Mutex::new(Upload::Queued),
            place: RwLock::new(Place::Local(path.to_owned())),
            note: Mutex::default(),
        }
    }

    /// A file that the bucket has; perhaps also at a local path.
    pub(super) fn known(number: u64, record: &FileRecord, local: Option<PathBuf>) -> Self {
        Self {
            key: Arc::clone(&record.key),
            size: record.size,
            labels: record.labels.clone(),
            number: AtomicU64::new(number),
            upload: Mutex::new(Upload::Done { crc32c: record.crc32c, part_crcs: Vec::new() }),
            place: RwLock::new(local.map_or(Place::Bucket, Place::Local)),
            note: Mutex::default(),
        }
    }

    /// RocksDB's number; 0 while it is only staged.
    pub(super) fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    pub(super) fn set_number(&self, number: u64) {
        self.number.store(number, Ordering::Release);
    }

    pub(super) fn is_uploaded(&self) -> bool {
        matches!(&*self.upload.lock(), Upload::Done { .. })
    }

    /// What a root says about it; None before the upload is done.
    pub(super) fn record(&self) -> Option<FileRecord> {
        match &*self.upload.lock() {
            Upload::Done { crc32c, .. } => {
                let (key, labels) = (Arc::clone(&self.key), self.labels.clone());
                Some(FileRecord { key, size: self.size, crc32c: *crc32c, labels })
            }
            _ => None,
        }
    }

    /// Errors: why the file cannot be uploaded, if it cannot.
    pub(super) fn failure(&self) -> Result<(), StoreError> {
        match &*self.upload.lock() {
            Upload::Failed(error) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    pub(super) fn remember_note(&self, note: PathBuf) {
        *self.note.lock() = Some(note);
    }

    /// Deletes the note: a root names the file, or nobody needs it any more. A note that cannot be deleted
    /// now is deleted at the next open.
    pub(super) fn delete_note(&self) {
        if let Some(note) = self.note.lock().take() {
            let _ = std::fs::remove_file(note);
        }
    }

    pub(super) fn local_path(&self) -> Option<PathBuf> {
        match &*self.place.read() {
            Place::Local(path) => Some(path.clone()),
            Place::Bucket => None,
        }
    }

    /// From now on the bytes are in the bucket (or nowhere). Returns where they were locally; the caller deletes
    /// that file, unless its path has a new owner. Later calls, and a move into the cache, find nothing.
    pub(super) fn leave_local(&self) -> Option<PathBuf> {
        match std::mem::replace(&mut *self.place.write(), Place::Bucket) {
            Place::Local(path) => Some(path),
            Place::Bucket => None,
        }
    }

    /// The local file has another name now.
    pub(super) fn move_to(&self, path: &Path) {
        let mut place = self.place.write();
        if matches!(&*place, Place::Local(_)) {
            *place = Place::Local(path.to_owned());
        }
    }
}
