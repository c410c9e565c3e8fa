//! Pins: records that keep the collector from deleting one root and the later log that belongs to the pinned
//! state (byte table W15 of docs/internals/formats-bucket.md). A snapshot is a pin with a name. A clone has a
//! pin in every database whose files it reads. The history is a sequence of pins (gc/collector/history.rs).
//!
//! ```text
//! a program that pins root R                   the collector, before each batch
//!   create pin/<random> {R}                      create gc/horizon/<H>: what only roots below H need may go
//!   list gc/horizon/                             list pin/
//!   is a horizon above R? delete the pin,        delete what the newest root and the pins do not need
//!   begin again with a newer root
//!   create snapshot/<name> {the pin}
//! ```
//!
//! PIN-1: if the pin existed before the collector listed the pins, the collector keeps what the pin needs.
//!     Otherwise the horizon existed before the pin, so the pin's writer sees the horizon and gives up. No
//!     clock decides. (Model: crates/protocol-model/src/pin.rs.)
//! PIN-2: the content of a pin never changes, and its key is used for one pin only. Whoever deletes a pin
//!     gives up what the pin kept.
//! PIN-3: a program that clones a snapshot relies on the snapshot's pin, which was created in time. The
//!     program creates a pin of its own and then checks whether the snapshot's pin still exists. If it does,
//!     the objects of the root were kept all the time.
//! PIN-4: a clone does not delete its pin in another database. It creates `<pin>-released`, and that
//!     database's owner deletes both. The owner heeds a release only of the pin of a clone. Whoever makes
//!     clones may create objects below `pin/`, but must not be able to take snapshots or the history away.

use crate::error::Result;
use crate::protocol::format::codec::{FormatError, FrameWriter, Nonce};
use crate::protocol::format::names;
use crate::protocol::format::records::{RootId, open};
use crate::protocol::format::slots::read_record;
use crate::protocol::start::local::damaged_object;
use crate::protocol::wal::position::Position;
use crate::requests::bucket::{Bucket, ObjectInfo};
use crate::requests::s3::crypto::fingerprint;
use std::collections::BTreeSet;

const KIND_PIN: u16 = 12;
const KIND_SNAPSHOT_NAME: u16 = 13;

/// Field of a pin's extension area: the newest commits of the pinned state. For people.
const TAG_POSITION: u16 = 0x0001;
/// Field of a pin's extension area: [`Pin::expires_s`]. For people, so earlier versions need not know it.
const TAG_EXPIRES: u16 = 0x0002;

/// The keys of the pins of clones begin with this.
const CLONE: &str = "pin/clone-";

/// The keys of the pins of the history begin with this.
const HISTORY: &str = "pin/history-";

/// The keys of the pins of a process that copies the database, reads its rows or tests a restore begin with
/// this.
const COPY: &str = "pin/copy-";

/// The keys of the pins of the states that the owner has mounted for reading (mount.rs) begin with this.
const MOUNT: &str = "pin/mount-";

/// The keys of the pins of the states that a reader shows (reader.rs) begin with this.
const READER: &str = "pin/reader-";

/// The end of the key of a release. A release is a record by which the holder of a pin says that it needs the
/// pin no more.
const RELEASED: &str = "-released";

/// What a pin is for. The program that creates the pin chooses the kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PinKind {
    Snapshot,
    Clone,
    /// A pin of the history. It keeps all later log of the epoch besides the root.
    History,
}

/// The record `pin/<id>`: the state that is pinned, and for whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pin {
    pub(crate) kind: PinKind,
    /// The name of the snapshot; for a clone, where the clone is; for the history, empty.
    pub(crate) name: String,
    pub(crate) root: RootId,
    /// The end of the pinned log: only chunks with lower numbers belong to the state. `u64::MAX` in a pin of
    /// the history, which keeps the log to the end of the epoch.
    pub(crate) wal_end: u64,
    /// When and by which program the pin was made. For people.
    pub(crate) created_ms: u64,
    pub(crate) creator: String,
    pub(crate) position: Position,
    /// From when on the clone that has this pin is not needed any more, in seconds since 1970. The pin itself
    /// keeps what it keeps, whatever the time is.
    pub(crate) expires_s: Option<u64>,
}

