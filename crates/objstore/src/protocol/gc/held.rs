//! Finds the objects that pins keep from the collector: exactly those that restores of the pinned roots read.
//!
//! GC-8: the collector forgets a pin that a listing lacks, or an object that a GET does not find, only if a
//!     HEAD does not find it either. When a listing has no pin at all, and none is known that it could
//!     contradict, the pins are listed again (collector/pins.rs).

use super::held_history::{HeldHistory, roots_among};
use super::keep::Needs;
use super::plan::is_pause;
use crate::error::{Result, StoreError};
use crate::protocol::format::image;
use crate::protocol::format::names;
use crate::protocol::format::slots::exists;
use crate::protocol::history::named::snapshot_names::SnapshotNames;
use crate::protocol::history::pin::{self, Listed, Pin, PinKind};
use crate::requests::bucket::{Bucket, ObjectInfo};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// What the collector does not believe at once. Only tests switch something off, to show that it is needed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Doubts {
    /// GC-8: a listing of pins counts only if what it lacks is absent.
    pub(crate) listings: bool,
    /// GC-9: the root of a pin that certainly counts is there, so its absence is damage.
    pub(crate) absence: bool,
}

impl Default for Doubts {
    fn default() -> Self {
        Self { listings: true, absence: true }
    }
}

/// The pins that listings have shown so far, and the objects that these pins need. A pin never changes, so
/// each is read once.
#[derive(Debug, Default)]
pub(crate) struct Held {
    doubts: Doubts,
    /// The pins outside of the history, for example those of snapshots and clones.
    pins: BTreeSet<String>,
    /// What these pins need.
    needed: Needed,
    /// Pins that forbid all deletions: the pin of `gc --pause`, those that this version cannot decode, and those
    /// whose root is damaged or absent.
    of_all: BTreeMap<String, Reason>,
    pub(crate) history: HeldHistory,
}

/// Objects that pins need. Each is known by a hash of its key, so a million of them take 19 MiB. If two keys have
/// one hash, an object that nothing needs stays.
#[derive(Debug, Default)]
struct Needed {
    hashes: HashSet<u64>,
    /// Those objects that are log chunks.
    chunks: BTreeSet<(u64, u64)>,
}

impl Needed {
    fn add(&mut self, key: &str) {
        self.hashes.insert(hash_of(key));
        self.chunks.extend(names::parse_slot(names::WAL_DIR, key));
    }

    fn contains(&self, key: &str) -> bool {
        self.hashes.contains(&hash_of(key))
    }
}

