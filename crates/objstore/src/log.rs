//! How the object layer writes to the server's error log: through one callback, with three levels.

use std::sync::Arc;

/// How serious a message is. The sender of the message chooses the level. The numbers are `ATOLL_LOG_*` of
/// objstore.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum Level {
    /// Information for the DBA.
    Info = 0,
    /// The server works, but the DBA should look into it.
    Warning = 1,
    /// A part of the server does not work.
    Error = 2,
}

/// Receives messages; called from any thread, must not call back into the store.
pub type LogFn = Arc<dyn Fn(Level, &str) + Send + Sync>;

/// A log that drops everything, for tests and tools.
pub fn silent() -> LogFn {
    Arc::new(|_, _| {})
}
