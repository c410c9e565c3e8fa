//! Goal:   a bucket that is older than the directory is refused before anything changes; any other bucket is
//!         accepted.
//! Method: copy the bucket at chosen times, change the database further, and open the newer directory with
//!         the copy.

use crate::config::Durability;
use crate::error::StoreError;
use crate::protocol::format::names;
use crate::protocol::format::records::RootId;
use crate::protocol::format::slots::list_root_slots;
use crate::protocol::publish::local_map;
use crate::protocol::start::age::refuse_older_bucket;
use crate::protocol::start::claim::{StopAfter, close_and_claim, take_epoch};
use crate::protocol::start::home::Home;
use crate::protocol::start::local;
use crate::protocol::testing::test_copies::*;
use crate::protocol::testing::test_db::*;
use crate::requests::bucket::Bucket;
use crate::requests::stuck::{Hurt, Verb, stuck_bucket};
use object_store::PutOptions;
use std::time::{Duration, Instant};

#[test]
fn an_older_bucket_of_the_same_epoch_is_refused_with_both_ways_out() {
    let (bucket, dir, mut model) = (Bucket::in_memory(), scratch(), Model::default());
    let mut db = open_db(&bucket, dir.path());
    change(&mut db, &mut model, 1);
    let older = objects_of(&bucket);
    let root = marker_of(dir.path()).root;
    for seq in 2..6 {
        change(&mut db, &mut model, seq);
    }
    crash(db);
    let newer = marker_of(dir.path()).root;
    assert!(newer.slot >= root.slot + 4);
    let message = expect_refused(&older, dir.path());
    for part in [
        format!("came to root {}/{}", newer.epoch, newer.slot),
        format!("root {}/{}.", root.epoch, root.slot),
        "move".to_owned(),
        "bring back".to_owned(),
        dir.path().join("cache").display().to_string(),
    ] {
        assert!(message.contains(&part), "'{part}' is missing in: {message}");
    }
    let db = open_db(&bucket, dir.path());
    db.check(&model, "with the right bucket");
    assert_eq!(db.last_seq, 5);
}

/// The directory has published nothing in its last epoch, but that epoch is not in the bucket.
#[test]
fn a_bucket_without_the_directorys_last_claim_is_refused() {
    let (bucket, dir, mut model) = (Bucket::in_memory(), scratch(), Model::default());
    let mut db = open_db(&bucket, dir.path());
    change(&mut db, &mut model, 1);
    db.store.close(WAIT).unwrap();
    let older = objects_of(&bucket);
    open_store(&config(dir.path(), "owner:1", Durability::Sync), &bucket, quick()).unwrap().kill();
    assert_eq!(marker_of(dir.path()).root, RootId { epoch: 2, slot: 0 });
    assert!(expect_refused(&older, dir.path()).contains("ends at epoch 1 and root 1/"));
}

#[test]
fn a_bucket_that_lost_its_roots_is_refused() {
    let (bucket, dir, mut model) = (Bucket::in_memory(), scratch(), Model::default());
    let mut db = open_db(&bucket, dir.path());
    let older = objects_of(&bucket);
    for seq in 1..4 {
        change(&mut db, &mut model, seq);
    }
    crash(db);
    let mut older: Objects = older
        .into_iter()
        .filter(|(key, _)| names::parse_slot(names::ROOT_DIR, key).is_none_or(|(_, slot)| slot == 0))
        .collect();
    assert!(expect_refused(&older, dir.path()).contains("and no root"));
    older.retain(|key, _| !key.starts_with(names::EPOCH_DIR));
    assert!(expect_refused(&older, dir.path()).contains("epoch 0"));
}

/// A crash after the marker names a root and before the root is created leaves the bucket one root behind. In
/// that case the bucket has all files of that root.
#[test]
fn a_bucket_one_root_behind_is_accepted_only_with_the_files_of_that_root() {
    let (bucket, dir, mut model) = (Bucket::in_memory(), scratch(), Model::default());
    let mut db = open_db(&bucket, dir.path());
    change(&mut db, &mut model, 1);
    change(&mut db, &mut model, 2);
    crash(db);
    let root = marker_of(dir.path()).root;
    let mut objects = objects_of(&bucket);
    // As if the process had died just before it created the root.
    objects.remove(&names::root(root.epoch, root.slot)).expect("the newest root");
    let files =
        local_map::read_files(&dir.path().join("db"), &marker_of(dir.path()).db_uuid).unwrap().unwrap();
    let mut without_file = objects.clone();
    without_file.remove(files.values().next().unwrap().key.as_ref()).expect("a table file");
    expect_refused(&without_file, dir.path());
    let db = open_db(&bucket_of(&objects), dir.path());
    db.check(&model, "after a crash in front of a root");
    assert_eq!(db.last_seq, 2);
}

