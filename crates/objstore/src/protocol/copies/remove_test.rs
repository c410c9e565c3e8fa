//! Goal:   a removal takes everything of the database and nothing else, whenever it dies; it takes nothing while
//!         somebody needs the database (REMOVE-1 and REMOVE-2).
//! Method: databases of test_db.rs in memory; one request after the other is made to fail, or is the last one.

use super::*;
use crate::config::Durability;
use crate::protocol::history::clone::CloneRequest;
use crate::protocol::history::snapshot_test::Fixture;
use crate::protocol::testing::test_db::*;
use crate::requests::bucket::Bucket;
use crate::requests::fault::Fault;

fn request() -> CloneRequest {
    CloneRequest {
        past: None,
        place: "s3://clone".to_owned(),
        creator: "tester".to_owned(),
        discards_unfinished: false,
        expires_s: None,
    }
}

fn remove(bucket: &Bucket) -> Result<RemovalStatus> {
    block(Inspector::new(bucket.clone()).remove("tester", false))
}

fn keys(bucket: &Bucket) -> Vec<String> {
    block(bucket.list("", None)).unwrap().into_iter().map(|object| object.key).collect()
}

#[test]
fn a_database_that_somebody_needs_is_not_removed() {
    let f = Fixture::new();
    let Err(StoreError::ReadOnly(message)) = remove(&f.bucket) else { panic!("removed under its owner") };
    assert!(message.contains("has not said good-bye"), "{message}");
    f.db.store.close(WAIT).unwrap();
    let before = keys(&f.bucket); // The owner's collector deletes no more.
    let clone = f.bucket.sibling("clone").unwrap();
    block(f.inspector().clone_to(&clone, &request())).unwrap();
    let Err(StoreError::Invalid(message)) = remove(&f.bucket) else { panic!("removed under its clone") };
    assert!(message.contains("the clone at s3://clone reads its files"), "{message}");
    assert!(before.iter().filter(|key| key.starts_with("sst/")).all(|key| keys(&f.bucket).contains(key)));
    let removed = remove(&clone).unwrap();
    assert_eq!((keys(&clone), removed.parents.len()), (vec![], 1));
    let other = Bytes::from_static(b"a note of others");
    block(f.bucket.create_slot("notes.txt", other, b"a note of others")).unwrap();
    let removed = remove(&f.bucket).unwrap();
    assert_eq!((keys(&f.bucket), removed.left_alone), (vec!["notes.txt".to_owned()], 1));
    let Err(StoreError::NotFound { .. }) = remove(&f.bucket) else { panic!("removed twice") };
}

/// Rule REMOVE-1.
#[test]
fn a_removal_that_dies_is_repeated_and_leaves_no_empty_database() {
    for position in 0.. {
        let f = Fixture::new();
        f.db.store.close(WAIT).unwrap();
        let before = f.store.requests();
        f.store.end_at(position);
        let outcome = remove(&f.bucket);
        let sent = f.store.requests() - before;
        f.store.heal();
        if outcome.is_ok() {
            assert!(position >= sent, "a request was lost and nobody noticed");
            assert!(sent > 20, "a removal sends more than {sent} requests");
            break;
        }
        let (left, dir) = (keys(&f.bucket), scratch());
        let is_whole = left.iter().any(|key| key.starts_with("sst/"));
        if !is_whole
            && let Ok(store) = open_store(&config(dir.path(), "s", Durability::Sync), &f.bucket, quick())
        {
            store.kill();
            panic!("a server opened what was left at {position}: {left:?}");
        }
        remove(&f.bucket).unwrap();
        assert_eq!(keys(&f.bucket), Vec::<String>::new(), "{position}");
    }
}

#[test]
fn a_fault_of_a_single_request_leaves_nothing() {
    for fault in [Fault::LostReply, Fault::LostRequest] {
        for position in (0..40).step_by(3) {
            let f = Fixture::new();
            f.db.store.close(WAIT).unwrap();
            f.store.hurt(position, fault);
            remove(&f.bucket).unwrap();
            f.store.heal();
            assert_eq!(keys(&f.bucket), Vec::<String>::new(), "{fault:?} at {position}");
        }
    }
}

/// Rule REMOVE-2: a clone that looks at the database before the removal, and pins it afterwards, gives up.
#[test]
fn a_clone_that_comes_too_late_gives_up() {
    let f = Fixture::new();
    f.db.store.close(WAIT).unwrap();
    let inspector = f.inspector();
    let moment = block(inspector.moment()).unwrap();
    let epoch = block(newest_epoch(&f.bucket)).unwrap() + 1;
    block(take_epoch(&f.bucket, "removal by tester", &Home::default())).unwrap();
    block(inspector.close_for_good(epoch, "removal by tester")).unwrap();
    assert!(!block(inspector.is_above_horizon(moment.image.root.id)).unwrap());
    let clone = f.bucket.sibling("clone").unwrap();
    let outcome = block(inspector.clone_to(&clone, &request()));
    assert!(matches!(outcome, Err(StoreError::Unavailable(_))), "{outcome:?}");
    assert_eq!(keys(&clone), Vec::<String>::new());
}
