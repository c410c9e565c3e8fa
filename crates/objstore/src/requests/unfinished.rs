//! Uploads in pieces that were begun, but not completed or aborted. No listing of objects shows their pieces,
//! which cost as much as objects do.
//!
//! An upload that fails is *given up*: it is remembered here, and the collector aborts it later. The uploads
//! of a process that died are found by listing the unfinished uploads, if the store supports that. (MinIO
//! lists only the uploads of one exact name. There a lifecycle rule of the bucket, or MinIO's own cleaning
//! after a day, has to remove the pieces.)

use crate::error::Result;
use crate::requests::bucket::{Attempt, Bucket};
use crate::requests::failure::Failure;
use crate::stats::add;
use async_trait::async_trait;
use object_store::MultipartId;
use serde::Serialize;

/// The size of an answer that is assumed for the time limit of a listing of uploads: a few pages of 1000
/// uploads.
const LISTING_BYTES: u64 = 4 << 20;

/// An upload that was neither completed nor aborted. The store keeps its pieces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnfinishedUpload {
    /// The key of the object that it would create, relative to the prefix of the database.
    pub key: String,
    /// The store's identifier of the upload.
    pub id: MultipartId,
}

/// Lists unfinished uploads, which the crate `object_store` cannot do.
#[async_trait]
pub(crate) trait ListUploads: Send + Sync {
    /// The full names and ids of all unfinished uploads whose name begins with `prefix`.
    ///
    /// Requests: one LIST per 1000 uploads.
    async fn list_uploads(&self, prefix: &str) -> Attempt<Vec<(String, MultipartId)>>;
}

impl Bucket {
    /// The unfinished uploads of table files. Empty if the store cannot list uploads.
    ///
    /// Errors: as a listing, which is tried only once; `Refused` when the keys lack the permission to
    /// list uploads, which no other request needs.
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

    /// Removes the pieces of an upload. It is no error if the upload does not exist any more.
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

    /// Remembers an upload that failed, until [`Bucket::take_given_up`] takes it.
    pub(crate) fn give_up_upload(&self, upload: UnfinishedUpload) {
        self.given_up.lock().push(upload);
    }

    /// Takes one of the uploads that were given up. None when there is none left.
    pub(crate) fn take_given_up(&self) -> Option<UnfinishedUpload> {
        self.given_up.lock().pop()
    }
}