impl Pin {
    pub(crate) fn encode(&self, nonce: &Nonce) -> Vec<u8> {
        let mut frame = FrameWriter::new(KIND_PIN, nonce, 256);
        let kind = match self.kind {
            PinKind::Snapshot => 1,
            PinKind::Clone => 2,
            PinKind::History => 3,
        };
        frame.u8(kind).bytes(self.name.as_bytes()).u64(self.root.epoch).u64(self.root.slot);
        frame.u64(self.wal_end).u64(self.created_ms).bytes(self.creator.as_bytes());
        let mut fields = vec![(TAG_POSITION, self.position.encode())];
        fields.extend(self.expires_s.map(|seconds| (TAG_EXPIRES, seconds.to_le_bytes().to_vec())));
        frame.extension(&fields);
        frame.finish()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut frame = open(bytes, KIND_PIN, "a pin")?;
        let kind = match frame.u8()? {
            1 => PinKind::Snapshot,
            2 => PinKind::Clone,
            3 => PinKind::History,
            other => {
                return Err(
                    frame.wrong(format!("a pin is of kind {other}, which this version does not know"))
                );
            }
        };
        let mut pin = Self {
            kind,
            name: frame.string()?,
            root: RootId { epoch: frame.u64()?, slot: frame.u64()? },
            wal_end: frame.u64()?,
            created_ms: frame.u64()?,
            creator: frame.string()?,
            position: Position::default(),
            expires_s: None,
        };
        if pin.root.slot == 0 {
            return Err(frame.wrong("a pin holds a claim"));
        }
        let fields = frame.extension(&[TAG_POSITION, TAG_EXPIRES])?;
        if let Some(position) = fields.get(&TAG_POSITION) {
            let wrong = || frame.wrong("the position of the pinned commits is malformed");
            pin.position = Position::decode(position).ok_or_else(wrong)?;
        }
        if let Some(seconds) = fields.get(&TAG_EXPIRES) {
            let wrong = |_| frame.wrong("the time at which a clone expires is malformed");
            pin.expires_s = Some(u64::from_le_bytes((*seconds).try_into().map_err(wrong)?));
        }
        frame.finish().map(|()| pin)
    }
}

/// Returns the key of a new pin. The caller makes a random `nonce` for each pin, so that no key is used
/// twice.
pub(crate) fn new_key(nonce: &Nonce) -> String {
    format!("{}{:032x}", names::PIN_DIR, u128::from_be_bytes(*nonce))
}

/// `snapshot/<digits>` or `snapshot/<digits>.<generation>`: the record that gives a pin its name. No two
/// snapshots have the same name at a time (snapshot_names.rs).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SnapshotName {
    pub(crate) name: String,
    pub(crate) pin: String,
}

impl SnapshotName {
    /// Returns the key of the record of generation `generation`.
    pub(crate) fn key(name: &str, generation: u64) -> String {
        let base = format!("{}{}", names::SNAPSHOT_DIR, fingerprint(name.as_bytes()));
        if generation == 0 { base } else { format!("{base}.{generation:010}") }
    }

    pub(crate) fn encode(&self, nonce: &Nonce) -> Vec<u8> {
        let mut frame = FrameWriter::new(KIND_SNAPSHOT_NAME, nonce, 128);
        frame.bytes(self.name.as_bytes()).bytes(self.pin.as_bytes());
        frame.finish()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut frame = open(bytes, KIND_SNAPSHOT_NAME, "the name of a snapshot")?;
        let found = Self { name: frame.string()?, pin: frame.string()? };
        frame.finish().map(|()| found)
    }

    /// Reads the record `key`.
    ///
    /// Errors: `NotFound`; `Corruption`. Requests: one GET.
    pub(crate) async fn read(bucket: &Bucket, key: &str) -> Result<Self> {
        read_record(bucket, key, |bytes| Self::decode(bytes).map_err(|e| damaged_object(key, &e))).await
    }
}

/// Returns the key of the pin that the clone with uuid `db_uuid` has in each database whose files it reads.
pub(crate) fn clone_key(db_uuid: &str) -> String {
    format!("{CLONE}{db_uuid}")
}

