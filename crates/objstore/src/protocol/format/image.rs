//! Reads one published root: its file map, its MANIFEST, its WAL. Restores, the server's own tasks and
//! `atollctl` use these functions.
//!
//! The readers check everything: a record that is missing, misplaced or damaged gives an error that names it,
//! never an empty result.

use crate::crc::{crc32c, crc32c_join};
use crate::error::{Result, StoreError};
use crate::protocol::format::names;
use crate::protocol::format::records::{ManifestChunk, Root, RootId, RootSlot, WalChunk, WalSlot};
use crate::protocol::format::slots::{decode_wal_slot, read_record, read_root_slot, read_sized_record};
use crate::protocol::publish::map_record::{FileMap, MapEntry, MapInParts, MapPart};
use crate::protocol::start::local::{check_file_key, damaged_object};
use crate::protocol::wal::wal_record::{MergedChunks, WalRun};
use crate::requests::bucket::{Bucket, ObjectInfo};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use std::ops::ControlFlow;
use std::sync::Arc;

/// How many GETs run at a time while many small objects are read.
const PARALLEL_GETS: usize = 32;
/// The same for a log of which most was read before: each GET behind its end asks for a chunk that is not there.
const PARALLEL_GETS_OF_NEWS: usize = 4;
/// How many GETs of merged objects run at a time. Each object is in memory as a whole and has at most 64 MiB,
/// so they take at most 128 MiB together.
const PARALLEL_RUNS: usize = 2;

/// A root with its complete file map.
#[derive(Debug, Clone)]
pub(crate) struct Image {
    pub(crate) root: Root,
    pub(crate) files: FileMap,
}

/// Reads root `id`, and the records that hold its file map.
///
/// Errors: `NotFound` when a root is absent; `Corruption` when a part of the file map is absent, or when a
/// record is damaged or not the one that its name says. Requests: a GET, and a GET per part of the map, at
/// most 40; for a root of an earlier version, a GET per root since the last full map instead.
pub(crate) async fn load(bucket: &Bucket, id: RootId) -> Result<Image> {
    let root = read_root(bucket, id).await?;
    let epoch = id.epoch;
    let earlier: Vec<Root> = stream::iter(root.map_slot..id.slot)
        .map(|slot| read_root(bucket, RootId { epoch, slot }))
        .buffered(PARALLEL_GETS)
        .try_collect()
        .await?;
    let mut files = FileMap::new();
    for step in earlier.iter().chain([&root]) {
        apply(&mut files, step, root.map_slot)?;
    }
    if let Some(map) = &root.map_in_parts {
        let parts = read_parts(bucket, map).await.map_err(|e| named_and_absent(&root, e))?;
        files = join(&parts, map, &names::root(epoch, id.slot))?;
    }
    Ok(Image { root, files })
}

/// Returns the objects that a restore of `image` reads, with their sizes, except the log chunks that are
/// objects of their own. The size of a root is not known and given as 0. If the database is a clone, table
/// files of other databases can be among them.
///
/// Errors: `Corruption` when pieces of the MANIFEST are missing. Requests: a LIST, or two.
pub(crate) async fn objects(bucket: &Bucket, image: &Image) -> Result<Vec<(Arc<str>, u64)>> {
    let (root, epoch) = (&image.root, image.root.id.epoch);
    let slots = root.map_slot..=root.id.slot;
    let mut objects: Vec<(Arc<str>, u64)> = slots.map(|slot| (names::root(epoch, slot).into(), 0)).collect();
    let parts = root.map_in_parts.iter().flat_map(|map| &map.parts);
    objects.extend(parts.map(|part| (names::map_part(epoch, part.part).into(), part.bytes)));
    let runs = root.wal_runs.iter();
    objects.extend(runs.map(|run| (names::merged_chunks(epoch, run.first, run.end).into(), run.bytes)));
    let pieces = manifest_pieces(bucket, root).await?;
    objects.extend(pieces.into_iter().map(|object| (object.key.into(), object.size)));
    objects.extend(image.files.values().map(|file| (Arc::clone(&file.key), file.size)));
    Ok(objects)
}

