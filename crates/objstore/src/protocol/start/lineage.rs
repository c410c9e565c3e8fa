//! Checks whether the local directory and the bucket have the same history.
//!
//! The numbers of epochs and roots do not show whether the histories are the same. Two servers that go on
//! from copies of one bucket both claim the next epoch and publish its first roots. When the directory of one
//! is opened with the bucket of the other, every number may fit although the table files differ. So the
//! directory's marker also holds the nonces of the claim and of the root whose numbers it holds.
//!
//! OPEN-4: a bucket that has the marker's claim or root with another nonce is refused before anything is
//!         written to the bucket or to the directory.

use crate::config::StoreConfig;
use crate::error::{Result, StoreError};
use crate::protocol::format::codec::{FrameReader, Nonce};
use crate::protocol::format::names;
use crate::protocol::format::records::{EpochClaim, Marker, RootId, RootSlot};
use crate::protocol::format::slots::{decode_root_slot, read_record};
use crate::protocol::start::local::damaged_object;
use crate::requests::bucket::Bucket;

/// Refuses a bucket whose history is not the history of the directory of `marker`.
///
/// When the bucket lacks the claim or the root, nothing is refused here: age.rs judges that bucket. A marker
/// of an earlier version has no nonces, so it is accepted.
/// Errors: `Invalid` says where the two histories part, and the two ways out; the caller changes nothing and
/// tells the user. `Corruption` names the object.
/// Requests: a GET of the claim; a GET of the root, when the directory has come to one.
pub(crate) async fn refuse_other_history(
    bucket: &Bucket,
    config: &StoreConfig,
    marker: &Marker,
) -> Result<()> {
    let other = match other_claim(bucket, marker).await? {
        None => other_root(bucket, marker).await?,
        other => other,
    };
    other.map_or(Ok(()), |other| Err(parted(bucket, config, &other)))
}

/// Describes the bucket's claim of the marker's epoch, when it is not the claim that the marker knows. None
/// when both are the same claim, when the bucket lacks it, or when the marker has no nonce.
async fn other_claim(bucket: &Bucket, marker: &Marker) -> Result<Option<String>> {
    let Some(nonce) = marker.claim_nonce else { return Ok(None) };
    let epoch = marker.epoch;
    let key = names::epoch(epoch);
    let read = read_record(bucket, &key, |bytes| {
        let claim = EpochClaim::decode(bytes).map_err(|e| damaged_object(&key, &e))?;
        Ok((nonce_of(&key, bytes)?, claim.server_id))
    });
    Ok(unless_absent(read.await)?.filter(|(found, _)| *found != nonce).map(|(_, server)| {
        format!("both have an epoch {epoch}, but server '{server}' began the one in the bucket, and another server the one in the directory")
    }))
}

/// Describes the root in the slot of the marker's root, when it is not the root that the marker knows. None
/// when both are the same root, when the slot has no root, or when the marker has no nonce.
async fn other_root(bucket: &Bucket, marker: &Marker) -> Result<Option<String>> {
    let Some(nonce) = marker.root_nonce else { return Ok(None) };
    let RootId { epoch, slot } = marker.root;
    let key = names::root(epoch, slot);
    let read = read_record(bucket, &key, |bytes| {
        let is_root = matches!(decode_root_slot(&key, bytes, marker.root)?, RootSlot::Root(_));
        // A fence in the slot shows that the directory's root was never created, which is no difference.
        Ok(is_root.then_some(nonce_of(&key, bytes)?))
    });
    let is_other = unless_absent(read.await)?.flatten().is_some_and(|found| found != nonce);
    Ok(is_other.then(|| {
        format!("root {epoch}/{slot} in the bucket was not published from this directory: another server used a copy of it")
    }))
}

fn nonce_of(key: &str, bytes: &[u8]) -> Result<Nonce> {
    FrameReader::open(bytes).map(|frame| frame.nonce()).map_err(|e| damaged_object(key, &e))
}

fn unless_absent<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Err(error) if error.is_not_found() => Ok(None),
        read => read.map(Some),
    }
}

fn parted(bucket: &Bucket, config: &StoreConfig, difference: &str) -> StoreError {
    StoreError::Invalid(format!(
        "the directory {dir} and the database in {place} have diverged: {difference}. Each was used with a copy of the \
         other. Nothing was changed. Choose one of two. To go on with what the bucket holds, move {dir} and {cache} away and \
         start again: what only the directory has is then not in the database. To go on with what the directory holds, set \
         atoll_url to the bucket that it was used with last and start again: the directory alone does not hold all tables",
        dir = config.local_dir.display(),
        place = bucket.place(),
        cache = config.cache_dir.display(),
    ))
}
