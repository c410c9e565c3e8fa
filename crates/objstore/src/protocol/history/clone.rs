//! Clones: a clone is a database in another prefix of the same bucket, or in another directory. It begins
//! with a state of its parent and shares the parent's table files.
//!
//! ```text
//! parent   create pin/clone-<uuid of the child> {R}, check that it counts (pin.rs)   R's objects stay now
//! origins  in every database whose files R names: create a pin beside the parent's pin there
//! child    create epoch/1, root/1/0         of two clones into one prefix, one fails here and leaves nothing
//!          copy the MANIFEST and the log of R, write its file map with the origins of files; create root/1/1
//!          create db.json                   the child exists
//! ```
//!
//! CLONE-1: the pins of a child exist before its `db.json`, and are deleted again only if nobody tried to
//!     create `db.json`. So the files of every existing child are pinned. A program that dies before it
//!     creates `db.json` leaves pins that keep objects for nobody (`atollctl snapshot list` shows them), and
//!     a prefix that no server opens.
//! CLONE-6: no name of an object of a child is used twice. `--discard-unfinished` deletes what an unfinished
//!     clone has left and keeps its claims, so the next clone is written in another epoch. A DELETE that lands
//!     late then hits no object of it. (A child that lost its first root this way would look empty.)
//! CLONE-2: a child has a pin in every database whose files it reads. So a clone of a clone does not depend
//!     on the clone between.
//!
//! Outside of its prefix a child only reads (origin.rs), except that it writes records below `pin/` of its
//! origins.

use crate::error::{Result, StoreError};
use crate::files::FileRecord;
use crate::protocol::copies::adopt::is_of_copier;
use crate::protocol::format::image::Image;
use crate::protocol::format::names;
use crate::protocol::format::records::RootId;
use crate::protocol::history::hand_over::{may_have_taken_from, own_takings, release_takings};
use crate::protocol::history::past::{Found, Past};
use crate::protocol::history::pin::{self, Listed, Pin, PinKind};
use crate::protocol::history::snapshot::Moment;
use crate::protocol::history::state_copy;
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::inspection::table_names;
use crate::protocol::publish::map_record::object_bytes;
use crate::protocol::start::claim::{StopAfter, claim_epoch, close_and_claim};
use crate::protocol::start::home::Home;
use crate::protocol::start::identity::{self, Identity, Parent};
use crate::protocol::start::local::random_nonce;
use crate::requests::bucket::{Bucket, ObjectInfo};
use crate::requests::origin;
use bytes::Bytes;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Which state to clone, and the names that people see in lists of pins.
#[derive(Debug, Clone)]
pub struct CloneRequest {
    /// The state that the clone begins with; None: the newest state in the bucket.
    pub past: Option<Past>,
    /// Where the clone will be. The list of the parent's snapshots shows this text.
    pub place: String,
    /// The name of the program that makes the clone. Lists of pins show it.
    pub creator: String,
    /// True: leftovers of an unfinished clone in the clone's prefix are deleted first. False: they make
    /// `clone_to` fail. Requires: no other clone is being written there.
    pub discards_unfinished: bool,
    /// From when on the clone is not needed any more, in seconds since 1970. The lists of pins in its parents
    /// show it; nothing happens by itself then.
    pub expires_s: Option<u64>,
}

impl CloneRequest {
    /// Makes the pin of the clone for the state `moment`.
    fn pin(&self, moment: &Moment) -> Pin {
        let pin = moment.pin(PinKind::Clone, &self.place, &self.creator);
        Pin { expires_s: self.expires_s, ..pin }
    }
}

/// What [`Inspector::clone_to`] has made.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct CloneStatus {
    pub db_uuid: String,
    pub parent: Parent,
    /// When the newest commit in the clone was made, in microseconds since 1970; None: the clone
    /// has no commit.
    pub commit_us: Option<u64>,
    pub gtid_position: String,
    pub files: u64,
    /// Bytes of the table files, which the clone reads in its parents and which were not copied.
    pub shared_bytes: u64,
    /// Bytes of the MANIFEST and the log, which were copied.
    pub copied_bytes: u64,
}

