//! The functions for MANIFEST and WAL: C++ reports what RocksDB has written and synced, and waits until the
//! bucket has these bytes.

use crate::abi::AtollResult;
use crate::guard::{guarded, guarded_or};
use crate::store::{StoreHandle, millis, reach};
use objstore::protocol::{BinlogPosition, Gtid, NotedCommit};

/// Defines C functions that only pass their numbers to a method of the store. objstore.h documents them.
macro_rules! notices {
    ($($name:ident => $method:ident($($argument:ident),*);)*) => { $(
        /// # Safety
        ///
        /// - `store` is open.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(store: *const StoreHandle $(, $argument: u64)*) {
            // SAFETY: the caller guarantees that `store` is open.
            guarded_or((), || unsafe { reach(store) }.$method($($argument),*));
        }
    )* };
}

notices! {
    atoll_store_manifest_synced => manifest_synced(number, length);
    atoll_store_current_set => current_set(number);
    atoll_store_opened => opened(last_sequence);
    atoll_store_note_ddl => note_ddl();
    atoll_store_note_drop => note_drop();
    atoll_store_note_recovered => note_recovered();
    atoll_store_wal_created => wal_created(number);
    atoll_store_wal_appended => wal_appended(number, length);
    atoll_store_wal_synced => wal_synced(number, length);
    atoll_store_wal_closed => wal_closed(number, length);
    atoll_store_wal_deleted => wal_deleted(number);
}

/// # Safety
///
/// - `store` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_store_wal_position(store: *const StoreHandle) -> u64 {
    // SAFETY: the caller guarantees that `store` is open.
    guarded_or(0, || unsafe { reach(store) }.wal_position())
}

/// # Safety
///
/// - `store` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_store_note_commit(
    store: *const StoreHandle,
    time_us: u64,
    last_sequence: u64,
    gtid_domain: u32,
    gtid_server: u32,
    gtid_sequence: u64,
    binlog_file: u64,
    binlog_offset: u64,
) {
    let gtid = Gtid { domain: gtid_domain, server: gtid_server, sequence: gtid_sequence };
    let binlog = BinlogPosition { file: binlog_file, offset: binlog_offset };
    let commit = NotedCommit {
        sequence: last_sequence,
        time_us,
        gtid: (gtid_sequence != 0).then_some(gtid),
        binlog: (binlog_offset != 0).then_some(binlog),
    };
    // SAFETY: the caller guarantees that `store` is open.
    guarded_or((), || unsafe { reach(store) }.note_commit(&commit));
}

/// # Safety
///
/// - `store` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_store_wait_shipped(
    store: *const StoreHandle,
    position: u64,
    timeout_ms: u32,
) -> AtollResult {
    // SAFETY: the caller guarantees that `store` is open.
    guarded(|| unsafe { reach(store) }.wait_shipped(position, millis(timeout_ms)))
}

/// # Safety
///
/// - `store` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_store_after_commit(
    store: *const StoreHandle,
    position: u64,
    timeout_ms: u32,
) -> AtollResult {
    // SAFETY: the caller guarantees that `store` is open.
    guarded(|| unsafe { reach(store) }.after_commit(position, millis(timeout_ms)))
}

/// # Safety
///
/// - `store` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_store_publish(store: *const StoreHandle, timeout_ms: u32) -> AtollResult {
    // SAFETY: the caller guarantees that `store` is open.
    guarded(|| unsafe { reach(store) }.publish(millis(timeout_ms)))
}

/// # Safety
///
/// - `store` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_store_may_write(store: *const StoreHandle) -> AtollResult {
    // SAFETY: the caller guarantees that `store` is open.
    guarded(|| unsafe { reach(store) }.may_write())
}
