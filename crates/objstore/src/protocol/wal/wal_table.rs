//! The WAL table: which WAL bytes exist, are durable, have been cut into chunks and have arrived. Pure state,
//! no I/O.
//!
//! The stream of an epoch is the WALs in ascending number, each from its first byte to its last. Chunks cut
//! the stream into pieces without reordering. RocksDB appends to one WAL at a time, and to no older WAL once
//! the newest has bytes.
//!
//! STREAM-1: chunk k is cut after chunk k-1. It begins with the next byte, or with the byte after a *skip*,
//!           whose bytes are never shipped.
//! STREAM-2: bytes after a skip (a WAL that was deleted before all of it was cut) and bytes after a MANIFEST
//!           edit carry a DDL number that only later roots have. So no restore replays them over a root that
//!           lacks what they build on (PUB-G8). Bytes before the skip or edit keep the smaller number, even
//!           when they are cut later, so that they can be replayed over a root that needs them (PUB-G2).
//! STREAM-3: `shipped` is the end of the contiguous prefix of arrived chunks; a missing chunk holds it back.
//! Lock rule: owned by `State`, under its mutex.

use crate::protocol::wal::wal_runs::{Merge, MergeLimits, RunTable};
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::sync::Arc;
use tokio::time::Instant;

/// One WAL file: how many of its bytes are appended, durable and cut, and what RocksDB has done with it.
#[derive(Debug, Default)]
struct Wal {
    /// Position of its first byte; set when the first byte is appended.
    base: Option<u64>,
    appended_bytes: u64,
    synced_bytes: u64,
    cut_bytes: u64,
    /// Only for a WAL of a former process: after this many bytes it had only zeros, see [`Cut::solid_bytes`].
    solid_bytes: Option<u64>,
    closed: bool,
    deleted: bool,
    /// A root that is being published needs all of this WAL, even if RocksDB deletes it meanwhile.
    gated: bool,
    /// Kept open from the first cut or gate, so that a deletion cannot take the bytes away.
    file: Option<Arc<File>>,
}

/// A piece of the stream that has been cut and is not covered yet.
#[derive(Debug)]
struct Piece {
    /// The number of the chunk; None for a skip (STREAM-1), whose bytes are never shipped.
    chunk: Option<u64>,
    end: u64,
    ddl_seq: u64,
    arrived: bool,
}

/// The next bytes to cut, for the shipper to read from the file.
#[derive(Debug, Clone)]
pub(crate) struct Cut {
    pub(crate) log: u64,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) file: Option<Arc<File>>,
    /// The bytes are needed but not durable yet, so the file must be synced before they are read.
    pub(crate) needs_sync: bool,
    /// The file must have at least this many bytes. In a WAL of a former process, only zeros follow them,
    /// which that process wrote in advance; RocksDB cuts them off while it opens, or leaves them.
    pub(crate) solid_bytes: u64,
}

/// A chunk that can be sent, because its number and its place in the stream are decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) chunk: u64,
    pub(crate) ddl_seq: u64,
    pub(crate) previous_crc32c: u32,
}

/// The WALs of this process and the chunks of this epoch.
#[derive(Debug, Default)]
pub(crate) struct WalTable {
    wals: BTreeMap<u64, Wal>,
    newest: Option<u64>,
    position: u64,
    next_chunk: u64,
    last_crc32c: u32,
    pieces: VecDeque<Piece>,
    shipped: u64,
    /// The number of the first chunk after the contiguous prefix of arrived chunks (STREAM-3).
    arrived_end: u64,
    /// Which chunks are merged, and which are still objects of their own.
    pub(crate) runs: RunTable,
    /// The first chunk of each WAL that a root may still need.
    first_chunks: BTreeMap<u64, u64>,
    /// (p, n): bytes after position p need DDL number n.
    ddl_marks: Vec<(u64, u64)>,
    /// The DDL number of everything cut so far.
    ddl_cut: u64,
    /// Which position the stream had reached at which time. This tells the age of a byte without reading the
    /// clock at each append.
    marks: VecDeque<(u64, Instant)>,
}

/// The most marks that are kept. Above that, every other mark is dropped, so that ages are less exact, but a
/// byte never seems younger than it is.
const MARKS_MAX: usize = 4096;

/// The lowest DDL mark above `position`; u64::MAX when there is none. A chunk never contains bytes on both
/// sides of a mark. Otherwise the bytes before the mark, which a root that is made now may need (PUB-G2),
/// would get the higher DDL number of the bytes after it.
fn next_mark(marks: &[(u64, u64)], position: u64) -> u64 {
    marks.iter().map(|(mark, _)| *mark).filter(|mark| *mark > position).min().unwrap_or(u64::MAX)
}

