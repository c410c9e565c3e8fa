//! Determines which objects of this epoch each new root makes superfluous: chunks and merged objects of the
//! WAL, old roots, replaced MANIFESTs, and parts of the file map. (`RootHistory` is not the history that
//! atoll_history_retention keeps.)

use super::keep::Needs;
use crate::protocol::format::names::{self, ManifestCopy};
use crate::protocol::format::records::Root;
use crate::protocol::wal::wal_record::WalRun;
use std::collections::{BTreeSet, VecDeque};

/// The roots of this epoch whose objects still exist. Owned by the publisher.
pub(crate) struct RootHistory {
    epoch: u64,
    roots_kept: u64,
    wal_end: u64,
    /// The merged objects that the newest root names.
    runs: Vec<WalRun>,
    /// The slots of the roots that still exist, with the parts of their file maps.
    roots: VecDeque<(u64, Vec<u64>)>,
    /// The numbers of the file map parts that still exist, and one more than the highest number that a root
    /// has named.
    parts: BTreeSet<u64>,
    parts_end: u64,
    manifest: Option<(ManifestCopy, Vec<u64>)>,
}

impl RootHistory {
    /// Returns the history before the first root of `epoch`. The newest root and the `roots_kept` roots
    /// before it are kept.
    pub(crate) fn new(epoch: u64, roots_kept: u64) -> Self {
        let (runs, roots, parts) = Default::default();
        Self { epoch, roots_kept, wal_end: 0, runs, roots, parts, parts_end: 0, manifest: None }
    }

    /// Notes that `root` is in the bucket. `offsets`: the offsets in its MANIFEST at which the uploaded
    /// pieces begin; None: the root names the same bytes of the same MANIFEST as the root before. Returns
    /// what a restore of the root needs besides table files, and the keys of the objects that are superfluous
    /// since this root.
    pub(crate) fn published(&mut self, root: &Root, offsets: Option<&[u64]>) -> (Needs, Vec<String>) {
        let mut keys = self.superfluous_wal(root);
        if let Some(offsets) = offsets {
            self.replace_manifest(root, offsets, &mut keys);
        }
        let roots_floor = self.drop_roots(root, &mut keys);
        self.drop_parts(root, &mut keys);
        let mut needs = Needs::of_root(root, roots_floor);
        needs.add_parts(self.parts.iter().copied(), self.parts_end);
        (needs, keys)
    }

    fn superfluous_wal(&mut self, root: &Root) -> Vec<String> {
        let (epoch, end) = (self.epoch, root.wal_loose_first());
        let mut keys: Vec<String> = (self.wal_end..end).map(|chunk| names::wal_chunk(epoch, chunk)).collect();
        self.wal_end = self.wal_end.max(end);
        let former = std::mem::replace(&mut self.runs, root.wal_runs.clone());
        let replaced = former.iter().filter(|run| !root.wal_runs.contains(run));
        keys.extend(replaced.map(|run| names::merged_chunks(epoch, run.first, run.end)));
        keys
    }

    fn replace_manifest(&mut self, root: &Root, offsets: &[u64], keys: &mut Vec<String>) {
        if let Some((manifest, stored)) = self.manifest.take_if(|(stored, _)| *stored != root.manifest) {
            keys.extend(stored.iter().map(|offset| names::manifest_chunk(self.epoch, manifest, *offset)));
        }
        let (_, stored) = self.manifest.get_or_insert((root.manifest, Vec::new()));
        stored.extend_from_slice(&offsets[stored.len().min(offsets.len())..]);
    }

    /// Drops all but the newest roots and adds their keys to `keys`. Returns the oldest kept slot.
    fn drop_roots(&mut self, root: &Root, keys: &mut Vec<String>) -> u64 {
        self.roots.push_back((root.id.slot, root.map_parts().collect()));
        let floor = root.id.slot.saturating_sub(self.roots_kept);
        while let Some((slot, _)) = self.roots.front().filter(|(slot, _)| *slot < floor) {
            keys.push(names::root(self.epoch, *slot));
            self.roots.pop_front();
        }
        floor
    }

    /// Keeps the parts that a kept root names, and gives up all others. These include parts that no root ever
    /// named, which a failed publish left.
    fn drop_parts(&mut self, root: &Root, keys: &mut Vec<String>) {
        let end = root.map_parts().map(|part| part + 1).max().unwrap_or(0);
        self.parts.extend(self.parts_end..end);
        self.parts_end = self.parts_end.max(end);
        let needed: BTreeSet<u64> = self.roots.iter().flat_map(|(_, parts)| parts).copied().collect();
        let former = std::mem::replace(&mut self.parts, needed);
        keys.extend(former.difference(&self.parts).map(|part| names::map_part(self.epoch, *part)));
    }
}

#[cfg(test)]
#[path = "history_test.rs"]
mod tests;
