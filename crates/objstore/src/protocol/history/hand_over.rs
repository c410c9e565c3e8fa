//! A table changes databases, and no table file of it is copied: its files stay where they are, and the new
//! database reads them there, as a clone reads those of its parent.
//!
//! ```text
//! giver    hide the table, publish, create pin/clone-<id>      the table's last state stays from now on
//! taker    create handover/taken-<id> {the giver's origin}     in its own prefix
//!          import the files of the pinned state under a hidden name, publish
//!          create handover/<id> {its uuid} in the giver's prefix    the one slot that decides; then show the table
//! giver    reads that slot: drops the hidden table
//! giver    create handover/<id> {nobody}                       instead of the taker, when it wants the table back
//! ```
//!
//! HANDOVER-1: the taker shows the table only after it has created the slot, and the giver only after it has
//!     created it. A slot is created once (SLOT-1), so never both show the table, whatever dies when.
//! HANDOVER-2: the taker publishes the import before it creates the slot. So when the giver drops the table, a
//!     restore of the taker has it.
//! HANDOVER-3: a taker that died goes on: it tries to create the slot. It must not give up instead, because a
//!     PUT of its former process could still land, and then nobody would have the table.
//! HANDOVER-4: the pin stays until the taker releases it (PIN-4), because no root of it names files of the
//!     giver any more (materialize.rs).

use crate::config::Location;
use crate::error::{Result, StoreError};
use crate::protocol::format::codec::{FormatError, FrameWriter, Nonce};
use crate::protocol::format::image;
use crate::protocol::format::names;
use crate::protocol::format::records::open;
use crate::protocol::format::slots::read_record;
use crate::protocol::history::clone::{Pins, foreign_files, refuse_nested};
use crate::protocol::history::mounts::mount::{Hold, Mount, request, write_directory};
use crate::protocol::history::pin;
use crate::protocol::history::snapshot::Moment;
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::shared::Shared;
use crate::protocol::start::local::{damaged_object, random_nonce};
use crate::protocol::store::Store;
use crate::requests::bucket::{Bucket, SlotOutcome};
use std::path::Path;

const KIND_DECISION: u16 = 15;
const KIND_TAKING: u16 = 16;

/// The record `handover/<id>` of the giver: who has the table. It never changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decision {
    /// The uuid of the database that has taken the table; empty: the giver has it again.
    pub(crate) taker: String,
    /// The server that decided. For people.
    pub(crate) by: String,
}

impl Decision {
    pub(crate) fn encode(&self, nonce: &Nonce) -> Vec<u8> {
        let mut frame = FrameWriter::new(KIND_DECISION, nonce, 128);
        frame.bytes(self.taker.as_bytes()).bytes(self.by.as_bytes());
        frame.finish()
    }

    pub(crate) fn decode(bytes: &[u8]) -> std::result::Result<Self, FormatError> {
        let mut frame = open(bytes, KIND_DECISION, "the decision about a hand-over")?;
        let found = Self { taker: frame.string()?, by: frame.string()? };
        frame.finish().map(|()| found)
    }
}

/// The record `handover/taken-<id>` of the taker: whose files it reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Taking {
    /// The origin (origin.rs) of the giver.
    pub(crate) origin: String,
}

impl Taking {
    pub(crate) fn encode(&self, nonce: &Nonce) -> Vec<u8> {
        let mut frame = FrameWriter::new(KIND_TAKING, nonce, 128);
        frame.bytes(self.origin.as_bytes());
        frame.finish()
    }

    pub(crate) fn decode(bytes: &[u8]) -> std::result::Result<Self, FormatError> {
        let mut frame = open(bytes, KIND_TAKING, "the record of a taken table")?;
        let found = Self { origin: frame.string()? };
        frame.finish().map(|()| found)
    }
}

/// Who has a table that was handed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Nobody has decided yet.
    Open,
    /// This database has taken the table.
    Mine,
    /// Another database has taken it: its uuid, and the server that did it.
    Others(String),
    /// The giver has it again.
    Cancelled,
}

