//! What pins keep from the collector: exactly the objects from which their roots are restored.

use crate::bucket::{Bucket, ObjectInfo};
use crate::error::{Result, StoreError};
use crate::protocol::image::{self, Image};
use crate::protocol::names;
use crate::protocol::pin::{self, Listed, Pin};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

/// The pins seen so far and what they need. A pin never changes, so each is read once.
#[derive(Debug, Default)]
pub(crate) struct Held {
    pins: BTreeSet<String>,
    keys: HashSet<Arc<str>>,
    /// Pins that hold everything, with the reason: those of `gc --pause`, and those that this version does not understand.
    of_all: BTreeMap<String, String>,
}

impl Held {
    /// Learns what the pins of a listing need.
    ///
    /// Errors: of the bucket; what was known stays. Requests: for each pin that is new a GET, and those for its root and the names
    /// of its MANIFEST; when a pin is gone, those for all others.
    pub(crate) async fn update(&mut self, bucket: &Bucket, listed: &Listed) -> Result<()> {
        if !self.pins.is_subset(&listed.pins) {
            *self = Self::default();
        }
        for key in listed.pins.difference(&self.pins.clone()) {
            match keys_of_pin(bucket, key).await {
                Ok(keys) => self.keys.extend(keys),
                Err(StoreError::Corruption(why)) => {
                    self.of_all.insert(key.clone(), why);
                }
                Err(error) => return Err(error),
            }
            self.pins.insert(key.clone());
        }
        Ok(())
    }

    /// A pin for which nothing may be deleted, and why.
    pub(crate) fn holds_all(&self) -> Option<(&str, &str)> {
        self.of_all.first_key_value().map(|(key, why)| (key.as_str(), why.as_str()))
    }

    /// Whether a pin needs the object `key`.
    pub(crate) fn needs(&self, key: &str) -> bool {
        self.keys.contains(key)
    }
}

/// What the pin `key` needs; nothing when it or its root is gone: its writer has seen the horizon and given up, or died before
/// it could (PIN-1), because the root of a pin that counts is never deleted.
///
/// Errors: `Corruption` when it is no pin, or a part of its root is absent or damaged.
pub(crate) async fn keys_of_pin(bucket: &Bucket, key: &str) -> Result<HashSet<Arc<str>>> {
    let load = async {
        let pin = pin::read(bucket, key).await?;
        let image = image::load(bucket, pin.root).await?;
        needed(bucket, &pin, &image).await
    };
    match load.await {
        Err(error) if error.is_not_found() => Ok(HashSet::new()),
        outcome => outcome,
    }
}

/// The objects that a restore of `pin` reads. Those of other databases are among them, which harms nobody.
async fn needed(bucket: &Bucket, pin: &Pin, image: &Image) -> Result<HashSet<Arc<str>>> {
    let (root, epoch) = (&image.root, image.root.id.epoch);
    let slots = root.map_slot..=root.id.slot;
    let mut keys: Vec<String> = slots.map(|slot| names::root(epoch, slot)).collect();
    keys.extend(root.map_parts().map(|part| names::map_part(epoch, part)));
    keys.extend(root.wal_runs.iter().map(|run| names::merged_chunks(epoch, run.first, run.end)));
    keys.extend((root.wal_loose_first()..pin.wal_end).map(|chunk| names::wal_chunk(epoch, chunk)));
    let manifest = bucket.list(&names::manifest_dir(epoch, root.manifest), None).await?;
    keys.extend(manifest.into_iter().map(|object| object.key).filter(|key| {
        names::parse_manifest_chunk(key).is_some_and(|(_, _, offset)| offset < root.manifest_bytes)
    }));
    let files = image.files.values().map(|file| Arc::clone(&file.key));
    Ok(keys.into_iter().map(Arc::from).chain(files).collect())
}

/// What the pins among `objects` hold. Requests: those of [`Held::update`].
pub(crate) async fn held_among(bucket: &Bucket, objects: &[ObjectInfo]) -> Result<Held> {
    let mut held = Held::default();
    held.update(bucket, &Listed::among(objects)).await?;
    Ok(held)
}
