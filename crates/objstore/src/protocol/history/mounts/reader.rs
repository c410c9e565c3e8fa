//! A reader: a server that shows the newest state of a database which another server owns. It takes one state after the
//! other, each as a mount that never changes, which is called a *view* here.
//!
//! READER-1: no key of a reader's pin is in use for longer than [`PIN_RENEWAL`]. A reader that needs a view for longer
//!     creates another pin of the same state, checks that the former one is still there (PIN-3), and deletes the former
//!     one. So the owner's collector can delete a pin of a reader that it has seen for [`PIN_LIFE`] of its own time:
//!     the reader has died, or it had no bucket for that long. No clock is compared with another one.
//! READER-2: when a pin was deleted although its reader lives, a read of an object that is gone fails, with an error that
//!     names the object. It never returns fewer rows. The reader takes a new view, as after any other error.
//!
//! A reader writes nothing but objects below `pin/`. The owner hears nothing of it and never waits for it.

use crate::client;
use crate::config::StoreConfig;
use crate::error::Result;
use crate::log::LogFn;
use crate::protocol::format::names;
use crate::protocol::history::mounts::mount::{Hold, Mount, request, write_directory};
use crate::protocol::history::mounts::tip::Tip;
use crate::protocol::history::mounts::visitor::Visitor;
use crate::protocol::history::pin::{self, Pin, PinKind};
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::start::alive;
use crate::protocol::start::local::random_nonce;
use crate::protocol::store_stats::StoreStats;
use crate::requests::bucket::Bucket;
use crate::requests::kept::keeping;
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::timeout;

/// After this time, a reader replaces the pin of a view that is still in use.
pub(in crate::protocol) const PIN_RENEWAL: Duration = Duration::from_secs(300);
/// For how long the collector leaves a pin of a reader in the bucket. It is three times [`PIN_RENEWAL`], so a renewal can
/// fail twice.
pub(in crate::protocol) const PIN_LIFE: Duration = Duration::from_secs(900);
/// After a renewal that has failed, the next one follows after this time.
const RETRY: Duration = Duration::from_secs(30);
/// How long a reader that is closed waits until the pins of its views are deleted.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// What a reader keeps in memory, because each view reads it: the newest log and MANIFEST.
const KEPT_FOLDERS: &[&str] = &[names::WAL_DIR, names::MANIFEST_DIR, names::MAP_DIR];
/// How much of it. A writer with the default settings has rarely more log that is in no table file yet.
const KEPT_BYTES_MAX: usize = 64 << 20;

/// A server that reads a database without owning it. Threads: any.
pub struct Reader {
    visitor: Visitor,
    /// [`PIN_RENEWAL`]; a test makes it shorter.
    pub(in crate::protocol) renewal: Duration,
    tip: Mutex<Option<Tip>>,
    /// Each task that keeps a pin has a clone of the sender. When all are gone, the receiver ends.
    running: Option<Sender<()>>,
    ended: Mutex<Receiver<()>>,
}

impl Reader {
    /// Connects as `config` says, with its part cache in `cache_dir`. Lists of pins show `server_id`.
    ///
    /// Errors, requests: as [`Visitor::open`]. Requires: not called on a thread of a tokio runtime.
    pub fn open(config: &StoreConfig, log: LogFn) -> Result<Self> {
        Self::over(client::connect(config, Arc::default())?, config, log)
    }

    /// Makes a reader of the database in `bucket`.
    pub(in crate::protocol) fn over(bucket: Bucket, config: &StoreConfig, log: LogFn) -> Result<Self> {
        let (running, ended) = channel(1);
        Ok(Self {
            visitor: Visitor::over(keeping(&bucket, KEPT_FOLDERS, KEPT_BYTES_MAX), config, log)?,
            renewal: PIN_RENEWAL,
            tip: Mutex::default(),
            running: Some(running),
            ended: Mutex::new(ended),
        })
    }

    /// Whether the bucket may have more than the view that was taken last. True when no view was taken yet.
    ///
    /// Errors: `Unavailable`; `Interrupted`. Requests: two LISTs.
    pub fn has_news(&self) -> Result<bool> {
        let Some(tip) = self.tip.lock().clone() else { return Ok(true) };
        self.visitor.files.block_on(tip.is_passed(&self.visitor.bucket))?
    }