/// What a caller of [`HandOvers::decide`] wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// To know who has the table.
    Look,
    /// To have the table.
    Take,
    /// To have the table back.
    Cancel,
}

/// Checks that `id` is one that the giver can have made, since it becomes part of a key. Errors: `Invalid`.
fn check_id(id: &str) -> Result<()> {
    let is_digit = |c: char| c.is_ascii_hexdigit() || c == '-';
    match !id.is_empty() && id.len() <= 64 && id.chars().all(is_digit) {
        true => Ok(()),
        false => Err(StoreError::Invalid(format!("'{id}' is no id of a hand-over"))),
    }
}

/// Returns the origin of the database at `url`, as the database at `own_url` names it. Errors: `Invalid` for a
/// URL of another bucket, or of another kind.
pub fn origin_of(own_url: &str, url: &str) -> Result<String> {
    match (Location::parse(own_url)?, Location::parse(url)?) {
        (Location::Directory(_), Location::Directory(there)) => {
            Ok(there.to_string_lossy().trim_matches('/').to_owned())
        }
        (Location::S3 { bucket, .. }, Location::S3 { bucket: other, prefix }) if bucket == other => {
            Ok(prefix)
        }
        _ => Err(StoreError::Invalid(format!(
            "a table can be taken from a database in the same bucket or on the same machine only, and {url} is elsewhere"
        ))),
    }
}

/// Returns the hand-overs by which the database in `bucket` has got tables: the id of each, and the origin of its
/// giver. Requests: a LIST, and a GET for each.
pub(in crate::protocol) async fn takings(bucket: &Bucket) -> Result<Vec<(String, String)>> {
    let mut takings = Vec::new();
    for object in bucket.list(names::HANDOVER_DIR, None).await? {
        let Some(id) = object.key.strip_prefix(names::TAKEN) else { continue };
        takings.push((id.to_owned(), read_taking(bucket, id).await?.origin));
    }
    Ok(takings)
}

/// Returns those of [`takings`] by which the database has got the table. The others are still open, or are over: then
/// their pins concern another database, or nobody. Requests: those of [`takings`], and a GET for each.
pub(in crate::protocol) async fn own_takings(taker: &Inspector) -> Result<Vec<(String, String)>> {
    let db_uuid = taker.identity().await?.db_uuid;
    let mut own = Vec::new();
    for (id, origin) in takings(taker.bucket()).await? {
        match decision_at(taker.bucket(), &id, &origin).await? {
            Some(decision) if decision.taker == db_uuid => own.push((id, origin)),
            _ => {}
        }
    }
    Ok(own)
}

