//! Snapshots: named pins that keep the state that the bucket had at one moment. Any program can create and
//! drop them, beside a running owner or without one; `atollctl snapshot` shows them.
//!
//! A snapshot keeps one root, and the later log as far as it was in the bucket at that moment. So it has the
//! commits that a restore at that moment would have found, each of them completely.

use crate::error::{Result, StoreError};
use crate::files::FileRecord;
use crate::protocol::format::image::{self, Image};
use crate::protocol::format::names;
use crate::protocol::format::records::RootId;
use crate::protocol::history::log_cut::Cut;
use crate::protocol::history::pin::{self, Listed, Pin, PinKind, SnapshotName};
use crate::protocol::history::protect::Protections;
use crate::protocol::inspection::inspect::{Inspector, VerifyReport};
use crate::protocol::start::claim::wall_clock_ms;
use crate::protocol::start::local::random_nonce;
use crate::protocol::wal::marks::{BinlogPosition, CommitReader};
use crate::protocol::wal::position::{NotedCommit, Position, Tracker};
use crate::requests::bucket::SlotOutcome;
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The most bytes that the name of a snapshot can have.
pub const SNAPSHOT_NAME_BYTES_MAX: usize = 1024;

/// How many times the creation of a snapshot is tried. A try fails if the pin comes too late, because the
/// collector no longer keeps its root. But the collector keeps each root that was the newest within the last
/// minute, so a second try is already rare.
const TRIES_MAX: u32 = 8;

/// The `kind` of the row that stands for all pins of the history.
pub(in crate::protocol) const HISTORY: &str = "history";

/// The `kind` of the row of a snapshot.
const SNAPSHOT: &str = "snapshot";

/// A row in the list of snapshots. It describes a snapshot, the state that another pin keeps (for example for
/// a clone), or all of the history.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct SnapshotStatus {
    /// The name of the snapshot; for a clone, where the clone is; for the history, empty.
    pub name: String,
    /// `snapshot`; `clone`; `mount`: the server has mounted the state as the schema of that name, or has
    /// died; `copy`: a process that copies the database, reads its rows or proves that it can be restored is
    /// at work or has died; `history`: every commit after the one shown can be restored; `unfinished`: a
    /// process is making the snapshot, or has died while it did; `unknown`: the pin cannot be read.
    pub kind: String,
    /// The key of the pin that keeps the state; for the history that of its oldest pin.
    pub pin: String,
    pub epoch: u64,
    pub slot: u64,
    /// Unix time in milliseconds, by the clock of the machine that made the pin.
    pub created_ms: u64,
    pub creator: String,
    /// When the newest commit of the state was made, in microseconds since 1970; None: the state has no
    /// commit.
    pub commit_us: Option<u64>,
    pub gtid_position: String,
    pub binlog: Option<BinlogPosition>,
    pub files: u64,
    /// Bytes of the table files that the newest root or another pin needs as well.
    pub shared_bytes: u64,
    /// Bytes of the table files that only this pin needs, so that dropping it frees them. For the history,
    /// its log and its other records count as well.
    pub alone_bytes: u64,
    /// Unix time in seconds before which Atoll refuses to drop the snapshot; None: it was never protected.
    pub protected_until_s: Option<u64>,
    /// Why the pin or its root cannot be read; empty when all is well. While there is a pin that this version
    /// cannot decode, the collector deletes nothing. A pin whose root is gone keeps nothing.
    pub problem: String,
}

/// A state that a pin can keep: a root, and the later log up to `wal_end`.
pub(in crate::protocol) struct Moment {
    pub(in crate::protocol) image: Image,
    pub(in crate::protocol) wal_end: u64,
    pub(in crate::protocol) position: Position,
    /// Where the log of the state ends inside its last chunk. None: the whole last chunk belongs to the
    /// state.
    pub(in crate::protocol) cut: Option<Cut>,
}

