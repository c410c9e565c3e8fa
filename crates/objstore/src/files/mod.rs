//! The file registry: which object each table file has, where its bytes are now, and whether it still has to
//! be uploaded or deleted.
//!
//! When RocksDB has finished a file, the file is *added* and queued for upload. Once it is *uploaded*, a root
//! can name it. Once a root that names it is *published*, its local copy can move into the part cache. When
//! RocksDB has removed the file and a root without it is published, the collector can delete its object.
//! [`uploader`] uploads files, [`entry`] holds one file, [`handle`] reads one, and [`snapshot`] tells a
//! publish which files have changed.
//!
//! FILE-1  An object's name is used once: when RocksDB uses a file number again, the object gets another name
//!         (`-r<count>`).
//! FILE-2  A local copy makes way for the part cache only after its upload *and* a root that names it (gate
//!         PUB-G6).
//! FILE-3  An object is given to the collector only after a root without it is published (gate PUB-G3).
//! FILE-4  An upload is retried without end. While the bucket does not answer, the backlog grows, and at its
//!         limit `add_file` waits. An outage never makes a flush fail. The wait ends when the statement is
//!         killed, and when the store closes: files that are not uploaded stay on the local disk, and the
//!         next start uploads them.
//!
//! Locks: a thread that holds several takes `state` first, then `Entry::upload` or `Entry::place`. No lock is
//! held during a request.

mod entry;
mod handle;
mod install;
mod registry;
mod settle;
mod share;
mod snapshot;
mod uploader;

pub use handle::{FileHandle, ReadRequest};
pub(crate) use registry::object_key;
pub use snapshot::{FileChanges, FilesSnapshot, Uploaded};

use crate::cache::Cache;
use crate::config::StoreConfig;
use crate::error::{Result, StoreError};
use crate::interrupt::Interrupt;
use crate::log::LogFn;
use crate::requests::bucket::Bucket;
use crate::supervisor::Supervisor;
use entry::{Entry, Upload};
use parking_lot::{Condvar, Mutex, RwLock};
use share::KeyUses;
pub(crate) use share::SharedFile;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use tokio::sync::{Notify, watch};

/// What a root records about one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRecord {
    /// The key of the file's object, relative to the prefix of the database. The key of another database's
    /// object starts with a slash (origin.rs).
    pub key: Arc<str>,
    /// The size of the file in bytes.
    pub size: u64,
    /// The CRC-32C of the whole file.
    pub crc32c: u32,
    /// The storage class and the encryption key of the file's object, which few files have.
    pub labels: Labels,
}

/// What a root records for few files only: their storage class and their encryption key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels {
    /// The storage class that was asked for when the object was uploaded; None: the bucket chose the class.
    pub storage_class: Option<Arc<str>>,
    /// The name of the key that the file is encrypted with; None: the file is not encrypted.
    pub key_id: Option<Arc<str>>,
}

/// What [`Files::new`] needs to make a file registry: settings, and what the registry works with, such as the
/// bucket and the runtime.
#[allow(missing_docs)]
pub struct FilesConfig {
    pub bucket: Bucket,
    /// RocksDB's directory, in which it creates the table files.
    pub local_dir: PathBuf,
    /// The part cache uses the folder of this directory that is named `db_uuid`.
    pub cache_dir: PathBuf,
    pub cache_bytes: u64,
    /// `add_file` and `stage_file` wait while more bytes than this are not uploaded.
    pub backlog_bytes_max: u64,
    pub db_uuid: String,
    pub interrupt: Interrupt,
    pub log: LogFn,
    pub runtime: tokio::runtime::Handle,
}

impl FilesConfig {
    /// Takes the settings from `config`, for the database `db_uuid` in `bucket`.
    pub(crate) fn of(
        config: &StoreConfig,
        bucket: Bucket,
        db_uuid: String,
        log: LogFn,
        runtime: tokio::runtime::Handle,
    ) -> Self {
        Self {
            bucket,
            local_dir: config.local_dir.clone(),
            cache_dir: config.cache_dir.clone(),
            cache_bytes: config.cache_bytes,
            backlog_bytes_max: config.backlog_bytes_max,
            db_uuid,
            interrupt: config.interrupt.clone(),
            log,
            runtime,
        }
    }
}

