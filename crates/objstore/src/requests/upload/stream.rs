//! Copies objects. Between two prefixes of one bucket, the store itself makes the copy; between two buckets,
//! the bytes go through this process.
//!
//! COPY-1: when the bytes go through this process, the copy appears under its name only after the checksum of
//!     these bytes was compared with the one in the source's root or pin.

use super::{PIECE_BYTES, blocking, read_piece, sync_directory};
use crate::crc::{crc_of_parts, crc32c, crc32c_join, part_crcs};
use crate::error::{Result, StoreError};
use crate::requests::bucket::Bucket;
use crate::requests::failure::Failure;
use bytes::Bytes;
use object_store::{Attribute, Attributes, CopyOptions, PutMode, PutOptions};
use parking_lot::Mutex;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The most bytes that one CopyObject may copy. Source: Amazon S3, API reference, CopyObject.
const SERVER_COPY_BYTES_MAX: u64 = 5 << 30;

/// How often a copy through this process is tried. Only the checksum of the whole object reveals a damaged
/// reply, so each attempt reads the whole object again.
const TRIES_MAX: u32 = 3;

/// Key, size and checksum of an object, as a root or pin records them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known<'a> {
    pub(crate) key: &'a str,
    pub(crate) size: u64,
    pub(crate) crc32c: u32,
}

/// Limits the bytes per second of all copies of one process together.
#[derive(Debug)]
pub struct Pace {
    bytes_per_second: Option<u64>,
    /// The time from which the next bytes may be copied. None before the first copy.
    free_at: Mutex<Option<Instant>>,
}

impl Pace {
    /// A limit of `bytes_per_second`; None: no limit.
    pub fn new(bytes_per_second: Option<u64>) -> Self {
        Self { bytes_per_second, free_at: Mutex::new(None) }
    }

    /// Waits until `bytes` may be copied.
    async fn spend(&self, bytes: u64) {
        let Some(rate) = self.bytes_per_second else { return };
        let turn = {
            let mut free_at = self.free_at.lock();
            let now = Instant::now();
            let turn = free_at.map_or(now, |at| at.max(now));
            *free_at = Some(turn + Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64));
            turn
        };
        tokio::time::sleep_until(turn).await;
    }
}

/// Where the bytes of an upload in pieces, or of a copy, come from: a local file, or an object of another
/// bucket.
pub(super) enum Source<'a> {
    File(Arc<File>),
    Object { bucket: &'a Bucket, known: Known<'a>, pace: &'a Pace },
}

impl Source<'_> {
    /// Reads `length` bytes at `offset`, and computes the checksums of their parts. Requests: one GET if the
    /// source is an object.
    pub(super) async fn read(&self, offset: u64, length: u64) -> Result<(Bytes, Vec<u32>)> {
        match self {
            Self::File(file) => read_piece(Arc::clone(file), offset, length).await,
            Self::Object { bucket, known, pace } => {
                pace.spend(length).await;
                let bytes = bucket.get_range(known.key, offset..offset + length).await?;
                let crcs = part_crcs(&bytes);
                Ok((bytes, crcs))
            }
        }
    }

    /// Compares `found`, the checksum of the bytes that were read, with the recorded checksum of the source.
    /// Errors: `Corruption` when the source is an object and the two differ. A local file has no recorded
    /// checksum.
    pub(super) fn check(&self, found: u32) -> Result<()> {
        match self {
            Self::Object { bucket, known, .. } if known.crc32c != found => {
                Err(StoreError::Corruption(format!(
                    "{} in {} has checksum {found:#010x}, its root says {:#010x}",
                    known.key,
                    bucket.place(),
                    known.crc32c
                )))
            }
            _ => Ok(()),
        }
    }
}