fn hash_of(key: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

/// Why a pin forbids all deletions.
#[derive(Debug)]
struct Reason {
    text: String,
    /// An object that the pin needs is damaged or absent. False: the pin cannot be decoded.
    is_damage: bool,
}

/// What one pin keeps.
enum Kept {
    Objects(HashSet<Arc<str>>),
    /// The pin is gone, or it came too late (PIN-1).
    Nothing,
    All(Reason),
}

impl Held {
    pub(crate) fn doubting(doubts: Doubts) -> Self {
        Self { doubts, history: HeldHistory::doubting(doubts), ..Self::default() }
    }

    /// Brings `self` up to date with `listed`, a listing of pins: reads what new pins need, and forgets pins
    /// that are gone.
    ///
    /// Errors: the bucket's, and `Unavailable` when the bucket contradicts itself (GC-8); the next call
    /// reads the pins that are missing. Requests: for each new pin a GET, those of its root and a LIST of its
    /// MANIFEST; for each pin that is gone a HEAD; when a pin outside of the history is gone, those of a new
    /// pin for all others outside of the history. A pin that keeps nothing, or whose root is damaged, is read
    /// again each time.
    pub(crate) async fn update(&mut self, bucket: &Bucket, listed: &Listed) -> Result<()> {
        if self.doubts.listings {
            self.check_gone(bucket, listed).await?;
        }
        let is_history = |key: &&String| pin::history_root_of(key).is_some();
        let others: BTreeSet<String> = listed.pins.iter().filter(|key| !is_history(key)).cloned().collect();
        if !self.pins.is_subset(&others) {
            (self.pins, self.needed) = Default::default();
        }
        self.of_all.retain(|key, _| self.pins.contains(key));
        for key in others.difference(&self.pins.clone()) {
            match kept_by(bucket, key, self.doubts).await? {
                Kept::Objects(keys) => {
                    keys.iter().for_each(|key| self.needed.add(key));
                    self.pins.insert(key.clone());
                }
                Kept::Nothing => {}
                Kept::All(reason) => {
                    if !reason.is_damage {
                        self.pins.insert(key.clone());
                    }
                    self.of_all.insert(key.clone(), reason);
                }
            }
        }
        self.update_history(bucket, listed).await
    }

    /// Rule GC-8: checks that the known pins which `listed` lacks are gone. Requests: a HEAD for each.
    async fn check_gone(&self, bucket: &Bucket, listed: &Listed) -> Result<()> {
        let known = self.pins.iter().cloned().chain(self.history.roots().map(pin::history_key));
        for key in known.filter(|key| !listed.pins.contains(key) && !listed.released.contains(key)) {
            if exists(bucket, &key).await? {
                return Err(contradiction(bucket, "a listing of pins", &key));
            }
        }
        Ok(())
    }

    async fn update_history(&mut self, bucket: &Bucket, listed: &Listed) -> Result<()> {
        let of_history = "pin/history";
        self.of_all.remove(of_history);
        match self.history.update(bucket, &roots_among(listed.pins.iter())).await {
            Err(StoreError::Corruption(text)) => {
                self.of_all.insert(of_history.to_owned(), Reason { text, is_damage: true });
                Ok(())
            }
            outcome => outcome,
        }
    }

    /// Whether no pin is known.
    pub(super) fn is_empty(&self) -> bool {
        self.pins.is_empty() && self.history.oldest().is_none()
    }

    /// Returns a pin that forbids all deletions, and the reason; one with damage before others. None: there is
    /// no such pin.
    pub(crate) fn holds_all(&self) -> Option<(&str, &str)> {
        let first = self.of_all.iter().find(|(_, reason)| reason.is_damage).or(self.of_all.first_key_value());
        first.map(|(key, reason)| (key.as_str(), reason.text.as_str()))
    }

    /// Whether an object that a pin needs is damaged or absent.
    pub(super) fn is_damaged(&self) -> bool {
        self.of_all.values().any(|reason| reason.is_damage)
    }

    /// Whether a pin needs the object `key`.
    pub(crate) fn needs(&self, key: &str) -> bool {
        self.is_pinned(key) || self.history.needs(key)
    }

    /// Returns the bytes of the log chunks that only the history needs. `needs`: what the newest root needs.
    pub(crate) fn chunk_bytes_of_history_alone(&self, needs: &Needs) -> u64 {
        let chunks = needs.unneeded_chunks();
        let pinned = self.needed.chunks.range(chunks.clone());
        let pinned_bytes: u64 = pinned.map(|place| self.history.bytes_of_chunk(*place)).sum();
        self.history.chunk_bytes(&chunks) - pinned_bytes
    }

    /// Whether a pin outside of the history needs the object `key`.
    pub(crate) fn is_pinned(&self, key: &str) -> bool {
        self.needed.contains(key)
    }
}

/// Returns the objects that the pin `key` needs. There are none when the pin was deleted meanwhile, or came too
/// late.
///
/// Errors: `Corruption` when the object is no pin, or a part of its root is absent or damaged.
pub(crate) async fn keys_of_pin(bucket: &Bucket, key: &str) -> Result<HashSet<Arc<str>>> {
    match kept_by(bucket, key, Doubts::default()).await? {
        Kept::Objects(keys) => Ok(keys),
        Kept::Nothing => Ok(HashSet::new()),
        Kept::All(reason) => Err(StoreError::Corruption(reason.text)),
    }
}

/// Finds out what the pin `key` keeps.
///
/// GC-9: the collector never deletes the root of a pin that was created in time. So a pin whose root is absent
///     came too late, and its writer notices that and deletes the pin, or has died (PIN-1); or the root was
///     lost. A snapshot that has its name and the pin of a clone certainly came in time, so they hold all
///     objects until the root is back or the pin is dropped.
async fn kept_by(bucket: &Bucket, key: &str, doubts: Doubts) -> Result<Kept> {
    let pin = match pin::read(bucket, key).await {
        Err(StoreError::Corruption(text)) => {
            return Ok(Kept::All(Reason { text: undecodable(&text, key), is_damage: false }));
        }
        Err(error) if error.is_not_found() => {
            return check_absent(bucket, key, doubts).await.map(|()| Kept::Nothing);
        }
        read => read?,
    };
    match objects_of(bucket, &pin).await {
        Ok(keys) => Ok(Kept::Objects(keys)),
        Err(StoreError::Corruption(text)) => kept_in_part(bucket, key, &pin, &text, doubts).await,
        Err(StoreError::NotFound { object, .. }) => {
            check_absent(bucket, &object, doubts).await?;
            let counts = doubts.absence && certainly_counts(bucket, key, &pin).await?;
            // If the pin was dropped after it was read, its objects were deleted.
            if !counts || !exists(bucket, key).await? {
                return Ok(Kept::Nothing);
            }
            Ok(Kept::All(Reason { text: absent_root(&object, key), is_damage: true }))
        }
        Err(error) => Err(error),
    }
}

/// Returns what the pin `key` keeps whose root is there, while something that the root names is damaged or absent,
/// as `text` says. If a piece of the MANIFEST is absent, the pin may have come too late, as one whose root is
/// absent (GC-9).
async fn kept_in_part(bucket: &Bucket, key: &str, pin: &Pin, text: &str, doubts: Doubts) -> Result<Kept> {
    if !certainly_counts(bucket, key, pin).await? {
        let root = image::read_root(bucket, pin.root).await?;
        let pieces = bucket.list(&names::manifest_dir(root.id.epoch, root.manifest), None).await?;
        if let Some(piece) = image::missing_piece(&pieces, &root) {
            return check_absent(bucket, &piece, doubts).await.map(|()| Kept::Nothing);
        }
    }
    Ok(Kept::All(Reason { text: with_remedy(text, key), is_damage: true }))
}

async fn objects_of(bucket: &Bucket, pin: &Pin) -> Result<HashSet<Arc<str>>> {
    let image = image::load(bucket, pin.root).await?;
    let (epoch, chunks) = (pin.root.epoch, image.root.wal_loose_first()..pin.wal_end);
    let log = chunks.map(|chunk| Arc::from(names::wal_chunk(epoch, chunk)));
    let objects = image::objects(bucket, &image).await?.into_iter().map(|(key, _)| key);
    Ok(objects.chain(log).collect())
}

/// Whether the pin `key` was certainly created in time. The pin of a process that copies or reads the database
/// is dropped when that process finds that it came too late. Requests: for a snapshot a LIST and a GET, or two
/// LISTs.
async fn certainly_counts(bucket: &Bucket, key: &str, pin: &Pin) -> Result<bool> {
    if pin.kind != PinKind::Snapshot {
        let is_short_lived = pin::is_copy_key(key) || pin::is_reader_key(key);
        return Ok(!is_short_lived && pin::mount_epoch_of(key).is_none());
    }
    // A listing that lacks the name is believed only if the next one lacks it, too (GC-8).
    for _ in 0..2 {
        if let Some(named) = SnapshotNames::list(bucket).await?.find(bucket, &pin.name).await? {
            return Ok(named.pin == key);
        }
    }
    Ok(false)
}

/// Checks that `key`, which a GET has not found, is not found by a HEAD either (rule GC-8).
pub(super) async fn check_absent(bucket: &Bucket, key: &str, doubts: Doubts) -> Result<()> {
    if doubts.listings && exists(bucket, key).await? {
        return Err(contradiction(bucket, "a GET", key));
    }
    Ok(())
}

/// Makes the text about the root `object`, which is absent although the pin `key` keeps it.
pub(super) fn absent_root(object: &str, key: &str) -> String {
    with_remedy(&format!("{object} is missing in the bucket, but {key} keeps it"), key)
}

/// Adds to `text`, which says what is damaged or absent of the state that the pin `key` keeps, what people can do.
pub(crate) fn with_remedy(text: &str, key: &str) -> String {
    format!(
        "{text}. Put the object back, for example from an older version in the bucket; or, if what that pin keeps is not \
         needed, give it up: {}",
        drop_command(key)
    )
}

/// Returns the command that drops the pin `key`.
pub(crate) fn drop_command(key: &str) -> String {
    format!("atollctl snapshot drop URL {key} --pin")
}

/// Makes the text about the object `key`, which is no pin that this version can decode, as `text` says.
fn undecodable(text: &str, key: &str) -> String {
    match is_pause(key) {
        true => "somebody has paused the deletions; atollctl gc URL --resume ends the pause".to_owned(),
        false => format!(
            "{text}. If a newer version of Atoll has made this pin, use that version here. If nobody needs it, give it up: {}",
            drop_command(key)
        ),
    }
}

fn contradiction(bucket: &Bucket, answer: &str, key: &str) -> StoreError {
    StoreError::Unavailable(format!(
        "the answer to {answer} in {} lacks {key}, which is there: nothing is deleted on the word of such a bucket",
        bucket.place()
    ))
}

/// Reads what the pins among `objects`, a listing of the bucket, need. Requests: as [`Held::update`].
pub(crate) async fn held_among(bucket: &Bucket, objects: &[ObjectInfo]) -> Result<Held> {
    let mut held = Held::default();
    held.update(bucket, &Listed::among(objects)).await?;
    Ok(held)
}
