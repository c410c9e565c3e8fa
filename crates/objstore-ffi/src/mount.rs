//! The functions for mounts. With a mount, C++ reads the table files of a past state of a database.

use crate::abi::{AtollResult, text_of};
use crate::file::OpenFile;
use crate::guard::{guarded, guarded_or};
use crate::store::{StoreHandle, reach};
use objstore::protocol::Mount;
use std::ffi::{c_char, c_int};
use std::path::Path;

/// The C type `atoll_mount`. C++ owns it from `atoll_store_mount` or `atoll_visitor_mount` to
/// `atoll_mount_close`.
pub struct MountHandle {
    pub(crate) mount: Mount,
}

/// # Safety
///
/// - `store` is open; the texts are NUL-terminated; `out` points to a writable pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_store_mount(
    store: *const StoreHandle,
    when: *const c_char,
    schema: *const c_char,
    directory: *const c_char,
    out: *mut *mut MountHandle,
) -> AtollResult {
    guarded(|| {
        // SAFETY: the caller guarantees that the strings are NUL-terminated.
        let (when, schema, directory) = unsafe { (text_of(when), text_of(schema), text_of(directory)) };
        // SAFETY: the caller guarantees that `store` is open.
        let mount = unsafe { reach(store) }.mount(&when, &schema, Path::new(&directory))?;
        // SAFETY: the caller guarantees that `out` may be written.
        unsafe { *out = Box::into_raw(Box::new(MountHandle { mount })) };
        Ok(())
    })
}

/// # Safety
///
/// - `mount` is null, or came from `atoll_store_mount` or `atoll_visitor_mount`, was not closed, and is not
///   used by any thread; its store or visitor is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_mount_close(mount: *mut MountHandle) {
    if !mount.is_null() {
        // SAFETY: the pointer came from Box::into_raw, and the caller gives the box back.
        guarded_or((), || drop(unsafe { Box::from_raw(mount) }));
    }
}

/// # Safety
///
/// - `mount` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_mount_commit_us(mount: *const MountHandle) -> u64 {
    // SAFETY: the caller guarantees that `mount` is open.
    guarded_or(0, || unsafe { &(*mount).mount }.commit_us())
}

/// # Safety
///
/// - `mount` is open; `bytes` points to a writable integer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_mount_file_size(
    mount: *const MountHandle,
    number: u64,
    bytes: *mut u64,
) -> c_int {
    guarded_or(0, || {
        // SAFETY: the caller guarantees that `mount` is open.
        let found = unsafe { &(*mount).mount }.file_bytes(number);
        // SAFETY: the caller guarantees that `bytes` may be written.
        found.map_or(0, |found| unsafe {
            *bytes = found;
            1
        })
    })
}

/// # Safety
///
/// - `mount` is open; `crc32c` points to a writable integer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_mount_file_crc32c(
    mount: *const MountHandle,
    number: u64,
    crc32c: *mut u32,
) -> c_int {
    guarded_or(0, || {
        // SAFETY: the caller guarantees that `mount` is open.
        let found = unsafe { &(*mount).mount }.file_crc32c(number);
        // SAFETY: the caller guarantees that `crc32c` may be written.
        found.map_or(0, |found| unsafe {
            *crc32c = found;
            1
        })
    })
}

/// # Safety
///
/// - `store` and `mount` are open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_store_adopt_file(
    store: *const StoreHandle,
    mount: *const MountHandle,
    from: u64,
    number: u64,
) -> AtollResult {
    // SAFETY: the caller guarantees that `store` and `mount` are open.
    guarded(|| unsafe { (*mount).mount.give(from, reach(store), number) })
}

/// # Safety
///
/// - `mount` is open; `out` points to a writable pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_mount_open_file(
    mount: *const MountHandle,
    number: u64,
    out: *mut *mut OpenFile,
) -> AtollResult {
    guarded(|| {
        // SAFETY: the caller guarantees that `mount` is open.
        let file = unsafe { &(*mount).mount }.open(number)?;
        // SAFETY: the caller guarantees that `out` may be written.
        unsafe { *out = Box::into_raw(Box::new(OpenFile::new(file))) };
        Ok(())
    })
}
