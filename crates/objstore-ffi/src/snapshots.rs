//! Making, dropping and listing snapshots for SQL statements, and uploading the names of tables.

use crate::abi::{AtollResult, AtollSnapshot, EachSnapshot, text_of};
use crate::guard::{guarded, guarded_or};
use crate::store::{StoreHandle, reach};
use objstore::StoreError;
use objstore::protocol::{SnapshotStatus, readers_of};
use std::ffi::{CString, c_char, c_void};

/// # Safety
///
/// - `store` is open; `name` is NUL-terminated; `made` may be called with `context` on this thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_store_create_snapshot(
    store: *const StoreHandle,
    name: *const c_char,
    context: *mut c_void,
    made: EachSnapshot,
) -> AtollResult {
    guarded(|| {
        // SAFETY: the caller guarantees that `store` is open and the string is NUL-terminated.
        let snapshot = unsafe { reach(store).create_snapshot(&text_of(name)) }?;
        if let Some(made) = made {
            tell(&snapshot, context, made);
        }
        Ok(())
    })
}

/// # Safety
///
/// - `store` is open; `name` is NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_store_drop_snapshot(
    store: *const StoreHandle,
    name: *const c_char,
) -> AtollResult {
    // SAFETY: the caller guarantees that `store` is open and the string is NUL-terminated.
    guarded(|| unsafe { reach(store).drop_snapshot(&text_of(name)) })
}

/// # Safety
///
/// - `store` is open; `is_clone` points to a writable byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_store_is_clone(store: *const StoreHandle, is_clone: *mut u8) -> AtollResult {
    guarded(|| {
        // SAFETY: the caller guarantees that `store` is open and `is_clone` may be written.
        unsafe { *is_clone = u8::from(reach(store).is_clone()?) };
        Ok(())
    })
}

/// # Safety
///
/// - `store` is open; `masked_in` is NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_store_owes_masking(store: *const StoreHandle, masked_in: *const c_char) -> u8 {
    // A panic keeps the tables closed.
    // SAFETY: the caller guarantees that `store` is open and the string is NUL-terminated.
    guarded_or(1, || unsafe { u8::from(reach(store).owes_masking(&text_of(masked_in))) })
}

/// # Safety
///
/// - `store` is open; `each` may be called with `context` on this thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_store_list_snapshots(
    store: *const StoreHandle,
    context: *mut c_void,
    each: EachSnapshot,
) -> AtollResult {
    // SAFETY: the caller guarantees that `store` is open.
    guarded(|| tell_all(unsafe { reach(store) }.snapshots()?, context, each))
}

/// # Safety
///
/// - `store` is open; `each` may be called with `context` on this thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_store_list_pins(
    store: *const StoreHandle,
    context: *mut c_void,
    each: EachSnapshot,
) -> AtollResult {
    // SAFETY: the caller guarantees that `store` is open.
    guarded(|| tell_all(unsafe { reach(store) }.pins()?, context, each))
}

/// # Safety
///
/// - `store` is open; `each` may be called with `context` on this thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_store_list_readers(
    store: *const StoreHandle,
    context: *mut c_void,
    each: EachSnapshot,
) -> AtollResult {
    // SAFETY: the caller guarantees that `store` is open.
    guarded(|| tell_all(readers_of(unsafe { reach(store) })?, context, each))
}

/// # Safety
///
/// - `store` is open; `json` points to `bytes` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_store_put_table_names(
    store: *const StoreHandle,
    json: *const c_char,
    bytes: u64,
) -> AtollResult {
    // SAFETY: the caller guarantees that `store` is open and `json` has `bytes` readable bytes.
    guarded(|| unsafe {
        let json = std::slice::from_raw_parts(json.cast::<u8>(), bytes as usize);
        reach(store).put_table_names(json.to_vec().into())
    })
}

/// Calls `each`, if there is one, for each of `snapshots`.
fn tell_all(
    snapshots: Vec<SnapshotStatus>,
    context: *mut c_void,
    each: EachSnapshot,
) -> Result<(), StoreError> {
    if let Some(each) = each {
        snapshots.iter().for_each(|snapshot| tell(snapshot, context, each));
    }
    Ok(())
}

/// Calls `each` with `snapshot` as a C struct. The texts in the struct live until `each` returns.
fn tell(
    snapshot: &SnapshotStatus,
    context: *mut c_void,
    each: extern "C" fn(*mut c_void, *const AtollSnapshot),
) {
    let [name, kind, pin, creator, gtid_position, problem] = [
        &snapshot.name,
        &snapshot.kind,
        &snapshot.pin,
        &snapshot.creator,
        &snapshot.gtid_position,
        &snapshot.problem,
    ]
    .map(|text| CString::new(text.replace('\0', " ")).unwrap_or_default());
    let told = AtollSnapshot {
        name: name.as_ptr(),
        kind: kind.as_ptr(),
        pin: pin.as_ptr(),
        creator: creator.as_ptr(),
        gtid_position: gtid_position.as_ptr(),
        problem: problem.as_ptr(),
        created_ms: snapshot.created_ms,
        commit_us: snapshot.commit_us.unwrap_or(0),
        binlog_file: snapshot.binlog.map_or(0, |binlog| binlog.file),
        binlog_offset: snapshot.binlog.map_or(0, |binlog| binlog.offset),
        files: snapshot.files,
        shared_bytes: snapshot.shared_bytes,
        alone_bytes: snapshot.alone_bytes,
    };
    each(context, &raw const told);
}
