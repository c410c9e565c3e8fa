//! Goal:   a thread that waits for the upload backlog goes on after a KILL, at a shutdown or with a higher
//!         limit, and no file is lost.
//! Method: a file registry whose bucket does not answer and whose backlog is full; other threads wait for the
//!         backlog.

use super::tests::{Fixture, IS_KILLED};
use crate::error::StoreError;
use std::sync::Arc;

/// A file registry whose bucket does not answer and whose backlog is above its limit.
fn with_full_backlog() -> Fixture {
    let f = Fixture::new();
    f.store.as_ref().unwrap().outage(true);
    f.add(1, 100_000);
    f.files.set_backlog_bytes_max(50_000);
    f
}

#[test]
fn a_killed_statement_does_not_wait_for_the_backlog() {
    let f = with_full_backlog();
    for number in [2, 3] {
        f.write(&f.path(number), 1000);
    }
    let (files, path, staged) = (Arc::clone(&f.files), f.path(2), f.path(3));
    let killed = std::thread::spawn(move || {
        IS_KILLED.set(true);
        (files.add_file(2, &path), files.stage_file(&staged))
    });
    f.until("both waits ended", || killed.is_finished());
    let (added, staged) = killed.join().unwrap();
    for error in [added.unwrap_err(), staged.unwrap_err()] {
        assert!(matches!(error, StoreError::Interrupted(_)), "{error}");
        assert!(error.to_string().contains("atoll_upload_backlog_max"), "{error}");
    }
    assert!(!f.files.is_backlog_full());
    assert_eq!(f.files.list(), vec![(1, 100_000)], "a file that was refused must not be registered");
}

#[test]
fn at_a_shutdown_nobody_waits_for_the_backlog_and_nothing_is_lost() {
    let f = with_full_backlog();
    let bytes = f.write(&f.path(2), 1000);
    let (files, path) = (Arc::clone(&f.files), f.path(2));
    let flush = std::thread::spawn(move || files.add_file(2, &path));
    f.until("the flush waits", || f.files.is_backlog_full());
    f.files.stop_waiting();
    f.until("the flush ended", || flush.is_finished());
    flush.join().unwrap().unwrap();
    f.add(3, 1000);
    f.store.as_ref().unwrap().heal();
    let records = f.records();
    assert_eq!(records.len(), 3);
    assert_eq!(f.stored(&records[&2].key).unwrap(), bytes);
}

#[test]
fn a_higher_limit_frees_who_waits() {
    let f = with_full_backlog();
    f.write(&f.path(2), 1000);
    let (files, path) = (Arc::clone(&f.files), f.path(2));
    let flush = std::thread::spawn(move || files.add_file(2, &path));
    f.until("the flush waits", || f.files.is_backlog_full());
    f.files.set_backlog_bytes_max(200_000);
    f.until("the flush ended", || flush.is_finished());
    flush.join().unwrap().unwrap();
}
