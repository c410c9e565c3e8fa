//! The part cache keeps copies of parts of the bucket's objects on the local disk, at most a given number of
//! bytes (its budget). A part is a piece of 256 KiB of an object. The copies survive a restart of the server.
//!
//! [`file`] holds the parts of one object, [`queue`] the order of eviction. [`fetch`] brings missing parts
//! from the bucket, each once however many readers wait for it. Correctness does not depend on the cache:
//! when it is empty, full, damaged or unwritable, reads take longer but do not fail.
//!
//! Locks: the lock `state` (the list of cache files and the queues) is never held during a request. It is
//! held during disk work only while the cache is opened and while the empty files of an object are created.
//! Without the lock, two threads could create the files of the same object at once, and one would truncate
//! the parts that the other has stored.

pub(crate) mod fetch;
pub(crate) mod file;
mod queue;
mod room;

use crate::error::{Result, StoreError};
use crate::interrupt::Interrupt;
use crate::log::{Level, LogFn};
use crate::requests::bucket::Bucket;
use crate::requests::origin;
use crate::requests::s3::crypto::fingerprint;
use crate::stats::{Stats, add, sub};
use file::CacheFile;
use parking_lot::Mutex;
use queue::{PartId, Queues, Use};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::Instant;

/// How long the cache stores nothing after a write to its disk has failed, or after the disk was found nearly
/// full.
const FULL_PAUSE: Duration = Duration::from_secs(10);

/// A failed write is logged when there was none for this time. While the disk stays full, a write fails at most
/// every FULL_PAUSE.
const QUIET: Duration = Duration::from_secs(600);

/// The most GETs for missing parts that run at once, over all readers of a store: their bytes take at most
/// 16 x 8 MiB of memory.
const FETCHES_MAX: usize = 16;
/// The most fetched parts that wait in memory to be written to the cache's disk: 512 parts take 128 MiB. When
/// there are more, further GETs wait for the disk.
const UNSTORED_PARTS_MAX: usize = 512;
/// Fetched parts are stored only after no reader has waited for a GET for this long: on a machine with few
/// cores, copying a part to the cache delays a reader as much as receiving the next part, and a query asks
/// for its next part within milliseconds.
const STORE_QUIET: Duration = Duration::from_millis(20);
/// Storing is put off for at most this long, and not at all when UNSTORED_PARTS_MAX parts wait to be stored.
const STORE_DELAY_MAX: Duration = Duration::from_secs(1);
/// The most GETs of prefetches, for which no reader waits, that run at once. They are counted apart from
/// readers' GETs, so that a long prefetch does not hold up a reader.
const PREFETCHES_MAX: usize = 6;

#[derive(Default)]
struct State {
    by_key: HashMap<Arc<str>, Arc<CacheFile>>,
    by_id: HashMap<u32, Arc<CacheFile>>,
    queues: Queues,
    next_id: u32,
    parts_present: usize,
}

/// The cache of one database.
pub(crate) struct Cache {
    folder: PathBuf,
    budget_bytes: AtomicU64,
    used_bytes: AtomicU64,
    state: Mutex<State>,
    full_since: Mutex<Option<Instant>>,
    /// True when the file system cannot punch holes; then whole objects are evicted instead of parts.
    has_no_holes: AtomicBool,
    bucket: Bucket,
    stats: Arc<Stats>,
    log: LogFn,
    runtime: tokio::runtime::Handle,
    interrupt: Interrupt,
    fetches: Semaphore,
    prefetches: Semaphore,
    unstored: Semaphore,
    /// How many readers are waiting for GETs now. While it is not 0, storing fetched parts is put off
    /// (STORE_QUIET).
    waiting_readers: watch::Sender<usize>,
    /// Notified when a fetch finds no room for its parts: fetches that have put off storing their parts store
    /// them now.
    room_wanted: Notify,
}

