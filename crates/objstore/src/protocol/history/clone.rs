//! Clones: a clone is a database in another prefix of the same bucket, or in another directory. It begins
//! with a state of its parent and shares the parent's table files.
//!
//! ```text
//! parent   create pin/clone-<uuid of the child> {R}, check that it counts (pin.rs)   R's objects stay now
//! origins  in every database whose files R names: create a pin beside the parent's pin there
//! child    create epoch/1, root/1/0         of two clones into one prefix, one fails here
//!          copy the MANIFEST and the log of R, write its file map with the origins of files; create root/1/1
//!          create db.json                   the child exists
//! ```
//!
//! CLONE-1: the pins of a child exist before its `db.json`, and are deleted again only if nobody tried to
//!     create `db.json`. So the files of every existing child are pinned. A program that dies before it
//!     creates `db.json` leaves pins that keep objects for nobody (`atollctl snapshot list` shows them), and
//!     a prefix that no server opens.
//! CLONE-2: a child has a pin in every database whose files it reads. So a clone of a clone does not depend
//!     on the clone between.
//!
//! Outside of its prefix a child only reads (origin.rs), except that it writes records below `pin/` of its
//! origins.

use crate::error::{Result, StoreError};
use crate::files::FileRecord;
use crate::protocol::format::image::Image;
use crate::protocol::format::names;
use crate::protocol::format::records::RootId;
use crate::protocol::history::past::{Found, Past};
use crate::protocol::history::pin::{self, Listed, Pin, PinKind};
use crate::protocol::history::snapshot::Moment;
use crate::protocol::history::state_copy;
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::publish::map_record::object_bytes;
use crate::protocol::start::claim::{StopAfter, close_and_claim, take_epoch};
use crate::protocol::start::home::Home;
use crate::protocol::start::identity::{self, Identity, Parent};
use crate::protocol::start::local::random_nonce;
use crate::requests::bucket::Bucket;
use crate::requests::origin;
use bytes::Bytes;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The first epoch of a clone. The program that makes the clone claims it.
const EPOCH: u64 = 1;

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
        let parent = self.identity().await?;
        refuse_nested(self.bucket(), child)?;
        make_room(child, request.discards_unfinished).await?;
        let mut pins = Pins::default();
        let made = self.clone_pinned(&parent, child, request, &mut pins).await;
        if made.is_err() && !pins.may_have_holder {
            pins.take_back().await;
        }
        made
    }

    async fn clone_pinned(
        &self,
        parent: &Identity,
        child: &Bucket,
        request: &CloneRequest,
        pins: &mut Pins,
    ) -> Result<CloneStatus> {
        let db_uuid = identity::new_uuid()?;
        let moment = self.pin_for_clone(&pin::clone_key(&db_uuid), request, pins).await?;
        let files = foreign_files(&moment.image, &self.bucket().origin());
        let others = self.pin_origins(parent, &db_uuid, &files, &moment, request, pins).await?;
        check_files(self.bucket(), files.values()).await?;
        let copied_bytes = write_state(self.bucket(), child, &moment, &files, &request.creator).await?;
        let RootId { epoch, slot } = moment.image.root.id;
        let origins = std::iter::once(self.bucket().origin()).chain(others).collect();
        let parent = Parent { db_uuid: parent.db_uuid.clone(), epoch, slot, origins };
        pins.may_have_holder = true;
        identity::create(child, db_uuid.clone(), Some(parent.clone())).await?;
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
        self.put_pin(key, &moment.pin(PinKind::Clone, &request.place, &request.creator)).await?;
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
        let pin = moment.pin(PinKind::Clone, &request.place, &request.creator);
        self.put_pin(key, &pin).await?;
        self.if_it_counts(moment).await
    }

    /// Returns `moment`, for which the caller has created a pin, if this pin came in time: before the
    /// collector could delete objects of the root (PIN-1). Errors: `Unavailable` if it came too late.
    async fn if_it_counts(&self, moment: Moment) -> Result<Moment> {
        if self.is_above_horizon(moment.image.root.id).await? {
            return Ok(moment);
        }
        Err(StoreError::Unavailable(
            "the owner of the database was faster than this clone: what it would have held may be gone. Repeat it".to_owned(),
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
            let found = pin::read(there.bucket(), &original).await?;
            pins.add(there.bucket(), &key);
            let (root, wal_end) = (found.root, found.wal_end);
            let pin = Pin { root, wal_end, ..moment.pin(PinKind::Clone, &request.place, &request.creator) };
            there.put_pin(&key, &pin).await?;
            // Rule PIN-3: if the parent's own pin there still exists, it has kept all files until the clone's
            // pin was there.
            if !Listed::among(&there.bucket().list(names::PIN_DIR, None).await?).pins.contains(&original) {
                return Err(StoreError::NotFound {
                    operation: "cloning",
                    object: format!("{original} in '{origin}'"),
                });
            }
        }
        Ok(others)
    }

    /// Releases the pins that this clone has in the databases of its origins, because it needs none of their
    /// objects any more. Their owners delete the pins (PIN-4).
    ///
    /// Errors: `Invalid` when this database is no clone, or when the newest root or a pinned root names a
    /// file of another database. Requests: those of [`Inspector::snapshots`], and a HEAD and a PUT per
    /// origin.
    pub async fn release_parents(&self) -> Result<Vec<String>> {
        let identity = self.identity().await?;
        let Some(parent) = identity.parent else {
            return Err(StoreError::Invalid(format!(
                "the database in {} is no clone",
                self.bucket().place()
            )));
        };
        for image in self.all_images().await? {
            if let Some(file) = image.files.values().find(|file| origin::is_foreign(&file.key)) {
                let RootId { epoch, slot } = image.root.id;
                return Err(StoreError::Invalid(format!("root {epoch}/{slot} still reads {}", file.key)));
            }
        }
        for origin in &parent.origins {
            let (pin, nonce) = (pin::clone_key(&identity.db_uuid), random_nonce()?);
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
        Ok(parent.origins)
    }
}

/// The pins that were created for a clone, a copy or a mount.
#[derive(Default)]
pub(in crate::protocol) struct Pins {
    put: Vec<(Bucket, String)>,
    /// True: the clone exists or possibly exists, so its pins must stay.
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

/// Refuses a clone whose prefix lies inside its parent's prefix or contains it, because a listing of one
/// database must not show objects of the other. Errors: `Invalid`.
pub(in crate::protocol) fn refuse_nested(parent: &Bucket, child: &Bucket) -> Result<()> {
    let (one, other) = (format!("{}/", parent.origin()), format!("{}/", child.origin()));
    let is_nested = one == "/" || other == "/" || one.starts_with(&other) || other.starts_with(&one);
    if !is_nested {
        return Ok(());
    }
    Err(StoreError::Invalid(format!(
        "'{}' and '{}' lie in each other: a clone needs a prefix or directory beside that of its parent",
        parent.origin(),
        child.origin()
    )))
}

/// Makes sure that the prefix of the clone is empty. If `discards_unfinished`, deletes the leftovers of an
/// unfinished clone. Errors: `Invalid` when the prefix is not empty.
async fn make_room(child: &Bucket, discards_unfinished: bool) -> Result<()> {
    let objects = child.list("", None).await?;
    let Some(first) = objects.first() else { return Ok(()) };
    let is_database = objects.iter().any(|object| object.key == names::DB);
    let is_unfinished = objects.iter().any(|object| object.key == names::epoch(EPOCH)) && !is_database;
    if is_unfinished && discards_unfinished {
        // The claim is deleted last. If this program dies before, the prefix is still recognized as an
        // unfinished clone.
        for object in objects.iter().filter(|object| object.key != names::epoch(EPOCH)) {
            child.delete(&object.key).await?;
        }
        return child.delete(&names::epoch(EPOCH)).await;
    }
    let what = match (is_database, is_unfinished) {
        (true, _) => "a database".to_owned(),
        (_, true) => "what a clone that did not end has left; --discard-unfinished takes it away".to_owned(),
        _ => format!("other objects ({})", first.key),
    };
    Err(StoreError::Invalid(format!("the prefix of the clone in {} holds {what}", child.place())))
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

/// Writes all objects of the clone except its identity `db.json`. Returns how many bytes it copied.
async fn write_state(
    parent: &Bucket,
    child: &Bucket,
    moment: &Moment,
    files: &BTreeMap<u64, FileRecord>,
    creator: &str,
) -> Result<u64> {
    if take_epoch(child, creator, &Home::default()).await?.number != EPOCH {
        return Err(StoreError::Invalid(format!("somebody else makes a database in {}", child.place())));
    }
    close_and_claim(child, EPOCH, creator, StopAfter::Nothing).await?;
    state_copy::write(parent, child, EPOCH, moment, files, creator).await
}
