//! An open table file. It is read from the local file, else from the part cache, else from the bucket.
//!
//! A read of local or cached bytes makes no request and does not use the async runtime.

use super::entry::{Entry, Place, Upload};
use super::settle::give_up_local;
use crate::cache::Cache;
use crate::cache::fetch::Wanted;
use crate::cache::file::CacheFile;
use crate::error::{Result, StoreError};
use crate::files::Files;
use crate::interrupt::Interrupt;
use crate::log::{Level, LogFn};
use crate::lost_objects::LostObjects;
use crate::requests::bucket::Bucket;
use crate::stats::add;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, OnceLock};

/// One range to read.
#[derive(Debug)]
pub struct ReadRequest<'a> {
    /// The position of the first byte in the file.
    pub offset: u64,
    /// Filled from its start; only at the end of the file is less than the whole buffer filled.
    pub out: &'a mut [u8],
    /// The number of bytes that were read, or the error because of which none were.
    pub result: Result<usize>,
}

/// An open table file. Its descriptor stays open until the handle is dropped.
pub struct FileHandle {
    number: u64,
    entry: Arc<Entry>,
    bucket: Bucket,
    cache: Option<Arc<Cache>>,
    runtime: tokio::runtime::Handle,
    interrupt: Interrupt,
    log: LogFn,
    plain: OnceLock<File>,
    cached: OnceLock<(Arc<CacheFile>, Arc<File>)>,
}

impl FileHandle {
    pub(super) fn new(number: u64, entry: Arc<Entry>, files: &Files) -> Self {
        Self {
            number,
            entry,
            bucket: files.bucket.clone(),
            cache: files.cache.read().clone(),
            runtime: files.runtime.clone(),
            interrupt: files.interrupt.clone(),
            log: files.log.clone(),
            plain: OnceLock::new(),
            cached: OnceLock::new(),
        }
    }

    /// Size in bytes.
    pub fn size(&self) -> u64 {
        self.entry.size
    }

    /// Fills `out` with the bytes from `offset` on; returns how many, fewer than asked only at the end of the
    /// file.
    ///
    /// `refetch`: true when the bytes of a former read failed a checksum of the caller. The cached parts of
    /// the range are then dropped and the bucket is read.
    /// Requests: none when the bytes are local or cached. Blocks: on the network otherwise; not for use on
    /// the runtime's threads. Errors: `Unavailable`, `Corruption`, `Lost`.
    pub fn read(&self, offset: u64, out: &mut [u8], refetch: bool) -> Result<usize> {
        if refetch {
            self.distrust(offset, out.len() as u64);
        }
        if let (Some((file, data)), Some(cache)) = (self.kept_cached(), &self.cache)
            && cache.is_enabled()
        {
            let length = self.entry.size.saturating_sub(offset).min(out.len() as u64) as usize;
            let out = out.get_mut(..length).unwrap_or_default();
            let mut wanted = [Wanted { offset, out, result: Ok(()) }];
            cache.read(file, data, &mut wanted);
            let [want] = wanted;
            return want.result.map(|()| length).map_err(|e| self.explain(e));
        }
        let mut requests = [ReadRequest { offset, out, result: Ok(0) }];
        self.read_many(&mut requests);
        let [request] = requests;
        request.result
    }

