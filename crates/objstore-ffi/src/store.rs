//! The functions that open and close a store, change its settings, and report what RocksDB does with table
//! files.

use crate::abi::{
    AtollResult, AtollStoreConfig, EachFile, EachGtid, interrupt_function, log_function, text_of,
};
use crate::guard::{guarded, guarded_or};
use objstore::protocol::{HistoryLimits, Opener, Store};
use objstore::{Durability, Keys, StoreConfig, StoreError};
use std::ffi::{c_char, c_int, c_void};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The C type `atoll_store`. C++ owns it from `atoll_store_open` to `atoll_store_close`.
pub struct StoreHandle {
    pub(crate) store: Arc<Store>,
}

/// The C type `atoll_opener`. C++ owns it from `atoll_opener_new` to `atoll_opener_free`.
#[derive(Default)]
pub struct OpenerHandle {
    opener: Opener,
}

/// Returns a new opener, or null after a panic.
#[unsafe(no_mangle)]
pub extern "C" fn atoll_opener_new() -> *mut OpenerHandle {
    guarded_or(std::ptr::null_mut(), || Box::into_raw(Box::default()))
}

/// # Safety
///
/// - `opener` is null, or came from `atoll_opener_new`, was not freed, and is not used by any thread during
///   and after this call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_opener_free(opener: *mut OpenerHandle) {
    if !opener.is_null() {
        // SAFETY: the pointer came from Box::into_raw, and the caller gives the box back.
        guarded_or((), || drop(unsafe { Box::from_raw(opener) }));
    }
}

/// # Safety
///
/// - `opener` came from `atoll_opener_new` and was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_opener_waits_ms(opener: *const OpenerHandle) -> u32 {
    guarded_or(0, || {
        // SAFETY: the caller guarantees that `opener` was not freed.
        let left = unsafe { &*opener }.opener.waits();
        // A wait of less than a millisecond is returned as 1, because 0 means that no wait is needed.
        if left.is_zero() { 0 } else { u32::try_from(left.as_millis()).unwrap_or(u32::MAX).max(1) }
    })
}

/// # Safety
///
/// - `opener` is null, or came from `atoll_opener_new` and was not freed.
/// - `config` points to a valid configuration whose strings are NUL-terminated or null.
/// - `out` points to a writable pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_store_open(
    opener: *const OpenerHandle,
    config: *const AtollStoreConfig,
    out: *mut *mut StoreHandle,
) -> AtollResult {
    guarded(|| {
        // SAFETY: the caller guarantees that `config` and its strings are valid.
        let (settings, log) = unsafe { (read_config(&*config)?, log_function((*config).log)) };
        // SAFETY: the caller guarantees that `opener` is null or was not freed.
        let opener = unsafe { opener.as_ref() }.map_or_else(Opener::default, |handle| handle.opener.clone());
        let store = opener.open(&settings, log)?;
        // SAFETY: the caller guarantees that `out` may be written.
        unsafe { *out = Box::into_raw(Box::new(StoreHandle { store })) };
        Ok(())
    })
}

/// # Safety
///
/// - `store` came from `atoll_store_open`, was not closed, and is not used by any thread during and after
///   this call; its files are closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_store_close(store: *mut StoreHandle, timeout_ms: u32) -> AtollResult {
    guarded(|| {
        // SAFETY: the pointer came from Box::into_raw, and the caller gives the box back.
        let handle = unsafe { Box::from_raw(store) };
        handle.store.close(millis(timeout_ms))
    })
}

/// # Safety
///
/// - `store` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_store_was_restored(store: *const StoreHandle) -> c_int {
    // SAFETY: the caller guarantees that `store` is open.
    guarded_or(0, || unsafe { reach(store) }.was_restored().into())
}

/// # Safety
///
/// - `store` is open; `each` may be called with `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_store_newest_gtids(
    store: *const StoreHandle,
    context: *mut c_void,
    each: EachGtid,
) {
    guarded_or((), || {
        let Some(each) = each else { return };
        // SAFETY: the caller guarantees that `store` is open.
        for gtid in unsafe { reach(store) }.newest_gtids() {
            each(context, gtid.domain, gtid.server, gtid.sequence);
        }
    });
}

/// # Safety
///
/// - `store` is open; `path` is NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_store_add_file(
    store: *const StoreHandle,
    number: u64,
    path: *const c_char,
) -> AtollResult {
    // SAFETY: the caller guarantees that `store` is open and the string is NUL-terminated.
    guarded(|| unsafe { reach(store) }.files().add_file(number, &unsafe { path_of(path) }))
}

