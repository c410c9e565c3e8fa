//! The keep-set: decides which objects of the bucket are needed, from what the newest root names.
//!
//! Needed are: the objects that a restore of the newest root reads; the older roots that are kept, and the
//! parts of their file maps; objects that the next root will name (files of RocksDB, a MANIFEST, merged WAL,
//! parts of the map); all objects of later epochs; and the protocol's own records. A program that reads an
//! older root must end within the grace time, because this root's objects are not kept longer.

use crate::protocol::format::names::{self, ManifestCopy};
use crate::protocol::format::records::{FENCE_BYTES, Root};
use crate::protocol::wal::wal_record::WalRun;
use std::cmp::Ordering;
use std::collections::HashSet;
use std::ops::Range;

/// Prefixes whose objects always count as needed in this file: hints, tombs, pins, names of snapshots,
/// horizons, settings, hand-overs. Other code deletes these objects when their time has come.
const PLAIN_DIRS: [&str; 7] = [
    "hint/",
    "tomb/",
    names::PIN_DIR,
    names::SNAPSHOT_DIR,
    names::HORIZON_DIR,
    names::SETTINGS_DIR,
    names::HANDOVER_DIR,
];

/// Whether an object is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// A restore or the protocol itself needs it, or an owner may still need it.
    Needed,
    Unneeded,
    /// Its name is not of the protocol, so another program has put it there.
    Foreign,
}

/// What the newest root needs besides table files.
#[derive(Debug, Clone, Default)]
pub(crate) struct Needs {
    epoch: u64,
    manifest: ManifestCopy,
    /// The first log chunk that a restore reads as an object of its own.
    wal_loose_first: u64,
    /// Merged objects that the root names, or that a later root will name.
    runs: Vec<WalRun>,
    /// Roots in slots below this one are not needed any more.
    roots_floor: u64,
    /// Parts of file maps that kept roots name. Parts from number `parts_end` on may have been uploaded
    /// for the next root, so they are needed, too.
    parts: HashSet<u64>,
    parts_end: u64,
    /// True: the objects that former epochs left may be deleted, because RocksDB has replayed the bucket's
    /// WAL (GC-6).
    pub(crate) is_former_superfluous: bool,
}

impl Needs {
    /// Returns what `root` needs; roots below `roots_floor` are not kept. All objects of former epochs count
    /// as needed until `is_former_superfluous` is set.
    pub(crate) fn of_root(root: &Root, roots_floor: u64) -> Self {
        Self {
            epoch: root.id.epoch,
            manifest: root.manifest,
            wal_loose_first: root.wal_loose_first(),
            runs: root.wal_runs.clone(),
            roots_floor,
            parts: root.map_parts().collect(),
            parts_end: root.map_parts().map(|part| part + 1).max().unwrap_or(0),
            is_former_superfluous: false,
        }
    }

    /// Returns the needs of a database without a root. No record is known to be unneeded there, so all count
    /// as needed.
    pub(crate) fn nothing() -> Self {
        Self::default()
    }

    /// Adds merged objects that the next root may name.
    pub(crate) fn add_runs(&mut self, runs: impl IntoIterator<Item = WalRun>) {
        self.runs.extend(runs);
    }

    /// Adds parts of the file map that kept roots name. `end`: no root names a part with this number or a
    /// higher one.
    pub(crate) fn add_parts(&mut self, parts: impl IntoIterator<Item = u64>, end: u64) {
        self.parts.extend(parts);
        self.parts_end = self.parts_end.max(end);
    }

    /// Returns the places of the log chunks that are not needed: epoch and number of each. use_of() says the
    /// same of their keys.
    pub(crate) fn unneeded_chunks(&self) -> Range<(u64, u64)> {
        let oldest = if self.is_former_superfluous { 0 } else { self.epoch };
        (oldest, 0)..(self.epoch, self.wal_loose_first)
    }

