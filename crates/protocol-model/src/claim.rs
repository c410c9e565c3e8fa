//! A starting server takes a new epoch and closes the former epochs. The steps model those of `claim.rs` and
//! `slots.rs` of objstore.

use crate::Gates;
use crate::bucket::{Bucket, Nonce, Request, Root, RootId, RootSlot, WalSlot};

/// How far a process is with its claim. Names in backquotes are functions of `claim.rs`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Claim {
    /// `take_epoch` has sent the claim of this epoch.
    Taking(u8),
    /// `fence_roots` is about to list `root/<former>/`. The numbers are the epoch of the claimer and the
    /// former epoch.
    Listing(u8, u8),
    /// `fence_roots` has sent a fence for a former epoch.
    FencingRoots(Fencing),
    /// The fence of `root/<former>/` is in the bucket, and `fence_roots` lists the slots again, to find
    /// records in later slots (CLAIM-4).
    LookingBehind(Fencing),
    /// `fence_wal` has sent a fence for a slot of `wal/` in the epoch of the base, the root from which the
    /// claim starts. The fields are the epoch of the claimer, the base and the number of the slot.
    FencingWal(u8, Root, u8),
    /// `close_and_claim` has sent the claim root. The fields are its epoch, its base (None: no root was
    /// published before) and the number after the last chunk of the base's log.
    Claiming(u8, Option<RootId>, u8),
}

/// A fence that was sent to end the roots of a former epoch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Fencing {
    /// The epoch of the claimer.
    pub epoch: u8,
    /// The epoch that is closed.
    pub former: u8,
    /// The number of the slot to which the fence was sent.
    pub next: u8,
    /// The last record in a slot with a lower number. None: there is no such record.
    pub last: Option<RootSlot>,
}

/// The result of a step of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// The claim goes on in this state, and perhaps sends this request.
    Go(Claim, Option<Request>),
    /// The claim root is in the bucket. The fields are those of [`Claim::Claiming`].
    Done(u8, Option<RootId>, u8),
    /// A newer claimer fenced this one, or a read failed: the process ends.
    Failed,
}

/// Begins `take_epoch`, for the first time or again.
pub fn begin(bucket: &Bucket, nonce: Nonce) -> (Claim, Request) {
    let epoch = bucket.newest_epoch() + 1;
    (Claim::Taking(epoch), Request::Epoch(epoch, nonce))
}

/// Models `fence_roots` up to its first PUT. Its listing shows the slots with lower numbers than `seen`. A
/// stale listing has a `seen` that is lower than the number of slots.
///
/// None: the claimer cannot go on with this listing and lists again. Either the last record of the listing
/// was deleted meanwhile, so it cannot be read, or no real listing looks like this one.
pub fn list(bucket: &Bucket, epoch: u8, former: u8, seen: u8, gates: &Gates) -> Option<Next> {
    let slots = &bucket.epoch(former).roots;
    let listed = &slots[..usize::from(seen)];
    if !gates.fence_roots {
        return Some(closed(bucket, epoch, former, listed.iter().rev().flatten().next().cloned(), gates));
    }
    let Some(last) = listed.last() else {
        return Some(fence(Fencing { epoch, former, next: 0, last: None }));
    };
    let last = last.clone()?;
    if last == RootSlot::Fence {
        if usize::from(seen) < slots.len() {
            // There are records in slots after this fence. The fence reached the bucket late, after these
            // records were created. So no real listing shows this fence without these records.
            return None;
        }
        // Models `record_before_fence`.
        let record = listed.iter().rev().flatten().find(|slot| **slot != RootSlot::Fence);
        return Some(closed(bucket, epoch, former, record.cloned(), gates));
    }
    Some(fence(Fencing { epoch, former, next: seen, last: Some(last) }))
}

fn fence(fencing: Fencing) -> Next {
    let request = Request::Root((fencing.former, fencing.next), RootSlot::Fence);
    Next::Go(Claim::FencingRoots(fencing), Some(request))
}

/// Takes one step of a claimer whose request was carried out. None: the request was not carried out yet, or
/// the next step is a listing, which [`list`] models.
pub fn step(bucket: &Bucket, claim: &Claim, nonce: Nonce, gates: &Gates) -> Option<Next> {
    match claim {
        Claim::Taking(epoch) => take(bucket, *epoch, nonce),
        Claim::Listing(..) => None,
        Claim::FencingRoots(fencing) => fenced_roots(bucket, fencing, gates),
        Claim::LookingBehind(fencing) => Some(look_behind(bucket, fencing, gates)),
        Claim::FencingWal(epoch, base, next) => fenced_wal(bucket, *epoch, base, *next),
        Claim::Claiming(epoch, base, wal_end) => claimed(bucket, *epoch, *base, *wal_end),
    }
}

