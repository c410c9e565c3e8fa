//! The functions for visitors. With a visitor, C++ mounts states of a database that this process does not
//! own.

use crate::abi::{AtollResult, AtollStoreConfig, log_function, text_of};
use crate::guard::{guarded, guarded_or};
use crate::mount::MountHandle;
use crate::store::read_config;
use objstore::protocol::Visitor;
use std::ffi::c_char;
use std::path::Path;

/// The C type `atoll_visitor`. C++ owns it from `atoll_visitor_open` to `atoll_visitor_close`.
pub struct VisitorHandle {
    visitor: Visitor,
}

/// # Safety
///
/// - `config` points to a valid configuration whose strings are NUL-terminated or null.
/// - `out` points to a writable pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_visitor_open(
    config: *const AtollStoreConfig,
    out: *mut *mut VisitorHandle,
) -> AtollResult {
    guarded(|| {
        // SAFETY: the caller guarantees that `config` and its strings are valid.
        let (settings, log) = unsafe { (read_config(&*config)?, log_function((*config).log)) };
        let visitor = Visitor::open(&settings, log)?;
        // SAFETY: the caller guarantees that `out` may be written.
        unsafe { *out = Box::into_raw(Box::new(VisitorHandle { visitor })) };
        Ok(())
    })
}

/// # Safety
///
/// - `visitor` is null, or came from `atoll_visitor_open`, was not closed, and is not used by any thread; its
///   mounts are closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_visitor_close(visitor: *mut VisitorHandle) {
    if !visitor.is_null() {
        // SAFETY: the pointer came from Box::into_raw, and the caller gives the box back.
        guarded_or((), || drop(unsafe { Box::from_raw(visitor) }));
    }
}

/// # Safety
///
/// - `visitor` is open; the texts are NUL-terminated; `out` points to a writable pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_visitor_mount(
    visitor: *const VisitorHandle,
    when: *const c_char,
    directory: *const c_char,
    out: *mut *mut MountHandle,
) -> AtollResult {
    guarded(|| {
        // SAFETY: the caller guarantees that the strings are NUL-terminated.
        let (when, directory) = unsafe { (text_of(when), text_of(directory)) };
        // SAFETY: the caller guarantees that `visitor` is open.
        let mount = unsafe { &(*visitor).visitor }.mount(&when, Path::new(&directory))?;
        // SAFETY: the caller guarantees that `out` may be written.
        unsafe { *out = Box::into_raw(Box::new(MountHandle { mount })) };
        Ok(())
    })
}
