//! Functions for slots, which are objects that can be created only once: read a slot, repeat its creation
//! until the outcome is known, find the last slot of an epoch.
//!
//! SLOT-1: the request that creates a slot is repeated with the same bytes until it is known who created the
//!     slot. An unclear answer counts neither as success nor as failure.

use crate::error::{Result, StoreError};
use crate::protocol::format::codec::Nonce;
use crate::protocol::format::names;
use crate::protocol::format::records::{Fence, RootId, RootSlot, WalSlot};
use crate::protocol::start::local::damaged_object;
use crate::requests::bucket::{Bucket, SlotOutcome};
use bytes::Bytes;
use std::time::Duration;

/// The longest wait between two attempts to create a slot while the outcome is unknown.
const SETTLE_DELAY_MAX: Duration = Duration::from_secs(2);

/// Creates `key` with `bytes` and repeats the request until the outcome is known, however long it takes.
/// Calls `failed` with each failure.
///
/// Errors: only those that a repetition cannot cure. When the bucket is unavailable or full, or refuses the
/// keys, this function waits and tries again: keys can be replaced while the server runs.
pub(crate) async fn settle(
    bucket: &Bucket,
    key: &str,
    bytes: &Bytes,
    nonce: &Nonce,
    failed: impl Fn(&StoreError),
) -> Result<SlotOutcome> {
    let mut delay = Duration::from_millis(50);
    loop {
        match bucket.create_slot(key, bytes.clone(), nonce).await {
            Ok(outcome) => return Ok(outcome),
            Err(error) if is_passing(&error) => failed(&error),
            Err(error) => return Err(error),
        }
        tokio::time::sleep(delay).await;
        delay = (delay * 2).min(SETTLE_DELAY_MAX);
    }
}

/// Whether the same request can succeed later. False: `error` will come back each time.
pub(crate) fn is_passing(error: &StoreError) -> bool {
    matches!(error, StoreError::Unavailable(_) | StoreError::Refused(_) | StoreError::NoSpace(_))
}

/// How often an object is read before its bytes count as damaged: a restore reads thousands of objects, and a
/// network that damages one reply in a hundred damages two replies in a row for some of them.
const READS_MAX: u32 = 3;

/// Reads `key` and decodes it. Bytes that cannot be decoded are read again, because perhaps only the reply
/// was damaged on its way, and the object is intact.
///
/// Requests: one GET, up to [`READS_MAX`] when bytes were damaged; none if the bucket keeps the object in memory
/// ([`keeping`](crate::requests::kept::keeping)).
pub(crate) async fn read_record<T>(
    bucket: &Bucket,
    key: &str,
    decode: impl Fn(&Bytes) -> Result<T>,
) -> Result<T> {
    read_checked(bucket, key, || bucket.get(key), decode).await
}

/// As [`read_record`], for an object whose size is known: the request of a big object gets more time.
pub(crate) async fn read_sized_record<T>(
    bucket: &Bucket,
    key: &str,
    bytes: u64,
    decode: impl Fn(&Bytes) -> Result<T>,
) -> Result<T> {
    read_checked(bucket, key, || bucket.get_range(key, 0..bytes), decode).await
}

async fn read_checked<T, F: Future<Output = Result<Bytes>>>(
    bucket: &Bucket,
    key: &str,
    read: impl Fn() -> F,
    decode: impl Fn(&Bytes) -> Result<T>,
) -> Result<T> {
    if let Some(bytes) = bucket.kept.as_ref().and_then(|kept| kept.find(key)) {
        return decode(&bytes);
    }
    let mut reads = 1;
    loop {
        let bytes = read().await?;
        match (decode(&bytes), &bucket.kept) {
            (Err(StoreError::Corruption(_)), _) if reads < READS_MAX => reads += 1,
            (Ok(record), Some(kept)) => {
                kept.keep(key, &bytes);
                return Ok(record);
            }
            (outcome, _) => return outcome,
        }
    }
}

pub(crate) async fn read_root_slot(bucket: &Bucket, id: RootId) -> Result<RootSlot> {
    let key = names::root(id.epoch, id.slot);
    read_record(bucket, &key, |bytes| decode_root_slot(&key, bytes, id)).await
}

/// Decodes the bytes of a root slot, and checks that the record belongs to this slot.
pub(crate) fn decode_root_slot(key: &str, bytes: &[u8], id: RootId) -> Result<RootSlot> {
    let slot = RootSlot::decode(bytes).map_err(|e| damaged_object(key, &e))?;
    let stands = match &slot {
        RootSlot::Claim(claim) => RootId { epoch: claim.epoch, slot: 0 },
        RootSlot::Root(root) => root.id,
        RootSlot::Fence(_) => id,
    };
    if stands != id {
        return Err(misplaced(key));
    }
    Ok(slot)
}

pub(crate) fn decode_wal_slot(key: &str, bytes: &[u8], epoch: u64, chunk: u64) -> Result<WalSlot> {
    let slot = WalSlot::decode(bytes).map_err(|e| damaged_object(key, &e))?;
    match &slot {
        WalSlot::Chunk(c) if (c.epoch, c.chunk) != (epoch, chunk) => Err(misplaced(key)),
        _ => Ok(slot),
    }
}

fn misplaced(key: &str) -> StoreError {
    StoreError::Corruption(format!(
        "{key} in the bucket holds the record of another slot: objects were renamed or copied over each other"
    ))
}

