//! Runs several servers in virtual time, one piece of code at a time. The same seed always gives the same
//! history: the same sequence of events.
//!
//! All tasks run in one tokio runtime with one thread and a virtual clock. When no task can run, the clock
//! jumps to the next time for which a task waits. The code of a server's clients blocks, so each client has a
//! thread. Such a thread runs only while its task in the runtime waits for it (`thread.rs`), so at any moment
//! only one piece of code runs. The seed makes every choice: how long a request takes and what happens to it
//! (`network.rs`), which of the runnable tasks goes first ([`scheduled`]), nonces, and what clients do.
//!
//! Each entry of the trace is hashed, with its virtual time. Two runs of the same seed give the same hash.

pub(crate) mod network;
mod thread;
mod wrong;

pub(crate) use thread::{block_on, sleep, spawn};

use crate::protocol::Random;
use parking_lot::Mutex;
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};
use thread::Turn;
use tokio::runtime::{Builder, Handle};
use tokio::sync::Notify;
use tokio::time::Instant;

/// The virtual time after which a thread that waits for a condition variable checks its condition again.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_millis(7);

/// A store that is closed waits for this virtual time, after which disk work that it has begun has ended.
pub(crate) const DISK_WORK_MAX: Duration = Duration::from_secs(1);

/// The time of day at which every simulation begins, in seconds since 1970.
pub(crate) const BEGIN_S: u64 = 1_700_000_000;

/// The result of one simulated history, which is all events of one call of [`run`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ended {
    /// The number of entries of the trace, also when the trace itself is not kept.
    pub(crate) steps: u64,
    /// The hash of the whole trace.
    pub(crate) hash: u64,
    /// The first failure; None if there was none.
    pub(crate) failure: Option<String>,
    /// The trace; empty when the caller did not ask for it.
    pub(crate) lines: Vec<String>,
}

/// The state that all threads of one simulation share.
struct Sim {
    handle: Handle,
    origin: Instant,
    random: Mutex<Random>,
    trace: Mutex<Trace>,
    turns: Mutex<Vec<Arc<Turn>>>,
    failed: Notify,
    /// How far the clocks of all servers are ahead, in milliseconds.
    ahead_ms: AtomicU64,
    /// Whether rule LIST-1 is switched off.
    believes_listings: AtomicBool,
}

struct Trace {
    steps: u64,
    hash: u64,
    failure: Option<String>,
    lines: Option<Vec<String>>,
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<Sim>>> = const { RefCell::new(None) };
}

/// Runs `client` in a new simulation, until it returns or [`fail`] is called.
///
/// If `keeps_lines`, the whole trace is returned and not only its hash. Requires: called outside of any
/// simulation.
pub(crate) fn run(seed: u64, keeps_lines: bool, client: impl FnOnce() + Send + 'static) -> Ended {
    let mut builder = Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build().unwrap();
    let origin = runtime.block_on(async { Instant::now() });
    let lines = keeps_lines.then(Vec::new);
    let trace = Trace { steps: 0, hash: 0xcbf2_9ce4_8422_2325, failure: None, lines };
    let sim = Arc::new(Sim {
        handle: runtime.handle().clone(),
        origin,
        random: Mutex::new(Random::new(seed)),
        trace: Mutex::new(trace),
        turns: Mutex::default(),
        failed: Notify::new(),
        ahead_ms: AtomicU64::new(0),
        believes_listings: AtomicBool::new(false),
    });
    thread::mute_panics();
    CURRENT.set(Some(Arc::clone(&sim)));
    let main = spawn("main", client);
    runtime.block_on(async {
        tokio::select! {
            biased;
            () = sim.failed.notified() => {}
            () = main.ended() => {}
        }
    });
    thread::end_all(&std::mem::take(&mut *sim.turns.lock()));
    drop(runtime);
    CURRENT.set(None);
    let mut trace = sim.trace.lock();
    let lines = trace.lines.take().unwrap_or_default();
    Ended { steps: trace.steps, hash: trace.hash, failure: trace.failure.take(), lines }
}

fn current() -> Option<Arc<Sim>> {
    CURRENT.with_borrow(Clone::clone)
}

/// The simulation of this thread. Requires: there is one.
fn this() -> Arc<Sim> {
    current().unwrap()
}

