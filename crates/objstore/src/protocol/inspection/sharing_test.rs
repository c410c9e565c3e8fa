//! Goal:   a clone says which files it still reads in its parent: at first all, then fewer, at last none.
//! Method: databases of test_db.rs in memory.

use crate::config::Durability;
use crate::error::StoreError;
use crate::protocol::history::clone::CloneRequest;
use crate::protocol::history::snapshot_test::Fixture;
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::inspection::sharing::Sharing;
use crate::protocol::testing::test_db::*;

#[test]
fn a_clone_shares_all_files_until_it_has_written_its_own() {
    let f = Fixture::new();
    let (child, dir) = (f.bucket.sibling("clone").unwrap(), scratch());
    let (place, creator) = ("s3://clone".to_owned(), "tester".to_owned());
    let request = CloneRequest { past: None, place, creator, discards_unfinished: false, expires_s: None };
    let made = block(f.inspector().clone_to(&child, &request)).unwrap();
    let inspector = Inspector::new(child.clone());
    let sharing = || block(Sharing::read(&inspector, &made.db_uuid)).unwrap();
    let whole = Sharing { shared_files: 2, shared_bytes: made.shared_bytes, ..Sharing::default() };
    assert_eq!(sharing(), whole);
    assert_eq!(block(inspector.status()).unwrap().sharing, Some(whole));
    let store = open_store(&config(dir.path(), "child:1", Durability::Sync), &child, quick()).unwrap();
    let (mut db, mut model) = (Db::open(store, dir.path(), false), f.model.clone());
    for (family, shared) in [(0, 1), (1, 0)] {
        db.commit(&mut model, 1 << family, 5, 5);
        db.flush(family, true);
        db.store.publish(WAIT).unwrap();
        let Sharing { shared_files, own_files, own_bytes, .. } = sharing();
        assert_eq!((shared_files, own_files, own_bytes > 0), (shared, 2 - shared, true));
    }
    let parent = block(f.inspector().status()).unwrap();
    assert_eq!(parent.sharing.map(|it| (it.shared_files, it.own_files)), Some((0, 2)));
    let other = block(Sharing::read(&inspector, &parent.db_uuid));
    assert!(matches!(other, Err(StoreError::NotFound { .. })), "{other:?}");
    crash(db);
    crash(f.db);
}
