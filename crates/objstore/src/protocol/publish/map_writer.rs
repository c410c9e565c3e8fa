//! The file map as the publisher writes it: parts, and the changes since the parts were made.
//!
//! The root holds a small map as a whole. A large map is cut into parts by file number: a root names the
//! parts and holds the changes, which are the files that differ from the parts. When the changes take more
//! than 10 KiB, the part with most changes is made anew. RocksDB numbers files upwards, so that is mostly the
//! last part. So a publish sends the changes and sometimes one part, and looks at no other entries.
//!
//! ```text
//! parts   [1..4999] [5002..9876] .. [77000..81003]      each an object, never changed
//! root    + 81004, 81007, 81010   - 5002, 80011         until they are 10 KiB
//! ```
//!
//! MAP-1: the parts and the changes together always make up `files`.
//! MAP-2: the content of a part never changes, and its number is used once.
//! MAP-3: the writer undoes nothing when a publish fails: the next publish enters the same files again
//!        (`Files::snapshot`), and parts that are not in the bucket yet stay in `unsent`.
//!
//! Pure: no I/O. Threads: owned by the publisher.

use crate::error::Result;
use crate::files::{FileChanges, FileRecord};
use crate::protocol::format::codec::Nonce;
use crate::protocol::publish::map_record::{FileMap, MapEntry, MapInParts, MapPart, PartRef, checksum};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Range;

/// About how many bytes a root needs for a file that is not in the parts, and for a file of the parts that is
/// gone or differs.
const ADDED_BYTES: usize = 16;
const REMOVED_BYTES: usize = 3;

/// The limits that decide when a map is cut into parts, and how large the parts are.
#[derive(Debug, Clone)]
pub(crate) struct MapLimits {
    /// A map of at most this many files is stored in the root as a whole: 256 entries take 16 KiB. A map in
    /// parts goes back into the root at half this number, so that a map of about this size is not cut again
    /// and again.
    pub(crate) small_files: usize,
    /// Files per part; more only when the map would have too many parts. 4096 entries have 45 to 53 KiB.
    pub(crate) part_files: usize,
    /// About how many bytes of a root the changes may take. Together with one new part, a publish then sends
    /// at most 63 KiB.
    pub(crate) changes_bytes: usize,
    /// The most parts of a map, all of which a restore reads: 40 parts, one root, 20 pieces of the MANIFEST
    /// and 89 objects of the WAL are 150 objects.
    pub(crate) parts_max: usize,
}

/// A part that is not in the bucket yet.
#[derive(Debug, Clone)]
pub(crate) struct NewPart {
    pub(crate) part: u64,
    pub(crate) bytes: Bytes,
    pub(crate) nonce: Nonce,
}

/// Builds the file map of the next root.
#[derive(Debug)]
pub(crate) struct MapWriter {
    epoch: u64,
    limits: MapLimits,
    files: FileMap,
    parts: Vec<PartRef>,
    /// The numbers of the files that differ from the parts; true: the parts have a file of that number.
    changes: BTreeMap<u64, bool>,
    unsent: Vec<NewPart>,
    next_part: u64,
    visited: u64,
}

impl MapWriter {
    /// An empty map of `epoch`.
    pub(crate) fn new(epoch: u64, limits: MapLimits) -> Self {
        let (files, changes) = Default::default();
        Self {
            epoch,
            limits,
            files,
            parts: Vec::new(),
            changes,
            unsent: Vec::new(),
            next_part: 0,
            visited: 0,
        }
    }

    /// All files of the map, also those that only the parts have.
    pub(crate) fn files(&self) -> &FileMap {
        &self.files
    }

    /// The new parts. The caller puts them into the bucket before a root names them. They are returned until
    /// [`Self::sent`] is called.
    pub(crate) fn unsent(&self) -> &[NewPart] {
        &self.unsent
    }

    /// Notes that all parts returned by [`Self::unsent`] are in the bucket.
    pub(crate) fn sent(&mut self) {
        self.unsent.clear();
    }

    /// The map as the next root and `ATOLL_FILES` hold it: all files of a small map, or parts and changes.
    pub(crate) fn content(&self) -> (Vec<MapEntry>, Option<MapInParts>) {
        if self.parts.is_empty() {
            return (map_entries(&self.files), None);
        }
        let added = self.changes.keys().filter_map(|number| Some((number, self.files.get(number)?)));
        let removed = self.changes.iter().filter(|(_, is_in_parts)| **is_in_parts).map(|(number, _)| *number);
        let map = MapInParts {
            epoch: self.epoch,
            files_count: self.files.len() as u64,
            parts: self.parts.clone(),
            removed: removed.collect(),
            added: map_entries(added),
        };
        (Vec::new(), Some(map))
    }

    /// How many entries were looked at since the last call.
    pub(crate) fn take_visited(&mut self) -> u64 {
        std::mem::take(&mut self.visited)
    }

    /// Enters `changes` and makes new parts where the limits require it. Returns true when the map has
    /// changed.
    ///
    /// Errors: the system gives no random bytes; the changes are not lost, see MAP-3.
    pub(crate) fn apply(&mut self, changes: FileChanges) -> Result<bool> {
        let mut is_other = false;
        for (number, file) in changes {
            is_other |= self.enter(number, file);
        }
        self.balance()?;
        Ok(is_other)
    }