/// A user who moves the directory away gets the bucket's state.
#[test]
fn without_the_directory_an_older_bucket_is_restored() {
    let (bucket, dir, mut model) = (Bucket::in_memory(), scratch(), Model::default());
    let mut db = open_db(&bucket, dir.path());
    change(&mut db, &mut model, 1);
    let older = objects_of(&bucket);
    for seq in 2..5 {
        change(&mut db, &mut model, seq);
    }
    lose(db, dir.path());
    let db = open_db(&bucket_of(&older), dir.path());
    db.check(&model, "the earlier state");
    assert_eq!(db.last_seq, 1);
}

#[test]
fn a_bucket_counts_as_older_only_when_a_second_look_says_so() {
    let (bucket, store) = stuck_bucket(1000, Duration::from_secs(2));
    let (dir, mut model) = (scratch(), Model::default());
    let mut db = open_db(&bucket, dir.path());
    (1..=3).for_each(|seq| change(&mut db, &mut model, seq));
    crash(db);
    let marker = local::read_marker(&dir.path().join("db")).unwrap().unwrap();
    let epoch = block(take_epoch(&bucket, "next:1", &Home::default())).unwrap().number;
    store.forget();
    store.hurt(Verb::Get, "root/", 0, 1, Hurt::Hangs);
    let looking = {
        let (bucket, config) = (bucket.clone(), config(dir.path(), "owner:1", Durability::Sync));
        std::thread::spawn(move || block(refuse_older_bucket(&bucket, &config, &marker)))
    };
    let began = Instant::now();
    while store.seen(Verb::Get, "root/") == 0 {
        assert!(began.elapsed() < WAIT, "it does not look at the roots");
        std::thread::sleep(Duration::from_millis(1));
    }
    // The hanging check has seen no record of the new epoch. Of the former epoch, it will find only the
    // fence.
    block(close_and_claim(&bucket, epoch, "next:1", StopAfter::Nothing)).unwrap();
    let mut slots = block(list_root_slots(&bucket, 1)).unwrap();
    slots.pop();
    for slot in slots {
        block(bucket.delete(&names::root(1, slot))).unwrap();
    }
    looking.join().unwrap().unwrap();
}

/// OPEN-5. Somebody deletes the newest root, and the local directory is lost. The start is refused, and with
/// the root back under its name the database is whole again.
#[test]
fn a_start_that_cannot_restore_changes_nothing_in_the_bucket() {
    for flushes_all in [false, true] {
        let (bucket, dir, mut model) = (Bucket::in_memory(), scratch(), Model::default());
        let mut db = open_db(&bucket, dir.path());
        let publish = |db: &mut Db, model: &mut Model, families: u64| {
            db.commit(model, 0b11, 1, db.last_seq);
            (0..families).for_each(|family| assert!(db.flush(family, true)));
            db.delete_obsolete_wals();
            db.store.publish(WAIT).unwrap();
        };
        // Without a flush of the second family, the older root needs log that the newest one does not need.
        publish(&mut db, &mut model, if flushes_all { 2 } else { 1 });
        let older = marker_of(dir.path()).root;
        let of_older = [keys(&bucket, names::WAL_DIR), keys(&bucket, names::FILE_DIR)].concat();
        publish(&mut db, &mut model, 2);
        publish(&mut db, &mut model, 2);
        let start = Instant::now();
        while of_older.iter().any(|key| keys(&bucket, "").contains(key)) {
            assert!(start.elapsed() < WAIT, "what only the older root needs stays");
            std::thread::sleep(Duration::from_millis(5));
        }
        lose(db, dir.path());
        let newer: Vec<String> = keys(&bucket, names::ROOT_DIR)
            .into_iter()
            .filter(|key| names::parse_slot(names::ROOT_DIR, key).is_some_and(|(_, slot)| slot > older.slot))
            .collect();
        let bytes: Vec<_> = newer.iter().map(|key| block(bucket.get(key)).unwrap()).collect();
        newer.iter().for_each(|key| block(bucket.delete(key)).unwrap());
        let before = keys(&bucket, "");
        let error =
            open_store(&config(dir.path(), "owner:2", Durability::Sync), &bucket, quick()).err().unwrap();
        assert!(
            matches!(&error, StoreError::Corruption(text) if text.contains("Nothing was changed")),
            "{error}"
        );
        assert_eq!(keys(&bucket, ""), before);
        for (key, bytes) in newer.iter().zip(bytes) {
            block(bucket.put_unconditional(key, bytes, PutOptions::default())).unwrap();
        }
        let db = open_db(&bucket, dir.path());
        db.check(&model, "with the root back");
        assert_eq!(db.last_seq, model.commits.len() as u64);
        crash(db);
    }
}

fn keys(bucket: &Bucket, dir: &str) -> Vec<String> {
    block(bucket.list(dir, None)).unwrap().into_iter().map(|object| object.key).collect()
}
