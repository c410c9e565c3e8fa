//! Statements of the server about its own open database: create, drop and show snapshots, and write the hint
//! with the names of tables.

use crate::error::Result;
use crate::protocol::history::snapshot::SnapshotStatus;
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::inspection::table_names;
use crate::protocol::store::Store;
use bytes::Bytes;

impl Store {
    /// Makes the snapshot `name` of the newest state in the bucket. The caller calls [`Store::publish`]
    /// before, to include local changes.
    ///
    /// Errors: as [`Inspector::create_snapshot`]; `Fenced`; `Interrupted` when the statement was killed. Then
    /// a pin of kind `unfinished` may be left.
    pub fn create_snapshot(&self, name: &str) -> Result<SnapshotStatus> {
        let shared = &self.shared;
        shared.check_fence()?;
        let inspector = Inspector::new(shared.bucket.clone());
        shared.files.block_on(inspector.create_snapshot(name, &shared.server_id))?
    }

    /// Drops the snapshot `name`. Errors: as [`Inspector::drop_snapshot`]; `Fenced`; `Interrupted`.
    pub fn drop_snapshot(&self, name: &str) -> Result<()> {
        let shared = &self.shared;
        shared.check_fence()?;
        shared.files.block_on(Inspector::new(shared.bucket.clone()).drop_snapshot(name))?
    }

    /// Returns all snapshots and the states that clones hold, the oldest first. Errors, requests: as
    /// [`Inspector::snapshots`]; `Interrupted`.
    pub fn snapshots(&self) -> Result<Vec<SnapshotStatus>> {
        let shared = &self.shared;
        shared.files.block_on(Inspector::new(shared.bucket.clone()).snapshots())?
    }

    /// Whether this database was made as a clone of another one. Errors: `Unavailable`; `Corruption` of its
    /// identity; `Interrupted`. Requests: a GET.
    pub fn is_clone(&self) -> Result<bool> {
        let shared = &self.shared;
        let inspector = Inspector::new(shared.bucket.clone());
        let identity = shared.files.block_on(async move { inspector.identity().await })??;
        Ok(identity.parent.is_some())
    }

    /// Writes `json` as the hint with the names of tables (table_names.rs). Errors: `Fenced`; `Unavailable`;
    /// `Interrupted`; `Invalid`. Requests: a GET, a PUT.
    pub fn put_table_names(&self, json: Bytes) -> Result<()> {
        let shared = &self.shared;
        shared.check_fence()?;
        shared.files.block_on(async move { table_names::write(&shared.bucket, &json).await })?
    }
}
