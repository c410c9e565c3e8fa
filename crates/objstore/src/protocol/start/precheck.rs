//! Checks that the newest state can be restored, before a program claims the database.
//!
//! OPEN-5: a program that needs the newest state from the bucket reads what a restore of the newest root
//!     needs before it takes an epoch: the file map, the MANIFEST, and which chunks of the log exist. If
//!     something is missing, the program refuses the database and has changed nothing. Otherwise its fence
//!     would take the slot of a root that somebody deleted by mistake, and putting that root back would not
//!     help any more. A missing table file alone is no reason: other tables can still be read. But when a
//!     later piece of the MANIFEST exists, too, a later root has made that file superfluous.
//! OPEN-6: a database with a parent, which is a clone or a copy, never begins empty. Its first root was in
//!     the bucket before its `db.json`.

use crate::error::{Result, StoreError};
use crate::protocol::format::image::{self, Image};
use crate::protocol::format::names;
use crate::protocol::format::records::{Root, RootId};
use crate::protocol::publish::map_record::FileMap;
use crate::protocol::start::age::{NewestRecord, newest_record};
use crate::protocol::start::claim::{newest_epoch, unless_overtaken};
use crate::protocol::start::identity;
use crate::requests::bucket::Bucket;
use crate::requests::origin;
use std::collections::{BTreeSet, HashSet};

/// An owner that dies leaves at most a few chunks behind the first absent one, because it sends several at a
/// time. More of them show that a later root has made the first ones superfluous.
const CHUNKS_BEHIND_HOLE_MAX: usize = 64;

/// Checks OPEN-5 and OPEN-6. A living owner deletes objects meanwhile; then the check is repeated for its
/// newer root.
///
/// Errors: `Corruption` when a restore would fail; `Unavailable` when another server took the database over.
/// Requests: those that find the newest root, a GET for each part of its file map, a LIST and the GETs of its
/// MANIFEST, a LIST per 1000 chunks of its log and a HEAD for each merged object; when there is a later piece
/// of the MANIFEST, a LIST per 1000 table files.
pub(crate) async fn check_restorable(bucket: &Bucket) -> Result<()> {
    check(bucket, Reads::Newest).await
}

/// As [`check_restorable`], for a program that puts the database back to an earlier state and so does not need
/// the MANIFEST of the newest one.
pub(crate) async fn check_rewindable(bucket: &Bucket) -> Result<()> {
    check(bucket, Reads::Past).await
}

/// Which state the program will read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reads {
    Newest,
    Past,
}

async fn check(bucket: &Bucket, reads: Reads) -> Result<()> {
    let mut tried = None;
    loop {
        let epoch = newest_epoch(bucket).await?;
        let Err((id, error)) = check_newest(bucket, epoch, reads).await else { return Ok(()) };
        match unless_newer(bucket, epoch, error).await {
            StoreError::Corruption(_) | StoreError::NotFound { .. } if tried != Some(id) => tried = Some(id),
            error => return Err(unchanged(error)),
        }
    }
}

/// As [`unless_overtaken`], also for an error that says that a listing lacks an object.
async fn unless_newer(bucket: &Bucket, epoch: u64, error: StoreError) -> StoreError {
    let absent = match &error {
        StoreError::Corruption(what) => StoreError::NotFound { operation: "restoring", object: what.clone() },
        error => error.clone(),
    };
    match unless_overtaken(bucket, epoch, absent).await {
        StoreError::NotFound { .. } => error,
        overtaken => overtaken,
    }
}

/// Checks OPEN-6 for a database without a root. Errors: `Corruption` if it has a parent. Requests: a GET.
pub(crate) async fn refuse_to_begin_empty(bucket: &Bucket) -> Result<()> {
    let Some(parent) = identity::read(bucket).await?.and_then(|identity| identity.parent) else {
        return Ok(());
    };
    Err(StoreError::Corruption(format!(
        "the database in {} was made from database {}, but it has no root: somebody deleted its first root, or the bucket does not \
         list it. It does not begin empty. Bring the objects below root/ back, or make the clone or copy again",
        bucket.place(),
        parent.db_uuid
    )))
}