impl WalTable {
    /// The table of a new epoch. All its bytes need DDL number 1, which only a root of the epoch has.
    pub(crate) fn new() -> Self {
        Self { ddl_cut: 1, ..Self::default() }
    }

    /// Adds a WAL that was found at open: it is complete and durable.
    pub(crate) fn add_existing(&mut self, number: u64, length: u64) {
        self.created(number);
        self.appended(number, length);
        let wal = self.wals.entry(number).or_default();
        (wal.synced_bytes, wal.closed) = (length, true);
    }

    /// Notes that a WAL found at open has only zeros after its first `bytes`.
    pub(crate) fn set_solid(&mut self, number: u64, bytes: u64) {
        self.wals.entry(number).or_default().solid_bytes = Some(bytes);
    }

    pub(crate) fn created(&mut self, number: u64) {
        self.wals.entry(number).or_default();
        self.newest = self.newest.max(Some(number));
    }

    pub(crate) fn appended(&mut self, number: u64, length: u64) {
        self.newest = self.newest.max(Some(number));
        let before = self.wals.entry(number).or_default().appended_bytes;
        let grown = length.saturating_sub(before);
        if grown > 0 {
            self.position += grown;
            self.grow(number, grown, length);
        }
    }

    /// Returns the newest WAL and the position of its first byte. Only appends to this WAL are counted
    /// without the lock (lag.rs).
    pub(crate) fn active(&self) -> Option<(u64, u64)> {
        let newest = self.newest?;
        Some((newest, self.wals.get(&newest)?.base?))
    }

    /// Puts `grown` new bytes of WAL `number` into the stream: after the earlier bytes of this WAL, and
    /// before those of every later WAL.
    fn grow(&mut self, number: u64, grown: u64, length: u64) {
        let mut later: u64 = 0;
        for wal in self.wals.range_mut(number + 1..).map(|(_, wal)| wal) {
            wal.base = wal.base.map(|base| base + grown);
            later += wal.appended_bytes;
        }
        let end = self.position - later;
        if let Some(wal) = self.wals.get_mut(&number) {
            wal.base.get_or_insert(end - length);
            wal.appended_bytes = length;
        }
    }

    /// Takes over what the atomics of the commit path counted for the newest WAL. `synced`: the bytes before
    /// this position are durable. It was read before `position`, so that it is not larger.
    pub(crate) fn catch_up(&mut self, synced: u64, position: u64) {
        if let Some((number, base)) = self.active() {
            self.appended(number, position.saturating_sub(base));
            if synced > base {
                self.synced(number, synced - base);
            }
        }
    }

    pub(crate) fn synced(&mut self, number: u64, length: u64) {
        self.appended(number, length);
        if let Some(wal) = self.wals.get_mut(&number) {
            wal.synced_bytes = wal.synced_bytes.max(length);
        }
    }

    pub(crate) fn closed(&mut self, number: u64, length: u64) {
        self.appended(number, length);
        if let Some(wal) = self.wals.get_mut(&number) {
            wal.closed = true;
        }
    }

    /// Notes that RocksDB no longer needs the WAL. Returns Some(p) when its bytes after position p will never
    /// be shipped, see [`Self::ddl_noted`] and STREAM-2.
    pub(crate) fn deleted(&mut self, number: u64) -> Option<u64> {
        let wal = self.wals.get_mut(&number)?;
        let first_time = !std::mem::replace(&mut wal.deleted, true);
        wal.lost_from().filter(|_| first_time)
    }

    /// Notes that bytes after `position` need DDL number `ddl`.
    pub(crate) fn ddl_noted(&mut self, position: u64, ddl: u64) {
        self.ddl_marks.push((position, ddl));
    }

    /// The DDL number of a piece that ends at `end`; pieces come in ascending order.
    fn ddl_of(&mut self, end: u64) -> u64 {
        for (_, ddl) in self.ddl_marks.iter().filter(|(position, _)| *position < end) {
            self.ddl_cut = self.ddl_cut.max(*ddl);
        }
        self.ddl_marks.retain(|(position, _)| *position >= end);
        self.ddl_cut
    }

    /// Gate PUB-G2, which lets a root wait for the WAL that a restore of it needs. Keeps open the file of
    /// every WAL that grows no more and has bytes in no chunk, so that a deletion cannot take the bytes away;
    /// `open` opens it. Returns the position to wait for, and the WALs whose file is already gone.
    pub(crate) fn gate(&mut self, open: impl Fn(u64) -> Option<Arc<File>>) -> (u64, Vec<u64>) {
        let (mut end, mut gone) = (0, Vec::new());
        let bound = self.gate_end();
        for (number, wal) in self.wals.range_mut(..bound) {
            let Some(base) = wal.base else { continue };
            if !wal.deleted && wal.cut_bytes < wal.appended_bytes {
                wal.file = wal.file.take().or_else(|| open(*number));
                wal.gated = wal.file.is_some();
                if !wal.gated {
                    gone.push(*number);
                    continue;
                }
            }
            if !wal.deleted || wal.gated {
                end = base + wal.appended_bytes;
            }
        }
        (end, gone)
    }

