//! Goal:   no program drops a protected snapshot before its date, and no protected snapshot is lost when it
//!         is dropped and protected at the same time (PROTECT-1, PROTECT-2).
//! Method: the simulated database (test_db.rs) over a bucket in memory, where one request after the other is
//!         made to fail.

use crate::error::StoreError;
use crate::protocol::format::names;
use crate::protocol::history::pin::SnapshotName;
use crate::protocol::history::snapshot_test::Fixture;
use crate::protocol::start::claim::wall_clock_ms;
use crate::protocol::testing::test_db::*;
use crate::requests::fault::Fault;

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
    let key = names::protection(&SnapshotName::key("s"), in_seconds(0) - 1);
    block(f.bucket.create_slot(&key, vec![7; 16].into(), &[7; 16])).unwrap();
    block(f.inspector().drop_snapshot("s")).unwrap();
    assert!(f.keys(names::SNAPSHOT_DIR).is_empty() && f.keys(names::PIN_DIR).is_empty());
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
