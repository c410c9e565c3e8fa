//! Snapshots whose objects the store itself keeps until a date: the object lock of S3.

use crate::error::{Result, StoreError};
use crate::protocol::copies::adopt::Progress;
use crate::protocol::format::names;
use crate::protocol::gc;
use crate::protocol::history::pin::SnapshotName;
use crate::protocol::inspection::inspect::Inspector;
use crate::requests::s3::object_lock::LockMode;
use futures_util::{StreamExt, TryStreamExt, stream};
use std::sync::Arc;

/// PUTs in flight.
const PARALLEL_LOCKS: usize = 32;

impl Inspector {
    /// Whether the bucket can lock objects. Requests: one GET.
    pub async fn has_object_lock(&self) -> Result<bool> {
        self.bucket().has_object_lock().await
    }

    /// Locks every object that a restore of the snapshot `name` reads, until `until_s`, in seconds since 1970. Returns how many
    /// they are; `progress` is told how many of how many are locked. Repeated after an error, it begins again, which does no harm.
    ///
    /// Requires: the snapshot is protected until then, so that no program of Atoll deletes these objects. Errors: `NotFound`
    /// without the snapshot; `Refused` without the right `s3:PutObjectRetention`. Requests: those that read the root, and a PUT per object.
    pub async fn lock_snapshot(
        &self,
        name: &str,
        mode: LockMode,
        until_s: u64,
        progress: Progress<'_>,
    ) -> Result<u64> {
        let pin = self.snapshot_pin(name).await?;
        let mut keys: Vec<Arc<str>> = gc::keys_of_pin(self.bucket(), &pin).await?.into_iter().collect();
        if keys.is_empty() {
            return Err(StoreError::NotFound { operation: "locking", object: format!("snapshot '{name}'") });
        }
        keys.extend([names::DB.into(), pin.into(), SnapshotName::key(name).into()]);
        let all = keys.len() as u64;
        let lock = |key: Arc<str>| async move { self.bucket().lock_object(&key, mode, until_s).await };
        let mut locks = stream::iter(keys).map(lock).buffer_unordered(PARALLEL_LOCKS);
        let mut locked = 0;
        while locks.try_next().await?.is_some() {
            locked += 1;
            progress(locked, all);
        }
        Ok(all)
    }
}
