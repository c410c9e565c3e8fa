//! The process that owns the database: its commits, its table files, and the WAL that it ships to the bucket.
//!
//! It models `store.rs`, `wal_table.rs`, `shipper.rs`, `lag.rs` and `files/` of objstore.

use crate::Gates;
use crate::bucket::{Bucket, Commit, Files, Request, WalSlot};
use crate::disk::Disk;
use crate::publish::Publish;

/// A transaction in the WAL that is in no chunk yet (`wal_table.rs`, whose `ddl_marks` give its DDL number).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Uncut {
    /// The index of the transaction in `line` of the local directory.
    pub place: u8,
    /// The transaction.
    pub commit: Commit,
    /// The DDL number its chunk will carry.
    pub ddl: u8,
    /// True: RocksDB deleted the WAL before the transaction was put into a chunk, so it is never shipped.
    pub is_lost: bool,
}

/// A transaction that was put into a chunk, or skipped, and is not covered yet (`wal_table.rs`, `Piece`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Piece {
    /// The index of the transaction in `line` of the local directory.
    pub place: u8,
    /// The transaction.
    pub commit: Commit,
    /// The DDL number of its chunk.
    pub ddl: u8,
    /// The chunk; None: the transaction was skipped and never shipped.
    pub chunk: Option<u8>,
    /// True: the owner knows that the chunk is in the bucket, or the transaction was skipped.
    pub has_arrived: bool,
}

/// The memory of an owner process, which is lost when the process dies.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Owner {
    /// The epoch in which this process is the owner.
    pub epoch: u8,
    /// The slot of the owner's newest root; 0: none.
    pub slot: u8,
    /// The DDL number: how many creations of families and skips of WAL the owner has seen. The first root
    /// counts as one.
    pub ddl_noted: u8,
    /// The DDL number of the newest root; 0: the owner has published no root yet.
    pub ddl_published: u8,
    /// The number of transactions that must be shipped before the next root, because a family was dropped
    /// after them (PUB-G7). 0: no family was dropped.
    pub drop_noted: u8,
    /// The transactions that are in no chunk yet.
    pub uncut: Vec<Uncut>,
    /// The transactions that were put into chunks, or skipped, and are not covered yet.
    pub pieces: Vec<Piece>,
    /// For each chunk of this epoch, the `place` of its transaction.
    pub chunks: Vec<u8>,
    /// Transactions with a lower `place` than this can still be shipped after RocksDB has deleted their WAL,
    /// because a publish keeps the WAL readable (`wal_table.rs`, `gated`).
    pub held: u8,
    /// Table files of which the owner knows that they are in the bucket.
    pub uploaded: Files,
    /// All table files that the MANIFEST has named at some time since this process became the owner.
    pub seen: Files,
    /// Table files that the newest root names.
    pub published: Files,
    /// The root that the owner is publishing; None: it is publishing no root.
    pub publish: Option<Publish>,
}

impl Owner {
    /// A new owner of the directory `disk`. Models `add_existing_wals` and `Files::install`.
    pub fn new(epoch: u8, disk: &Disk, known: Files) -> Self {
        let places = disk.wal_from..disk.len();
        let uncut = places.map(|place| Uncut {
            place,
            commit: disk.line[usize::from(place)],
            ddl: 1,
            is_lost: false,
        });
        Self {
            epoch,
            slot: 0,
            ddl_noted: 1,
            ddl_published: 0,
            drop_noted: 0,
            uncut: uncut.collect(),
            pieces: Vec::new(),
            chunks: Vec::new(),
            held: 0,
            uploaded: known,
            seen: disk.live,
            published: 0,
            publish: None,
        }
    }

    /// Models `Store::wal_appended` for the last transaction of `disk`.
    pub fn appended(&mut self, disk: &Disk) {
        self.uncut.push(Uncut {
            place: disk.len() - 1,
            commit: disk.last(),
            ddl: self.ddl_noted,
            is_lost: false,
        });
    }

