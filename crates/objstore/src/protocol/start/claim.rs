//! Claiming the database: take a new epoch, then close every former one for ever.
//!
//! ```text
//! 1  E = newest epoch + 1; create epoch/E              lost: again with the next one
//! 2  for e = E-1 downward: put a FENCE behind the last record of root/e/
//! 3    stop at the first e that has a record: its last root is the base
//! 4  put a FENCE behind the contiguous chunks of wal/<base epoch>/
//! 5  create root/E/0 with base and end of the WAL      lost: a newer claimer fenced us; give up
//! ```
//!
//! CLAIM-1: after step 2 no former owner can publish; after step 4 none can acknowledge a synchronous commit.
//! CLAIM-2: `root/E/0` records where a closed epoch ends. A server reads no object of that epoch behind its end,
//!          so an object that arrives there later does no harm.
//! CLAIM-3: an epoch whose only record is its claim has added nothing to its base, because no commit is
//!          reported as covered by the bucket before the epoch's first root (`CommitPath`, ddl 1). So the
//!          next claim takes over its base and WAL end unchanged.
//! CLAIM-4: a living owner deletes its old roots. A fence that is created late may land in the slot of a
//!          deleted root, before the newest root, where it closes nothing. So the claimer lists the slots
//!          again after it has put its fence, and when there is a newer root, it puts another fence behind
//!          that root. A listing that does not show that fence, or that shows no slots of an epoch which
//!          has some, is not believed (LIST-1).
//! No step looks at a clock. If a claimer dies after any step, the next claimer can go on from what it left.

use crate::error::{Result, StoreError};
use crate::machine;
use crate::protocol::format::codec::Nonce;
use crate::protocol::format::names;
use crate::protocol::format::records::{
    ClaimRoot, EpochClaim, FENCE_BYTES, Fence, Root, RootId, RootSlot, WalSlot,
};
use crate::protocol::format::slots::{
    LISTINGS_MAX, decode_root_slot, decode_wal_slot, exists, fenced_error, is_believed_at_once,
    list_root_slots, list_slots_to, lying, read_last_slot, read_record, record_below,
};
use crate::protocol::start::home::Home;
use crate::protocol::start::local::random_nonce;
use crate::requests::bucket::{Bucket, SlotOutcome};
use std::collections::BTreeMap;

/// How many rounds of the race for the next epoch a claimer loses before it gives up.
const ROUNDS_MAX: u32 = 64;

/// An epoch that this process has claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OwnEpoch {
    pub(crate) number: u64,
    /// The nonce of `epoch/<number>`: a claim of this number in another copy of the bucket has another nonce.
    pub(crate) nonce: Nonce,
}

/// The step after which a test lets a claimer die.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum StopAfter {
    #[default]
    Nothing,
    #[cfg(test)]
    Epoch,
    #[cfg(test)]
    RootFence,
    #[cfg(test)]
    WalFence,
}

/// Does all five steps (see the head of this file) for `server`.
#[cfg(test)]
pub(crate) async fn claim(bucket: &Bucket, server: &str, stop: StopAfter) -> Result<ClaimRoot> {
    let epoch = take_epoch(bucket, server, &Home::default()).await?;
    close_and_claim(bucket, epoch.number, server, stop).await
}

/// Does steps 2 to 5 for `server`, which took `epoch`. After an error, that process can repeat them.
///
/// Errors: `Fenced` when a newer claimer won meanwhile; `Corruption` names the object.
/// Requests: one PUT for the claim. For each former epoch, down to the epoch of the base: two LISTs, a GET
/// and a PUT in root/. For the base: a LIST and a PUT in wal/.
pub(crate) async fn close_and_claim(
    bucket: &Bucket,
    epoch: u64,
    server: &str,
    stop: StopAfter,
) -> Result<ClaimRoot> {
    stopped(stop, 1)?;
    let (base, wal_end) = close_former(bucket, epoch, server, stop).await?;
    let claim = ClaimRoot { epoch, base, wal_end };
    let nonce = random_nonce()?;
    let key = names::root(epoch, 0);
    match bucket.create_slot(&key, claim.encode(&nonce).into(), &nonce).await? {
        SlotOutcome::Mine => Ok(claim),
        SlotOutcome::Lost(bytes) => match decode_root_slot(&key, &bytes, RootId { epoch, slot: 0 })? {
            RootSlot::Fence(fence) => Err(fenced_error(epoch, &fence)),
            // A former attempt of this process has created the slot, but the answer was lost.
            RootSlot::Claim(found) if found == claim => Ok(claim),
            _ => Err(StoreError::Bug(format!("{key} was written by somebody else in our own epoch"))),
        },
    }
}

