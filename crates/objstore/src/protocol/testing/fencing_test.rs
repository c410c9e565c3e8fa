//! Goal:   two servers never both write; tests of claims, of fences, and of what a fenced owner can still do
//!         (IMAGE-3).
//! Method: several stores over one bucket in memory; a claimer that dies after each step; claimers in
//!         parallel.

use crate::config::Durability;
use crate::error::{Result, StoreError};
use crate::log::silent;
use crate::protocol::format::names;
use crate::protocol::format::records::{RootId, RootSlot, WalChunk, WalSlot};
use crate::protocol::format::slots::{decode_wal_slot, list_root_slots, read_root_slot};
use crate::protocol::start::claim::{StopAfter, claim, newest_epoch};
use crate::protocol::start::open::{Options, open};
use crate::protocol::store::Store;
use crate::protocol::testing::test_db::*;
use crate::requests::bucket::{Bucket, SlotOutcome};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A database with `count` commits that are all shipped, still open.
fn database(bucket: &Bucket, dir: &std::path::Path, model: &mut Model, count: u64) -> Db {
    let store = open_store(&config(dir, "first:3306", Durability::Sync), bucket, quick()).unwrap();
    let mut db = Db::open(store, dir, true);
    for key in 0..count {
        db.commit(model, 0b11, key, key * 7);
    }
    db.store.wait_shipped(db.store.wal_position(), WAIT).unwrap();
    db
}

fn stopped_open(bucket: &Bucket, dir: &std::path::Path, stop_after: StopAfter) -> Result<Arc<Store>> {
    let options = Options { tuning: quick(), stop_after, ..Options::default() };
    open(&config(dir, "dies:3306", Durability::Sync), bucket.clone(), silent(), options)
}

#[test]
fn a_claimer_may_die_after_any_step() {
    for stop in [StopAfter::Epoch, StopAfter::RootFence, StopAfter::WalFence] {
        let (bucket, mut model) = (Bucket::in_memory(), Model::default());
        let (first, second, third) = (scratch(), scratch(), scratch());
        let mut db = database(&bucket, first.path(), &mut model, 5);
        let outcome = stopped_open(&bucket, second.path(), stop);
        assert!(matches!(outcome, Err(StoreError::Interrupted(_))), "{stop:?}");
        if stop == StopAfter::Epoch {
            // No epoch is closed yet, so the owner can go on.
            db.commit(&mut model, 0b11, 99, 1);
            db.store.wait_shipped(db.store.wal_position(), WAIT).unwrap();
        }
        let store = open_store(&config(third.path(), "third:1", Durability::Sync), &bucket, quick()).unwrap();
        let mut db3 = Db::open(store, third.path(), false);
        db3.check(&model, &format!("{stop:?}"));
        assert_eq!(db3.last_seq, model.commits.len() as u64, "{stop:?}: a shipped commit is missing");
        let mut model3 = model.clone();
        db3.commit(&mut model3, 0b11, 1, 1);
        db3.store.wait_shipped(db3.store.wal_position(), WAIT).unwrap();
        lose(db3, third.path());
        let last = scratch();
        let store = open_store(&config(last.path(), "fourth:1", Durability::Sync), &bucket, quick()).unwrap();
        let db4 = Db::open(store, last.path(), true);
        db4.check(&model3, &format!("{stop:?}, after the third"));
        assert_eq!(db4.last_seq, model3.commits.len() as u64);
    }
}

#[test]
fn a_fenced_owner_neither_acknowledges_nor_publishes_and_names_the_winner() {
    let (bucket, mut model) = (Bucket::in_memory(), Model::default());
    let (first, second) = (scratch(), scratch());
    let mut zombie = database(&bucket, first.path(), &mut model, 3);
    let store =
        open_store(&config(second.path(), "winner:3306", Durability::Sync), &bucket, quick()).unwrap();
    let roots = roots_of(&bucket, 1);
    let mut lost = model.clone();
    zombie.commit(&mut lost, 0b11, 50, 50);
    let acknowledged = zombie.store.wait_shipped(zombie.store.wal_position(), WAIT);
    let Err(StoreError::Fenced(message)) = acknowledged else { panic!("{acknowledged:?}") };
    assert!(message.contains("winner:3306") && message.contains("epoch 2"), "{message}");
    assert!(is_fenced(&zombie.store.may_write()));
    assert!(is_fenced(&zombie.store.publish(WAIT)));
    assert!(is_fenced(&zombie.store.after_commit(zombie.store.wal_position(), WAIT)));
    let path = first.path().join("db/000999.sst");
    std::fs::write(&path, b"x").unwrap();
    assert!(is_fenced(&zombie.store.files().add_file(999, &path)));
    assert_eq!(roots_of(&bucket, 1), roots, "the fenced epoch has grown");
    assert!(is_fenced(&zombie.store.close(WAIT)));
    let db = Db::open(store, second.path(), true);
    db.check(&model, "the winner");
    assert_eq!(db.last_seq, 3);
}

