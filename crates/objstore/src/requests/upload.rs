//! Uploads a finished local file: by one PUT, by a multipart upload with parallel pieces, or by a hard link
//! when the bucket is a directory. The file is read once, and checksums are computed on the way.
//!
//! Names of table files are unique, so repeating an upload writes the same bytes again and does no harm. A
//! single PUT is create-only nevertheless, because somebody can copy a running machine: then two processes
//! write under the same names, and the second must not replace a file of the first. Multipart uploads are not
//! create-only.
//!
//! The signature of each request covers the SHA-256 of its body, which the store checks.

pub(crate) mod stream;

use self::stream::Source;
use crate::crc::{crc_of_parts, part_crcs};
use crate::error::{Result, StoreError};
use crate::machine;
use crate::requests::bucket::{Attempt, Bucket};
use crate::requests::failure::Failure;
use crate::requests::unfinished::UnfinishedUpload;
use crate::stats::add;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path as ObjectPath;
use object_store::{Attribute, Attributes, PutMode, PutMultipartOptions, PutOptions};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// Files up to this size are uploaded by one PUT, larger ones in pieces of this size. It is a multiple of the
/// part size of the cache. S3 allows 10,000 pieces, so 16 MiB allow files of 156 GiB, far larger than any
/// table file.
pub const PIECE_BYTES: u64 = 16 << 20;

/// The number of pieces of one file that are uploaded at the same time. With four files at a time and 16 MiB
/// pieces, they take 128 MiB of memory.
const PIECES_IN_FLIGHT: usize = 2;

/// Size and checksums of an uploaded file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadedFile {
    /// The size in bytes.
    pub size: u64,
    /// The checksum of the whole file.
    pub crc32c: u32,
    /// The checksum of each part of [`crate::crc::PART_BYTES`].
    pub part_crcs: Vec<u32>,
    /// True: the bucket is a directory on another file system, so it has a copy of the file, and the local
    /// file is redundant. False: the bucket has a hard link to the local file, or is no directory.
    pub copied: bool,
}

