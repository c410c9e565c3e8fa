//! Starts the background tasks of a store and notices when one of them dies.
//!
//! Tokio reports the panic of a task only to the code that asks the task's handle. So without this file
//! nobody would notice a dead task: commits would wait for ever, or continue although the log is not shipped
//! any more. The supervisor turns the first death into an error with the task's name. [`crate::protocol`]
//! then makes the store read-only, and every waiting commit returns this error.

use crate::error::StoreError;
use futures_util::FutureExt;
use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// Receives the error of a task that died. Called on a thread of the runtime.
pub(crate) type OnDeath = Box<dyn Fn(StoreError) + Send + Sync>;

/// Starts and watches the tasks of one store.
pub(crate) struct Supervisor {
    runtime: Handle,
    on_death: OnceLock<OnDeath>,
    /// For tests: the name of the task that is to panic.
    #[cfg(test)]
    doomed: tokio::sync::watch::Sender<&'static str>,
}

impl Supervisor {
    /// A supervisor that reports no death until [`Supervisor::on_death`] sets the callback.
    pub(crate) fn new(runtime: Handle) -> Arc<Self> {
        Arc::new(Self {
            runtime,
            on_death: OnceLock::new(),
            #[cfg(test)]
            doomed: tokio::sync::watch::channel("").0,
        })
    }

    /// Sets the callback for the death of a task; only the first call has an effect.
    pub(crate) fn on_death(&self, tell: OnDeath) {
        let _ = self.on_death.set(tell);
    }

    /// Starts a task that must not end before `is_ending` returns true. A task that ends earlier, or panics,
    /// counts as dead.
    pub(crate) fn spawn(
        self: &Arc<Self>,
        name: &'static str,
        is_ending: impl Fn() -> bool + Send + 'static,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> JoinHandle<()> {
        let supervisor = Arc::clone(self);
        self.runtime.spawn(async move {
            match supervisor.run(name, task).await {
                Err(panic) => supervisor.died(name, &text_of(panic.as_ref())),
                Ok(()) if !is_ending() => supervisor.died(name, "it ended although the store is open"),
                Ok(()) => {}
            }
        })
    }

    /// Starts a task that ends when its work is done. It counts as dead only if it panics.
    pub(crate) fn spawn_work(
        self: &Arc<Self>,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> JoinHandle<()> {
        self.spawn(name, || true, task)
    }

    async fn run(
        &self,
        name: &'static str,
        task: impl Future<Output = ()>,
    ) -> Result<(), Box<dyn Any + Send>> {
        #[cfg(test)]
        let task = crate::sim::scheduled(self.unless_doomed(name, task));
        let _ = name;
        AssertUnwindSafe(task).catch_unwind().await
    }

    /// Reports `error`, which a task has met and cannot handle. The store becomes read-only.
    pub(crate) fn end_with(&self, error: StoreError) {
        if let Some(tell) = self.on_death.get() {
            tell(error);
        }
    }

    fn died(&self, name: &str, reason: &str) {
        let error = StoreError::ReadOnly(format!(
            "a background task of the engine, the {name}, has died: {reason}. Without it nothing more can be promised, so \
             this server makes no more changes; what it acknowledged is on its local disk. Report this, and restart the \
             server"
        ));
        self.end_with(error);
    }
}

/// The message of a panic.
fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .map_or_else(|| "a panic without a message".to_owned(), |text| format!("panic: {text}"))
}

#[cfg(test)]
impl Supervisor {
    /// Makes the task of this name panic: at once, or at its start if it is not running yet.
    pub(crate) fn doom(&self, name: &'static str) {
        self.doomed.send_replace(name);
    }

    async fn unless_doomed(&self, name: &'static str, task: impl Future<Output = ()>) {
        let mut doomed = self.doomed.subscribe();
        tokio::select! {
            biased;
            Ok(_) = doomed.wait_for(|doomed| *doomed == name) => panic!("injected into the {name}"),
            () = task => {}
        }
    }
}
