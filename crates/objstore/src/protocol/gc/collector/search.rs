//! The search: finds the objects in the bucket that nothing names, unfinished uploads, half-written files, and what
//! former owners left.

use super::{Collector, PAGE_OBJECTS, REST_PER_PAGE, SEARCHES_PER_CHANGE};
use crate::error::{Result, StoreError};
use crate::log::Level;
use crate::protocol::format::names;
use crate::protocol::gc::keep::{epoch_of, is_of_protocol};
use crate::protocol::gc::tombs;
use crate::protocol::history::named::snapshot_names::delete_old_marks;
use crate::protocol::history::pin::horizon_of;
use crate::requests::bucket::ObjectInfo;
use crate::requests::listing::Page;
use crate::stats::read;
use std::collections::HashSet;
use tokio::time::Instant;

impl Collector {
    /// The time of the next search; None when enough searches were made since the last root.
    pub(super) fn search_at(&self) -> Option<Instant> {
        let roots = read(&self.shared.bucket.stats().roots_published);
        let is_quiet = self.roots_seen == Some(roots) && self.searches >= SEARCHES_PER_CHANGE;
        let next = (!is_quiet).then_some(self.next_search);
        next.into_iter().chain(self.search_again_at).min()
    }

    /// Searches the bucket for objects that nothing needs, and for tombs that this owner does not know.
    pub(super) async fn search(&mut self) -> Result<()> {
        let roots = read(&self.shared.bucket.stats().roots_published);
        let pins = self.list_pins().await?;
        self.search_again_at = None;
        if !self.look_at_pins(&pins).await? {
            self.next_search = Instant::now() + self.tuning.search_interval;
            return Ok(());
        }
        self.adopt_tombs().await?;
        self.abort_strays().await?;
        self.remove_staged().await?;
        self.delete_outdated().await?;
        let (objects, strays) = self.find_strays().await?;
        if strays > 0 {
            let message = format!("found {strays} objects in the bucket that nothing needs any more");
            (self.shared.log)(Level::Info, &message);
        }
        self.searches = if self.roots_seen == Some(roots) { self.searches + 1 } else { 1 };
        self.roots_seen = Some(roots);
        let pages = u32::try_from(objects / PAGE_OBJECTS).unwrap_or(u32::MAX);
        self.next_search = Instant::now() + self.tuning.search_interval + REST_PER_PAGE.saturating_mul(pages);
        Ok(())
    }

    /// Proposes the objects that nothing needs for deletion, page by page: a bucket can have millions of them.
    /// Returns how many objects there are, and how many of them it has proposed.
    async fn find_strays(&self) -> Result<(usize, usize)> {
        let tombed: HashSet<&str> =
            self.tombs.iter().flat_map(|tomb| &tomb.keys).map(String::as_str).collect();
        let (mut count, mut strays) = (0, 0);
        let each = |page| {
            let Page::Objects(objects) = page else { return };
            count += objects.len();
            // The needs are read after the page was listed. A listed object that is needed was registered as
            // a file of RocksDB, or named by a root, before its upload. So it is among these needs.
            let Some(needs) = self.judge() else { return };
            let candidates = objects.iter().filter(|object| !tombed.contains(object.key.as_str()));
            let found =
                self.unneeded(&needs, candidates.map(|object| (object.key.as_str(), Some(object.size))));
            strays += found.len();
            self.shared.inbox.propose(found);
        };
        self.shared.bucket.list_each("", None, each).await?;
        Ok((count, strays))
    }

    /// Deletes the records that have had their time: the horizons that are lower than the horizon of this
    /// process, for example those of former owners, and the marks of dropped names (NAME-2).
    async fn delete_outdated(&self) -> Result<()> {
        let objects = self.shared.bucket.list(names::HORIZON_DIR, None).await?;
        let lower =
            |object: &&ObjectInfo| horizon_of(&object.key).is_some_and(|root| Some(root) < self.horizon);
        for object in objects.iter().filter(lower) {
            self.shared.bucket.delete(&object.key).await?;
        }
        let records = self.shared.bucket.list(names::SNAPSHOT_DIR, None).await?;
        delete_old_marks(&self.shared.bucket, &records).await
    }

    /// Aborts unfinished uploads: those of former owners, and those of this server whose first reply was
    /// lost. Their pieces are not objects yet, so no tomb lists them. The upload of a file that is still
    /// queued is never aborted.
    async fn abort_strays(&self) -> Result<()> {
        let bucket = &self.shared.bucket;
        let uploads = match bucket.unfinished_uploads().await {
            Ok(uploads) => uploads,
            Err(error @ StoreError::Unavailable(_)) => return Err(error),
            Err(error) => {
                (self.shared.log)(
                    Level::Info,
                    &format!("{error}. A lifecycle rule of the bucket can remove them"),
                );
                return Ok(());
            }
        };
        // The queue is read after the listing of uploads: a file is queued before its upload begins.
        let uploading = self.shared.files.uploading();
        for upload in uploads {
            let is_ours =
                names::parse_file_epoch(&upload.key).is_some_and(|owner| owner <= self.shared.epoch);
            if is_ours && !uploading.contains(upload.key.as_str()) {
                bucket.abort_upload(&upload).await?;
            }
        }
        Ok(())
    }

    /// In a directory, removes half-written files of former owners, which no listing shows. A former owner
    /// that still runs is fenced, so no server reads what it writes.
    async fn remove_staged(&self) -> Result<()> {
        let epoch = self.shared.epoch;
        let is_former = move |key: &str| epoch_of(key).is_some_and(|owner| owner < epoch);
        let removed = self.shared.bucket.remove_staged(is_of_protocol, is_former).await?;
        if removed > 0 {
            let message =
                format!("removed {removed} half-written objects that former servers left in the bucket");
            (self.shared.log)(Level::Info, &message);
        }
        Ok(())
    }

    /// Takes over the tombs of former owners, and tombs of this server whose creation seemed to fail.
    async fn adopt_tombs(&mut self) -> Result<()> {
        let objects = self.shared.bucket.list(names::TOMB_DIR, None).await?;
        let known: HashSet<String> = self.tombs.iter().map(|tomb| tomb.name.clone()).collect();
        for object in objects {
            let is_ours = names::parse_slot(names::TOMB_DIR, &object.key)
                .is_some_and(|(owner, _)| owner <= self.shared.epoch);
            if !is_ours || known.contains(&object.key) || !self.has_room() {
                continue;
            }
            match tombs::read(&self.shared.bucket, &object.key).await {
                Ok(Some(keys)) => self.tombs.push(self.tomb(object.key.clone(), keys)),
                Ok(None) => {}
                Err(error @ StoreError::Unavailable(_)) => return Err(error),
                // A tomb that cannot be read prevents no deletion, because this search finds the objects that
                // it lists.
                Err(error) => (self.shared.log)(Level::Warning, &error.to_string()),
            }
        }
        Ok(())
    }
}