/// Returns the key of a new pin for a process that copies the database, reads its rows or tests a restore.
/// `nonce` is random. The pin is of the same kind as a clone's. The process deletes it when it has
/// ended its work.
pub(crate) fn copy_key(nonce: &Nonce) -> String {
    format!("{COPY}{:032x}", u128::from_be_bytes(*nonce))
}

/// Whether `key` is the key of a pin from [`copy_key`].
pub(crate) fn is_copy_key(key: &str) -> bool {
    key.starts_with(COPY)
}

/// Returns the key of a new pin of a mount (mount.rs) in the process that owns `epoch`. `nonce` is random.
pub(crate) fn mount_key(epoch: u64, nonce: &Nonce) -> String {
    format!("{MOUNT}{epoch:020}-{:032x}", u128::from_be_bytes(*nonce))
}

/// Returns the epoch of the process that made the pin `key` for a mount. None: `key` is not that of a pin of
/// a mount.
pub(crate) fn mount_epoch_of(key: &str) -> Option<u64> {
    key.strip_prefix(MOUNT)?.split_once('-')?.0.parse().ok()
}

/// Returns the key of a new pin of a reader (reader.rs). `nonce` is random.
pub(crate) fn reader_key(nonce: &Nonce) -> String {
    format!("{READER}{:032x}", u128::from_be_bytes(*nonce))
}

/// Whether `key` is the key of a pin from [`reader_key`].
pub(crate) fn is_reader_key(key: &str) -> bool {
    key.starts_with(READER)
}

/// Returns the key of the history's pin of `root`. The history pins a root at most once, so the key is used
/// once (PIN-2).
pub(crate) fn history_key(root: RootId) -> String {
    format!("{}{:020}-{:020}", HISTORY, root.epoch, root.slot)
}

/// Returns the root that a pin of the history keeps. It is in the key of the pin. None: `key` is not that of
/// a pin of the history.
pub(crate) fn history_root_of(key: &str) -> Option<RootId> {
    let (epoch, slot) = key.strip_prefix(HISTORY)?.split_once('-')?;
    let root = RootId { epoch: epoch.parse().ok()?, slot: slot.parse().ok()? };
    (history_key(root) == key).then_some(root)
}

/// Returns the key of the record with which the holder of the pin `key` gives it up.
pub(crate) fn release_key(key: &str) -> String {
    format!("{key}{RELEASED}")
}

/// The pins that a listing shows below `pin/`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Listed {
    /// The pins in the listing for which there is no release.
    pub(crate) pins: BTreeSet<String>,
    /// The pins that were released, each followed by the key of its release. If a pin is gone, its release
    /// stands alone. The owner deletes the objects in this order.
    pub(crate) released: Vec<String>,
    /// Releases that count for nothing, because they name another pin than a clone's (PIN-4).
    pub(crate) void: Vec<String>,
}

impl Listed {
    /// Returns the pins of mounts that processes in `epoch` or an earlier epoch have made.
    pub(crate) fn mounts_up_to(&self, epoch: u64) -> impl Iterator<Item = &String> {
        self.pins.iter().filter(move |key| mount_epoch_of(key).is_some_and(|owner| owner <= epoch))
    }

    /// Finds the pins and releases among `objects`, and puts each release behind its pin.
    pub(crate) fn among(objects: &[ObjectInfo]) -> Self {
        let keys = objects.iter().map(|object| object.key.as_str());
        let mut pins: BTreeSet<String> =
            keys.filter(|key| key.starts_with(names::PIN_DIR)).map(str::to_owned).collect();
        let releases: Vec<String> = pins.iter().filter(|key| key.ends_with(RELEASED)).cloned().collect();
        pins.retain(|key| !key.ends_with(RELEASED));
        let (releases, void): (Vec<_>, Vec<_>) = releases.into_iter().partition(|key| key.starts_with(CLONE));
        let mut released = Vec::new();
        for release in releases {
            released.extend(release.strip_suffix(RELEASED).and_then(|pin| pins.take(pin)));
            released.push(release);
        }
        Self { pins, released, void }
    }
}

