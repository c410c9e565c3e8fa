//! Goal:   a clone begins with a state of its parent and then changes independently. Whatever the parent
//!         deletes, the clone's files stay. Whatever the clone does, it changes no object of the parent. No
//!         fault of the network leaves an incomplete clone (CLONE-1).
//! Method: simulated databases (test_db.rs) in several prefixes of one bucket in memory, where one request
//!         after the other is made to fail.

use crate::config::Durability;
use crate::error::{Result, StoreError};
use crate::protocol::format::names;
use crate::protocol::history::clone::{CloneRequest, CloneStatus};
use crate::protocol::history::past::Past;
use crate::protocol::history::pin::{self, Listed};
use crate::protocol::history::snapshot_test::{Fixture, NOW};
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::testing::test_db::*;
use crate::requests::bucket::Bucket;
use crate::requests::fault::Fault;
use tempfile::TempDir;

fn request(snapshot: Option<&str>) -> CloneRequest {
    CloneRequest {
        past: snapshot.map(|name| Past::Snapshot(name.to_owned())),
        place: "s3://elsewhere".to_owned(),
        creator: "tester".to_owned(),
        discards_unfinished: false,
        expires_s: None,
    }
}

/// Clones the database in `parent` into `prefix`.
fn clone_into(parent: &Bucket, prefix: &str, snapshot: Option<&str>) -> Result<(Bucket, CloneStatus)> {
    let child = parent.sibling(prefix)?;
    let status = block(Inspector::new(parent.clone()).clone_to(&child, &request(snapshot)))?;
    Ok((child, status))
}

fn open_child(bucket: &Bucket, dir: &TempDir) -> Db {
    let mut tuning = quick();
    tuning.alive_interval = WAIT;
    tuning.gc.search_interval = std::time::Duration::from_millis(5);
    let mut config = config(dir.path(), "child:1", Durability::Sync);
    config.take_over = false;
    let store = open_store(&config, bucket, tuning).unwrap();
    Db::open(store, dir.path(), false)
}

fn is_whole(bucket: &Bucket) -> bool {
    block(Inspector::new(bucket.clone()).verify(true, |_, _| {})).unwrap().problems.is_empty()
}

fn objects(bucket: &Bucket, dir: &str) -> Vec<String> {
    block(bucket.list(dir, None)).unwrap().into_iter().map(|object| object.key).collect()
}

#[test]
fn a_clone_keeps_its_state_while_both_go_on() {
    let mut f = Fixture::new();
    f.work(3);
    let (child, status) = clone_into(&f.bucket, "copy", None).unwrap();
    assert!(status.files == 2 && status.shared_bytes > 0 && status.parent.origins == ["db"], "{status:?}");
    assert!(objects(&child, names::FILE_DIR).is_empty(), "no table file is copied");
    let (dir, mut model) = (scratch(), f.model.clone());
    let mut db = open_child(&child, &dir);
    assert!(db.store.was_restored() && db.last_seq == f.db.last_seq);
    db.check(&model, "the clone at its begin");
    f.work(9);
    f.until_clean();
    let parents_files = f.keys(names::FILE_DIR);
    assert_eq!(parents_files.len(), 4, "two of its own and two of the clone");
    for round in 0..5 {
        db.commit(&mut model, 0b11, 100 + round, round);
        db.flush(0, true);
        db.store.publish(WAIT).unwrap();
    }
    lose(db, dir.path());
    assert!(is_whole(&child) && is_whole(&f.bucket));
    let db = open_child(&child, &dir);
    db.check(&model, "the clone after its machine was lost");
    assert_eq!(f.keys(names::FILE_DIR), parents_files, "the clone deletes nothing of the parent");
    crash(db);
    crash(f.db);
}

/// Each clone has its own pin in the database that has the files, so a clone of a clone keeps them when the
/// pin of the clone between is dropped.
#[test]
fn a_clone_of_a_clone_outlives_the_one_between() {
    let mut f = Fixture::new();
    let (child, first) = clone_into(&f.bucket, "copy", None).unwrap();
    let (dir, mut model) = (scratch(), f.model.clone());
    let mut db = open_child(&child, &dir);
    db.commit(&mut model, 0b11, 7, 7);
    db.flush(0, true);
    db.store.publish(WAIT).unwrap();
    let (grandchild, second) = clone_into(&child, "copy-of-copy", None).unwrap();
    assert_eq!(second.parent.origins, ["copy", "db"]);
    crash(db);
    block(Inspector::new(f.bucket.clone()).drop_pin(&pin::clone_key(&first.db_uuid))).unwrap();
    f.work(9);
    f.until_clean();
    assert!(is_whole(&grandchild));
    let other = scratch();
    let heir = open_child(&grandchild, &other);
    heir.check(&model, "the clone of the clone");
    crash(heir);
    let late = clone_into(&child, "too-late", None).unwrap_err();
    assert!(late.is_not_found(), "a clone whose pin is gone cannot be cloned: {late}");
    assert!(objects(&f.bucket.sibling("too-late").unwrap(), "").is_empty());
    crash(f.db);
}

