//! Access to the machine other than files and network: threads that run tasks, waits, the time and random
//! bytes.
//!
//! All code of this crate uses these functions, and `tokio::time::Instant` for points in time. So a test can
//! run several servers in one process, in virtual time, one piece of code at a time, with every random choice
//! made from a seed (`sim/`). In the plugin each function only makes the system call or the call of tokio
//! that its name says.

use crate::error::{Result, StoreError};
#[cfg(test)]
use crate::sim;
use parking_lot::{Condvar, MutexGuard};
use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, SystemTime};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinError;
use tokio::time::Instant;

/// The threads that run the tasks of one store.
pub(crate) enum Executor {
    Threads(Runtime),
    /// All stores of a simulation share one executor.
    #[cfg(test)]
    Simulated(Handle),
}

impl Executor {
    /// An executor with two threads of its own. Errors: `Unavailable` when the system gives none.
    pub(crate) fn new() -> Result<Self> {
        #[cfg(test)]
        if let Some(handle) = sim::handle() {
            return Ok(Self::Simulated(handle));
        }
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(2).thread_name("atoll-bucket").enable_all();
        let runtime = builder.build();
        runtime
            .map(Self::Threads)
            .map_err(|e| StoreError::Unavailable(format!("starting the threads for the bucket: {e}")))
    }

    /// The handle with which tasks are started.
    pub(crate) fn handle(&self) -> &Handle {
        match self {
            Self::Threads(runtime) => runtime.handle(),
            #[cfg(test)]
            Self::Simulated(handle) => handle,
        }
    }

    /// Runs `work` on this thread until it ends. Requires: not called on a thread of a runtime.
    pub(crate) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        match self {
            Self::Threads(runtime) => runtime.block_on(work),
            #[cfg(test)]
            Self::Simulated(_) => sim::block_on(work),
        }
    }

    /// Ends all tasks. Waits at most `timeout` for disk work that a task has begun.
    pub(crate) fn shutdown_timeout(self, timeout: Duration) {
        match self {
            Self::Threads(runtime) => runtime.shutdown_timeout(timeout),
            // The store has ended its own tasks. This sleep is long enough for the disk work that they have
            // started.
            #[cfg(test)]
            Self::Simulated(_) => sim::sleep(sim::DISK_WORK_MAX),
        }
    }

    /// Ends all tasks at once, without waiting for disk work.
    pub(crate) fn shutdown_background(self) {
        match self {
            Self::Threads(runtime) => runtime.shutdown_background(),
            #[cfg(test)]
            Self::Simulated(_) => {}
        }
    }
}

/// Runs `work` on this thread until it ends. `ask` is called after `first`; it returns the time after which
/// it is called again. When it returns an error, `work` is dropped and the error returned.
///
/// The calling thread measures these times itself, because the timers of a runtime stand still while a slow
/// disk blocks the runtime's threads. Requires: not called on a thread of `runtime`.
pub(crate) fn block_on_asking<T, E>(
    runtime: &Handle,
    work: impl Future<Output = T>,
    first: Duration,
    mut ask: impl FnMut() -> std::result::Result<Duration, E>,
) -> std::result::Result<T, E> {
    let mut work = std::pin::pin!(work);
    #[cfg(test)]
    if sim::is_on() {
        return sim::block_on(async {
            let mut wait = first;
            loop {
                match tokio::time::timeout(wait, &mut work).await {
                    Ok(outcome) => return Ok(outcome),
                    Err(_) => wait = ask()?,
                }
            }
        });
    }
    let _inside = runtime.enter();
    let waker = Waker::from(Arc::new(ThreadWaker(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut question = Instant::now() + first;
    loop {
        if let Poll::Ready(outcome) = work.as_mut().poll(&mut context) {
            return Ok(outcome);
        }
        let left = question.saturating_duration_since(Instant::now());
        if left.is_zero() {
            question = Instant::now() + ask()?;
        } else {
            thread::park_timeout(left);
        }
    }
}

/// Wakes the thread that runs a future in [`block_on_asking`].
struct ThreadWaker(Thread);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs disk work on a thread that may block. Errors: as `spawn_blocking`, for example when `work` panics.
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> std::result::Result<T, JoinError> {
    #[cfg(test)]
    if sim::is_on() {
        tokio::task::yield_now().await;
        return Ok(work());
    }
    tokio::task::spawn_blocking(work).await
}

/// Waits for a signal of `changed`, at most `timeout`. May return early.
pub(crate) fn wait_for<T>(changed: &Condvar, guard: &mut MutexGuard<'_, T>, timeout: Duration) {
    #[cfg(test)]
    if sim::is_on() {
        return MutexGuard::unlocked(guard, || sim::sleep(sim::LOOK_INTERVAL.min(timeout)));
    }
    changed.wait_for(guard, timeout);
}

/// Fills `bytes` from the system's random source. Errors: `Unavailable` when that source fails.
pub fn fill_random(bytes: &mut [u8]) -> Result<()> {
    #[cfg(test)]
    if sim::is_on() {
        sim::fill_random(bytes);
        return Ok(());
    }
    getrandom::fill(bytes)
        .map_err(|e| StoreError::Unavailable(format!("the system gives no random bytes: {e}")))
}

/// The time of day, for people and for the ages of objects.
pub(crate) fn time_of_day() -> SystemTime {
    #[cfg(test)]
    if sim::is_on() {
        return sim::time_of_day();
    }
    SystemTime::now()
}

/// The time in milliseconds since 1970.
pub(crate) fn time_of_day_ms() -> u64 {
    let age = time_of_day().duration_since(SystemTime::UNIX_EPOCH);
    age.map_or(0, |age| age.as_millis() as u64)
}
