//! How many of its table files a clone still shares with other databases, and how many are its own.

use crate::error::{Result, StoreError};
use crate::protocol::format::image::Image;
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::publish::map_record::objects_of;
use crate::requests::origin;
use serde::Serialize;

/// The table files of the newest root, by whose they are. An object that has several file numbers counts once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct Sharing {
    /// Files in the prefixes of other databases, which this one, a clone, only reads.
    pub shared_files: u64,
    pub shared_bytes: u64,
    /// Files in the prefix of this database.
    pub own_files: u64,
    pub own_bytes: u64,
}

impl Sharing {
    pub(in crate::protocol) fn of(image: &Image) -> Self {
        let mut sharing = Self::default();
        for object in objects_of(&image.files) {
            let (files, bytes) = match origin::is_foreign(&object.key) {
                true => (&mut sharing.shared_files, &mut sharing.shared_bytes),
                false => (&mut sharing.own_files, &mut sharing.own_bytes),
            };
            *files += 1;
            *bytes += object.size;
        }
        sharing
    }

    /// Returns what the newest root of the database `db_uuid` shares. `there` gives access to the place where it should
    /// be. All numbers are 0: there is no root.
    ///
    /// Errors: `NotFound` when this database is not there, perhaps another one; the bucket's. Requests: a GET, and those
    /// that read the newest root.
    pub async fn read(there: &Inspector, db_uuid: &str) -> Result<Self> {
        if there.identity().await?.db_uuid != db_uuid {
            let object = format!("database {db_uuid} in {}: another one is there", there.bucket().place());
            return Err(StoreError::NotFound { operation: "reading", object });
        }
        let newest = there.newest_image().await?;
        Ok(newest.map(|(image, _)| Self::of(&image)).unwrap_or_default())
    }
}
