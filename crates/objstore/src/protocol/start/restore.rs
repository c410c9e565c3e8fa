//! Building the local directory from the bucket alone.
//!
//! Everything is written into `<local_dir>.restoring`, made durable, and renamed at the end. So a crash
//! leaves either no local directory or a complete one.
//!
//! RESTORE-1: the result is the state of one root plus a prefix of the WAL behind it: whole transactions
//!            only.

use crate::error::{Result, StoreError};
use crate::protocol::format::image::{self, Image};
use crate::protocol::format::records::{Marker, Root, RootId, WalChunk};
use crate::protocol::publish::local_map::write_files;
use crate::protocol::publish::map_record::{LocalFiles, MapEntry};
use crate::protocol::start::claim::OwnEpoch;
use crate::protocol::start::local::{
    manifest_path, move_into_place, sibling, sync_directory, wal_path, write_durably, write_marker,
};
use crate::protocol::wal::replay::ReplayEnd;
use crate::requests::bucket::Bucket;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// What a restore brought back, for the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Restored {
    pub(crate) files: usize,
    pub(crate) wal_chunks: u64,
    pub(crate) wal_bytes: u64,
    /// The sequence number at which the last record of the WAL starts, see [`ReplayEnd::last_start`].
    pub(crate) last_start: Option<u64>,
}

/// Rebuilds `dir` from root `image` and the WAL chunks below `wal_end` (None: all up to the first gap), and
/// gives it `marker`.
///
/// Table files stay in the bucket; the caller installs the file map.
/// Requests: a LIST and a GET per MANIFEST chunk, a GET per WAL chunk.
pub(crate) async fn restore(
    bucket: &Bucket,
    image: &Image,
    wal_end: Option<u64>,
    dir: &Path,
    marker: &Marker,
) -> Result<Restored> {
    let building = sibling(dir, "restoring");
    if building.exists() {
        fs::remove_dir_all(&building).map_err(|e| StoreError::from_io("removing", &building, &e))?;
    }
    write_manifest(bucket, &image.root, &building).await?;
    let mut logs = LogWriter::new(building.clone(), image.root.wal_min);
    let first = image.root.wal_first_chunk;
    let end = image::read_wal(bucket, &image.root, wal_end, |chunk| logs.append(chunk)).await?;
    let last_start = logs.end.last_start();
    let wal_bytes = logs.finish()?;
    let files = image.files.iter().map(|(number, file)| MapEntry::new(*number, file)).collect();
    write_files(&building, &LocalFiles { db_uuid: marker.db_uuid.clone(), files, in_parts: None })?;
    write_marker(&building, marker)?;
    sync_directory(&building)?;
    move_into_place(&building, dir)?;
    Ok(Restored { files: image.files.len(), wal_chunks: end - first, wal_bytes, last_start })
}

/// Creates `dir` with the MANIFEST of `root` and the CURRENT that names it. Requests: a LIST and a GET per
/// MANIFEST chunk.
pub(in crate::protocol) async fn write_manifest(bucket: &Bucket, root: &Root, dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).map_err(|e| StoreError::from_io("creating", dir, &e))?;
    let number = root.manifest.number;
    write_durably(&manifest_path(dir, number), &image::read_manifest(bucket, root).await?)?;
    write_durably(&dir.join("CURRENT"), format!("MANIFEST-{number:06}\n").as_bytes())
}

/// Writes the bytes of chunks to the WAL files from which they were cut.
pub(in crate::protocol) struct LogWriter {
    dir: PathBuf,
    /// The lowest number of a WAL that the root needs; chunks of WALs below it are left out.
    wal_min: u64,
    open: BTreeMap<u64, (File, u64)>,
    end: ReplayEnd,
}

impl LogWriter {
    pub(in crate::protocol) fn new(dir: PathBuf, wal_min: u64) -> Self {
        Self { dir, wal_min, open: BTreeMap::new(), end: ReplayEnd::default() }
    }

    pub(in crate::protocol) fn append(&mut self, chunk: &WalChunk) -> Result<()> {
        if chunk.log < self.wal_min {
            return Ok(());
        }
        let path = wal_path(&self.dir, chunk.log);
        let (file, length) = match self.open.entry(chunk.log) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(absent) => {
                let file = File::create(&path).map_err(|e| StoreError::from_io("creating", &path, &e))?;
                absent.insert((file, 0))
            }
        };
        if *length != chunk.offset {
            return Err(StoreError::Corruption(format!(
                "WAL chunk {} of epoch {} holds WAL {} from byte {}, but only {length} bytes came before it",
                chunk.chunk, chunk.epoch, chunk.log, chunk.offset
            )));
        }
        file.write_all(&chunk.bytes).map_err(|e| StoreError::from_io("writing", &path, &e))?;
        *length += chunk.bytes.len() as u64;
        self.end.read(chunk.log, &chunk.bytes);
        Ok(())
    }

    /// Makes all files durable; returns the bytes written.
    pub(in crate::protocol) fn finish(self) -> Result<u64> {
        let mut total = 0;
        for (number, (file, length)) in self.open {
            file.sync_all().map_err(|e| StoreError::from_io("syncing", &wal_path(&self.dir, number), &e))?;
            total += length;
        }
        Ok(total)
    }
}

/// The marker of a directory that `epoch` is about to own, before that epoch has published a root.
pub(crate) fn fresh_marker(db_uuid: &str, epoch: OwnEpoch) -> Marker {
    let OwnEpoch { number, nonce } = epoch;
    let root = RootId { epoch: number, slot: 0 };
    let db_uuid = db_uuid.to_owned();
    Marker { db_uuid, epoch: number, root, claim_nonce: Some(nonce), root_nonce: None }
}
