//! Finds what the pins of the history keep from the collector: the objects of their roots, and in each epoch
//! all of the log from its oldest pinned root on.
//!
//! Pins of the history are dropped in the order in which they were made. So an object is needed as long as
//! the newest pin that needs it exists. Each object is stored once in memory, together with that pin. So a
//! hundred pins do not take a hundred times the memory of one.

use super::held::{Doubts, absent_root, check_absent, with_remedy};
use crate::error::{Result, StoreError};
use crate::protocol::format::image;
use crate::protocol::format::names;
use crate::protocol::format::records::RootId;
use crate::protocol::format::slots::exists;
use crate::protocol::history::pin;
use crate::requests::bucket::Bucket;
use crate::requests::origin;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

/// The pins of the history that were seen so far, and what they need.
#[derive(Debug, Default)]
pub(crate) struct HeldHistory {
    doubts: Doubts,
    pins: BTreeMap<RootId, HistoryPin>,
    objects: HashMap<Arc<str>, Object>,
    /// The log chunks that the pins need and that are objects of their own: the size of each, by epoch and
    /// number.
    chunks: BTreeMap<(u64, u64), u64>,
    /// The sum of these sizes. A history can have millions of chunks, and the collector often asks how large
    /// it is.
    chunk_bytes: u64,
}

/// One pin of the history.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HistoryPin {
    /// When the pinned root was published, in milliseconds since 1970. 0: the root is gone, so the pin keeps
    /// nothing.
    pub(crate) published_ms: u64,
    /// The first log chunk that a restore of the pinned root reads as an object of its own. None: the root is
    /// gone.
    wal_first: Option<u64>,
}

#[derive(Debug)]
struct Object {
    bytes: u64,
    /// The root of the newest pin that needs the object.
    last: RootId,
}

impl HeldHistory {
    pub(super) fn doubting(doubts: Doubts) -> Self {
        Self { doubts, ..Self::default() }
    }

    /// Reads what the history's pins need. `listed`: the roots whose pins a listing has just shown.
    ///
    /// Errors: the bucket's; `Corruption` when a root or a part of it is absent or damaged (GC-9).
    /// Requests: for
    /// each new pin those that read its root, a LIST of its MANIFEST, and the LISTs of the later log.
    pub(crate) async fn update(&mut self, bucket: &Bucket, listed: &BTreeSet<RootId>) -> Result<()> {
        while let Some((oldest, _)) = self.oldest().filter(|(oldest, _)| !listed.contains(oldest)) {
            self.forget(oldest);
        }
        if self.pins.keys().any(|root| !listed.contains(root)) {
            // A pin was deleted that was not the oldest, so all pins are read again.
            *self = Self::doubting(self.doubts);
        }
        let new: Vec<RootId> = listed.iter().copied().filter(|root| !self.pins.contains_key(root)).collect();
        for root in &new {
            self.add(bucket, *root).await?;
        }
        let epochs: BTreeSet<u64> = new.iter().map(|root| root.epoch).collect();
        for epoch in epochs {
            self.list_chunks(bucket, epoch).await?;
        }
        Ok(())
    }

    async fn add(&mut self, bucket: &Bucket, id: RootId) -> Result<()> {
        let image = match image::load(bucket, id).await {
            Err(StoreError::NotFound { object, .. }) if self.doubts.absence => {
                check_absent(bucket, &object, self.doubts).await?;
                let key = pin::history_key(id);
                // If the pin was dropped after the listing, its objects were deleted.
                if !exists(bucket, &key).await? {
                    return Ok(());
                }
                return Err(StoreError::Corruption(absent_root(&object, &key)));
            }
            Err(error) if error.is_not_found() => {
                self.pins.insert(id, HistoryPin::default());
                return Ok(());
            }
            loaded => loaded?,
        };
        let objects = match image::objects(bucket, &image).await {
            Err(StoreError::Corruption(text)) => {
                return Err(StoreError::Corruption(with_remedy(&text, &pin::history_key(id))));
            }
            objects => objects?,
        };
        for (key, bytes) in objects {
            let object = self.objects.entry(key).or_insert(Object { bytes, last: id });
            object.last = object.last.max(id);
        }
        let root = &image.root;
        let (published_ms, wal_first) = (root.published_ms, Some(root.wal_loose_first()));
        self.pins.insert(id, HistoryPin { published_ms, wal_first });
        Ok(())
    }