/// # Safety
///
/// - `store` is open; `path` is NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_store_stage_file(
    store: *const StoreHandle,
    path: *const c_char,
) -> AtollResult {
    // SAFETY: the caller guarantees that `store` is open and the string is NUL-terminated.
    guarded(|| unsafe { reach(store) }.files().stage_file(&unsafe { path_of(path) }))
}

/// # Safety
///
/// - `store` is open; both paths are NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_store_bind_file(
    store: *const StoreHandle,
    staged_path: *const c_char,
    number: u64,
    path: *const c_char,
) -> AtollResult {
    guarded(|| {
        // SAFETY: the caller guarantees that the strings are NUL-terminated.
        let (staged, path) = unsafe { (path_of(staged_path), path_of(path)) };
        // SAFETY: the caller guarantees that `store` is open.
        unsafe { reach(store) }.files().bind_file(&staged, number, &path)
    })
}

/// # Safety
///
/// - `store` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_store_share_file(
    store: *const StoreHandle,
    from: u64,
    number: u64,
) -> AtollResult {
    // SAFETY: the caller guarantees that `store` is open.
    guarded(|| unsafe { reach(store) }.share_file(from, number))
}

/// # Safety
///
/// - `store` is open; `staged_path` is NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_store_unstage_file(store: *const StoreHandle, staged_path: *const c_char) {
    // SAFETY: the caller guarantees that `store` is open and the string is NUL-terminated.
    guarded_or((), || unsafe { reach(store) }.files().unstage_file(&unsafe { path_of(staged_path) }));
}

/// # Safety
///
/// - `store` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_store_remove_file(store: *const StoreHandle, number: u64) -> AtollResult {
    // SAFETY: the caller guarantees that `store` is open.
    guarded(|| unsafe { reach(store) }.files().remove_file(number))
}

/// # Safety
///
/// - `store` is open; `size` points to a writable integer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_store_file_size(
    store: *const StoreHandle,
    number: u64,
    size: *mut u64,
) -> AtollResult {
    guarded(|| {
        // SAFETY: the caller guarantees that `store` is open.
        let found = unsafe { reach(store) }.files().file_size(number);
        let bytes = found.ok_or_else(|| StoreError::NotFound {
            operation: "looking at",
            object: format!("file {number}"),
        })?;
        // SAFETY: the caller guarantees that `size` may be written.
        unsafe { *size = bytes };
        Ok(())
    })
}

/// # Safety
///
/// - `store` is open; `each` may be called with `context` on this thread and does not call this store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_store_list_files(
    store: *const StoreHandle,
    context: *mut c_void,
    each: EachFile,
) {
    guarded_or((), || {
        let Some(each) = each else { return };
        // SAFETY: the caller guarantees that `store` is open.
        for (number, size) in unsafe { reach(store) }.files().list() {
            each(context, number, size);
        }
    });
}

/// # Safety
///
/// - `store` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_store_set_backlog_bytes_max(store: *const StoreHandle, bytes: u64) {
    // SAFETY: the caller guarantees that `store` is open.
    guarded_or((), || unsafe { reach(store) }.files().set_backlog_bytes_max(bytes));
}

/// # Safety
///
/// - `store` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_store_make_room(store: *const StoreHandle) {
    // SAFETY: the caller guarantees that `store` is open.
    guarded_or((), || unsafe { reach(store) }.files().make_room());
}

/// # Safety
///
/// - `store` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_store_is_backlog_full(store: *const StoreHandle) -> c_int {
    // SAFETY: the caller guarantees that `store` is open.
    guarded_or(0, || unsafe { reach(store) }.files().is_backlog_full().into())
}

/// # Safety
///
/// - `store` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_store_stop_waiting(store: *const StoreHandle) {
    // SAFETY: the caller guarantees that `store` is open.
    guarded_or((), || unsafe { reach(store) }.files().stop_waiting());
}

/// # Safety
///
/// - `store` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_store_set_cache_bytes(store: *const StoreHandle, bytes: u64) {
    // SAFETY: the caller guarantees that `store` is open.
    guarded_or((), || unsafe { reach(store) }.files().set_cache_bytes(bytes));
}

/// # Safety
///
/// - `store` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_store_set_durability(
    store: *const StoreHandle,
    durability: u8,
    lag_ms_max: u32,
    lag_bytes_max: u64,
) {
    guarded_or((), || {
        if let Ok(durability) = Durability::from_number(durability) {
            // SAFETY: the caller guarantees that `store` is open.
            unsafe { reach(store) }.set_durability(durability, millis(lag_ms_max), lag_bytes_max);
        }
    });
}

