//! Requests to the bucket: reads, single PUTs and deletions. Listings are in listing.rs, multipart uploads in
//! upload.rs.
//!
//! Keys are relative to the prefix of one database. Every attempt is counted in [`Stats`], bounded by
//! [`RetryPolicy::request_timeout`], and repeated with back-off when that can help. All requests are
//! idempotent except the create-only PUT, whose unclear outcomes [`Bucket::create_slot`] resolves.
//!
//! BUCKET-1  All attempts to create a slot send the same bytes, which contain a nonce. So reading the slot
//!           back tells whose bytes it holds.
//! BUCKET-2  `AlreadyExists` is never taken as proof that another server won. A concurrent PUT (409), or an
//!           earlier attempt of this server whose reply was lost, leads to the same error.
//! BUCKET-3  A 404 that means "no such bucket" is never reported as an absent object (failure.rs).

use crate::error::{Result, StoreError};
use crate::last_error::ANY;
pub use crate::machine::fill_random;
use crate::requests::failure::{Class, Failure};
use crate::requests::kept::Kept;
use crate::requests::origin::{self, Source};
use crate::requests::retry::RetryPolicy;
use crate::requests::s3::credentials::GivenKeys;
use crate::requests::s3::direct::Direct;
use crate::requests::unfinished::{ListUploads, UnfinishedUpload};
use crate::stats::{Stats, add};
use bytes::Bytes;
use object_store::multipart::MultipartStore;
use object_store::path::Path as ObjectPath;
use object_store::{GetOptions, ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use parking_lot::Mutex;
use std::future::Future;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, SystemTime};

/// The size that is assumed for the time limit when a whole object of unknown size is read. The largest such
/// objects are the MANIFEST and chunks of the WAL.
const WHOLE_BYTES: u64 = 8 << 20;
/// How a create-only PUT ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlotOutcome {
    /// The slot holds our bytes.
    Mine,
    /// The slot holds these bytes of another server, for ever.
    Lost(Bytes),
}

/// One object of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectInfo {
    /// The object's name, relative to the prefix of the database.
    pub key: String,
    /// The size in bytes.
    pub size: u64,
    /// The time of the last write, by the bucket's clock.
    pub last_modified: SystemTime,
}

/// What a [`Bucket`] is made of. Tests replace the store by one that fails.
#[allow(missing_docs)]
#[derive(Clone)]
pub struct Parts {
    pub store: Arc<dyn ObjectStore>,
    /// Uploads large objects in pieces; None = every object is one PUT.
    pub multipart: Option<Arc<dyn MultipartStore>>,
    /// Sends the requests that `store` and `multipart` do not offer. None for a store that is not S3.
    pub(crate) direct: Option<Arc<Direct>>,
    /// Lists unfinished uploads; None = this store cannot list them.
    pub(crate) uploads: Option<Arc<dyn ListUploads>>,
    /// The access keys in the configuration; None when the keys come from elsewhere or the store needs none.
    pub(crate) keys: Option<Arc<GivenKeys>>,
    pub prefix: String,
    /// The root directory of a `file://` bucket; None for every other bucket.
    pub directory: Option<PathBuf>,
    /// For messages: "bucket b at http://...".
    pub place: String,
    pub stats: Arc<Stats>,
    pub policy: RetryPolicy,
}

impl Parts {
    /// Parts for a store inside this process. They have no multipart uploads, the prefix "db", and short
    /// waits between attempts.
    pub(crate) fn in_process(store: Arc<dyn ObjectStore>, place: &str) -> Self {
        Self {
            store,
            multipart: None,
            direct: None,
            uploads: None,
            keys: None,
            prefix: "db".to_owned(),
            directory: None,
            place: place.to_owned(),
            stats: Arc::default(),
            policy: RetryPolicy { delay_min: Duration::from_millis(1), ..RetryPolicy::default() },
        }
    }
}

/// A bucket, seen through the prefix of one database. Cloning is cheap.
#[derive(Clone)]
pub struct Bucket {
    pub(crate) parts: Arc<Parts>,
    pub(crate) policy: RetryPolicy,
    /// The time limit of the first attempt to create a slot; None: as for all other requests.
    pub(crate) slot_timeout: Option<Duration>,
    /// Uploads in pieces that failed. The collector aborts them later.
    pub(crate) given_up: Arc<Mutex<Vec<UnfinishedUpload>>>,
    /// The objects that stay in memory. None: every read is a request.
    pub(crate) kept: Option<Arc<Kept>>,
}

impl std::fmt::Debug for Bucket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Bucket({}, prefix '{}')", self.parts.place, self.parts.prefix)
    }
}