impl Inspector {
    /// Makes a clone of this database in `child`, which is a prefix of the same bucket or a directory of the
    /// same machine.
    ///
    /// Errors: `Invalid` when `child` cannot be a clone, or holds objects; `NotFound` without a database, a
    /// root or the snapshot; `Unavailable` when the outcome is not known: repeat the call. Requests: those
    /// that read the root, its MANIFEST and its log, and write them; a LIST per 1000 table files; some for
    /// each origin.
    pub async fn clone_to(&self, child: &Bucket, request: &CloneRequest) -> Result<CloneStatus> {
        self.clone_as(child, request, false).await
    }

    /// As [`Inspector::clone_to`], for a clone whose tables no server opens before it has masked their rows
    /// (rule MASK-3).
    pub async fn clone_to_mask(&self, child: &Bucket, request: &CloneRequest) -> Result<CloneStatus> {
        self.clone_as(child, request, true).await
    }

    async fn clone_as(&self, child: &Bucket, request: &CloneRequest, must_mask: bool) -> Result<CloneStatus> {
        let parent = self.identity().await?;
        refuse_nested(self.bucket(), child)?;
        let epoch = make_room(child, request.discards_unfinished).await?;
        let mut pins = Pins::default();
        let made = self.clone_pinned(&parent, (child, epoch), request, must_mask, &mut pins).await;
        if made.is_err() && !pins.may_have_holder {
            pins.take_back().await;
        }
        made
    }

    async fn clone_pinned(
        &self,
        parent: &Identity,
        (child, child_epoch): (&Bucket, u64),
        request: &CloneRequest,
        must_mask: bool,
        pins: &mut Pins,
    ) -> Result<CloneStatus> {
        let db_uuid = identity::new_uuid()?;
        let masked_in = parent.masked_in_of_clone(&db_uuid, must_mask);
        let moment = self.pin_for_clone(&pin::clone_key(&db_uuid), request, pins).await?;
        let files = foreign_files(&moment.image, &self.bucket().origin());
        let others = self.pin_origins(parent, &db_uuid, &files, &moment, request, pins).await?;
        check_files(self.bucket(), files.values()).await?;
        let creator = &request.creator;
        claim_child(child, child_epoch, creator).await?;
        let copied_bytes =
            state_copy::write(self.bucket(), child, child_epoch, &moment, &files, creator).await?;
        let RootId { epoch, slot } = moment.image.root.id;
        let origins = std::iter::once(self.bucket().origin()).chain(others).collect();
        let parent = Parent { db_uuid: parent.db_uuid.clone(), epoch, slot, origins };
        pins.may_have_holder = true;
        identity::create(child, db_uuid.clone(), Some(parent.clone()), masked_in).await?;
        table_names::pass_on(self.bucket(), child).await;
        let shared_bytes = object_bytes(&files);
        let position = &moment.position;
        let commit_us = (position.time_us != 0).then_some(position.time_us);
        let (gtid_position, files) = (position.gtid_text(), files.len() as u64);
        Ok(CloneStatus { db_uuid, parent, commit_us, gtid_position, files, shared_bytes, copied_bytes })
    }

    /// Creates the pin `key` for the state that `request` names. Returns that state. Notes the pin in `pins`,
    /// also when this function fails, so that the caller can delete the pin.
    pub(in crate::protocol) async fn pin_for_clone(
        &self,
        key: &str,
        request: &CloneRequest,
        pins: &mut Pins,
    ) -> Result<Moment> {
        let bucket = self.bucket();
        pins.add(bucket, key);
        let Some(past) = &request.past else { return self.pin_newest(key, request).await };
        let Found { moment, pin } = self.find(past).await?;
        self.put_pin(key, &request.pin(&moment)).await?;
        let Some(original) = pin else { return self.if_it_counts(moment).await };
        // Rule PIN-3: if the snapshot's or the history's own pin still exists, it has kept all objects of the
        // state until the new pin was there.
        match bucket.head(&original).await {
            Ok(_) => Ok(moment),
            Err(error) if error.is_not_found() => Err(StoreError::NotFound {
                operation: "cloning",
                object: format!("{original}, which held that state and was dropped meanwhile"),
            }),
            Err(error) => Err(error),
        }
    }

    async fn pin_newest(&self, key: &str, request: &CloneRequest) -> Result<Moment> {
        let moment = self.moment().await?;
        self.put_pin(key, &request.pin(&moment)).await?;
        self.if_it_counts(moment).await
    }

