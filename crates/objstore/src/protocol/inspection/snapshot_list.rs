//! The list of snapshots and other pins: what each of them keeps, and how much space dropping it would free.

use crate::error::{Result, StoreError};
use crate::protocol::format::image::{self, Image};
use crate::protocol::format::names;
use crate::protocol::gc::{drop_command, with_remedy};
use crate::protocol::history::named::protect::Protections;
use crate::protocol::history::named::snapshot_names::SnapshotNames;
use crate::protocol::history::pin::{self, Listed, Pin, PinKind};
use crate::protocol::history::snapshot::{HISTORY, SNAPSHOT, SnapshotStatus};
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::start::claim::wall_clock_ms;
use crate::requests::bucket::Bucket;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

/// The `kind` of a pin of a program that copies the database, reads its rows or proves that it can be restored.
const COPY: &str = "copy";
/// The `kind` of the pin of a snapshot that has no name.
const UNFINISHED: &str = "unfinished";

/// A pin of these kinds that is older is taken for one that its program has left behind. A copy of 8 TB at 100 MB a
/// second takes a day.
pub(in crate::protocol) const SHORT_LIVED_MAX: Duration = Duration::from_secs(24 * 3600);

impl Inspector {
    /// Returns a row for each pin outside of the history, and one row for all pins of the history together.
    /// The rows of the oldest roots come first. One image at a time is in memory.
    ///
    /// Requests: three LISTs, and those that read the newest root and the root of each pin.
    pub async fn snapshots(&self) -> Result<Vec<SnapshotStatus>> {
        self.identity().await?;
        let listed = Listed::among(&self.bucket().list(names::PIN_DIR, None).await?);
        let mut shares = Shares::default();
        let newest = self.newest_image().await?.map(|(image, _)| image);
        if let Some(image) = &newest {
            shares.add(NO_ROW, image);
        }
        let history = self.history_status(&listed, newest.as_ref()).await?;
        drop(newest);
        for (key, bytes) in history.iter().flat_map(|history| &history.files) {
            shares.add_key(NO_ROW, key, *bytes);
        }
        let pieces = self.bucket().list(names::MANIFEST_DIR, None).await?;
        let records = self.records().await?;
        let mut statuses = Vec::new();
        for key in listed.pins.into_iter().filter(|key| pin::history_root_of(key).is_none()) {
            let pin = match pin::read(self.bucket(), &key).await {
                Err(error) if is_damage(&error) => {
                    statuses.push(unknown(key, &error));
                    continue;
                }
                read => read?,
            };
            let mut status = self.status_of_any(key, &pin, &records).await?;
            status.problem = problem_of_age(&status);
            match image::load(self.bucket(), pin.root).await {
                Err(error) if is_damage(&error) => {
                    status.problem = with_remedy(&error.to_string(), &status.pin);
                }
                loaded => {
                    let image = loaded?;
                    status.files = image.files.len() as u64;
                    status.shared_bytes = shares.add(statuses.len() as u32, &image);
                    if let Some(piece) = image::missing_piece(&pieces, &image.root) {
                        let error = image::lacks_piece(&image.root, &piece);
                        status.problem = with_remedy(&error.to_string(), &status.pin);
                    }
                }
            }
            statuses.push(status);
        }
        shares.tell(&mut statuses);
        records.add_protections(&mut statuses);
        statuses.extend(history.map(|history| history.status));
        statuses.sort_by_key(|status| (status.epoch, status.slot, status.created_ms));
        Ok(statuses)
    }

    /// As [`Inspector::snapshots`], but reads the pins only and not what they keep: in the rows, the numbers
    /// about files are 0, and the absence of a root is no problem.
    ///
    /// Requests: two LISTs, and a GET or two for each pin outside of the history.
    pub async fn pins(&self) -> Result<Vec<SnapshotStatus>> {
        self.identity().await?;
        let listed = Listed::among(&self.bucket().list(names::PIN_DIR, None).await?);
        let records = self.records().await?;
        let (mut statuses, mut has_history) = (Vec::new(), false);
        for key in listed.pins {
            if pin::history_root_of(&key).is_some() && std::mem::replace(&mut has_history, true) {
                continue; // The row of the oldest pin stands for all of them.
            }
            match pin::read(self.bucket(), &key).await {
                Ok(pin) => statuses.push(self.status_of_any(key, &pin, &records).await?),
                Err(error @ StoreError::Corruption(_)) => statuses.push(unknown(key, &error)),
                Err(error) if error.is_not_found() => {} // It was dropped after the listing.
                Err(error) => return Err(error),
            }
        }
        records.add_protections(&mut statuses);
        statuses.sort_by_key(|status| (status.epoch, status.slot, status.created_ms));
        Ok(statuses)
    }