/// Whether this thread belongs to a simulation.
pub(crate) fn is_on() -> bool {
    CURRENT.with_borrow(Option::is_some)
}

/// The runtime of this thread's simulation. None outside of a simulation.
pub(crate) fn handle() -> Option<Handle> {
    current().map(|sim| sim.handle.clone())
}

/// A number below `bound`, which the seed chooses.
pub(crate) fn below(bound: u64) -> u64 {
    this().random.lock().below(bound)
}

/// Returns true in one of `one_in` calls on average. The seed chooses the calls.
pub(crate) fn once_in(one_in: u64) -> bool {
    below(one_in) == 0
}

/// Fills `bytes` with random bytes that the seed determines.
pub(crate) fn fill_random(bytes: &mut [u8]) {
    let sim = this();
    let mut random = sim.random.lock();
    for part in bytes.chunks_mut(8) {
        let word = random.next().to_le_bytes();
        part.copy_from_slice(&word[..part.len()]);
    }
}

/// The virtual time since the begin of the simulation.
pub(crate) fn elapsed() -> Duration {
    this().origin.elapsed()
}

/// The time of day in the simulation, by the clocks of the servers.
pub(crate) fn time_of_day() -> SystemTime {
    let ahead = Duration::from_millis(this().ahead_ms.load(Ordering::Relaxed));
    SystemTime::UNIX_EPOCH + Duration::from_secs(BEGIN_S) + elapsed() + ahead
}

/// Sets the clocks of all servers ahead of the virtual time by this much.
pub(crate) fn set_clocks_ahead(ahead: Duration) {
    note(&format!("the clocks are {} s ahead", ahead.as_secs()));
    this().ahead_ms.store(ahead.as_millis() as u64, Ordering::Relaxed);
}

/// Switches rule LIST-1 off: from now on servers believe every listing of claims and roots.
pub(crate) fn believe_listings() {
    this().believes_listings.store(true, Ordering::Relaxed);
}

/// Whether rule LIST-1 is switched off in the simulation of this thread.
pub(crate) fn believes_listings() -> bool {
    current().is_some_and(|sim| sim.believes_listings.load(Ordering::Relaxed))
}

/// Adds an entry to the trace. After the first failure no more entries are added.
pub(crate) fn note(text: &str) {
    let sim = this();
    let at = sim.origin.elapsed().as_micros();
    let mut trace = sim.trace.lock();
    if trace.failure.is_some() {
        return;
    }
    trace.steps += 1;
    for byte in at.to_le_bytes().iter().chain(text.as_bytes()) {
        trace.hash = (trace.hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    }
    if let Some(lines) = &mut trace.lines {
        lines.push(format!("{:>10}.{:03} ms  {text}", at / 1000, at % 1000));
    }
}

/// Records a failure: a condition that must always hold does not hold. The first message is kept, and the
/// simulation ends at the next wait.
pub(crate) fn fail(message: String) {
    let sim = this();
    if !has_failed() {
        note("FAILED");
    }
    sim.trace.lock().failure.get_or_insert(message);
    sim.failed.notify_one();
}

/// Whether [`fail`] was called in this simulation.
pub(crate) fn has_failed() -> bool {
    this().trace.lock().failure.is_some()
}

/// Wraps `task` so that at times, chosen by the seed, it sleeps a little or lets other tasks run first.
/// Outside of a simulation, the wrapper changes nothing.
pub(crate) fn scheduled<F: Future>(task: F) -> Scheduled<F> {
    Scheduled { task: Box::pin(task), pause: None }
}

/// The wrapper that [`scheduled`] puts around a task. While `pause` is set, the task sleeps.
pub(crate) struct Scheduled<F> {
    task: Pin<Box<F>>,
    pause: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl<F: Future> Future for Scheduled<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        if let Some(pause) = &mut self.pause {
            if pause.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            self.pause = None;
        } else if is_on() {
            match below(40) {
                0 => {
                    let mut pause = Box::pin(tokio::time::sleep(Duration::from_millis(1 + below(60))));
                    if pause.as_mut().poll(context).is_pending() {
                        self.pause = Some(pause);
                        return Poll::Pending;
                    }
                }
                1..=9 => {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                _ => {}
            }
        }
        self.task.as_mut().poll(context)
    }
}

#[cfg(test)]
#[path = "sim_test.rs"]
mod tests;
