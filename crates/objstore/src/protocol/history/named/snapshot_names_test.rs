//! Goal:   the name of a snapshot is taken from it only by a program that drops this snapshot, and a record of
//!         an earlier version is a name as before (NAME-2, NAME-3).
//! Method: the simulated database (test_db.rs) over a bucket in memory, where DELETEs land late.

use crate::protocol::format::names;
use crate::protocol::history::named::snapshot_names::{SnapshotNames, delete_old_marks};
use crate::protocol::history::pin::SnapshotName;
use crate::protocol::history::snapshot_test::Fixture;
use crate::protocol::testing::test_db::*;
use crate::requests::fault::Fault;
use std::time::{Duration, SystemTime};

#[test]
fn a_deletion_that_lands_late_takes_no_name_from_a_later_snapshot() {
    let f = Fixture::new();
    f.create("s").unwrap();
    for round in 0..3 {
        let old = f.keys(names::SNAPSHOT_DIR);
        let pins = f.keys(names::PIN_DIR);
        block(f.inspector().drop_snapshot("s")).unwrap();
        f.create("s").unwrap();
        for key in old.iter().chain(&pins) {
            block(f.bucket.delete(key)).unwrap();
        }
        assert!(f.is_whole("s"), "round {round}");
        assert!(f.create("s").is_err(), "the name is taken");
        let row = block(f.inspector().snapshots()).unwrap().remove(0);
        assert_eq!((row.kind.as_str(), row.name.as_str()), ("snapshot", "s"));
    }
    block(f.inspector().drop_snapshot("s")).unwrap();
    assert!(block(f.inspector().verify_snapshot("s", false, |_, _| {})).unwrap_err().is_not_found());
    assert!(f.keys(names::PIN_DIR).is_empty());
    crash(f.db);
}

#[test]
fn of_two_snapshots_of_one_name_one_is_made() {
    let f = Fixture::new();
    for position in 0..12 {
        let (one, two) = (f.inspector(), f.inspector());
        // While the first program waits to repeat this request, the second one works.
        f.store.hurt(position, Fault::LostRequest);
        let made = block(async {
            let (one, two) = tokio::join!(one.create_snapshot("s", "one"), two.create_snapshot("s", "two"));
            [one, two].into_iter().filter(Result::is_ok).count()
        });
        f.store.heal();
        assert_eq!((made, f.keys(names::PIN_DIR).len()), (1, 1), "position {position}");
        assert!(f.is_whole("s"));
        block(f.inspector().drop_snapshot("s")).unwrap();
    }
    crash(f.db);
}

#[test]
fn the_owner_deletes_marks_that_are_a_day_old() {
    let f = Fixture::new();
    for name in ["a", "b"] {
        f.create(name).unwrap();
        block(f.inspector().drop_snapshot(name)).unwrap();
    }
    f.create("b").unwrap();
    let mut objects = block(f.bucket.list(names::SNAPSHOT_DIR, None)).unwrap();
    block(delete_old_marks(&f.bucket, &objects)).unwrap();
    assert_eq!(f.keys(names::SNAPSHOT_DIR).len(), objects.len(), "they are young");
    let yesterday = SystemTime::now() - Duration::from_secs(25 * 3600);
    objects.iter_mut().for_each(|object| object.last_modified = yesterday);
    block(delete_old_marks(&f.bucket, &objects)).unwrap();
    assert_eq!(f.keys(names::SNAPSHOT_DIR), [SnapshotName::key("b", 1)]);
    assert!(f.is_whole("b"));
    f.create("a").unwrap();
    crash(f.db);
}

#[test]
fn a_record_of_an_earlier_version_is_a_name() {
    let f = Fixture::new();
    f.create("s").unwrap();
    // The first record of a name has the key that earlier versions gave it.
    assert_eq!(f.keys(names::SNAPSHOT_DIR), [SnapshotName::key("s", 0)]);
    let pin = f.keys(names::PIN_DIR).remove(0);
    let objects = block(f.bucket.list(names::SNAPSHOT_DIR, None)).unwrap();
    let found = block(SnapshotNames::among(&objects).find(&f.bucket, "s")).unwrap().unwrap();
    assert_eq!((found.key, found.pin), (SnapshotName::key("s", 0), pin));
    crash(f.db);
}