    /// Takes a view of everything that is in the bucket. Writes the files that RocksDB needs beside the table files into
    /// `dir`, which must not exist.
    ///
    /// Errors: `NotFound` before the owner has published anything; `Unavailable`; `Corruption`; `Interrupted`; those of
    /// the local disk. After an error, at most `dir` is left. Requests: those that find and read a state, except the log
    /// that the reader has in memory ([`KEPT_BYTES_MAX`]); a PUT, and a DELETE after the view was dropped.
    pub fn view(&self, dir: &Path) -> Result<Mount> {
        let Visitor { bucket, files, creator, .. } = &self.visitor;
        let tip = files.block_on(Tip::read(bucket))??;
        let key = pin::reader_key(&random_nonce()?);
        let (moment, _) = self.visitor.pin(key.clone(), request(None, creator, creator))?;
        let pin = moment.pin(PinKind::Clone, creator, creator);
        let view = ViewPin::keep(self, key, pin);
        files.block_on(write_directory(bucket, &moment, dir))??;
        *self.tip.lock() = Some(tip);
        Ok(Mount::new(files, moment, Hold::Reader { _pin: view }))
    }

    /// Returns the name of the server that has shown last that it owns the database; empty: none has.
    ///
    /// Errors: `Unavailable`; `Interrupted`. Requests: a GET.
    pub fn owner(&self) -> Result<String> {
        let hint = self.visitor.files.block_on(alive::read(&self.visitor.bucket))??;
        Ok(hint.map(|hint| hint.server_id).unwrap_or_default())
    }

    /// Whether the rows must be masked before anybody may read them, as [`Store::owes_masking`].
    ///
    /// [`Store::owes_masking`]: crate::protocol::Store::owes_masking
    pub fn owes_masking(&self, masked_in: &str) -> bool {
        self.visitor.identity.owes_masking(masked_in)
    }

    /// The numbers of the requests and of the part cache; the others are 0.
    pub fn stats(&self) -> StoreStats {
        let Visitor { bucket, identity, .. } = &self.visitor;
        StoreStats::of_bucket(bucket.stats(), &identity.db_uuid)
    }
}

impl Drop for Reader {
    /// Waits until the pins of the views, which must all have been dropped, are deleted, but for a limited time: the
    /// owner's collector deletes those that are left.
    fn drop(&mut self) {
        self.running = None;
        let ended = self.ended.get_mut();
        let _ = self.visitor.executor.block_on(async { timeout(CLOSE_TIMEOUT, ended.recv()).await });
    }
}

/// Keeps a state pinned for as long as it exists (READER-1).
pub(in crate::protocol) struct ViewPin {
    dropped: Arc<Notify>,
}

impl ViewPin {
    /// Keeps the state of `pin`, which is in the bucket with the key `key`.
    fn keep(reader: &Reader, key: String, pin: Pin) -> Self {
        let dropped = Arc::new(Notify::new());
        let (bucket, until) = (reader.visitor.bucket.clone(), dropped.clone());
        let (running, every) = (reader.running.clone(), reader.renewal);
        reader.visitor.executor.handle().spawn(async move {
            renew(&bucket, key, &pin, every, &until).await;
            drop(running);
        });
        Self { dropped }
    }
}

impl Drop for ViewPin {
    fn drop(&mut self) {
        self.dropped.notify_one();
    }
}

/// Replaces the pin `key`, `every` so often, until `dropped` is notified; then deletes it. A failure to renew is tried
/// again. A failure to delete leaves the pin to the owner's collector.
async fn renew(bucket: &Bucket, mut key: String, pin: &Pin, every: Duration, dropped: &Notify) {
    let mut wait = every;
    while timeout(wait, dropped.notified()).await.is_err() {
        wait = match replace(bucket, &mut key, pin).await {
            Ok(()) => every,
            Err(_) => RETRY,
        };
    }
    let _ = bucket.delete(&key).await;
}

/// Creates another pin in place of `key`. If the pin `key` is gone, its objects may be gone, too (READER-2); the new pin
/// keeps those that are left.
async fn replace(bucket: &Bucket, key: &mut String, pin: &Pin) -> Result<()> {
    let next = pin::reader_key(&random_nonce()?);
    Inspector::new(bucket.clone()).put_pin(&next, pin).await?;
    let former = std::mem::replace(key, next);
    bucket.delete(&former).await
}