/// The result of one attempt at a request. Its caller decides whether another attempt follows a failure.
pub(crate) type Attempt<T> = std::result::Result<T, Failure>;

impl Bucket {
    /// Makes a bucket of its parts.
    pub fn new(parts: Parts) -> Self {
        let policy = parts.policy.clone();
        Self { parts: Arc::new(parts), policy, slot_timeout: None, given_up: Arc::default(), kept: None }
    }

    /// A bucket in memory, for tests.
    pub fn in_memory() -> Self {
        let store = Arc::new(object_store::memory::InMemory::new());
        Self::new(Parts { multipart: Some(Arc::clone(&store) as _), ..Parts::in_process(store, "memory") })
    }

    /// Returns a handle of the same bucket whose requests have the bounds of `policy`.
    pub fn with_policy(&self, policy: RetryPolicy) -> Self {
        Self { policy, ..self.clone() }
    }

    /// The same bucket, for creating slots that commits wait for. The time limit of the first attempt is
    /// `timeout` plus a second per MiB. With each further attempt `timeout` doubles, up to the limit of all
    /// requests. So a request that is never answered costs little time, and a slow network still gets enough
    /// time.
    pub fn with_slot_timeout(&self, timeout: Duration) -> Self {
        Self { slot_timeout: Some(timeout), ..self.clone() }
    }

    /// The time limit and the number of attempts for requests through this handle.
    pub fn policy(&self) -> &RetryPolicy {
        &self.policy
    }

    /// The counters of this bucket's requests.
    pub fn stats(&self) -> &Arc<Stats> {
        &self.parts.stats
    }

    /// The name of the bucket and its endpoint, or the directory, for messages.
    pub fn place(&self) -> &str {
        &self.parts.place
    }

    /// Whether the bucket is a directory of this machine.
    pub fn is_directory(&self) -> bool {
        self.parts.directory.is_some()
    }

    /// The local path of the object `key` of this or another database. None unless this is a `file://`
    /// bucket.
    pub fn local_path(&self, key: &str) -> Option<PathBuf> {
        self.parts.directory.as_ref().map(|root| root.join(key))
    }

    /// Reads a whole object, uncached.
    ///
    /// Errors: `NotFound`; `Unavailable` after the last attempt.
    /// Requests: one GET per attempt.
    pub async fn get(&self, key: &str) -> Result<Bytes> {
        self.get_about(key, WHOLE_BYTES).await
    }

    /// As `get`, for an object of about `bytes`: the time limit grows with this size.
    async fn get_about(&self, key: &str, bytes: u64) -> Result<Bytes> {
        let source = self.source(key)?;
        self.repeat("reading", key, &self.parts.stats.requests_get, bytes, || self.get_once(&source, None))
            .await
    }

    /// Reads `range` of an object. Fewer bytes than requested are an error.
    ///
    /// Errors: as `get`; `Corruption` when the object is shorter than the range.
    pub async fn get_range(&self, key: &str, range: Range<u64>) -> Result<Bytes> {
        let source = self.source(key)?;
        let length = range.end.saturating_sub(range.start);
        let bytes = self
            .repeat("reading", key, &self.parts.stats.requests_get, length, || {
                self.get_once(&source, Some(range.clone()))
            })
            .await?;
        if bytes.len() as u64 != length {
            return Err(StoreError::Corruption(format!(
                "reading {key} in {}: bytes {}..{} were asked for and {} came: the object is truncated",
                self.parts.place,
                range.start,
                range.end,
                bytes.len()
            )));
        }
        Ok(bytes)
    }

    /// Reads several ranges of one object in parallel; returns them in the order given.
    ///
    /// Requests: one GET per range; merge neighbours before calling.
    pub async fn get_ranges(&self, key: &str, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        futures_util::future::try_join_all(ranges.iter().map(|r| self.get_range(key, r.clone()))).await
    }

    /// Writes an object, or replaces it if it exists. Only for `hint/`: all other names are written once.
    pub async fn put(&self, key: &str, bytes: Bytes) -> Result<()> {
        if !key.starts_with("hint/") {
            return Err(StoreError::Bug(format!("plain PUT of {key}: only hints may be overwritten")));
        }
        self.put_unconditional(key, bytes, PutOptions::default()).await
    }

    /// Returns the size of an object and the time of its last write.
    ///
    /// Requests: one HEAD per attempt. Only a clear answer of the bucket gives `NotFound`; any other failure
    /// does not.
    pub async fn head(&self, key: &str) -> Result<ObjectInfo> {
        let (store, path) = self.source(key)?;
        let meta = self
            .repeat("looking at", key, &self.parts.stats.requests_head, 0, || async {
                store.head(&path).await.map_err(|e| Failure::new(&e))
            })
            .await?;
        let last_modified = meta.last_modified.into();
        Ok(ObjectInfo { key: key.to_owned(), size: meta.size, last_modified })
    }

