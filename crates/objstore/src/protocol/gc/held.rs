//! Finds the objects that pins keep from the collector: exactly those that restores of the pinned roots read.

use super::held_history::{HeldHistory, roots_among};
use super::keep::Needs;
use crate::error::{Result, StoreError};
use crate::protocol::format::image;
use crate::protocol::format::names;
use crate::protocol::history::pin::{self, Listed};
use crate::requests::bucket::{Bucket, ObjectInfo};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

/// The pins that listings have shown so far, and the objects that these pins need. A pin never changes, so
/// each is read once.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// The pins outside of the history, for example those of snapshots and clones.
    pins: BTreeSet<String>,
    keys: HashSet<Arc<str>>,
    /// Pins that forbid all deletions, each with the reason: that of `gc --pause`, those that this version
    /// cannot decode, and those whose root is damaged.
    of_all: BTreeMap<String, String>,
    pub(crate) history: HeldHistory,
}

impl Held {
    /// Brings `self` up to date with `listed`, a listing of pins: reads what new pins need, and forgets pins
    /// that are gone.
    ///
    /// Errors: those of the bucket; the next call reads the pins that are missing. Requests: for each new pin
    /// a GET, those of its root and a LIST of its MANIFEST; when a pin outside of the history is gone, the
    /// same for all others outside of the history.
    pub(crate) async fn update(&mut self, bucket: &Bucket, listed: &Listed) -> Result<()> {
        let is_history = |key: &&String| pin::history_root_of(key).is_some();
        let others: BTreeSet<String> = listed.pins.iter().filter(|key| !is_history(key)).cloned().collect();
        if !self.pins.is_subset(&others) {
            (self.pins, self.keys) = Default::default();
            self.of_all.clear();
        }
        for key in others.difference(&self.pins.clone()) {
            match keys_of_pin(bucket, key).await {
                Ok(keys) => self.keys.extend(keys),
                Err(StoreError::Corruption(why)) => {
                    self.of_all.insert(key.clone(), why);
                }
                Err(error) => return Err(error),
            }
            self.pins.insert(key.clone());
        }
        self.update_history(bucket, listed).await
    }

    async fn update_history(&mut self, bucket: &Bucket, listed: &Listed) -> Result<()> {
        let of_history = "pin/history";
        self.of_all.remove(of_history);
        match self.history.update(bucket, &roots_among(listed.pins.iter())).await {
            Err(StoreError::Corruption(why)) => {
                self.of_all.insert(of_history.to_owned(), why);
                Ok(())
            }
            outcome => outcome,
        }
    }

    /// Returns a pin that forbids all deletions, and the reason. None: there is no such pin.
    pub(crate) fn holds_all(&self) -> Option<(&str, &str)> {
        self.of_all.first_key_value().map(|(key, why)| (key.as_str(), why.as_str()))
    }

    /// Whether a pin needs the object `key`.
    pub(crate) fn needs(&self, key: &str) -> bool {
        self.is_pinned(key) || self.history.needs(key)
    }

    /// Returns the bytes of the log chunks that only the history needs. `needs`: what the newest root needs.
    pub(crate) fn chunk_bytes_of_history_alone(&self, needs: &Needs) -> u64 {
        let chunks = needs.unneeded_chunks();
        let places = self.keys.iter().filter_map(|key| names::parse_slot(names::WAL_DIR, key));
        let pinned = places.filter(|place| chunks.contains(place));
        let pinned_bytes: u64 = pinned.map(|place| self.history.bytes_of_chunk(place)).sum();
        self.history.chunk_bytes(&chunks) - pinned_bytes
    }

    /// Whether a pin outside of the history needs the object `key`.
    pub(crate) fn is_pinned(&self, key: &str) -> bool {
        self.keys.contains(key)
    }
}

/// Returns the objects that the pin `key` needs. There are none when the pin was deleted meanwhile, or when
/// its root is gone. The collector never deletes the root of a pin that was created in time. So a pin whose
/// root is gone came too late, and its writer notices that and deletes the pin, or has died (PIN-1).
///
/// Errors: `Corruption` when the object is no pin, or a part of its root is absent or damaged.
pub(crate) async fn keys_of_pin(bucket: &Bucket, key: &str) -> Result<HashSet<Arc<str>>> {
    let load = async {
        let pin = pin::read(bucket, key).await?;
        let image = image::load(bucket, pin.root).await?;
        let (epoch, chunks) = (pin.root.epoch, image.root.wal_loose_first()..pin.wal_end);
        let log = chunks.map(|chunk| Arc::from(names::wal_chunk(epoch, chunk)));
        let objects = image::objects(bucket, &image).await?.into_iter().map(|(key, _)| key);
        Ok(objects.chain(log).collect())
    };
    match load.await {
        Err(StoreError::NotFound { .. }) => Ok(HashSet::new()),
        outcome => outcome,
    }
}

/// Reads what the pins among `objects`, a listing of the bucket, need. Requests: those of [`Held::update`].
pub(crate) async fn held_among(bucket: &Bucket, objects: &[ObjectInfo]) -> Result<Held> {
    let mut held = Held::default();
    held.update(bucket, &Listed::among(objects)).await?;
    Ok(held)
}