impl Inspector {
    /// Makes the snapshot `name` of the newest state in the bucket. Returns its row, in which all files are
    /// shared with the newest root.
    ///
    /// Errors: `Invalid` for a name that exists, is empty or longer than [`SNAPSHOT_NAME_BYTES_MAX`];
    /// `NotFound` without a database or a root; `Unavailable` when the outcome is not known. Then a pin of
    /// kind `unfinished` is possibly left, which keeps the same objects as the snapshot would. Requests:
    /// those that read the newest root and its log, two PUTs and a LIST.
    pub async fn create_snapshot(&self, name: &str, creator: &str) -> Result<SnapshotStatus> {
        check_name(name)?;
        self.identity().await?;
        for _ in 0..TRIES_MAX {
            let moment = self.moment().await?;
            if let Some(made) = self.hold(&moment, name, creator).await? {
                return Ok(made);
            }
        }
        Err(StoreError::Unavailable(format!(
            "the newest root was superfluous {TRIES_MAX} times before it was held: the requests of this machine take longer than the \
             time for which the owner keeps what it does not need"
        )))
    }

    /// Makes the snapshot `name` of `moment`. None: the pin came too late, because the collector has possibly
    /// deleted objects of the root already. Then no snapshot and no pin is left. Errors: `Invalid` for a name
    /// that is taken.
    pub(in crate::protocol) async fn hold(
        &self,
        moment: &Moment,
        name: &str,
        creator: &str,
    ) -> Result<Option<SnapshotStatus>> {
        let pin = moment.pin(PinKind::Snapshot, name, creator);
        let key = pin::new_key(&random_nonce()?);
        self.put_pin(&key, &pin).await?;
        if !self.is_above_horizon(pin.root).await? {
            self.bucket().delete(&key).await?;
            return Ok(None);
        }
        if !self.name_pin(name, &key).await? {
            self.bucket().delete(&key).await?;
            return Err(StoreError::Invalid(format!("there is a snapshot '{name}' already")));
        }
        Ok(Some(status_of(key, &pin, &moment.image, &Shares::with_newest(&moment.image))))
    }

    /// Drops the snapshot `name`. The collector of the database's owner then deletes the objects that only
    /// this snapshot kept.
    ///
    /// Errors: `NotFound`; `Invalid` while it is protected. Requests: a GET, three LISTs and two DELETEs.
    pub async fn drop_snapshot(&self, name: &str) -> Result<()> {
        let found = self.named(name, "dropping").await?;
        self.check_unprotected(name).await?;
        // The name is deleted before the pin. If the pin were deleted first, the name would be free at once.
        // Then another program could create a snapshot of this name, and this DELETE would take the name away
        // from it.
        self.bucket().delete(&SnapshotName::key(name)).await?;
        // Rule PROTECT-1: another program has possibly protected the snapshot since the first check. Then the
        // snapshot gets its name back.
        if let Err(error) = self.check_unprotected(name).await {
            self.name_pin(name, &found.pin).await?;
            return Err(error);
        }
        self.bucket().delete(&found.pin).await?;
        self.forget_protections(name).await
    }

    /// Drops the pin `key`, whatever it keeps, even if this version cannot decode it.
    ///
    /// Errors: `NotFound`; `Invalid` for a key that is not a pin's, and for the pin of a protected
    /// snapshot. Requests: a HEAD, a GET, a LIST and a DELETE.
    pub async fn drop_pin(&self, key: &str) -> Result<()> {
        if !key.starts_with(names::PIN_DIR) {
            return Err(StoreError::Invalid(format!("{key} is no pin: those begin with {}", names::PIN_DIR)));
        }
        self.bucket().head(key).await?;
        self.check_pin_unprotected(key).await?;
        self.bucket().delete(key).await
    }

