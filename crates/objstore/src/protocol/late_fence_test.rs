//! Goal:   a fence closes an epoch whose owner publishes and deletes roots while the fence is on its way (E4).
//! Method: the claimer's listing is older than the roots of the owner; so its fence lands in a slot that the owner has
//!         emptied, in front of the newest root.

use super::super::shared::Tuning;
use super::super::test_db::*;
use super::*;
use crate::config::Durability;
use std::time::Instant;

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
    let last = block(fence_roots(&bucket, 1, Some(0), &fence)).unwrap();
    let Some(RootSlot::Root(root)) = last else { panic!("{last:?}") };
    assert!(root.id.slot >= newest, "{} was taken for the last root, although {newest} is", root.id.slot);
    assert!(slots().contains(&1), "the late fence did not land in front of the newest root");
    db.commit(&mut model, 0b11, 2, 2);
    db.flush(0, false);
    assert!(is_fenced(&db.store.publish(WAIT)), "the owner goes on");
}