/// The newest claimed epoch; 0 when there is none. Claims have consecutive numbers and are never deleted, so a
/// listing is believed only if the next claim is absent (rule LIST-1 of slots.rs).
///
/// Errors: `ReadOnly` when listings lack the next claim although it is there. Requests: a LIST and a HEAD.
pub(crate) async fn newest_epoch(bucket: &Bucket) -> Result<u64> {
    let mut newest = 0;
    for attempt in 1..=LISTINGS_MAX {
        newest = listed_epoch(bucket).await?.max(newest);
        if is_believed_at_once() || !exists(bucket, &names::epoch(newest + 1)).await? {
            return Ok(newest);
        }
        bucket.pause(attempt).await;
    }
    Err(lying(bucket, names::EPOCH_DIR, &names::epoch(newest + 1)))
}

/// The newest claimed epoch of one listing, which may be out of date.
async fn listed_epoch(bucket: &Bucket) -> Result<u64> {
    let objects = bucket.list(names::EPOCH_DIR, None).await?;
    Ok(objects.iter().filter_map(|o| names::parse_epoch(&o.key)).max().unwrap_or(0))
}

/// The error to return for `error`, which an open has met after it had listed the claims up to `epoch`. When
/// an object is absent and a newer epoch has been claimed, the newer owner may have deleted the object. Then
/// this returns `Unavailable`, and the caller opens again: it lists the claims anew and waits for that owner
/// as the first attempt did. Every other error is returned unchanged.
///
/// Requests: one LIST of the claims when an object is absent.
pub(crate) async fn unless_overtaken(bucket: &Bucket, epoch: u64, error: StoreError) -> StoreError {
    if !error.is_not_found() {
        return error;
    }
    match newest_epoch(bucket).await {
        Ok(newest) if newest > epoch => StoreError::Unavailable(format!(
            "another server took the database over, in epoch {newest}, while this one was still reading the state before, and has \
             deleted what it does not need any more ({error}). This server looks again. Stop it if the other one is to go on"
        )),
        _ => error,
    }
}

/// Step 1: creates `epoch/<E>` for `server` at `home`, one above the newest.
///
/// Errors: `Unavailable` when others win 64 times in a row.
/// Requests: LIST epoch/ and one PUT, per round of the race.
pub(crate) async fn take_epoch(bucket: &Bucket, server: &str, home: &Home) -> Result<OwnEpoch> {
    for _ in 0..ROUNDS_MAX {
        // If the listing lacks the newest claim, the PUT fails, and this server looks again.
        let epoch = listed_epoch(bucket).await? + 1;
        if let Some(taken) = claim_epoch(bucket, epoch, server, home).await? {
            return Ok(taken);
        }
    }
    Err(StoreError::Unavailable(format!(
        "{ROUNDS_MAX} other servers claimed the database while this one tried to: stop them, then start again"
    )))
}

/// Creates `epoch/<epoch>` for `server` at `home`. None: another program has claimed it.
pub(crate) async fn claim_epoch(
    bucket: &Bucket,
    epoch: u64,
    server: &str,
    home: &Home,
) -> Result<Option<OwnEpoch>> {
    let claimed_ms = wall_clock_ms();
    let claim = EpochClaim { epoch, server_id: server.to_owned(), claimed_ms, home: home.clone() };
    let nonce = random_nonce()?;
    let outcome = bucket.create_slot(&names::epoch(epoch), claim.encode(&nonce).into(), &nonce).await?;
    Ok((outcome == SlotOutcome::Mine).then_some(OwnEpoch { number: epoch, nonce }))
}

/// Does steps 2 to 4. Returns the base and the end of its WAL.
async fn close_former(
    bucket: &Bucket,
    epoch: u64,
    server: &str,
    stop: StopAfter,
) -> Result<(Option<RootId>, u64)> {
    let fence = Fence { by_epoch: epoch, by_server: server.to_owned() };
    for former in (1..epoch).rev() {
        let listed = list_root_slots(bucket, former).await?.last().copied();
        let last = fence_roots(bucket, former, listed, &fence).await?;
        stopped(stop, 2)?;
        match last {
            None => {}
            Some(RootSlot::Claim(claim)) => return Ok((claim.base, claim.wal_end)),
            Some(RootSlot::Root(root)) => {
                let wal_end = fence_wal(bucket, &root, &fence).await?;
                stopped(stop, 3)?;
                return Ok((Some(root.id), wal_end));
            }
            Some(RootSlot::Fence(_)) => {
                return Err(StoreError::Bug("a fence was taken for a record".to_owned()));
            }
        }
    }
    Ok((None, 0))
}

