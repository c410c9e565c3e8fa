//! The local directory of a server in the model, and the changes that RocksDB makes in it.
//!
//! It models `local.rs` of objstore, and RocksDB. All writes are durable, so the directory survives the death
//! of its process unchanged.

use crate::bucket::{Commit, Files, RootId};

/// The content of a local directory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Disk {
    /// False: there is no directory.
    pub is_present: bool,
    /// The local record `ATOLL`: the epoch, and the slot of the last root that the owner was about to
    /// publish. Slot 0: the owner has published no root in this epoch yet.
    pub marker: RootId,
    /// All transactions of the local database, in order.
    pub line: Vec<Commit>,
    /// How many transactions of `line`, from its beginning, are in no local WAL any more, because RocksDB has
    /// deleted their WAL.
    pub wal_from: u8,
    /// How many transactions of `line`, from its beginning, are in older WALs than the newest one. The last
    /// flush began the newest WAL.
    pub wal_switch: u8,
    /// How many transactions of `line`, from its beginning, have their half for family A in table files.
    pub flushed_a: u8,
    /// How many transactions of `line`, from its beginning, have their half for family B in table files.
    pub flushed_b: u8,
    /// How many families were created.
    pub edits: u8,
    /// The last transaction that was committed before a family was dropped. 0: no family was dropped.
    pub drop: Commit,
    /// The table files that the MANIFEST names.
    pub live: Files,
    /// The table files in the local directory.
    pub local: Files,
    /// The local record `ATOLL_FILES`: the table files that the server knows to be in the bucket.
    pub known: Files,
}

impl Disk {
    /// The last transaction; 0 if there is none.
    pub fn last(&self) -> Commit {
        self.line.last().copied().unwrap_or(0)
    }

    /// How many transactions there are.
    pub fn len(&self) -> u8 {
        self.line.len() as u8
    }

    /// Whether there is no transaction.
    pub fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    /// Whether a flush of family A (`is_a`), or of B, has anything to write.
    pub fn may_flush(&self, is_a: bool) -> bool {
        self.len() > if is_a { self.flushed_a } else { self.flushed_b }
    }

    /// A flush: RocksDB switches to a new WAL and writes the family's memtable into table file `number`.
    pub fn flush(&mut self, is_a: bool, number: u8) {
        let end = self.len();
        if is_a {
            self.flushed_a = end;
        } else {
            self.flushed_b = end;
        }
        self.wal_switch = end;
        self.live |= 1 << number;
        self.local |= 1 << number;
    }

    /// A compaction of all table files into file `number`.
    pub fn compact(&mut self, number: u8) {
        self.live = 1 << number;
        // RocksDB deletes the old files after it has synced the MANIFEST.
        self.local = (self.local & self.live) | 1 << number;
    }

    /// How many transactions, from the beginning, both families have flushed. RocksDB needs no WAL of these
    /// any more and can delete it.
    pub fn deletable_wal(&self) -> u8 {
        self.flushed_a.min(self.flushed_b)
    }

    /// The newest bytes of the local WAL are lost, and with them the transactions that are in no table file.
    pub fn cut_wal(&mut self) {
        self.line.truncate(usize::from(self.flushed_a.max(self.flushed_b).max(self.wal_from)));
        self.wal_switch = self.wal_switch.min(self.len());
    }
}
