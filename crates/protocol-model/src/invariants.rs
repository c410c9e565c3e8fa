//! The invariants that must hold in every state of the model: IMAGE-1 to IMAGE-5 of docs/internals/bucket.md.

use crate::bucket::{RootId, RootSlot, WalSlot};
use crate::model::{Process, Protocol, State, Wrong};
use crate::restore::Damage;
use stateright::Property;

/// The invariants, for the checker.
pub fn all() -> Vec<Property<Protocol>> {
    use Damage::{Half, Hole, NoBase, NoFamily, NoFile, NoWal, StillNamed};
    vec![
        Property::always("IMAGE-1: a root in the bucket can be restored", |_, state: &State| {
            !matches!(state.found, Some(Err(NoBase | NoWal)))
        }),
        Property::always("IMAGE-2: a closed epoch gets no record any more", |_, state: &State| {
            closed_stay_closed(state)
        }),
        Property::always(
            "IMAGE-3, IMAGE-4: a restore finds all that was acknowledged",
            |_, state: &State| state.found != Some(Ok(false)),
        ),
        Property::always("IMAGE-4: a restore finds a prefix of the history", |_, state: &State| {
            !matches!(state.found, Some(Err(Half | Hole | NoFamily | StillNamed)))
        }),
        Property::always("IMAGE-5: nothing is deleted that the newest root needs", |_, state: &State| {
            state.found != Some(Err(NoFile))
        }),
        Property::always("IMAGE-5: an owner has each of its table files", |_, state: &State| {
            files_are_there(state)
        }),
        Property::always("an open finds all that was acknowledged", |_, state: &State| {
            matches!(state.wrong, None | Some(Wrong::Refused))
        }),
        Property::always("OPEN-3: a bucket that was not put back is not refused", |_, state: &State| {
            state.wrong != Some(Wrong::Refused)
        }),
    ]
}

/// IMAGE-2: once a claim is in the bucket, its base stays the last record of the base's epoch, and no epoch
/// between the two has a root.
fn closed_stay_closed(state: &State) -> bool {
    let newest = state.bucket.newest_epoch();
    (1..=newest).all(|epoch| match state.bucket.root((epoch, 0)) {
        Some(RootSlot::Claim(base, wal_end)) => is_base(state, epoch, *base, *wal_end),
        _ => true,
    })
}

fn is_base(state: &State, epoch: u8, base: Option<RootId>, wal_end: u8) -> bool {
    let bucket = &state.bucket;
    let (base_epoch, base_slot) = base.unwrap_or((0, 0));
    let has_root = |epoch: u8| matches!(bucket.last_record(epoch), Some(RootSlot::Root(_)));
    if (base_epoch + 1..epoch).any(has_root) {
        return false;
    }
    let Some(base) = base else { return true };
    let last = bucket.last_record(base_epoch);
    let is_last = match last {
        Some(RootSlot::Root(root)) => root.id.1 <= base_slot,
        _ => true,
    };
    // The slot `wal_end` holds a fence for ever. Requests that reach the bucket late can still create chunks
    // in later slots, but no restore reads these chunks.
    is_last && bucket.wal(base.0, wal_end) == Some(WalSlot::Fence)
}

/// Checks the owners of the newest epoch: each of their live table files is in the local directory, or the
/// owner knows that the file is in the bucket.
fn files_are_there(state: &State) -> bool {
    state.servers.iter().all(|server| match &server.process {
        Process::Open(owner) if owner.epoch == state.bucket.newest_epoch() => {
            server.disk.live & !server.disk.local & !(state.bucket.files & owner.uploaded) == 0
        }
        _ => true,
    })
}
