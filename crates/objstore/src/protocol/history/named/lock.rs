//! Locks the objects of snapshots in the bucket until a date, with the object lock of S3.

use crate::error::{Result, StoreError};
use crate::protocol::copies::adopt::Progress;
use crate::protocol::format::names;
use crate::protocol::gc;
use crate::protocol::history::named::protect::protected;
use crate::protocol::history::named::snapshot_names::Named;
use crate::protocol::history::pin;
use crate::protocol::inspection::inspect::Inspector;
use crate::requests::origin;
use crate::requests::s3::object_lock::LockMode;
use futures_util::{StreamExt, TryStreamExt, stream};
use std::collections::BTreeSet;
use std::sync::Arc;

/// How many PUTs of locks run at a time. It is the same number as for the GETs of small objects in image.rs.
const PARALLEL_LOCKS: usize = 32;

impl Inspector {
    /// Whether the bucket's object lock is switched on, without which no object can be locked. Requests: one
    /// GET.
    pub async fn has_object_lock(&self) -> Result<bool> {
        self.bucket().has_object_lock().await
    }

    /// Locks every object that a clone of the snapshot `name` reads, and the objects that protect the
    /// snapshot, until `until_s` in seconds since 1970. Returns how many objects these are. Calls `progress`
    /// with how many are locked and how many are to be locked. After an error the caller may repeat the call,
    /// which locks all of them again.
    ///
    /// Requires: the snapshot is protected until then (protect.rs), so that no program of Atoll tries to
    /// delete these objects. Errors: `NotFound` without the snapshot; `Refused` without the right
    /// `s3:PutObjectRetention`. Requests: those that read the root, and a PUT per object.
    pub async fn lock_snapshot(
        &self,
        name: &str,
        mode: LockMode,
        until_s: u64,
        progress: Progress<'_>,
    ) -> Result<u64> {
        let Named { key: named, pin } = self.snapshot_pin(name).await?;
        let mut keys: Vec<Arc<str>> = gc::keys_of_pin(self.bucket(), &pin).await?.into_iter().collect();
        if keys.is_empty() {
            return Err(StoreError::NotFound { operation: "locking", object: format!("snapshot '{name}'") });
        }
        // A program that clones this database checks that the pins of this database in its parents still
        // exist (PIN-3). So these pins are locked as well.
        let origins = keys.iter().filter_map(|key| origin::split(key).0.map(str::to_owned));
        let parents: BTreeSet<String> = origins.collect();
        let own_pin = pin::clone_key(&self.identity().await?.db_uuid);
        keys.extend(parents.iter().map(|parent| Arc::from(origin::join(parent, &own_pin))));
        let protection = names::protection(&protected(&pin), until_s);
        keys.extend([names::DB, &*pin, &*named, &*protection].map(Arc::from));
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
