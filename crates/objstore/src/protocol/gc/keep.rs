//! The keep-set: which objects of the bucket are needed, seen from one root.
//!
//! Needed are: what a restore of the newest root reads; the roots kept behind it and the parts of their file maps;
//! what is on its way to the next root (files of RocksDB, a MANIFEST, merged WAL, parts of the map); everything of later epochs; and the
//! protocol's own records. A reader that works from an older root has the grace time.

use crate::protocol::format::names::{self, ManifestCopy};
use crate::protocol::format::records::{FENCE_BYTES, Root};
use crate::protocol::wal::wal_record::WalRun;
use std::cmp::Ordering;
use std::collections::HashSet;

/// Prefixes whose objects have no numbers to check: hints, tombs, pins, snapshots, horizons.
const PLAIN_DIRS: [&str; 5] = ["hint/", "tomb/", names::PIN_DIR, names::SNAPSHOT_DIR, names::HORIZON_DIR];

/// Whom an object serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// A restore or the protocol itself needs it, or an owner may still need it.
    Needed,
    Unneeded,
    /// It has no name of the protocol: somebody else has put it there.
    Foreign,
}

/// What the newest root needs besides table files.
#[derive(Debug, Clone, Default)]
pub(crate) struct Needs {
    epoch: u64,
    manifest: ManifestCopy,
    /// The first chunk that is read as an object of its own.
    wal_loose_first: u64,
    /// Merged objects that the root names, or that a later root will name.
    runs: Vec<WalRun>,
    /// Roots below this slot are not kept.
    roots_floor: u64,
    /// Parts of file maps that kept roots name. Parts from `parts_end` on may be on their way.
    parts: HashSet<u64>,
    parts_end: u64,
    /// Whether what former epochs left may be deleted (GC-6).
    pub(crate) is_former_superfluous: bool,
}

impl Needs {
    /// What `root` needs; roots below `roots_floor` are not kept. Nothing of former epochs is unneeded until
    /// `is_former_superfluous` is set.
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

    /// A database without a root: all its records may be needed.
    pub(crate) fn nothing() -> Self {
        Self::default()
    }

    /// Adds merged objects that the next root may name.
    pub(crate) fn add_runs(&mut self, runs: impl IntoIterator<Item = WalRun>) {
        self.runs.extend(runs);
    }

    /// Adds parts of the file map that kept roots name; no root names one from `end` on.
    pub(crate) fn add_parts(&mut self, parts: impl IntoIterator<Item = u64>, end: u64) {
        self.parts.extend(parts);
        self.parts_end = self.parts_end.max(end);
    }

    /// Whom the object `key` of `size` bytes serves. `needs_file` decides about table files, but not about
    /// those of former epochs while they may not be deleted.
    ///
    /// Without a size, an object that may be a fence is not recognized as one. So the size is left out only
    /// for keys that were judged with their size before.
    pub(crate) fn use_of(&self, key: &str, size: Option<u64>, needs_file: impl Fn(&str) -> bool) -> Use {
        let is_protocols = key == names::DB
            || names::parse_epoch(key).is_some()
            || PLAIN_DIRS.iter().any(|dir| key.starts_with(dir));
        if is_protocols {
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

    /// Whether a record of this root's epoch is needed. MANIFESTs and their copies are numbered upwards, so one above the
    /// root's is on its way.
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

/// The epoch in which the numbered object `key` was made; None for every other name.
pub(crate) fn epoch_of(key: &str) -> Option<u64> {
    Record::parse(key).map(|record| record.epoch())
}

/// A numbered object.
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

    /// Whether a record of a former epoch is never deleted: slot 0 is a claim or a fence, and what has a
    /// fence's size may be one.
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
