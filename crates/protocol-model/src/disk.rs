//! A local directory, and what RocksDB does in it.
//!
//! Stands for `local.rs` of objstore and for RocksDB. The directory survives the death of its process: what is written is
//! durable.

use crate::bucket::{Commit, Files, RootId};

/// What survives the death of the process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Disk {
    /// False: there is no directory.
    pub is_present: bool,
    /// `ATOLL`: the epoch, and the root that was about to be published. Slot 0: none yet.
    pub marker: RootId,
    /// Every transaction, in order.
    pub line: Vec<Commit>,
    /// How many of them are no longer in a local WAL.
    pub wal_from: u8,
    /// The newest WAL begins after this many records: the last flush switched to it.
    pub wal_switch: u8,
    /// How many of them have their half in table files of family A.
    pub flushed_a: u8,
    /// How many of them have their half in table files of family B.
    pub flushed_b: u8,
    /// Families created.
    pub edits: u8,
    /// The last transaction that was committed before a family was dropped.
    pub drop: Commit,
    /// The table files that the MANIFEST names.
    pub live: Files,
    /// The table files that are here.
    pub local: Files,
    /// `ATOLL_FILES`: the table files whose objects are known.
    pub known: Files,
}

impl Disk {
    /// The last transaction; 0: none.
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

    /// A flush: RocksDB switches to a new WAL, and writes what the family has into table file `number`.
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

    /// RocksDB may delete the WALs of this many transactions: both families have flushed them.
    pub fn deletable_wal(&self) -> u8 {
        self.flushed_a.min(self.flushed_b)
    }

    /// The WAL loses its end: what was in no table file is gone.
    pub fn cut_wal(&mut self) {
        self.line.truncate(usize::from(self.flushed_a.max(self.flushed_b).max(self.wal_from)));
        self.wal_switch = self.wal_switch.min(self.len());
    }
}
