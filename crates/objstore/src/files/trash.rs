//! Deletes objects that no published root names, in batches that survive a crash.
//!
//! A batch is first written to `tomb/<epoch>/<n>` (a list of keys), then deleted, then the record is deleted.
//! A record that is left from a crash or a shutdown is worked off at the next open, without those keys that
//! the installed map names. Only keys below `sst/` of this database's prefix are ever deleted.

use super::Files;
use crate::bucket::{fill_random, is_plain_key};
use crate::error::{Result, StoreError};
use crate::log::Level;
use bytes::Bytes;
use futures_util::StreamExt;
use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// Objects wait this long to be deleted together: two more requests per batch instead of per object.
const GATHER: Duration = Duration::from_secs(10);
/// Keys per batch, about 60 bytes each.
const BATCH_KEYS_MAX: usize = 1000;
/// Between attempts to delete a batch; nobody waits for it.
const RETRY_DELAY: Duration = Duration::from_secs(30);
/// Deletes in flight.
const DELETES: usize = 8;

/// Keys to delete.
#[derive(Default)]
pub(super) struct Trash {
    keys: Mutex<Vec<Arc<str>>>,
    filled: Notify,
    records_count: AtomicU64,
}

impl Trash {
    /// Queues keys; whether they may be deleted was decided by the caller.
    pub(super) fn add(&self, keys: impl Iterator<Item = Arc<str>>) {
        let mut pending = self.keys.lock();
        pending.extend(keys);
        if !pending.is_empty() {
            self.filled.notify_one();
        }
    }

    fn take_batch(&self) -> Vec<Arc<str>> {
        let mut pending = self.keys.lock();
        let count = pending.len().min(BATCH_KEYS_MAX);
        let mut batch: Vec<_> = pending.drain(..count).collect();
        if !pending.is_empty() {
            self.filled.notify_one();
        }
        batch.sort_unstable();
        batch.dedup();
        batch
    }
}

impl Files {
    #[cfg(test)]
    pub(super) fn trash_is_empty(&self) -> bool {
        self.trash.keys.lock().is_empty()
    }

    pub(super) async fn empty_trash_forever(&self) {
        loop {
            self.trash.filled.notified().await;
            tokio::time::sleep(GATHER).await;
            let batch = self.trash.take_batch();
            if self.state.lock().ended.is_some() {
                return self.trash.add(batch.into_iter());
            }
            self.delete_batch(&batch).await;
        }
    }

    /// Writes down what was not deleted, for the next open. Best effort: what is lost here is an orphan that
    /// the collector of `atollctl` finds.
    pub(super) async fn keep_trash(&self) {
        let batch: Vec<_> = std::mem::take(&mut *self.trash.keys.lock());
        if !batch.is_empty()
            && let Err(error) = self.write_tomb(&batch).await
        {
            (self.log)(Level::Warning, &format!("noting {} old objects for deletion: {error}", batch.len()));
        }
    }

    /// Writes the record, deletes its keys, deletes it; each step until it works or the task is ended.
    async fn delete_batch(&self, batch: &[Arc<str>]) {
        if batch.is_empty() {
            return;
        }
        let record = loop {
            match self.write_tomb(batch).await {
                Ok(record) => break record,
                Err(error) => self.rest_after(&error).await,
            }
        };
        while let Err(error) = self.delete_keys(batch).await {
            self.rest_after(&error).await;
        }
        if let Err(error) = self.bucket.delete(&record).await {
            // The next open deletes it: by then its keys are absent, which is fine.
            (self.log)(Level::Info, &format!("a deletion record stays for the next start: {error}"));
        }
    }

    async fn rest_after(&self, error: &StoreError) {
        (self.log)(Level::Warning, &format!("deleting old objects, will be tried again: {error}"));
        tokio::time::sleep(RETRY_DELAY).await;
    }

    async fn delete_keys(&self, keys: &[Arc<str>]) -> Result<()> {
        if let Some(key) = keys.iter().find(|key| !key.starts_with("sst/") || !is_plain_key(key)) {
            return Err(StoreError::Bug(format!("asked to delete {key}, which is no table file")));
        }
        let deletes: Vec<_> = keys
            .iter()
            .map(|key| (self.bucket.clone(), Arc::clone(key)))
            .map(|(bucket, key)| async move { bucket.delete(&key).await })
            .collect();
        let outcomes: Vec<Result<()>> =
            futures_util::stream::iter(deletes).buffer_unordered(DELETES).collect().await;
        outcomes.into_iter().collect()
    }

    async fn write_tomb(&self, keys: &[Arc<str>]) -> Result<String> {
        let count = self.trash.records_count.fetch_add(1, Ordering::Relaxed);
        let name = format!("tomb/{:020}/{count:020}", self.epoch.load(Ordering::Acquire));
        let mut nonce = [0u8; 16];
        fill_random(&mut nonce)?;
        // The first line holds the nonce, so its bytes must not contain a line feed.
        nonce.iter_mut().for_each(|byte| *byte = b'a' + (*byte & 15));
        let mut text = nonce.to_vec();
        for key in keys {
            text.push(b'\n');
            text.extend_from_slice(key.as_bytes());
        }
        self.bucket.create_slot(&name, Bytes::from(text), &nonce).await?;
        Ok(name)
    }

    /// Finishes the deletions of earlier processes. `live` are the keys of the installed map.
    ///
    /// A record that cannot be worked off stays, and the others are worked off all the same.
    /// Errors: the first one; `Unavailable` ends the work.
    pub(super) async fn resume_trash(&self, live: &HashSet<Arc<str>>) -> Result<()> {
        let mut outcome = Ok(());
        for record in self.bucket.list("tomb", None).await? {
            let done = self.resume_record(&record.key, live).await;
            if let Err(StoreError::Unavailable(_)) = done {
                return done;
            }
            outcome = outcome.and(done.map_err(|error| error.with(&record.key)));
        }
        outcome
    }

    async fn resume_record(&self, record: &str, live: &HashSet<Arc<str>>) -> Result<()> {
        let text = self.bucket.get(record).await?;
        let text = String::from_utf8_lossy(&text).into_owned();
        let keys: Vec<Arc<str>> =
            text.lines().skip(1).map(Arc::from).filter(|key| !live.contains(key)).collect();
        self.delete_keys(&keys).await?;
        self.bucket.delete(record).await
    }
}