impl Bucket {
    /// Uploads the file at `local_path` as `key`. `metadata` becomes user metadata of the object if the
    /// bucket supports that.
    ///
    /// Requires: the file is finished and synced; `key` was never used for other bytes.
    /// Errors: `NotFound` when the local file is gone; `Unavailable` and `Refused`, after which the caller
    /// can try again.
    /// Requests: one PUT up to 16 MiB; for larger files 2 + size / 16 MiB. If an upload fails, the collector
    /// removes its pieces.
    pub async fn put_file(
        &self,
        key: &str,
        local_path: &Path,
        metadata: &[(&'static str, String)],
    ) -> Result<UploadedFile> {
        let file =
            File::open(local_path).map_err(|e| StoreError::from_io("opening for upload", local_path, &e))?;
        let size = file.metadata().map_err(|e| StoreError::from_io("looking at", local_path, &e))?.len();
        let file = Arc::new(file);
        self.path(key)?;
        if let Some(target) = self.local_path(key) {
            let source = local_path.to_owned();
            return blocking(move || link_file(&file, &source, &target, size)).await;
        }
        let mut attributes = Attributes::new();
        for (name, value) in metadata {
            attributes.insert(Attribute::Metadata((*name).into()), value.clone().into());
        }
        match &self.parts.multipart {
            Some(multipart) if size > PIECE_BYTES => {
                self.put_pieces(multipart.as_ref(), key, &Source::File(file), size, attributes).await
            }
            _ => self.put_whole(key, file, size, attributes).await,
        }
    }

    async fn put_whole(
        &self,
        key: &str,
        file: Arc<File>,
        size: u64,
        mut attributes: Attributes,
    ) -> Result<UploadedFile> {
        let (bytes, crcs) = read_piece(file, 0, size).await?;
        let crc32c = crc_of_parts(&crcs, size);
        attributes.insert(Attribute::Metadata("crc32c".into()), format!("{crc32c:08x}").into());
        let options = PutOptions { attributes, mode: PutMode::Create, ..PutOptions::default() };
        self.create_file(key, bytes, options).await?;
        Ok(UploadedFile { size, crc32c, part_crcs: crcs, copied: false })
    }

    /// Creates an object if its name is free. An existing object with the same bytes comes from an earlier
    /// attempt, so it counts as success.
    ///
    /// Errors: `Fenced` when an object with other bytes exists, because only a second process in the same
    /// epoch can have written it.
    async fn create_file(&self, key: &str, bytes: Bytes, options: PutOptions) -> Result<()> {
        let path = self.path(key)?;
        let size = bytes.len() as u64;
        let created = self
            .repeat("writing", key, &self.parts.stats.requests_put, size, || async {
                let put = self.parts.store.put_opts(&path, bytes.clone().into(), options.clone());
                put.await.map(|_| ()).map_err(|e| Failure::new(&e))
            })
            .await;
        match created {
            Err(StoreError::Unavailable(message)) if !self.holds(key, &bytes).await? => {
                Err(StoreError::Unavailable(message))
            }
            Ok(()) | Err(StoreError::Unavailable(_)) => {
                add(&self.parts.stats.bytes_uploaded, size);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Whether the object `key` has these bytes; false when it is absent or cannot be read. Errors: `Fenced`
    /// when two reads return the same other bytes. One read is not enough, because a damaged reply must not
    /// fence this server.
    async fn holds(&self, key: &str, bytes: &Bytes) -> Result<bool> {
        let mut seen: Option<Bytes> = None;
        for _ in 0..4 {
            let Ok(found) = self.get(key).await else { return Ok(false) };
            if found == *bytes {
                return Ok(true);
            }
            if seen.as_ref() == Some(&found) {
                return Err(StoreError::Fenced(format!(
                    "{key} in {} holds another file of the same name and epoch: a second process writes as this one. This \
                     server stops writing. Look for a copy of this machine or of its data directory",
                    self.place()
                )));
            }
            seen = Some(found);
        }
        Ok(false)
    }

    /// Sends an upload that is damaged on its way. True: the store has refused it, as it must. False: the
    /// store has accepted the damaged bytes.
    ///
    /// Requires: a bucket of [`crate::requests::client::connect_damaging`]; `key` is new. Errors:
    /// `Unavailable`, `Refused`.
    /// Requests: one PUT per attempt, and a DELETE if the store has accepted the upload.
    pub async fn refuses_damage(&self, key: &str) -> Result<bool> {
        let path = self.path(key)?;
        let bytes = Bytes::from_static(b"intact");
        let refused = self
            .refused_as_damaged(key, || async {
                let put = self.parts.store.put_opts(&path, bytes.clone().into(), PutOptions::default());
                put.await.map(|_| ()).map_err(|e| Failure::new(&e))
            })
            .await?;
        if !refused {
            self.delete(key).await?;
        }
        Ok(refused)
    }

    /// Runs `upload`, which is damaged on its way. Returns whether the store refused it because of the
    /// damage. An upload that fails for another reason is repeated.
    pub(crate) async fn refused_as_damaged<F, Fut>(&self, key: &str, upload: F) -> Result<bool>
    where
        F: Fn() -> Fut,
        Fut: Future<Output = Attempt<()>>,
    {
        self.repeat("writing", key, &self.parts.stats.requests_put, 0, || async {
            match upload().await {
                Ok(()) => Ok(false),
                Err(failure) if failure.is_damaged_upload() => Ok(true),
                Err(failure) => Err(failure),
            }
        })
        .await
    }

    async fn put_pieces(
        &self,
        multipart: &dyn MultipartStore,
        key: &str,
        source: &Source<'_>,
        size: u64,
        attributes: Attributes,
    ) -> Result<UploadedFile> {
        let path = self.path(key)?;
        let options = PutMultipartOptions { attributes, ..PutMultipartOptions::default() };
        let puts = &self.parts.stats.requests_put;
        let id = self
            .repeat("starting the upload of", key, puts, 0, || async {
                let start = multipart.create_multipart_opts(&path, options.clone());
                start.await.map_err(|e| Failure::new(&e))
            })
            .await?;
        let sent = self.send_pieces(multipart, key, &path, &id, source, size).await;
        let finished = match sent {
            Ok((pieces, crcs)) => match source.check(crc_of_parts(&crcs, size)) {
                Ok(()) => self.complete(multipart, key, &path, &id, pieces, size).await.map(|()| crcs),
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        };
        match finished {
            Ok(crcs) => {
                let crc32c = crc_of_parts(&crcs, size);
                Ok(UploadedFile { size, crc32c, part_crcs: crcs, copied: false })
            }
            Err(error) => {
                self.give_up_upload(UnfinishedUpload { key: key.to_owned(), id });
                Err(error)
            }
        }
    }

    /// Sends all pieces, [`PIECES_IN_FLIGHT`] at a time. Returns their ids and the checksums of all parts, in
    /// order.
    async fn send_pieces(
        &self,
        multipart: &dyn MultipartStore,
        key: &str,
        path: &ObjectPath,
        id: &String,
        source: &Source<'_>,
        size: u64,
    ) -> Result<(Vec<PartId>, Vec<u32>)> {
        let stats = &self.parts.stats;
        let sends = (0..size.div_ceil(PIECE_BYTES)).map(|index| async move {
            let offset = index * PIECE_BYTES;
            let (bytes, crcs) = source.read(offset, PIECE_BYTES.min(size - offset)).await?;
            let length = bytes.len() as u64;
            let piece = self
                .repeat("uploading a piece of", key, &stats.requests_put, length, || async {
                    let put = multipart.put_part(path, id, index as usize, bytes.clone().into());
                    put.await.map_err(|e| Failure::new(&e))
                })
                .await?;
            add(&stats.bytes_uploaded, length);
            Ok::<_, StoreError>((piece, crcs))
        });
        let sent: Vec<_> = futures_util::stream::iter(sends).buffered(PIECES_IN_FLIGHT).try_collect().await?;
        let (pieces, crcs): (Vec<_>, Vec<_>) = sent.into_iter().unzip();
        Ok((pieces, crcs.concat()))
    }

    /// Completes the upload. If the reply of a successful attempt is lost, the next attempt fails with "no
    /// such upload". So after a failure the object is looked up. Its name is unique, so an object of the
    /// right size is the one that was uploaded here.
    async fn complete(
        &self,
        multipart: &dyn MultipartStore,
        key: &str,
        path: &ObjectPath,
        id: &String,
        pieces: Vec<PartId>,
        size: u64,
    ) -> Result<()> {
        let completed = self
            .repeat("completing the upload of", key, &self.parts.stats.requests_put, size, || async {
                let complete = multipart.complete_multipart(path, id, pieces.clone());
                complete.await.map(|_| ()).map_err(|e| Failure::new(&e))
            })
            .await;
        match completed {
            Ok(()) => Ok(()),
            Err(error) => match self.head(key).await {
                Ok(object) if object.size == size => Ok(()),
                _ => Err(match error {
                    // The upload is gone, for example aborted by a lifecycle rule. A new upload can succeed.
                    StoreError::NotFound { .. } => StoreError::Unavailable(format!(
                        "completing the upload of {key} in {}: the bucket has forgotten this upload",
                        self.place()
                    )),
                    other => other,
                }),
            },
        }
    }
}

/// Reads `length` bytes at `offset` and computes the checksums of their parts, on a thread that may block.
async fn read_piece(file: Arc<File>, offset: u64, length: u64) -> Result<(Bytes, Vec<u32>)> {
    blocking(move || {
        let mut bytes = vec![0; length as usize];
        file.read_exact_at(&mut bytes, offset)
            .map_err(|e| StoreError::Unavailable(format!("reading a local file for upload: {e}")))?;
        let crcs = part_crcs(&bytes);
        Ok((Bytes::from(bytes), crcs))
    })
    .await
}

/// Computes the checksum of each part of a local file.
pub(crate) fn sum_file(file: &File, size: u64) -> std::io::Result<Vec<u32>> {
    const CHUNK_BYTES: u64 = 4 * crate::crc::PART_BYTES;
    let mut crcs = Vec::with_capacity(size.div_ceil(crate::crc::PART_BYTES) as usize);
    let mut buffer = vec![0; CHUNK_BYTES.min(size) as usize];
    let mut offset = 0;
    while offset < size {
        let length = CHUNK_BYTES.min(size - offset) as usize;
        if let Some(chunk) = buffer.get_mut(..length) {
            file.read_exact_at(chunk, offset)?;
            crcs.extend(part_crcs(chunk));
        }
        offset += length as u64;
    }
    Ok(crcs)
}

/// Puts a file into a bucket that is a directory: by a hard link, or by a copy if the directory is on another
/// file system.
fn link_file(file: &File, source: &Path, target: &Path, size: u64) -> Result<UploadedFile> {
    let io = |e: std::io::Error| StoreError::from_io("storing in the bucket directory", target, &e);
    let folder = target.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(folder).map_err(io)?;
    let crcs = sum_file(file, size).map_err(io)?;
    let copied = match std::fs::hard_link(source, target) {
        Ok(()) => false,
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
            // `target` comes from an earlier attempt at this upload, for example one that a crash
            // interrupted. Remove it and link or copy again.
            std::fs::remove_file(target).map_err(io)?;
            return link_file(file, source, target, size);
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Err(StoreError::from_io("linking into the bucket", source, &e));
        }
        Err(e)
            if matches!(e.raw_os_error(), Some(libc::EXDEV | libc::EPERM | libc::EMLINK | libc::ENOTSUP)) =>
        {
            copy_file(source, target).map_err(io)?;
            true
        }
        Err(e) => return Err(io(e)),
    };
    // Make new entries durable in the directories sst/<hh>, sst and the bucket's root.
    for changed in folder.ancestors().take(3) {
        sync_directory(changed).map_err(io)?;
    }
    Ok(UploadedFile { size, crc32c: crc_of_parts(&crcs, size), part_crcs: crcs, copied })
}

/// Copies a file, syncs the copy and then renames it, so that no reader ever sees an incomplete file under
/// the name `target`.
pub(crate) fn copy_file(source: &Path, target: &Path) -> std::io::Result<()> {
    let unfinished = target.with_extension("unfinished");
    std::fs::copy(source, &unfinished)?;
    File::open(&unfinished)?.sync_all()?;
    std::fs::rename(&unfinished, target)
}

/// Makes the directory entries of `folder` durable.
pub(crate) fn sync_directory(folder: &Path) -> std::io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Runs disk work on a thread that may block.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match machine::run_blocking(work).await {
        Ok(outcome) => outcome,
        Err(error) if error.is_cancelled() => Err(StoreError::Interrupted("the store is closing".into())),
        // A panic of the disk work continues in the task that waits for it, because the supervisor watches
        // that task.
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// Whether another attempt at an upload of the same local file can succeed. False: the same error is to be
/// expected again.
pub(crate) fn is_worth_repeating(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Unavailable(_)
            | StoreError::Refused(_)
            | StoreError::NoSpace(_)
            | StoreError::ReadOnly(_)
    )
}