    /// Returns whether the object `key` of `size` bytes is needed. `needs_file` decides about table files.
    /// While objects of former epochs must not be deleted (GC-6), their table files count as needed, and
    /// `needs_file` is not called for them.
    ///
    /// Without a size, a fence is not recognized as one. So callers leave the size out only for keys that
    /// they judged with their size before.
    pub(crate) fn use_of(&self, key: &str, size: Option<u64>, needs_file: impl Fn(&str) -> bool) -> Use {
        if is_plain(key) {
            return Use::Needed;
        }
        let Some(record) = Record::parse(key) else { return Use::Foreign };
        let is_needed = match (&record, record.epoch().cmp(&self.epoch)) {
            (_, Ordering::Less) if !self.is_former_superfluous => true,
            (Record::File(_), _) => needs_file(key),
            (_, Ordering::Greater) => true,
            (_, Ordering::Equal) => self.needs_own(&record),
            (_, Ordering::Less) => record.stays_for_ever(size),
        };
        if is_needed { Use::Needed } else { Use::Unneeded }
    }

    /// Whether a record of this root's epoch is needed. A MANIFEST or a copy of it with a higher number than
    /// the root's is needed, because it was uploaded for the next root.
    fn needs_own(&self, record: &Record) -> bool {
        match *record {
            Record::File(_) => true,
            Record::Manifest(_, m) => (m.number, m.copy) >= (self.manifest.number, self.manifest.copy),
            Record::Run(_, first, end) => {
                end > self.wal_loose_first || self.runs.iter().any(|run| (run.first, run.end) == (first, end))
            }
            Record::Root(_, slot) => slot == 0 || slot >= self.roots_floor,
            Record::Chunk(_, chunk) => chunk >= self.wal_loose_first,
            Record::Part(_, part) => part >= self.parts_end || self.parts.contains(&part),
        }
    }
}

/// Whether `key` is a name of the protocol. False: another program has put the object there, and the collector
/// leaves it alone (GC-3).
pub(crate) fn is_of_protocol(key: &str) -> bool {
    is_plain(key) || Record::parse(key).is_some()
}

/// Whether `key` is the name of a record that always counts as needed in this file.
fn is_plain(key: &str) -> bool {
    key == names::DB || names::parse_epoch(key).is_some() || PLAIN_DIRS.iter().any(|dir| key.starts_with(dir))
}

/// Returns the epoch in the name of a table file, a root, or a piece of a MANIFEST, a WAL or a file map.
/// None: `key` is any other name, also the name of a claim, a tomb or a horizon.
pub(crate) fn epoch_of(key: &str) -> Option<u64> {
    Record::parse(key).map(|record| record.epoch())
}

/// An object of which the epoch and the numbers in its name decide whether it is needed.
enum Record {
    File(u64),
    Manifest(u64, ManifestCopy),
    Run(u64, u64, u64),
    Root(u64, u64),
    Chunk(u64, u64),
    Part(u64, u64),
}

impl Record {
    fn parse(key: &str) -> Option<Self> {
        let file = names::parse_file_epoch(key).map(Self::File);
        file.or_else(|| {
            names::parse_manifest_chunk(key).map(|(epoch, manifest, _)| Self::Manifest(epoch, manifest))
        })
        .or_else(|| names::parse_merged_chunks(key).map(|(epoch, first, end)| Self::Run(epoch, first, end)))
        .or_else(|| names::parse_slot(names::ROOT_DIR, key).map(|(epoch, slot)| Self::Root(epoch, slot)))
        .or_else(|| names::parse_slot(names::WAL_DIR, key).map(|(epoch, chunk)| Self::Chunk(epoch, chunk)))
        .or_else(|| names::parse_slot(names::MAP_DIR, key).map(|(epoch, part)| Self::Part(epoch, part)))
    }

    fn epoch(&self) -> u64 {
        match *self {
            Self::File(epoch)
            | Self::Manifest(epoch, _)
            | Self::Run(epoch, _, _)
            | Self::Root(epoch, _)
            | Self::Chunk(epoch, _)
            | Self::Part(epoch, _) => epoch,
        }
    }

    /// Whether a record of a former epoch is never deleted. This holds for root slot 0, which is a claim or a
    /// fence, and for a root or chunk that has the size of a fence, because it may be a fence.
    fn stays_for_ever(&self, size: Option<u64>) -> bool {
        let may_be_fence = size == Some(FENCE_BYTES);
        match *self {
            Self::Root(_, slot) => slot == 0 || may_be_fence,
            Self::Chunk(_, _) => may_be_fence,
            _ => false,
        }
    }
}

#[cfg(test)]
#[path = "keep_test.rs"]
mod tests;
