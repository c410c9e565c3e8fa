//! Goal:   a replica can begin with a state that has a GTID, in its root or only in its log, and with one without
//!         commits; with no other one.
//! Method: databases of test_db.rs in memory; positions made by hand.

use super::*;
use crate::protocol::history::snapshot_test::Fixture;
use crate::protocol::testing::test_db::*;
use crate::protocol::wal::marks::Gtid;
use crate::protocol::wal::position::NotedCommit;

#[test]
fn a_position_needs_a_gtid_unless_there_was_no_commit() {
    let gtids = [(0, Gtid { domain: 0, server: 1, sequence: 7 })].into();
    assert!(can_begin(&Position::default()));
    assert!(!can_begin(&Position { time_us: 1, ..Position::default() }));
    assert!(can_begin(&Position { time_us: 1, gtids, ..Position::default() }));
}

#[test]
fn the_gtid_may_be_in_the_log_only() {
    let mut f = Fixture::new();
    f.db.store.note_commit(&NotedCommit { sequence: 5, time_us: 5, gtid: None, binlog: None });
    // The commits of the fixture are not in the form of RocksDB.
    f.db.flush(0, true);
    f.db.flush(1, true);
    f.db.delete_obsolete_wals();
    f.db.store.publish(WAIT).unwrap();
    let refused = block(check_replica_start(&f.inspector()));
    assert!(matches!(refused, Err(StoreError::Invalid(message)) if message.contains("log_bin")));
    f.db.commit_group(6, f.db.last_seq + 1, 1);
    f.db.sync();
    f.db.store.wait_shipped(f.db.store.wal_position(), WAIT).unwrap();
    block(check_replica_start(&f.inspector())).unwrap();
    crash(f.db);
}
