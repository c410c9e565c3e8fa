//! Goal:   a rewind gives the state of the snapshot, keeps the present state, can be undone, and refuses
//!         while a server may own the database. Whatever request fails, the database has one of the two
//!         states (REWIND-1, REWIND-2).
//! Method: a simulated database (test_db.rs) in memory, where one request after the other is made to fail.

use crate::config::Durability;
use crate::error::{Result, StoreError};
use crate::protocol::history::clone::Pins;
use crate::protocol::history::past::Past;
use crate::protocol::history::rewind::{RewindRequest, RewindStatus};
use crate::protocol::history::snapshot_test::Fixture;
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::testing::test_db::*;
use crate::requests::bucket::Bucket;
use crate::requests::fault::Fault;

fn rewind(bucket: &Bucket, snapshot: &str, keep: &str, takes_over: bool) -> Result<RewindStatus> {
    let (past, keep) = (Past::Snapshot(snapshot.to_owned()), keep.to_owned());
    let request = RewindRequest { past, keep, creator: "tester".to_owned(), takes_over };
    block(Inspector::new(bucket.clone()).rewind(&request))
}

fn reopen(bucket: &Bucket, dir: &std::path::Path) -> Db {
    let mut config = config(dir, "server:2", Durability::Sync);
    config.take_over = false;
    let store = open_store(&config, bucket, quick()).unwrap();
    Db::open(store, dir, false)
}

fn close(db: Db) {
    db.store.close(WAIT).unwrap();
}

/// Whether the database has exactly the commits of `model`.
fn is(db: &Db, model: &Model) -> bool {
    db.last_seq == model.commits.len() as u64 && db.matches(model)
}

#[test]
fn the_past_comes_back_the_present_is_kept_and_a_rewind_is_undone_by_another() {
    let mut f = Fixture::new();
    f.work(3);
    f.create("past").unwrap();
    let past = f.model.clone();
    f.work(6);
    let present = f.model.clone();
    assert_ne!(past.commits.len(), present.commits.len());
    f.db.store.publish(WAIT).unwrap();
    let refused = rewind(&f.bucket, "past", "present", false).unwrap_err();
    assert!(matches!(refused, StoreError::ReadOnly(_)), "{refused}");
    let dir = f.dir.path().to_owned();
    close(f.db);
    let done = rewind(&f.bucket, "past", "present", false).unwrap();
    assert!(done.root.is_some() && done.kept.is_some_and(|kept| kept.name == "present"));
    // This server starts with the local directory of the present state, and must set it aside. The next
    // server starts without a directory.
    let mut db = reopen(&f.bucket, &dir);
    assert!(db.store.was_restored(), "the local directory is of another time");
    assert!(is(&db, &past), "after the rewind");
    let mut model = past.clone();
    db.commit(&mut model, 0b11, 77, 77);
    db.flush(0, true);
    db.store.publish(WAIT).unwrap();
    close(db);
    rewind(&f.bucket, "present", "in between", false).unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    let db = reopen(&f.bucket, &dir);
    assert!(is(&db, &present), "after the second rewind");
    close(db);
    rewind(&f.bucket, "in between", "present again", false).unwrap();
    let db = reopen(&f.bucket, &dir);
    assert!(is(&db, &model), "after the third rewind");
    crash(db);
}

#[test]
fn names_that_are_taken_or_missing_change_nothing() {
    let mut f = Fixture::new();
    f.work(2);
    f.create("past").unwrap();
    f.work(3);
    let (dir, present) = (f.dir.path().to_owned(), f.model.clone());
    close(f.db);
    assert!(rewind(&f.bucket, "nobody", "present", false).unwrap_err().is_not_found());
    assert!(matches!(rewind(&f.bucket, "past", "", false), Err(StoreError::Invalid(_))));
    assert!(matches!(rewind(&f.bucket, "past", "past", false), Err(StoreError::Invalid(_))));
    let db = reopen(&f.bucket, &dir);
    assert!(is(&db, &present), "nothing was rewound");
    close(db);
}

/// Each request in turn is made to fail. The database then has the present state or the past one, and the
/// past one if the rewind reports success.
#[test]
fn a_rewind_is_done_or_not_at_all_whatever_request_is_hurt() {
    for fault in [Fault::LostRequest, Fault::LostReply, Fault::ConflictAfterApply, Fault::CorruptBody] {
        for position in 0.. {
            let mut f = Fixture::new();
            f.create("past").unwrap();
            let past = f.model.clone();
            f.work(1);
            let (dir, present) = (f.dir.path().to_owned(), f.model.clone());
            close(f.db);
            let before = f.store.requests();
            f.store.hurt(position, fault);
            let outcome = rewind(&f.bucket, "past", "present", false);
            let sent = f.store.requests() - before;
            f.store.heal();
            assert!(!matches!(outcome, Err(StoreError::Bug(_))), "{fault:?} {position}: {outcome:?}");
            std::fs::remove_dir_all(&dir).unwrap();
            let db = reopen(&f.bucket, &dir);
            let is_past = is(&db, &past);
            assert!(is_past || is(&db, &present), "{fault:?} {position}");
            assert!(is_past || outcome.is_err(), "{fault:?} {position}: it says it is done");
            // A request that fails is repeated, so it does not stop the rewind. Only a damaged reply can:
            // when the hint cannot be decoded, it looks as if a server still ran.
            assert!(is_past || matches!(fault, Fault::CorruptBody), "{fault:?} {position}: {outcome:?}");
            crash(db);
            if position > sent {
                assert!(position > 15, "a rewind sends more than {sent} requests");
                break;
            }
        }
    }
}

fn request(past: &str) -> RewindRequest {
    let (past, keep) = (Past::Snapshot(past.to_owned()), "present".to_owned());
    RewindRequest { past, keep, creator: "tester".to_owned(), takes_over: false }
}

/// REWIND-4. The snapshot is dropped after the rewind has read it, and the server collects before it stops.
#[test]
fn a_rewind_holds_its_past_itself() {
    let mut f = Fixture::new();
    f.create("past").unwrap();
    let past = f.model.clone();
    let (inspector, mut pins) = (f.inspector(), Pins::default());
    let held = block(inspector.hold_past(&request("past"), &mut pins)).unwrap();
    block(inspector.drop_snapshot("past")).unwrap();
    f.work(9);
    f.until_clean();
    let dir = f.dir.path().to_owned();
    close(f.db);
    block(inspector.rewind_held(&held, &request("past"))).unwrap();
    block(pins.take_back());
    let db = reopen(&f.bucket, &dir);
    assert!(is(&db, &past), "the past is whole");
    crash(db);
}

/// REWIND-4. Somebody deletes a file of the past by hand while the rewind works.
#[test]
fn a_rewind_whose_past_goes_meanwhile_changes_nothing() {
    let mut f = Fixture::new();
    f.create("past").unwrap();
    f.work(2);
    let (inspector, mut pins) = (f.inspector(), Pins::default());
    let held = block(inspector.hold_past(&request("past"), &mut pins)).unwrap();
    let (dir, present) = (f.dir.path().to_owned(), f.model.clone());
    close(f.db);
    let file = held.image.files.values().next().unwrap();
    block(f.bucket.delete(&file.key)).unwrap();
    let error = block(inspector.rewind_held(&held, &request("past"))).unwrap_err();
    assert!(matches!(&error, StoreError::Corruption(text) if text.contains(&*file.key)), "{error}");
    let db = reopen(&f.bucket, &dir);
    assert!(is(&db, &present), "the present stays");
    crash(db);
}
