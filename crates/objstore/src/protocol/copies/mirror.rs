//! Makes a copy of a database in another bucket, another service or another directory, and brings it up to
//! date in later rounds.
//!
//! ```text
//! source   pin the state                       no file of it is deleted while it is copied
//! target   refuse the target unless it is empty, or a program copying this database claimed its newest epoch
//!          claim epoch E, read the claim of E-1, close the former epochs, create root/E/0
//!          copy the table files that the target lacks: adopt.rs
//!          copy MANIFEST and log, write the file map; create root/E/1     now the copy has the pinned state
//!          create db.json, the first time                                 now the target is a database
//!          create a horizon record (pin.rs), list the pins, delete what root/E/1 does not need
//! source   delete the pin
//! ```
//!
//! MIRROR-1: a copy always has one complete state of the source: the state of the round before, until
//!     `root/E/1` exists. So the copying program can die at any point. The next one reuses the files that the target has
//!     (ADOPT-1).
//! MIRROR-2: a copy that a server has opened is a database of its own, and no copying program writes to it
//!     again. Epochs are claimed one after the other, so a copying program that claims E can read who claimed
//!     E-1. A server that opens a copy while a copying program works on it fences that program.
//! MIRROR-3: a copying program deletes only objects that were made in its own epoch or an earlier one and
//!     that neither its root nor the pins need. It does so only while its root is the newest.

use crate::error::{Result, StoreError};
use crate::files::FileRecord;
use crate::protocol::copies::adopt::{Adopted, COPIES, Copier, Progress, claimer, copier_id};
use crate::protocol::copies::left_behind::LeftBehind;
use crate::protocol::format::image;
use crate::protocol::format::names;
use crate::protocol::format::records::RootId;
use crate::protocol::gc::{epoch_of, held_among};
use crate::protocol::history::clone::{CloneRequest, Pins, refuse_nested};
use crate::protocol::history::past::Past;
use crate::protocol::history::pin;
use crate::protocol::history::snapshot::Moment;
use crate::protocol::history::state_copy;
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::inspection::table_names;
use crate::protocol::kept_settings;
use crate::protocol::publish::map_record::object_bytes;
use crate::protocol::start::claim::{StopAfter, close_and_claim, newest_epoch, take_epoch, wall_clock_ms};
use crate::protocol::start::home::Home;
use crate::protocol::start::identity::{self, Identity, Parent};
use crate::protocol::start::local::random_nonce;
use crate::requests::bucket::Bucket;
use crate::requests::upload::stream::Pace;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

const PARALLEL_DELETES: usize = 8;

/// What [`Inspector::copy_to`] is asked to copy, and how fast.
#[derive(Debug)]
pub struct CopyRequest {
    /// The state to copy. None: the newest state in the bucket.
    pub past: Option<Past>,
    /// Where the copy is. `atollctl snapshot list` of the source shows this text while the copy is being
    /// made.
    pub place: String,
    /// The name of the program that copies. It is written into its claims and pins, for people.
    pub creator: String,
    /// True: later rounds are to bring the copy up to date. False: the copy is made once; a target that has a
    /// database already is refused.
    pub stays_in_step: bool,
    /// True: no server opens the tables of the copy before it has masked their rows (rule MASK-3).
    pub must_mask: bool,
    /// The limit of the copy rate.
    pub pace: Pace,
}

/// The state that a copy has after a round, and what was copied and deleted for it.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct CopyStatus {
    /// The UUID of the copy. It is not the source's, because the copy is a database of its own.
    pub db_uuid: String,
    /// The state of the source that the copy has: epoch and slot of a root, and the number of the first log
    /// chunk that does not belong to the state.
    pub source_root: (u64, u64),
    pub source_log_end: u64,
    /// When the newest commit in the copy was made, in microseconds since 1970; None: the copy has
    /// no commit.
    pub commit_us: Option<u64>,
    pub gtid_position: String,
    pub files: u64,
    pub files_bytes: u64,
    pub adopted: Adopted,
    /// Bytes of MANIFEST and log that were copied.
    pub copied_log_bytes: u64,
    /// How many objects of the target were deleted because only former rounds needed them.
    pub deleted_objects: u64,
    /// True: the copy had this state already, so nothing was done.
    pub is_unchanged: bool,
    /// What of the source the copy does not have. Empty for a copy that is made once.
    pub left_behind: LeftBehind,
}