/// Lists the pieces of the MANIFEST of `root`.
///
/// Errors: `Corruption` when two listings lack a piece. Requests: a LIST, or two.
async fn manifest_pieces(bucket: &Bucket, root: &Root) -> Result<Vec<ObjectInfo>> {
    let dir = names::manifest_dir(root.id.epoch, root.manifest);
    let mut missing = String::new();
    for _ in 0..2 {
        let mut pieces = bucket.list(&dir, None).await?;
        match missing_piece(&pieces, root) {
            None => {
                pieces.retain(|piece| offset_in(root, piece).is_some());
                return Ok(pieces);
            }
            Some(key) => missing = key,
        }
    }
    Err(lacks_piece(root, &missing))
}

/// Makes the error for `root`, whose piece of the MANIFEST `key` is missing.
pub(crate) fn lacks_piece(root: &Root, key: &str) -> StoreError {
    let root = names::root(root.id.epoch, root.id.slot);
    StoreError::Corruption(format!(
        "{key} is missing in the bucket, but {root} needs this piece of the MANIFEST"
    ))
}

/// Returns the offset of `object` in the MANIFEST of `root`. None: it is no piece that `root` needs.
fn offset_in(root: &Root, object: &ObjectInfo) -> Option<u64> {
    let (epoch, manifest, offset) = names::parse_manifest_chunk(&object.key)?;
    let is_of_root = (epoch, manifest) == (root.id.epoch, root.manifest) && offset < root.manifest_bytes;
    is_of_root.then_some(offset)
}

/// Returns the key of the first piece of the MANIFEST of `root` that is not among `listed`, a listing in the order
/// of keys. None: all pieces are there.
pub(crate) fn missing_piece(listed: &[ObjectInfo], root: &Root) -> Option<String> {
    // Each piece must reach to the next one, and the last to the end.
    let mut reached = 0;
    for (offset, piece) in listed.iter().filter_map(|object| Some((offset_in(root, object)?, object))) {
        if reached < offset {
            break;
        }
        reached = offset + piece.size.saturating_sub(ManifestChunk::OVERHEAD_BYTES);
    }
    (reached < root.manifest_bytes).then(|| names::manifest_chunk(root.id.epoch, root.manifest, reached))
}

/// Returns the files of `map`, which is the file map of root `id` and stored in parts.
///
/// Errors: `NotFound` when a part is absent; `Corruption`. Requests: one GET per part.
pub(crate) async fn load_parts(bucket: &Bucket, map: &MapInParts, id: RootId) -> Result<FileMap> {
    let parts = read_parts(bucket, map).await?;
    join(&parts, map, &names::root(id.epoch, id.slot))
}

async fn read_parts(bucket: &Bucket, map: &MapInParts) -> Result<Vec<MapPart>> {
    let epoch = map.epoch;
    stream::iter(map.parts.iter().copied())
        .map(|part| async move {
            let key = names::map_part(epoch, part.part);
            let decode =
                |bytes: &Bytes| MapPart::read(bytes, epoch, part).map_err(|e| damaged_object(&key, &e));
            read_sized_record(bucket, &key, part.bytes, decode).await
        })
        .buffered(PARALLEL_GETS)
        .try_collect()
        .await
}

/// Returns the files of `map`, whose parts are `parts`. `object`: the name of the record that holds the map.
///
/// Errors: `Corruption` when the parts overlap, a key cannot belong to a table file, or the changes do not
/// fit the parts.
pub(crate) fn join(parts: &[MapPart], map: &MapInParts, object: &str) -> Result<FileMap> {
    let mut files = FileMap::new();
    for entry in parts.iter().flat_map(|part| &part.entries) {
        check_file_key(&entry.key, object)?;
        if files.last_key_value().is_some_and(|(last, _)| *last >= entry.number) {
            return Err(StoreError::Corruption(format!("{object} names parts of a file map that overlap")));
        }
        files.insert(entry.number, entry.record());
    }
    change(&mut files, object, &map.removed, &map.added, map.files_count)?;
    Ok(files)
}

/// Reads root `id` alone, without the parts and the earlier roots that hold its file map.
///
/// Requests: one GET.
pub(crate) async fn read_root(bucket: &Bucket, id: RootId) -> Result<Root> {
    match read_root_slot(bucket, id).await? {
        RootSlot::Root(root) => Ok(root),
        other => Err(StoreError::Corruption(format!(
            "{} should hold a published root and holds {other:?}",
            names::root(id.epoch, id.slot)
        ))),
    }
}