    /// Returns `moment`, for which the caller has created a pin, if this pin came in time: before the
    /// collector could delete objects of the root (PIN-1). Errors: `Unavailable` if it came too late.
    async fn if_it_counts(&self, moment: Moment) -> Result<Moment> {
        if self.is_above_horizon(moment.image.root.id).await? {
            return Ok(moment);
        }
        Err(StoreError::Unavailable(
            "while the clone was being made, the server may have deleted objects that it needs. Repeat the command".to_owned(),
        ))
    }

    /// Creates pins for the clone in the other databases whose files the parent reads. Returns the origins of
    /// those databases, which are their prefixes or directories.
    async fn pin_origins(
        &self,
        parent: &Identity,
        db_uuid: &str,
        files: &BTreeMap<u64, FileRecord>,
        moment: &Moment,
        request: &CloneRequest,
        pins: &mut Pins,
    ) -> Result<BTreeSet<String>> {
        let own = self.bucket().origin();
        let origins = files.values().filter_map(|file| origin::split(&file.key).0.map(str::to_owned));
        let others: BTreeSet<String> = origins.filter(|origin| *origin != own).collect();
        for origin in &others {
            let there = Self::new(self.bucket().sibling(origin)?);
            let (original, key) = (pin::clone_key(&parent.db_uuid), pin::clone_key(db_uuid));
            if may_have_taken_from(self, origin).await? {
                return Err(StoreError::Invalid(format!(
                    "the database in {} reads table files of {}, from which it took a table. Make it independent first: \
                     atollctl materialize",
                    self.bucket().place(),
                    there.bucket().place()
                )));
            }
            let found = pin::read(there.bucket(), &original).await?;
            pins.add(there.bucket(), &key);
            let (root, wal_end) = (found.root, found.wal_end);
            let pin = Pin { root, wal_end, ..request.pin(moment) };
            there.put_pin(&key, &pin).await?;
            // Rule PIN-3: if the parent's own pin there still exists, it has kept all files until the clone's
            // pin was there.
            check_pinned(there.bucket(), &original).await?;
        }
        Ok(others)
    }

    /// Checks that this clone still has its pin in each database of which `files` has files. Errors: `NotFound`
    /// names the pin.
    pub(in crate::protocol) async fn check_parents_pins(
        &self,
        files: &BTreeMap<u64, FileRecord>,
    ) -> Result<()> {
        let (own, pin) = (self.bucket().origin(), pin::clone_key(&self.identity().await?.db_uuid));
        let origins: BTreeSet<&str> = files.values().filter_map(|file| origin::split(&file.key).0).collect();
        for origin in origins.into_iter().filter(|origin| *origin != own) {
            let there = self.bucket().sibling(origin)?;
            match check_pinned(&there, &pin).await {
                Err(error) if error.is_not_found() => check_pins_of_takings(self, origin, error).await?,
                outcome => outcome?,
            }
        }
        Ok(())
    }

    /// Creates the horizon of the newest root. So a program that pins an older root, which may read files
    /// of the parents, does not count its pin unless the pin is in the bucket already (PIN-1).
    async fn raise_horizon(&self) -> Result<()> {
        let Some((RootId { epoch, slot }, _)) = self.newest_id().await? else { return Ok(()) };
        let nonce = random_nonce()?;
        let key = names::horizon(epoch, slot);
        self.bucket().create_slot(&key, Bytes::copy_from_slice(&nonce), &nonce).await.map(drop)
    }

    /// Releases the pins that this clone has in the databases of its origins, because it needs none of their
    /// objects any more. Their owners delete the pins (PIN-4).
    ///
    /// Errors: `Invalid` when this database is no clone and has taken no table, or when the newest root or a pinned
    /// root names a file of another database. Requests: as [`Inspector::snapshots`], and a HEAD and a PUT per
    /// origin.
    pub async fn release_parents(&self) -> Result<Vec<String>> {
        let identity = self.identity().await?;
        // Before the roots are read: what is taken meanwhile is published before it is taken (HANDOVER-2).
        let taken = own_takings(self).await?;
        if identity.parent.is_none() && taken.is_empty() {
            return Err(StoreError::Invalid(format!(
                "the database in {} is no clone",
                self.bucket().place()
            )));
        }
        self.raise_horizon().await?;
        for image in self.all_images().await? {
            if let Some(file) = image.files.values().find(|file| origin::is_foreign(&file.key)) {
                let RootId { epoch, slot } = image.root.id;
                return Err(StoreError::Invalid(format!("root {epoch}/{slot} still reads {}", file.key)));
            }
        }
        let mut origins = identity.parent.map(|parent| parent.origins).unwrap_or_default();
        self.release_pins(&identity.db_uuid, &origins).await?;
        origins.extend(release_takings(self, taken).await?);
        Ok(origins)
    }