    /// Deletes an object. It is no error if the object does not exist.
    pub async fn delete(&self, key: &str) -> Result<()> {
        let path = self.path(key)?;
        let outcome = self
            .repeat("deleting", key, &self.parts.stats.requests_delete, 0, || async {
                self.parts.store.delete(&path).await.map_err(|e| Failure::new(&e))
            })
            .await;
        match outcome {
            Err(error) if error.is_not_found() => Ok(()),
            other => other,
        }
    }

    /// Creates `key` with `bytes` if it does not exist, and finds out whether `key` then holds our bytes or
    /// another server's.
    ///
    /// Requires: `bytes` contain `nonce`, and are the same in every call for this slot.
    /// Errors: `Unavailable` leaves the outcome unknown: call again with the same bytes, never with others.
    /// Requests: one PUT. After an unclear answer also one GET; when another server's bytes are found, two
    /// GETs.
    pub async fn create_slot(&self, key: &str, bytes: Bytes, nonce: &[u8; 16]) -> Result<SlotOutcome> {
        if !contains(&bytes, nonce) {
            return Err(StoreError::Bug(format!("the bytes for {key} do not contain their nonce")));
        }
        let path = self.path(key)?;
        let mut attempt = 0;
        loop {
            attempt += 1;
            let bounded = self.for_slot(attempt);
            let failure = match bounded.create_once(&path, &bytes).await {
                Ok(()) => {
                    self.parts.stats.last_error.works("creating");
                    return Ok(SlotOutcome::Mine);
                }
                Err(failure) => failure,
            };
            if !matches!(failure.class, Class::Exists | Class::Transient) {
                return Err(self.give_up(failure, "creating", key, attempt));
            }
            match bounded.read_slot(key, &bytes, nonce).await {
                Ok(Some(outcome)) => return Ok(outcome),
                Ok(None) => {} // Absent: our PUT was not applied (yet), so send it again.
                Err(error) if !self.policy.allows_another(attempt) => return Err(error),
                Err(_) => {}
            }
            if !self.policy.allows_another(attempt) {
                return Err(self.give_up(failure, "creating", key, attempt));
            }
            self.pause(attempt).await;
        }
    }

    /// Repeats `call`, which transfers about `bytes`, until it succeeds, fails for good, or the policy allows
    /// no further attempt.
    pub(crate) async fn repeat<T, F, Fut>(
        &self,
        operation: &'static str,
        key: &str,
        counter: &AtomicU64,
        bytes: u64,
        call: F,
    ) -> Result<T>
    where
        F: Fn() -> Fut,
        Fut: Future<Output = Attempt<T>>,
    {
        let mut attempt = 0;
        loop {
            attempt += 1;
            add(counter, 1);
            let failure = match self.in_time(bytes, call()).await {
                Ok(value) => {
                    self.parts.stats.last_error.works(operation);
                    return Ok(value);
                }
                Err(failure) => failure,
            };
            if failure.class != Class::Transient || !self.policy.allows_another(attempt) {
                return Err(self.give_up(failure, operation, key, attempt));
            }
            self.pause(attempt).await;
        }
    }

    /// Uploads `bytes` as the object `key`, and replaces the object if there is one.
    pub(crate) async fn put_unconditional(&self, key: &str, bytes: Bytes, options: PutOptions) -> Result<()> {
        let path = self.path(key)?;
        let size = bytes.len() as u64;
        self.repeat("writing", key, &self.parts.stats.requests_put, size, || async {
            let put = self.parts.store.put_opts(&path, bytes.clone().into(), options.clone());
            put.await.map(|_| ()).map_err(|e| Failure::new(&e))
        })
        .await?;
        add(&self.parts.stats.bytes_uploaded, size);
        Ok(())
    }

    /// The full path of this database's object `key`. Errors: `Bug` for a key of another database, which this
    /// function's callers may not change.
    pub(crate) fn path(&self, key: &str) -> Result<ObjectPath> {
        if origin::is_foreign(key) {
            return Err(StoreError::Bug(format!("{key} belongs to another database and may only be read")));
        }
        let full = match (self.parts.prefix.as_str(), key) {
            ("", key) => key.to_owned(),
            (prefix, "") => prefix.to_owned(),
            (prefix, key) => format!("{prefix}/{key}"),
        };
        parse_path(&full)
    }