fn take(bucket: &Bucket, epoch: u8, nonce: Nonce) -> Option<Next> {
    if bucket.newest_epoch() < epoch {
        return None;
    }
    if bucket.epoch(epoch).owner != nonce {
        let (claim, request) = begin(bucket, nonce);
        return Some(Next::Go(claim, Some(request)));
    }
    Some(close_next(epoch, epoch - 1))
}

/// Models the loop of `close_former` over the epochs from `former` downward.
fn close_next(epoch: u8, former: u8) -> Next {
    if former == 0 { claim_root(epoch, None, 0) } else { Next::Go(Claim::Listing(epoch, former), None) }
}

fn fenced_roots(bucket: &Bucket, fencing: &Fencing, gates: &Gates) -> Option<Next> {
    let Fencing { epoch, former, next, last } = fencing.clone();
    let found = bucket.root((former, next))?;
    if *found == RootSlot::Fence {
        if gates.look_behind_fence {
            return Some(Next::Go(Claim::LookingBehind(fencing.clone()), None));
        }
        return Some(closed(bucket, epoch, former, last, gates));
    }
    if !gates.read_lost_slot {
        // The mistake that this gate prevents: an existing slot is taken as proof that another claimer has
        // closed the epoch.
        return Some(closed(bucket, epoch, former, last, gates));
    }
    Some(fence(Fencing { epoch, former, next: next + 1, last: Some(found.clone()) }))
}

/// A fence that reaches the bucket late can take a slot whose root the owner has deleted. Then a listing
/// shows newer records in later slots, and the fence does not end the epoch. So the claimer must send another
/// fence, to the slot after the newest of these records (CLAIM-4).
fn look_behind(bucket: &Bucket, fencing: &Fencing, gates: &Gates) -> Next {
    let Fencing { epoch, former, next, last } = fencing.clone();
    let slots = &bucket.epoch(former).roots;
    let behind = slots.iter().enumerate().skip(usize::from(next) + 1).rev();
    let record = behind.filter_map(|(at, slot)| Some((at as u8, slot.clone()?))).next();
    match record {
        None => closed(bucket, epoch, former, last, gates),
        Some((_, RootSlot::Fence)) => {
            closed(bucket, epoch, former, bucket.last_record(former).cloned(), gates)
        }
        Some((at, record)) => fence(Fencing { epoch, former, next: at + 1, last: Some(record) }),
    }
}

/// The mistake that rule LIST-1 prevents: the claim goes on with a listing that does not show its fence, as if
/// there were nothing behind the fence.
pub fn believe(bucket: &Bucket, fencing: &Fencing, gates: &Gates) -> Next {
    closed(bucket, fencing.epoch, fencing.former, fencing.last.clone(), gates)
}

/// Continues `close_former` after the roots of `former` were closed. `last` is the last record of that epoch;
/// None: it has no record.
fn closed(bucket: &Bucket, epoch: u8, former: u8, last: Option<RootSlot>, gates: &Gates) -> Next {
    match last {
        None => close_next(epoch, former - 1),
        Some(RootSlot::Claim(base, wal_end)) => claim_root(epoch, base, wal_end),
        Some(RootSlot::Root(base)) => {
            let mut next = base.wal_first;
            loop {
                match bucket.wal(former, next) {
                    Some(WalSlot::Chunk(..)) => next += 1,
                    Some(WalSlot::Fence) => return claim_root(epoch, Some(base.id), next),
                    None if gates.fence_wal => return fence_wal(epoch, base, next),
                    None => return claim_root(epoch, Some(base.id), next),
                }
            }
        }
        Some(RootSlot::Fence) => Next::Failed,
    }
}

fn fence_wal(epoch: u8, base: Root, next: u8) -> Next {
    let request = Request::Wal(base.id.0, next, WalSlot::Fence);
    Next::Go(Claim::FencingWal(epoch, base, next), Some(request))
}

fn fenced_wal(bucket: &Bucket, epoch: u8, base: &Root, next: u8) -> Option<Next> {
    Some(match bucket.wal(base.id.0, next)? {
        WalSlot::Fence => claim_root(epoch, Some(base.id), next),
        WalSlot::Chunk(..) => fence_wal(epoch, base.clone(), next + 1),
    })
}

fn claim_root(epoch: u8, base: Option<RootId>, wal_end: u8) -> Next {
    let request = Request::Root((epoch, 0), RootSlot::Claim(base, wal_end));
    Next::Go(Claim::Claiming(epoch, base, wal_end), Some(request))
}

fn claimed(bucket: &Bucket, epoch: u8, base: Option<RootId>, wal_end: u8) -> Option<Next> {
    Some(match bucket.root((epoch, 0))? {
        RootSlot::Claim(..) => Next::Done(epoch, base, wal_end),
        _ => Next::Failed,
    })
}