    /// Releases the pins that the clone `db_uuid` has in the databases `origins` (PIN-4). Requests: a HEAD and a
    /// PUT for each.
    pub(in crate::protocol) async fn release_pins(&self, db_uuid: &str, origins: &[String]) -> Result<()> {
        for origin in origins {
            let (pin, nonce) = (pin::clone_key(db_uuid), random_nonce()?);
            let release = async {
                let there = self.bucket().sibling(origin)?;
                there.head(&pin).await?;
                let key = pin::release_key(&pin);
                there.create_slot(&key, Bytes::copy_from_slice(&nonce), &nonce).await
            };
            match release.await {
                // The pin is gone, or the whole database in which it was. Then there is nothing to release.
                Err(error) if error.is_not_found() => {}
                outcome => drop(outcome?),
            }
        }
        Ok(())
    }
}

/// The pins that were created for a clone, a copy or a mount.
#[derive(Default)]
pub(in crate::protocol) struct Pins {
    put: Vec<(Bucket, String)>,
    /// True: the clone exists or may exist, so its pins must stay.
    may_have_holder: bool,
}

impl Pins {
    fn add(&mut self, bucket: &Bucket, key: &str) {
        self.put.push((bucket.clone(), key.to_owned()));
    }

    /// Deletes the pins. A pin whose DELETE fails stays and keeps objects for nobody. It can be seen with
    /// `atollctl snapshot list`.
    pub(in crate::protocol) async fn take_back(&self) {
        for (bucket, key) in &self.put {
            let _ = bucket.delete(key).await;
        }
    }
}

/// Checks that the pin `pin` of a clone in the database of `there` exists and was not released. Errors:
/// `NotFound`. Requests: a LIST.
async fn check_pinned(there: &Bucket, pin: &str) -> Result<()> {
    if Listed::among(&there.list(names::PIN_DIR, None).await?).pins.contains(pin) {
        return Ok(());
    }
    let object = format!("{pin} in {}, which kept the files that are read there", there.place());
    Err(StoreError::NotFound { operation: "looking for", object })
}

/// Checks that the database at `origin` still has the pins of all tables that the database of `taker` got from it.
/// Errors: `NotFound` names a pin; `otherwise` if it got none from there.
async fn check_pins_of_takings(taker: &Inspector, origin: &str, otherwise: StoreError) -> Result<()> {
    let takings = own_takings(taker).await?;
    let ids: Vec<&str> =
        takings.iter().filter(|(_, from)| from == origin).map(|(id, _)| id.as_str()).collect();
    if ids.is_empty() {
        return Err(otherwise);
    }
    for id in ids {
        check_pinned(&taker.bucket().sibling(origin)?, &pin::clone_key(id)).await?;
    }
    Ok(())
}

/// Refuses a clone whose prefix lies inside its parent's prefix or contains it, because a listing of one
/// database must not show objects of the other. Errors: `Invalid`.
pub(in crate::protocol) fn refuse_nested(parent: &Bucket, child: &Bucket) -> Result<()> {
    let (one, other) = (format!("{}/", parent.origin()), format!("{}/", child.origin()));
    let is_nested = one == "/" || other == "/" || one.starts_with(&other) || other.starts_with(&one);
    if !is_nested {
        return Ok(());
    }
    Err(StoreError::Invalid(format!(
        "'{}' and '{}' overlap: choose a place outside of the first database's prefix or directory",
        parent.origin(),
        child.origin()
    )))
}

