//! The store's counters for SHOW STATUS.

use crate::abi::{AtollStoreHealth, AtollStoreStats, copy_text};
use crate::guard::guarded_or;
use crate::store::{StoreHandle, reach};
use objstore::protocol::StoreStats;

/// # Safety
///
/// - `store` is open; `out` points to a writable struct.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_store_get_stats(store: *const StoreHandle, out: *mut AtollStoreStats) {
    guarded_or((), || {
        // SAFETY: the caller guarantees that `store` is open.
        let stats = stats_of(&unsafe { reach(store) }.stats());
        // SAFETY: the caller guarantees that `out` may be written.
        unsafe { *out = stats };
    });
}

/// Makes the struct for C of `numbers`.
pub(crate) fn stats_of(numbers: &StoreStats) -> AtollStoreStats {
    let mut stats = AtollStoreStats {
        epoch: numbers.epoch,
        requests_get: numbers.requests_get,
        requests_put: numbers.requests_put,
        requests_head: numbers.requests_head,
        requests_list: numbers.requests_list,
        requests_delete: numbers.requests_delete,
        request_retries: numbers.request_retries,
        request_errors: numbers.request_errors,
        bytes_downloaded: numbers.bytes_downloaded,
        bytes_uploaded: numbers.bytes_uploaded,
        cache_bytes_used: numbers.cache_bytes_used,
        cache_hits: numbers.cache_hits,
        cache_misses: numbers.cache_misses,
        cache_evictions: numbers.cache_evictions,
        cache_corruptions: numbers.cache_corruptions,
        upload_backlog_files: numbers.upload_backlog_files,
        upload_backlog_bytes: numbers.upload_backlog_bytes,
        publish_lag_ms: numbers.publish_lag_ms,
        wal_lag_ms: numbers.wal_lag_ms,
        wal_lag_bytes: numbers.wal_lag_bytes,
        roots_published: numbers.roots_published,
        wal_chunks_shipped: numbers.wal_chunks_shipped,
        files: numbers.files,
        files_bytes: numbers.files_bytes,
        history_bytes: numbers.history_bytes,
        history_s: numbers.history_s,
        history_cuts: numbers.history_cuts,
        fenced: numbers.fenced.into(),
        trim_disabled: numbers.trim_disabled.into(),
        database_uuid: [0; 40],
        last_error: [0; 512],
    };
    copy_text(&numbers.database_uuid, &mut stats.database_uuid);
    copy_text(&numbers.last_error, &mut stats.last_error);
    stats
}

/// # Safety
///
/// - `store` is open; `out` points to a writable struct.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_store_get_health(store: *const StoreHandle, out: *mut AtollStoreHealth) {
    guarded_or((), || {
        // SAFETY: the caller guarantees that `store` is open.
        let numbers = unsafe { reach(store) }.stats();
        let health = AtollStoreHealth {
            objects_missing: numbers.objects_missing,
            last_error_ms: numbers.last_error_ms,
            last_commit_us: numbers.last_commit_us,
        };
        // SAFETY: the caller guarantees that `out` may be written.
        unsafe { *out = health };
    });
}