/// Reads the pin `key`.
///
/// Errors: `NotFound`; `Corruption` for an object that is not a pin, or one of a newer version.
/// Requests: one GET.
pub(crate) async fn read(bucket: &Bucket, key: &str) -> Result<Pin> {
    read_record(bucket, key, |bytes| Pin::decode(bytes).map_err(|e| damaged_object(key, &e))).await
}

/// Returns the root of the highest horizon. The collector may have deleted objects that only older roots
/// need. None: the collector has deleted nothing yet. Requests: one LIST.
pub(crate) async fn horizon(bucket: &Bucket) -> Result<Option<RootId>> {
    let listed = bucket.list(names::HORIZON_DIR, None).await?;
    Ok(listed.iter().filter_map(|object| horizon_of(&object.key)).max())
}

/// Returns the root that is in the name of the horizon `key`. None: `key` is no horizon.
pub(crate) fn horizon_of(key: &str) -> Option<RootId> {
    names::parse_slot(names::HORIZON_DIR, key).map(|(epoch, slot)| RootId { epoch, slot })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    const NONCE: Nonce = [7; 16];

    fn pin() -> Pin {
        Pin {
            kind: PinKind::Snapshot,
            name: "vor dem Umbau; DROP – 'x'\n".to_owned(),
            root: RootId { epoch: 3, slot: 9 },
            wal_end: 44,
            created_ms: 1_764_000_000_000,
            creator: "db1:77".to_owned(),
            position: Position { sequence: 77, ..Position::default() },
            expires_s: None,
        }
    }

    #[test]
    fn a_pin_survives_the_way_to_bytes_and_no_damage_does() {
        for kind in [PinKind::Snapshot, PinKind::Clone, PinKind::History] {
            let expires_s = (kind == PinKind::Clone).then_some(1_798_761_600);
            let pin = Pin { kind, expires_s, ..pin() };
            let bytes = pin.encode(&NONCE);
            assert_eq!(Pin::decode(&bytes).as_ref(), Ok(&pin));
            for bit in 0..bytes.len() * 8 {
                let mut damaged = bytes.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert!(Pin::decode(&damaged).is_err(), "bit {bit}");
            }
        }
        assert!(Pin::decode(&Pin { root: RootId { epoch: 3, slot: 0 }, ..pin() }.encode(&NONCE)).is_err());
    }

    #[test]
    fn the_name_of_a_pin_survives_the_way_to_bytes_and_no_damage_does() {
        let name = SnapshotName { name: pin().name, pin: new_key(&NONCE) };
        let bytes = name.encode(&NONCE);
        assert_eq!(SnapshotName::decode(&bytes).as_ref(), Ok(&name));
        for length in 0..bytes.len() {
            assert!(SnapshotName::decode(&bytes[..length]).is_err());
        }
    }

    #[test]
    fn a_name_gives_one_key_and_a_release_takes_its_pin_along() {
        assert_eq!(SnapshotName::key("a", 0), SnapshotName::key("a", 0));
        assert_ne!(SnapshotName::key("a", 1), SnapshotName::key("A", 1));
        assert_ne!(SnapshotName::key("a", 0), SnapshotName::key("a", 1));
        let object = |key: String| ObjectInfo { key, size: 1, last_modified: SystemTime::UNIX_EPOCH };
        let clone = clone_key("u");
        let gone = release_key(&clone_key("gone"));
        let root = RootId { epoch: 3, slot: 9 };
        let others = [new_key(&NONCE), history_key(root), copy_key(&NONCE)];
        let keys = [clone.clone(), release_key(&clone), gone.clone(), "root/1".into()].into_iter();
        let keys = keys.chain(others.clone()).chain(others.iter().map(|key| release_key(key)));
        assert_eq!(history_root_of(&history_key(root)), Some(root));
        assert_eq!(history_root_of("pin/history-3-9"), None);
        let listed = Listed::among(&keys.map(object).collect::<Vec<_>>());
        assert_eq!(listed.pins, BTreeSet::from(others), "only clones release their pins");
        assert_eq!(listed.released, [gone, clone.clone(), release_key(&clone)]);
        let void: BTreeSet<String> = listed.void.into_iter().collect();
        assert_eq!(void, listed.pins.iter().map(|key| release_key(key)).collect());
    }
}
