//! The functions for tables that change databases (hand_over.h).

use crate::abi::{AtollResult, text_of};
use crate::guard::guarded;
use crate::mount::MountHandle;
use crate::store::{StoreHandle, reach};
use objstore::StoreError;
use objstore::protocol::{Choice, HandOvers, Outcome, origin_of};
use std::ffi::{CString, c_char, c_int, c_void};
use std::path::Path;

/// # Safety
///
/// - `store` is open; the texts are NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_store_offer_table(
    store: *const StoreHandle,
    id: *const c_char,
    place: *const c_char,
) -> AtollResult {
    // SAFETY: the caller guarantees that `store` is open and the strings are NUL-terminated.
    guarded(|| unsafe { HandOvers::of(reach(store)).offer(&text_of(id), &text_of(place)) })
}

/// # Safety
///
/// - `store` is open; `id` is NUL-terminated; `is_offered` points to a writable byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_store_is_offered(
    store: *const StoreHandle,
    id: *const c_char,
    is_offered: *mut u8,
) -> AtollResult {
    guarded(|| {
        // SAFETY: the caller guarantees that the pointers are valid, and that `is_offered` may be written.
        unsafe { *is_offered = u8::from(HandOvers::of(reach(store)).is_offered(&text_of(id))?) };
        Ok(())
    })
}

/// # Safety
///
/// - `store` is open; `id` is NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_store_withdraw_offer(
    store: *const StoreHandle,
    id: *const c_char,
) -> AtollResult {
    // SAFETY: the caller guarantees that `store` is open and the string is NUL-terminated.
    guarded(|| unsafe { HandOvers::of(reach(store)).withdraw(&text_of(id)) })
}

/// # Safety
///
/// - `store` is open; the texts are NUL-terminated; `is_new` points to a writable byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_store_note_taking(
    store: *const StoreHandle,
    id: *const c_char,
    own_url: *const c_char,
    url: *const c_char,
    is_new: *mut u8,
) -> AtollResult {
    guarded(|| {
        // SAFETY: the caller guarantees that the strings are NUL-terminated.
        let origin = unsafe { origin_of(&text_of(own_url), &text_of(url))? };
        // SAFETY: the caller guarantees that `store` is open, `id` is NUL-terminated, and `is_new` may be written.
        unsafe { *is_new = u8::from(HandOvers::of(reach(store)).note_taking(&text_of(id), &origin)?) };
        Ok(())
    })
}

/// # Safety
///
/// - `store` is open; `id` is NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_store_forget_taking(
    store: *const StoreHandle,
    id: *const c_char,
) -> AtollResult {
    // SAFETY: the caller guarantees that `store` is open and the string is NUL-terminated.
    guarded(|| unsafe { HandOvers::of(reach(store)).forget_taking(&text_of(id)) })
}

/// # Safety
///
/// - `store` is open; `id` is NUL-terminated; `found` may be called with `context` on this thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_store_decide(
    store: *const StoreHandle,
    id: *const c_char,
    is_taker: u8,
    choice: c_int,
    context: *mut c_void,
    found: unsafe extern "C" fn(*mut c_void, c_int, *const c_char),
) -> AtollResult {
    guarded(|| {
        // SAFETY: the caller guarantees that `store` is open and the string is NUL-terminated.
        let (store, id) = unsafe { (HandOvers::of(reach(store)), text_of(id)) };
        let choice = match choice {
            0 => Choice::Look,
            1 => Choice::Take,
            2 => Choice::Cancel,
            other => return Err(StoreError::Bug(format!("choice {other}"))),
        };
        let origin = if is_taker == 0 { None } else { Some(store.taking_from(&id)?) };
        let (outcome, who) = match store.decide(&id, origin.as_deref(), choice)? {
            Outcome::Open => (0, String::new()),
            Outcome::Mine => (1, String::new()),
            Outcome::Others(who) => (2, who),
            Outcome::Cancelled => (3, String::new()),
        };
        let who = CString::new(who).unwrap_or_default();
        // SAFETY: the caller guarantees that `found` may be called with `context`.
        unsafe { found(context, outcome, who.as_ptr()) };
        Ok(())
    })
}

/// # Safety
///
/// - `store` is open; the texts are NUL-terminated; `out` points to a writable pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_store_mount_offer(
    store: *const StoreHandle,
    id: *const c_char,
    directory: *const c_char,
    out: *mut *mut MountHandle,
) -> AtollResult {
    guarded(|| {
        // SAFETY: the caller guarantees that the strings are NUL-terminated.
        let (id, directory) = unsafe { (text_of(id), text_of(directory)) };
        // SAFETY: the caller guarantees that `store` is open.
        let store = unsafe { HandOvers::of(reach(store)) };
        let mount = store.mount_offer(&id, &store.taking_from(&id)?, Path::new(&directory))?;
        // SAFETY: the caller guarantees that `out` may be written.
        unsafe { *out = Box::into_raw(Box::new(MountHandle { mount })) };
        Ok(())
    })
}
