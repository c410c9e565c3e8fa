//! The bucket: slots that are created once, table files, and the requests that have not landed yet.
//!
//! Stands for `bucket.rs` and `fault.rs` of objstore, and for an S3 server.

use std::collections::BTreeSet;

/// A transaction, from 1.
pub type Commit = u8;
/// A set of table files, by their numbers; no number is used twice.
pub type Files = u16;
/// Epoch and slot of a root, ordered as the protocol orders them.
pub type RootId = (u8, u8);

/// How a process that takes an epoch is recognized: by its server and the number of its start. Stands for the
/// nonce of the slot.
pub type Nonce = (u8, u8);

/// What a root says (`records.rs`, `Root`, with the MANIFEST and the file map it names).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Root {
    /// Its slot.
    pub id: RootId,
    /// The transactions that are in table files, in part or whole, in their order.
    pub line: Vec<Commit>,
    /// How many of them have their half in files of family A.
    pub flushed_a: u8,
    /// How many of them have their half in files of family B.
    pub flushed_b: u8,
    /// Families created.
    pub edits: u8,
    /// The last transaction that was committed before a family was dropped; later ones do not name
    /// the family. 0: none.
    pub drop: Commit,
    /// The DDL number of PUB-G8.
    pub ddl: u8,
    /// The first chunk it needs.
    pub wal_first: u8,
    /// The chunks below this one are those of the closed WALs (PUB-G2).
    pub wal_needed: u8,
    /// Its table files.
    pub files: Files,
}

/// A slot of `root/<E>/`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RootSlot {
    /// The claim in slot 0: base and end of its WAL.
    Claim(Option<RootId>, u8),
    /// A published root.
    Root(Root),
    /// The end.
    Fence,
}

/// A slot of `wal/<E>/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WalSlot {
    /// A chunk, with its DDL number.
    Chunk(Commit, u8),
    /// The end.
    Fence,
}

/// What one owner deletes after one root (`trim.rs`, `files/trash.rs`).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Deletion {
    /// The epoch of this owner.
    pub epoch: u8,
    /// Table files that the root does not name, given up by this owner or left by former ones.
    pub garbage: Files,
    /// Chunks of the epoch below this chunk are deleted.
    pub wal_below: u8,
    /// Roots of the epoch below this slot are deleted.
    pub roots_below: u8,
    /// Whether everything in the slots of former epochs is deleted, except claims and fences: the first root
    /// of an epoch sweeps.
    pub sweeps: bool,
}

/// A request that has been sent.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Request {
    /// Create `epoch/<E>`.
    Epoch(u8, Nonce),
    /// Create `root/<E>/<S>`.
    Root(RootId, RootSlot),
    /// Create `wal/<E>/<k>`.
    Wal(u8, u8, WalSlot),
    /// Delete objects.
    Delete(Deletion),
}

/// The slots of one epoch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Epoch {
    /// `root/<E>/*`; None: never written, or deleted.
    pub roots: Vec<Option<RootSlot>>,
    /// `wal/<E>/*`.
    pub wal: Vec<Option<WalSlot>>,
    /// The process that took the epoch.
    pub owner: Nonce,
}

/// All objects, and the requests on their way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Bucket {
    /// The epochs; epoch E is at index E-1. A claim exists for each.
    pub epochs: Vec<Epoch>,
    /// Table files.
    pub files: Files,
    /// Requests that were sent and have not landed.
    pub requests: BTreeSet<Request>,
}

fn grown<T>(slots: &mut Vec<Option<T>>, at: u8) -> &mut Option<T> {
    let at = usize::from(at);
    while slots.len() <= at {
        slots.push(None);
    }
    &mut slots[at]
}

impl Bucket {
    /// The newest epoch that was claimed.
    pub fn newest_epoch(&self) -> u8 {
        self.epochs.len() as u8
    }

    /// The slots of `epoch`, which was claimed.
    pub fn epoch(&self, epoch: u8) -> &Epoch {
        &self.epochs[usize::from(epoch) - 1]
    }

    fn epoch_mut(&mut self, epoch: u8) -> &mut Epoch {
        &mut self.epochs[usize::from(epoch) - 1]
    }

    /// GET of a root slot.
    pub fn root(&self, id: RootId) -> Option<&RootSlot> {
        self.epoch(id.0).roots.get(usize::from(id.1))?.as_ref()
    }

    /// GET of a slot of the WAL.
    pub fn wal(&self, epoch: u8, chunk: u8) -> Option<WalSlot> {
        self.epoch(epoch).wal.get(usize::from(chunk)).copied().flatten()
    }

    /// The last record of `root/<epoch>/` that is no fence, as a listing shows it now.
    pub fn last_record(&self, epoch: u8) -> Option<&RootSlot> {
        self.epoch(epoch).roots.iter().rev().flatten().find(|slot| **slot != RootSlot::Fence)
    }

    /// The families of the newest root of `epoch`.
    pub fn last_edits(&self, epoch: u8) -> u8 {
        match self.last_record(epoch) {
            Some(RootSlot::Root(root)) => root.edits,
            _ => 0,
        }
    }

    /// `request` reaches the bucket. A create-only PUT of a slot that is taken changes nothing.
    pub fn land(&mut self, request: &Request) {
        match request {
            Request::Epoch(epoch, nonce) => {
                if usize::from(*epoch) == self.epochs.len() + 1 {
                    self.epochs.push(Epoch { owner: *nonce, ..Epoch::default() });
                }
            }
            Request::Root((epoch, slot), record) => {
                grown(&mut self.epoch_mut(*epoch).roots, *slot).get_or_insert_with(|| record.clone());
            }
            Request::Wal(epoch, chunk, record) => {
                grown(&mut self.epoch_mut(*epoch).wal, *chunk).get_or_insert(*record);
            }
            Request::Delete(deletion) => self.delete(deletion),
        }
    }

    /// Forgets requests that can change nothing any more: claims and fences are never deleted.
    pub fn forget_futile(&mut self) {
        let mut requests = std::mem::take(&mut self.requests);
        requests.retain(|request| match request {
            Request::Epoch(epoch, _) => usize::from(*epoch) > self.epochs.len(),
            Request::Root(id, _) => !matches!(self.root(*id), Some(RootSlot::Fence | RootSlot::Claim(..))),
            Request::Wal(epoch, chunk, _) => self.wal(*epoch, *chunk) != Some(WalSlot::Fence),
            Request::Delete(_) => true,
        });
        self.requests = requests;
    }

    fn delete(&mut self, deletion: &Deletion) {
        self.files &= !deletion.garbage;
        let own = self.epoch_mut(deletion.epoch);
        own.wal.iter_mut().take(usize::from(deletion.wal_below)).for_each(|slot| *slot = None);
        own.roots.iter_mut().take(usize::from(deletion.roots_below)).skip(1).for_each(|slot| *slot = None);
        if deletion.sweeps {
            for former in &mut self.epochs[..usize::from(deletion.epoch) - 1] {
                former.wal.iter_mut().filter(|slot| **slot != Some(WalSlot::Fence)).for_each(|s| *s = None);
                let records = former.roots.iter_mut().skip(1);
                records.filter(|slot| **slot != Some(RootSlot::Fence)).for_each(|slot| *slot = None);
            }
        }
    }
}
