//! What the server does with its own open database when a session asks for it: creates, drops and shows
//! snapshots. Also writes the hint with the names of the tables.

use crate::error::Result;
use crate::protocol::history::snapshot::SnapshotStatus;
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::inspection::snapshot_list::readers;
use crate::protocol::inspection::table_names;
use crate::protocol::start::identity::is_owed;
use crate::protocol::store::Store;
use bytes::Bytes;

impl Store {
    /// Makes the snapshot `name` of the newest state in the bucket. To include all local changes, the caller
    /// first calls [`Store::publish`].
    ///
    /// Errors: as [`Inspector::create_snapshot`]; `Fenced`; `Interrupted` when the statement was killed. Then
    /// a pin may be left, which `atollctl snapshot list` shows as `unfinished`.
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

    /// Returns all snapshots and the other states that pins keep, for example for clones, the oldest first.
    /// Errors, requests: as [`Inspector::snapshots`]; `Interrupted`.
    pub fn snapshots(&self) -> Result<Vec<SnapshotStatus>> {
        let shared = &self.shared;
        shared.files.block_on(Inspector::new(shared.bucket.clone()).snapshots())?
    }

    /// As [`Store::snapshots`], without the numbers about files: it reads the pins and not what they keep.
    /// Errors, requests: as [`Inspector::pins`]; `Interrupted`.
    pub fn pins(&self) -> Result<Vec<SnapshotStatus>> {
        let shared = &self.shared;
        shared.files.block_on(Inspector::new(shared.bucket.clone()).pins())?
    }

    /// Whether this database was made as a clone or as a copy of another one. Errors: `Unavailable`;
    /// `Corruption` of its identity; `Interrupted`. Requests: a GET.
    pub fn is_clone(&self) -> Result<bool> {
        let shared = &self.shared;
        let inspector = Inspector::new(shared.bucket.clone());
        let identity = shared.files.block_on(async move { inspector.identity().await })??;
        Ok(identity.parent.is_some())
    }

    /// Whether the rows of this database must still be masked before anybody may read them (rule MASK-3), when
    /// they were masked in the database with the uuid `masked_in` last; "": they were never masked. Requests:
    /// none.
    pub fn owes_masking(&self, masked_in: &str) -> bool {
        is_owed(&self.shared.masked_in, masked_in)
    }

    /// Writes `json` as the hint with the names of tables (table_names.rs). Errors: `Fenced`; `Unavailable`;
    /// `Interrupted`; `Invalid`. Requests: a GET, a PUT.
    pub fn put_table_names(&self, json: Bytes) -> Result<()> {
        let shared = &self.shared;
        shared.check_fence()?;
        shared.files.block_on(async move { table_names::write(&shared.bucket, &json).await })?
    }
}

/// Returns the states that readers of the store's database show. Errors: `Unavailable`; `Interrupted`. Requests: a LIST,
/// and a GET for each of the states.
pub fn readers_of(store: &Store) -> Result<Vec<SnapshotStatus>> {
    let shared = &store.shared;
    shared.files.block_on(readers(&shared.bucket))?
}
