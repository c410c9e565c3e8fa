//! Goal:   exactly one database has a table that was handed over, whoever decides first and whichever reply is
//!         lost (HANDOVER-1). The taker reads the giver's files where they are for as long as it needs them, and
//!         the giver deletes none of them before (HANDOVER-4).
//! Method: two simulated databases (test_db.rs) in two prefixes of one bucket in memory, whose requests fail.

use crate::config::Durability;
use crate::error::StoreError;
use crate::protocol::format::names;
use crate::protocol::history::hand_over::{
    Choice, Decision, HandOvers, Outcome, Taking, may_have_taken_from, origin_of, own_takings, takings,
};
use crate::protocol::history::mounts::mount_test::read_all;
use crate::protocol::history::pin;
use crate::protocol::history::snapshot_test::{Fixture, NOW};
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::store::Store;
use crate::protocol::testing::test_db::*;
use crate::requests::bucket::Bucket;
use crate::requests::fault::Fault;
use std::time::Duration;
use tempfile::TempDir;

const ID: &str = "0f0f-1";
/// The origin of the giver, which is a [`Fixture`].
const GIVER: &str = "db";

fn open_taker(bucket: &Bucket, dir: &TempDir) -> Db {
    let mut tuning = quick();
    tuning.alive_interval = WAIT;
    tuning.gc.search_interval = Duration::from_millis(5);
    let store = open_store(&config(dir.path(), "taker:1", Durability::Sync), bucket, tuning).unwrap();
    Db::open(store, dir.path(), true)
}

fn taker(f: &Fixture) -> (Bucket, TempDir, Db) {
    let (bucket, dir) = (f.bucket.sibling("taker").unwrap(), scratch());
    let db = open_taker(&bucket, &dir);
    db.store.publish(WAIT).unwrap();
    (bucket, dir, db)
}

fn of(db: &Db) -> HandOvers<'_> {
    HandOvers::of(&db.store)
}

fn decide(store: &Store, origin: Option<&str>, choice: Choice) -> Outcome {
    HandOvers::of(store).decide(ID, origin, choice).unwrap()
}

#[test]
fn who_decides_first_has_the_table() {
    for taken in [true, false] {
        let f = Fixture::new();
        let (_, _dir, other) = taker(&f);
        of(&f.db).offer(ID, "shop.t").unwrap();
        assert!(of(&f.db).is_offered(ID).unwrap());
        assert_eq!(decide(&f.db.store, None, Choice::Look), Outcome::Open);
        assert_eq!(decide(&other.store, Some(GIVER), Choice::Look), Outcome::Open);
        let take = |()| decide(&other.store, Some(GIVER), Choice::Take);
        let cancel = |()| decide(&f.db.store, None, Choice::Cancel);
        let (mine, others) = match taken {
            true => (take(()), cancel(())),
            false => (take_after(&f, &other), cancel(())),
        };
        for _ in 0..2 {
            assert_eq!(take(()), mine, "again");
            assert_eq!(decide(&other.store, Some(GIVER), Choice::Look), mine);
            assert_eq!(cancel(()), others);
            assert_eq!(decide(&f.db.store, None, Choice::Look), others);
        }
        assert_eq!((mine == Outcome::Mine, others == Outcome::Cancelled), (taken, !taken));
        of(&f.db).withdraw(ID).unwrap();
        assert!(!of(&f.db).is_offered(ID).unwrap());
        crash(other);
        crash(f.db);
    }
}

/// The giver takes the table back first.
fn take_after(f: &Fixture, other: &Db) -> Outcome {
    assert_eq!(decide(&f.db.store, None, Choice::Cancel), Outcome::Cancelled);
    decide(&other.store, Some(GIVER), Choice::Take)
}

#[test]
fn a_lost_reply_changes_no_decision() {
    for fault in [Fault::LostRequest, Fault::LostReply, Fault::Conflict, Fault::ConflictAfterApply] {
        let f = Fixture::new();
        let (_, _dir, other) = taker(&f);
        of(&f.db).offer(ID, "shop.t").unwrap();
        f.store.hurt(0, fault);
        assert_eq!(decide(&other.store, Some(GIVER), Choice::Take), Outcome::Mine);
        assert!(
            matches!(decide(&f.db.store, None, Choice::Cancel), Outcome::Others(who) if who.contains("taker:1"))
        );
        crash(other);
        crash(f.db);
    }
}

