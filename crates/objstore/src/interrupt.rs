//! Waits that a KILL can end: a statement must not stay in the object layer because the bucket is away.
//!
//! The server says whether the waiting thread works for a statement that was killed. Threads that work for nobody,
//! such as RocksDB's own, are never interrupted this way; what ends their waits at a shutdown is
//! [`crate::files::Files::stop_waiting`].

use crate::error::{Result, StoreError};
use crate::machine;
use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How often a waiting thread asks. A tenth of a second is felt by nobody and costs nothing.
pub(crate) const ASK_INTERVAL: Duration = Duration::from_millis(100);

/// The reads of a killed statement go on for so long in all: what it cleans up is read within this time from every bucket
/// that works.
const READ_GRACE: Duration = Duration::from_secs(1);

/// And each of them for so long at least, which is enough for what is on local disk.
const READ_MIN: Duration = Duration::from_millis(10);

thread_local! {
    /// Since when the reads of this thread know that its statement was killed. A statement may make hundreds of reads and
    /// take each failure for an answer: RocksDB's estimates of sizes open every table they need and ignore errors.
    static KILLED_SINCE: Cell<Option<Instant>> = const { Cell::new(None) };
}

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

    /// Runs `read` on this thread until it ends. From the kill of its statement on, all reads of a thread together have
    /// one second, and then each has ten milliseconds.
    ///
    /// Requires: not called on a thread of `runtime`. Errors: `Interrupted`; what `read` had begun is dropped.
    pub(crate) fn block_on<T>(
        &self,
        runtime: &tokio::runtime::Handle,
        read: impl Future<Output = T>,
    ) -> Result<T> {
        machine::block_on(runtime, async {
            tokio::pin!(read);
            if let Ok(outcome) = tokio::time::timeout(READ_MIN, &mut read).await {
                return Ok(outcome);
            }
            while !self.is_over() {
                if let Ok(outcome) = tokio::time::timeout(ASK_INTERVAL, &mut read).await {
                    return Ok(outcome);
                }
            }
            Err(StoreError::Interrupted("the statement that reads the bucket was killed".into()))
        })
    }

    /// Whether the statement of this thread was killed more than the grace ago.
    fn is_over(&self) -> bool {
        if !self.is_set() {
            KILLED_SINCE.set(None);
            return false;
        }
        let since = KILLED_SINCE.get().unwrap_or_else(Instant::now);
        KILLED_SINCE.set(Some(since));
        since.elapsed() >= READ_GRACE
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_killed_statement_waits_once_however_many_reads_it_makes() {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let killed = Arc::new(AtomicBool::new(true));
        let interrupt = Interrupt::new({
            let killed = killed.clone();
            move || killed.load(Ordering::Relaxed)
        });
        let start = Instant::now();
        for _ in 0..50 {
            let outcome = interrupt.block_on(runtime.handle(), std::future::pending::<()>());
            assert!(matches!(outcome, Err(StoreError::Interrupted(_))));
            assert!(interrupt.block_on(runtime.handle(), async {}).is_ok(), "what is there at once is read");
        }
        assert!(start.elapsed() < 5 * READ_GRACE, "{:?}: each read waits for itself", start.elapsed());
        // The next statement of the thread has its own grace.
        killed.store(false, Ordering::Relaxed);
        let slow = async { tokio::time::sleep(2 * ASK_INTERVAL).await };
        assert!(interrupt.block_on(runtime.handle(), slow).is_ok());
    }
}