/// An object to delete, and the generation of the registry at which RocksDB removed its file. A root that was
/// made from a snapshot of this generation or a later one surely does not name the object.
#[derive(Debug)]
struct Garbage {
    key: Arc<str>,
    generation: u64,
}

/// What `discard` does with the local file of an entry. `Keep`: the path belongs to another entry now.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Local {
    Delete,
    Keep,
}

#[derive(Default)]
struct State {
    live: BTreeMap<u64, Arc<Entry>>,
    /// The numbers of the files whose live entry may differ from the entry in the last published snapshot.
    changed: BTreeSet<u64>,
    /// The keys of all files that are live, staged, deferred or garbage.
    keys: KeyUses,
    staged: HashMap<PathBuf, Arc<Entry>>,
    queue: VecDeque<Arc<Entry>>,
    /// Files that RocksDB has removed while a held snapshot still needs them.
    deferred: Vec<Arc<Entry>>,
    held_count: usize,
    garbage: Vec<Garbage>,
    /// Files, uploaded or not, that no published root names yet.
    unpublished: Vec<Arc<Entry>>,
    numbers_used: HashSet<u64>,
    names_count: u64,
    generation: u64,
    backlog_bytes: u64,
    /// Set when the server shuts down: from then on no thread waits for the backlog.
    is_stopping: bool,
    ended: Option<StoreError>,
}

/// The table files of one database.
pub struct Files {
    bucket: Bucket,
    local_dir: PathBuf,
    cache_folder: PathBuf,
    cache_bytes: AtomicU64,
    db_uuid: String,
    epoch: AtomicU64,
    state: Mutex<State>,
    backlog_bytes_max: AtomicU64,
    /// How many threads wait for the backlog to shrink.
    backlog_waiters: AtomicUsize,
    backlog_shrunk: Condvar,
    queued: Notify,
    changed: watch::Sender<u64>,
    cache: RwLock<Option<Arc<Cache>>>,
    supervisor: Arc<Supervisor>,
    tasks: Mutex<Vec<tokio::task::JoinHandle<()>>>,
    interrupt: Interrupt,
    log: LogFn,
    runtime: tokio::runtime::Handle,
}

impl Files {
    /// An empty registry whose uploaders wait for work. Call `set_epoch`, then `install`.
    pub fn new(config: FilesConfig) -> Result<Arc<Self>> {
        let files = Arc::new(Self {
            cache_folder: config.cache_dir.join(&config.db_uuid),
            bucket: config.bucket,
            local_dir: config.local_dir,
            cache_bytes: AtomicU64::new(config.cache_bytes),
            db_uuid: config.db_uuid,
            epoch: AtomicU64::new(0),
            state: Mutex::default(),
            backlog_bytes_max: AtomicU64::new(config.backlog_bytes_max),
            backlog_waiters: AtomicUsize::new(0),
            backlog_shrunk: Condvar::new(),
            queued: Notify::new(),
            changed: watch::channel(0).0,
            cache: RwLock::new(None),
            supervisor: Supervisor::new(config.runtime.clone()),
            tasks: Mutex::default(),
            interrupt: config.interrupt,
            log: config.log,
            runtime: config.runtime,
        });
        files.start_tasks();
        Ok(files)
    }

    /// Sets the epoch with which the names of new objects begin.
    pub fn set_epoch(&self, epoch: u64) {
        self.epoch.store(epoch, Ordering::Release);
    }

    /// Registers the finished, synced local file `path` as RocksDB's file `number`, and queues its upload.
    ///
    /// Blocks: while the backlog is at its limit, until [`Files::stop_waiting`]. Errors: `Fenced`;
    /// `Interrupted` at close, or when the statement of this thread was killed: then the file is not
    /// registered.
    pub fn add_file(&self, number: u64, path: &Path) -> Result<()> {
        let size = size_of(path)?;
        self.wait_for_backlog(size)?;
        self.add_now(number, path, size)
    }

