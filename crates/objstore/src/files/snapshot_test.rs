//! Goal:   a snapshot has the files that changed since the last published one, and waiting for its uploads
//!         ends although RocksDB removes files meanwhile.
//! Method: a file registry over a bucket in memory with faults; the test acts as the publisher.

use super::tests::Fixture;
use super::{FilesSnapshot, Uploaded};

#[test]
fn a_file_removed_before_its_upload_makes_the_snapshot_stale_unless_held() {
    let f = Fixture::new();
    let store = f.store.as_ref().unwrap();
    store.outage(true);
    f.add(1, 5000);
    let plain = f.files.snapshot();
    f.files.remove_file(1).unwrap();
    let outcome = f.runtime.block_on(f.files.wait_uploaded(&plain)).unwrap();
    assert_eq!(outcome, Uploaded::Stale);
    let bytes = f.add(2, 5000);
    let held = f.files.snapshot_held();
    f.files.remove_file(2).unwrap();
    assert!(f.path(2).exists(), "a held snapshot still needs it");
    store.outage(false);
    let records = f.wait(&held);
    assert_eq!(f.object(&records[&2].key).unwrap(), bytes);
    // The object of the first file may be among the removed ones: an attempt to upload it may have read the file
    // before it was removed, and succeed when the outage is over.
    let has_second = |removed: Vec<String>| removed.contains(&records[&2].key.to_string());
    assert!(!has_second(f.files.published(held)), "the held snapshot names its object");
    f.until("local copy deleted", || !f.path(2).exists());
    let next = f.files.snapshot();
    f.wait(&next);
    assert!(has_second(f.files.published(next)), "its object goes with the next root");
}

/// A publish looks only at the files that have changed. The first publish of a process looks at all files.
#[test]
fn a_snapshot_names_what_changed_since_the_last_published_one() {
    let f = Fixture::new();
    let numbers = |snapshot: &FilesSnapshot| -> Vec<_> {
        snapshot.changes().map(|(number, key)| (number, key.is_some())).collect()
    };
    (1..=5).for_each(|number| drop(f.add(number, 100)));
    assert_eq!(f.publish().len(), 5);
    assert_eq!(numbers(&f.files.snapshot()), []);
    f.add(6, 100);
    f.files.remove_file(2).unwrap();
    let released = f.files.snapshot();
    assert_eq!(numbers(&released), [(2, false), (6, true)]);
    f.files.release(released);
    let published = f.files.snapshot();
    assert_eq!(published.files(), 5);
    f.wait(&published);
    // A change after the snapshot is in the next one, also when its file number was in this one.
    f.files.remove_file(6).unwrap();
    f.files.remove_file(3).unwrap();
    let _ = f.files.published(published);
    assert_eq!(numbers(&f.files.snapshot()), [(3, false), (6, false)]);
}
