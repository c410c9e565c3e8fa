//! One table file: its object, its upload, and where its bytes are read from.

use super::{FileRecord, Labels};
use crate::error::StoreError;
use parking_lot::{Mutex, RwLock};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How far the upload of a table file has come. The registry sets `Queued` and `Dropped`, the uploader
/// `Running`, `Done` and `Failed`. A file whose object exists already begins with `Done`.
#[derive(Debug)]
pub(super) enum Upload {
    Queued,
    Running,
    /// The object is in the bucket. `part_crcs`: the checksums of its parts of 256 KiB, for the part cache;
    /// empty when the object was there before this entry, for example from an earlier process.
    Done {
        crc32c: u32,
        part_crcs: Vec<u32>,
    },
    /// RocksDB removed the file before the upload ended.
    Dropped,
    /// The local file has vanished, so it can never be uploaded.
    Failed(StoreError),
}

/// Where the bytes of a table file are read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// The whole file is at this local path. Readers hold the lock of `Entry::place` while they read, because
    /// the file may be moved into the part cache, where eviction punches holes into it.
    Local(PathBuf),
    /// The bytes are read from the bucket, through the part cache. The place never changes back to `Local`.
    Bucket,
}

/// A table file of RocksDB about which this module keeps records: where it is, and whether it was uploaded.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: Arc<str>,
    pub(super) size: u64,
    labels: Labels,
    number: AtomicU64,
    pub(super) upload: Mutex<Upload>,
    pub(super) place: RwLock<Place>,
    /// The path of the note, a local file that tells which shared object this number has. The note is kept
    /// until a root names the file (FILE-6).
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

    /// A file whose object is in the bucket; `local`: the path of its local copy, when it has one.
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

    /// RocksDB's number of the file; 0 while the file is only staged.
    pub(super) fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    pub(super) fn set_number(&self, number: u64) {
        self.number.store(number, Ordering::Release);
    }

    pub(super) fn is_uploaded(&self) -> bool {
        matches!(&*self.upload.lock(), Upload::Done { .. })
    }

    /// The record of the file for a root; None before its upload is done.
    pub(super) fn record(&self) -> Option<FileRecord> {
        match &*self.upload.lock() {
            Upload::Done { crc32c, .. } => {
                let (key, labels) = (Arc::clone(&self.key), self.labels.clone());
                Some(FileRecord { key, size: self.size, crc32c: *crc32c, labels })
            }
            _ => None,
        }
    }

    /// Errors: the reason why the file cannot be uploaded, when its upload has failed for good.
    pub(super) fn failure(&self) -> Result<(), StoreError> {
        match &*self.upload.lock() {
            Upload::Failed(error) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    pub(super) fn remember_note(&self, note: PathBuf) {
        *self.note.lock() = Some(note);
    }

    /// Deletes the note, because a root names the file, or RocksDB no longer needs it. A note that cannot be
    /// deleted now is deleted at the next open.
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

    /// Makes readers use the bucket instead of the local file from now on, even if the file was never
    /// uploaded. Returns the path of the local file. The caller deletes it, unless the path belongs to
    /// another entry now. A later call returns None, and a later move into the cache does nothing.
    pub(super) fn leave_local(&self) -> Option<PathBuf> {
        match std::mem::replace(&mut *self.place.write(), Place::Bucket) {
            Place::Local(path) => Some(path),
            Place::Bucket => None,
        }
    }

    /// Records that the local file, if it is still used, has been renamed to `path`.
    pub(super) fn move_to(&self, path: &Path) {
        let mut place = self.place.write();
        if matches!(&*place, Place::Local(_)) {
            *place = Place::Local(path.to_owned());
        }
    }
}