/// Makes sure that the prefix of the clone is empty. If `discards_unfinished`, deletes the leftovers of an
/// unfinished clone. Returns the epoch in which the clone is to be written. Errors: `Invalid` when the prefix
/// is not empty.
async fn make_room(child: &Bucket, discards_unfinished: bool) -> Result<u64> {
    let objects = child.list("", None).await?;
    let Some(first) = objects.first() else { return Ok(1) };
    let is_database = objects.iter().any(|object| object.key == names::DB);
    let claimed = objects.iter().filter_map(|object| names::parse_epoch(&object.key)).max();
    let what = match (is_database, claimed) {
        (true, _) => "a database".to_owned(),
        _ if objects.iter().any(is_of_database) => format!("a database that lacks its {}", names::DB),
        (_, None) => format!("other objects ({})", first.key),
        (_, Some(epoch)) if is_of_copier(child, epoch).await? => {
            "the objects of an atollctl copy that runs or was not finished: repeat that copy, which continues it"
                .to_owned()
        }
        (_, Some(epoch)) if discards_unfinished => {
            discard(child, &objects).await?;
            return Ok(epoch + 1);
        }
        _ => "the objects of an unfinished clone; --discard-unfinished deletes them".to_owned(),
    };
    Err(StoreError::Invalid(format!("the prefix of the clone in {} holds {what}", child.place())))
}

/// Whether an unfinished clone cannot have made `object`: such a clone has no table files and at most one
/// root. Then somebody has deleted the `db.json` of a database.
fn is_of_database(object: &ObjectInfo) -> bool {
    let slot = names::parse_slot(names::ROOT_DIR, &object.key).map(|(_, slot)| slot);
    object.key.starts_with(names::FILE_DIR) || slot > Some(state_copy::SLOT)
}

/// Deletes the leftovers of an unfinished clone, except its claims: the next clone takes the next epoch, so
/// none of its objects has a name for which a DELETE was sent (rule CLONE-6). The hint is replaced later.
async fn discard(child: &Bucket, objects: &[ObjectInfo]) -> Result<()> {
    let stays = |key: &str| key.starts_with(names::EPOCH_DIR) || key.starts_with(names::HINT_DIR);
    for object in objects.iter().filter(|object| !stays(&object.key)) {
        child.delete(&object.key).await?;
    }
    Ok(())
}

/// Claims `epoch` of the clone in `child`, and no other epoch: of two programs that make a clone there, one
/// fails here and leaves nothing. Errors: `Invalid`.
async fn claim_child(child: &Bucket, epoch: u64, creator: &str) -> Result<()> {
    if claim_epoch(child, epoch, creator, &Home::default()).await?.is_none() {
        return Err(StoreError::Invalid(format!(
            "another program is creating a database in {}",
            child.place()
        )));
    }
    close_and_claim(child, epoch, creator, StopAfter::Nothing).await.map(drop)
}

/// Returns the files of `image`, a root of the database with the origin `own`, with the keys that another
/// database must use for them: each key names the origin of its file.
pub(in crate::protocol) fn foreign_files(image: &Image, own: &str) -> BTreeMap<u64, FileRecord> {
    let foreign = |file: &FileRecord| match origin::is_foreign(&file.key) {
        true => file.clone(),
        false => FileRecord { key: origin::join(own, &file.key).into(), ..file.clone() },
    };
    image.files.iter().map(|(number, file)| (*number, foreign(file))).collect()
}

/// Checks that every file exists in the database that its key names, with the right size. Errors:
/// `Corruption` with the key of the first file for which this is not so; `NotFound` without the directory of
/// that database. Requests: a LIST per 1000 files.
pub(in crate::protocol) async fn check_files(
    bucket: &Bucket,
    files: impl Iterator<Item = &FileRecord> + Clone,
) -> Result<()> {
    let mut sizes: HashMap<String, u64> = HashMap::new();
    let origins: BTreeSet<&str> = files.clone().filter_map(|file| origin::split(&file.key).0).collect();
    for from in origins {
        let listed = bucket.sibling(from)?.list(names::FILE_DIR, None).await?;
        sizes.extend(listed.into_iter().map(|object| (origin::join(from, &object.key), object.size)));
    }
    match files.into_iter().find(|file| sizes.get(file.key.as_ref()) != Some(&file.size)) {
        None => Ok(()),
        Some(file) => Err(StoreError::Corruption(format!(
            "{} is missing, or has another size than the root says",
            file.key
        ))),
    }
}
