//! The C ABI of the object layer: every function of engine/bridge/objstore.h, and nothing else.
//!
//! The only crate with `unsafe`. Each function turns pointers into references at its top, runs safe code
//! under [`guard`], and returns; a panic becomes `Code::Bug` and never unwinds into C++.
//!
//! Threads: all functions may run at once on one store, except open and close. The handles are boxes that C++
//! owns: `atoll_store`, `atoll_visitor`, `atoll_mount` and `atoll_file` from open to close; a store or visitor outlives its mounts and
//! files.

mod abi;
mod file;
mod guard;
mod log_stream;
mod mount;
mod snapshots;
mod stats;
mod store;
mod visitor;

pub use abi::{AtollRead, AtollResult, AtollSnapshot, AtollStoreConfig, AtollStoreStats};
pub use file::*;
pub use log_stream::*;
pub use mount::*;
pub use snapshots::*;
pub use stats::*;
pub use store::*;
pub use visitor::*;
