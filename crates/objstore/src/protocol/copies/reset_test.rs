//! Goal:   a clone is put back to its parent's present or past, keeps its duty to be masked, and stays as it is
//!         when that cannot be done (RESET-1 and RESET-2).
//! Method: databases of test_db.rs in memory.

use super::*;
use crate::config::Durability;
use crate::protocol::history::past::Past;
use crate::protocol::history::snapshot_test::Fixture;
use crate::protocol::start::identity;
use crate::protocol::testing::test_db::*;

fn request(past: Option<Past>) -> CloneRequest {
    let (place, creator) = ("s3://clone".to_owned(), "tester".to_owned());
    CloneRequest { past, place, creator, discards_unfinished: false, expires_s: None }
}

#[test]
fn a_clone_is_put_back_to_the_present_or_the_past_of_its_parent() {
    let mut f = Fixture::new();
    let child = f.bucket.sibling("clone").unwrap();
    block(f.inspector().clone_to_mask(&child, &request(None))).unwrap();
    let first = block(identity::read(&child)).unwrap().unwrap();
    let (early, dir) = (f.model.clone(), scratch());
    f.create("early").unwrap();
    f.work(2);
    let clone = Inspector::new(child.clone());
    let there = || {
        Db::open(
            open_store(&config(dir.path(), "c:1", Durability::Sync), &child, quick()).unwrap(),
            dir.path(),
            false,
        )
    };
    block(clone.reset_clone(&request(None), false)).unwrap();
    let db = there();
    db.check(&f.model, "the present");
    let Err(StoreError::ReadOnly(_)) = block(clone.reset_clone(&request(None), false)) else {
        panic!("put back under its server")
    };
    db.store.close(WAIT).unwrap();
    drop(db);
    std::fs::remove_dir_all(dir.path().join("db")).unwrap();
    let lost = Some(Past::Snapshot("lost".to_owned()));
    assert!(block(clone.reset_clone(&request(lost), false)).is_err());
    block(clone.reset_clone(&request(Some(Past::Snapshot("early".to_owned()))), false)).unwrap();
    let second = block(identity::read(&child)).unwrap().unwrap();
    assert_eq!(second.masked_in, std::slice::from_ref(&second.db_uuid));
    assert_ne!(second.db_uuid, first.db_uuid);
    let db = there();
    db.check(&early, "the past");
    crash(db);
    let clones = block(f.inspector().pins()).unwrap().into_iter().filter(|pin| pin.kind == "clone").count();
    assert_eq!(clones, 1, "the pins of the former clones are released");
    let parent = block(f.inspector().reset_clone(&request(None), true));
    assert!(matches!(parent, Err(StoreError::Invalid(message)) if message.contains("is no clone")));
    crash(f.db);
}

#[test]
fn a_clone_that_is_put_back_expires_as_it_would_have() {
    let f = Fixture::new();
    let child = f.bucket.sibling("clone").unwrap();
    let expiries = || {
        let pins = block(f.inspector().pins()).unwrap().into_iter().filter(|pin| pin.kind == "clone");
        pins.map(|pin| pin.expires_s).collect::<Vec<_>>()
    };
    let never = request(None);
    block(f.inspector().clone_to(&child, &CloneRequest { expires_s: Some(5), ..never.clone() })).unwrap();
    assert_eq!(expiries(), [Some(5)]);
    let clone = Inspector::new(child);
    block(clone.reset_clone(&never, false)).unwrap();
    assert_eq!(expiries(), [Some(5)], "the request says nothing else");
    block(clone.reset_clone(&CloneRequest { expires_s: Some(6), ..never }, false)).unwrap();
    assert_eq!(expiries(), [Some(6)]);
    crash(f.db);
}

#[test]
fn a_clone_knows_of_which_database_it_is() {
    let f = Fixture::new();
    let [child, grandchild] = ["clone", "clone of the clone"].map(|prefix| f.bucket.sibling(prefix).unwrap());
    block(f.inspector().clone_to(&child, &request(None))).unwrap();
    let child = Inspector::new(child);
    block(child.clone_to(&grandchild, &request(None))).unwrap();
    let grandchild = Inspector::new(grandchild);
    block(check_clone_of(&child, &f.inspector())).unwrap();
    block(check_clone_of(&grandchild, &child)).unwrap();
    let refused = |one: &Inspector, other: &Inspector| match block(check_clone_of(one, other)) {
        Err(StoreError::Invalid(message)) => message,
        outcome => panic!("{outcome:?}"),
    };
    assert!(refused(&f.inspector(), &child).contains("is no clone"));
    assert!(refused(&grandchild, &f.inspector()).contains("is a clone of"));
    crash(f.db);
}
