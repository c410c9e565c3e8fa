//! The table objects that a read has found missing or too short in the bucket, until they are put back.
//!
//! Such an object damages some rows of some tables. Everything else goes on, so somebody must tell the DBA: the
//! first read of each object writes a line to the error log, and SHOW STATUS has their number.

use crate::machine::time_of_day_ms;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The missing and the truncated objects of one store.
#[derive(Debug, Default)]
pub struct LostObjects {
    /// The number of `objects`. It is read without the lock, because every read from the bucket asks.
    count: AtomicUsize,
    objects: Mutex<BTreeMap<String, Lost>>,
}

#[derive(Debug)]
struct Lost {
    /// How many bytes the object has; 0: it is missing.
    bytes: u64,
    message: String,
    at_ms: u64,
}

impl LostObjects {
    /// Notes that the object `key` has only `bytes` bytes (0: it is missing). Returns true when this was not known.
    pub(crate) fn note(&self, key: &str, bytes: u64, message: &str) -> bool {
        let mut objects = self.objects.lock();
        let lost = Lost { bytes, message: message.to_owned(), at_ms: time_of_day_ms() };
        let is_new = objects.insert(key.to_owned(), lost).is_none();
        self.count.store(objects.len(), Ordering::SeqCst);
        is_new
    }

    /// Called when the bucket has returned the bytes of `key` that end at `end`. Ends the loss of the object if it
    /// did not have these bytes. Costs an atomic load while no object is lost.
    pub(crate) fn found(&self, key: &str, end: u64) {
        if self.count() == 0 {
            return;
        }
        let mut objects = self.objects.lock();
        if objects.get(key).is_some_and(|lost| end > lost.bytes) {
            objects.remove(key);
        }
        self.count.store(objects.len(), Ordering::SeqCst);
    }

    /// Called when nothing needs the object any more.
    pub(crate) fn forget(&self, key: &str) {
        self.found(key, u64::MAX);
    }

    /// The number of lost objects.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// The message about the object that was read last, and when that was, in milliseconds since 1970. None: no
    /// object is lost.
    pub fn newest(&self) -> Option<(String, u64)> {
        let objects = self.objects.lock();
        objects.values().max_by_key(|lost| lost.at_ms).map(|lost| (lost.message.clone(), lost.at_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_new_once_and_ends_when_its_missing_bytes_are_read() {
        let lost = LostObjects::default();
        assert!(lost.note("a", 100, "a is short") && !lost.note("a", 100, "a is short"));
        assert!(lost.note("b", 0, "b is missing"));
        assert_eq!(lost.count(), 2);
        lost.found("a", 100);
        assert_eq!(lost.count(), 2, "the object has its first 100 bytes, as before");
        lost.found("a", 101);
        lost.found("b", 1);
        assert_eq!((lost.count(), lost.newest()), (0, None));
        assert!(lost.note("a", 0, "a is missing"), "it was whole in between");
    }

    #[test]
    fn an_object_that_nothing_needs_is_forgotten() {
        let lost = LostObjects::default();
        lost.note("a", 0, "a is missing");
        assert_eq!(lost.newest().map(|(message, _)| message).as_deref(), Some("a is missing"));
        lost.forget("a");
        assert_eq!(lost.count(), 0);
    }
}
