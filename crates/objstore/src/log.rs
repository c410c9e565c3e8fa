//! How the layer speaks to the server's error log: one callback, three levels.

use std::sync::Arc;

/// Severity; the numbers are `ATOLL_LOG_*` of objstore.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum Level {
    /// Worth knowing.
    Info = 0,
    /// Works, but somebody should look.
    Warning = 1,
    /// Something does not work.
    Error = 2,
}

/// Receives messages; called from any thread, must not call back into the store.
pub type LogFn = Arc<dyn Fn(Level, &str) + Send + Sync>;

/// A log that drops everything, for tests and tools.
pub fn silent() -> LogFn {
    Arc::new(|_, _| {})
}