    /// Makes the error of a request that is not repeated any more, counts it, and notes it as the last error.
    pub(crate) fn give_up(
        &self,
        failure: Failure,
        operation: &'static str,
        key: &str,
        attempts: u32,
    ) -> StoreError {
        let ends_with = if failure.class == Class::Transient { ANY } else { operation };
        let error = failure.into_error(operation, key, &self.parts.place, attempts);
        if !error.is_not_found() {
            add(&self.parts.stats.request_errors, 1);
            self.parts.stats.last_error.set(ends_with, &error.to_string());
        }
        error
    }

    async fn get_once(&self, (store, path): &Source, range: Option<Range<u64>>) -> Attempt<Bytes> {
        let options = GetOptions::new().with_range(range);
        let answer = store.get_opts(path, options).await.map_err(|e| Failure::new(&e))?;
        let bytes = answer.bytes().await.map_err(|e| Failure::new(&e))?;
        add(&self.parts.stats.bytes_downloaded, bytes.len() as u64);
        Ok(bytes)
    }

    /// This bucket with the time limit for attempt `attempt` to create a slot, counted from 1. When slots
    /// have a timeout of their own, each read gets only one attempt, because the loop in `create_slot`
    /// repeats PUT and read.
    fn for_slot(&self, attempt: u32) -> Self {
        let Some(first) = self.slot_timeout else { return self.clone() };
        let doubled = first.saturating_mul(1 << (attempt - 1).min(16));
        let request_timeout = doubled.min(self.policy.request_timeout);
        self.with_policy(RetryPolicy { request_timeout, attempts_max: 1, ..self.policy.clone() })
    }

    async fn create_once(&self, path: &ObjectPath, bytes: &Bytes) -> Attempt<()> {
        add(&self.parts.stats.requests_put, 1);
        let put = async {
            let options = PutOptions::from(PutMode::Create);
            let put = self.parts.store.put_opts(path, bytes.clone().into(), options);
            put.await.map(|_| ()).map_err(|e| Failure::new(&e))
        };
        self.in_time(bytes.len() as u64, put).await?;
        add(&self.parts.stats.bytes_uploaded, bytes.len() as u64);
        Ok(())
    }

    /// Whether the slot holds our bytes or another server's; None when it is absent. Bytes of another server
    /// count only when two reads return the same, because one damaged reply must not fence the rightful
    /// owner.
    async fn read_slot(&self, key: &str, mine: &Bytes, nonce: &[u8; 16]) -> Result<Option<SlotOutcome>> {
        let mut seen: Option<Bytes> = None;
        for _ in 0..4 {
            let body = match self.get_about(key, mine.len() as u64).await {
                Ok(body) if body == *mine => return Ok(Some(SlotOutcome::Mine)),
                Ok(body) => body,
                Err(error) if error.is_not_found() => return Ok(None),
                Err(error) => return Err(error),
            };
            if seen.as_ref() == Some(&body) && !contains(&body, nonce) {
                return Ok(Some(SlotOutcome::Lost(body)));
            }
            seen = Some(body);
        }
        Err(StoreError::Corruption(format!(
            "reading {key} in {} gives other bytes than were written there, or each time others: the bucket or \
             the network damages data",
            self.parts.place
        )))
    }

    pub(crate) async fn in_time<T>(
        &self,
        bytes: u64,
        attempt: impl Future<Output = Attempt<T>>,
    ) -> Attempt<T> {
        let bound = self.policy.timeout_for(bytes);
        let Ok(outcome) = tokio::time::timeout(bound, attempt).await else {
            return Err(Failure::timeout(bound));
        };
        if outcome.as_ref().is_err_and(Failure::is_throttled) {
            add(&self.parts.stats.requests_throttled, 1);
        }
        outcome
    }

    pub(crate) async fn pause(&self, attempt: u32) {
        add(&self.parts.stats.request_retries, 1);
        tokio::time::sleep(self.policy.delay(attempt)).await;
    }
}

/// Whether `key`, appended to a directory, stays below that directory. Checked for keys that were read from
/// records in the bucket.
pub fn is_plain_key(key: &str) -> bool {
    !key.is_empty()
        && !key.starts_with('/')
        && Path::new(key).components().all(|c| matches!(c, std::path::Component::Normal(_)))
}

pub(crate) fn parse_path(full: &str) -> Result<ObjectPath> {
    ObjectPath::parse(full).map_err(|e| StoreError::Bug(format!("object name '{full}': {e}")))
}

fn contains(bytes: &[u8], nonce: &[u8; 16]) -> bool {
    bytes.windows(nonce.len()).any(|window| window == nonce)
}

#[cfg(test)]
#[path = "bucket_test.rs"]
mod tests;
