//! Makes a clone independent of its parent databases: copies the table files that the clone reads in them to
//! the clone's own prefix.
//!
//! ```text
//! refuse the clone if it has an owner that may still run
//! claim epoch E, close the former epochs, create root/E/0   no former owner can change the clone any more
//! copy the foreign files of the newest root                 the S3 service or file system does it: adopt.rs
//! copy MANIFEST and log, create root/E/1                    now the newest root names no foreign file
//! create the releases of the pins in the parents, unless a snapshot or the history of the clone still reads
//! foreign files
//! ```
//!
//! MATERIALIZE-1: a program that dies before it creates `root/E/1` does not change the clone, because an
//!     epoch without a root adds nothing to its base (CLAIM-3). It only leaves copies of files, which the
//!     next attempt reuses.
//! MATERIALIZE-2: a clone releases its pins in its parents only when neither its newest root nor any of its
//!     pinned roots names a foreign file, which is a file of another database (CLONE-5).
//! MATERIALIZE-3: `root/E/1` is newer than every local directory of the clone. So the next server sets its
//!     local directory aside, which names foreign files, and restores a new one from the bucket.
//!     `materialize` refuses a clone whose owner was not shut down in order, because that owner's local
//!     directory may have commits that the bucket lacks.

use crate::error::{Result, StoreError};
use crate::files::FileRecord;
use crate::protocol::copies::adopt::{Adopted, Copier, MATERIALIZES, Progress, copier_id, refuse_owner};
use crate::protocol::format::image;
use crate::protocol::format::records::RootId;
use crate::protocol::history::clone::check_files;
use crate::protocol::history::hand_over::own_takings;
use crate::protocol::history::state_copy;
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::start::claim::{StopAfter, close_and_claim, take_epoch};
use crate::protocol::start::home::Home;
use crate::protocol::start::precheck::check_restorable;
use crate::requests::origin;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// What [`Inspector::materialize`] copied and released, or what it would copy.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct MaterializeStatus {
    /// Table files of the newest root that belong to other databases, and their bytes.
    pub foreign_files: u64,
    pub foreign_bytes: u64,
    pub adopted: Adopted,
    /// Epoch and slot of the root from which the next server starts. None: there was nothing to copy, or this
    /// is only a plan.
    pub root: Option<(u64, u64)>,
    /// The parent databases that no longer keep files for this clone.
    pub independent_of: Vec<String>,
    /// Why the parents still have to keep files for this clone. Empty when they need not.
    pub still_held: String,
    /// Objects in the clone's prefix that only its former states need, and their bytes. They have rows that
    /// were changed, masked or deleted since. A running server deletes them.
    pub former_objects: u64,
    pub former_bytes: u64,
}

impl Inspector {
    /// Returns what [`Inspector::materialize`] would copy. Errors: `Invalid` when this database is no clone.
    /// Requests: those that read the newest root.
    pub async fn plan_materialize(&self) -> Result<MaterializeStatus> {
        self.check_clone().await?;
        let files = self.newest_image().await?.map(|(image, _)| image.files).unwrap_or_default();
        let foreign: Vec<u64> =
            files.values().filter(|file| origin::is_foreign(&file.key)).map(|file| file.size).collect();
        Ok(MaterializeStatus {
            foreign_files: foreign.len() as u64,
            foreign_bytes: foreign.iter().sum(),
            adopted: Adopted::default(),
            root: None,
            independent_of: Vec::new(),
            still_held: String::new(),
            former_objects: 0,
            former_bytes: 0,
        })
    }

