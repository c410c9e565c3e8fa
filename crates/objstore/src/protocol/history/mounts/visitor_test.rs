//! Goal:   a visitor reads complete states while the owner works, the owner deletes no object of them
//!         meanwhile, and the visitor leaves no pin.
//! Method: the simulated database (test_db.rs) over a bucket in memory.

use crate::error::StoreError;
use crate::protocol::format::names;
use crate::protocol::history::mounts::mount_test::read_all;
use crate::protocol::history::mounts::visitor::Visitor;
use crate::protocol::history::snapshot_test::Fixture;
use crate::protocol::inspection::diff::PRESENT;
use crate::protocol::testing::test_db::*;
use std::sync::Arc;

fn visitor(f: &Fixture) -> Visitor {
    Visitor::over(f.bucket.clone(), &f.guest("visitor:1"), Arc::new(|_, _| {})).unwrap()
}

#[test]
fn a_visitor_reads_the_past_and_the_present_while_the_owner_works() {
    let mut f = Fixture::new();
    f.create("s").unwrap();
    let visitor = visitor(&f);
    let then = visitor.mount("s", &f.dir.path().join("then")).unwrap();
    let now = visitor.mount(PRESENT, &f.dir.path().join("now")).unwrap();
    let before = read_all(&then);
    assert_eq!((before.len(), read_all(&now)), (2, before.clone()));
    block(f.inspector().drop_snapshot("s")).unwrap();
    f.work(9);
    f.until_clean();
    assert_eq!((read_all(&then), read_all(&now)), (before.clone(), before.clone()));
    let later = visitor.mount(PRESENT, &f.dir.path().join("later")).unwrap();
    assert_ne!(read_all(&later), before);
    drop((then, now, later, visitor));
    assert_eq!(f.keys(names::PIN_DIR), Vec::<String>::new());
    f.until_clean();
    assert_eq!(f.keys(names::FILE_DIR).len(), 2);
    crash(f.db);
}

#[test]
fn a_visit_to_what_is_no_state_leaves_no_pin() {
    let f = Fixture::new();
    let visitor = visitor(&f);
    let error = visitor.mount("monday", &f.dir.path().join("none")).err().unwrap();
    assert!(matches!(&error, StoreError::Invalid(text) if text.contains("is no moment")), "{error}");
    assert_eq!(f.keys(names::PIN_DIR), Vec::<String>::new());
    crash(f.db);
}