#[test]
fn the_taker_reads_the_files_where_they_are_until_it_needs_them_no_more() {
    const NUMBER: u64 = 9000;
    let mut f = Fixture::new();
    let (bucket, dir, mut other) = taker(&f);
    of(&f.db).offer(ID, "shop.t").unwrap();
    let mount = of(&other).mount_offer(ID, GIVER, &dir.path().join("offer")).unwrap();
    let files = read_all(&mount);
    let (from, crc32c, content) = files[0].clone();
    of(&other).note_taking(ID, GIVER).unwrap();
    assert_eq!(of(&other).taking_from(ID).unwrap(), GIVER);
    mount.give(from, &other.store, NUMBER).unwrap();
    drop(mount);
    other.store.publish(WAIT).unwrap();
    assert_eq!(decide(&other.store, Some(GIVER), Choice::Take), Outcome::Mine);
    f.work(9);
    f.until_clean();
    let read = |store: &Store| {
        let mut found = vec![0; content.len()];
        store.files().open(NUMBER).unwrap().read(0, &mut found, false).unwrap();
        crate::crc::crc32c(&found)
    };
    assert_eq!(read(&other.store), crc32c);
    crash(other);
    let elsewhere = scratch();
    other = open_taker(&bucket, &elsewhere);
    assert_eq!(read(&other.store), crc32c, "after a restore");
    let taker = Inspector::new(bucket.clone());
    assert!(block(taker.verify(true, |_, _| {})).unwrap().problems.is_empty());
    let clone = block(taker.clone_to(
        &f.bucket.sibling("third").unwrap(),
        &crate::protocol::CloneRequest {
            past: None,
            place: String::new(),
            creator: String::new(),
            discards_unfinished: false,
            expires_s: None,
        },
    ));
    assert!(matches!(clone, Err(StoreError::Invalid(why)) if why.contains("materialize")));
    assert!(
        matches!(block(taker.release_parents()), Err(StoreError::Invalid(why)) if why.contains("still reads"))
    );
    let pinned = |f: &Fixture| f.keys(names::PIN_DIR).contains(&pin::clone_key(ID));
    assert!(pinned(&f));
    other.store.files().remove_file(NUMBER).unwrap();
    other.store.publish(WAIT).unwrap();
    assert_eq!(block(taker.release_parents()).unwrap(), [GIVER]);
    assert!(block(takings(&bucket)).unwrap().is_empty());
    f.until_clean();
    assert!(!pinned(&f));
    assert!(block(f.inspector().fsck(NOW, |_, _| {})).unwrap().verified.problems.is_empty());
    crash(other);
    crash(f.db);
}

/// A database that noted a hand-over and did not get the table releases nothing: another one has it.
#[test]
fn who_did_not_get_the_table_does_not_release_its_pin() {
    let mut f = Fixture::new();
    let (_, _dir, other) = taker(&f);
    let (third, third_dir) = (f.bucket.sibling("third").unwrap(), scratch());
    let late = open_taker(&third, &third_dir);
    late.store.publish(WAIT).unwrap();
    of(&f.db).offer(ID, "shop.t").unwrap();
    for db in [&other, &late] {
        assert!(of(db).note_taking(ID, GIVER).unwrap());
        assert!(!of(db).note_taking(ID, GIVER).unwrap(), "it is noted");
        assert!(matches!(of(db).note_taking(ID, "elsewhere"), Err(StoreError::Invalid(_))));
    }
    let late_taker = Inspector::new(third.clone());
    assert!(block(may_have_taken_from(&late_taker, GIVER)).unwrap());
    assert_eq!(decide(&other.store, Some(GIVER), Choice::Take), Outcome::Mine);
    assert!(block(own_takings(&late_taker)).unwrap().is_empty());
    assert!(!block(may_have_taken_from(&late_taker, GIVER)).unwrap());
    assert!(matches!(block(late_taker.release_parents()), Err(StoreError::Invalid(_))));
    f.until_clean();
    assert!(f.keys(names::PIN_DIR).contains(&pin::clone_key(ID)));
    let first_taker = Inspector::new(f.bucket.sibling("taker").unwrap());
    assert_eq!(block(own_takings(&first_taker)).unwrap(), [(ID.to_owned(), GIVER.to_owned())]);
    crash(late);
    crash(other);
    crash(f.db);
}

#[test]
fn nothing_is_taken_from_itself_or_by_a_wrong_id() {
    let f = Fixture::new();
    let (_, dir, other) = taker(&f);
    let absent = of(&other).mount_offer(ID, GIVER, &dir.path().join("offer"));
    assert!(absent.is_err_and(|error| error.is_not_found()));
    let own = of(&f.db).decide(ID, Some(GIVER), Choice::Take);
    assert!(matches!(own, Err(StoreError::Invalid(_))), "{own:?}");
    for wrong in ["", "a/b", "..", "taken-1 ", &"a".repeat(65)] {
        assert!(
            matches!(of(&f.db).decide(wrong, None, Choice::Look), Err(StoreError::Invalid(_))),
            "{wrong}"
        );
    }
    crash(other);
    crash(f.db);
}

#[test]
fn an_origin_is_in_the_same_bucket_or_on_the_same_machine() {
    assert_eq!(origin_of("s3://some/a", "s3://some/b/c/").unwrap(), "b/c");
    assert_eq!(origin_of("file:///x/a", "file:///x/b").unwrap(), "x/b");
    for (own, other) in
        [("s3://some/a", "s3://another/b"), ("s3://some/a", "file:///b"), ("s3://some/a", "b")]
    {
        assert!(origin_of(own, other).is_err(), "{own} {other}");
    }
}

#[test]
fn records_survive_the_way_to_bytes_and_no_damage_does() {
    let nonce = [7; 16];
    let decision = Decision { taker: "u".to_owned(), by: "db:1".to_owned() };
    let taking = Taking { origin: "a/b".to_owned() };
    let bytes = [decision.encode(&nonce), taking.encode(&nonce)];
    assert_eq!(Decision::decode(&bytes[0]), Ok(decision));
    assert_eq!(Taking::decode(&bytes[1]), Ok(taking));
    for bit in 0..bytes[0].len() * 8 {
        let mut damaged = bytes[0].clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(Decision::decode(&damaged).is_err(), "bit {bit}");
    }
    assert!(Taking::decode(&bytes[0]).is_err());
}
