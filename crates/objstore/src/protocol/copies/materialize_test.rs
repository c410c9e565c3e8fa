//! Goal:   a clone that was materialized has the same rows and reads no file of its parent; a clone that a
//!         server owns is refused; if any request of `materialize` fails, or the process is killed at it, the
//!         clone is complete, its pin in the parent stays as long as it is needed, and a second attempt
//!         reuses the copies of the first (MATERIALIZE-1 to 3, ADOPT-1).
//! Method: simulated databases (test_db.rs) in several prefixes of one bucket in memory, where one request
//!         after the other is made to fail.

use crate::config::Durability;
use crate::error::{Result, StoreError};
use crate::protocol::copies::adopt::Adopted;
use crate::protocol::copies::materialize::MaterializeStatus;
use crate::protocol::format::names;
use crate::protocol::history::clone::CloneRequest;
use crate::protocol::history::pin;
use crate::protocol::history::snapshot_test::{Fixture, NOW};
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::testing::test_db::*;
use crate::requests::bucket::Bucket;
use crate::requests::fault::Fault;
use crate::requests::origin;
use tempfile::TempDir;

/// Clones the database in `parent` into `prefix`. Returns the bucket of the clone, and the clone's uuid.
fn clone_into(parent: &Bucket, prefix: &str) -> (Bucket, String) {
    let child = parent.sibling(prefix).unwrap();
    let request = CloneRequest {
        past: None,
        place: format!("s3://{prefix}"),
        creator: "tester".to_owned(),
        discards_unfinished: false,
        expires_s: None,
    };
    let status = block(Inspector::new(parent.clone()).clone_to(&child, &request)).unwrap();
    (child, status.db_uuid)
}

fn materialize(bucket: &Bucket) -> Result<MaterializeStatus> {
    block(Inspector::new(bucket.clone()).materialize("tester", &|_, _| {}))
}

fn open_child(bucket: &Bucket, dir: &TempDir) -> Db {
    let config = config(dir.path(), "child:1", Durability::Sync);
    Db::open(open_store(&config, bucket, quick()).unwrap(), dir.path(), false)
}

fn is_whole(bucket: &Bucket) -> bool {
    block(Inspector::new(bucket.clone()).verify(true, |_, _| {})).unwrap().problems.is_empty()
}

fn foreign_files(bucket: &Bucket) -> usize {
    let files = block(Inspector::new(bucket.clone()).files()).unwrap();
    files.iter().filter(|file| origin::is_foreign(&file.key)).count()
}

fn pins(bucket: &Bucket) -> Vec<String> {
    let listed = block(bucket.list(names::PIN_DIR, None)).unwrap();
    listed.into_iter().map(|object| object.key).collect()
}

/// Deletes all objects of the database in `bucket`.
fn delete_all(bucket: &Bucket) {
    for object in block(bucket.list("", None)).unwrap() {
        block(bucket.delete(&object.key)).unwrap();
    }
}

#[test]
fn a_materialized_clone_lives_on_without_its_parent() {
    let f = Fixture::new();
    let (child, uuid) = clone_into(&f.bucket, "copy");
    let (dir, mut model) = (scratch(), f.model.clone());
    let mut db = open_child(&child, &dir);
    db.commit(&mut model, 0b11, 7, 7);
    db.flush(0, true);
    db.store.publish(WAIT).unwrap();
    let refused = materialize(&child).unwrap_err();
    assert!(matches!(&refused, StoreError::ReadOnly(m) if m.contains("child:1")), "{refused}");
    db.store.close(WAIT).unwrap();
    drop(db);
    let done = materialize(&child).unwrap();
    assert!(done.root.is_some() && done.independent_of == ["db"] && done.still_held.is_empty(), "{done:?}");
    assert_eq!((done.adopted.copied_files, foreign_files(&child)), (done.foreign_files, 0));
    assert!(pins(&f.bucket).contains(&pin::release_key(&pin::clone_key(&uuid))));
    crash(f.db);
    delete_all(&f.bucket);
    let db = open_child(&child, &dir);
    assert!(db.store.was_restored(), "its directory would read files of the parent");
    db.check(&model, "the clone without its parent");
    db.store.publish(WAIT).unwrap();
    crash(db);
    assert!(is_whole(&child));
    let again = materialize(&child).unwrap();
    assert!(again.root.is_none() && again.adopted == Adopted::default(), "nothing is left to copy");
}