/// Applies the changes that `root` makes to the file map `files`. `map_slot`: the slot of the root with the
/// full map on which all changes build. A root whose map is in parts changes nothing here.
pub(crate) fn apply(files: &mut FileMap, root: &Root, map_slot: u64) -> Result<()> {
    let object = names::root(root.id.epoch, root.id.slot);
    let broken = |what: &str| Err(StoreError::Corruption(format!("{object}: {what}")));
    if root.map_slot != map_slot || root.is_full() != (root.id.slot == map_slot) {
        return broken("its file map does not continue the one before");
    }
    if root.map_in_parts.is_some() {
        return Ok(());
    }
    change(files, &object, &root.removed, &root.added, root.files_count)
}

/// Takes the files `removed` out of a map and adds `added`; the map must then have `count` files. `object`:
/// the name of the record with these changes, for messages.
///
/// Errors: `Corruption` when the changes do not fit the map.
pub(crate) fn change(
    files: &mut FileMap,
    object: &str,
    removed: &[u64],
    added: &[MapEntry],
    count: u64,
) -> Result<()> {
    let broken = |what: &str| Err(StoreError::Corruption(format!("{object}: {what}")));
    for number in removed {
        if files.remove(number).is_none() {
            return broken("it removes a file that was not there");
        }
    }
    for entry in added {
        check_file_key(&entry.key, object)?;
        if files.insert(entry.number, entry.record()).is_some() {
            return broken("it adds a file that was there already");
        }
    }
    if files.len() as u64 != count {
        return broken("its number of files is not the one it states");
    }
    Ok(())
}

/// Returns the MANIFEST bytes of `root`, complete and checked.
///
/// Requests: one LIST and one GET per chunk.
pub(crate) async fn read_manifest(bucket: &Bucket, root: &Root) -> Result<Vec<u8>> {
    let dir = names::manifest_dir(root.id.epoch, root.manifest);
    let keys: Vec<String> = bucket.list(&dir, None).await?.into_iter().map(|o| o.key).collect();
    let mut chunks = stream::iter(keys)
        .map(|key| async move {
            let chunk = read_record(bucket, &key, |bytes| {
                ManifestChunk::decode(bytes).map_err(|e| damaged_object(&key, &e))
            });
            let chunk = chunk.await?;
            Ok::<_, StoreError>((key, chunk))
        })
        .buffered(PARALLEL_GETS);
    let mut manifest = Vec::new();
    let mut crc = 0;
    while let Some(next) = chunks.next().await {
        if manifest.len() as u64 >= root.manifest_bytes {
            break;
        }
        let (key, chunk) = next?;
        append_manifest(&mut manifest, &mut crc, root, &key, &chunk)?;
    }
    let (length, found) = (manifest.len() as u64, crc);
    if length != root.manifest_bytes || found != root.manifest_crc32c {
        return Err(StoreError::Corruption(format!(
            "{dir} holds {length} bytes with checksum {found:#010x}; {} needs {} bytes with {:#010x}",
            names::root(root.id.epoch, root.id.slot),
            root.manifest_bytes,
            root.manifest_crc32c
        )));
    }
    Ok(manifest)
}

fn append_manifest(
    manifest: &mut Vec<u8>,
    crc: &mut u32,
    root: &Root,
    key: &str,
    chunk: &ManifestChunk,
) -> Result<()> {
    let expected = names::manifest_chunk(root.id.epoch, root.manifest, manifest.len() as u64);
    if names::manifest_chunk(chunk.epoch, chunk.manifest, chunk.offset) != key || key != expected {
        return Err(StoreError::Corruption(format!(
            "{expected} is missing in the bucket; the next one is {key}"
        )));
    }
    // A chunk can have bytes that do not belong to this root: those for the next root, which were uploaded
    // although that root was never created.
    let wanted = (root.manifest_bytes as usize - manifest.len()).min(chunk.bytes.len());
    let part = &chunk.bytes[..wanted];
    *crc = crc32c_join(*crc, crc32c(part), part.len() as u64);
    manifest.extend_from_slice(part);
    Ok(())
}