#[test]
fn a_clone_of_a_snapshot_has_its_state() {
    let mut f = Fixture::new();
    f.create("s").unwrap();
    let model = f.model.clone();
    f.work(5);
    f.until_clean();
    let (child, status) = clone_into(&f.bucket, "copy", Some("s")).unwrap();
    block(f.inspector().drop_snapshot("s")).unwrap();
    f.until_clean();
    let dir = scratch();
    let db = open_child(&child, &dir);
    assert_eq!(db.last_seq, model.commits.len() as u64);
    db.check(&model, "the clone of a snapshot");
    let missing = clone_into(&f.bucket, "other", Some("s")).unwrap_err();
    assert!(missing.is_not_found(), "{missing}");
    let pins = Listed::among(&block(f.bucket.list(names::PIN_DIR, None)).unwrap()).pins;
    assert_eq!(pins.into_iter().collect::<Vec<_>>(), [pin::clone_key(&status.db_uuid)]);
    crash(db);
    crash(f.db);
}

#[test]
fn a_clone_without_files_of_its_parent_lets_it_go() {
    let mut f = Fixture::new();
    let (child, _) = clone_into(&f.bucket, "copy", None).unwrap();
    let (dir, mut model) = (scratch(), f.model.clone());
    let mut db = open_child(&child, &dir);
    let inspector = Inspector::new(child.clone());
    assert!(
        matches!(block(inspector.release_parents()), Err(StoreError::Invalid(m)) if m.contains("/db/sst/"))
    );
    db.commit(&mut model, 0b11, 9, 9);
    db.flush(0, true);
    db.flush(1, true);
    db.store.publish(WAIT).unwrap();
    assert_eq!(block(inspector.release_parents()).unwrap(), ["db"]);
    f.until_clean();
    assert_eq!((f.keys(names::FILE_DIR).len(), f.keys(names::PIN_DIR).len()), (2, 0));
    assert!(is_whole(&child));
    crash(db);
    crash(f.db);
}

#[test]
fn a_clone_goes_only_where_nothing_is() {
    let f = Fixture::new();
    let refused = |prefix: &str, expected: &str| {
        let error = clone_into(&f.bucket, prefix, None).unwrap_err();
        assert!(matches!(&error, StoreError::Invalid(m) if m.contains(expected)), "{prefix}: {error}");
    };
    refused("db", "overlap");
    refused("db/inside", "overlap");
    refused("", "overlap");
    let (child, _) = clone_into(&f.bucket, "copy", None).unwrap();
    refused("copy", "holds a database");
    block(child.delete(names::DB)).unwrap();
    refused("copy", "--discard-unfinished");
    let again = CloneRequest { discards_unfinished: true, ..request(None) };
    block(f.inspector().clone_to(&child, &again)).unwrap();
    assert!(is_whole(&child));
    block(child.delete(names::DB)).unwrap();
    (1..3).for_each(|epoch| block(child.delete(&names::epoch(epoch))).unwrap());
    refused("copy", "holds other objects");
    crash(f.db);
}

/// CLONE-6. A DELETE that got no answer in time is repeated; here the first one lands when the next clone has
/// been made already.
#[test]
fn a_deletion_of_leftovers_that_lands_late_hurts_no_later_clone() {
    let f = Fixture::new();
    let (child, _) = clone_into(&f.bucket, "copy", None).unwrap();
    block(child.delete(names::DB)).unwrap();
    let leftovers = objects(&child, "");
    let again = CloneRequest { discards_unfinished: true, ..request(None) };
    block(f.inspector().clone_to(&child, &again)).unwrap();
    let deleted = |key: &String| !key.starts_with(names::EPOCH_DIR) && !key.starts_with(names::HINT_DIR);
    for key in leftovers.iter().filter(|key| deleted(key)) {
        block(child.delete(key)).unwrap();
    }
    let dir = scratch();
    let db = open_child(&child, &dir);
    db.check(&f.model, "the second clone");
    assert_eq!(db.last_seq, f.db.last_seq);
    crash(db);
    crash(f.db);
}

/// OPEN-6.
#[test]
fn a_clone_that_has_lost_its_first_root_never_begins_empty() {
    let f = Fixture::new();
    let (child, _) = clone_into(&f.bucket, "copy", None).unwrap();
    let root = block(child.get(&names::root(1, 1))).unwrap();
    block(child.delete(&names::root(1, 1))).unwrap();
    let (dir, before) = (scratch(), objects(&child, ""));
    let mut config = config(dir.path(), "child:1", Durability::Sync);
    config.take_over = false;
    let error = open_store(&config, &child, quick()).err().unwrap();
    assert!(
        matches!(&error, StoreError::Corruption(text) if text.contains("does not begin empty")),
        "{error}"
    );
    assert_eq!(objects(&child, ""), before, "nothing was changed");
    let nonce: [u8; 16] = root[12..28].try_into().unwrap();
    block(child.create_slot(&names::root(1, 1), root, &nonce)).unwrap();
    let db = open_child(&child, &dir);
    db.check(&f.model, "the clone whose root was put back");
    crash(db);
    crash(f.db);
}

