//! Compares the WALs of a local directory with the bucket's chunks, before RocksDB reads them.
//!
//! RocksDB takes a damaged record for the end of the WAL after a crash, so it drops all records after it
//! without an error. The bucket may still have the bytes that the disk has lost, or that are missing
//! because the disk was put back to an earlier state.
//!
//! LOCALWAL-1: after the comparison, the local WALs hold every byte that a restore of the same root would
//!             bring back (IMAGE-4).
//! LOCALWAL-2: local bytes after the bucket's last byte stay. They are commits that were not shipped, and
//!             zeros that the server writes in advance, after its last record.
//! LOCALWAL-3: a WAL is replaced by rename, after its new bytes are durable. A crash before the rename leaves
//!             the old WAL, which is compared again.

use crate::error::{Result, StoreError};
use crate::log::{Level, LogFn};
use crate::protocol::format::image;
use crate::protocol::format::records::{Root, WalChunk};
use crate::protocol::start::local::{read_wal_range, sibling, sync_directory, wal_files, wal_path};
use crate::protocol::wal::replay::ReplayEnd;
use crate::requests::bucket::Bucket;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The suffix of the file beside a WAL in which that WAL is put together anew: `000012.log.mended`.
const MENDED: &str = "mended";

/// What the comparison found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Compared {
    /// False: a chunk of the bucket is missing or damaged; from there on the local WALs were taken as they
    /// are.
    pub(crate) is_whole: bool,
    /// The sequence number at which the last record of the compared bytes starts, see
    /// [`ReplayEnd::last_start`].
    pub(crate) last_start: Option<u64>,
}

/// Makes the WALs in `dir` hold the bytes of the chunks of `root` below `wal_end`, and logs what was
/// different.
///
/// Errors: the bucket's and the local disk's; then try again. A damaged chunk in the bucket is not an
/// error: it is logged, because the local WAL may be whole. Requests: one GET per chunk. Disk: a copy of
/// each WAL that differs.
pub(crate) async fn compare(
    bucket: &Bucket,
    root: &Root,
    wal_end: u64,
    dir: &Path,
    log: &LogFn,
) -> Result<Compared> {
    let mut wals = LocalWals::new(dir, root.wal_min)?;
    let is_whole = match image::read_wal(bucket, root, Some(wal_end), |chunk| wals.compare(chunk)).await {
        Ok(_) => true,
        Err(StoreError::Corruption(what)) => {
            let message = format!(
                "the logs in {} could not be compared with the bucket to the end: {what}. From there on they are used as \
                 they are. Nothing of former epochs is deleted from the bucket until the next start",
                dir.display()
            );
            log(Level::Error, &message);
            false
        }
        Err(error) => return Err(error),
    };
    let last_start = wals.end.last_start();
    wals.finish(log)?;
    Ok(Compared { is_whole, last_start })
}

/// The WALs of one directory, while the bucket's chunks are compared with them one after the other.
struct LocalWals {
    dir: PathBuf,
    /// The lowest number of a WAL that the root needs; chunks of WALs below it are not compared.
    wal_min: u64,
    /// The number of the newest WAL in the directory; None when it has none.
    newest: Option<u64>,
    wals: BTreeMap<u64, LocalWal>,
    end: ReplayEnd,
}

/// One WAL, and how far it has been compared.
struct LocalWal {
    path: PathBuf,
    /// The local file; None when the directory has no such file.
    file: Option<File>,
    /// How many bytes of this WAL the chunks have held so far.
    compared_bytes: u64,
    /// The file that replaces this WAL; None while there is no difference. It holds the bytes before the
    /// first difference, and after them the bytes of the chunks.
    mended: Option<File>,
    /// Offset of the first byte that is missing or differs.
    first_difference: u64,
    different_bytes: u64,
}

impl LocalWals {
    fn new(dir: &Path, wal_min: u64) -> Result<Self> {
        remove_unfinished(dir)?;
        let newest = wal_files(dir)?.last().map(|(number, _)| *number);
        Ok(Self { dir: dir.to_owned(), wal_min, newest, wals: BTreeMap::new(), end: ReplayEnd::default() })
    }

    fn compare(&mut self, chunk: &WalChunk) -> Result<()> {
        if chunk.log < self.wal_min {
            return Ok(());
        }
        let wal = match self.wals.entry(chunk.log) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(LocalWal::open(wal_path(&self.dir, chunk.log))?),
        };
        wal.compare(chunk)?;
        self.end.read(chunk.log, &chunk.bytes);
        Ok(())
    }

    /// Renames the mended WALs to the names of the old ones, and logs what was different.
    fn finish(self, log: &LogFn) -> Result<()> {
        for (number, wal) in self.wals {
            // When a missing WAL is older than the newest one, RocksDB has deleted it, because table files
            // hold its data; no root names these files yet. RocksDB skips the WAL when it comes back. A WAL
            // that is older than the missing one may still exist, because RocksDB deletes several WALs from
            // the newest on, and a crash may come between two deletions.
            let was_deleted = wal.file.is_none() && self.newest.is_some_and(|newest| number < newest);
            if let Some((level, message)) = wal.message(was_deleted) {
                log(level, &message);
            }
            wal.finish()?;
        }
        sync_directory(&self.dir)
    }
}

