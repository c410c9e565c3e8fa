//! The numbers of an open database, for SHOW STATUS.

use super::store::Store;
use crate::error::StoreError;
use crate::protocol::start::claim::wall_clock_ms;
use crate::stats::{Stats, read};
use std::sync::atomic::Ordering;

/// The numbers of one store, named as in `atoll_store_stats` of objstore.h.
#[derive(Debug, Clone, Default)]
#[allow(missing_docs)]
pub struct StoreStats {
    pub epoch: u64,
    pub requests_get: u64,
    pub requests_put: u64,
    pub requests_head: u64,
    pub requests_list: u64,
    pub requests_delete: u64,
    pub request_retries: u64,
    pub request_errors: u64,
    pub bytes_downloaded: u64,
    pub bytes_uploaded: u64,
    pub cache_bytes_used: u64,
    pub cache_hits: u64,
    pub cache_misses: u64,
    pub cache_evictions: u64,
    pub cache_corruptions: u64,
    pub upload_backlog_files: u64,
    pub upload_backlog_bytes: u64,
    pub publish_lag_ms: u64,
    pub wal_lag_ms: u64,
    pub wal_lag_bytes: u64,
    pub roots_published: u64,
    pub wal_chunks_shipped: u64,
    pub files: u64,
    pub files_bytes: u64,
    pub fenced: bool,
    pub trim_disabled: bool,
    pub history_bytes: u64,
    pub history_s: u64,
    pub history_cuts: u64,
    pub objects_missing: u64,
    pub last_error_ms: u64,
    pub last_commit_us: u64,
    pub database_uuid: String,
    pub last_error: String,
}

impl StoreStats {
    /// The numbers of the requests and of the part cache, with the newest error. The others are 0.
    pub(in crate::protocol) fn of_bucket(counters: &Stats, database_uuid: &str) -> Self {
        let (last_error, last_error_ms) = newest_error(counters, None);
        Self {
            requests_get: read(&counters.requests_get),
            requests_put: read(&counters.requests_put),
            requests_head: read(&counters.requests_head),
            requests_list: read(&counters.requests_list),
            requests_delete: read(&counters.requests_delete),
            request_retries: read(&counters.request_retries),
            request_errors: read(&counters.request_errors),
            bytes_downloaded: read(&counters.bytes_downloaded),
            bytes_uploaded: read(&counters.bytes_uploaded),
            cache_bytes_used: read(&counters.cache_bytes_used),
            cache_hits: read(&counters.cache_hits),
            cache_misses: read(&counters.cache_misses),
            cache_evictions: read(&counters.cache_evictions),
            cache_corruptions: read(&counters.cache_corruptions),
            objects_missing: counters.lost_objects.count() as u64,
            database_uuid: database_uuid.to_owned(),
            last_error,
            last_error_ms,
            ..Self::default()
        }
    }
}

impl Store {
    /// All numbers of this store.
    pub fn stats(&self) -> StoreStats {
        let (shared, path) = (&self.shared, &self.shared.path);
        let counters = shared.bucket.stats();
        let (files, files_bytes) = shared.files.totals();
        let (unpublished_since, fenced) = {
            let state = shared.state.lock();
            (state.unpublished_since(), state.fenced.clone())
        };
        let (last_error, last_error_ms) = newest_error(counters, fenced.as_ref());
        StoreStats {
            epoch: shared.epoch,
            upload_backlog_files: read(&counters.upload_backlog_files),
            upload_backlog_bytes: read(&counters.upload_backlog_bytes),
            publish_lag_ms: unpublished_since.map_or(0, |since| since.elapsed().as_millis().max(1) as u64),
            wal_lag_ms: path.lag().as_millis() as u64,
            wal_lag_bytes: path.lag_bytes(),
            roots_published: read(&counters.roots_published),
            wal_chunks_shipped: read(&counters.wal_chunks_shipped),
            files,
            files_bytes,
            fenced: matches!(fenced, Some(StoreError::Fenced(_))),
            trim_disabled: counters.trim_disabled.load(Ordering::Relaxed),
            history_bytes: read(&counters.history_bytes),
            history_s: match read(&counters.history_since_ms) {
                0 => 0,
                // The history ends where the bucket does not have the commits yet.
                since_ms => wall_clock_ms().saturating_sub(since_ms + path.lag().as_millis() as u64) / 1000,
            },
            history_cuts: read(&counters.history_cuts),
            last_error,
            last_error_ms,
            last_commit_us: shared.commits.lock().position().time_us,
            ..StoreStats::of_bucket(counters, &shared.db_uuid)
        }
    }
}

/// What `last_error` says, and since when. When this server is not allowed to write any more, that is the reason,
/// and not what the newest failed request was. An object that is missing comes next: only the DBA can put it back.
fn newest_error(counters: &Stats, fenced: Option<&StoreError>) -> (String, u64) {
    if let Some(reason) = fenced {
        return (reason.to_string(), counters.last_error.at_ms());
    }
    let newest = (counters.last_error.message(), counters.last_error.at_ms());
    counters.lost_objects.newest().unwrap_or(newest)
}