/// Passes to `each`, in order, the log chunks that a restore of `root` replays. Returns the number of the
/// first chunk that it did not pass.
///
/// `end`: the number of the WAL's fence. None: the epoch is still open, and all chunks up to the first gap
/// are read. Errors: `Corruption` when a chunk below `end` is missing, damaged or does not continue the chunk
/// before it, or when the chunks end before the last one that the root needs. Requests: one GET per merged
/// object that `root` names, and one per chunk that is in none of them.
pub(crate) async fn read_wal(
    bucket: &Bucket,
    root: &Root,
    end: Option<u64>,
    mut each: impl FnMut(&WalChunk) -> Result<()>,
) -> Result<u64> {
    let go_on = |chunk: &WalChunk| each(chunk).map(ControlFlow::Continue);
    let (next, _) = walk_wal(bucket, root, end, root.ddl_seq, go_on).await?;
    check_wal_end(root, next, end).map(|()| next)
}

/// Why [`walk_wal`] stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WalkEnd {
    /// The callback `each` asked to stop.
    Stopped,
    /// The next chunk depends on a later MANIFEST edit: its DDL number is above `ddl_max` (gate PUB-G8).
    Edit,
    /// There is no further chunk.
    Absent,
}

/// Passes to `each`, in order, the log chunks from the first one that `root` needs. Stops before the first
/// chunk whose DDL number is above `ddl_max`. Returns the number of the first chunk that it did not pass, or
/// at which `each` asked to stop, and why it stopped.
///
/// `end`, errors, requests: as for [`read_wal`], except that it does not check whether the root needs more
/// chunks.
pub(crate) async fn walk_wal(
    bucket: &Bucket,
    root: &Root,
    end: Option<u64>,
    ddl_max: u64,
    each: impl FnMut(&WalChunk) -> Result<ControlFlow<()>>,
) -> Result<(u64, WalkEnd)> {
    let chain = Chain::new(root.id.epoch);
    let mut walk = Walk { root, chain, ddl_max, next: root.wal_first_chunk, each };
    let needed = root.wal_runs.iter().copied().filter(|run| run.end > root.wal_first_chunk);
    let mut runs = stream::iter(needed)
        .map(|run| async move { read_run(bucket, root.id.epoch, run).await.map(|chunks| (run, chunks)) })
        .buffered(PARALLEL_RUNS);
    while let Some(read) = runs.next().await {
        let (run, chunks) = read.map_err(|e| named_and_absent(root, e))?;
        for (chunk, object) in (run.first..).zip(chunks) {
            if let Some(why) = walk.give(chunk, &object)? {
                return Ok((walk.next, why));
            }
        }
    }
    let parallel = match is_kept(bucket, root.id.epoch, root.wal_loose_first()) {
        true => PARALLEL_GETS_OF_NEWS,
        false => PARALLEL_GETS,
    };
    let mut chunks = stream::iter(root.wal_loose_first()..end.unwrap_or(u64::MAX))
        .map(|chunk| async move {
            read_chunk(bucket, root.id.epoch, chunk).await.map(|object| object.map(|object| (chunk, object)))
        })
        .buffered(parallel);
    while let Some(read) = chunks.next().await {
        let Some((chunk, object)) = read? else { break };
        if let Some(why) = walk.give(chunk, &object)? {
            return Ok((walk.next, why));
        }
    }
    Ok((walk.next, WalkEnd::Absent))
}

/// Turns the absence of a merged object or a part of the map into `Corruption`, because `root` names that
/// object. Returns other errors unchanged.
fn named_and_absent(root: &Root, error: StoreError) -> StoreError {
    match error {
        StoreError::NotFound { object, .. } => StoreError::Corruption(format!(
            "{object} is missing in the bucket, but {} needs it",
            names::root(root.id.epoch, root.id.slot)
        )),
        error => error,
    }
}

/// The state of [`walk_wal`] while it reads chunks.
struct Walk<'a, F> {
    root: &'a Root,
    chain: Chain,
    ddl_max: u64,
    /// The first chunk that was not passed to `each`.
    next: u64,
    each: F,
}

impl<F: FnMut(&WalChunk) -> Result<ControlFlow<()>>> Walk<'_, F> {
    /// Checks chunk `chunk` and passes it to `each`, unless its number is lower than the first chunk's
    /// that the root needs. Returns Some with the reason when no further chunk is to be read.
    fn give(&mut self, chunk: u64, object: &Bytes) -> Result<Option<WalkEnd>> {
        if chunk > self.next {
            return Err(StoreError::Corruption(format!(
                "{} is in no object that {} names",
                names::wal_chunk(self.root.id.epoch, self.next),
                names::root(self.root.id.epoch, self.root.id.slot)
            )));
        }
        let record = self.chain.check(chunk, object)?;
        if record.ddl_seq > self.ddl_max {
            return Ok(Some(WalkEnd::Edit));
        }
        if chunk >= self.root.wal_first_chunk {
            if (self.each)(&record)?.is_break() {
                return Ok(Some(WalkEnd::Stopped));
            }
            self.next = chunk + 1;
        }
        Ok(None)
    }
}