    /// Queues the upload of a finished file that has no number yet (bulk load). The registry knows it by its
    /// local path until `bind_file`.
    ///
    /// Blocks, errors: as `add_file`.
    pub fn stage_file(&self, path: &Path) -> Result<()> {
        let size = size_of(path)?;
        self.wait_for_backlog(size)?;
        let mut state = self.state.lock();
        state.names_count += 1;
        let name = format!("s{}", state.names_count);
        let entry = Arc::new(Entry::local(self.object_key(&name, path), size, path));
        if let Some(former) = state.staged.insert(path.to_owned(), Arc::clone(&entry)) {
            self.discard(&mut state, &former, Local::Keep); // The path belongs to the new file now.
        }
        self.enqueue(&mut state, entry);
        Ok(())
    }

    /// Registers the file that was staged as `staged_path`, and is at `path` now, as file `number`. Acts as
    /// `add_file` when no file was staged there.
    pub fn bind_file(&self, staged_path: &Path, number: u64, path: &Path) -> Result<()> {
        let mut state = self.state.lock();
        let Some(entry) = state.staged.remove(staged_path) else {
            drop(state);
            return self.add_file(number, path);
        };
        entry.move_to(path);
        self.insert(&mut state, number, &entry);
        Ok(())
    }

    /// Forgets a staged file that was never bound; its object is deleted.
    pub fn unstage_file(&self, staged_path: &Path) {
        let mut state = self.state.lock();
        if let Some(entry) = state.staged.remove(staged_path) {
            self.discard(&mut state, &entry, Local::Delete);
        }
    }

    /// Removes file `number`, which RocksDB no longer needs, from the registry. Errors: `NotFound`.
    pub fn remove_file(&self, number: u64) -> Result<()> {
        let mut state = self.state.lock();
        let Some(entry) = state.live.remove(&number) else {
            return Err(StoreError::NotFound { operation: "removing", object: format!("file {number}") });
        };
        state.changed.insert(number);
        self.bucket.stats().lost_objects.forget(&entry.key);
        state.unpublished.retain(|e| !Arc::ptr_eq(e, &entry));
        if state.held_count > 0 && !entry.is_uploaded() {
            state.deferred.push(entry);
            self.note_change(&mut state);
        } else {
            self.discard(&mut state, &entry, Local::Delete);
        }
        Ok(())
    }

    /// Size of file `number` in bytes; None when there is no such file.
    pub fn file_size(&self, number: u64) -> Option<u64> {
        self.state.lock().live.get(&number).map(|entry| entry.size)
    }