#[test]
fn a_clone_that_must_be_masked_is_not_materialized_before_and_its_clones_have_the_duty_too() {
    let f = Fixture::new();
    let child = f.bucket.sibling("copy").unwrap();
    let request = CloneRequest {
        past: None,
        place: "s3://copy".to_owned(),
        creator: "tester".to_owned(),
        discards_unfinished: false,
        expires_s: None,
    };
    let uuid = block(Inspector::new(f.bucket.clone()).clone_to_mask(&child, &request)).unwrap().db_uuid;
    let (grandchild, next) = clone_into(&child, "copy-of-copy");
    for bucket in [&child, &grandchild] {
        assert!(block(Inspector::new(bucket.clone()).status()).unwrap().must_be_masked);
    }
    let refused = materialize(&child).unwrap_err();
    assert!(matches!(&refused, StoreError::Invalid(m) if m.contains("not masked yet")), "{refused}");
    for (bucket, fulfilled) in [(&child, vec![&uuid]), (&grandchild, vec![&uuid, &next])] {
        let dir = scratch();
        let db = open_child(bucket, &dir);
        assert!(db.store.owes_masking("") && db.store.owes_masking("another"));
        assert!(fulfilled.into_iter().all(|masked_in| !db.store.owes_masking(masked_in)));
        db.store.close(WAIT).unwrap();
    }
    assert!(!f.db.store.owes_masking(""), "only clones must be masked");
}

#[test]
fn a_clone_of_a_clone_becomes_independent_of_both() {
    let f = Fixture::new();
    let (child, _) = clone_into(&f.bucket, "copy");
    let (dir, mut model) = (scratch(), f.model.clone());
    let mut db = open_child(&child, &dir);
    db.commit(&mut model, 0b11, 7, 7);
    db.flush(0, true);
    db.store.publish(WAIT).unwrap();
    let (grandchild, _) = clone_into(&child, "copy-of-copy");
    crash(db);
    crash(f.db);
    let done = materialize(&grandchild).unwrap();
    assert_eq!(done.independent_of, ["copy", "db"]);
    delete_all(&f.bucket);
    delete_all(&child);
    let other = scratch();
    let heir = open_child(&grandchild, &other);
    heir.check(&model, "the clone of the clone");
    crash(heir);
    assert!(is_whole(&grandchild));
}

/// MATERIALIZE-2: the parent's pin stays as long as a snapshot of the clone reads the parent's files, even
/// when the clone's newest root no longer does.
#[test]
fn a_snapshot_of_the_clone_keeps_the_pin_of_the_parent() {
    let f = Fixture::new();
    let (child, uuid) = clone_into(&f.bucket, "copy");
    let inspector = Inspector::new(child.clone());
    block(inspector.create_snapshot("before", "tester")).unwrap();
    let done = materialize(&child).unwrap();
    assert!(done.independent_of.is_empty() && done.still_held.contains("/db/sst/"), "{done:?}");
    assert_eq!((foreign_files(&child), pins(&f.bucket)), (0, vec![pin::clone_key(&uuid)]));
    block(inspector.drop_snapshot("before")).unwrap();
    assert_eq!(materialize(&child).unwrap().independent_of, ["db"]);
    crash(f.db);
}

#[test]
fn what_is_no_clone_or_lacks_its_parent_is_refused_and_stays() {
    let f = Fixture::new();
    assert!(matches!(materialize(&f.bucket), Err(StoreError::Invalid(m)) if m.contains("no clone")));
    let (child, _) = clone_into(&f.bucket, "copy");
    let before = block(child.list("", None)).unwrap();
    crash(f.db);
    delete_all(&f.bucket);
    let error = materialize(&child).unwrap_err();
    assert!(matches!(&error, StoreError::Corruption(m) if m.contains("/db/sst/")), "{error}");
    assert_eq!(block(child.list("", None)).unwrap(), before, "nothing was changed");
}