/// # Safety
///
/// - `store` is open; the strings are NUL-terminated or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_store_try_keys(
    store: *const StoreHandle,
    access_key: *const c_char,
    secret_key: *const c_char,
    session_token: *const c_char,
) -> AtollResult {
    // SAFETY: the caller guarantees that `store` is open and the strings are NUL-terminated or null.
    guarded(|| unsafe { reach(store) }.try_keys(unsafe { keys_of(access_key, secret_key, session_token) }))
}

/// # Safety
///
/// - `store` is open; the strings are NUL-terminated or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_store_set_keys(
    store: *const StoreHandle,
    access_key: *const c_char,
    secret_key: *const c_char,
    session_token: *const c_char,
) -> AtollResult {
    // SAFETY: the caller guarantees that `store` is open and the strings are NUL-terminated or null.
    guarded(|| unsafe { reach(store) }.set_keys(unsafe { keys_of(access_key, secret_key, session_token) }))
}

/// # Safety
///
/// - Each pointer is null or points to a NUL-terminated string.
unsafe fn keys_of(
    access_key: *const c_char,
    secret_key: *const c_char,
    session_token: *const c_char,
) -> Keys {
    // SAFETY: the caller guarantees that the strings are NUL-terminated or null.
    unsafe {
        Keys {
            access_key: text_of(access_key),
            secret_key: text_of(secret_key),
            session_token: text_of(session_token),
        }
    }
}

/// # Safety
///
/// - `store` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_store_set_history(
    store: *const StoreHandle,
    retention_s: u32,
    bytes_max: u64,
) {
    // SAFETY: the caller guarantees that `store` is open.
    guarded_or((), || unsafe { reach(store) }.set_history(history(retention_s, bytes_max)));
}

fn history(retention_s: u32, bytes_max: u64) -> HistoryLimits {
    HistoryLimits { retention: Duration::from_secs(retention_s.into()), bytes_max }
}

/// Returns the store to which a handle belongs.
///
/// # Safety
///
/// - `store` came from `atoll_store_open` and is not closed while the result lives.
pub(crate) unsafe fn reach<'a>(store: *const StoreHandle) -> &'a Arc<Store> {
    // SAFETY: the caller guarantees that the store is open while the result lives.
    unsafe { &(*store).store }
}

pub(crate) fn millis(milliseconds: u32) -> Duration {
    Duration::from_millis(milliseconds.into())
}

/// # Safety
///
/// - `text` is null or points to a NUL-terminated string.
unsafe fn path_of(text: *const c_char) -> PathBuf {
    // SAFETY: the caller guarantees that the string is NUL-terminated or null.
    PathBuf::from(unsafe { text_of(text) })
}

/// Converts the C configuration. For `backlog_bytes_max` and `request_timeout_ms`, 0 means the default; the
/// other numbers are taken as they are.
///
/// # Safety
///
/// - The strings of `config` are NUL-terminated or null.
pub(crate) unsafe fn read_config(config: &AtollStoreConfig) -> Result<StoreConfig, StoreError> {
    // SAFETY: the caller guarantees that the strings are NUL-terminated or null.
    let text = |field: *const c_char| unsafe { text_of(field) };
    let defaults = StoreConfig::default();
    Ok(StoreConfig {
        url: text(config.url),
        endpoint: text(config.endpoint),
        region: text(config.region),
        access_key: text(config.access_key),
        secret_key: text(config.secret_key),
        session_token: text(config.session_token),
        ca_file: text(config.ca_file),
        addressing: text(config.addressing),
        sse: text(config.sse),
        sse_kms_key_id: text(config.sse_kms_key_id),
        local_dir: PathBuf::from(text(config.local_dir)),
        cache_dir: PathBuf::from(text(config.cache_dir)),
        server_id: text(config.server_id),
        cache_bytes: config.cache_bytes,
        backlog_bytes_max: match config.backlog_bytes_max {
            0 => defaults.backlog_bytes_max,
            given => given,
        },
        lag_bytes_max: config.lag_bytes_max,
        lag_max: millis(config.lag_ms_max),
        request_timeout: match config.request_timeout_ms {
            0 => defaults.request_timeout,
            given => millis(given),
        },
        durability: Durability::from_number(config.durability)?,
        take_over: config.take_over != 0,
        history: history(config.history_retention_s, config.history_bytes_max),
        interrupt: interrupt_function(config.wish),
    })
}