    /// Returns a row for each pin outside of the history, and one row for all pins of the history together.
    /// The rows of the oldest roots come first.
    ///
    /// Requests: two LISTs, and those that read the newest root and that of each pin.
    pub async fn snapshots(&self) -> Result<Vec<SnapshotStatus>> {
        self.identity().await?;
        let listed = Listed::among(&self.bucket().list(names::PIN_DIR, None).await?);
        let mut shares = Shares::default();
        let newest = self.newest_image().await?.map(|(image, _)| image);
        if let Some(image) = &newest {
            shares.add(image);
        }
        let history = self.history_status(&listed, newest.as_ref()).await?;
        for key in history.iter().flat_map(|history| &history.files) {
            shares.add_key(key);
        }
        let mut pinned = Vec::new();
        for key in listed.pins.into_iter().filter(|key| pin::history_root_of(key).is_none()) {
            match self.pinned(&key).await {
                Ok((pin, image)) => {
                    let is_named = pin.kind == PinKind::Clone || self.is_named(&key, &pin).await?;
                    shares.add(&image);
                    pinned.push((key, Ok((pin, image, is_named))));
                }
                Err(error @ (StoreError::Corruption(_) | StoreError::NotFound { .. })) => {
                    pinned.push((key, Err(error)));
                }
                Err(error) => return Err(error),
            }
        }
        let status = |(key, found): (String, Result<(Pin, Image, bool)>)| match found {
            Ok((pin, image, true)) => status_of(key, &pin, &image, &shares),
            Ok((pin, image, false)) => {
                SnapshotStatus { kind: "unfinished".to_owned(), ..status_of(key, &pin, &image, &shares) }
            }
            Err(error) => unknown(key, &error),
        };
        let mut statuses: Vec<SnapshotStatus> = pinned.into_iter().map(status).collect();
        let protections = Protections::read(self.bucket()).await?;
        for status in statuses.iter_mut().filter(|status| status.kind == SNAPSHOT) {
            status.protected_until_s = protections.until_s(&status.name);
        }
        statuses.extend(history.map(|history| history.status));
        statuses.sort_by_key(|status| (status.epoch, status.slot, status.created_ms));
        Ok(statuses)
    }

    /// Verifies the root that the snapshot `name` keeps, as [`Inspector::verify`] verifies the newest root.
    pub async fn verify_snapshot(
        &self,
        name: &str,
        deep: bool,
        progress: impl Fn(u64, u64),
    ) -> Result<VerifyReport> {
        let (_, pin, image) = self.snapshot_image(name).await?;
        self.verify_image(&image, Some(pin.wal_end), deep, &progress).await
    }

    /// Returns the key of the pin of the snapshot `name`, the pin itself, and its root. Errors: `NotFound`.
    pub(in crate::protocol) async fn snapshot_image(&self, name: &str) -> Result<(String, Pin, Image)> {
        let found = self.named(name, "reading").await?;
        let (pin, image) = self.pinned(&found.pin).await?;
        Ok((found.pin, pin, image))
    }

    /// Reads the newest root and the roots of all pins. Errors: also for a pin that cannot be read.
    pub(in crate::protocol) async fn all_images(&self) -> Result<Vec<Image>> {
        let listed = Listed::among(&self.bucket().list(names::PIN_DIR, None).await?);
        let mut images: Vec<Image> = self.newest_image().await?.into_iter().map(|(image, _)| image).collect();
        for key in listed.pins {
            images.push(self.pinned(&key).await?.1);
        }
        Ok(images)
    }

    /// Returns the key of the pin of the snapshot `name`, after a check that the pin exists. Errors:
    /// `NotFound`.
    pub(in crate::protocol) async fn snapshot_pin(&self, name: &str) -> Result<String> {
        let pin = self.named(name, "protecting").await?.pin;
        self.bucket().head(&pin).await.map(|_| pin)
    }

    async fn named(&self, name: &str, operation: &'static str) -> Result<SnapshotName> {
        SnapshotName::read(self.bucket(), name).await.map_err(|error| match error {
            error if error.is_not_found() => {
                StoreError::NotFound { operation, object: format!("snapshot '{name}'") }
            }
            error => error,
        })
    }

