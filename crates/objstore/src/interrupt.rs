//! Waits that a KILL can end: a statement must not stay in the object layer because the bucket is away.
//!
//! The server says whether the waiting thread works for a statement that was killed. Threads that work for nobody,
//! such as RocksDB's own, are never interrupted this way; what ends their waits at a shutdown is
//! [`crate::files::Files::stop_waiting`].

use crate::error::{Result, StoreError};
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often a waiting thread asks. A tenth of a second is felt by nobody and costs nothing.
pub(crate) const ASK_INTERVAL: Duration = Duration::from_millis(100);

/// A read of the bucket goes on for so long although its statement was killed: what a killed statement cleans up is
/// read within this time from every bucket that works.
const READ_GRACE: Duration = Duration::from_secs(2);

/// Tells whether the statement for which the calling thread works was killed.
#[derive(Clone)]
pub struct Interrupt(Arc<dyn Fn() -> bool + Send + Sync>);

impl Interrupt {
    /// `is_interrupted` is called on the thread that waits, about ten times a second; it must not call the store.
    pub fn new(is_interrupted: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(is_interrupted))
    }

    /// Whether the calling thread should stop waiting.
    pub fn is_set(&self) -> bool {
        (self.0)()
    }

    /// Runs `read` on this thread until it ends. Once the statement is killed it has two seconds from its start.
    ///
    /// Requires: not called on a thread of `runtime`. Errors: `Interrupted`; what `read` had begun is dropped.
    pub(crate) fn block_on<T>(
        &self,
        runtime: &tokio::runtime::Handle,
        read: impl Future<Output = T>,
    ) -> Result<T> {
        let start = Instant::now();
        runtime.block_on(async {
            tokio::pin!(read);
            loop {
                if let Ok(outcome) = tokio::time::timeout(ASK_INTERVAL, &mut read).await {
                    return Ok(outcome);
                }
                if start.elapsed() >= READ_GRACE && self.is_set() {
                    return Err(StoreError::Interrupted(
                        "the statement that reads the bucket was killed".into(),
                    ));
                }
            }
        })
    }
}

impl Default for Interrupt {
    /// Never set.
    fn default() -> Self {
        Self::new(|| false)
    }
}

impl fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Interrupt")
    }
}
