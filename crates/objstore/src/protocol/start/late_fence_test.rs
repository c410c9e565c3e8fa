//! Goal:   a fence closes an epoch whose owner publishes and deletes roots while the fence is on its way
//!         (CLAIM-4).
//! Method: the claimer uses an old listing. So its fence lands in the slot of a root that the owner has
//!         deleted. That slot has a lower number than the newest root.

use super::*;
use crate::config::Durability;
use crate::protocol::shared::Tuning;
use crate::protocol::testing::test_db::*;
use crate::requests::stuck::{Hurt, Verb, stuck_bucket};
use std::time::{Duration, Instant};

#[test]
fn a_fence_that_lands_where_a_root_was_deleted_does_not_count() {
    let (bucket, mut model, dir) = (Bucket::in_memory(), Model::default(), scratch());
    let tuning = Tuning { roots_kept: 2, ..quick() };
    let store = open_store(&config(dir.path(), "owner:1", Durability::Sync), &bucket, tuning).unwrap();
    let mut db = Db::open(store, dir.path(), true);
    let slots = || block(list_root_slots(&bucket, 1)).unwrap();
    let began = Instant::now();
    while slots().contains(&1) || slots().len() < 3 {
        assert!(began.elapsed() < WAIT, "root 1 is not deleted: {:?}", slots());
        db.commit(&mut model, 0b11, 1, 1);
        db.flush(0, false);
        db.store.publish(WAIT).unwrap();
    }
    let newest = *slots().last().unwrap();
    let fence = Fence { by_epoch: 2, by_server: "late:1".to_owned() };
    // The claimer has listed root 1 as the last one, but root 1 is deleted before the claimer reads it.
    let (slot, _) = block(read_last_slot(&bucket, 1, Some(1))).unwrap().unwrap();
    assert_eq!(slot, newest);
    let last = block(fence_roots(&bucket, 1, Some(0), &fence)).unwrap();
    let Some(RootSlot::Root(root)) = last else { panic!("{last:?}") };
    assert!(root.id.slot >= newest, "{} was taken for the last root, although {newest} is", root.id.slot);
    assert!(slots().contains(&1), "the late fence did not land in front of the newest root");
    db.commit(&mut model, 0b11, 2, 2);
    db.flush(0, false);
    assert!(is_fenced(&db.store.publish(WAIT)), "the owner goes on");
}

/// Makes a database of epoch 1 that was closed and has deleted its first root, so the first free slot is not the
/// one behind the newest root.
fn closed_database(bucket: &Bucket) -> Model {
    let (dir, mut model) = (scratch(), Model::default());
    let tuning = Tuning { roots_kept: 2, ..quick() };
    let opened = open_store(&config(dir.path(), "a:1", Durability::Sync), bucket, tuning).unwrap();
    let mut db = Db::open(opened, dir.path(), true);
    let began = Instant::now();
    while block(list_root_slots(bucket, 1)).unwrap().contains(&1) || db.last_seq < 5 {
        assert!(began.elapsed() < WAIT, "root 1 is not deleted");
        db.commit(&mut model, 0b11, 1, db.last_seq);
        db.flush(0, true);
        db.store.publish(WAIT).unwrap();
    }
    db.store.close(WAIT).unwrap();
    model
}

/// Rule LIST-1: before the rule, a start that twice got an empty listing of the roots began an empty database,
/// and its collector then deleted the files of the real one.
#[test]
fn a_start_believes_no_listing_that_hides_the_roots() {
    for (skip, count) in [(0, 1), (1, 1), (0, 2), (1, 2), (2, 5), (0, 100), (1, 100)] {
        let (bucket, store) = stuck_bucket(1000, Duration::from_secs(2));
        let (model, dir) = (closed_database(&bucket), scratch());
        let config = config(dir.path(), "b:1", Durability::Sync);
        store.hurt(Verb::List, "root/", skip, count, Hurt::Lies);
        let opened = open_store(&config, &bucket, quick());
        store.heal();
        let opened = match opened {
            Err(StoreError::ReadOnly(why)) if count == 100 && why.contains("root/") => {
                open_store(&config, &bucket, quick()).unwrap()
            }
            outcome => outcome.unwrap_or_else(|error| panic!("{count} wrong listings from {skip}: {error}")),
        };
        let db = Db::open(opened, dir.path(), true);
        db.check(&model, "after wrong listings");
        assert_eq!(db.last_seq, model.commits.len() as u64, "{count} wrong listings from {skip}");
    }
}

#[test]
fn a_newest_root_that_is_missing_is_named_and_no_older_one_is_taken() {
    let (bucket, dir) = (Bucket::in_memory(), scratch());
    let db = Db::open(
        open_store(&config(dir.path(), "a:1", Durability::Sync), &bucket, quick()).unwrap(),
        dir.path(),
        true,
    );
    db.store.publish(WAIT).unwrap();
    db.store.kill();
    let listed = block(list_root_slots(&bucket, 1)).unwrap().last().copied();
    let key = names::root(1, listed.unwrap());
    block(bucket.delete(&key)).unwrap();
    let error = block(read_last_slot(&bucket, 1, listed)).unwrap_err();
    assert!(error.is_not_found() && error.to_string().contains(&key), "{error}");
    // No newer epoch was claimed, so the error stays as it is.
    assert!(block(unless_overtaken(&bucket, 1, error)).is_not_found());
}

#[test]
fn a_start_that_is_overtaken_while_it_restores_looks_again() {
    let (bucket, store) = stuck_bucket(1000, Duration::from_secs(2));
    let (first, slow) = (scratch(), scratch());
    let mut db = Db::open(
        open_store(&config(first.path(), "a:1", Durability::Sync), &bucket, quick()).unwrap(),
        first.path(),
        true,
    );
    let mut model = Model::default();
    db.commit(&mut model, 0b11, 1, 1);
    db.store.publish(WAIT).unwrap();
    db.store.close(WAIT).unwrap();
    store.forget();
    store.hurt(Verb::Get, "man/", 0, 1, Hurt::Hangs);
    let restorer = {
        let (config, bucket) = (config(slow.path(), "slow:1", Durability::Sync), bucket.clone());
        std::thread::spawn(move || open_store(&config, &bucket, quick()).map(drop))
    };
    let began = Instant::now();
    while store.seen(Verb::Get, "man/") == 0 {
        assert!(began.elapsed() < WAIT, "nothing is restored");
        std::thread::sleep(Duration::from_millis(1));
    }
    // This simulates a next owner that has published, and has deleted the MANIFEST that the slow server is
    // about to read.
    let claimed = block(claim(&bucket, "next:1", StopAfter::Nothing)).unwrap();
    let pieces = block(bucket.list("man/", None)).unwrap();
    let contents = pieces.iter().map(|piece| (piece.key.clone(), block(bucket.get(&piece.key)).unwrap()));
    let contents: Vec<_> = contents.collect();
    for (key, _) in &contents {
        block(bucket.delete(key)).unwrap();
    }
    let outcome = restorer.join().unwrap();
    let Err(StoreError::Unavailable(message)) = outcome else { panic!("{outcome:?}") };
    assert!(message.contains(&format!("epoch {}", claimed.epoch)) && message.contains("man/"), "{message}");
    for (key, bytes) in contents {
        let part_of_them: [u8; 16] = bytes[..16].try_into().unwrap(); // a nonce, which must be in the bytes
        block(bucket.create_slot(&key, bytes, &part_of_them)).unwrap();
    }
    let again = open_store(&config(slow.path(), "slow:1", Durability::Sync), &bucket, quick()).unwrap();
    Db::open(again, slow.path(), true).check(&model, "the second attempt");
}
