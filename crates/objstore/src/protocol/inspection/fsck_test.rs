//! Goal:   `fsck` calls an object an orphan only if nobody needs it, and finds every object that nobody
//!         needs.
//! Method: a database that had two owners, one after the other. The tests add objects that nothing names
//!         (strays), then remove objects that the database needs.

use crate::config::Durability;
use crate::protocol::format::names;
use crate::protocol::inspection::fsck::{FsckOptions, FsckReport};
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::testing::test_db::*;
use crate::requests::bucket::Bucket;
use crate::requests::fault::{FaultStore, faulty_bucket};
use bytes::Bytes;
use object_store::{ObjectStoreExt, memory::InMemory, path::Path};
use std::time::Duration;

/// With these options every object is older than the grace time.
const NO_GRACE: FsckOptions =
    FsckOptions { deep: true, grace: Duration::ZERO, second_look: Duration::from_millis(10) };

fn fsck(bucket: &Bucket, options: FsckOptions) -> FsckReport {
    block(Inspector::new(bucket.clone()).fsck(options, |_, _| {})).unwrap()
}

fn keys(report: &FsckReport) -> Vec<&str> {
    report.orphaned.iter().map(|object| object.key.as_str()).collect()
}

fn put(store: &FaultStore<InMemory>, key: &str, bytes: Bytes) {
    block(store.inner.put(&Path::from(format!("db/{key}")), bytes.into())).unwrap();
}

/// Makes a database: one owner publishes and is killed, and another takes over and publishes.
fn two_lives(bucket: &Bucket) -> (tempfile::TempDir, Db) {
    let mut model = Model::default();
    for life in 1..=2 {
        let dir = scratch();
        let owner = format!("owner:{life}");
        let store = open_store(&config(dir.path(), &owner, Durability::Sync), bucket, quick()).unwrap();
        let mut db = Db::open(store, dir.path(), true);
        for key in 0..9 {
            db.commit(&mut model, 0b11, key, key);
        }
        db.flush(0, true);
        db.store.publish(WAIT).unwrap();
        if life == 2 {
            return (dir, db);
        }
        lose(db, dir.path());
    }
    unreachable!()
}

#[test]
fn a_sound_database_has_no_orphan_once_its_owner_has_swept() {
    let (bucket, _) = faulty_bucket();
    let (_dir, _db) = two_lives(&bucket);
    let mut report = fsck(&bucket, NO_GRACE);
    // The collector gathers keys for a moment before it deletes the files.
    for _ in 0..600 {
        if report.orphaned.is_empty() && report.pending.is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
        report = fsck(&bucket, NO_GRACE);
    }
    assert!(report.orphaned.is_empty() && report.pending.is_empty(), "{report:?}");
    assert!(report.foreign.is_empty(), "{report:?}");
    assert!(report.verified.problems.is_empty() && report.verified.files_checked > 0, "{report:?}");
}

#[test]
fn strays_are_orphans_only_after_the_grace_time() {
    let (bucket, store) = faulty_bucket();
    let (_dir, db) = two_lives(&bucket);
    crash(db); // A living owner would delete the strays.
    let strays = ["sst/cd/00000000000000000002-00000099.sst", "sst/ab/00000000000000000002-00000098.sst"];
    for key in strays {
        put(&store, key, Bytes::from_static(b"stray"));
    }
    put(&store, "backup-of-the-dba.tar", Bytes::from_static(b"stray"));
    let report = fsck(&bucket, FsckOptions { grace: Duration::from_secs(3600), ..NO_GRACE });
    assert!(report.orphaned.is_empty(), "{report:?}");
    for key in strays {
        assert!(
            report.pending.iter().any(|object| object.key == key && object.size == 5),
            "{key}: {report:?}"
        );
    }
    assert_eq!(report.foreign, ["backup-of-the-dba.tar"]);
    let found = fsck(&bucket, NO_GRACE);
    for key in strays {
        assert!(keys(&found).contains(&key), "{key}: {found:?}");
    }
}

/// An owner deletes an object that a tomb lists within about a minute. The time between the two listings is
/// shorter, so both can show the object.
#[test]
fn an_object_that_a_tomb_lists_is_no_orphan() {
    let (bucket, store) = faulty_bucket();
    let (_dir, db) = two_lives(&bucket);
    crash(db);
    let tombed = "sst/cd/00000000000000000002-00000099.sst";
    let stray = "sst/ab/00000000000000000002-00000098.sst";
    for key in [tombed, stray] {
        put(&store, key, Bytes::from_static(b"stray"));
    }
    put(&store, &names::tomb(2, 1000), Bytes::from(format!("abcdefghijklmnop\n{tombed}")));
    let report = fsck(&bucket, NO_GRACE);
    assert!(keys(&report).contains(&stray) && !keys(&report).contains(&tombed), "{report:?}");
    assert!(report.pending.iter().any(|object| object.key == tombed), "{report:?}");
}

#[test]
fn what_a_restore_needs_is_never_an_orphan_and_is_missed_when_gone() {
    let (bucket, store) = faulty_bucket();
    let (dir, db) = two_lives(&bucket);
    lose(db, dir.path());
    let before = fsck(&bucket, NO_GRACE);
    assert!(before.verified.problems.is_empty(), "{before:?}");
    let is_unneeded =
        |key: &str| before.orphaned.iter().chain(&before.pending).any(|object| object.key == key);
    for dir in [names::FILE_DIR, names::MANIFEST_DIR] {
        let objects = block(bucket.list(dir, None)).unwrap();
        let key = objects.into_iter().map(|object| object.key).find(|key| !is_unneeded(key)).unwrap();
        let bytes = block(bucket.get(&key)).unwrap();
        block(bucket.delete(&key)).unwrap();
        let report = fsck(&bucket, NO_GRACE);
        assert!(!report.verified.problems.is_empty(), "{key}: {report:?}");
        put(&store, &key, bytes);
    }
}