    /// Fills many ranges. Missing parts that are close together share a GET, and the GETs run in parallel.
    pub fn read_many(&self, requests: &mut [ReadRequest<'_>]) {
        for request in requests.iter_mut() {
            let left = self.entry.size.saturating_sub(request.offset);
            request.result = Ok(left.min(request.out.len() as u64) as usize);
        }
        if self.cached.get().is_none() && self.read_plain(requests) {
            return;
        }
        self.read_object(requests);
    }

    /// Starts fetching a range into the part cache; returns at once.
    pub fn prefetch(&self, offset: u64, length: u64) {
        if self.bucket.is_directory() || self.entry.local_path().is_some() {
            return;
        }
        if let (Some(cache), Some((file, _))) = (&self.cache, self.open_cached()) {
            cache.prefetch(&file, offset..offset.saturating_add(length).min(self.entry.size));
        }
    }

    /// Reads from a complete file on this machine; returns false when there is none (any more).
    fn read_plain(&self, requests: &mut [ReadRequest<'_>]) -> bool {
        // The lock is held during the pread, because the file must not move into the part cache meanwhile:
        // eviction punches holes into cache files.
        let place = self.entry.place.read();
        let opened = match (self.plain.get(), &*place) {
            (Some(_), Place::Bucket) if !self.bucket.is_directory() => return false,
            (Some(open), _) => Ok(open),
            (None, place) => self.open_plain(place),
        };
        let file = match opened {
            Ok(file) => file,
            Err(None) => return false,
            Err(Some(error)) => {
                requests.iter_mut().for_each(|request| request.result = Err(error.clone()));
                return true;
            }
        };
        for request in requests {
            let length = *request.result.as_ref().unwrap_or(&0);
            if let Some(out) = request.out.get_mut(..length) {
                request.result = match file.read_exact_at(out, request.offset) {
                    Ok(()) => {
                        self.lost().found(&self.entry.key, request.offset + length as u64);
                        Ok(length)
                    }
                    Err(error) => Err(self.io_error(&error)),
                };
            }
        }
        true
    }

    /// Opens the complete file on this machine. Err(None): there is none, so the caller uses cache and
    /// bucket.
    fn open_plain(&self, place: &Place) -> std::result::Result<&File, Option<StoreError>> {
        let object = self.bucket.local_path(&self.entry.key);
        let path = match (place, object) {
            (Place::Local(path), None) => path.clone(),
            (Place::Local(path), Some(_)) if path.exists() => path.clone(),
            (_, Some(object)) => object,
            (Place::Bucket, None) => return Err(None),
        };
        match File::open(&path) {
            Ok(file) => Ok(self.plain.get_or_init(|| file)),
            Err(error) => {
                let error = StoreError::from_io("opening", &path, &error);
                let is_object = self.bucket.local_path(&self.entry.key).as_ref() == Some(&path);
                Err(Some(if is_object { self.explain(error) } else { self.with_number(error) }))
            }
        }
    }

    /// Reads through the part cache, or straight from the bucket when the cache is off or its disk fails.
    fn read_object(&self, requests: &mut [ReadRequest<'_>]) {
        let mut wanted: Vec<Wanted<'_>> = requests
            .iter_mut()
            .map(|request| {
                let length = *request.result.as_ref().unwrap_or(&0);
                let out = request.out.get_mut(..length).unwrap_or_default();
                Wanted { offset: request.offset, out, result: Ok(()) }
            })
            .collect();
        match (&self.cache, self.open_cached()) {
            (Some(cache), Some((file, data))) if cache.is_enabled() => cache.read(&file, &data, &mut wanted),
            (Some(cache), _) => cache.read_past(&self.entry.key, wanted.iter_mut().collect()),
            (None, _) => wanted.iter_mut().for_each(|want| {
                want.result =
                    Err(StoreError::Bug(format!("file {} was read before the cache is open", self.number)));
            }),
        }
        let outcomes: Vec<Result<()>> = wanted.into_iter().map(|want| want.result).collect();
        for (request, outcome) in requests.iter_mut().zip(outcomes) {
            if let Err(error) = outcome {
                request.result = Err(self.explain(error));
            }
        }
    }

    /// The cache file of this object; None when the cache is off or its disk fails.
    fn open_cached(&self) -> Option<(Arc<CacheFile>, Arc<File>)> {
        if let Some(open) = self.kept_cached() {
            return Some(open.clone());
        }
        let cache = self.cache.as_ref().filter(|cache| cache.is_enabled())?;
        let file = cache.file(&self.entry.key, self.entry.size).ok()?;
        let data = file.data().ok()?;
        let open = (file, data);
        // The handle keeps only the first cache file that it opens. It opens a second one only after the
        // first was deleted, which is rare.
        let _ = self.cached.set(open.clone());
        Some(open)
    }

    /// The cache file that this handle has open; None when it has none. None also when that cache file was
    /// deleted because RocksDB removed its table file. Only a mount of a past state still reads such a table
    /// file, and parts are no longer stored in a deleted cache file.
    fn kept_cached(&self) -> Option<&(Arc<CacheFile>, Arc<File>)> {
        self.cached.get().filter(|(file, _)| !file.is_deleted())
    }

    /// Drops local bytes that failed a checksum of the caller: cached parts of the range, or the whole local
    /// copy of an uploaded file, so that the next read asks the bucket. A file that is not uploaded has no
    /// other copy, so it is simply read again.
    fn distrust(&self, offset: u64, length: u64) {
        if self.bucket.is_directory() {
            return;
        }
        if self.entry.local_path().is_some() {
            if matches!(&*self.entry.upload.lock(), Upload::Done { .. }) {
                add(&self.bucket.stats().cache_corruptions, 1);
                give_up_local(&self.entry);
            }
            return;
        }
        if let (Some(cache), Some((file, _))) = (&self.cache, self.open_cached()) {
            let end = offset.saturating_add(length).min(self.entry.size);
            cache.drop_range(&file, offset.min(end)..end);
        }
    }

    fn io_error(&self, error: &std::io::Error) -> StoreError {
        let message = format!("reading file {} ({}): {error}", self.number, self.entry.key);
        match error.kind() {
            std::io::ErrorKind::UnexpectedEof if self.bucket.is_directory() => {
                self.explain(StoreError::Corruption(message))
            }
            std::io::ErrorKind::UnexpectedEof => StoreError::Corruption(message),
            _ => StoreError::Unavailable(message),
        }
    }

    fn lost(&self) -> &LostObjects {
        &self.bucket.stats().lost_objects
    }

    /// Makes the error of a read from the error of the bucket. If the object is missing or too short, the error is
    /// `Lost`, and the first such read of the object is logged. A bucket that does not answer is no such case.
    ///
    /// Requests: a HEAD when the bucket has refused the range or has given too few bytes.
    fn explain(&self, error: StoreError) -> StoreError {
        let bytes = match &error {
            StoreError::NotFound { .. } => 0,
            StoreError::Corruption(_) => self.found_bytes(),
            StoreError::Refused(message) if message.contains("HTTP 416") => self.found_bytes(),
            _ => self.entry.size,
        };
        if bytes >= self.entry.size {
            return self.with_number(error);
        }
        let found =
            if bytes == 0 { "is missing or empty".to_owned() } else { format!("has only {bytes} bytes") };
        let message = format!(
            "the object {} in {} {found}, and must have {} bytes: damaged; run `atollctl verify`, and put the \
             object back",
            self.entry.key,
            self.bucket.place(),
            self.entry.size
        );
        if self.lost().note(&self.entry.key, bytes, &message) {
            (self.log)(Level::Error, &message);
        }
        StoreError::Lost(message)
    }

    fn with_number(&self, error: StoreError) -> StoreError {
        error.with(format!("reading file {}", self.number))
    }

    /// The size of the object. If it cannot be found out, the size that the object must have.
    fn found_bytes(&self) -> u64 {
        if let Some(path) = self.bucket.local_path(&self.entry.key) {
            return std::fs::metadata(path).map_or(self.entry.size, |metadata| metadata.len());
        }
        match self.interrupt.block_on(&self.runtime, self.bucket.head(&self.entry.key)) {
            Ok(Ok(object)) => object.size,
            Ok(Err(error)) if error.is_not_found() => 0,
            _ => self.entry.size,
        }
    }

    /// The runtime on which requests of this handle run.
    pub fn runtime(&self) -> &tokio::runtime::Handle {
        &self.runtime
    }
}
