//! Uploads in pieces that were begun and neither completed nor aborted. Their pieces show in no listing of
//! objects, and cost as much as objects do.
//!
//! An upload that fails is *given up*: remembered here, and aborted by the collector. The uploads of a
//! process that died are found by listing the unfinished uploads, where the store can do that. (MinIO lists
//! only those of one exact name: there the bucket's lifecycle rule, or MinIO's own after a day, has to remove
//! them.)

use crate::error::Result;
use crate::requests::bucket::{Attempt, Bucket};
use crate::requests::failure::Failure;
use crate::stats::add;
use async_trait::async_trait;
use object_store::MultipartId;
use serde::Serialize;

/// The size for which a listing of uploads gets time: some pages of a thousand.
const LISTING_BYTES: u64 = 4 << 20;

/// An upload whose pieces wait in the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnfinishedUpload {
    /// The object that it would become, relative to the prefix of the database.
    pub key: String,
    /// The store's name of the upload.
    pub id: MultipartId,
}

/// Lists uploads; `object_store` cannot.
#[async_trait]
pub(crate) trait ListUploads: Send + Sync {
    /// The full names and ids of all unfinished uploads whose name begins with `prefix`.
    ///
    /// Requests: one LIST per 1000 uploads.
    async fn list_uploads(&self, prefix: &str) -> Attempt<Vec<(String, MultipartId)>>;
}

impl Bucket {
    /// The unfinished uploads of table files. Empty where the store has no list of them.
    ///
    /// Errors: of the only attempt; `Refused` when the keys lack the permission to list uploads, which
    /// nothing else needs.
    /// Requests: one LIST per 1000 uploads.
    pub async fn unfinished_uploads(&self) -> Result<Vec<UnfinishedUpload>> {
        let Some(lister) = &self.parts.uploads else { return Ok(Vec::new()) };
        let folder = format!("{}/", self.path("sst")?.as_ref());
        add(&self.parts.stats.requests_list, 1);
        let listed = self.in_time(LISTING_BYTES, lister.list_uploads(&folder)).await;
        let listed =
            listed.map_err(|f| f.into_error("listing the uploads below", "sst/", self.place(), 1))?;
        let relative = |(full, id): (String, MultipartId)| {
            let name = full.strip_prefix(&folder)?;
            Some(UnfinishedUpload { key: format!("sst/{name}"), id })
        };
        Ok(listed.into_iter().filter_map(relative).collect())
    }

    /// Removes the pieces of an upload. An upload that is no longer there is fine.
    ///
    /// Errors: as [`Bucket::delete`]. Requests: one DELETE per attempt.
    pub async fn abort_upload(&self, upload: &UnfinishedUpload) -> Result<()> {
        let Some(multipart) = &self.parts.multipart else { return Ok(()) };
        let path = self.path(&upload.key)?;
        let aborted = self
            .repeat("aborting the upload of", &upload.key, &self.parts.stats.requests_delete, 0, || async {
                multipart.abort_multipart(&path, &upload.id).await.map_err(|e| Failure::new(&e))
            })
            .await;
        match aborted {
            Err(error) if error.is_not_found() => Ok(()),
            other => other,
        }
    }

    /// Remembers an upload that nobody goes on with, until it is taken by [`Bucket::take_given_up`].
    pub(crate) fn give_up_upload(&self, upload: UnfinishedUpload) {
        self.given_up.lock().push(upload);
    }

    /// Takes one of the uploads that were given up; None: there is none left.
    pub(crate) fn take_given_up(&self) -> Option<UnfinishedUpload> {
        self.given_up.lock().pop()
    }
}
