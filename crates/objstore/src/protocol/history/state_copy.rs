//! Copies a state of another epoch or another database, and creates the first root of an epoch from it.
//! MANIFEST and log (log_copy.rs) are copied; table files stay where they are.

use crate::crc::crc32c;
use crate::error::{Result, StoreError};
use crate::files::FileRecord;
use crate::protocol::format::image;
use crate::protocol::format::names::{self, ManifestCopy};
use crate::protocol::format::records::{Alive, ManifestChunk, Root, RootId, WalChunk};
use crate::protocol::history::log_copy::LogReader;
use crate::protocol::history::snapshot::Moment;
use crate::protocol::publish::map_writer::MapWriter;
use crate::protocol::shared::Tuning;
use crate::protocol::start::alive;
use crate::protocol::start::claim::wall_clock_ms;
use crate::protocol::start::local::random_nonce;
use crate::requests::bucket::{Bucket, SlotOutcome};
use bytes::Bytes;
use std::collections::BTreeMap;

/// The copy of the MANIFEST is cut into objects with at most this many bytes of it.
const PIECE_BYTES: usize = 4 << 20;
/// The slot of the root that `publish` creates. Slot 0 holds the claim.
pub(in crate::protocol) const SLOT: u64 = 1;

/// A state that was copied, except for its root.
pub(in crate::protocol) struct Copied {
    root: Root,
    bytes: u64,
}

/// Writes `moment` of the database in `from` as the first root of `epoch` in `to`: [`prepare`] and
/// [`publish`]. Returns how many bytes it copied.
pub(in crate::protocol) async fn write(
    from: &Bucket,
    to: &Bucket,
    epoch: u64,
    moment: &Moment,
    files: &BTreeMap<u64, FileRecord>,
    creator: &str,
) -> Result<u64> {
    publish(to, prepare(from, to, epoch, moment, files).await?, creator).await
}

/// Copies `moment` of the database in `from` to `to`, except for the root. The caller has claimed `epoch` and
/// published nothing in it. `files`: the table files of `moment`, with the keys that a reader of `to` needs.
///
/// Errors: `Invalid` when another program has claimed or published meanwhile. Requests: those that read the
/// MANIFEST and the log, and a PUT for each 4 MiB of them and for each part of the file map.
pub(in crate::protocol) async fn prepare(
    from: &Bucket,
    to: &Bucket,
    epoch: u64,
    moment: &Moment,
    files: &BTreeMap<u64, FileRecord>,
) -> Result<Copied> {
    let root = &moment.image.root;
    let manifest = image::read_manifest(from, root).await?;
    let manifest_copy = ManifestCopy { number: root.manifest.number, copy: 0 };
    for (index, bytes) in manifest.chunks(PIECE_BYTES).enumerate() {
        let offset = (index * PIECE_BYTES) as u64;
        let chunk = ManifestChunk { epoch, manifest: manifest_copy, offset, bytes: bytes.to_vec() };
        put(to, &names::manifest_chunk(epoch, manifest_copy, offset), |nonce| chunk.encode(nonce)).await?;
    }
    let (chunks, log_bytes) = put_log(from, to, epoch, moment).await?;
    let mut map = MapWriter::new(epoch, Tuning::default().map);
    map.apply(files.iter().map(|(number, file)| (*number, Some(file.clone()))).collect())?;
    for part in map.unsent() {
        let key = names::map_part(epoch, part.part);
        settle(to, &key, to.create_slot(&key, part.bytes.clone(), &part.nonce).await?)?;
    }
    let root = root_of(moment, epoch, manifest_copy, chunks, &map);
    Ok(Copied { root, bytes: manifest.len() as u64 + log_bytes })
}

/// Creates the root of a copied state as the first root of its epoch. Returns how many bytes were copied.
///
/// Errors: `Invalid` when another program has claimed or published meanwhile. Requests: a PUT for the root,
/// and one for the hint.
pub(in crate::protocol) async fn publish(to: &Bucket, copied: Copied, creator: &str) -> Result<u64> {
    let Copied { root, bytes } = copied;
    let RootId { epoch, slot } = root.id;
    put(to, &names::root(epoch, slot), |nonce| root.encode(nonce)).await?;
    // This hint says that the epoch's owner has closed the database, so that the first server need not wait
    // for it.
    alive::show(to, &Alive::gone(epoch, creator)).await?;
    Ok(bytes)
}

/// Uploads the log of `moment` as the log of `epoch`. Returns how many chunks and how many bytes it has.
async fn put_log(from: &Bucket, to: &Bucket, epoch: u64, moment: &Moment) -> Result<(u64, u64)> {
    let (mut reader, mut previous_crc32c) = (LogReader::new(from, epoch, moment), 0);
    let (mut count, mut bytes) = (0, 0);
    while let Some(chunks) = reader.next().await? {
        for chunk in chunks {
            let chunk = WalChunk { previous_crc32c, ..chunk };
            let key = names::wal_chunk(epoch, chunk.chunk);
            previous_crc32c = crc32c(&put(to, &key, |nonce| chunk.encode(nonce)).await?);
            (count, bytes) = (count + 1, bytes + chunk.bytes.len() as u64);
        }
    }
    Ok((count, bytes))
}

/// Makes the root of the copy. It has the state of `moment`, and its whole log is in `chunks` chunks.
fn root_of(moment: &Moment, epoch: u64, manifest: ManifestCopy, chunks: u64, map: &MapWriter) -> Root {
    let (added, map_in_parts) = map.content();
    let from = &moment.image.root;
    Root {
        id: RootId { epoch, slot: SLOT },
        manifest,
        wal_first_chunk: 0,
        wal_needed_end: chunks,
        published_ms: wall_clock_ms(),
        map_slot: SLOT,
        files_count: map.files().len() as u64,
        map_in_parts,
        added,
        removed: Vec::new(),
        wal_runs: Vec::new(),
        position: from.position.as_ref().map(|_| moment.position.clone()),
        opened: None,
        ..from.clone()
    }
}

/// Creates the object `key`. Returns its bytes.
async fn put(to: &Bucket, key: &str, encode: impl Fn(&[u8; 16]) -> Vec<u8>) -> Result<Bytes> {
    let nonce = random_nonce()?;
    let bytes = Bytes::from(encode(&nonce));
    settle(to, key, to.create_slot(key, bytes.clone(), &nonce).await?)?;
    Ok(bytes)
}

fn settle(to: &Bucket, key: &str, outcome: SlotOutcome) -> Result<()> {
    match outcome {
        SlotOutcome::Mine => Ok(()),
        SlotOutcome::Lost(_) => Err(StoreError::Invalid(format!(
            "another program is writing a database in {}: it has created {key}",
            to.place()
        ))),
    }
}