    /// Models `Store::wal_deleted`: transactions of the deleted WAL that are in no chunk yet are skipped
    /// (never shipped), except those that are kept for a publish. STREAM-2 demands that all later
    /// transactions get a higher DDL number, so that no restore replays them over a root that lacks the
    /// skipped ones.
    pub fn wal_deleted(&mut self, below: u8, gates: &Gates) {
        let held = self.held;
        let is_lost = |uncut: &Uncut| uncut.place < below && uncut.place >= held;
        let is_news = |uncut: &Uncut| is_lost(uncut) && !uncut.is_lost;
        let Some(first) = self.uncut.iter().position(is_news) else { return };
        if gates.skip_is_edit {
            self.ddl_noted += 1;
        }
        for uncut in &mut self.uncut[first..] {
            uncut.is_lost |= is_lost(uncut);
            uncut.ddl = self.ddl_noted;
        }
        self.pass_skips();
    }

    /// Models `next_cut`, which skips transactions whose WAL was deleted.
    fn pass_skips(&mut self) {
        while self.uncut.first().is_some_and(|uncut| uncut.is_lost) {
            let Uncut { place, commit, ddl, .. } = self.uncut.remove(0);
            self.pieces.push(Piece { place, commit, ddl, chunk: None, has_arrived: true });
        }
    }

    /// Models `cut_next` and `send` of `shipper.rs`: the next transaction becomes a chunk.
    pub fn cut(&mut self) -> Request {
        let Uncut { place, commit, ddl, .. } = self.uncut.remove(0);
        let chunk = self.chunks.len() as u8;
        self.chunks.push(place);
        self.pieces.push(Piece { place, commit, ddl, chunk: Some(chunk), has_arrived: false });
        self.pass_skips();
        Request::Wal(self.epoch, chunk, WalSlot::Chunk(commit, ddl))
    }

    /// Models `send` of `shipper.rs`: reads the slot of a chunk in flight. None: the chunk is not there yet.
    /// Some(false): the slot holds a fence.
    pub fn resolve_chunk(&mut self, bucket: &Bucket, chunk: u8) -> Option<bool> {
        match bucket.wal(self.epoch, chunk)? {
            WalSlot::Fence => Some(false),
            WalSlot::Chunk(..) => {
                let piece = self.pieces.iter_mut().find(|piece| piece.chunk == Some(chunk));
                piece?.has_arrived = true;
                Some(true)
            }
        }
    }

    /// Models `WalTable::shipped`: the `place` of the first transaction that is not known to be in the bucket
    /// and was not skipped. A missing chunk holds it back, even if later chunks have arrived (STREAM-3).
    /// `u8::MAX`: no transaction is missing.
    pub fn shipped(&self) -> u8 {
        let missing = self.pieces.iter().find(|piece| !piece.has_arrived).map(|piece| piece.place);
        missing.or(self.uncut.first().map(|uncut| uncut.place)).unwrap_or(u8::MAX)
    }

    /// Models `Shared::cover`: returns the transactions that count as covered from now on.
    pub fn cover(&mut self, gates: &Gates) -> Vec<Commit> {
        let mut covered = Vec::new();
        let published = self.ddl_published;
        let is_behind_root = |ddl: u8| match ddl {
            1 if !gates.root_before_cover => true,
            1 => published >= 1,
            ddl => published >= ddl || (!gates.edit_before_cover && published >= 1),
        };
        let mut has_hole = false;
        self.pieces.retain(|piece| {
            let is_covered = piece.has_arrived && is_behind_root(piece.ddl);
            if is_covered && !(has_hole && gates.contiguous_prefix) {
                covered.push(piece.commit);
                return false;
            }
            has_hole = true;
            true
        });
        covered
    }

    /// Models `WalTable::first_chunk_from`: the first chunk whose transaction has this `place` or a higher
    /// one.
    pub fn first_chunk_from(&self, place: u8) -> u8 {
        self.chunks.iter().position(|of| *of >= place).unwrap_or(self.chunks.len()) as u8
    }
}
