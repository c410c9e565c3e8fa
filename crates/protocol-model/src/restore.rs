//! What a restore from the bucket alone finds. Models `restore.rs` and `image.rs` of objstore, and the WAL
//! replay of RocksDB.

use crate::Gates;
use crate::bucket::{Bucket, Commit, Files, Root, RootSlot, WalSlot};

/// For each transaction: the transaction that preceded it in the database in which it was committed (0:
/// none), and how many families had been created in that database by then, all of which the transaction
/// needs.
pub type Commits = Vec<(Commit, u8)>;

/// The database that a restore finds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Restored {
    /// The transactions of the restored database, in order.
    pub line: Vec<Commit>,
    /// How many transactions of `line`, from its beginning, had their half for family A in table files.
    pub flushed_a: u8,
    /// How many transactions of `line`, from its beginning, had their half for family B in table files.
    pub flushed_b: u8,
    /// How many families were created.
    pub edits: u8,
    /// The last transaction that was committed before a family was dropped. 0: no family was dropped.
    pub drop: Commit,
    /// The table files of the restored database.
    pub files: Files,
}

/// Why a restore fails, or which error the restored database has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Damage {
    /// The base that the claim names is not in the bucket.
    NoBase,
    /// A table file that the root names is not in the bucket.
    NoFile,
    /// A chunk of the WAL that the root needs is not in the bucket.
    NoWal,
    /// Only one half of a transaction was found.
    Half,
    /// A transaction was found, but the transaction before it was not.
    Hole,
    /// A transaction needs a family that was created after the root.
    NoFamily,
    /// The last transaction before the drop of a family was not found, so the catalog still names the dropped
    /// family.
    StillNamed,
}

/// What a server without a local directory would restore now.
pub fn restore_newest(bucket: &Bucket, commits: &Commits, gates: &Gates) -> Result<Restored, Damage> {
    for epoch in (1..=bucket.newest_epoch()).rev() {
        match bucket.last_record(epoch) {
            None | Some(RootSlot::Fence) => {}
            Some(RootSlot::Claim(None, _)) => return Ok(Restored::default()),
            Some(RootSlot::Claim(Some(base), wal_end)) => {
                return match bucket.root(*base) {
                    Some(RootSlot::Root(root)) => restore(bucket, root, *wal_end, commits, gates),
                    _ => Err(Damage::NoBase),
                };
            }
            Some(RootSlot::Root(root)) => return restore(bucket, root, u8::MAX, commits, gates),
        }
    }
    Ok(Restored::default())
}

/// Models `restore` of `root` with the chunks of its WAL below `wal_end`.
pub fn restore(
    bucket: &Bucket,
    root: &Root,
    wal_end: u8,
    commits: &Commits,
    gates: &Gates,
) -> Result<Restored, Damage> {
    if root.files & !bucket.files != 0 {
        return Err(Damage::NoFile);
    }
    let mut a = root.line[..usize::from(root.flushed_a)].to_vec();
    let mut b = root.line[..usize::from(root.flushed_b)].to_vec();
    let mut next = root.wal_first;
    while next < wal_end {
        let Some(WalSlot::Chunk(commit, ddl)) = bucket.wal(root.id.0, next) else { break };
        if ddl > root.ddl && gates.edit_before_replay {
            break;
        }
        for family in [&mut a, &mut b] {
            if !family.contains(&commit) {
                family.push(commit);
            }
        }
        next += 1;
    }
    if next < root.wal_needed {
        return Err(Damage::NoWal);
    }
    check(root, &a, &b, commits)?;
    let (flushed_a, flushed_b) = (root.flushed_a, root.flushed_b);
    Ok(Restored { line: a, flushed_a, flushed_b, edits: root.edits, drop: root.drop, files: root.files })
}

fn check(root: &Root, a: &[Commit], b: &[Commit], commits: &Commits) -> Result<(), Damage> {
    let mut before = 0;
    for commit in a {
        let (parent, needs) = commits[usize::from(*commit) - 1];
        if parent != before {
            return Err(Damage::Hole);
        }
        if needs > root.edits {
            return Err(Damage::NoFamily);
        }
        before = *commit;
    }
    if a != b {
        return Err(Damage::Half);
    }
    if root.drop != 0 && !a.contains(&root.drop) {
        return Err(Damage::StillNamed);
    }
    Ok(())
}