/// The content of `hint/copied`: which state of the source the copy has. Without it, the same state is copied
/// once more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Copied {
    source_root: (u64, u64),
    source_log_end: u64,
    epoch: u64,
    copied_ms: u64,
}

impl Inspector {
    /// Brings the copy in `target` to the state of this database. Makes the copy if there is none.
    ///
    /// Errors: `Invalid` when `target` holds something else than a copy of this database, when a server has
    /// opened the copy, or when another program that copies to `target` was faster; `NotFound`; `Corruption`
    /// when the source is damaged, with the name of the object; `NoSpace`; `Fenced`. After an error the copy
    /// has the state of this round or of the one before; the caller may repeat the call. Requests: those that
    /// read the state; for each new file a GET and a PUT per 16 MiB; a LIST of the target; a DELETE for each
    /// object that the target does not need.
    pub async fn copy_to(
        &self,
        target: &Bucket,
        request: &CopyRequest,
        progress: Progress<'_>,
    ) -> Result<CopyStatus> {
        let source = self.identity().await?;
        if self.bucket().place() == target.place() || target.is_directory() && self.bucket().is_directory() {
            refuse_nested(self.bucket(), target)?;
        }
        let purpose = purpose(&source, request);
        let existing = check_target(target, &source, &purpose, request.stays_in_step).await?;
        let left_behind =
            if request.stays_in_step { self.left_behind().await? } else { LeftBehind::default() };
        let key = pin::copy_key(&random_nonce()?);
        let mut pins = Pins::default();
        let outcome = async {
            let (past, place) = (request.past.clone(), format!("copy in {}", request.place));
            let clone = CloneRequest {
                past,
                place,
                creator: request.creator.clone(),
                discards_unfinished: false,
                expires_s: None,
            };
            let moment = self.pin_for_clone(&key, &clone, &mut pins).await?;
            if let Some(identity) = &existing
                && let Some(epoch) = has_already(target, &moment).await?
            {
                kept_settings::copy(self.bucket(), target, &request.creator).await?;
                self.drop_other_pins(&key, &clone.place, target, epoch).await?;
                return Ok(CopyStatus { is_unchanged: true, ..status_of(&identity.db_uuid, &moment) });
            }
            let server_id = copier_id(&purpose, &request.creator);
            let epoch = take_epoch(target, &server_id, &Home::default()).await?.number;
            let from = Some((self.bucket(), &request.pace));
            let copier = Copier { bucket: target, epoch, server_id, from, progress };
            let copied = self.copy_in(&copier, request, &source, existing, &moment).await;
            match copied {
                Ok(_) => self.drop_other_pins(&key, &clone.place, target, epoch).await?,
                Err(_) => copier.leave().await,
            }
            copied
        }
        .await;
        pins.take_back().await;
        outcome.map(|status| CopyStatus { left_behind, ..status })
    }

    async fn copy_in(
        &self,
        copier: &Copier<'_>,
        request: &CopyRequest,
        source: &Identity,
        existing: Option<Identity>,
        moment: &Moment,
    ) -> Result<CopyStatus> {
        let Copier { bucket: target, epoch, .. } = *copier;
        // Rule MIRROR-2: if a server claimed the epoch before, the copy has become a database of its own and
        // is refused.
        if epoch > 1 {
            check_claimer(target, epoch - 1, &purpose(source, request)).await?;
        }
        let base = close_and_claim(target, epoch, &copier.server_id, StopAfter::Nothing).await?.base;
        let named = match base {
            Some(base) => image::load(target, base).await?.files.into_iter().collect(),
            None => BTreeMap::new(),
        };
        let files: BTreeMap<u64, FileRecord> =
            moment.image.files.iter().map(|(number, file)| (*number, file.clone())).collect();
        let (files, adopted) = copier.adopt(&files, &named, base.map_or(0, |base| base.epoch)).await?;
        let copied_log_bytes =
            state_copy::write(self.bucket(), target, epoch, moment, &files, &copier.server_id).await?;
        let db_uuid = match existing {
            Some(identity) => identity.db_uuid,
            None => create_identity(target, source, moment.image.root.id, request.must_mask).await?,
        };
        if request.stays_in_step {
            kept_settings::copy(self.bucket(), target, &request.creator).await?;
        }
        note(target, epoch, moment).await?;
        table_names::pass_on(self.bucket(), target).await;
        let deleted_objects = sweep(target, epoch).await?;
        Ok(CopyStatus { adopted, copied_log_bytes, deleted_objects, ..status_of(&db_uuid, moment) })
    }