    /// Reads the sizes of the log chunks of `epoch` that were uploaded since the last call. Requests: a LIST
    /// per 1000 of them.
    async fn list_chunks(&mut self, bucket: &Bucket, epoch: u64) -> Result<()> {
        let Some(first) = self.first_chunk(epoch) else { return Ok(()) };
        let known = self.chunks.range((epoch, first)..=(epoch, u64::MAX)).next_back();
        let from = known.map_or(first.checked_sub(1), |((_, chunk), _)| Some(*chunk));
        let after = from.map(|chunk| names::wal_chunk(epoch, chunk));
        for object in bucket.list(&names::wal_dir(epoch), after.as_deref()).await? {
            if let Some(place) = names::parse_slot(names::WAL_DIR, &object.key) {
                self.chunk_bytes += object.size;
                self.chunk_bytes -= self.chunks.insert(place, object.size).unwrap_or(0);
            }
        }
        Ok(())
    }

    /// Returns the oldest pin and its root. None: there is no pin.
    pub(crate) fn oldest(&self) -> Option<(RootId, HistoryPin)> {
        self.pins.first_key_value().map(|(root, pin)| (*root, *pin))
    }

    /// Returns the second oldest pin and its root. None: there are fewer than two pins.
    pub(crate) fn second(&self) -> Option<(RootId, HistoryPin)> {
        self.pins.iter().nth(1).map(|(root, pin)| (*root, *pin))
    }

    /// Returns the roots that have pins, the oldest first.
    pub(super) fn roots(&self) -> impl Iterator<Item = RootId> {
        self.pins.keys().copied()
    }

    /// Returns when the newest pinned root of an epoch before `epoch` was published, in milliseconds since
    /// 1970. None: there is no such pin.
    pub(crate) fn former_ms(&self, epoch: u64) -> Option<u64> {
        let former = self.pins.range(..RootId { epoch, slot: 0 });
        former.map(|(_, pin)| pin.published_ms).max()
    }

    /// Returns how many pins, from the oldest on, are not needed any more to restore what was committed after
    /// `cutoff_ms`, in milliseconds since 1970.
    pub(crate) fn expired(&self, cutoff_ms: u64) -> usize {
        self.pins.values().skip(1).take_while(|pin| pin.published_ms <= cutoff_ms).count()
    }

    /// Returns the newest root that has a pin. None: there is no pin.
    pub(crate) fn newest(&self) -> Option<RootId> {
        self.pins.last_key_value().map(|(root, _)| *root)
    }

    /// Forgets the oldest pin, which keeps `root` and which was deleted. Returns the objects that no other
    /// pin of the history needs, with their sizes.
    pub(crate) fn forget(&mut self, root: RootId) -> Vec<(String, u64)> {
        self.pins.remove(&root);
        let mut freed = Vec::new();
        self.objects.retain(|key, object| {
            if object.last == root {
                freed.push((key.as_ref().to_owned(), object.bytes));
            }
            object.last != root
        });
        let first = self.first_chunk(root.epoch).unwrap_or(u64::MAX);
        let gone: Vec<(u64, u64)> =
            self.chunks.range((root.epoch, 0)..(root.epoch, first)).map(|(place, _)| *place).collect();
        for place in gone {
            let bytes = self.chunks.remove(&place).unwrap_or(0);
            self.chunk_bytes -= bytes;
            freed.push((names::wal_chunk(place.0, place.1), bytes));
        }
        freed
    }

    /// Whether a pin of the history needs the object `key`.
    pub(crate) fn needs(&self, key: &str) -> bool {
        match names::parse_slot(names::WAL_DIR, key) {
            Some((epoch, chunk)) => self.first_chunk(epoch).is_some_and(|first| chunk >= first),
            None => self.objects.contains_key(key),
        }
    }