    /// Bytes that [`Self::gate`] would wait for and that are in no chunk yet.
    pub(crate) fn uncut_below_newest(&self) -> u64 {
        let needed = self.wals.range(..self.gate_end()).filter(|(_, wal)| !wal.deleted || wal.gated);
        needed.map(|(_, wal)| wal.appended_bytes.saturating_sub(wal.cut_bytes)).sum()
    }

    /// Holds the newest WAL's file open, so that the WAL can be shipped even when RocksDB deletes it before.
    pub(crate) fn hold(&mut self, open: impl Fn(u64) -> Option<Arc<File>>) {
        let Some((number, wal)) = self.wals.last_entry().map(|entry| (*entry.key(), entry.into_mut())) else {
            return;
        };
        if !wal.deleted {
            wal.file = wal.file.take().or_else(|| open(number));
            wal.gated = wal.file.is_some();
        }
    }

    /// The next bytes to cut, in stream order, up to position `until`; None when there are none.
    ///
    /// Bytes that are not durable are cut only up to position `wanted`, for which a thread waits, and in WALs
    /// that grow no more; the cut then has `needs_sync`.
    pub(crate) fn next_cut(&mut self, until: u64, wanted: u64, bytes_max: u64) -> Option<Cut> {
        loop {
            let (number, wal) = self.wals.iter_mut().find(|(_, wal)| !wal.is_cut())?;
            let (number, base) = (*number, wal.base?);
            if wal.is_lost() {
                let end = base + wal.appended_bytes;
                wal.cut_bytes = wal.appended_bytes;
                let ddl_seq = self.ddl_of(end);
                self.push(Piece { chunk: None, end, ddl_seq, arrived: true });
                continue;
            }
            let grows = self.newest == Some(number) && !wal.closed;
            let may_sync = !grows || wanted > base + wal.synced_bytes;
            let durable = if may_sync { wal.appended_bytes } else { wal.synced_bytes };
            let end = durable.min(until.max(wanted).saturating_sub(base));
            let end = end.min(next_mark(&self.ddl_marks, base + wal.cut_bytes) - base);
            if end <= wal.cut_bytes {
                return None;
            }
            let length = (end - wal.cut_bytes).min(bytes_max);
            let needs_sync = wal.cut_bytes + length > wal.synced_bytes;
            return Some(Cut {
                log: number,
                offset: wal.cut_bytes,
                length,
                file: wal.file.clone(),
                needs_sync,
                solid_bytes: wal.solid_bytes.unwrap_or(wal.appended_bytes),
            });
        }
    }

    /// Bytes that were appended to WALs and have not been cut into a chunk. Lost WALs do not count.
    pub(crate) fn uncut_bytes(&self) -> u64 {
        self.wals.values().filter(|wal| !wal.is_lost()).map(|wal| wal.appended_bytes - wal.cut_bytes).sum()
    }

    /// Remembers the open file of a WAL, so that its bytes stay readable.
    pub(crate) fn set_file(&mut self, number: u64, file: &Arc<File>) {
        if let Some(wal) = self.wals.get_mut(&number) {
            wal.file = Some(file.clone());
        }
    }

    /// Notes that a WAL's file is gone, before RocksDB has reported its deletion. Returns what
    /// [`Self::deleted`] returns.
    pub(crate) fn vanished(&mut self, number: u64) -> Option<u64> {
        let wal = self.wals.get_mut(&number)?;
        (wal.gated, wal.file) = (false, None);
        self.deleted(number)
    }

    /// Gives the cut its place in the stream; None when the WAL was given up meanwhile.
    pub(crate) fn place(&mut self, cut: &Cut) -> Option<Placed> {
        let wal = self.wals.get_mut(&cut.log)?;
        if wal.is_lost() || wal.cut_bytes != cut.offset {
            return None;
        }
        wal.cut_bytes += cut.length;
        wal.synced_bytes = wal.synced_bytes.max(wal.cut_bytes);
        let end = wal.base? + wal.cut_bytes;
        if wal.cut_bytes == wal.appended_bytes && wal.deleted {
            wal.file = None;
        }
        let ddl_seq = self.ddl_of(end);
        let chunk = self.next_chunk;
        self.next_chunk += 1;
        self.first_chunks.entry(cut.log).or_insert(chunk);
        self.runs.chunk_cut(cut.length);
        self.push(Piece { chunk: Some(chunk), end, ddl_seq, arrived: false });
        Some(Placed { chunk, ddl_seq, previous_crc32c: self.last_crc32c })
    }