    fn enter(&mut self, number: u64, file: Option<FileRecord>) -> bool {
        self.visited += 1;
        let before = match &file {
            Some(file) => self.files.insert(number, file.clone()),
            None => self.files.remove(&number),
        };
        if before == file {
            return false;
        }
        if !self.parts.is_empty() {
            let is_in_parts = *self.changes.entry(number).or_insert(before.is_some());
            if file.is_none() && !is_in_parts {
                self.changes.remove(&number);
            }
        }
        true
    }

    /// Cuts the map into parts, makes parts anew or puts all files back into the root, as the limits require.
    fn balance(&mut self) -> Result<()> {
        let small = self.limits.small_files;
        if self.files.len() <= if self.parts.is_empty() { small } else { small / 2 } {
            self.parts.clear();
            self.changes.clear();
        } else {
            self.keep_changes_few()?;
            self.keep_parts_few()?;
        }
        let parts = &self.parts;
        self.unsent.retain(|new| parts.iter().any(|part| part.part == new.part));
        Ok(())
    }

    fn keep_changes_few(&mut self) -> Result<()> {
        if self.parts.is_empty() {
            return self.remake(0..0, self.part_files());
        }
        while let Some(part) = self.most_changed_part() {
            self.remake(part..part + 1, self.part_files())?;
        }
        Ok(())
    }

    /// Merges pairs of neighbouring parts before there are too many. Near the limit, one pair is merged per
    /// publish, and none in a publish that makes a part anyway. Above the limit, as many pairs are merged as
    /// necessary.
    fn keep_parts_few(&mut self) -> Result<()> {
        let is_idle = self.unsent.is_empty();
        let mut max = if is_idle { self.limits.parts_max.saturating_sub(2) } else { self.limits.parts_max };
        while self.parts.len() > max.max(1) {
            let pairs = 0..self.parts.len() - 1;
            let files = |pair: &usize| self.parts[*pair].files + self.parts[pair + 1].files;
            let Some(smallest) = pairs.min_by_key(files) else { break };
            self.remake(smallest..smallest + 2, usize::MAX)?;
            max = self.limits.parts_max;
        }
        Ok(())
    }

    /// The most files that a new part may have. With parts of this size, the map has at most three quarters
    /// of the parts that are allowed.
    fn part_files(&self) -> usize {
        let parts = (self.limits.parts_max * 3 / 4).max(1);
        self.limits.part_files.max(self.files.len().div_ceil(parts))
    }

    /// The part whose range has most bytes of changes; None while all changes together are within
    /// `changes_bytes`.
    fn most_changed_part(&mut self) -> Option<usize> {
        self.visited += self.changes.len() as u64;
        let mut bytes = vec![0; self.parts.len()];
        for (number, is_in_parts) in &self.changes {
            let added = if self.files.contains_key(number) { ADDED_BYTES } else { 0 };
            let removed = if *is_in_parts { REMOVED_BYTES } else { 0 };
            bytes[self.part_of(*number)] += added + removed;
        }
        if bytes.iter().sum::<usize>() <= self.limits.changes_bytes {
            return None;
        }
        (0..bytes.len()).max_by_key(|part| bytes[*part])
    }

    /// The index of the part in whose range `number` is. The first range begins at 0; each ends where the
    /// next begins.
    fn part_of(&self, number: u64) -> usize {
        self.parts.partition_point(|part| part.first <= number).saturating_sub(1)
    }

    /// Replaces the neighbouring parts `old` by new parts of at most `part_files` files each. A map without
    /// parts is cut into parts as a whole.
    fn remake(&mut self, old: Range<usize>, part_files: usize) -> Result<()> {
        let start = if old.start == 0 { 0 } else { self.parts[old.start].first };
        let end = self.parts.get(old.end).map(|part| part.first);
        let files: Vec<MapEntry> = match end {
            Some(end) => map_entries(self.files.range(start..end)),
            None => map_entries(self.files.range(start..)),
        };
        self.visited += files.len() as u64;
        let parts: Vec<PartRef> =
            files.chunks(part_files).map(|files| self.make(files)).collect::<Result<_>>()?;
        self.parts.splice(old, parts);
        let mut rest = self.changes.split_off(&start);
        if let Some(end) = end {
            self.changes.append(&mut rest.split_off(&end));
        }
        Ok(())
    }

    fn make(&mut self, entries: &[MapEntry]) -> Result<PartRef> {
        let nonce = crate::protocol::start::local::random_nonce()?;
        let part = self.next_part;
        self.next_part += 1;
        let record = MapPart { epoch: self.epoch, part, entries: entries.to_vec() };
        let bytes = Bytes::from(record.encode(&nonce));
        let first = entries.first().map_or(0, |entry| entry.number);
        let (size, crc32c) = (bytes.len() as u64, checksum(&bytes));
        self.unsent.push(NewPart { part, bytes, nonce });
        Ok(PartRef { part, first, files: entries.len() as u64, bytes: size, crc32c })
    }
}

fn map_entries<'a>(files: impl IntoIterator<Item = (&'a u64, &'a FileRecord)>) -> Vec<MapEntry> {
    files.into_iter().map(|(number, file)| MapEntry::new(*number, file)).collect()
}

#[cfg(test)]
#[path = "map_writer_test.rs"]
mod tests;
