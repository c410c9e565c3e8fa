//! The steps of a publish that concern the file map: enter the changes, put new parts into the local
//! directory and into the bucket, and write `ATOLL_FILES` and the marker. Only after these steps may the root
//! name the parts (`map_writer.rs`, `local_map.rs`).

use super::{Publisher, Snapshot};
use crate::error::{Result, StoreError};
use crate::files::FileChanges;
use crate::protocol::format::codec::Nonce;
use crate::protocol::format::names;
use crate::protocol::format::records::{Marker, Root};
use crate::protocol::publish::local_map::{delete_other_parts, write_files, write_parts};
use crate::protocol::publish::map_record::LocalFiles;
use crate::protocol::publish::map_writer::NewPart;
use crate::protocol::start::local::write_marker;
use crate::requests::bucket::SlotOutcome;
use crate::requests::upload::blocking;
use crate::stats::add;
use futures_util::future::try_join_all;

/// The most PUTs that run at once when many parts of the file map are new.
const PARALLEL_PARTS: usize = 8;

impl Publisher {
    /// Enters the changes of the snapshot into the map. If this publish fails, the next one enters them
    /// again.
    pub(super) fn change_map(&mut self, snapshot: &Snapshot, changes: FileChanges) -> Result<()> {
        self.is_map_ahead |= self.published.is_none();
        let outcome = self.map.apply(changes);
        self.is_map_ahead |= *outcome.as_ref().unwrap_or(&true);
        add(&self.shared.bucket.stats().map_entries_visited, self.map.take_visited());
        let (known, live) = (self.map.files().len(), snapshot.files.files());
        if known != live {
            return Err(StoreError::Bug(format!("the file map has {known} files, RocksDB has {live}")));
        }
        outcome.map(drop)
    }

    /// Puts the new parts of the map into the local directory and into the bucket. No request when there are
    /// none.
    pub(super) async fn put_map_parts(&mut self) -> Result<()> {
        let parts = self.map.unsent().to_vec();
        let (dir, epoch, local) = (self.shared.local_dir.clone(), self.shared.epoch, parts.clone());
        blocking(move || write_parts(&dir, epoch, &local)).await?;
        for batch in parts.chunks(PARALLEL_PARTS) {
            try_join_all(batch.iter().map(|part| self.put_map_part(part))).await?;
        }
        self.map.sent();
        Ok(())
    }

    async fn put_map_part(&self, part: &NewPart) -> Result<()> {
        let key = names::map_part(self.shared.epoch, part.part);
        match self.settle(&key, &part.bytes, &part.nonce).await? {
            SlotOutcome::Mine => Ok(()),
            SlotOutcome::Lost(_) => {
                self.shared.slot_taken(&key);
                self.shared.check_fence()
            }
        }
    }

    /// Writes the marker and, for a new map, `ATOLL_FILES`. Both must be durable before `root` is created in
    /// the bucket, so that they are never behind the newest root of this process (DIR-2).
    ///
    /// `nonce`: the nonce of the root. `is_new_map`: the file map differs from the previous root's.
    pub(super) async fn write_local(&self, root: &Root, nonce: &Nonce, is_new_map: bool) -> Result<()> {
        let shared = &self.shared;
        let (dir, db_uuid) = (shared.local_dir.clone(), shared.db_uuid.clone());
        let marker = Marker {
            db_uuid: db_uuid.clone(),
            epoch: shared.epoch,
            root: root.id,
            claim_nonce: Some(shared.claim_nonce),
            root_nonce: Some(*nonce),
        };
        let map = is_new_map.then(|| self.map.content());
        blocking(move || {
            let Some((files, in_parts)) = map else { return write_marker(&dir, &marker) };
            let files = LocalFiles { db_uuid, files, in_parts };
            write_files(&dir, &files)?;
            write_marker(&dir, &marker)?;
            delete_other_parts(&dir, files.in_parts.as_ref());
            Ok(())
        })
        .await
    }
}
