//! Copies a state of another epoch or another database, and creates the first root of an epoch from it.
//! MANIFEST and log are copied; table files stay where they are. Transactions of the server that are in the
//! middle of a two-phase commit at the end of the log are rolled back (undecided.rs).

use crate::crc::crc32c;
use crate::error::{Result, StoreError};
use crate::files::FileRecord;
use crate::protocol::format::image;
use crate::protocol::format::names::{self, ManifestCopy};
use crate::protocol::format::records::{Alive, ManifestChunk, Root, RootId, WalChunk};
use crate::protocol::history::log_cut::Cut;
use crate::protocol::history::snapshot::Moment;
use crate::protocol::publish::map_writer::MapWriter;
use crate::protocol::shared::Tuning;
use crate::protocol::start::alive;
use crate::protocol::start::claim::wall_clock_ms;
use crate::protocol::start::local::random_nonce;
use crate::protocol::wal::undecided::Undecided;
use crate::requests::bucket::{Bucket, SlotOutcome};
use bytes::Bytes;
use std::collections::BTreeMap;

/// The copies of MANIFEST and log are cut into objects with at most this many bytes of them.
const PIECE_BYTES: usize = 4 << 20;
/// The slot of the root that `write` creates. Slot 0 holds the claim.
pub(in crate::protocol) const SLOT: u64 = 1;

/// Writes `moment` of the database in `from` as the first root of `epoch` in `to`. The caller has claimed
/// `epoch` and published nothing in it. `files`: the table files of `moment`, with the keys that a reader of
/// `to` needs. Returns how many bytes it copied.
///
/// Errors: `Invalid` when another program has claimed or published meanwhile. Requests: those that read the
/// MANIFEST and the log, a PUT for each 4 MiB of them, for each part of the file map, for the root, and for
/// the hint.
pub(in crate::protocol) async fn write(
    from: &Bucket,
    to: &Bucket,
    epoch: u64,
    moment: &Moment,
    files: &BTreeMap<u64, FileRecord>,
    creator: &str,
) -> Result<u64> {
    let root = &moment.image.root;
    let manifest = image::read_manifest(from, root).await?;
    let manifest_copy = ManifestCopy { number: root.manifest.number, copy: 0 };
    for (index, bytes) in manifest.chunks(PIECE_BYTES).enumerate() {
        let offset = (index * PIECE_BYTES) as u64;
        let chunk = ManifestChunk { epoch, manifest: manifest_copy, offset, bytes: bytes.to_vec() };
        put(to, &names::manifest_chunk(epoch, manifest_copy, offset), |nonce| chunk.encode(nonce)).await?;
    }
    let log = copy_log(from, epoch, moment).await?;
    let log_bytes = log.chunks.iter().map(|chunk| chunk.bytes.len() as u64).sum::<u64>();
    let chunks = log.put(to).await?;
    let mut map = MapWriter::new(epoch, Tuning::default().map);
    map.apply(files.iter().map(|(number, file)| (*number, Some(file.clone()))).collect())?;
    for part in map.unsent() {
        let key = names::map_part(epoch, part.part);
        settle(to, &key, to.create_slot(&key, part.bytes.clone(), &part.nonce).await?)?;
    }
    let root = root_of(moment, epoch, manifest_copy, chunks, &map);
    put(to, &names::root(epoch, root.id.slot), |nonce| root.encode(nonce)).await?;
    // This hint says that the epoch's owner has closed the database, so that the first server need not wait
    // for it.
    let closed = Alive { epoch, server_id: creator.to_owned(), counter: 0, closed: true };
    alive::show(to, &closed).await?;
    Ok(manifest.len() as u64 + log_bytes)
}

/// Returns the log of `moment` as [`write`] copies it. Besides this log, a reader of the state needs only the
/// table files and the MANIFEST.
///
/// Requests: a LIST, and a GET per chunk.
pub(in crate::protocol) async fn read_log(
    from: &Bucket,
    epoch: u64,
    moment: &Moment,
) -> Result<Vec<WalChunk>> {
    Ok(copy_log(from, epoch, moment).await?.chunks)
}

/// Returns the log of `moment` as a log of `epoch`. Appends rollbacks for those of the server's transactions
/// that are in the middle of a two-phase commit at its end.
async fn copy_log(from: &Bucket, epoch: u64, moment: &Moment) -> Result<LogCopy> {
    let root = &moment.image.root;
    let (mut log, mut undecided) = (LogCopy { epoch, chunks: Vec::new() }, Undecided::default());
    let mut add = |chunk: WalChunk| {
        if chunk.log >= root.wal_min {
            undecided.read(chunk.log, &chunk.bytes)?;
        }
        log.add(&chunk);
        Ok(())
    };
    image::read_wal(from, root, Some(moment.wal_end), |chunk| match &moment.cut {
        Some(cut) => add(WalChunk { bytes: kept(chunk, cut), ..chunk.clone() }),
        None => add(chunk.clone()),
    })
    .await?;
    let piece = |log, offset, bytes| {
        let (chunk, ddl_seq, previous_crc32c) = (0, root.ddl_seq, 0);
        WalChunk { epoch, chunk, log, offset, ddl_seq, previous_crc32c, bytes }
    };
    if let Some(cut) = &moment.cut {
        add(piece(cut.log, cut.offset, cut.tail()))?;
    }
    if let Some(rollback) = undecided.rollback() {
        log.cut(rollback.log, rollback.offset);
        log.add(&piece(rollback.log, rollback.offset, rollback.bytes));
    }
    Ok(log)
}

/// Returns the bytes of `chunk` that come before `cut` in the log.
fn kept(chunk: &WalChunk, cut: &Cut) -> Vec<u8> {
    chunk.bytes[..cut.keeps(chunk.log, chunk.offset, chunk.bytes.len())].to_vec()
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
        ..from.clone()
    }
}

/// A copied log. Small chunks of the source are joined into few chunks.
struct LogCopy {
    epoch: u64,
    chunks: Vec<WalChunk>,
}

impl LogCopy {
    fn add(&mut self, chunk: &WalChunk) {
        if chunk.bytes.is_empty() {
            return;
        }
        if let Some(last) = self.chunks.last_mut()
            && (last.log, last.offset + last.bytes.len() as u64, last.ddl_seq)
                == (chunk.log, chunk.offset, chunk.ddl_seq)
            && last.bytes.len() + chunk.bytes.len() <= PIECE_BYTES
        {
            return last.bytes.extend_from_slice(&chunk.bytes);
        }
        self.chunks.push(WalChunk { epoch: self.epoch, chunk: self.chunks.len() as u64, ..chunk.clone() });
    }

    /// Removes everything from byte `offset` of WAL `log` on.
    fn cut(&mut self, log: u64, offset: u64) {
        self.chunks.retain(|chunk| (chunk.log, chunk.offset) < (log, offset));
        if let Some(last) = self.chunks.last_mut().filter(|last| last.log == log) {
            last.bytes.truncate((offset - last.offset) as usize);
        }
    }

    /// Uploads the chunks. Returns how many chunks there are.
    async fn put(self, to: &Bucket) -> Result<u64> {
        let (mut previous_crc32c, count) = (0, self.chunks.len() as u64);
        for chunk in self.chunks {
            let chunk = WalChunk { previous_crc32c, ..chunk };
            let key = names::wal_chunk(chunk.epoch, chunk.chunk);
            previous_crc32c = crc32c(&put(to, &key, |nonce| chunk.encode(nonce)).await?);
        }
        Ok(count)
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
            "somebody else writes a database in {}: {key} is theirs",
            to.place()
        ))),
    }
}
