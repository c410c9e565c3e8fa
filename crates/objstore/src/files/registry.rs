//! The functions that change the file registry: files enter and leave it and its backlog, and new objects get
//! their names.
//!
//! Every function that takes `&mut State` runs under the state lock. It may touch the local disk (to delete a
//! file), but it makes no request.

use super::entry::{Entry, Upload};
use super::{Files, FilesSnapshot, Garbage, Local, State};
use crate::error::{Result, StoreError};
use crate::interrupt::ASK_INTERVAL;
use crate::machine;
use crate::stats::{add, sub};
use parking_lot::MutexGuard;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

impl Files {
    /// Registers a local file without waiting for the backlog.
    pub(super) fn add_now(&self, number: u64, path: &Path, size: u64) -> Result<()> {
        let mut state = self.state.lock();
        let mut name = number.to_string();
        if !state.numbers_used.insert(number) {
            state.names_count += 1;
            name = format!("{number}-r{}", state.names_count);
        }
        let entry = Arc::new(Entry::local(self.object_key(&name, path), size, path));
        self.insert(&mut state, number, &entry);
        self.enqueue(&mut state, entry);
        Ok(())
    }

    pub(super) fn insert(&self, state: &mut State, number: u64, entry: &Arc<Entry>) {
        entry.set_number(number);
        state.changed.insert(number);
        if let Some(former) = state.live.insert(number, Arc::clone(entry)) {
            state.unpublished.retain(|e| !Arc::ptr_eq(e, &former));
            let is_same_path = former.local_path() == entry.local_path();
            self.discard(state, &former, if is_same_path { Local::Keep } else { Local::Delete });
        }
        state.unpublished.push(Arc::clone(entry));
        self.note_change(state);
    }

    pub(super) fn enqueue(&self, state: &mut State, entry: Arc<Entry>) {
        let stats = self.bucket.stats();
        add(&stats.upload_backlog_files, 1);
        add(&stats.upload_backlog_bytes, entry.size);
        state.backlog_bytes += entry.size;
        state.keys.add(&entry.key);
        state.queue.push_back(entry);
        self.queued.notify_one();
    }

    /// Takes a file whose upload has ended, or was given up, out of the backlog.
    pub(super) fn leave_backlog(&self, state: &mut State, entry: &Entry) {
        let stats = self.bucket.stats();
        sub(&stats.upload_backlog_files, 1);
        sub(&stats.upload_backlog_bytes, entry.size);
        debug_assert!(state.backlog_bytes >= entry.size, "{} leaves the backlog twice", entry.key);
        state.backlog_bytes = state.backlog_bytes.saturating_sub(entry.size);
        self.note_change(state);
        self.backlog_shrunk.notify_all();
    }

    /// Discards a file that RocksDB no longer needs: stops its upload or makes its object garbage, and
    /// deletes its cached parts and, with `Local::Delete`, its local copy.
    pub(super) fn discard(&self, state: &mut State, entry: &Arc<Entry>, local: Local) {
        self.note_change(state);
        entry.delete_note();
        let is_shared = state.keys.is_shared(&entry.key);
        let mut upload = entry.upload.lock();
        match &*upload {
            // The entry stays in the queue; the uploader skips it.
            Upload::Queued => {
                *upload = Upload::Dropped;
                drop(upload);
                state.keys.remove(&entry.key);
                self.leave_backlog(state, entry);
            }
            Upload::Running => {
                *upload = Upload::Dropped;
                drop(upload);
                self.leave_backlog(state, entry);
                state.garbage.push(Garbage { key: Arc::clone(&entry.key), generation: state.generation });
            }
            Upload::Done { .. } if !is_shared => {
                drop(upload);
                state.garbage.push(Garbage { key: Arc::clone(&entry.key), generation: state.generation });
            }
            Upload::Done { .. } | Upload::Dropped | Upload::Failed(_) => {
                drop(upload);
                state.keys.remove(&entry.key);
            }
        }
        if let (Some(path), Local::Delete) = (entry.leave_local(), local) {
            let _ = std::fs::remove_file(path);
        }
        if let (Some(cache), false) = (self.cache.read().as_ref(), is_shared) {
            cache.forget(&entry.key);
        }
    }

    /// Ends the hold of a held snapshot. When no snapshot is held any more, the deferred files are discarded.
    pub(super) fn let_go(&self, state: &mut State, snapshot: &FilesSnapshot) {
        if !snapshot.is_held {
            return;
        }
        debug_assert!(state.held_count > 0, "a held snapshot is let go twice");
        state.held_count = state.held_count.saturating_sub(1);
        if state.held_count == 0 {
            for entry in std::mem::take(&mut state.deferred) {
                self.discard(state, &entry, Local::Delete);
            }
        }
    }

    pub(super) fn note_change(&self, state: &mut State) {
        state.generation += 1;
        self.changed.send_replace(state.generation);
    }

    /// Waits until `size` more bytes fit into the backlog, the statement of this thread is killed, or the
    /// server stops.
    pub(super) fn wait_for_backlog(&self, size: u64) -> Result<()> {
        let mut state = self.state.lock();
        if self.has_room(&state, size)? {
            return Ok(());
        }
        let _waiting = Waiting::begin(&self.backlog_waiters);
        while !self.has_room(&state, size)? {
            machine::wait_for(&self.backlog_shrunk, &mut state, ASK_INTERVAL);
            // `is_set` is called without the lock, because it asks the server, which takes locks of its own.
            if MutexGuard::unlocked(&mut state, || self.interrupt.is_set()) {
                return Err(self.killed_while_waiting(&state));
            }
        }
        Ok(())
    }

    /// Returns true when `size` more bytes fit into the backlog, or when the server shuts down and no thread
    /// shall wait any more. Errors: `Fenced`, `Interrupted` at close.
    fn has_room(&self, state: &State, size: u64) -> Result<bool> {
        if let Some(ended) = &state.ended {
            return Err(ended.clone());
        }
        let limit = self.backlog_bytes_max.load(Ordering::Relaxed);
        // A file that alone exceeds the limit is let in when the backlog is empty.
        Ok(state.is_stopping || state.backlog_bytes == 0 || state.backlog_bytes.saturating_add(size) <= limit)
    }

    fn killed_while_waiting(&self, state: &State) -> StoreError {
        let last_error = self.bucket.stats().last_error.message();
        let because =
            if last_error.is_empty() { String::new() } else { format!(". Last error: {last_error}") };
        StoreError::Interrupted(format!(
            "the statement was killed while {} bytes waited for their upload and atoll_upload_backlog_max is {}{because}",
            state.backlog_bytes,
            self.backlog_bytes_max.load(Ordering::Relaxed)
        ))
    }

    /// A new name for the object of the local file `path`.
    pub(super) fn object_key(&self, name: &str, path: &Path) -> Arc<str> {
        let extension = if path.extension().is_some_and(|e| e == "blob") { "blob" } else { "sst" };
        object_key(self.epoch.load(Ordering::Acquire), name, extension).into()
    }
}

/// `sst/<hh>/<epoch>-<name>.<extension>`: the two digits spread requests over the bucket's partitions.
pub(crate) fn object_key(epoch: u64, name: &str, extension: &str) -> String {
    let last = format!("{epoch:020}-{name}.{extension}");
    let spread = crate::crc::crc32c(last.as_bytes()) & 0xff;
    format!("sst/{spread:02x}/{last}")
}

/// Counts the thread as waiting until this value is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn begin(waiters: &'a AtomicUsize) -> Self {
        waiters.fetch_add(1, Ordering::Relaxed);
        Self(waiters)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
