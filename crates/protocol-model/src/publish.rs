//! The owner publishes a root and then deletes what the root does not need. Models `publisher.rs` and
//! `gc/collector.rs`.

use crate::Gates;
use crate::bucket::{Bucket, Commit, Deletion, Files, Request, Root, RootSlot};
use crate::disk::Disk;
use crate::owner::Owner;

/// The state of a root that is being published.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Publish {
    /// `take_snapshot` has run. The root waits until [`may_send`] or [`is_stale`] is true.
    Waiting(Snapshot),
    /// `create_root` has sent the root.
    Sent(Root),
}

/// The future content of one root (`publisher.rs`, `Snapshot`).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Snapshot {
    line: Vec<Commit>,
    flushed_a: u8,
    flushed_b: u8,
    edits: u8,
    drop: Commit,
    ddl: u8,
    wal_min: u8,
    wal_needed: u8,
    gate: u8,
    /// The table files that were live when the snapshot was taken.
    pub files: Files,
}

/// Models `take_snapshot`. Before it reads the DDL number, it marks all WALs that still exist, except the
/// newest, to be kept for this root (`Owner::held`). PUB-G2 demands that these are shipped before the root,
/// so none of them may be skipped.
pub fn take_snapshot(owner: &mut Owner, disk: &Disk, gates: &Gates) {
    let flushed = disk.flushed_a.max(disk.flushed_b);
    owner.held = owner.held.max(disk.wal_switch);
    let mut gate = 0;
    if gates.wal_before_root {
        gate = disk.wal_switch;
    }
    if gates.drop_before_root {
        gate = gate.max(owner.drop_noted);
    }
    owner.publish = Some(Publish::Waiting(Snapshot {
        line: disk.line[..usize::from(flushed)].to_vec(),
        flushed_a: disk.flushed_a,
        flushed_b: disk.flushed_b,
        edits: disk.edits,
        drop: disk.drop,
        ddl: owner.ddl_noted,
        wal_min: disk.wal_from,
        wal_needed: disk.wal_switch,
        gate,
        files: disk.live,
    }));
}

/// Whether PUB-G1, PUB-G2 and PUB-G7 allow the root of `snapshot`: its table files are uploaded and its WAL
/// is shipped.
pub fn may_send(owner: &Owner, snapshot: &Snapshot, gates: &Gates) -> bool {
    let is_uploaded = snapshot.files & !owner.uploaded == 0;
    (is_uploaded || !gates.files_before_root) && owner.shipped() >= snapshot.gate
}

/// Whether RocksDB has deleted a file of `snapshot` before it was uploaded (`Uploaded::Stale`). Then this
/// root can never be sent, and the publisher takes a new snapshot.
pub fn is_stale(owner: &Owner, disk: &Disk, snapshot: &Snapshot) -> bool {
    snapshot.files & !owner.uploaded & !disk.local != 0
}

/// Models `root`, `write_local` and `create_root`: writes the local record first, then sends the PUT. So the
/// local record is never older than the newest root of this server (DIR-2).
pub fn send(
    owner: &mut Owner,
    disk: &mut Disk,
    snapshot: &Snapshot,
    gates: &Gates,
    roots_kept: u8,
) -> Vec<Request> {
    let id = (owner.epoch, owner.slot + 1);
    let wal_first = owner.first_chunk_from(snapshot.wal_min);
    let root = Root {
        id,
        line: snapshot.line.clone(),
        flushed_a: snapshot.flushed_a,
        flushed_b: snapshot.flushed_b,
        edits: snapshot.edits,
        drop: snapshot.drop,
        ddl: snapshot.ddl,
        wal_first,
        wal_needed: if gates.wal_before_root {
            owner.first_chunk_from(snapshot.wal_needed)
        } else {
            wal_first
        },
        files: snapshot.files,
    };
    if gates.marker_before_root {
        write_local(disk, &root);
    }
    let mut requests = vec![Request::Root(id, RootSlot::Root(root.clone()))];
    let early = deletion(owner, disk, &root, roots_kept);
    if !gates.root_before_delete {
        requests.push(Request::Delete(Deletion { garbage: early.garbage, ..nothing(owner.epoch) }));
    }
    if !gates.root_before_trim {
        requests.push(Request::Delete(Deletion { garbage: 0, sweeps: false, ..early }));
    }
    owner.publish = Some(Publish::Sent(root));
    requests
}

fn write_local(disk: &mut Disk, root: &Root) {
    disk.marker = root.id;
    disk.known = root.files;
}

/// Models how `create_root` reads its slot. None: the root is not there yet. Some(Err): the slot holds a
/// fence. Some(Ok): the root is there; the request deletes what `after_root` would delete.
///
/// `former_files`: the table files that were made in former epochs.
pub fn resolve(
    owner: &mut Owner,
    disk: &mut Disk,
    bucket: &Bucket,
    gates: &Gates,
    roots_kept: u8,
    former_files: Files,
) -> Option<Result<Request, ()>> {
    let Some(Publish::Sent(root)) = owner.publish.clone() else { return None };
    if *bucket.root(root.id)? != RootSlot::Root(root.clone()) {
        return Some(Err(()));
    }
    if !gates.marker_before_root {
        write_local(disk, &root);
    }
    let mut deletion = deletion(owner, disk, &root, roots_kept);
    if deletion.sweeps {
        deletion.garbage |= former_files & !root.files;
    }
    owner.publish = None;
    owner.slot = root.id.1;
    owner.ddl_published = owner.ddl_published.max(root.ddl);
    owner.published = root.files;
    Some(Ok(Request::Delete(deletion)))
}

/// Models `Trimmer::root_published` and `Files::published`: the objects to delete after `root` was published.
fn deletion(owner: &Owner, disk: &Disk, root: &Root, roots_kept: u8) -> Deletion {
    Deletion {
        epoch: owner.epoch,
        garbage: owner.seen & !root.files & !disk.live,
        wal_below: root.wal_first,
        roots_below: root.id.1.saturating_sub(roots_kept),
        sweeps: root.id.1 == 1,
    }
}

fn nothing(epoch: u8) -> Deletion {
    Deletion { epoch, garbage: 0, wal_below: 0, roots_below: 0, sweeps: false }
}
