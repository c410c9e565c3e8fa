//! What a process does with its local directory after its claim: use it, or set it aside and restore. Models
//! `open.rs`, `age.rs`, `local_wal.rs` and `restore.rs` of objstore.

use crate::Gates;
use crate::bucket::{Bucket, Commit, RootId, RootSlot};
use crate::disk::Disk;
use crate::model::Wrong;
use crate::owner::Owner;
use crate::restore::{Commits, Damage, Restored, restore};

/// Whether `age.rs` refuses the bucket because it looks older than the bucket that the directory has seen
/// (rule OPEN-3: such a bucket is refused before anything is written).
///
/// In the model no bucket is ever put back to an older state, so this must never return true.
pub fn is_refused(bucket: &Bucket, disk: &Disk) -> bool {
    let marker = disk.marker;
    if !disk.is_present || marker.0 == 0 {
        return false;
    }
    if bucket.newest_epoch() < marker.0 {
        return true;
    }
    let newest = newest_root(bucket);
    let before = (marker.0, marker.1.saturating_sub(1));
    let is_behind = before.1 > 0 && newest.is_none_or(|newest| newest < before);
    let may_have_lost = marker.1 > 0 && newest.is_none_or(|newest| newest < marker);
    let is_fenced = bucket.root(marker) == Some(&RootSlot::Fence);
    is_behind || (may_have_lost && !is_fenced && disk.known & !bucket.files != 0)
}

/// Models `age::newest_record(..).root()`: the newest root, or the base of the newest claim. None: no root
/// was published.
fn newest_root(bucket: &Bucket) -> Option<RootId> {
    let record = (1..=bucket.newest_epoch()).rev().find_map(|epoch| bucket.last_record(epoch))?;
    match record {
        RootSlot::Root(root) => Some(root.id),
        RootSlot::Claim(base, _) => *base,
        RootSlot::Fence => None,
    }
}

/// Models `prepare_directory`: uses the directory, or sets it aside and rebuilds it from the base.
///
/// Errors: the base cannot be restored, or the directory of the server that published the base would be set
/// aside as an old one.
pub fn prepare(
    bucket: &Bucket,
    disk: &mut Disk,
    claimed: (u8, Option<RootId>, u8),
    commits: &Commits,
    gates: &Gates,
) -> Result<Owner, Wrong> {
    let (epoch, base, wal_end) = claimed;
    let is_current = match base {
        None => true,
        Some(base) => disk.is_present && (base <= disk.marker || !gates.old_directory_aside),
    };
    let known = if is_current {
        if gates.compare_wals {
            mend(bucket, disk, base, wal_end, commits, gates);
        }
        disk.known & disk.live
    } else {
        if disk.is_present && base.is_some_and(|base| base.0 == disk.marker.0) {
            return Err(Wrong::SetAside);
        }
        *disk = directory_of(restore_base(bucket, base, wal_end, commits, gates).map_err(Wrong::Damaged)?);
        disk.live
    };
    disk.is_present = true;
    disk.marker = (epoch, 0);
    disk.known = known;
    Ok(Owner::new(epoch, disk, known))
}

fn restore_base(
    bucket: &Bucket,
    base: Option<RootId>,
    wal_end: u8,
    commits: &Commits,
    gates: &Gates,
) -> Result<Restored, Damage> {
    match base.and_then(|base| bucket.root(base)) {
        Some(RootSlot::Root(root)) => restore(bucket, root, wal_end, commits, gates),
        _ => Err(Damage::NoBase),
    }
}

fn directory_of(restored: Restored) -> Disk {
    let end = restored.line.len() as u8;
    let (flushed_a, flushed_b) = (restored.flushed_a, restored.flushed_b);
    Disk {
        wal_from: flushed_a.min(flushed_b),
        // After the restore, RocksDB writes to a new WAL.
        wal_switch: end,
        line: restored.line,
        flushed_a,
        flushed_b,
        edits: restored.edits,
        drop: restored.drop,
        live: restored.files,
        ..Disk::default()
    }
}

/// Models `local_wal::compare`: appends to the local WAL the transactions that only the base's chunks have.
/// LOCALWAL-1 demands that the local WAL then has all that a restore of the base would find. Does nothing if
/// the base cannot be restored.
fn mend(
    bucket: &Bucket,
    disk: &mut Disk,
    base: Option<RootId>,
    wal_end: u8,
    commits: &Commits,
    gates: &Gates,
) {
    let Ok(found) = restore_base(bucket, base, wal_end, commits, gates) else { return };
    let has_files = disk.len() >= found.flushed_a.min(found.flushed_b);
    if has_files && found.line.starts_with(&disk.line) {
        disk.line = found.line;
    }
    disk.wal_switch = disk.len();
}

/// Whether `line` has all transactions of the set `acknowledged`, whose bits are transaction numbers.
pub fn has_all(line: &[Commit], acknowledged: u32) -> bool {
    (1..32).filter(|commit| acknowledged & (1 << commit) != 0).all(|commit| line.contains(&commit))
}