/// A request of the first program is lost, and while that program waits to repeat it, the second one works.
#[test]
fn of_two_clones_into_one_prefix_the_loser_leaves_nothing() {
    let f = Fixture::new();
    for position in 0..16 {
        let child = f.bucket.sibling(&format!("copy{position}")).unwrap();
        let (one, two) = (f.inspector(), f.inspector());
        let (request, others) = (request(None), request(None));
        f.store.hurt(position, Fault::LostRequest);
        let outcomes =
            block(async { tokio::join!(one.clone_to(&child, &request), two.clone_to(&child, &others)) });
        f.store.heal();
        let made = [outcomes.0, outcomes.1].into_iter().filter_map(Result::ok).count();
        assert_eq!(made, 1, "position {position}");
        assert_eq!(objects(&child, names::EPOCH_DIR), [names::epoch(1)], "position {position}");
        let dir = scratch();
        let db = open_child(&child, &dir);
        db.check(&f.model, "the clone of the winner");
        crash(db);
    }
    crash(f.db);
}

/// What an unfinished copy or a damaged database has left is no leftover of a clone.
#[test]
fn only_leftovers_of_clones_are_discarded() {
    let f = Fixture::new();
    let again = CloneRequest { discards_unfinished: true, ..request(None) };
    let target = f.bucket.sibling("copied").unwrap();
    let id = crate::protocol::copies::adopt::copier_id("atollctl copy of x", "somebody");
    block(crate::protocol::start::claim::claim(&target, &id, Default::default())).unwrap();
    let (child, _) = clone_into(&f.bucket, "copy", None).unwrap();
    let dir = scratch();
    let mut db = open_child(&child, &dir);
    db.commit(&mut f.model.clone(), 0b11, 1, 1);
    db.flush(0, true);
    db.store.close(WAIT).unwrap();
    block(child.delete(names::DB)).unwrap();
    for (place, expected) in [(&target, "atollctl copy"), (&child, "lacks its db.json")] {
        let before = objects(place, "");
        let error = block(f.inspector().clone_to(place, &again)).unwrap_err();
        assert!(matches!(&error, StoreError::Invalid(text) if text.contains(expected)), "{error}");
        assert_eq!(objects(place, ""), before);
    }
    crash(f.db);
}

/// A snapshot of a clone is made while the clone gives up its parents. The program has read the newest root
/// while that root still read a file of the parent.
#[test]
fn a_snapshot_that_comes_after_the_release_does_not_count() {
    let f = Fixture::new();
    let (child, _) = clone_into(&f.bucket, "copy", None).unwrap();
    let (dir, mut model) = (scratch(), f.model.clone());
    // The collector of the clone deletes nothing, so it creates no horizon.
    let mut tuning = quick();
    tuning.gc.grace = WAIT;
    let config = config(dir.path(), "child:1", Durability::Sync);
    let mut db = Db::open(open_store(&config, &child, tuning).unwrap(), dir.path(), false);
    let inspector = Inspector::new(child.clone());
    let moment = block(inspector.moment()).unwrap();
    db.commit(&mut model, 0b11, 9, 9);
    db.flush(0, true);
    db.flush(1, true);
    db.store.publish(WAIT).unwrap();
    assert_eq!(block(inspector.release_parents()).unwrap(), ["db"]);
    assert!(block(inspector.hold(&moment, "keep me", "tester")).unwrap().is_none());
    assert!(objects(&child, names::SNAPSHOT_DIR).is_empty());
    block(inspector.create_snapshot("keep me", "tester")).unwrap();
    crash(db);
    crash(f.db);
}

/// CLONE-1, at every request of the clone (windows 20 and 22 of docs/internals/windows.md): if the clone
/// exists, it is complete, even after the parent has published further roots.
#[test]
fn a_clone_is_whole_or_cannot_be_opened_whatever_request_is_hurt() {
    let mut f = Fixture::new();
    let mut made = Vec::new();
    for fault in Fault::ALL {
        for position in 0.. {
            let prefix = format!("copy-{fault:?}-{position}");
            let before = f.store.requests();
            f.store.hurt(position, fault);
            let outcome = clone_into(&f.bucket, &prefix, None);
            let sent = f.store.requests() - before;
            f.store.heal();
            assert!(!matches!(outcome, Err(StoreError::Bug(_))), "{prefix}: {outcome:?}");
            let child = f.bucket.sibling(&prefix).unwrap();
            let exists = objects(&child, "").iter().any(|key| key == names::DB);
            assert!(exists || outcome.is_err(), "{prefix}");
            if exists {
                made.push(child);
            }
            if position > sent {
                assert!(position > 15, "a clone sends more than {sent} requests");
                break;
            }
        }
    }
    f.work(9);
    f.until_clean();
    for child in &made {
        assert!(is_whole(child), "{child:?}");
        let report = block(Inspector::new(child.clone()).fsck(NOW, |_, _| {})).unwrap();
        assert!(report.foreign.is_empty() && report.orphaned.is_empty(), "{report:?}");
    }
    crash(f.db);
}