/// The numbers of the existing slots of `root/<epoch>/`, ascending.
///
/// LIST-1: slot 0 of an epoch is created first and is never deleted. So a listing without it is believed only
///     if the object is absent. Errors: `ReadOnly` when listings lack it although it is there. Requests: a
///     LIST, and a HEAD if slot 0 is not listed.
pub(crate) async fn list_root_slots(bucket: &Bucket, epoch: u64) -> Result<Vec<u64>> {
    for attempt in 1..=LISTINGS_MAX {
        let objects = bucket.list(&names::root_dir(epoch), None).await?;
        let slots = objects.iter().filter_map(|object| names::parse_slot(names::ROOT_DIR, &object.key));
        let slots: Vec<u64> = slots.map(|(_, slot)| slot).collect();
        if slots.first() == Some(&0)
            || is_believed_at_once()
            || !exists(bucket, &names::root(epoch, 0)).await?
        {
            return Ok(slots);
        }
        bucket.pause(attempt).await;
    }
    Err(lying(bucket, &names::root_dir(epoch), &names::root(epoch, 0)))
}

/// Whether rule LIST-1 is switched off, so that every listing is believed. Only a simulation does that, to show
/// that the rule is needed.
pub(crate) fn is_believed_at_once() -> bool {
    #[cfg(test)]
    return crate::sim::believes_listings();
    #[cfg(not(test))]
    false
}

/// Whether `key` is in the bucket. Requests: a HEAD.
pub(crate) async fn exists(bucket: &Bucket, key: &str) -> Result<bool> {
    match bucket.head(key).await {
        Ok(_) => Ok(true),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
}

/// Makes the error for a bucket whose listings of `folder` lack the object `key`, which is there.
pub(crate) fn lying(bucket: &Bucket, folder: &str, key: &str) -> StoreError {
    StoreError::ReadOnly(format!(
        "{LISTINGS_MAX} listings of {folder} in {} lack {key}, which is there: a server that believes such listings destroys \
         data, so this one goes no further. Look what answers in place of the bucket: a proxy, a cache, or a damaged store",
        bucket.place()
    ))
}

/// How often the slots of one epoch are listed before `read_last_slot` gives up. A living owner can delete
/// the last listed root before it is read, and then a new listing is needed.
pub(crate) const LISTINGS_MAX: u32 = 8;

/// Reads the last slot of `root/<epoch>/`. Returns its number and record, or None when there is no slot. A
/// living owner deletes old roots. So when the slot `listed` is absent, the slots are listed again, and a
/// newer one is read.
///
/// `listed`: the last slot of an earlier listing. Errors: `NotFound` with the name of a slot that is absent
/// although there is no newer one; `Unavailable` after 8 listings whose last slot was deleted before it was
/// read. Requests: a GET, and a LIST and a GET for each slot that was deleted meanwhile.
pub(crate) async fn read_last_slot(
    bucket: &Bucket,
    epoch: u64,
    mut listed: Option<u64>,
) -> Result<Option<(u64, RootSlot)>> {
    for _ in 0..LISTINGS_MAX {
        let Some(slot) = listed else { return Ok(None) };
        match read_root_slot(bucket, RootId { epoch, slot }).await {
            Ok(record) => return Ok(Some((slot, record))),
            Err(error) if error.is_not_found() => {
                listed = list_root_slots(bucket, epoch).await?.last().copied();
                if listed <= Some(slot) {
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
        }
    }
    Err(StoreError::Unavailable(format!(
        "{LISTINGS_MAX} listings of {} in {} were out of date before the newest root was read: its owner deletes old ones meanwhile. \
         Start again; if that does not help, look why the requests of this server take so long",
        names::root_dir(epoch),
        bucket.place()
    )))
}

/// Returns the last record of `root/<epoch>/` that is no fence. None: there is none. If the last slot holds a
/// fence, the lower slots are read, the highest first.
///
/// Errors, requests: as [`read_last_slot`], and a LIST; at a fence another LIST and a GET.
pub(crate) async fn last_record(bucket: &Bucket, epoch: u64) -> Result<Option<RootSlot>> {
    let listed = list_root_slots(bucket, epoch).await?.last().copied();
    let fence = match read_last_slot(bucket, epoch, listed).await? {
        None => return Ok(None),
        Some((slot, RootSlot::Fence(_))) => slot,
        Some((_, record)) => return Ok(Some(record)),
    };
    record_below(bucket, epoch, &list_slots_to(bucket, epoch, fence).await?, fence).await
}

/// Returns the last record that is no fence in those of the slots `listed` that are below `fence`. None: there is
/// none. Requests: a GET, and another for each fence.
pub(crate) async fn record_below(
    bucket: &Bucket,
    epoch: u64,
    listed: &[u64],
    fence: u64,
) -> Result<Option<RootSlot>> {
    for slot in listed.iter().rev().copied().filter(|slot| *slot < fence) {
        match read_root_slot(bucket, RootId { epoch, slot }).await? {
            RootSlot::Fence(_) => {}
            record => return Ok(Some(record)),
        }
    }
    Ok(None)
}

/// As [`list_root_slots`], when slot `known` is known to exist and is never deleted: a listing without it is not
/// believed (rule LIST-1).
pub(crate) async fn list_slots_to(bucket: &Bucket, epoch: u64, known: u64) -> Result<Vec<u64>> {
    for attempt in 1..=LISTINGS_MAX {
        let slots = list_root_slots(bucket, epoch).await?;
        if slots.binary_search(&known).is_ok() || is_believed_at_once() {
            return Ok(slots);
        }
        bucket.pause(attempt).await;
    }
    Err(lying(bucket, &names::root_dir(epoch), &names::root(epoch, known)))
}

/// Makes the error for a fenced owner, which says which server took over.
pub(crate) fn fenced_error(epoch: u64, fence: &Fence) -> StoreError {
    StoreError::Fenced(format!(
        "this server (epoch {epoch}) no longer owns the database in the bucket: epoch {} of server '{}' took it \
         over. Nothing more is written here; stop this server, or connect to the other one",
        fence.by_epoch, fence.by_server
    ))
}
