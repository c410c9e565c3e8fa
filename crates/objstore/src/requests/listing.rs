//! Listings. One listing can need thousands of requests, because each request returns only one page.
//!
//! BUCKET-4: when the request for a page fails, only that page is requested again, not the pages before it.

use crate::error::Result;
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
        let folder = self.path(prefix.trim_end_matches('/'))?;
        let start = start_after.map(|key| self.path(key)).transpose()?;
        let mut metas: Vec<ObjectMeta> = Vec::new();
        let mut attempt = 0;
        loop {
            let known = metas.len();
            let after = metas.last().map(|meta| meta.location.clone()).or_else(|| start.clone());
            let Err(failure) = self.list_pages(&folder, after.as_ref(), &mut metas).await else { break };
            attempt = if metas.len() > known { 1 } else { attempt + 1 };
            if failure.class == Class::NotFound && metas.is_empty() {
                let error = self.give_up(failure, "listing", prefix, attempt);
                return if error.is_not_found() { Ok(Vec::new()) } else { Err(error) };
            }
            if failure.class != Class::Transient || !self.policy.allows_another(attempt) {
                return Err(self.give_up(failure, "listing", prefix, attempt));
            }
            if self.is_directory() {
                // A directory lists its files in no order, so the listing cannot go on after the last file
                // and begins again.
                metas.clear();
            }
            self.pause(attempt).await;
        }
        let mut infos = metas.iter().map(|m| self.info(m)).collect::<Result<Vec<_>>>()?;
        infos.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        Ok(infos)
    }

    /// Adds the objects that follow `after` to `metas`. After a failure, `metas` has the objects that were
    /// listed before it. The store requests the next page when the last key of a page was taken, so the time
    /// limit for each key is one for each page.
    async fn list_pages(
        &self,
        folder: &ObjectPath,
        after: Option<&ObjectPath>,
        metas: &mut Vec<ObjectMeta>,
    ) -> Attempt<()> {
        let folder = (!folder.as_ref().is_empty()).then_some(folder);
        let mut keys = match after {
            Some(after) => self.parts.store.list_with_offset(folder, after),
            None => self.parts.store.list(folder),
        };
        let mut count = 0;
        add(&self.parts.stats.requests_list, 1);
        while let Some(meta) =
            self.in_time(PAGE_BYTES, async { keys.try_next().await.map_err(|e| Failure::new(&e)) }).await?
        {
            if count > 0 && count % PAGE_KEYS == 0 {
                add(&self.parts.stats.requests_list, 1);
            }
            count += 1;
            metas.push(meta);
        }
        Ok(())
    }
}