    /// Reads which names and protections snapshots have. Requests: a LIST.
    async fn records(&self) -> Result<Records> {
        let objects = self.bucket().list(names::SNAPSHOT_DIR, None).await?;
        Ok(Records { names: SnapshotNames::among(&objects), protections: Protections::among(&objects) })
    }

    /// Makes the row of a pin of any kind, without the numbers about its files.
    async fn status_of_any(&self, key: String, pin: &Pin, records: &Records) -> Result<SnapshotStatus> {
        let is_finished = pin.kind != PinKind::Snapshot
            || records.names.find(self.bucket(), &pin.name).await?.is_some_and(|named| named.pin == key);
        let status = status_of_pin(key, pin);
        Ok(if is_finished { status } else { SnapshotStatus { kind: UNFINISHED.to_owned(), ..status } })
    }
}

/// Returns a row for each pin of a reader: a state that a server with `atoll_role=reader` shows now, or that one
/// which has died has shown at most [`PIN_LIFE`](crate::protocol::history::mounts::reader::PIN_LIFE) ago. The rows
/// of the oldest states come first.
///
/// Requests: a LIST, and a GET for each of the pins.
pub(in crate::protocol) async fn readers(bucket: &Bucket) -> Result<Vec<SnapshotStatus>> {
    let mut statuses = Vec::new();
    let listed = Listed::among(&bucket.list(names::PIN_DIR, None).await?);
    for key in listed.pins.into_iter().filter(|key| pin::is_reader_key(key)) {
        match pin::read(bucket, &key).await {
            Ok(pin) => statuses.push(status_of_pin(key, &pin)),
            Err(error @ StoreError::Corruption(_)) => statuses.push(unknown(key, &error)),
            Err(error) if error.is_not_found() => {} // Its reader went on after the listing.
            Err(error) => return Err(error),
        }
    }
    statuses.sort_by_key(|status| (status.epoch, status.slot, status.commit_us, status.created_ms));
    Ok(statuses)
}

/// The names and protections of snapshots.
struct Records {
    names: SnapshotNames,
    protections: Protections,
}

impl Records {
    fn add_protections(&self, statuses: &mut [SnapshotStatus]) {
        for status in statuses.iter_mut().filter(|status| status.kind == SNAPSHOT) {
            status.protected_until_s = self.protections.until_s(&status.name, &status.pin);
        }
    }
}

/// Whether `error` is about one pin, so that the others can be shown all the same.
fn is_damage(error: &StoreError) -> bool {
    matches!(error, StoreError::Corruption(_) | StoreError::NotFound { .. })
}

/// Returns the problem of a pin that its program deletes when it has ended, when the pin is older than any such
/// program works. Empty: it has none.
fn problem_of_age(status: &SnapshotStatus) -> String {
    let age = Duration::from_millis(wall_clock_ms().saturating_sub(status.created_ms));
    let is_short_lived = status.kind == COPY || status.kind == UNFINISHED;
    match is_short_lived && age > SHORT_LIVED_MAX {
        true => left_behind(&status.pin, &status.creator, age),
        false => String::new(),
    }
}

/// Makes the text about the pin `key`, which `creator` has made and not deleted for `age`.
pub(in crate::protocol) fn left_behind(key: &str, creator: &str, age: Duration) -> String {
    format!(
        "{creator} made {key} {} hours ago and has not deleted it. If that program has ended, the pin keeps objects for \
         nobody: {}",
        age.as_secs() / 3600,
        drop_command(key)
    )
}