    /// Returns the objects that the pins need, with their sizes. Log chunks that are objects of their own are
    /// not among them.
    pub(crate) fn objects(&self) -> impl Iterator<Item = (&str, u64)> {
        self.objects.iter().map(|(key, object)| (key.as_ref(), object.bytes))
    }

    /// Returns the bytes of the log chunks that the pins need and that lie within `places`: from an epoch and
    /// number to another. Chunks that were uploaded after the last listing are missing. Its time grows with
    /// the number of chunks outside `places`.
    pub(crate) fn chunk_bytes(&self, places: &Range<(u64, u64)>) -> u64 {
        let outside = self.chunks.range(..places.start).chain(self.chunks.range(places.end..));
        self.chunk_bytes - outside.map(|(_, bytes)| bytes).sum::<u64>()
    }

    /// Returns the size of the log chunk `place`; 0 if the pins do not need it.
    pub(crate) fn bytes_of_chunk(&self, place: (u64, u64)) -> u64 {
        self.chunks.get(&place).copied().unwrap_or(0)
    }

    /// Returns the keys and sizes of the table files that the pins need.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&Arc<str>, u64)> {
        let is_file = |key: &str| names::parse_file_epoch(key).is_some() || origin::is_foreign(key);
        self.objects.iter().filter(move |(key, _)| is_file(key)).map(|(key, object)| (key, object.bytes))
    }

    /// Returns the first log chunk of `epoch` that a pin needs as an object of its own. None: no pin needs
    /// the log of this epoch.
    fn first_chunk(&self, epoch: u64) -> Option<u64> {
        let (from, to) = (RootId { epoch, slot: 0 }, RootId { epoch, slot: u64::MAX });
        self.pins.range(from..=to).filter_map(|(_, pin)| pin.wal_first).min()
    }
}

/// Returns the roots of those pins among `keys` that belong to the history.
pub(crate) fn roots_among<'a>(keys: impl Iterator<Item = &'a String>) -> BTreeSet<RootId> {
    keys.filter_map(|key| pin::history_root_of(key)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: RootId = RootId { epoch: 1, slot: 5 };
    const NEW: RootId = RootId { epoch: 2, slot: 3 };

    /// A history of two pins: of epoch 1 it keeps the chunks 3 and 4, of epoch 2 the chunks 0 to 9. Chunk n has
    /// 10 + n bytes.
    fn history() -> HeldHistory {
        let pin = |wal_first| HistoryPin { published_ms: 1, wal_first: Some(wal_first) };
        let places = (3..5).map(|chunk| (1, chunk)).chain((0..10).map(|chunk| (2, chunk)));
        let chunks: BTreeMap<_, _> = places.map(|place| (place, 10 + place.1)).collect();
        let chunk_bytes = chunks.values().sum();
        let pins = BTreeMap::from([(OLD, pin(3)), (NEW, pin(0))]);
        HeldHistory { pins, chunks, chunk_bytes, ..HeldHistory::default() }
    }

    #[test]
    fn the_bytes_of_chunks_are_those_within_the_places() {
        let history = history();
        for (start, end) in
            [((0, 0), (2, 10)), ((0, 0), (2, 4)), ((2, 0), (2, 4)), ((2, 0), (2, 0)), ((1, 4), (9, 0))]
        {
            let counted: u64 = history.chunks.range(start..end).map(|(_, bytes)| bytes).sum();
            assert_eq!(history.chunk_bytes(&(start..end)), counted, "{start:?} to {end:?}");
        }
        assert_eq!((history.bytes_of_chunk((2, 7)), history.bytes_of_chunk((2, 10))), (17, 0));
    }

    #[test]
    fn a_pin_that_goes_takes_its_chunks_with_it() {
        let mut history = history();
        let freed = history.forget(OLD);
        assert_eq!(freed, [(names::wal_chunk(1, 3), 13), (names::wal_chunk(1, 4), 14)]);
        assert_eq!(history.chunk_bytes(&((0, 0)..(2, 10))), (10..20).sum::<u64>());
    }
}
