//! The C ABI of the object layer: the functions of objstore.h, reader.h, health.h, name_hint.h, hand_over.h and
//! kept_settings.h in engine/bridge, and nothing else.
//!
//! This is the only crate with `unsafe`. Each function turns its pointers into references, runs safe code
//! under [`guard`], and returns. A panic becomes `Code::Bug` and never unwinds into C++.
//!
//! Threads: any number of threads may call functions on one store at once, but not its open and close. The
//! handles `atoll_store`, `atoll_visitor`, `atoll_reader`, `atoll_mount` and `atoll_file` are boxes that C++
//! owns from open to close. A store, visitor or reader must outlive its mounts and files.

mod abi;
mod file;
mod guard;
mod hand_over;
mod log_stream;
mod mount;
mod reader;
mod settings;
mod snapshots;
mod stats;
mod store;
mod visitor;

pub use abi::{
    AtollKeptSettings, AtollRead, AtollResult, AtollSnapshot, AtollStoreConfig, AtollStoreHealth,
    AtollStoreStats,
};
pub use file::*;
pub use hand_over::*;
pub use log_stream::*;
pub use mount::*;
pub use reader::*;
pub use settings::*;
pub use snapshots::*;
pub use stats::*;
pub use store::*;
pub use visitor::*;
