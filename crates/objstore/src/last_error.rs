//! The newest error of one store, for SHOW STATUS, until what failed works again.
//!
//! ERROR-1: an error that only says that the bucket did not answer ends with the next request that succeeds. Any
//!          other error ends when the operation that failed succeeds: other requests may work although, for
//!          example, deletions are refused.

use crate::machine::time_of_day_ms;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Stands in place of an operation: the success of any request ends the error.
pub(crate) const ANY: &str = "";

/// The newest error of one store.
#[derive(Debug, Default)]
pub struct LastError {
    /// Whether there is an error now. It is read without the lock, because every request asks.
    is_set: AtomicBool,
    newest: Mutex<Newest>,
}

/// An error, and when it was.
#[derive(Debug, Default)]
struct Newest {
    operation: &'static str,
    /// "" when the error has ended.
    message: String,
    at_ms: u64,
}

impl LastError {
    /// Keeps `message` as the newest error, until `operation` succeeds; with [`ANY`], until a request does.
    pub(crate) fn set(&self, operation: &'static str, message: &str) {
        let mut newest = self.newest.lock();
        *newest = Newest { operation, message: message.to_owned(), at_ms: time_of_day_ms() };
        self.is_set.store(true, Ordering::SeqCst);
    }

    /// Puts `what`, which has failed because of the error `cause`, in front of the newest error. If `cause` is
    /// not the newest error, it becomes that, until `what` succeeds.
    pub(crate) fn explain(&self, what: &'static str, cause: &str, message: &str) {
        let operation = {
            let newest = self.newest.lock();
            let is_known = !newest.message.is_empty() && cause.contains(&newest.message);
            if is_known { newest.operation } else { what }
        };
        self.set(operation, message);
    }

    /// Called after each success of `operation`. Costs an atomic load while there is no error.
    pub(crate) fn works(&self, operation: &'static str) {
        if !self.is_set.load(Ordering::SeqCst) {
            return;
        }
        let mut newest = self.newest.lock();
        if newest.operation == ANY || newest.operation == operation {
            newest.message.clear();
            self.is_set.store(false, Ordering::SeqCst);
        }
    }

    /// The newest error, or "" when it has ended.
    pub fn message(&self) -> String {
        self.newest.lock().message.clone()
    }

    /// When the newest error was, in milliseconds since 1970, also if it has ended. 0: there was none.
    pub fn at_ms(&self) -> u64 {
        self.newest.lock().at_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_ends_when_the_same_operation_succeeds() {
        let error = LastError::default();
        assert_eq!((error.message(), error.at_ms()), (String::new(), 0));
        error.set("deleting", "HTTP 403");
        error.works("reading");
        assert_eq!(error.message(), "HTTP 403");
        assert!(error.at_ms() > 0);
        error.works("deleting");
        assert_eq!(error.message(), "");
        assert!(error.at_ms() > 0, "the time says when something was wrong last");
    }

    #[test]
    fn no_answer_ends_with_any_success() {
        let error = LastError::default();
        error.set(ANY, "no answer");
        error.works("reading");
        assert_eq!(error.message(), "");
    }

    #[test]
    fn a_background_task_explains_the_error_of_its_request() {
        let error = LastError::default();
        error.set("writing", "HTTP 403");
        error.explain("publishing", "opening: HTTP 403", "publishing: HTTP 403. It is tried again");
        assert_eq!(error.message(), "publishing: HTTP 403. It is tried again");
        error.works("publishing");
        assert_ne!(error.message(), "", "the request has not succeeded yet");
        error.works("writing");
        assert_eq!(error.message(), "");
        error.explain("publishing", "the disk fails", "publishing: the disk fails");
        error.works("writing");
        assert_ne!(error.message(), "");
        error.works("publishing");
        assert_eq!(error.message(), "");
    }
}
