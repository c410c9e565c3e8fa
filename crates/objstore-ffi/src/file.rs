//! Reading table files. Local and cached bytes are read on the calling thread, without the async runtime.

use crate::abi::{AtollRead, AtollResult};
use crate::guard::{guarded, guarded_or};
use crate::store::{StoreHandle, reach};
use objstore::files::{FileHandle, ReadRequest};
use std::ffi::{c_char, c_int};
use std::slice;

/// The C type `atoll_file`. C++ owns it until `atoll_file_close`.
pub struct OpenFile {
    file: FileHandle,
}

impl OpenFile {
    pub(crate) fn new(file: FileHandle) -> Self {
        Self { file }
    }
}

/// # Safety
///
/// - `store` is open; `out` points to a writable pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_file_open(
    store: *const StoreHandle,
    number: u64,
    out: *mut *mut OpenFile,
) -> AtollResult {
    guarded(|| {
        // SAFETY: the caller guarantees that `store` is open.
        let file = unsafe { reach(store) }.files().open(number)?;
        // SAFETY: the caller guarantees that `out` may be written.
        unsafe { *out = Box::into_raw(Box::new(OpenFile::new(file))) };
        Ok(())
    })
}

/// # Safety
///
/// - `file` is null, or came from `atoll_file_open` or `atoll_mount_open_file`, was not closed, and is not
///   used by any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_file_close(file: *mut OpenFile) {
    if !file.is_null() {
        // SAFETY: the pointer came from Box::into_raw, and the caller gives the box back.
        guarded_or((), || drop(unsafe { Box::from_raw(file) }));
    }
}

/// # Safety
///
/// - `file` is open; `read` points to a writable integer.
/// - `buffer` points to `length` writable bytes that nothing else touches during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_file_read(
    file: *const OpenFile,
    offset: u64,
    length: u64,
    buffer: *mut c_char,
    read: *mut u64,
    refetch: c_int,
) -> AtollResult {
    guarded(|| {
        // SAFETY: the caller guarantees that `file` is open and `buffer` has `length` writable bytes.
        let (file, out) = unsafe { (&(*file).file, bytes_of(buffer, length)) };
        let count = file.read(offset, out, refetch != 0)?;
        // SAFETY: the caller guarantees that `read` may be written.
        unsafe { *read = count as u64 };
        Ok(())
    })
}

/// # Safety
///
/// - `file` is open; `reads` points to `count` requests whose buffers are writable, do not overlap, and are
///   touched by nothing else during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_file_read_many(file: *const OpenFile, reads: *mut AtollRead, count: usize) {
    if count == 0 {
        return;
    }
    // SAFETY: the caller guarantees that `file` is open and `reads` has `count` requests.
    let (file, reads) = unsafe { (&(*file).file, slice::from_raw_parts_mut(reads, count)) };
    let outcome = guarded(|| {
        let mut requests: Vec<ReadRequest<'_>> = reads
            .iter()
            .map(|read| ReadRequest {
                offset: read.offset,
                // SAFETY: the caller guarantees that each buffer is writable and used by nothing else.
                out: unsafe { bytes_of(read.buffer, read.length) },
                result: Ok(0),
            })
            .collect();
        file.read_many(&mut requests);
        let results: Vec<_> = requests.into_iter().map(|request| request.result).collect();
        for (read, result) in reads.iter_mut().zip(results) {
            read.read = *result.as_ref().unwrap_or(&0) as u64;
            read.result.set(result.as_ref().map(|_| ()));
        }
        Ok(())
    });
    if outcome.code != 0 {
        for read in reads {
            read.read = 0;
            read.result = AtollResult { code: outcome.code, message: outcome.message };
        }
    }
}

/// # Safety
///
/// - `file` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_file_prefetch(file: *const OpenFile, offset: u64, length: u64) {
    // SAFETY: the caller guarantees that `file` is open.
    guarded_or((), || unsafe { &(*file).file }.prefetch(offset, length));
}

/// The caller's buffer as a slice. If `length` is 0, `buffer` may be null.
///
/// # Safety
///
/// - `length` is 0, or `buffer` points to `length` writable bytes that nothing else touches while the result
///   lives.
unsafe fn bytes_of<'a>(buffer: *mut c_char, length: u64) -> &'a mut [u8] {
    if length == 0 {
        return &mut [];
    }
    // SAFETY: the caller guarantees that `buffer` has `length` writable bytes that nothing else uses.
    unsafe { slice::from_raw_parts_mut(buffer.cast::<u8>(), length as usize) }
}