/// Checks the newest root. An error comes with this root; None: there is no root.
async fn check_newest(bucket: &Bucket, epoch: u64, reads: Reads) -> Result<(), (Option<RootId>, StoreError)> {
    let record = newest_record(bucket, epoch).await.map_err(|error| (None, error))?;
    let (id, end) = match record {
        Some(NewestRecord::Root(root)) => (root.id, None),
        Some(NewestRecord::Claim(claim)) => match claim.base {
            Some(base) => (base, Some(claim.wal_end)),
            None => return refuse_to_begin_empty(bucket).await.map_err(|error| (None, error)),
        },
        None => return refuse_to_begin_empty(bucket).await.map_err(|error| (None, error)),
    };
    check_root(bucket, id, end, reads).await.map_err(|error| (Some(id), error))
}

async fn check_root(bucket: &Bucket, id: RootId, end: Option<u64>, reads: Reads) -> Result<()> {
    let Image { root, files } = image::load(bucket, id).await?;
    if reads == Reads::Newest {
        image::read_manifest(bucket, &root).await?;
    }
    for run in root.wal_runs.iter().filter(|run| run.end > root.wal_first_chunk) {
        bucket.head(&names::merged_chunks(id.epoch, run.first, run.end)).await?;
    }
    check_log(bucket, &root, end).await?;
    if has_later_manifest(bucket, &root).await? {
        check_own_files(bucket, &files, &root).await?;
    }
    Ok(())
}

/// Whether the bucket has bytes of a MANIFEST that were uploaded for a later root than `root`.
async fn has_later_manifest(bucket: &Bucket, root: &Root) -> Result<bool> {
    let pieces = bucket.list(&names::manifests_dir(root.id.epoch), None).await?;
    let of_root = (root.manifest.number, root.manifest.copy);
    Ok(pieces.iter().filter_map(|object| names::parse_manifest_chunk(&object.key)).any(
        |(_, manifest, offset)| {
            let manifest = (manifest.number, manifest.copy);
            manifest > of_root || (manifest == of_root && offset >= root.manifest_bytes)
        },
    ))
}

/// Checks that the table files of `root` exist that are this database's own.
async fn check_own_files(bucket: &Bucket, files: &FileMap, root: &Root) -> Result<()> {
    let objects = bucket.list(names::FILE_DIR, None).await?;
    let keys: HashSet<&str> = objects.iter().map(|object| object.key.as_str()).collect();
    let own = files.values().map(|file| file.key.as_ref()).filter(|key| !origin::is_foreign(key));
    match own.into_iter().find(|key| !keys.contains(key)) {
        None => Ok(()),
        Some(key) => Err(StoreError::Corruption(format!(
            "{key} is missing, and there are pieces of a later MANIFEST: root {}/{} is not the newest, somebody deleted a later one",
            root.id.epoch, root.id.slot
        ))),
    }
}

/// Checks that the chunks that `root` needs exist. `end`: the end of the log when its epoch is closed.
async fn check_log(bucket: &Bucket, root: &Root, end: Option<u64>) -> Result<()> {
    let (epoch, first) = (root.id.epoch, root.wal_loose_first());
    let before = first.checked_sub(1).map(|chunk| names::wal_chunk(epoch, chunk));
    let objects = bucket.list(&names::wal_dir(epoch), before.as_deref()).await?;
    let chunks = objects.iter().filter_map(|object| names::parse_slot(names::WAL_DIR, &object.key));
    let chunks: BTreeSet<u64> =
        chunks.map(|(_, chunk)| chunk).filter(|chunk| end.is_none_or(|end| *chunk < end)).collect();
    let next = (first..).find(|chunk| !chunks.contains(chunk)).unwrap_or(u64::MAX);
    image::check_wal_end(root, next.max(first), end)?;
    let behind = chunks.range(next..).count();
    if end.is_none() && behind > CHUNKS_BEHIND_HOLE_MAX {
        return Err(StoreError::Corruption(format!(
            "{} is missing, but {behind} later chunks of the log exist: root {}/{} is not the newest, or a chunk was lost. To go on \
             without the commits behind it, make a clone (atollctl clone), which ends there",
            names::wal_chunk(epoch, next),
            root.id.epoch,
            root.id.slot
        )));
    }
    Ok(())
}

/// Adds to `error` that the bucket is as it was.
fn unchanged(error: StoreError) -> StoreError {
    let told = |what: String| {
        StoreError::Corruption(format!(
            "{what}. Nothing was changed in the bucket: if an object was deleted by mistake, bring it back and start again"
        ))
    };
    match error {
        StoreError::Corruption(what) => told(what),
        error if error.is_not_found() => told(error.to_string()),
        error => error,
    }
}
