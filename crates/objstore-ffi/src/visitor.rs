//! Reading states of a database that another process may own.

use crate::abi::{AtollResult, AtollStoreConfig, log_function, text_of};
use crate::guard::{guarded, guarded_or};
use crate::mount::MountHandle;
use crate::store::read_config;
use objstore::protocol::Visitor;
use std::ffi::c_char;
use std::path::Path;

/// `atoll_visitor`: owned by C++ between open and close.
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
        // SAFETY: the caller upholds the rules above.
        let (settings, log) = unsafe { (read_config(&*config)?, log_function((*config).log)) };
        let visitor = Visitor::open(&settings, log)?;
        // SAFETY: as above.
        unsafe { *out = Box::into_raw(Box::new(VisitorHandle { visitor })) };
        Ok(())
    })
}

/// # Safety
///
/// - `visitor` is null, or came from `atoll_visitor_open`, was not closed, and is not used by any thread; its mounts are closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_visitor_close(visitor: *mut VisitorHandle) {
    if !visitor.is_null() {
        // SAFETY: the caller gives the box back.
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
        // SAFETY: the caller upholds the rules above.
        let (when, directory) = unsafe { (text_of(when), text_of(directory)) };
        // SAFETY: as above.
        let mount = unsafe { &(*visitor).visitor }.mount(&when, Path::new(&directory))?;
        // SAFETY: as above.
        unsafe { *out = Box::into_raw(Box::new(MountHandle { mount })) };
        Ok(())
    })
}
