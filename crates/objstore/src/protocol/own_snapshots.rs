//! Snapshots of an open database, made and dropped by its own server for a statement.

use super::inspect::Inspector;
use super::snapshot::SnapshotStatus;
use super::store::Store;
use crate::error::Result;

impl Store {
    /// Makes the snapshot `name` of what is in the bucket now: call [`Store::publish`] first for what is local.
    ///
    /// Errors: as [`Inspector::create_snapshot`]; `Fenced`; `Interrupted` when the statement was killed: then a pin of kind
    /// `unfinished` may be left.
    pub fn create_snapshot(&self, name: &str) -> Result<SnapshotStatus> {
        let shared = &self.shared;
        shared.check_fence()?;
        let inspector = Inspector::new(shared.bucket.clone());
        shared.files.block_on(inspector.create_snapshot(name, &shared.server_id))?
    }

    /// Gives the snapshot `name` up. Errors: as [`Inspector::drop_snapshot`]; `Fenced`; `Interrupted`.
    pub fn drop_snapshot(&self, name: &str) -> Result<()> {
        let shared = &self.shared;
        shared.check_fence()?;
        shared.files.block_on(Inspector::new(shared.bucket.clone()).drop_snapshot(name))?
    }

    /// All snapshots and what clones hold, the oldest first. Errors, requests: as [`Inspector::snapshots`]; `Interrupted`.
    pub fn snapshots(&self) -> Result<Vec<SnapshotStatus>> {
        let shared = &self.shared;
        shared.files.block_on(Inspector::new(shared.bucket.clone()).snapshots())?
    }
}