impl Cache {
    /// Opens the cache in `folder`. Loads the cached parts of `objects` (key, size) that it finds there, and
    /// deletes all other files.
    ///
    /// Errors: when the folder cannot be created or read.
    pub(crate) fn open(
        folder: &Path,
        budget_bytes: u64,
        bucket: Bucket,
        log: LogFn,
        runtime: tokio::runtime::Handle,
        interrupt: Interrupt,
        objects: impl IntoIterator<Item = (Arc<str>, u64)>,
    ) -> Result<Arc<Self>> {
        std::fs::create_dir_all(folder).map_err(|e| StoreError::from_io("creating the cache", folder, &e))?;
        let cache = Arc::new(Self {
            folder: folder.to_owned(),
            budget_bytes: AtomicU64::new(budget_bytes),
            used_bytes: AtomicU64::new(0),
            state: Mutex::default(),
            full_since: Mutex::new(None),
            has_no_holes: AtomicBool::new(false),
            stats: Arc::clone(bucket.stats()),
            bucket,
            log,
            runtime,
            interrupt,
            fetches: Semaphore::new(FETCHES_MAX),
            prefetches: Semaphore::new(PREFETCHES_MAX),
            unstored: Semaphore::new(UNSTORED_PARTS_MAX),
            waiting_readers: watch::channel(0).0,
            room_wanted: Notify::new(),
        });
        cache.load(objects).map_err(|e| StoreError::from_io("reading the cache", folder, &e))?;
        cache.shrink();
        Ok(cache)
    }

    /// True when the cache is switched on, that is, when its budget is not 0.
    pub(crate) fn is_enabled(&self) -> bool {
        self.budget_bytes.load(Ordering::Relaxed) > 0
    }

    /// Changes the budget; takes effect at once.
    pub(crate) fn set_budget(&self, bytes: u64) {
        self.budget_bytes.store(bytes, Ordering::Relaxed);
        self.shrink();
    }

    /// True when a whole file of `size` bytes can be moved into the cache: it fits into the budget, and
    /// storing is not paused (FULL_PAUSE).
    pub(crate) fn has_room_for(&self, size: u64) -> bool {
        size <= self.budget_bytes.load(Ordering::Relaxed) && !self.is_full()
    }

    /// Returns the cache file of object `key`; creates it when there is none.
    pub(crate) fn file(&self, key: &Arc<str>, size: u64) -> io::Result<Arc<CacheFile>> {
        let mut state = self.state.lock();
        if let Some(found) = state.by_key.get(key) {
            return Ok(Arc::clone(found));
        }
        let id = state.take_id();
        let made = Arc::new(CacheFile::create(id, Arc::clone(key), size, self.path_of(key))?);
        state.register(&made);
        Ok(made)
    }

    /// Moves a local file that holds the whole object into the cache.
    ///
    /// Requires: from now on the local file is read only through the result, because eviction punches holes
    /// into it. Errors: the disk's; then the local file is still at the path `local`.
    pub(crate) fn adopt(
        &self,
        local: &Path,
        key: &Arc<str>,
        size: u64,
        part_crcs: &[u32],
    ) -> io::Result<Arc<CacheFile>> {
        self.forget(key);
        let path = self.path_of(key);
        std::fs::rename(local, &path)?;
        let id = self.state.lock().take_id();
        let made = match CacheFile::adopt(id, Arc::clone(key), size, path.clone(), part_crcs) {
            Ok(made) => Arc::new(made),
            Err(error) => {
                // `CacheFile::adopt` fails when it cannot write the index file. Without its index the file
                // could not be checked after a restart, so it goes back to the path `local`.
                std::fs::rename(&path, local)?;
                return Err(error);
            }
        };
        let mut state = self.state.lock();
        state.register(&made);
        for part in 0..made.parts_count() {
            state.queues.insert((made.id, part));
        }
        state.parts_present += made.parts_count() as usize;
        drop(state);
        self.account(size);
        Ok(made)
    }

    /// The path for a copy of a local file that is on another file system and so cannot be renamed into the
    /// cache.
    pub(crate) fn landing_path(&self, key: &str) -> PathBuf {
        self.path_of(key).with_extension("landing")
    }

