//! Goal:   `fsck` calls an object an orphan only if nobody needs it, and finds every kind of stray.
//! Method: a database that lived through two owners; strays are put beside it, then what it needs is taken away.

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

/// Every object is older than the grace time.
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

/// One owner publishes and is killed; another takes over and publishes.
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
    // Files are gathered for a moment before they are deleted.
    for _ in 0..600 {
        if report.orphaned.is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
        report = fsck(&bucket, NO_GRACE);
    }
    assert!(report.orphaned.is_empty() && report.foreign.is_empty(), "{report:?}");
    assert!(report.verified.problems.is_empty() && report.verified.files_checked > 0, "{report:?}");
}

#[test]
fn strays_are_orphans_only_after_the_grace_time() {
    let (bucket, store) = faulty_bucket();
    let (_dir, db) = two_lives(&bucket);
    crash(db); // A living owner would find them.
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

#[test]
fn what_a_restore_needs_is_never_an_orphan_and_is_missed_when_gone() {
    let (bucket, store) = faulty_bucket();
    let (dir, db) = two_lives(&bucket);
    lose(db, dir.path());
    let before = fsck(&bucket, NO_GRACE);
    assert!(before.verified.problems.is_empty(), "{before:?}");
    for dir in [names::FILE_DIR, names::MANIFEST_DIR] {
        let needed = block(bucket.list(dir, None)).unwrap();
        let key =
            needed.into_iter().map(|o| o.key).find(|key| !keys(&before).contains(&key.as_str())).unwrap();
        let bytes = block(bucket.get(&key)).unwrap();
        block(bucket.delete(&key)).unwrap();
        let report = fsck(&bucket, NO_GRACE);
        assert!(!report.verified.problems.is_empty(), "{key}: {report:?}");
        put(&store, &key, bytes);
    }
}
