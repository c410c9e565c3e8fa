//! The counters and gauges of one store, for SHOW STATUS: atomic numbers that are changed with relaxed
//! ordering.
//!
//! The fields have the names of `atoll_store_stats` in engine/bridge/objstore.h. Gauges that other code can
//! compute on demand (lag, files) are not here; that code adds them when the values are read.

use crate::last_error::LastError;
use crate::lost_objects::LostObjects;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Counters and gauges of one store.
#[derive(Debug, Default)]
#[allow(missing_docs)] // The names are the documentation; see objstore.h.
pub struct Stats {
    pub requests_get: AtomicU64,
    pub requests_put: AtomicU64,
    pub requests_head: AtomicU64,
    pub requests_list: AtomicU64,
    pub requests_delete: AtomicU64,
    pub request_retries: AtomicU64,
    pub request_errors: AtomicU64,
    /// Requests that were answered with "slow down".
    pub requests_throttled: AtomicU64,
    pub bytes_downloaded: AtomicU64,
    pub bytes_uploaded: AtomicU64,
    pub cache_bytes_used: AtomicU64,
    pub cache_hits: AtomicU64,
    pub cache_misses: AtomicU64,
    pub cache_evictions: AtomicU64,
    pub cache_corruptions: AtomicU64,
    pub upload_backlog_files: AtomicU64,
    pub upload_backlog_bytes: AtomicU64,
    pub roots_published: AtomicU64,
    /// How many entries of the file map the publishing of roots has visited. Tests use it to check the cost
    /// of publishing.
    pub map_entries_visited: AtomicU64,
    pub wal_chunks_shipped: AtomicU64,
    /// The bytes of all objects that only the history needs.
    pub history_bytes: AtomicU64,
    /// The earliest time of the history, in milliseconds since 1970: every later moment can be restored. 0:
    /// none can.
    pub history_since_ms: AtomicU64,
    /// How often the history was cut shorter than its retention time because it had reached its limit in
    /// bytes.
    pub history_cuts: AtomicU64,
    pub trim_disabled: AtomicBool,
    pub last_error: LastError,
    pub lost_objects: LostObjects,
}

/// Adds `n` to a counter.
pub(crate) fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

/// Subtracts `n` from a gauge, never below zero.
pub(crate) fn sub(gauge: &AtomicU64, n: u64) {
    let _ = gauge.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |v| Some(v.saturating_sub(n)));
}

/// Reads a counter or gauge.
pub fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
