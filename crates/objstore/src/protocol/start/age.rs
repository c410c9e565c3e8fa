//! Checks whether the bucket is older than the local directory. That is so when somebody has put an earlier
//! state of the bucket back, or has started the server with an earlier copy of the bucket.
//!
//! An older bucket lacks table files that the directory deleted because the bucket had them, and it hands out
//! the numbers of epochs a second time. Then the newest database is in the bucket and the directory together,
//! not in one of them, so a person must decide.
//!
//! OPEN-3: an older bucket is refused before anything is written to the bucket or to the directory.

use crate::config::StoreConfig;
use crate::error::{Result, StoreError};
use crate::protocol::format::names;
use crate::protocol::format::records::{ClaimRoot, Marker, Root, RootId, RootSlot};
use crate::protocol::format::slots::{last_record, read_root_slot};
use crate::protocol::publish::local_map;
use crate::protocol::start::claim::{newest_epoch, unless_overtaken};
use crate::requests::bucket::Bucket;
use crate::requests::listing::Page;
use crate::requests::origin;
use std::collections::HashSet;
use std::path::Path;

/// The newest record that tells which root is the newest.
pub(crate) enum NewestRecord {
    /// The newest root itself: its owner has published.
    Root(Box<Root>),
    /// A claim whose owner has not published; it names the newest root.
    Claim(ClaimRoot),
}

impl NewestRecord {
    /// The newest root; None when no root was published yet.
    pub(crate) fn root(&self) -> Option<RootId> {
        match self {
            Self::Root(root) => Some(root.id),
            Self::Claim(claim) => claim.base,
        }
    }
}

/// Finds the newest record in `root/` that is no fence, in `epoch` or a former one; None when there is none.
///
/// Requests: a LIST and a GET per epoch down to the first that has a record; at a fence another LIST and a
/// GET.
pub(crate) async fn newest_record(bucket: &Bucket, epoch: u64) -> Result<Option<NewestRecord>> {
    for epoch in (1..=epoch).rev() {
        match last_record(bucket, epoch).await? {
            Some(RootSlot::Root(root)) => return Ok(Some(NewestRecord::Root(Box::new(root)))),
            Some(RootSlot::Claim(claim)) => return Ok(Some(NewestRecord::Claim(claim))),
            Some(RootSlot::Fence(_)) | None => {}
        }
    }
    Ok(None)
}

/// Refuses a bucket that is older than the directory of `marker`, that is, one that lacks a record which was
/// published before.
///
/// The check takes several requests. It can happen that another server takes the database over meanwhile and
/// deletes old records. A slow check can then miss the new records and find the old ones deleted. In that
/// case the new records are in the bucket, so a second check finds them.
///
/// Returns the newest root. Errors: `Invalid` with both states and the two ways out; the caller changes nothing and tells the user.
/// `NotFound` names a record that is missing.
/// Requests: LIST epoch/ and those of [`newest_record`]; a GET and LIST sst/ when a crash may have lost the
/// last root. Twice that before an error.
pub(crate) async fn refuse_older_bucket(
    bucket: &Bucket,
    config: &StoreConfig,
    marker: &Marker,
) -> Result<Option<RootId>> {
    match compare_ages(bucket, config, marker).await {
        Err(StoreError::Invalid(_) | StoreError::NotFound { .. }) => {
            compare_ages(bucket, config, marker).await
        }
        outcome => outcome,
    }
}

async fn compare_ages(bucket: &Bucket, config: &StoreConfig, marker: &Marker) -> Result<Option<RootId>> {
    let epoch = newest_epoch(bucket).await?;
    let root = match newest_record(bucket, epoch).await {
        Ok(record) => record.and_then(|record| record.root()),
        Err(error) => return Err(unless_overtaken(bucket, epoch, error).await),
    };
    let is_older = epoch < marker.epoch
        || is_behind(root, marker.root)
        || (may_have_lost(root, marker.root)
            && !is_fenced(bucket, marker.root).await?
            && lacks_files(bucket, &config.local_dir, marker).await?);
    if is_older { Err(older_bucket(bucket, config, marker, epoch, root)) } else { Ok(root) }
}

/// Returns true when the bucket lacks more roots than the one that the directory's process was about to
/// publish when it died (DIR-2: the directory is at most one root ahead).
fn is_behind(newest: Option<RootId>, marked: RootId) -> bool {
    // Before root 1 there is only the claim, slot 0. It is in the bucket, because the bucket has its epoch.
    let before = RootId { slot: marked.slot.saturating_sub(1), ..marked };
    before.slot > 0 && newest.is_none_or(|newest| newest < before)
}

/// Whether the marked root is not in the bucket. Either its process died before it published the root, or the
/// bucket is one root older.
fn may_have_lost(newest: Option<RootId>, marked: RootId) -> bool {
    marked.slot > 0 && newest.is_none_or(|newest| newest < marked)
}

/// Whether a successor's fence is in the slot of the marked root. Then that root was never in the bucket, so
/// none of its files can have been lost.
async fn is_fenced(bucket: &Bucket, marked: RootId) -> Result<bool> {
    match read_root_slot(bucket, marked).await {
        Ok(slot) => Ok(matches!(slot, RootSlot::Fence(_))),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether the bucket lacks a table file of the marked root. These files are uploaded before the marker is
/// written (PUB-G1) and are not deleted before a later root is published. So a missing file shows that the
/// marked root was in the bucket once.
async fn lacks_files(bucket: &Bucket, dir: &Path, marker: &Marker) -> Result<bool> {
    let Some(files) = local_map::read_files(dir, &marker.db_uuid)? else { return Ok(false) };
    let own = files.values().map(|file| file.key.as_ref()).filter(|key| !origin::is_foreign(key));
    let mut lacking: HashSet<&str> = own.collect();
    let found = |page| {
        if let Page::Objects(objects) = page {
            for object in objects {
                lacking.remove(object.key.as_str());
            }
        }
    };
    bucket.list_each(names::FILE_DIR, None, found).await?;
    Ok(!lacking.is_empty())
}

fn older_bucket(
    bucket: &Bucket,
    config: &StoreConfig,
    marker: &Marker,
    epoch: u64,
    root: Option<RootId>,
) -> StoreError {
    let root = root.map_or("no root".to_owned(), |id| format!("root {}/{}", id.epoch, id.slot));
    StoreError::Invalid(format!(
        "the database in {place} is older than the directory {dir}: the directory was last used in epoch {} and came to root \
         {}/{}, the bucket ends at epoch {epoch} and {root}. The bucket was put back to an earlier state, or it is an \
         earlier copy. Nothing was changed. Choose one of two. To go on with what the bucket holds, move {dir} and \
         {cache} away and start again: later changes are then not in the database. To go on with what the directory \
         holds, bring back the newer objects of the bucket (their later versions, or the bucket that was used last) and \
         start again: the directory alone does not hold all tables",
        marker.epoch,
        marker.root.epoch,
        marker.root.slot,
        place = bucket.place(),
        dir = config.local_dir.display(),
        cache = config.cache_dir.display(),
    ))
}