/// Whether the database may read files of the one at `origin` because of a hand-over that it has taken or may take.
pub(in crate::protocol) async fn may_have_taken_from(taker: &Inspector, origin: &str) -> Result<bool> {
    let db_uuid = taker.identity().await?.db_uuid;
    for (id, from) in takings(taker.bucket()).await? {
        let is_over = |decision: Decision| decision.taker != db_uuid;
        if from == origin && !decision_at(taker.bucket(), &id, &from).await?.is_some_and(is_over) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the decision about the hand-over `id` of the database at `origin`. None: it is open, or that database is
/// gone.
async fn decision_at(bucket: &Bucket, id: &str, origin: &str) -> Result<Option<Decision>> {
    let read = async { read_decision(&bucket.sibling(origin)?, &names::handover(id)).await };
    match read.await {
        Ok(decision) => Ok(Some(decision)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Releases the pins of the hand-overs `own`, those of [`own_takings`], and forgets them (HANDOVER-4). Requires: no
/// root that is kept and was made since `own` was read names a file of another database. Returns the origins.
/// Requests: a HEAD, a PUT and a DELETE for each.
pub(in crate::protocol) async fn release_takings(
    taker: &Inspector,
    own: Vec<(String, String)>,
) -> Result<Vec<String>> {
    let mut origins = Vec::new();
    for (id, origin) in own {
        taker.release_pins(&id, std::slice::from_ref(&origin)).await?;
        taker.bucket().delete(&names::taken(&id)).await?;
        origins.push(origin);
    }
    Ok(origins)
}

/// The tables that the database of a store gives to others and takes from them.
pub struct HandOvers<'a> {
    shared: &'a Shared,
}

impl<'a> HandOvers<'a> {
    /// Those of the database of `store`. No request.
    pub fn of(store: &'a Store) -> Self {
        Self { shared: &store.shared }
    }

    /// The database from which a table is taken. Errors: `Invalid` when it overlaps with this one; `NotFound`
    /// without its directory.
    fn giver(&self, origin: &str) -> Result<Bucket> {
        let there = self.shared.bucket.sibling(origin)?;
        refuse_nested(&self.shared.bucket, &there)?;
        Ok(there)
    }

    /// Pins the newest state in the bucket for whoever takes the table. `place` is shown in lists of pins.
    /// Requires: the table is hidden, and everything is published. Errors: `Fenced`; `Unavailable` when the
    /// outcome is not known; `Interrupted`. Requests: those that read the newest root and its log, a PUT and a
    /// LIST.
    pub fn offer(&self, id: &str, place: &str) -> Result<()> {
        check_id(id)?;
        let shared = self.shared;
        shared.check_fence()?;
        let inspector = Inspector::new(shared.bucket.clone());
        let request = request(None, place, &shared.server_id);
        let work = async move {
            let mut pins = Pins::default();
            inspector.pin_for_clone(&pin::clone_key(id), &request, &mut pins).await.map(drop)
        };
        shared.files.block_on(work)?
    }

    /// Whether the state of the hand-over `id` was pinned by [`HandOvers::offer`] and is still. Errors:
    /// `Unavailable`. Requests: a HEAD.
    pub fn is_offered(&self, id: &str) -> Result<bool> {
        check_id(id)?;
        let (bucket, key) = (self.shared.bucket.clone(), pin::clone_key(id));
        match self.shared.files.block_on(async move { bucket.head(&key).await })? {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Deletes the pin of a hand-over that was cancelled. Errors: `Unavailable`. Requests: a DELETE.
    pub fn withdraw(&self, id: &str) -> Result<()> {
        check_id(id)?;
        self.shared.check_fence()?;
        let (bucket, key) = (self.shared.bucket.clone(), pin::clone_key(id));
        self.shared.files.block_on(async move { bucket.delete(&key).await })?
    }

    /// Notes that this database takes the table of the hand-over `id` from the database at `origin`. False: that was
    /// noted before. Errors: `Fenced`; `Unavailable`; `Invalid`: another origin was noted before. Requests: a PUT; two
    /// GETs when there is a note.
    pub fn note_taking(&self, id: &str, origin: &str) -> Result<bool> {
        check_id(id)?;
        let shared = self.shared;
        shared.check_fence()?;
        let (nonce, key) = (random_nonce()?, names::taken(id));
        let bytes = Taking { origin: origin.to_owned() }.encode(&nonce);
        let bucket = shared.bucket.clone();
        let created = async move { bucket.create_slot(&key, bytes.into(), &nonce).await };
        let is_new = shared.files.block_on(created)?? == SlotOutcome::Mine;
        let noted = if is_new { origin.to_owned() } else { self.taking_from(id)? };
        match noted == origin {
            true => Ok(is_new),
            false => {
                Err(StoreError::Invalid(format!("the hand-over {id} is one of the database at '{noted}'")))
            }
        }
    }

    /// Deletes the note of [`HandOvers::note_taking`]. Requires: no file of the giver is read. Requests: a DELETE.
    pub fn forget_taking(&self, id: &str) -> Result<()> {
        check_id(id)?;
        let (bucket, key) = (self.shared.bucket.clone(), names::taken(id));
        self.shared.files.block_on(async move { bucket.delete(&key).await })?
    }

    /// Returns the origin that [`HandOvers::note_taking`] has noted. Errors: `NotFound`; `Unavailable`. Requests: a
    /// GET.
    pub fn taking_from(&self, id: &str) -> Result<String> {
        check_id(id)?;
        let (bucket, id) = (self.shared.bucket.clone(), id.to_owned());
        Ok(self.shared.files.block_on(async move { read_taking(&bucket, &id).await })??.origin)
    }

    /// Finds out who has the table of the hand-over `id`, and decides it if nobody has and `choice` says so.
    /// `origin`: that of the giver; None: this database is the giver.
    ///
    /// Errors: `Unavailable` when the outcome is not known: call again, with the same choice. `Fenced`;
    /// `NotFound` without the giver's directory. Requests: a GET or a PUT, and two GETs when somebody has
    /// decided.
    pub fn decide(&self, id: &str, origin: Option<&str>, choice: Choice) -> Result<Outcome> {
        check_id(id)?;
        let shared = self.shared;
        let there = match origin {
            None => shared.bucket.clone(),
            Some(origin) => self.giver(origin)?,
        };
        if choice != Choice::Look {
            shared.check_fence()?;
        }
        let taker = if choice == Choice::Take { shared.db_uuid.clone() } else { String::new() };
        let wanted = Decision { taker, by: shared.server_id.clone() };
        let key = names::handover(id);
        let found = shared.files.block_on(async move {
            if choice != Choice::Look {
                let nonce = random_nonce()?;
                there.create_slot(&key, wanted.encode(&nonce).into(), &nonce).await?;
            }
            read_decision(&there, &key).await
        })?;
        match found {
            Ok(Decision { taker, .. }) if taker.is_empty() => Ok(Outcome::Cancelled),
            Ok(Decision { taker, .. }) if taker == shared.db_uuid => Ok(Outcome::Mine),
            Ok(Decision { taker, by }) => Ok(Outcome::Others(format!("{taker} (server {by})"))),
            Err(error) if error.is_not_found() && choice == Choice::Look => Ok(Outcome::Open),
            Err(error) => Err(error),
        }
    }

    /// Opens the state that the giver at `origin` has pinned for the hand-over `id`, and writes the files that
    /// RocksDB needs beside the table files into `dir`, which must not exist. The pin keeps the state, so nothing
    /// has to end with the mount.
    ///
    /// Errors: `NotFound` when there is no such hand-over, or the table was taken back; those of the bucket and of
    /// the local disk. Requests: those that read the root, its MANIFEST and its log.
    pub fn mount_offer(&self, id: &str, origin: &str, dir: &Path) -> Result<Mount> {
        check_id(id)?;
        let shared = self.shared;
        shared.check_fence()?;
        let there = self.giver(origin)?;
        let work = async {
            let pin = pin::read(&there, &pin::clone_key(id)).await?;
            let giver = Inspector::new(there.clone());
            let moment = giver.moment_of(image::load(&there, pin.root).await?, Some(pin.wal_end)).await?;
            write_directory(&there, &moment, dir).await?;
            let files = foreign_files(&moment.image, origin);
            Ok::<_, StoreError>(Moment { image: image::Image { files, ..moment.image }, ..moment })
        };
        let moment = shared.files.block_on(work)??;
        Ok(Mount::new(&shared.files, moment, Hold::Offer { origin: origin.to_owned() }))
    }
}

async fn read_decision(bucket: &Bucket, key: &str) -> Result<Decision> {
    read_record(bucket, key, |bytes| Decision::decode(bytes).map_err(|e| damaged_object(key, &e))).await
}

async fn read_taking(bucket: &Bucket, id: &str) -> Result<Taking> {
    let key = names::taken(id);
    read_record(bucket, &key, |bytes| Taking::decode(bytes).map_err(|e| damaged_object(&key, &e))).await
}
