//! Listings. One listing can need thousands of requests, because each request returns only one page.
//!
//! BUCKET-4: when the request for a page fails, only that page is requested again, not the pages before it.

use crate::error::{Result, StoreError};
use crate::requests::bucket::{Attempt, Bucket, ObjectInfo};
use crate::requests::failure::{Class, Failure};
use crate::stats::add;
use futures_util::TryStreamExt;
use object_store::ObjectMeta;
use object_store::path::Path as ObjectPath;

/// The size of a page of a listing that is assumed for its time limit: 1000 keys of about 300 bytes each.
const PAGE_BYTES: u64 = 300 << 10;
/// The number of keys in a full page of S3. It is used to count the requests of a listing.
const PAGE_KEYS: usize = 1000;

/// What [`Bucket::list_each`] passes on.
#[derive(Debug)]
pub(crate) enum Page {
    /// Further objects, at most 1000.
    Objects(Vec<ObjectInfo>),
    /// The listing of a directory failed and begins again, so all objects come again.
    Again,
}

/// How far a listing has come.
struct Progress {
    /// The name of the last object that was passed on; before the first one, the name after which the listing
    /// begins, if there is one.
    last: Option<ObjectPath>,
    /// How many objects were passed on.
    count: usize,
}

impl Bucket {
    /// All objects whose key starts with the folder `prefix`, in order of their keys.
    ///
    /// `prefix` names whole path segments ("root/000...", not "ro"). `start_after` is a whole key, and the
    /// listing begins with the next larger key. The policy's bounds hold for each page, and only a page that
    /// failed is requested again. So even a very long listing ends as long as the bucket answers some
    /// requests.
    ///
    /// Errors: as `get`; no objects is not an error.
    /// Requests: one LIST per 1000 objects, and one per page that failed.
    pub async fn list(&self, prefix: &str, start_after: Option<&str>) -> Result<Vec<ObjectInfo>> {
        let mut infos = Vec::new();
        let keep = |page| match page {
            Page::Objects(objects) => infos.extend(objects),
            Page::Again => infos.clear(),
        };
        self.list_each(prefix, start_after, keep).await?;
        infos.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        Ok(infos)
    }

    /// As [`Bucket::list`], but passes the objects on page by page, so that a listing of any length takes the
    /// memory of one page. The objects of a directory come in no order.
    pub(crate) async fn list_each(
        &self,
        prefix: &str,
        start_after: Option<&str>,
        mut each: impl FnMut(Page) + Send,
    ) -> Result<()> {
        let folder = self.path(prefix.trim_end_matches('/'))?;
        let start = start_after.map(|key| self.path(key)).transpose()?;
        let mut progress = Progress { last: start.clone(), count: 0 };
        let mut outside = Ok(());
        let mut attempt = 0;
        loop {
            let known = progress.count;
            let give = |metas: Vec<ObjectMeta>| match metas.iter().map(|meta| self.info(meta)).collect() {
                Ok(objects) => each(Page::Objects(objects)),
                Err(error) => outside = Err(error),
            };
            let Err(failure) = self.list_pages(&folder, &mut progress, give).await else {
                self.parts.stats.last_error.works("listing");
                return outside;
            };
            attempt = if progress.count > known { 1 } else { attempt + 1 };
            if failure.class == Class::NotFound && progress.count == 0 {
                let error = self.give_up(failure, "listing", prefix, attempt);
                return if error.is_not_found() { Ok(()) } else { Err(error) };
            }
            if failure.class != Class::Transient || !self.policy.allows_another(attempt) {
                return Err(self.give_up(failure, "listing", prefix, attempt));
            }
            if self.is_directory() {
                // A directory lists its files in no order, so the listing cannot go on after the last file
                // and begins again.
                progress = Progress { last: start.clone(), count: 0 };
                each(Page::Again);
            }
            self.pause(attempt).await;
        }
    }

    /// The size and the time of a listed object. Errors: `Bug` when it is not below the prefix of the database.
    pub(crate) fn info(&self, meta: &ObjectMeta) -> Result<ObjectInfo> {
        let full = meta.location.as_ref();
        let key = match self.parts.prefix.as_str() {
            "" => Some(full),
            prefix => full.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('/')),
        };
        let key = key.ok_or_else(|| {
            StoreError::Bug(format!("listing returned {full} outside of the prefix {}", self.parts.prefix))
        })?;
        Ok(ObjectInfo { key: key.to_owned(), size: meta.size, last_modified: meta.last_modified.into() })
    }

    /// Passes the objects that follow `progress` to `give`, at most 1000 at a time, also those that were
    /// listed before a failure. The store requests the next page when the last key of a page was taken, so the
    /// time limit for each key is one for each page.
    async fn list_pages(
        &self,
        folder: &ObjectPath,
        progress: &mut Progress,
        mut give: impl FnMut(Vec<ObjectMeta>),
    ) -> Attempt<()> {
        let folder = (!folder.as_ref().is_empty()).then_some(folder);
        let mut keys = match &progress.last {
            Some(after) => self.parts.store.list_with_offset(folder, after),
            None => self.parts.store.list(folder),
        };
        add(&self.parts.stats.requests_list, 1);
        let (known, mut page) = (progress.count, Vec::new());
        loop {
            let next =
                self.in_time(PAGE_BYTES, async { keys.try_next().await.map_err(|e| Failure::new(&e)) }).await;
            if page.len() == PAGE_KEYS || !matches!(next, Ok(Some(_))) {
                progress.count += page.len();
                progress.last =
                    page.last().map(|meta: &ObjectMeta| meta.location.clone()).or(progress.last.take());
                give(std::mem::take(&mut page));
            }
            let Some(meta) = next? else { return Ok(()) };
            if page.is_empty() && progress.count > known {
                add(&self.parts.stats.requests_list, 1);
            }
            page.push(meta);
        }
    }
}
