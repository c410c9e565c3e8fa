//! Threads of a simulation. Each belongs to a task in the simulation's runtime, and the two run in turns, as
//! coroutines do.
//!
//! The task gives its thread the turn and waits, and no other task runs meanwhile. The thread gives the turn
//! back when it would block, that is, when it has polled a future that is not ready. The waker of that future
//! wakes the task.

use super::{CURRENT, current, fail, has_failed, is_on, this};
use parking_lot::{Condvar, Mutex};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};

/// The state of a [`Turn`]: the side that runs now, or why the thread does not run any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// The task runs, and the thread waits.
    Task,
    /// The thread runs, and the task waits.
    Thread,
    /// The thread has returned, so its task ends.
    Ended,
    /// The simulation is over, so the thread must unwind.
    Over,
}

/// Passes control between a simulated thread and its task. While the thread runs, its task waits, and no other
/// task of the simulation runs.
pub(super) struct Turn {
    whose: Mutex<Whose>,
    changed: Condvar,
    wake: Notify,
}

/// The panic value that unwinds a thread when its simulation is over.
struct Over;

thread_local! {
    static TURN: std::cell::RefCell<Option<Arc<Turn>>> = const { std::cell::RefCell::new(None) };
}

impl Turn {
    /// Called by the task: lets the thread run until the thread waits. Returns false when the thread has
    /// ended.
    fn give(&self) -> bool {
        let mut whose = self.whose.lock();
        if *whose == Whose::Task {
            *whose = Whose::Thread;
            self.changed.notify_all();
        }
        self.changed.wait_while(&mut whose, |whose| *whose == Whose::Thread);
        *whose == Whose::Task
    }

    /// Called by the thread: lets all other tasks run until the thread's task is woken.
    fn give_back(&self) {
        *self.whose.lock() = Whose::Task;
        self.changed.notify_all();
        self.wait();
    }

    fn wait(&self) {
        let mut whose = self.whose.lock();
        self.changed.wait_while(&mut whose, |whose| *whose == Whose::Task);
        if *whose == Whose::Over {
            drop(whose);
            std::panic::resume_unwind(Box::new(Over));
        }
    }

    fn set(&self, to: Whose) {
        *self.whose.lock() = to;
        self.changed.notify_all();
    }
}

impl Wake for Turn {
    fn wake(self: Arc<Self>) {
        self.wake.notify_one();
    }
}

/// The handle of a thread of a simulation. The thread runs on when the handle is dropped.
pub(crate) struct Thread<T>(oneshot::Receiver<T>);

impl<T> Thread<T> {
    /// Waits for the result of the thread. Requires: called on a thread of the simulation.
    pub(crate) fn join(self) -> T {
        match block_on(self.0) {
            Ok(result) => result,
            // The joined thread has panicked and noted a failure. The simulation is over, so this thread
            // ends, too.
            Err(_) => std::panic::resume_unwind(Box::new(Over)),
        }
    }

    pub(super) async fn ended(self) {
        let _ = self.0.await;
    }
}

/// Starts a thread of this simulation. A panic of the thread counts as a failure of the history.
pub(crate) fn spawn<T: Send + 'static>(name: &str, work: impl FnOnce() -> T + Send + 'static) -> Thread<T> {
    let sim = this();
    let turn =
        Arc::new(Turn { whose: Mutex::new(Whose::Task), changed: Condvar::new(), wake: Notify::new() });
    let (send, receive) = oneshot::channel();
    let (mine, name) = (Arc::clone(&turn), name.to_owned());
    let body = {
        let sim = Arc::clone(&sim);
        move || {
            CURRENT.set(Some(Arc::clone(&sim)));
            TURN.set(Some(Arc::clone(&mine)));
            // On a thread outside of the runtime, tokio's `Instant` would show the machine's clock.
            let runtime = sim.handle.enter();
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
                mine.wait();
                work()
            }));
            match outcome {
                Ok(result) => drop(send.send(result)),
                Err(panic) if panic.is::<Over>() => {}
                Err(panic) => {
                    fail(format!("{name}: {}", text_of(panic.as_ref())));
                    drop(send);
                }
            }
            drop(runtime);
            let turn = TURN.take();
            CURRENT.set(None);
            drop(sim);
            turn.inspect(|turn| turn.set(Whose::Ended));
        }
    };
    std::thread::Builder::new().stack_size(1 << 20).spawn(body).unwrap();
    sim.turns.lock().push(Arc::clone(&turn));
    sim.handle.spawn(async move {
        while turn.give() {
            turn.wake.notified().await;
        }
    });
    Thread(receive)
}

/// Keeps panics inside a simulation from being printed. They are noted as failures of the history, or end a
/// server that was overtaken by another owner.
pub(super) fn mute_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !is_on() {
                print(panic);
            }
        }));
    });
}

/// The message of a panic.
fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

/// Ends all threads that wait, and returns when they have ended.
pub(super) fn end_all(turns: &[Arc<Turn>]) {
    for turn in turns {
        let mut whose = turn.whose.lock();
        if *whose == Whose::Task {
            *whose = Whose::Over;
            turn.changed.notify_all();
            turn.changed.wait_while(&mut whose, |whose| *whose == Whose::Over);
        }
    }
}

/// Runs `work` to its end, while other tasks of the simulation may run. If the simulation has failed, the
/// calling thread unwinds here.
pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    let turn = TURN.with_borrow(Clone::clone).unwrap();
    let waker = Waker::from(Arc::clone(&turn));
    let mut work = pin!(work);
    loop {
        if let Poll::Ready(result) = work.as_mut().poll(&mut Context::from_waker(&waker)) {
            return result;
        }
        turn.give_back();
        if has_failed() && !std::thread::panicking() {
            std::panic::resume_unwind(Box::new(Over));
        }
    }
}

/// Waits for `duration`: in virtual time on a thread of a simulation, otherwise in real time.
pub(crate) fn sleep(duration: Duration) {
    if is_on() && current().is_some() && TURN.with_borrow(Option::is_some) {
        if !std::thread::panicking() {
            block_on(tokio::time::sleep(duration));
        }
    } else {
        std::thread::sleep(duration);
    }
}
