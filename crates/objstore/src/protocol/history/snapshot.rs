//! Snapshots: named pins that keep the state that the bucket had at one moment. Any program can create and
//! drop them, beside a running owner or without one; `atollctl snapshot` shows them.
//!
//! A snapshot keeps one root, and the later log as far as it was in the bucket at that moment. So it has the
//! commits that a restore at that moment would have found, each of them completely.

use crate::error::{Result, StoreError};
use crate::protocol::format::image::{self, Image};
use crate::protocol::format::names;
use crate::protocol::format::records::RootId;
use crate::protocol::history::log_cut::Cut;
use crate::protocol::history::named::snapshot_names::{Named, SnapshotNames};
use crate::protocol::history::pin::{self, Listed, Pin, PinKind};
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::inspection::snapshot_list::status_of_new;
use crate::protocol::inspection::verify::VerifyReport;
use crate::protocol::start::claim::wall_clock_ms;
use crate::protocol::start::local::random_nonce;
use crate::protocol::wal::marks::{BinlogPosition, CommitReader};
use crate::protocol::wal::position::{NotedCommit, Position, Tracker};
use crate::requests::bucket::SlotOutcome;
use serde::Serialize;

/// The most bytes that the name of a snapshot can have.
pub const SNAPSHOT_NAME_BYTES_MAX: usize = 1024;

/// How many times the creation of a snapshot is attempted. It fails if the pin comes too late, because the
/// collector no longer keeps its root. But the collector keeps each root that was the newest within the last
/// minute, so a second attempt is already rare.
const TRIES_MAX: u32 = 8;

/// The `kind` of the row that stands for all pins of the history.
pub(in crate::protocol) const HISTORY: &str = "history";

/// The `kind` of the row of a snapshot.
pub(in crate::protocol) const SNAPSHOT: &str = "snapshot";

/// A row in the list of snapshots. It describes a snapshot, the state that another pin keeps (for example for
/// a clone), or all of the history.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct SnapshotStatus {
    /// The name of the snapshot; for a clone, where the clone is; for the history, empty.
    pub name: String,
    /// `snapshot`; `clone`; `mount`: the server has mounted the state as the schema of that name, or has
    /// died; `reader`: a reader shows the state, or has died; `copy`: a process that copies the database, reads its rows or proves that it can be restored is
    /// at work or has died; `history`: every commit after the one shown can be restored; `unfinished`: a
    /// process is making the snapshot, or has died while it did; `unknown`: the pin cannot be read.
    pub kind: String,
    /// The key of the pin that keeps the state; for the history the key of its oldest pin.
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
    /// Unix time in seconds from which on the clone is not needed any more; None: nobody has said when.
    pub expires_s: Option<u64>,
    /// Why the pin or its root cannot be read; empty when all is well. While there is a pin that this version
    /// cannot decode, or a snapshot or a clone whose root is gone, the collector deletes nothing (GC-9).
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
    /// kind `unfinished` may be left, which keeps the same objects as the snapshot would. Requests:
    /// those that read the newest root and its log, two PUTs and two LISTs; a DELETE if there was a snapshot of this
    /// name.
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
            "no snapshot was made: {TRIES_MAX} times the newest root was replaced before its pin came. The requests of this machine take longer than the \
             time for which the owner keeps a root that it no longer needs"
        )))
    }

    /// Makes the snapshot `name` of `moment`. None: the pin came too late, because the collector may have
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
        Ok(Some(status_of_new(key, &pin, &moment.image)))
    }

    /// Drops the snapshot `name`. The collector of the database's owner then deletes the objects that only
    /// this snapshot kept.
    ///
    /// Errors: `NotFound`; `Invalid` while it is protected. Requests: a GET, four LISTs, a PUT and two DELETEs.
    pub async fn drop_snapshot(&self, name: &str) -> Result<()> {
        let found = self.named(name, "dropping").await?;
        self.check_unprotected(name, &found.pin).await?;
        self.unname(&found).await?;
        // Rule PROTECT-1: another program may have protected the snapshot since the first check. Then the
        // snapshot gets its name back, in the next generation (NAME-2).
        if let Err(error) = self.check_unprotected(name, &found.pin).await {
            if !self.name_pin(name, &found.pin).await? {
                return Err(StoreError::Invalid(format!(
                    "{error}. Meanwhile another snapshot has got its name, so it has none. Its pin {} is kept",
                    found.pin
                )));
            }
            return Err(error);
        }
        self.bucket().delete(&found.key).await?;
        self.bucket().delete(&found.pin).await?;
        self.forget_protections(name, &found.pin).await
    }

    /// Drops the pin `key`, whatever it keeps, even if this version cannot decode it.
    ///
    /// Errors: `NotFound`; `Invalid` for a key that is not a pin's, and for the pin of a protected
    /// snapshot. Requests: a HEAD, GETs, LISTs and a DELETE; for the pin of a snapshot those of
    /// [`Self::drop_snapshot`].
    pub async fn drop_pin(&self, key: &str) -> Result<()> {
        if !key.starts_with(names::PIN_DIR) {
            return Err(StoreError::Invalid(format!(
                "{key} is no pin: the keys of pins begin with {}",
                names::PIN_DIR
            )));
        }
        self.bucket().head(key).await?;
        self.check_pin_unprotected(key).await?;
        // Rule PROTECT-1: the pin of a snapshot goes together with the name, because a program that protects
        // the snapshot looks for the name.
        match self.snapshot_of(key).await? {
            Some(name) => self.drop_snapshot(&name).await,
            None => self.bucket().delete(key).await,
        }
    }

    /// Returns the name of the snapshot whose pin is `key`. None: no snapshot has this pin.
    pub(in crate::protocol) async fn snapshot_of(&self, key: &str) -> Result<Option<String>> {
        let pin = match pin::read(self.bucket(), key).await {
            Ok(pin) if pin.kind == PinKind::Snapshot => pin,
            Ok(_) | Err(StoreError::Corruption(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let named = SnapshotNames::list(self.bucket()).await?.find(self.bucket(), &pin.name).await?;
        Ok(named.filter(|named| named.pin == key).map(|_| pin.name))
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

    /// Returns the snapshot `name`, after a check that its pin exists. Errors: `NotFound`.
    pub(in crate::protocol) async fn snapshot_pin(&self, name: &str) -> Result<Named> {
        let named = self.named(name, "protecting").await?;
        self.bucket().head(&named.pin).await.map(|_| named)
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
            expires_s: None,
        }
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