impl Bucket {
    /// Makes `key` a copy of the foreign object `from` without downloading it: by CopyObject. If the bucket
    /// is a directory, makes a hard link instead, or copies the file if it is on another file system.
    ///
    /// Requires: `key` was never used for other bytes. Errors: `NotFound`; `Corruption` when the copy's size,
    /// or in a directory its checksum, differs from the recorded one. Requests: a PUT and a HEAD; for objects
    /// above 5 GiB those of [`Bucket::stream_from`].
    pub(crate) async fn copy_foreign(&self, from: Known<'_>, key: &str) -> Result<()> {
        let wrong = |what: String| {
            StoreError::Corruption(format!(
                "{} in {} {what}, which differs from its root",
                from.key,
                self.place()
            ))
        };
        if let Some(path) = self.local_path(from.key) {
            let put = self.put_file(key, &path, &[]).await?;
            if (put.size, put.crc32c) == (from.size, from.crc32c) {
                return Ok(());
            }
            self.delete(key).await?;
            return Err(wrong(format!("has {} bytes with checksum {:#010x}", put.size, put.crc32c)));
        }
        if from.size > SERVER_COPY_BYTES_MAX {
            return self.stream_from(self, from, key, &Pace::new(None)).await;
        }
        let ((store, source), target) = (self.source(from.key)?, self.path(key)?);
        let copied = self
            .repeat("copying", from.key, &self.parts.stats.requests_put, from.size, || async {
                let copy = store.copy_opts(&source, &target, CopyOptions::default());
                copy.await.map_err(|e| Failure::new(&e))
            })
            .await;
        match (self.head(key).await, copied) {
            (Ok(found), _) if found.size == from.size => Ok(()),
            (Ok(found), Ok(())) => Err(wrong(format!("has {} bytes", found.size))),
            (_, Err(error)) | (Err(error), _) => Err(error),
        }
    }

    /// Makes `key` a copy of the object `from` of the bucket `other`, which may belong to another service.
    /// The bytes go through this process.
    ///
    /// Requires: `key` was never used for other bytes. Errors: `NotFound`; `Corruption` when size or checksum
    /// differ from the recorded ones (COPY-1); `NoSpace`. Requests: as [`Bucket::put_file`], and a GET for
    /// each 16 MiB.
    pub(crate) async fn stream_from(
        &self,
        other: &Self,
        from: Known<'_>,
        key: &str,
        pace: &Pace,
    ) -> Result<()> {
        let mut tries = 1;
        loop {
            match self.try_stream_from(other, from, key, pace).await {
                Err(StoreError::Corruption(_)) if tries < TRIES_MAX => tries += 1,
                outcome => return outcome,
            }
        }
    }

    async fn try_stream_from(&self, other: &Self, from: Known<'_>, key: &str, pace: &Pace) -> Result<()> {
        self.path(key)?;
        let source = Source::Object { bucket: other, known: from, pace };
        if let Some(target) = self.local_path(key) {
            return stream_into_file(&source, from, target).await;
        }
        let crc = Attribute::Metadata("crc32c".into());
        let attributes: Attributes = [(crc, format!("{:08x}", from.crc32c))].into_iter().collect();
        match &self.parts.multipart {
            Some(multipart) if from.size > PIECE_BYTES => {
                self.put_pieces(multipart.as_ref(), key, &source, from.size, attributes).await.map(|_| ())
            }
            _ => {
                let (bytes, crcs) = source.read(0, from.size).await?;
                source.check(crc_of_parts(&crcs, from.size))?;
                let options = PutOptions { attributes, mode: PutMode::Create, ..PutOptions::default() };
                self.create_file(key, bytes, options).await
            }
        }
    }
}

/// Writes the bytes of `source` to a file beside `target` and syncs it. Renames it to `target` if its
/// checksum is right.
async fn stream_into_file(source: &Source<'_>, known: Known<'_>, target: PathBuf) -> Result<()> {
    let folder = target.parent().unwrap_or(Path::new("/")).to_owned();
    let io = |path: &Path| {
        let path = path.to_owned();
        move |e: std::io::Error| StoreError::from_io("writing a copy in the bucket directory", &path, &e)
    };
    std::fs::create_dir_all(&folder).map_err(io(&folder))?;
    let unfinished = target.with_extension("unfinished");
    let mut file = File::create(&unfinished).map_err(io(&unfinished))?;
    let outcome = async {
        let (mut at, mut crc) = (0, 0);
        while at < known.size {
            let length = PIECE_BYTES.min(known.size - at);
            let (bytes, _) = source.read(at, length).await?;
            crc = crc32c_join(crc, crc32c(&bytes), length);
            at += length;
            file.write_all(&bytes).map_err(io(&unfinished))?;
        }
        source.check(crc)
    };
    let outcome = outcome.await;
    let (finished, name) = (unfinished.clone(), target.clone());
    let moved = match outcome {
        Err(error) => Err(error),
        Ok(()) => {
            blocking(move || {
                file.sync_all().and_then(|()| std::fs::rename(&finished, &name)).map_err(io(&name))?;
                folder.ancestors().take(3).try_for_each(sync_directory).map_err(io(&folder))
            })
            .await
        }
    };
    if moved.is_err() {
        let _ = std::fs::remove_file(&unfinished);
    }
    moved
}