    /// Creates the record that gives the pin `pin` the name `name`. False: another snapshot has that name. A
    /// record whose pin is gone does not count and is deleted: the request that created it came late, after
    /// its program had given up.
    async fn name_pin(&self, name: &str, pin: &str) -> Result<bool> {
        let (key, record) =
            (SnapshotName::key(name), SnapshotName { name: name.to_owned(), pin: pin.to_owned() });
        for _ in 0..TRIES_MAX {
            let nonce = random_nonce()?;
            match self.bucket().create_slot(&key, record.encode(&nonce).into(), &nonce).await? {
                SlotOutcome::Mine => return Ok(true),
                SlotOutcome::Lost(_) => {}
            }
            let other = self.named(name, "reading").await?.pin;
            match self.bucket().head(&other).await {
                Ok(_) => return Ok(other == pin),
                Err(error) if error.is_not_found() => self.bucket().delete(&key).await?,
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Whether the record with the snapshot's name exists and names the pin `key`. False: the snapshot is not
    /// finished, or another snapshot has its name.
    async fn is_named(&self, key: &str, pin: &Pin) -> Result<bool> {
        match SnapshotName::read(self.bucket(), &pin.name).await {
            Ok(name) => Ok(name.pin == key),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the keys of the objects that the snapshot `name` needs.
    #[cfg(test)]
    pub(in crate::protocol) async fn snapshot_keys(
        &self,
        name: &str,
    ) -> Result<std::collections::HashSet<String>> {
        let keys =
            crate::protocol::gc::keys_of_pin(self.bucket(), &self.named(name, "reading").await?.pin).await?;
        Ok(keys.iter().map(|key| key.as_ref().to_owned()).collect())
    }

    /// Reads the pin `key` and its root.
    async fn pinned(&self, key: &str) -> Result<(Pin, Image)> {
        let pin = pin::read(self.bucket(), key).await?;
        let image = image::load(self.bucket(), pin.root).await?;
        Ok((pin, image))
    }

    /// Creates the pin `key`. False: there is another pin with this key.
    pub(in crate::protocol) async fn put_pin(&self, key: &str, pin: &Pin) -> Result<bool> {
        let nonce = random_nonce()?;
        let outcome = self.bucket().create_slot(key, pin.encode(&nonce).into(), &nonce).await?;
        Ok(outcome == SlotOutcome::Mine)
    }

    /// Rule PIN-1: whether a pin of `root`, which is in the bucket already, was created in time. This is so
    /// when no horizon is above `root`: then the collector has deleted nothing that `root` needs, and will
    /// not.
    pub(in crate::protocol) async fn is_above_horizon(&self, root: RootId) -> Result<bool> {
        Ok(pin::horizon(self.bucket()).await? <= Some(root))
    }

    /// Reads the newest root, and how far the later log is in the bucket. A running owner can delete objects
    /// while they are read. Then the owner has a newer root, and this function reads that one.
    ///
    /// Errors: `NotFound` without a root.
    pub(in crate::protocol) async fn moment(&self) -> Result<Moment> {
        let mut tried = None;
        loop {
            let Some((newest, _)) = self.newest_id().await? else {
                let object = format!("a root in {}: nothing was published yet", self.bucket().place());
                return Err(StoreError::NotFound { operation: "reading", object });
            };
            match self.try_moment().await {
                Err(StoreError::Corruption(_) | StoreError::NotFound { .. }) if tried != Some(newest) => {
                    tried = Some(newest);
                }
                outcome => return outcome,
            }
        }
    }

    async fn try_moment(&self) -> Result<Moment> {
        let newest = self.newest_image().await?;
        let (image, end) = newest.ok_or_else(|| StoreError::Bug("the newest root is gone".to_owned()))?;
        self.moment_of(image, end).await
    }

    pub(in crate::protocol) async fn moment_of(&self, image: Image, end: Option<u64>) -> Result<Moment> {
        let root = &image.root;
        let mut commits = Tracker::new(root.position.clone().unwrap_or_default());
        let mut reader = CommitReader::new();
        let wal_end = image::read_wal(self.bucket(), root, end, |chunk| {
            if chunk.log >= root.wal_min {
                for commit in reader.read(chunk.log, &chunk.bytes)? {
                    commits.note(&NotedCommit::from(&commit));
                }
            }
            Ok(())
        })
        .await?;
        let position = commits.position().clone();
        Ok(Moment { image, wal_end, position, cut: None })
    }
}

impl Moment {
    pub(in crate::protocol) fn pin(&self, kind: PinKind, name: &str, creator: &str) -> Pin {
        Pin {
            kind,
            name: name.to_owned(),
            root: self.image.root.id,
            wal_end: self.wal_end,
            created_ms: wall_clock_ms(),
            creator: creator.to_owned(),
            position: self.position.clone(),
        }
    }
}

/// Counts for each table file how many roots need it: the newest root, the roots of pins, and the history as
/// one root.
#[derive(Default)]
struct Shares {
    holders: HashMap<Arc<str>, u32>,
}

impl Shares {
    /// Returns the counts for a snapshot that has just been made of the newest root: two roots need each
    /// file.
    fn with_newest(image: &Image) -> Self {
        let mut shares = Self::default();
        shares.add(image);
        shares.add(image);
        shares
    }

    /// Counts the table files of `image`. An object that two file numbers have counts once.
    fn add(&mut self, image: &Image) {
        let keys: HashSet<&Arc<str>> = image.files.values().map(|file| &file.key).collect();
        keys.into_iter().for_each(|key| self.add_key(key));
    }

    fn add_key(&mut self, key: &Arc<str>) {
        *self.holders.entry(Arc::clone(key)).or_default() += 1;
    }

    /// Returns the bytes of the table files of `image` that other roots need as well, and of those that only
    /// `image` needs.
    fn split(&self, image: &Image) -> (u64, u64) {
        let is_shared = |key| self.holders.get(key).is_some_and(|holders| *holders > 1);
        let objects: HashMap<&Arc<str>, &FileRecord> =
            image.files.values().map(|file| (&file.key, file)).collect();
        objects.into_values().fold((0, 0), |(shared, alone), file| match is_shared(&file.key) {
            true => (shared + file.size, alone),
            false => (shared, alone + file.size),
        })
    }
}

fn status_of(key: String, pin: &Pin, image: &Image, shares: &Shares) -> SnapshotStatus {
    let (shared_bytes, alone_bytes) = shares.split(image);
    SnapshotStatus { files: image.files.len() as u64, shared_bytes, alone_bytes, ..status_of_pin(key, pin) }
}

/// Makes the row of a pin, without the numbers about its files.
pub(in crate::protocol) fn status_of_pin(key: String, pin: &Pin) -> SnapshotStatus {
    let kind = match pin.kind {
        PinKind::Snapshot => SNAPSHOT,
        PinKind::Clone if pin::is_copy_key(&key) => "copy",
        PinKind::Clone if pin::mount_epoch_of(&key).is_some() => "mount",
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
        problem: String::new(),
    }
}

/// Makes the row of a pin that a newer version wrote, or whose root cannot be read.
fn unknown(key: String, error: &StoreError) -> SnapshotStatus {
    SnapshotStatus {
        name: String::new(),
        kind: "unknown".to_owned(),
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
        problem: error.to_string(),
    }
}

pub(in crate::protocol) fn check_name(name: &str) -> Result<()> {
    match name.len() {
        1..=SNAPSHOT_NAME_BYTES_MAX => Ok(()),
        0 => Err(StoreError::Invalid("a snapshot needs a name".to_owned())),
        bytes => Err(StoreError::Invalid(format!(
            "the name of a snapshot has at most {SNAPSHOT_NAME_BYTES_MAX} bytes, this one has {bytes}"
        ))),
    }
}