impl LocalWal {
    fn open(path: PathBuf) -> Result<Self> {
        let file = match File::open(&path) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(StoreError::from_io("opening", &path, &error)),
        };
        Ok(Self { path, file, compared_bytes: 0, mended: None, first_difference: 0, different_bytes: 0 })
    }

    fn compare(&mut self, chunk: &WalChunk) -> Result<()> {
        if chunk.offset != self.compared_bytes {
            return Err(StoreError::Corruption(format!(
                "WAL chunk {} of epoch {} holds WAL {} from byte {}, but only {} bytes came before it",
                chunk.chunk, chunk.epoch, chunk.log, chunk.offset, self.compared_bytes
            )));
        }
        let local = self.local_bytes(chunk.offset, chunk.bytes.len());
        if local != chunk.bytes {
            self.count_differences(&local, chunk);
            self.start_mending()?;
        }
        if let Some(mended) = &mut self.mended {
            mended.write_all(&chunk.bytes).map_err(|e| StoreError::from_io("writing", &self.path, &e))?;
        }
        self.compared_bytes += chunk.bytes.len() as u64;
        Ok(())
    }

    /// Returns the local bytes, fewer at the end of the file. Bytes that the disk cannot read count as
    /// missing.
    fn local_bytes(&self, offset: u64, length: usize) -> Vec<u8> {
        self.file
            .as_ref()
            .map(|file| read_wal_range(file, offset, length).unwrap_or_default())
            .unwrap_or_default()
    }

    /// Counts the bytes that differ. A missing byte counts as a zero, because the zeros that the server
    /// writes in advance, after its last record, are no difference.
    fn count_differences(&mut self, local: &[u8], chunk: &WalChunk) {
        let local = local.iter().copied().chain(std::iter::repeat(0));
        let differing = local.zip(&chunk.bytes).enumerate().filter(|(_, (local, stored))| local != *stored);
        for (index, _) in differing {
            if self.different_bytes == 0 {
                self.first_difference = chunk.offset + index as u64;
            }
            self.different_bytes += 1;
        }
    }

    /// Begins the file `mended` with the bytes before this chunk, which were the same.
    fn start_mending(&mut self) -> Result<()> {
        if self.mended.is_some() {
            return Ok(());
        }
        let path = sibling(&self.path, MENDED);
        let start = || {
            let mut mended = File::create(&path)?;
            copy_range(self.file.as_ref(), 0, self.compared_bytes, &mut mended)?;
            Ok(mended)
        };
        self.mended = Some(start().map_err(|e| StoreError::from_io("writing", &path, &e))?);
        Ok(())
    }

    /// Adds the local bytes that the bucket lacks (rule LOCALWAL-2), makes the new file durable, and renames
    /// it to the WAL's name (rule LOCALWAL-3).
    fn finish(self) -> Result<()> {
        let Some(mut mended) = self.mended else { return Ok(()) };
        let path = sibling(&self.path, MENDED);
        let mut finish = || {
            copy_range(self.file.as_ref(), self.compared_bytes, u64::MAX, &mut mended)?;
            mended.sync_all()?;
            fs::rename(&path, &self.path)
        };
        finish().map_err(|e| StoreError::from_io("replacing", &self.path, &e))
    }

    /// Returns the message to log about this WAL; None when no byte differed.
    fn message(&self, was_deleted: bool) -> Option<(Level, String)> {
        if self.different_bytes == 0 {
            return None;
        }
        let (path, bytes) = (self.path.display(), self.different_bytes);
        if was_deleted {
            let message = format!(
                "{path} is not there any more and was taken from the bucket ({} bytes), whose newest root still needs it",
                self.compared_bytes
            );
            return Some((Level::Info, message));
        }
        let what = match self.file {
            Some(_) => format!(
                "differs from the bucket: {bytes} bytes, the first one at offset {}, are missing or \
                 not what the server wrote",
                self.first_difference
            ),
            None => format!("is missing ({} bytes)", self.compared_bytes),
        };
        let message = format!(
            "{path} {what}. The bytes were taken from the bucket, so no commit that is there is lost. Look for the cause: \
             a damaged disk, or a directory that was put back to an earlier state"
        );
        Some((Level::Warning, message))
    }
}

/// Removes the `.mended` files that a crash has left unfinished.
fn remove_unfinished(dir: &Path) -> Result<()> {
    for entry in fs::read_dir(dir).map_err(|e| StoreError::from_io("reading", dir, &e))? {
        let path = entry.map_err(|e| StoreError::from_io("reading", dir, &e))?.path();
        if path.extension().is_some_and(|extension| extension == MENDED) {
            fs::remove_file(&path).map_err(|e| StoreError::from_io("removing", &path, &e))?;
        }
    }
    Ok(())
}

/// Appends at most `length` bytes of `from`, beginning at `offset`, to `to`. Does nothing when `from` is
/// None.
fn copy_range(from: Option<&File>, offset: u64, length: u64, to: &mut File) -> std::io::Result<()> {
    let Some(mut from) = from else { return Ok(()) };
    from.seek(SeekFrom::Start(offset))?;
    std::io::copy(&mut from.take(length), to).map(|_| ())
}