    /// Deletes the cached parts of an object: no table file has the object any more, or its cache file is
    /// replaced or cannot be truncated. Readers that hold the file may go on reading it.
    pub(crate) fn forget(&self, key: &Arc<str>) {
        let removed = {
            let mut state = self.state.lock();
            let removed = state.by_key.remove(key);
            if let Some(file) = &removed {
                state.by_id.remove(&file.id);
            }
            removed
        };
        if let Some(file) = removed {
            self.release(file.unlink());
        }
    }

    /// Evicts parts until the cache is within its budget.
    pub(crate) fn shrink(&self) {
        self.shrink_to(self.budget_bytes.load(Ordering::Relaxed));
    }

    /// Evicts parts until at most `bytes` are used.
    fn shrink_to(&self, bytes: u64) {
        while self.used_bytes.load(Ordering::Relaxed) > bytes {
            let Some((file, part)) = self.next_victim() else { return };
            self.evict(&file, part);
        }
    }

    /// Removes a damaged part from the cache, so that the next read fetches it again.
    fn drop_damaged(&self, file: &CacheFile, part: u32) {
        let freed = file.clear(part);
        if freed > 0 {
            add(&self.stats.cache_corruptions, 1);
            self.release(freed);
            let _ = file.punch(part);
            (self.log)(
                Level::Warning,
                &format!(
                    "the cached part {part} of {} was damaged on disk and is fetched again from the bucket",
                    file.key
                ),
            );
        }
    }

    /// Stores fetched parts on disk. When that fails, the parts are not cached, but no read fails.
    fn store(&self, file: &CacheFile, parts: &[(u32, bytes::Bytes)]) {
        if !self.is_enabled() || self.is_full() || file.is_deleted() {
            return;
        }
        let Ok(data) = file.data() else { return };
        for (part, bytes) in parts {
            match file.write_part(&data, *part, bytes) {
                Ok(true) => {
                    let mut state = self.state.lock();
                    state.queues.insert((file.id, *part));
                    state.parts_present += 1;
                    drop(state);
                    self.account(bytes.len() as u64);
                }
                Ok(false) => {}
                Err(error) => {
                    let _ = file.punch(*part);
                    self.note_full(&error);
                    return;
                }
            }
        }
    }

    fn account(&self, bytes: u64) {
        self.used_bytes.fetch_add(bytes, Ordering::Relaxed);
        add(&self.stats.cache_bytes_used, bytes);
        self.shrink();
    }

    fn release(&self, bytes: u64) {
        sub(&self.used_bytes, bytes);
        sub(&self.stats.cache_bytes_used, bytes);
    }

    /// The next part to evict, already taken out of the queues.
    fn next_victim(&self) -> Option<(Arc<CacheFile>, u32)> {
        let mut guard = self.state.lock();
        let State { queues, by_id, parts_present, .. } = &mut *guard;
        if queues.len() > 2 * *parts_present + 1024 {
            queues.retain(|(id, part)| by_id.get(&id).is_some_and(|f| f.is_present(part)));
            *parts_present = queues.len();
        }
        let usage = |(id, part): PartId| match by_id.get(&id) {
            Some(file) if !file.is_present(part) => Use::Gone,
            Some(file) if file.take_used(part) => Use::Used,
            Some(_) => Use::Unused,
            None => Use::Gone,
        };
        let (id, part) = queues.evict(usage)?;
        *parts_present = parts_present.saturating_sub(1);
        by_id.get(&id).map(|file| (Arc::clone(file), part))
    }