    /// Deletes the pins that other copying programs with the target `place` left in the source, unless a program has
    /// claimed a later epoch of `target` than `epoch`, in which this state of the copy was made: that program may be at
    /// work, and the others have died or are fenced. (One that has not claimed an epoch yet fails, and can be repeated.)
    async fn drop_other_pins(&self, own: &str, place: &str, target: &Bucket, epoch: u64) -> Result<()> {
        if newest_epoch(target).await? != epoch {
            return Ok(());
        }
        let listed = self.bucket().list(names::PIN_DIR, None).await?;
        for key in listed.into_iter().map(|object| object.key) {
            if key == own || !pin::is_copy_key(&key) {
                continue;
            }
            match pin::read(self.bucket(), &key).await {
                Ok(pin) if pin.name == place => self.bucket().delete(&key).await?,
                Ok(_) | Err(StoreError::NotFound { .. } | StoreError::Corruption(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Returns the beginning of the name with which a program that copies the database `source` claims epochs in
/// the target.
fn purpose(source: &Identity, request: &CopyRequest) -> String {
    match request.stays_in_step {
        true => format!("{COPIES} {}", source.db_uuid),
        false => format!("{COPIES} {} as a clone", source.db_uuid),
    }
}

/// Returns the identity of the copy in `target`. None: `target` is empty, or the first round has not created
/// `db.json` yet. Errors: `Invalid` when `source` must not be copied there.
async fn check_target(
    target: &Bucket,
    source: &Identity,
    purpose: &str,
    stays_in_step: bool,
) -> Result<Option<Identity>> {
    let refused = |what: String| Err(StoreError::Invalid(format!("{} holds {what}", target.place())));
    let existing = identity::read(target).await?;
    if let Some(identity) = &existing {
        let is_copy = |parent: &Parent| parent.origins.is_empty() && parent.db_uuid == source.db_uuid;
        if !stays_in_step || !identity.parent.as_ref().is_some_and(is_copy) {
            return refused(format!(
                "the database {}, which is no copy of {}",
                identity.db_uuid, source.db_uuid
            ));
        }
    }
    let newest = newest_epoch(target).await?;
    if newest > 0 {
        check_claimer(target, newest, purpose).await?;
    } else if let Some(object) = target.list("", None).await?.first() {
        return refused(format!("other objects ({})", object.key));
    }
    Ok(existing)
}

/// Checks that a copying program with this purpose claimed `epoch`, and not a server (rule MIRROR-2). Errors:
/// `Invalid` if somebody else claimed it.
async fn check_claimer(target: &Bucket, epoch: u64, purpose: &str) -> Result<()> {
    let claimer = claimer(target, epoch).await?.unwrap_or_else(|| "somebody unknown".to_owned());
    if claimer.strip_prefix(purpose).is_some_and(|rest| rest.starts_with(" by ")) {
        return Ok(());
    }
    Err(StoreError::Invalid(format!(
        "the database in {} was opened by '{claimer}' (epoch {epoch}), so it is no copy any more. What it has would \
         be lost. Copy to an empty place",
        target.place()
    )))
}

/// Returns the epoch in which `target` got the state of `moment`. None: it has another one, or this is not known:
/// `hint/copied` is absent or damaged, or the state ends inside a log chunk, which the hint cannot express. Then the
/// state is copied once more.
async fn has_already(target: &Bucket, moment: &Moment) -> Result<Option<u64>> {
    let bytes = match target.get(names::COPIED).await {
        Err(error) if error.is_not_found() => return Ok(None),
        bytes => bytes?,
    };
    let Ok(copied) = serde_json::from_slice::<Copied>(&bytes) else { return Ok(None) };
    let newest = Inspector::new(target.clone()).newest_id().await?;
    let RootId { epoch, slot } = moment.image.root.id;
    let is_same = moment.cut.is_none()
        && (copied.source_root, copied.source_log_end) == ((epoch, slot), moment.wal_end)
        && newest.is_some_and(|(root, _)| root == RootId { epoch: copied.epoch, slot: state_copy::SLOT });
    Ok(is_same.then_some(copied.epoch))
}

async fn note(target: &Bucket, epoch: u64, moment: &Moment) -> Result<()> {
    let root = moment.image.root.id;
    let copied = Copied {
        source_root: (root.epoch, root.slot),
        source_log_end: moment.wal_end,
        epoch,
        copied_ms: wall_clock_ms(),
    };
    let bytes = serde_json::to_vec(&copied).map_err(|error| StoreError::Bug(error.to_string()))?;
    target.put(names::COPIED, bytes.into()).await
}

async fn create_identity(
    target: &Bucket,
    source: &Identity,
    root: RootId,
    must_mask: bool,
) -> Result<String> {
    let db_uuid = identity::new_uuid()?;
    let RootId { epoch, slot } = root;
    let parent = Parent { db_uuid: source.db_uuid.clone(), epoch, slot, origins: Vec::new() };
    let masked_in = source.masked_in_of_clone(&db_uuid, must_mask);
    identity::create(target, db_uuid.clone(), Some(parent), masked_in).await?;
    Ok(db_uuid)
}

/// Deletes the objects of the copy that rule MIRROR-3 allows to delete: those of this epoch and earlier ones
/// that neither the copy's newest root nor its pins need. Returns how many objects were deleted.
async fn sweep(target: &Bucket, epoch: u64) -> Result<u64> {
    let (root, nonce) = (RootId { epoch, slot: state_copy::SLOT }, random_nonce()?);
    let horizon = names::horizon(root.epoch, root.slot);
    target.create_slot(&horizon, Bytes::copy_from_slice(&nonce), &nonce).await?;
    let inspector = Inspector::new(target.clone());
    let held = held_among(target, &target.list(names::PIN_DIR, None).await?).await?;
    let is_newest = inspector.newest_id().await?.is_some_and(|(newest, _)| newest == root);
    if held.holds_all().is_some() || !is_newest {
        return Ok(0);
    }
    let unneeded = inspector.find_unneeded(Duration::ZERO).await?;
    let unneeded = unneeded.orphaned.into_iter().chain(unneeded.pending).map(|object| object.key);
    let own = unneeded.filter(|key| epoch_of(key).is_some_and(|made| made <= epoch));
    let horizons = target.list(names::HORIZON_DIR, None).await?.into_iter().map(|object| object.key);
    let lower = horizons.filter(|key| pin::horizon_of(key).is_some_and(|lower| lower < root));
    stream::iter(own.chain(lower).collect::<Vec<_>>())
        .map(|key| async move { target.delete(&key).await.map(|()| 1) })
        .buffer_unordered(PARALLEL_DELETES)
        .try_fold(0, |count, one| async move { Ok(count + one) })
        .await
}

fn status_of(db_uuid: &str, moment: &Moment) -> CopyStatus {
    let (root, position) = (moment.image.root.id, &moment.position);
    CopyStatus {
        db_uuid: db_uuid.to_owned(),
        source_root: (root.epoch, root.slot),
        source_log_end: moment.wal_end,
        commit_us: (position.time_us != 0).then_some(position.time_us),
        gtid_position: position.gtid_text(),
        files: moment.image.files.len() as u64,
        files_bytes: object_bytes(&moment.image.files),
        adopted: Adopted::default(),
        copied_log_bytes: 0,
        deleted_objects: 0,
        is_unchanged: false,
        left_behind: LeftBehind::default(),
    }
}