/// Closes `root/<epoch>/` and returns its last record, if it has one.
///
/// `listed`: the last slot of a listing. The owner may have published since, and deleted old roots (CLAIM-4). A
/// fence that another claimer has put counts as one of this claimer: only a later listing says that nothing is above
/// it.
async fn fence_roots(
    bucket: &Bucket,
    epoch: u64,
    mut listed: Option<u64>,
    fence: &Fence,
) -> Result<Option<RootSlot>> {
    loop {
        let found = read_last_slot(bucket, epoch, listed).await?;
        let (is_fenced, next, last) = match found {
            None => (false, 0, None),
            Some((slot, RootSlot::Fence(_))) => (true, slot, None),
            Some((slot, record)) => (false, slot + 1, Some(record)),
        };
        let (fenced, last) = match is_fenced {
            true => (next, None),
            false => put_root_fence(bucket, epoch, next, last, fence).await?,
        };
        // The listing shows the fence (LIST-1), so there is no newer root, or it shows that one, too.
        let slots = list_slots_to(bucket, epoch, fenced).await?;
        listed = slots.last().copied();
        if listed <= Some(fenced) {
            return if is_fenced { record_below(bucket, epoch, &slots, fenced).await } else { Ok(last) };
        }
    }
}

/// Puts a fence into the first free slot of `root/<epoch>/`; slot `next` is tried first. `last` is the record
/// in the slot before `next`. Returns the slot of the fence, and the record in the slot before that.
async fn put_root_fence(
    bucket: &Bucket,
    epoch: u64,
    mut next: u64,
    mut last: Option<RootSlot>,
    fence: &Fence,
) -> Result<(u64, Option<RootSlot>)> {
    loop {
        let nonce = random_nonce()?;
        let key = names::root(epoch, next);
        let SlotOutcome::Lost(bytes) = bucket.create_slot(&key, fence.encode(&nonce).into(), &nonce).await?
        else {
            return Ok((next, last));
        };
        match decode_root_slot(&key, &bytes, RootId { epoch, slot: next })? {
            RootSlot::Fence(_) => return Ok((next, last)),
            record => last = Some(record),
        }
        next += 1;
    }
}

/// Puts a fence into `wal/<epoch>/`, in the first free slot after the contiguous chunks from
/// `root.wal_loose_first()` on. Returns the number of the fence's slot.
async fn fence_wal(bucket: &Bucket, root: &Root, fence: &Fence) -> Result<u64> {
    let epoch = root.id.epoch;
    // The listing begins here, because very many chunks before this one may still exist: they are merged
    // already and are deleted later.
    let first = root.wal_loose_first();
    let before = first.checked_sub(1).map(|chunk| names::wal_chunk(epoch, chunk));
    let objects = bucket.list(&names::wal_dir(epoch), before.as_deref()).await?;
    let sizes: BTreeMap<u64, u64> =
        objects.iter().filter_map(|o| Some((names::parse_slot(names::WAL_DIR, &o.key)?.1, o.size))).collect();
    let mut next = first;
    // A chunk that is exactly as large as a fence may be a fence: only reading it tells.
    while let Some(size) = sizes.get(&next) {
        if *size == FENCE_BYTES && is_wal_fence(bucket, epoch, next).await? {
            return Ok(next);
        }
        next += 1;
    }
    loop {
        let nonce = random_nonce()?;
        let key = names::wal_chunk(epoch, next);
        let SlotOutcome::Lost(bytes) = bucket.create_slot(&key, fence.encode(&nonce).into(), &nonce).await?
        else {
            return Ok(next);
        };
        if let WalSlot::Fence(_) = decode_wal_slot(&key, &bytes, epoch, next)? {
            return Ok(next);
        }
        next += 1;
    }
}

async fn is_wal_fence(bucket: &Bucket, epoch: u64, chunk: u64) -> Result<bool> {
    let key = names::wal_chunk(epoch, chunk);
    let slot = read_record(bucket, &key, |bytes| decode_wal_slot(&key, bytes, epoch, chunk)).await?;
    Ok(matches!(slot, WalSlot::Fence(_)))
}

/// The time in milliseconds since 1970, for records. No safety argument uses it.
pub(crate) fn wall_clock_ms() -> u64 {
    machine::time_of_day_ms()
}

#[cfg(not(test))]
fn stopped(_: StopAfter, _: u32) -> Result<()> {
    Ok(())
}

#[cfg(test)]
fn stopped(stop: StopAfter, step: u32) -> Result<()> {
    let at = match stop {
        StopAfter::Nothing => return Ok(()),
        StopAfter::Epoch => 1,
        StopAfter::RootFence => 2,
        StopAfter::WalFence => 3,
    };
    if at == step { Err(StoreError::Interrupted("the test stopped the claimer".to_owned())) } else { Ok(()) }
}

#[cfg(test)]
#[path = "late_fence_test.rs"]
mod late_fence_test;