    fn evict(&self, file: &CacheFile, part: u32) {
        add(&self.stats.cache_evictions, 1);
        if self.has_no_holes.load(Ordering::Relaxed) {
            return self.evict_whole(file);
        }
        self.release(file.clear(part));
        match file.punch(part) {
            Ok(()) => {}
            Err(e) if matches!(e.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS)) => {
                self.evict_whole_from_now_on();
                self.evict_whole(file);
            }
            Err(error) => (self.log)(Level::Warning, &format!("trimming the cache: {error}")),
        }
    }

    fn evict_whole(&self, file: &CacheFile) {
        match file.clear_all() {
            Ok(freed) => self.release(freed),
            Err(error) => {
                (self.log)(Level::Warning, &format!("truncating a cache file: {error}"));
                self.forget(&file.key);
            }
        }
    }

    fn evict_whole_from_now_on(&self) {
        if !self.has_no_holes.swap(true, Ordering::Relaxed) {
            (self.log)(
                Level::Warning,
                &format!(
                    "the file system of {} cannot punch holes: the cache evicts whole objects instead of parts",
                    self.folder.display()
                ),
            );
        }
    }

    fn is_full(&self) -> bool {
        self.full_since.lock().is_some_and(|since| since.elapsed() < FULL_PAUSE)
    }

    /// Makes the cache store nothing for FULL_PAUSE from now on. Returns true when this function was called
    /// within QUIET before, so that the caller logs only the first failure of many.
    fn pause_storing(&self) -> bool {
        self.full_since.lock().replace(Instant::now()).is_some_and(|last| last.elapsed() < QUIET)
    }

    fn note_full(&self, error: &io::Error) {
        let was_full = self.pause_storing();
        if !was_full {
            (self.log)(
                Level::Warning,
                &format!(
                    "the part cache in {} cannot be written ({error}): reads go to the bucket until it can",
                    self.folder.display()
                ),
            );
        }
    }

    fn path_of(&self, key: &str) -> PathBuf {
        // The last segment of a key (epoch and file number) is unique within one database. The cache file of
        // another database's object has a name that begins with a fingerprint of that database's location.
        let name = key.rsplit('/').next().unwrap_or(key);
        match origin::split(key).0 {
            None => self.folder.join(name),
            Some(origin) => self.folder.join(format!("{}-{name}", fingerprint(origin.as_bytes()))),
        }
    }

    /// Opens the cache files of `objects` (key, size) that an earlier process left in the folder, and reads
    /// from their indexes which parts they hold. Deletes all other files of the folder, also cache files that
    /// are incomplete or damaged.
    fn load(&self, objects: impl IntoIterator<Item = (Arc<str>, u64)>) -> io::Result<()> {
        let mut known: HashMap<PathBuf, (Arc<str>, u64)> =
            objects.into_iter().map(|(key, size)| (self.path_of(&key), (key, size))).collect();
        let mut state = self.state.lock();
        for entry in std::fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|e| e == "parts") && path.with_extension("").exists() {
                continue;
            }
            let id = state.take_id();
            let loaded = known.remove(&path).map(|(key, size)| CacheFile::load(id, key, size, path.clone()));
            match loaded {
                Some(Ok(file)) => self.take_loaded(&mut state, Arc::new(file)),
                _ => {
                    let _ = std::fs::remove_file(file::index_path(&path));
                    let _ = std::fs::remove_file(&path);
                }
            }
        }
        Ok(())
    }

    fn take_loaded(&self, state: &mut State, file: Arc<CacheFile>) {
        for part in (0..file.parts_count()).filter(|p| file.is_present(*p)) {
            state.queues.insert_known((file.id, part));
            state.parts_present += 1;
        }
        let bytes = file.bytes_present();
        self.used_bytes.fetch_add(bytes, Ordering::Relaxed);
        add(&self.stats.cache_bytes_used, bytes);
        state.register(&file);
    }
}

impl State {
    fn take_id(&mut self) -> u32 {
        self.next_id += 1;
        self.next_id
    }

    fn register(&mut self, file: &Arc<CacheFile>) {
        self.by_key.insert(Arc::clone(&file.key), Arc::clone(file));
        self.by_id.insert(file.id, Arc::clone(file));
    }
}

#[cfg(test)]
#[path = "cache_test.rs"]
mod tests;
