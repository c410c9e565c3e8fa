//! What each new root makes superfluous among the records of this epoch: WAL, old roots, replaced MANIFESTs.

use super::keep::Needs;
use crate::protocol::names::{self, ManifestCopy};
use crate::protocol::records::Root;
use crate::protocol::wal_record::WalRun;
use std::collections::VecDeque;

/// The roots of this epoch so far, as far as their objects are still there. Owned by the publisher.
pub(crate) struct RootHistory {
    epoch: u64,
    roots_kept: u64,
    wal_end: u64,
    /// The merged objects that the newest root names.
    runs: Vec<WalRun>,
    /// (slot, slot of its full map) of the roots that are still there.
    roots: VecDeque<(u64, u64)>,
    manifest: Option<(ManifestCopy, Vec<u64>)>,
}

impl RootHistory {
    /// Before the first root of `epoch`. Behind the newest root, `roots_kept` are kept.
    pub(crate) fn new(epoch: u64, roots_kept: u64) -> Self {
        let (runs, roots) = Default::default();
        Self { epoch, roots_kept, wal_end: 0, runs, roots, manifest: None }
    }

    /// `root` is in the bucket; its MANIFEST is stored at `offsets`, None when it is that of the root before. Returns what
    /// it needs, and the keys that it has made superfluous.
    pub(crate) fn published(&mut self, root: &Root, offsets: Option<&[u64]>) -> (Needs, Vec<String>) {
        let mut keys = self.superfluous_wal(root);
        if let Some(offsets) = offsets {
            self.replace_manifest(root, offsets, &mut keys);
        }
        let roots_floor = self.drop_roots(root, &mut keys);
        (Needs::of_root(root, roots_floor), keys)
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

    /// Keeps the newest roots, and behind them every root that their file maps are built on. Returns the oldest kept slot.
    fn drop_roots(&mut self, root: &Root, keys: &mut Vec<String>) -> u64 {
        self.roots.push_back((root.id.slot, root.map_slot));
        let oldest_kept = root.id.slot.saturating_sub(self.roots_kept);
        let floor = self.roots.iter().find(|(slot, _)| *slot >= oldest_kept).map_or(0, |(_, map)| *map);
        while let Some((slot, _)) = self.roots.front().copied().filter(|(slot, _)| *slot < floor) {
            keys.push(names::root(self.epoch, slot));
            self.roots.pop_front();
        }
        floor
    }
}