/// Notes for each table file whether one row alone needs it. It is known by a hash of its key, in two halves, so
/// that the files of many snapshots take little memory. Two files with one hash make the numbers a little wrong,
/// and nothing else.
#[derive(Default)]
struct Shares {
    /// The row that needs each file: [`SHARED`] if there are several.
    holders: HashMap<[u32; 2], u32>,
    /// The bytes of the files that each row alone needs, by row.
    alone: HashMap<u32, u64>,
}

/// The holder of files that the newest root or the history needs.
const NO_ROW: u32 = u32::MAX;
/// The holder of files that several roots need.
const SHARED: u32 = u32::MAX - 1;

impl Shares {
    /// Notes that `row` needs the table files of `image`. Returns how many bytes these have. An object that
    /// two file numbers have counts once.
    fn add(&mut self, row: u32, image: &Image) -> u64 {
        let objects: HashMap<&Arc<str>, u64> =
            image.files.values().map(|file| (&file.key, file.size)).collect();
        objects.iter().for_each(|(key, bytes)| self.add_key(row, key, *bytes));
        objects.into_values().sum()
    }

    fn add_key(&mut self, row: u32, key: &Arc<str>, bytes: u64) {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let hash = hasher.finish();
        match self.holders.entry([(hash >> 32) as u32, hash as u32]) {
            Entry::Vacant(holder) => {
                holder.insert(row);
                *self.alone.entry(row).or_default() += bytes;
            }
            Entry::Occupied(mut holder) if *holder.get() != row => {
                let before = holder.insert(SHARED);
                if let Some(alone) = self.alone.get_mut(&before) {
                    *alone = alone.saturating_sub(bytes);
                }
            }
            Entry::Occupied(_) => {}
        }
    }

    /// Divides the bytes of each row, which stand in `shared_bytes`, into those of files that others need as
    /// well, and those of files that the row alone needs.
    fn tell(&self, rows: &mut [SnapshotStatus]) {
        for (row, bytes) in &self.alone {
            if let Some(row) = rows.get_mut(*row as usize) {
                row.alone_bytes += bytes;
                row.shared_bytes = row.shared_bytes.saturating_sub(*bytes);
            }
        }
    }
}

/// Makes the row of a pin, without the numbers about its files.
pub(super) fn status_of_pin(key: String, pin: &Pin) -> SnapshotStatus {
    let kind = match pin.kind {
        PinKind::Snapshot => SNAPSHOT,
        PinKind::Clone if pin::is_copy_key(&key) => COPY,
        PinKind::Clone if pin::mount_epoch_of(&key).is_some() => "mount",
        PinKind::Clone if pin::is_reader_key(&key) => "reader",
        PinKind::Clone => "clone",
        PinKind::History => HISTORY,
    };
    let position = &pin.position;
    SnapshotStatus {
        name: pin.name.clone(),
        kind: kind.to_owned(),
        pin: key,
        epoch: pin.root.epoch,
        slot: pin.root.slot,
        created_ms: pin.created_ms,
        creator: pin.creator.clone(),
        commit_us: (position.time_us != 0).then_some(position.time_us),
        gtid_position: position.gtid_text(),
        binlog: position.binlog,
        files: 0,
        shared_bytes: 0,
        alone_bytes: 0,
        protected_until_s: None,
        expires_s: pin.expires_s,
        problem: String::new(),
    }
}

/// Makes the row of a pin that a newer version wrote, or whose root cannot be read.
fn unknown(key: String, error: &StoreError) -> SnapshotStatus {
    let kind = if pin::history_root_of(&key).is_some() { HISTORY } else { "unknown" };
    SnapshotStatus {
        name: String::new(),
        kind: kind.to_owned(),
        pin: key,
        epoch: 0,
        slot: 0,
        created_ms: 0,
        creator: String::new(),
        commit_us: None,
        gtid_position: String::new(),
        binlog: None,
        files: 0,
        shared_bytes: 0,
        alone_bytes: 0,
        protected_until_s: None,
        expires_s: None,
        problem: error.to_string(),
    }
}

/// Makes the row of the snapshot of `image` that was just made. All of its files are shared with the newest
/// root.
pub(in crate::protocol) fn status_of_new(key: String, pin: &Pin, image: &Image) -> SnapshotStatus {
    let shared_bytes = Shares::default().add(NO_ROW, image);
    SnapshotStatus { files: image.files.len() as u64, shared_bytes, ..status_of_pin(key, pin) }
}
