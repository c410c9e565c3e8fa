//! Goal:   no program drops a protected snapshot before its date, and no protected snapshot is lost when it
//!         is dropped and protected at the same time (PROTECT-1, PROTECT-2).
//! Method: the simulated database (test_db.rs) over a bucket in memory, where one request after the other is
//!         made to fail.

use crate::error::StoreError;
use crate::protocol::format::names;
use crate::protocol::history::named::protect::protected;
use crate::protocol::history::pin::SnapshotName;
use crate::protocol::history::snapshot_test::Fixture;
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::start::claim::wall_clock_ms;
use crate::protocol::testing::test_copies::{change, open_db};
use crate::protocol::testing::test_db::*;
use crate::requests::fault::Fault;
use crate::requests::stuck::{Hurt, Verb, stuck_bucket};
use std::time::Duration;

fn in_seconds(seconds: u64) -> u64 {
    wall_clock_ms() / 1000 + seconds
}

#[test]
fn a_protected_snapshot_is_dropped_by_nobody_until_its_date() {
    let mut f = Fixture::new();
    f.create("s").unwrap();
    let (inspector, late) = (f.inspector(), in_seconds(3600));
    assert_eq!(block(inspector.protect_snapshot("s", late)).unwrap(), late);
    assert_eq!(block(inspector.protect_snapshot("s", late - 100)).unwrap(), late, "it is never shortened");
    let shown = block(inspector.snapshots()).unwrap().remove(0);
    assert_eq!(shown.protected_until_s, Some(late));
    let is_refused =
        |error: StoreError| matches!(&error, StoreError::Invalid(m) if m.contains("is protected until"));
    assert!(is_refused(block(inspector.drop_snapshot("s")).unwrap_err()));
    assert!(is_refused(block(inspector.drop_pin(&shown.pin)).unwrap_err()));
    assert!(is_refused(f.db.store.drop_snapshot("s").unwrap_err()));
    f.work(3);
    f.until_clean();
    assert!(f.is_whole("s"));
    assert!(matches!(block(inspector.protect_snapshot("s", 7)), Err(StoreError::Invalid(_))));
    assert!(block(inspector.protect_snapshot("nobody", late)).unwrap_err().is_not_found());
    crash(f.db);
}

#[test]
fn when_the_date_is_over_the_snapshot_is_dropped_with_its_protection() {
    let f = Fixture::new();
    f.create("s").unwrap();
    // Earlier versions wrote protections under the digits of the name.
    let key = names::protection(&SnapshotName::key("s", 0), in_seconds(0) - 1);
    block(f.bucket.create_slot(&key, vec![7; 16].into(), &[7; 16])).unwrap();
    block(f.inspector().drop_snapshot("s")).unwrap();
    let left = f.keys(names::SNAPSHOT_DIR);
    assert!(
        left.iter().all(|key| key.ends_with("-dropped")) && f.keys(names::PIN_DIR).is_empty(),
        "{left:?}"
    );
    crash(f.db);
}

/// Each request of a protection, or of a drop that must be refused, is made to fail in turn. After that the
/// snapshot is complete, and a drop is refused because of its protection.
#[test]
fn a_drop_or_a_protection_that_is_hurt_loses_no_protected_snapshot() {
    for fault in [Fault::LostRequest, Fault::LostReply, Fault::ConflictAfterApply] {
        for is_drop in [false, true] {
            for position in 0..12 {
                let f = Fixture::new();
                f.create("s").unwrap();
                let (inspector, until) = (f.inspector(), in_seconds(3600));
                if is_drop {
                    block(inspector.protect_snapshot("s", until)).unwrap();
                }
                f.store.hurt(position, fault);
                let is_protected = match is_drop {
                    true => block(inspector.drop_snapshot("s")).is_err(),
                    false => block(inspector.protect_snapshot("s", until)).is_ok(),
                };
                f.store.heal();
                let context = format!("{fault:?} {is_drop} {position}");
                assert!(is_protected, "{context}");
                assert!(f.is_whole("s"), "{context}");
                assert!(block(inspector.drop_snapshot("s")).is_err(), "{context}");
                crash(f.db);
            }
        }
    }
}

/// PROTECT-1 for `drop --pin`: a request of the program that drops is lost, and while it waits to repeat the
/// request, another program protects the snapshot.
#[test]
fn a_pin_that_is_protected_while_it_is_dropped_stays() {
    let mut protections = 0;
    for position in 0..14 {
        let f = Fixture::new();
        f.create("s").unwrap();
        let pin = block(f.inspector().snapshots()).unwrap().remove(0).pin;
        let (dropper, protector) = (f.inspector(), f.inspector());
        f.store.hurt(position, Fault::LostRequest);
        let (dropped, protected) = block(async {
            tokio::join!(dropper.drop_pin(&pin), protector.protect_snapshot("s", in_seconds(3600)))
        });
        f.store.heal();
        if protected.is_ok() {
            protections += 1;
            assert!(dropped.is_err() && f.is_whole("s"), "{position}: {dropped:?}");
        }
        crash(f.db);
    }
    assert!(protections > 2, "{protections}");
}

/// While a drop that finds a new protection is on its way back, another snapshot takes the name.
#[test]
fn a_protected_snapshot_that_loses_its_name_keeps_its_pin_and_the_error_names_it() {
    let (bucket, store) = stuck_bucket(1000, Duration::from_secs(1));
    let (dir, inspector) = (scratch(), Inspector::new(bucket.clone()));
    let mut db = open_db(&bucket, dir.path());
    change(&mut db, &mut Model::default(), 1);
    block(inspector.create_snapshot("s", "tester")).unwrap();
    let pin = block(inspector.named("s", "reading")).unwrap().pin;
    // The two LISTs before it are those of the name and of the first look for protections.
    store.hurt(Verb::List, "snapshot", 2, 1, Hurt::Hangs);
    let other = async {
        while store.seen(Verb::Put, "-dropped") == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        inspector.create_snapshot("s", "another").await.unwrap();
        let key = names::protection(&protected(&pin), in_seconds(3600));
        bucket.create_slot(&key, vec![7; 16].into(), &[7; 16]).await.unwrap();
    };
    let (dropped, ()) = block(async { tokio::join!(inspector.drop_snapshot("s"), other) });
    let Err(StoreError::Invalid(why)) = dropped else { panic!("{dropped:?}") };
    assert!(why.contains("is protected until") && why.contains(&pin), "{why}");
    assert!(block(bucket.head(&pin)).is_ok() && block(inspector.drop_pin(&pin)).is_err());
    assert_ne!(block(inspector.named("s", "reading")).unwrap().pin, pin);
    crash(db);
}
