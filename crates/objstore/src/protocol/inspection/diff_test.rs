//! Goal:   two states differ by the files that only one of them has, each once; a state does not differ from
//!         itself; a text that names no state is refused.
//! Method: the simulated database (test_db.rs) over a bucket in memory. Its MANIFEST names no families, so
//!         all files count for one unknown table.

use super::*;
use crate::protocol::history::snapshot_test::Fixture;
use crate::protocol::testing::test_db::*;

fn bytes(diff: &StateDiff) -> TableBytes {
    let sum = |of: fn(&TableBytes) -> u64| diff.tables.values().map(of).sum();
    TableBytes {
        only_first: sum(|t| t.only_first),
        both: sum(|t| t.both),
        only_second: sum(|t| t.only_second),
    }
}

#[test]
fn states_differ_by_the_files_that_only_one_has() {
    let mut f = Fixture::new();
    let all: u64 = f.db.store.files().list().iter().map(|(_, bytes)| *bytes).sum();
    f.create("before").unwrap();
    let same = block(f.inspector().diff("before", PRESENT)).unwrap();
    assert_eq!(bytes(&same), TableBytes { only_first: 0, both: all, only_second: 0 });
    f.work(1); // Both families get new table files.
    let now: u64 = f.db.store.files().list().iter().map(|(_, bytes)| *bytes).sum();
    let differs = block(f.inspector().diff("before", PRESENT)).unwrap();
    assert_eq!(bytes(&differs), TableBytes { only_first: all, both: 0, only_second: now });
    assert!(differs.first.slot < differs.second.slot);
    let back = block(f.inspector().diff(PRESENT, "before")).unwrap();
    assert_eq!(bytes(&back), TableBytes { only_first: now, both: 0, only_second: all });
    crash(f.db);
}

#[test]
fn what_is_no_state_is_said() {
    let f = Fixture::new();
    let refused = block(f.inspector().diff("nothing", PRESENT)).unwrap_err();
    assert!(
        matches!(&refused, StoreError::Invalid(text) if text.contains("no snapshot 'nothing'")),
        "{refused}"
    );
    crash(f.db);
}