/// Checks that each chunk continues the chunk before it. Every chunk stores a checksum of the previous
/// chunk's object, so a chunk that is missing or was replaced is noticed.
pub(crate) struct Chain {
    epoch: u64,
    /// Number and checksum of the chunk that was checked last. None: no chunk was checked yet.
    last: Option<(u64, u32)>,
}

impl Chain {
    pub(crate) fn new(epoch: u64) -> Self {
        Self { epoch, last: None }
    }

    /// Decodes and checks chunk `chunk`. `object`: the whole object.
    ///
    /// Errors: `Corruption` when the object holds another chunk, or does not continue the chunk before.
    pub(crate) fn check(&mut self, chunk: u64, object: &Bytes) -> Result<WalChunk> {
        let key = names::wal_chunk(self.epoch, chunk);
        let broken = |what: &str| Err(StoreError::Corruption(format!("{key} {what}")));
        let WalSlot::Chunk(record) = decode_wal_slot(&key, object, self.epoch, chunk)? else {
            return broken("should be a chunk of the WAL and is a fence");
        };
        if self.last.is_some_and(|(last, crc)| (last + 1, crc) != (chunk, record.previous_crc32c)) {
            return broken("does not continue the chunk before it: one of the two was replaced");
        }
        self.last = Some((chunk, crc32c(object)));
        Ok(record)
    }
}

/// Reads a merged object. Returns the objects of its chunks, in order.
///
/// Errors: `NotFound` when it is absent; `Corruption` when it is damaged or has other chunks than its name
/// says.
pub(crate) async fn read_run(bucket: &Bucket, epoch: u64, run: WalRun) -> Result<Vec<Bytes>> {
    let key = names::merged_chunks(epoch, run.first, run.end);
    let decode = |bytes: &Bytes| {
        let merged = MergedChunks::decode(bytes).map_err(|e| damaged_object(&key, &e))?;
        if (merged.epoch, merged.first, merged.first + merged.chunks.len() as u64)
            != (epoch, run.first, run.end)
        {
            return Err(StoreError::Corruption(format!("{key} does not hold the chunks that its name says")));
        }
        Ok(merged.chunks)
    };
    read_sized_record(bucket, &key, run.bytes, decode).await
}

/// Whether the bytes of the chunk are in memory, because this program has read them before.
fn is_kept(bucket: &Bucket, epoch: u64, chunk: u64) -> bool {
    bucket.kept.as_ref().is_some_and(|kept| kept.find(&names::wal_chunk(epoch, chunk)).is_some())
}

/// Reads the object of one chunk. None: it is absent, or a fence is in its place.
pub(crate) async fn read_chunk(bucket: &Bucket, epoch: u64, chunk: u64) -> Result<Option<Bytes>> {
    let key = names::wal_chunk(epoch, chunk);
    let decode = |bytes: &Bytes| match decode_wal_slot(&key, bytes, epoch, chunk)? {
        WalSlot::Chunk(_) => Ok(Some(bytes.clone())),
        WalSlot::Fence(_) => Ok(None),
    };
    match read_record(bucket, &key, decode).await {
        Err(error) if error.is_not_found() => Ok(None),
        outcome => outcome,
    }
}

/// Errors: `Corruption` when `root` needs chunk `next` or later ones, and the log ends there.
pub(crate) fn check_wal_end(root: &Root, next: u64, end: Option<u64>) -> Result<()> {
    if next >= root.wal_needed_end {
        return Ok(());
    }
    Err(StoreError::Corruption(format!(
        "{} is missing or cannot be replayed; {} needs the WAL up to chunk {} (the epoch ends at {})",
        names::wal_chunk(root.id.epoch, next),
        names::root(root.id.epoch, root.id.slot),
        root.wal_needed_end,
        end.map_or("no fence yet".to_owned(), |end| end.to_string())
    )))
}