#[test]
fn a_clone_in_a_directory_gets_names_of_its_own() {
    let place = scratch();
    let stats: std::sync::Arc<crate::Stats> = std::sync::Arc::default();
    let connect = |name: &str| {
        let path = place.path().join(name);
        std::fs::create_dir_all(&path).unwrap();
        crate::requests::client::connect_directory(
            &path,
            stats.clone(),
            crate::requests::retry::RetryPolicy::default(),
        )
        .unwrap()
    };
    let (parent, dir, mut model) = (connect("db"), scratch(), Model::default());
    let config = config(dir.path(), "owner:1", Durability::Sync);
    let mut db = Db::open(open_store(&config, &parent, quick()).unwrap(), dir.path(), true);
    db.commit(&mut model, 0b11, 1, 1);
    db.flush(0, true);
    db.flush(1, true);
    db.store.publish(WAIT).unwrap();
    connect("copy");
    let (child, _) = clone_into(&parent, place.path().join("copy").to_str().unwrap());
    crash(db);
    assert_eq!(materialize(&child).unwrap().adopted.copied_files, 2);
    std::fs::remove_dir_all(place.path().join("db")).unwrap();
    let other = scratch();
    let heir = open_child(&child, &other);
    heir.check(&model, "the clone without its parent's directory");
    crash(heir);
    assert!(is_whole(&child));
}

/// Each request of `materialize` in turn is made to fail, or is the one at which the process is killed.
#[test]
fn a_clone_is_whole_after_a_materialize_that_was_hurt_or_killed_and_a_second_one_goes_on() {
    let faults = [Fault::LostRequest, Fault::LostReply, Fault::ConflictAfterApply, Fault::CorruptBody];
    let (mut killed, mut reused) = (0, 0);
    for fault in faults.map(Some).into_iter().chain([None]) {
        for position in 0.. {
            let f = Fixture::new();
            let (child, uuid) = clone_into(&f.bucket, "copy");
            let before = f.store.requests();
            match fault {
                Some(fault) => f.store.hurt(position, fault),
                None => f.store.end_at(position),
            }
            let outcome = materialize(&child);
            let sent = f.store.requests() - before;
            f.store.heal();
            let context = format!("{fault:?} {position}: {outcome:?}");
            assert!(!matches!(outcome, Err(StoreError::Bug(_))), "{context}");
            assert!(is_whole(&child), "{context}");
            let is_released = pins(&f.bucket).contains(&pin::release_key(&pin::clone_key(&uuid)));
            assert!(foreign_files(&child) == 0 || !is_released && outcome.is_err(), "{context}");
            if outcome.is_err() {
                killed += 1;
                reused += materialize(&child).unwrap().adopted.reused_files;
            }
            assert_eq!(foreign_files(&child), 0, "{context}");
            crash(f.db);
            delete_all(&f.bucket);
            let dir = scratch();
            let db = open_child(&child, &dir);
            db.check(&f.model, &context);
            crash(db);
            if position > sent {
                assert!(position > 15, "a materialize sends more than {sent} requests");
                break;
            }
        }
    }
    assert!(killed > 10 && reused > 2, "{killed} {reused}");
}

/// The first attempt dies after it has copied a file. Then a server opens the clone and deletes the copies
/// that no root names. So the second attempt must copy all files again (ADOPT-1).
#[test]
fn copies_of_a_try_that_a_server_has_ended_are_not_used_again() {
    let f = Fixture::new();
    let killed_at = |position: u64| {
        let (child, _) = clone_into(&f.bucket, &format!("copy-{position}"));
        f.store.end_at(position);
        materialize(&child).unwrap_err();
        f.store.heal();
        child
    };
    let has_files = |child: &Bucket| !block(child.list(names::FILE_DIR, None)).unwrap().is_empty();
    let child = (0..).map(killed_at).find(has_files).unwrap();
    let dir = scratch();
    let db = open_child(&child, &dir);
    db.store.publish(WAIT).unwrap();
    db.store.close(WAIT).unwrap();
    drop(db);
    let done = materialize(&child).unwrap();
    assert_eq!((done.adopted.reused_files, done.adopted.copied_files), (0, done.foreign_files));
    let report = block(Inspector::new(child.clone()).fsck(NOW, |_, _| {})).unwrap();
    assert!(report.verified.problems.is_empty() && report.foreign.is_empty(), "{report:?}");
    crash(f.db);
}
