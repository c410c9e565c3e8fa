//! Waits that a KILL can end: a killed statement must not stay in the object layer because the bucket does
//! not answer.
//!
//! The server says whether the waiting thread works for a statement that was killed. Threads that work for no
//! statement, such as RocksDB's own, are not interrupted this way. But when a killed statement may wait
//! for such a thread, the thread's read fails after two seconds. At a shutdown,
//! [`crate::files::Files::stop_waiting`] ends the other waits of these threads.

use crate::error::{Result, StoreError};
use crate::machine;
use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How often a waiting thread asks the server whether to stop. A delay of a tenth of a second goes unnoticed,
/// and asking ten times a second costs almost nothing.
pub(crate) const ASK_INTERVAL: Duration = Duration::from_millis(100);

/// The longest time for all reads of a killed statement together, from the first read that notices the kill.
/// Sometimes a killed statement has to read to clean up, and a bucket that works answers these reads within
/// this time.
const READ_GRACE: Duration = Duration::from_secs(1);

/// The minimum time for each read of a killed statement: long enough to read from the local disk.
const READ_MIN: Duration = Duration::from_millis(10);

thread_local! {
    /// The time at which a read of this thread first saw that the thread's statement was killed. All later
    /// reads count from it, because a statement may make hundreds of reads and not stop at a failure. For
    /// example, RocksDB's estimates of sizes open many table files and ignore errors. None: the statement was
    /// not killed when this thread asked last.
    static KILLED_SINCE: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// The longest wait of a read for the bucket when the read's own statement was not killed, but a killed
/// statement may wait for the read. A bucket that works answers within this time. It is short because a
/// killed statement is to end within ten seconds.
const MAKE_WAY_AFTER: Duration = Duration::from_secs(2);

/// The answer of the server to a waiting thread that asks whether to go on. The server chooses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// The thread may go on waiting.
    GoOn,
    /// The statement for which the thread works was killed.
    Stop,
    /// The thread holds a lock, and a killed statement may wait for that lock without asking whether it
    /// was killed. A read of the thread fails when it has waited for `MAKE_WAY_AFTER`.
    MakeWay,
}

/// Asks the server what it wants of the calling thread.
#[derive(Clone)]
pub struct Interrupt(Arc<dyn Fn() -> Wish + Send + Sync>);

impl Interrupt {
    /// `is_killed` is called on the thread that waits, about ten times a second; it must not call the store.
    pub fn new(is_killed: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self::asking(move || if is_killed() { Wish::Stop } else { Wish::GoOn })
    }

    /// As `new`, but `wish` may also answer [`Wish::MakeWay`], for threads that keep others waiting.
    pub fn asking(wish: impl Fn() -> Wish + Send + Sync + 'static) -> Self {
        Self(Arc::new(wish))
    }

    /// Whether the statement of the calling thread was killed, so that the thread should stop waiting.
    pub fn is_set(&self) -> bool {
        (self.0)() == Wish::Stop
    }

    /// Runs `read` on this thread until it ends. When the thread's statement is killed, all its reads
    /// together have one more second; after that, each has ten milliseconds.
    ///
    /// Requires: not called on a thread of `runtime`. Errors: `Interrupted`; `Unavailable` after two seconds
    /// if the server answers [`Wish::MakeWay`]. An unfinished `read` is dropped.
    pub(crate) fn block_on<T>(
        &self,
        runtime: &tokio::runtime::Handle,
        read: impl Future<Output = T>,
    ) -> Result<T> {
        let begin = Instant::now();
        machine::block_on_asking(runtime, read, READ_MIN, || {
            self.check(begin.elapsed())?;
            Ok(ASK_INTERVAL)
        })
    }

    /// Whether a read that has lasted for `waited` may go on. Errors: the reason why it must end.
    fn check(&self, waited: Duration) -> Result<()> {
        let wish = (self.0)();
        if wish != Wish::Stop {
            KILLED_SINCE.set(None);
        }
        match wish {
            Wish::Stop if killed_for() >= READ_GRACE => {
                Err(StoreError::Interrupted("the statement that reads the bucket was killed".into()))
            }
            Wish::MakeWay if waited >= MAKE_WAY_AFTER => Err(StoreError::Unavailable(format!(
                "the bucket has not answered for {} s, and a statement that was killed may wait for this read",
                waited.as_secs()
            ))),
            _ => Ok(()),
        }
    }
}

/// The time since this thread first saw that its statement was killed.
fn killed_for() -> Duration {
    let since = KILLED_SINCE.get().unwrap_or_else(Instant::now);
    KILLED_SINCE.set(Some(since));
    since.elapsed()
}

impl Default for Interrupt {
    /// An interrupt that never ends a wait.
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
        // The next statement of the thread was not killed, so its reads may take longer again.
        killed.store(false, Ordering::Relaxed);
        let slow = async { tokio::time::sleep(2 * ASK_INTERVAL).await };
        assert!(interrupt.block_on(runtime.handle(), slow).is_ok());
    }

    #[test]
    fn a_read_that_must_make_way_ends_and_one_that_the_bucket_answers_does_not() {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let interrupt = Interrupt::asking(|| Wish::MakeWay);
        assert!(!interrupt.is_set(), "only reads make way");
        let start = Instant::now();
        let outcome = interrupt.block_on(runtime.handle(), std::future::pending::<()>());
        assert!(matches!(outcome, Err(StoreError::Unavailable(_))), "{outcome:?}");
        assert!(
            start.elapsed() >= MAKE_WAY_AFTER && start.elapsed() < 4 * MAKE_WAY_AFTER,
            "{:?}",
            start.elapsed()
        );
        let slow = async { tokio::time::sleep(MAKE_WAY_AFTER / 2).await };
        assert!(interrupt.block_on(runtime.handle(), slow).is_ok());
    }

    #[test]
    fn a_kill_is_noticed_while_a_disk_holds_up_the_threads_of_the_runtime() {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.spawn(async { std::thread::sleep(6 * READ_GRACE) });
        let start = Instant::now();
        let outcome = Interrupt::new(|| true).block_on(runtime.handle(), std::future::pending::<()>());
        assert!(matches!(outcome, Err(StoreError::Interrupted(_))));
        assert!(start.elapsed() < 4 * READ_GRACE, "{:?}", start.elapsed());
        runtime.shutdown_background();
    }
}