    /// Sets the checksum of the chunk placed last; the next chunk carries it.
    pub(crate) fn set_last_crc32c(&mut self, crc32c: u32) {
        self.last_crc32c = crc32c;
    }

    fn push(&mut self, piece: Piece) {
        self.pieces.push_back(piece);
        self.move_shipped();
    }

    /// Notes that chunk `chunk` is in the bucket.
    pub(crate) fn arrived(&mut self, chunk: u64) {
        if let Some(piece) = self.pieces.iter_mut().find(|piece| piece.chunk == Some(chunk)) {
            piece.arrived = true;
        }
        self.move_shipped();
    }

    fn move_shipped(&mut self) {
        for piece in self.pieces.iter().take_while(|piece| piece.arrived) {
            self.shipped = self.shipped.max(piece.end);
            self.arrived_end = self.arrived_end.max(piece.chunk.map_or(0, |chunk| chunk + 1));
        }
    }

    /// The chunks to merge next, of those in the contiguous prefix (STREAM-3).
    pub(crate) fn plan_merge(&self, limits: &MergeLimits) -> Option<Merge> {
        self.runs.plan(limits, self.arrived_end)
    }

    /// End of the contiguous prefix of arrived chunks (STREAM-3).
    pub(crate) fn shipped(&self) -> u64 {
        self.shipped
    }

    /// Forgets the chunks that have arrived and whose DDL number is at most `ddl_published`: a published root
    /// has all MANIFEST edits on which they depend. Returns the end of the last of them; None: there was
    /// none.
    pub(crate) fn cover(&mut self, ddl_published: u64) -> Option<u64> {
        let mut covered = None;
        while let Some(piece) = self.pieces.front().filter(|p| p.arrived && p.ddl_seq <= ddl_published) {
            covered = Some(piece.end);
            self.pieces.pop_front();
        }
        self.forget_deleted();
        covered
    }

    /// Notes that the stream has come to its present position by `now`; the shipper calls this at every turn.
    pub(crate) fn mark(&mut self, now: Instant) {
        if self.marks.back().is_some_and(|(position, _)| *position == self.position) {
            // Nothing was appended since that mark, so all later bytes are younger than `now`.
            self.marks.pop_back();
        }
        self.marks.push_back((self.position, now));
        if self.marks.len() > MARKS_MAX {
            let mut index = 0;
            self.marks.retain(|_| {
                index += 1;
                index % 2 == 1
            });
        }
    }

    /// A time before which no byte after `position` was appended; None when no mark is that old.
    pub(crate) fn appended_after(&mut self, position: u64) -> Option<Instant> {
        while self.marks.get(1).is_some_and(|(next, _)| *next <= position) {
            self.marks.pop_front();
        }
        self.marks.front().filter(|(mark, _)| *mark <= position).map(|(_, time)| *time)
    }

    /// Forgets the WALs that are deleted and completely cut, but never the newest WAL.
    fn forget_deleted(&mut self) {
        let newest = self.newest;
        self.wals.retain(|number, wal| !(wal.deleted && wal.is_cut()) || Some(*number) == newest);
    }

    /// The lowest number of a WAL that RocksDB still has.
    pub(crate) fn min_live(&self) -> u64 {
        let live = self.wals.iter().find(|(_, wal)| !wal.deleted).map(|(number, _)| *number);
        live.or(self.newest.map(|newest| newest + 1)).unwrap_or(0)
    }

    /// The first chunk that holds bytes of WAL `log` or a later one.
    pub(crate) fn first_chunk_from(&self, log: u64) -> u64 {
        self.first_chunks.range(log..).next().map_or(self.next_chunk, |(_, chunk)| *chunk)
    }

    /// Forgets the first chunks of WALs below `log`, which a published root no longer needs.
    pub(crate) fn trimmed_below(&mut self, log: u64) {
        self.first_chunks = self.first_chunks.split_off(&log);
    }

    /// Returns the number below which RocksDB appends to no WAL: the number of the newest WAL, or one more
    /// when that one is closed.
    pub(crate) fn gate_end(&self) -> u64 {
        let Some(newest) = self.newest else { return 0 };
        newest + u64::from(self.wals.get(&newest).is_some_and(|wal| wal.closed))
    }

    /// The number of bytes of all WALs: the position after the newest byte.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }
}

impl Wal {
    fn is_cut(&self) -> bool {
        self.cut_bytes >= self.appended_bytes
    }

    /// Whether the WAL is deleted and not held for a publish, so that its remaining bytes are never shipped.
    fn is_lost(&self) -> bool {
        self.deleted && !(self.gated && self.file.is_some())
    }

    /// The position after which the WAL's bytes will never be shipped; None when all can be.
    fn lost_from(&self) -> Option<u64> {
        (self.is_lost() && !self.is_cut()).then_some(self.base? + self.cut_bytes)
    }
}