    /// Runs `work` for the statement of this thread, until it ends or the statement is killed.
    ///
    /// Errors: `Interrupted` when the statement is killed; `work` is then dropped unfinished.
    pub(crate) fn block_on<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        self.interrupt.block_on(&self.runtime, work)
    }

    /// All files: (number, size in bytes).
    pub fn list(&self) -> Vec<(u64, u64)> {
        self.state.lock().live.iter().map(|(number, entry)| (*number, entry.size)).collect()
    }

    /// Number of files, and the bytes of their objects: an object that several files share counts once.
    pub fn totals(&self) -> (u64, u64) {
        let state = self.state.lock();
        let mut seen = HashSet::new();
        let mut is_counted = |key: &Arc<str>| state.keys.is_shared(key) && !seen.insert(Arc::clone(key));
        let objects = state.live.values().filter(|entry| !is_counted(&entry.key));
        (state.live.len() as u64, objects.map(|entry| entry.size).sum())
    }

    /// Opens file `number` for reading. No request.
    pub fn open(&self, number: u64) -> Result<FileHandle> {
        let entry = self.state.lock().live.get(&number).cloned();
        let entry = entry
            .ok_or_else(|| StoreError::NotFound { operation: "opening", object: format!("file {number}") })?;
        Ok(FileHandle::new(number, entry, self))
    }

    /// Opens file `number` of a past state of the database for reading. Uses the live file of that number
    /// when it has the object of `record`. No request.
    pub fn open_past(&self, number: u64, record: &FileRecord) -> FileHandle {
        let live = self.state.lock().live.get(&number).filter(|entry| entry.key == record.key).cloned();
        let entry = live.unwrap_or_else(|| Arc::new(Entry::known(number, record, None)));
        FileHandle::new(number, entry, self)
    }

    /// True when there are objects of removed files that may be deleted only after a root without them is
    /// published.
    pub fn has_garbage(&self) -> bool {
        !self.state.lock().garbage.is_empty()
    }

    /// Removes from `keys` those that RocksDB or a root may still name: the keys of files that are live or
    /// staged, and of removed files for as long as no root without them is published. No request.
    pub(crate) fn retain_unknown(&self, keys: &mut BTreeSet<String>) {
        let state = self.state.lock();
        keys.retain(|key| !state.keys.contains(key));
    }

    /// The keys of all files whose upload has not ended. No request.
    pub(crate) fn uploading(&self) -> HashSet<Arc<str>> {
        let state = self.state.lock();
        let entries = state.live.values().chain(state.staged.values()).chain(&state.deferred);
        let is_open = |entry: &&Arc<Entry>| matches!(&*entry.upload.lock(), Upload::Queued | Upload::Running);
        entries.filter(is_open).map(|entry| Arc::clone(&entry.key)).collect()
    }

    /// The supervisor: it starts and watches the background tasks of the store.
    pub(crate) fn supervisor(&self) -> &Arc<Supervisor> {
        &self.supervisor
    }

    /// Stops all uploads for good; threads that wait for an upload get `error`.
    pub fn fence(&self, error: StoreError) {
        self.end(error);
    }

    /// A number that grows with every added, removed or uploaded file, and when the registry ends.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Changes the limit of the backlog, in bytes.
    pub fn set_backlog_bytes_max(&self, bytes: u64) {
        self.backlog_bytes_max.store(bytes, Ordering::Relaxed);
        let _state = self.state.lock(); // So a thread that is about to wait sees the new limit, or is woken.
        self.backlog_shrunk.notify_all();
    }

    /// Lets the part cache give space back if its disk has too little. Who writes to the disk calls this for each
    /// MiB, because a small disk can fill within the second between two looks at it. Local disk work only.
    pub fn make_room(&self) {
        let cache = self.cache.read().clone();
        if let Some(cache) = cache {
            cache.give_way();
        }
    }

    /// Whether a thread waits because the backlog is at its limit. One atomic load.
    pub fn is_backlog_full(&self) -> bool {
        self.backlog_waiters.load(Ordering::Relaxed) > 0
    }

    /// Lets no thread wait for the backlog from now on, so that a server can shut down while the bucket does
    /// not answer. Uploads go on.
    pub fn stop_waiting(&self) {
        self.state.lock().is_stopping = true;
        self.backlog_shrunk.notify_all();
    }

    /// Changes the budget of the part cache, in bytes; 0 switches the cache off.
    pub fn set_cache_bytes(&self, bytes: u64) {
        self.cache_bytes.store(bytes, Ordering::Relaxed);
        if let Some(cache) = self.cache.read().as_ref() {
            cache.set_budget(bytes);
        }
    }

    /// Ends all tasks; threads that wait for an upload get `Interrupted`.
    pub async fn stop(&self) {
        self.end(closing());
        let tasks: Vec<_> = std::mem::take(&mut *self.tasks.lock());
        for task in &tasks {
            task.abort();
        }
        futures_util::future::join_all(tasks).await;
    }

    /// Aborts all uploads at once, as when the process dies.
    #[cfg(test)]
    pub(crate) fn abort(&self) {
        self.tasks.lock().iter().for_each(tokio::task::JoinHandle::abort);
    }

    fn end(&self, error: StoreError) {
        let mut state = self.state.lock();
        if state.ended.is_none() {
            state.ended = Some(error);
        }
        self.note_change(&mut state);
        drop(state);
        self.backlog_shrunk.notify_all();
        self.queued.notify_waiters();
    }
}

impl std::fmt::Debug for Files {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Files({} live)", self.state.lock().live.len())
    }
}

fn closing() -> StoreError {
    StoreError::Interrupted("the store is being closed".to_owned())
}

fn size_of(path: &Path) -> Result<u64> {
    std::fs::metadata(path).map(|m| m.len()).map_err(|e| StoreError::from_io("looking at", path, &e))
}

#[cfg(test)]
#[path = "files_test.rs"]
mod tests;

#[cfg(test)]
#[path = "foreign_test.rs"]
mod foreign_tests;

#[cfg(test)]
#[path = "backlog_test.rs"]
mod backlog_tests;

#[cfg(test)]
#[path = "snapshot_test.rs"]
mod snapshot_tests;

#[cfg(test)]
#[path = "share_test.rs"]
mod share_tests;
