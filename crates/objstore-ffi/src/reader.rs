//! The functions for readers. With a reader, C++ shows the newest state of a database that another server owns.

use crate::abi::{
    AtollResult, AtollStoreConfig, AtollStoreStats, EachGtid, copy_text, log_function, text_of,
};
use crate::guard::{guarded, guarded_or};
use crate::mount::MountHandle;
use crate::stats::stats_of;
use crate::store::read_config;
use objstore::protocol::Reader;
use std::ffi::{c_char, c_int, c_void};
use std::path::Path;

/// The length of the text that `atoll_reader_owner` writes.
const OWNER_BYTES: usize = 256;

/// The C type `atoll_reader`. C++ owns it from `atoll_reader_open` to `atoll_reader_close`.
pub struct ReaderHandle {
    reader: Reader,
}

/// # Safety
///
/// - `config` points to a valid configuration whose strings are NUL-terminated or null.
/// - `out` points to a writable pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_reader_open(
    config: *const AtollStoreConfig,
    out: *mut *mut ReaderHandle,
) -> AtollResult {
    guarded(|| {
        // SAFETY: the caller guarantees that `config` and its strings are valid.
        let (settings, log) = unsafe { (read_config(&*config)?, log_function((*config).log)) };
        let reader = Reader::open(&settings, log)?;
        // SAFETY: the caller guarantees that `out` may be written.
        unsafe { *out = Box::into_raw(Box::new(ReaderHandle { reader })) };
        Ok(())
    })
}

/// # Safety
///
/// - `reader` is null, or came from `atoll_reader_open`, was not closed, and is not used by any thread; its views are
///   closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_reader_close(reader: *mut ReaderHandle) {
    if !reader.is_null() {
        // SAFETY: the pointer came from Box::into_raw, and the caller gives the box back.
        guarded_or((), || drop(unsafe { Box::from_raw(reader) }));
    }
}

/// # Safety
///
/// - `reader` is open; `has_news` points to a writable integer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_reader_look(reader: *const ReaderHandle, has_news: *mut c_int) -> AtollResult {
    guarded(|| {
        // SAFETY: the caller guarantees that `reader` is open.
        let found = unsafe { &(*reader).reader }.has_news()?;
        // SAFETY: the caller guarantees that `has_news` may be written.
        unsafe { *has_news = found.into() };
        Ok(())
    })
}

/// # Safety
///
/// - `reader` is open; `directory` is NUL-terminated; `out` points to a writable pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_reader_view(
    reader: *const ReaderHandle,
    directory: *const c_char,
    out: *mut *mut MountHandle,
) -> AtollResult {
    guarded(|| {
        // SAFETY: the caller guarantees that the string is NUL-terminated.
        let directory = unsafe { text_of(directory) };
        // SAFETY: the caller guarantees that `reader` is open.
        let mount = unsafe { &(*reader).reader }.view(Path::new(&directory))?;
        // SAFETY: the caller guarantees that `out` may be written.
        unsafe { *out = Box::into_raw(Box::new(MountHandle { mount })) };
        Ok(())
    })
}

/// # Safety
///
/// - `reader` is open; `owner` points to 256 writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_reader_owner(reader: *const ReaderHandle, owner: *mut c_char) -> AtollResult {
    guarded(|| {
        // SAFETY: the caller guarantees that `reader` is open.
        let name = unsafe { &(*reader).reader }.owner()?;
        let mut text = [0; OWNER_BYTES];
        copy_text(&name, &mut text);
        // SAFETY: the caller guarantees that `owner` has room for these bytes.
        unsafe { owner.copy_from_nonoverlapping(text.as_ptr(), OWNER_BYTES) };
        Ok(())
    })
}

/// # Safety
///
/// - `reader` is open; `masked_in` is NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_reader_owes_masking(
    reader: *const ReaderHandle,
    masked_in: *const c_char,
) -> c_int {
    // SAFETY: the caller guarantees that `reader` is open and the string NUL-terminated.
    guarded_or(1, || unsafe { (*reader).reader.owes_masking(&text_of(masked_in)) }.into())
}

/// # Safety
///
/// - `reader` is open; `out` points to a writable struct.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_reader_get_stats(reader: *const ReaderHandle, out: *mut AtollStoreStats) {
    guarded_or((), || {
        // SAFETY: the caller guarantees that `reader` is open.
        let stats = stats_of(&unsafe { &(*reader).reader }.stats());
        // SAFETY: the caller guarantees that `out` may be written.
        unsafe { *out = stats };
    });
}

/// # Safety
///
/// - `mount` is open; `each` may be called with `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_mount_gtids(mount: *const MountHandle, context: *mut c_void, each: EachGtid) {
    guarded_or((), || {
        let Some(each) = each else { return };
        // SAFETY: the caller guarantees that `mount` is open.
        for gtid in unsafe { &(*mount).mount }.gtids() {
            each(context, gtid.domain, gtid.server, gtid.sequence);
        }
    });
}
