//! The settings of the database that are kept in the bucket.

use crate::abi::{AtollKeptSettings, AtollResult, text_of};
use crate::guard::{guarded, guarded_or};
use crate::store::{StoreHandle, reach};
use objstore::protocol::SettingsChange;
use std::ffi::c_char;
use std::time::Duration;

/// # Safety
///
/// - `store` is open; `out` points to a writable struct.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_store_kept_settings(store: *const StoreHandle, out: *mut AtollKeptSettings) {
    guarded_or((), || {
        // SAFETY: the caller guarantees that `store` is open.
        let kept = unsafe { reach(store) }.kept_settings();
        let seconds = |seconds: u64| u32::try_from(seconds).unwrap_or(u32::MAX);
        let mut told = AtollKeptSettings {
            number: kept.number,
            history_bytes_max: kept.bytes_max,
            former_until_ms: kept.former_until_ms,
            history_retention_s: seconds(kept.retention_s),
            former_retention_s: seconds(kept.former_retention_s),
            schedule: [0; 256],
        };
        // The last byte stays 0.
        for (to, from) in told.schedule.iter_mut().take(255).zip(kept.schedule.bytes()) {
            *to = c_char::from_ne_bytes([from]);
        }
        // SAFETY: the caller guarantees that `out` may be written.
        unsafe { *out = told };
    });
}

/// # Safety
///
/// - `store` is open; each pointer is null or points to a readable value; `schedule` is NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_store_change_settings(
    store: *const StoreHandle,
    history_retention_s: *const u32,
    history_bytes_max: *const u64,
    schedule: *const c_char,
    grace_s: u32,
) -> AtollResult {
    guarded(|| {
        // SAFETY: the caller guarantees that the pointers are null or readable.
        let change = unsafe {
            SettingsChange {
                retention_s: history_retention_s.as_ref().copied().map(u64::from),
                bytes_max: history_bytes_max.as_ref().copied(),
                schedule: (!schedule.is_null()).then(|| text_of(schedule)),
                grace: Duration::from_secs(grace_s.into()),
            }
        };
        // SAFETY: the caller guarantees that `store` is open.
        unsafe { reach(store) }.change_settings(&change)
    })
}
