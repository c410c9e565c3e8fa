//! The bucket of the model: slots that are created once, table files, and requests that were sent and have
//! not reached the bucket yet.
//!
//! It models `bucket.rs` of objstore, an S3 server, and the faults that `fault.rs` of objstore injects.

use std::collections::BTreeSet;

/// The number of a transaction, counted from 1. 0 stands for "no transaction".
pub type Commit = u8;
/// A set of table files as bits, one for each file number. No number is used twice.
pub type Files = u16;
/// Epoch and slot of a root. A greater pair is a newer root.
pub type RootId = (u8, u8);

/// Identifies the process that takes an epoch: its server and how often that server was started. It models
/// the nonce in the slot.
pub type Nonce = (u8, u8);

/// The content of a root: `Root` of `records.rs` together with the MANIFEST and the file map that it names.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Root {
    /// Epoch and slot of the root.
    pub id: RootId,
    /// The transactions of which at least one half is in table files, in order. (A transaction has a half in
    /// family A and a half in family B.)
    pub line: Vec<Commit>,
    /// How many transactions of `line`, from its beginning, have their half for family A in table files.
    pub flushed_a: u8,
    /// How many transactions of `line`, from its beginning, have their half for family B in table files.
    pub flushed_b: u8,
    /// How many families were created.
    pub edits: u8,
    /// The last transaction that was committed before a family was dropped. Later transactions do not name
    /// the family. 0: no family was dropped.
    pub drop: Commit,
    /// The DDL number, which rises when a family is created and when WAL is skipped. PUB-G8 demands that a
    /// chunk with a higher DDL number is not replayed over this root.
    pub ddl: u8,
    /// The first chunk of the log that a restore of this root needs.
    pub wal_first: u8,
    /// The number after the last chunk of the closed WALs. PUB-G2 demands that all these chunks are in the
    /// bucket before the root.
    pub wal_needed: u8,
    /// The table files that the root names.
    pub files: Files,
}

/// The content of one slot `root/<E>/<S>`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RootSlot {
    /// The claim in slot 0. Its fields are the base, which is the root from which the epoch starts (None: no
    /// root was published before), and the number after the last chunk of the base's log.
    Claim(Option<RootId>, u8),
    /// A published root.
    Root(Root),
    /// The fence: no later slot of this epoch counts.
    Fence,
}

/// The content of one slot `wal/<E>/<k>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WalSlot {
    /// A chunk: its one transaction, and its DDL number. The chunk is replayed only over a root whose DDL
    /// number is at least as high (PUB-G8).
    Chunk(Commit, u8),
    /// The fence: no later slot of this epoch counts.
    Fence,
}

/// The objects that an owner deletes after it has published a root (`gc/collector.rs`).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Deletion {
    /// The epoch of this owner.
    pub epoch: u8,
    /// Table files that the root does not name: files that this owner does not use any more, and files that
    /// former owners left.
    pub garbage: Files,
    /// Chunks of the epoch with a lower number than this are deleted.
    pub wal_below: u8,
    /// Roots of the epoch in slots with a lower number than this are deleted.
    pub roots_below: u8,
    /// Whether all slots of former epochs except claims and fences are deleted, too. This happens after the
    /// first root of an epoch.
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
    /// The slots `root/<E>/*`. None: the slot was never written, or its record was deleted.
    pub roots: Vec<Option<RootSlot>>,
    /// The slots `wal/<E>/*`.
    pub wal: Vec<Option<WalSlot>>,
    /// The process that created the epoch's claim.
    pub owner: Nonce,
}

/// All objects, and the requests on their way to the bucket.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Bucket {
    /// The epochs that were claimed; epoch E is at index E-1.
    pub epochs: Vec<Epoch>,
    /// The table files in the bucket.
    pub files: Files,
    /// Requests that were sent and have not been carried out yet.
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

    /// The slots of `epoch`. Requires: it was claimed.
    pub fn epoch(&self, epoch: u8) -> &Epoch {
        &self.epochs[usize::from(epoch) - 1]
    }

    fn epoch_mut(&mut self, epoch: u8) -> &mut Epoch {
        &mut self.epochs[usize::from(epoch) - 1]
    }

    /// Models a GET of a slot of `root/`. None: the slot was never written, or its record was deleted.
    pub fn root(&self, id: RootId) -> Option<&RootSlot> {
        self.epoch(id.0).roots.get(usize::from(id.1))?.as_ref()
    }

    /// Models a GET of a slot of `wal/`. None: the slot was never written, or its record was deleted.
    pub fn wal(&self, epoch: u8, chunk: u8) -> Option<WalSlot> {
        self.epoch(epoch).wal.get(usize::from(chunk)).copied().flatten()
    }

    /// The last record of `root/<epoch>/` that is no fence, as a listing shows it now. None: there is no such
    /// record.
    pub fn last_record(&self, epoch: u8) -> Option<&RootSlot> {
        self.epoch(epoch).roots.iter().rev().flatten().find(|slot| **slot != RootSlot::Fence)
    }

    /// How many families the newest root of `epoch` has; 0 without a root.
    pub fn last_edits(&self, epoch: u8) -> u8 {
        match self.last_record(epoch) {
            Some(RootSlot::Root(root)) => root.edits,
            _ => 0,
        }
    }

    /// Carries out `request`. A create-only PUT of an existing slot changes nothing.
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

    /// Drops requests that cannot change the bucket any more: PUTs of slots that hold a claim or a fence,
    /// which are never deleted.
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