fn roots_of(bucket: &Bucket, epoch: u64) -> Vec<u64> {
    block(list_root_slots(bucket, epoch)).unwrap()
}

#[test]
fn an_idle_owner_notices_the_fence() {
    let (bucket, mut model) = (Bucket::in_memory(), Model::default());
    let (first, second) = (scratch(), scratch());
    let idle = database(&bucket, first.path(), &mut model, 1);
    let _winner = open_store(&config(second.path(), "winner:1", Durability::Sync), &bucket, quick()).unwrap();
    let deadline = Instant::now() + WAIT;
    while idle.store.may_write().is_ok() {
        assert!(Instant::now() < deadline, "the idle owner has not noticed");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn of_many_claimers_at_once_exactly_one_can_write_in_the_end() {
    let (bucket, mut model) = (Bucket::in_memory(), Model::default());
    let dir = scratch();
    lose(database(&bucket, dir.path(), &mut model, 4), dir.path());
    let dirs: Vec<_> = (0..6).map(|_| scratch()).collect();
    let outcomes: Vec<Result<Arc<Store>>> = std::thread::scope(|scope| {
        let threads: Vec<_> = dirs
            .iter()
            .map(|dir| {
                let config = config(dir.path(), "racer:1", Durability::Sync);
                let bucket = &bucket;
                scope.spawn(move || open_store(&config, bucket, quick()))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let newest = block(newest_epoch(&bucket)).unwrap();
    let mut writers = 0;
    for (outcome, dir) in outcomes.into_iter().zip(&dirs) {
        match outcome {
            Ok(store) => {
                let mut db = Db::open(store, dir.path(), false);
                db.check(&model, "a racer");
                assert_eq!(db.last_seq, 4, "a shipped commit is missing");
                db.commit(&mut model.clone(), 0b11, 1, 1);
                match db.store.wait_shipped(db.store.wal_position(), WAIT) {
                    Ok(()) => writers += 1,
                    Err(error) => assert!(matches!(error, StoreError::Fenced(_)), "{error}"),
                }
            }
            Err(error) => assert!(matches!(error, StoreError::Fenced(_)), "{error}"),
        }
    }
    assert_eq!(writers, 1, "newest epoch {newest}");
}

/// The WAL has a hole: a chunk is missing. The chunks after it were never acknowledged, so the WAL ends at
/// the hole.
#[test]
fn the_fence_stands_in_the_first_hole_of_the_wal() {
    let (bucket, mut model) = (Bucket::in_memory(), Model::default());
    let dir = scratch();
    let db = database(&bucket, dir.path(), &mut model, 3);
    let base = db.store.shared().published_slot();
    lose(db, dir.path());
    let RootSlot::Root(root) = block(read_root_slot(&bucket, RootId { epoch: 1, slot: base })).unwrap()
    else {
        panic!("no root")
    };
    let mut next = root.wal_first_chunk;
    while block(bucket.get(&names::wal_chunk(1, next))).is_ok() {
        next += 1;
    }
    // The PUT of this chunk was in flight when the machine died; the PUT of the chunk before it never
    // arrived.
    let stray = WalChunk {
        epoch: 1,
        chunk: next + 1,
        log: 1 << 40,
        offset: 0,
        ddl_seq: 1,
        previous_crc32c: 0,
        bytes: vec![1; 500],
    };
    let key = names::wal_chunk(1, next + 1);
    let put = block(bucket.create_slot(&key, stray.encode(&[9; 16]).into(), &[9; 16])).unwrap();
    assert_eq!(put, SlotOutcome::Mine);
    let claimed = block(claim(&bucket, "heir:1", StopAfter::Nothing)).unwrap();
    assert_eq!(claimed.wal_end, next);
    let fence = names::wal_chunk(1, next);
    let bytes = block(bucket.get(&fence)).unwrap();
    assert!(matches!(decode_wal_slot(&fence, &bytes, 1, next), Ok(WalSlot::Fence(_))));
    let store = open_store(&config(dir.path(), "heir:1", Durability::Sync), &bucket, quick()).unwrap();
    let db = Db::open(store, dir.path(), true);
    db.check(&model, "behind the hole");
    assert_eq!(db.last_seq, 3);
}

#[test]
fn epochs_without_a_root_keep_the_base() {
    let (bucket, mut model) = (Bucket::in_memory(), Model::default());
    let dir = scratch();
    lose(database(&bucket, dir.path(), &mut model, 2), dir.path());
    let first = block(claim(&bucket, "a:1", StopAfter::Nothing)).unwrap();
    for server in ["b:1", "c:1"] {
        let next = block(claim(&bucket, server, StopAfter::Nothing)).unwrap();
        assert_eq!((next.base, next.wal_end), (first.base, first.wal_end), "{server}");
    }
    assert_eq!(block(newest_epoch(&bucket)).unwrap(), 4);
}