    /// Copies the files that the newest root reads in other databases, and releases the pins of this clone
    /// there.
    ///
    /// Errors: `Invalid` when this database is no clone, when it must be masked first, or when somebody claimed
    /// it meanwhile; `ReadOnly` when a
    /// server owns it or may own it; `NotFound` or `Corruption` when a parent's file is gone or
    /// damaged; `NoSpace`; `Fenced`. After an error the database is as before. The caller may repeat the
    /// call, which then uses the files that were copied. Requests: as a claim, two for each file, and
    /// those that copy MANIFEST and log.
    pub async fn materialize(&self, creator: &str, progress: Progress<'_>) -> Result<MaterializeStatus> {
        let mut status = self.plan_materialize().await?;
        if status.foreign_files > 0 {
            self.refuse_unmasked().await?;
            refuse_owner(self.bucket()).await?;
            self.check_parents().await?;
            check_restorable(self.bucket()).await?;
            let server_id = copier_id(MATERIALIZES, creator);
            let epoch = take_epoch(self.bucket(), &server_id, &Home::default()).await?.number;
            let copier = Copier { bucket: self.bucket(), epoch, server_id, from: None, progress };
            match self.materialize_in(&copier).await {
                Ok(adopted) => status.adopted = adopted,
                Err(error) => {
                    copier.leave().await;
                    return Err(error);
                }
            }
            status.root = Some((epoch, state_copy::SLOT));
        }
        match self.release_parents().await {
            Ok(origins) => status.independent_of = origins,
            Err(StoreError::Invalid(why)) => status.still_held = why,
            Err(error) => return Err(error),
        }
        let unneeded = self.find_unneeded(Duration::ZERO).await?;
        for former in unneeded.orphaned.iter().chain(&unneeded.pending) {
            status.former_objects += 1;
            status.former_bytes += former.size;
        }
        Ok(status)
    }

    /// Refuses a clone that was made to be masked and whose newest root still names files of its parents. When
    /// the masking has ended, the root names new files only (MASK-4), so the rows in these files are not masked.
    async fn refuse_unmasked(&self) -> Result<()> {
        let identity = self.identity().await?;
        let parents = identity.parent.map(|parent| parent.origins).unwrap_or_default();
        let files = self.newest_image().await?.map(|(image, _)| image.files).unwrap_or_default();
        let is_parents = |file: &FileRecord| {
            origin::split(&file.key).0.is_some_and(|from| parents.iter().any(|it| it == from))
        };
        match identity.masked_in.first() == Some(&identity.db_uuid) && files.values().any(is_parents) {
            false => Ok(()),
            true => Err(StoreError::Invalid(format!(
                "the clone in {} was made with --mask and is not masked yet: it would get copies of all rows as they are. Start its \
                 server with atoll_mask_file first; afterwards it needs no file of its parents",
                self.bucket().place()
            ))),
        }
    }

    async fn check_clone(&self) -> Result<()> {
        let identity = self.identity().await?;
        let is_clone = identity.parent.is_some_and(|parent| !parent.origins.is_empty());
        match is_clone || !own_takings(self).await?.is_empty() {
            true => Ok(()),
            false => Err(StoreError::Invalid(format!(
                "the database in {} is no clone: all its files are its own",
                self.bucket().place()
            ))),
        }
    }

    /// Checks that the files that `materialize` would copy exist. Errors: `NotFound` or `Corruption` when one
    /// is absent.
    async fn check_parents(&self) -> Result<()> {
        let files = self.newest_image().await?.map(|(image, _)| image.files).unwrap_or_default();
        check_files(self.bucket(), files.values().filter(|file| origin::is_foreign(&file.key))).await
    }

    async fn materialize_in(&self, copier: &Copier<'_>) -> Result<Adopted> {
        let (bucket, epoch) = (self.bucket(), copier.epoch);
        let claim = close_and_claim(bucket, epoch, &copier.server_id, StopAfter::Nothing).await?;
        let base: RootId = claim.base.ok_or_else(|| StoreError::Bug("a clone without a root".to_owned()))?;
        let state = self.moment_of(image::load(bucket, base).await?, Some(claim.wal_end)).await?;
        let (foreign, own): (BTreeMap<u64, FileRecord>, BTreeMap<_, _>) = state
            .image
            .files
            .iter()
            .map(|(number, file)| (*number, file.clone()))
            .partition(|(_, file)| origin::is_foreign(&file.key));
        let (mut files, adopted) = copier.adopt(&foreign, &own, base.epoch).await?;
        files.extend(own);
        state_copy::write(bucket, bucket, epoch, &state, &files, &copier.server_id).await?;
        Ok(adopted)
    }
}
