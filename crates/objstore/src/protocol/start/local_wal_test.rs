//! Goal:   whatever happens to the local WALs while the server is down, no commit that the bucket has is
//!         lost, and commits that only the local WALs have stay.
//! Method: commit, ship, crash, damage the WALs in every way, open again and compare with a model; look at
//!         the log messages.

use crate::config::Durability;
use crate::log::Level;
use crate::protocol::format::names;
use crate::protocol::shared::Tuning;
use crate::protocol::start::local::{wal_files, wal_path};
use crate::protocol::start::open::{Options, open};
use crate::protocol::testing::test_db::*;
use crate::protocol::testing::test_random::Random;
use crate::requests::bucket::Bucket;
use parking_lot::Mutex;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// What was logged while a database was opened.
type Messages = Vec<(Level, String)>;

/// Opens without flushing the recovered WALs, so that the same files can be damaged again.
fn open_with(bucket: &Bucket, dir: &Path, tuning: Tuning) -> (Db, Messages) {
    let messages = Arc::new(Mutex::new(Messages::new()));
    let kept = messages.clone();
    let log = Arc::new(move |level, message: &str| kept.lock().push((level, message.to_owned())));
    let config = config(dir, "owner:1", Durability::Sync);
    let store = open(&config, bucket.clone(), log, Options { tuning, ..Options::default() }).unwrap();
    let messages = messages.lock().clone();
    (Db::open(store, dir, false), messages)
}

fn open_db(bucket: &Bucket, dir: &Path) -> (Db, Messages) {
    open_with(bucket, dir, quick())
}

/// Opens the database, makes `commits` more commits, which all reach the bucket, and crashes it. Returns the
/// WAL of these commits.
fn crashed(bucket: &Bucket, dir: &Path, model: &mut Model, commits: u64) -> PathBuf {
    let (mut db, _) = open_db(bucket, dir);
    let mut position = 0;
    let first = model.commits.len() as u64 + 1;
    for seq in first..first + commits {
        position = db.commit(model, 0b11, seq, seq);
    }
    db.sync();
    db.store.wait_shipped(position, WAIT).unwrap();
    crash(db);
    newest_wal(dir)
}

fn newest_wal(dir: &Path) -> PathBuf {
    let local = dir.join("db");
    wal_path(&local, wal_files(&local).unwrap().last().unwrap().0)
}

fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::write(path, bytes).unwrap();
}

/// Opens, and checks that all commits of the model are there.
fn expect_all(bucket: &Bucket, dir: &Path, model: &Model) -> Messages {
    let (db, messages) = open_db(bucket, dir);
    assert!(!db.store.was_restored());
    db.check(model, "after the damage");
    assert_eq!(db.last_seq, model.commits.len() as u64, "{messages:?}");
    crash(db);
    messages
}

fn warnings(messages: &Messages) -> Vec<&str> {
    messages.iter().filter(|(level, _)| *level != Level::Info).map(|(_, message)| message.as_str()).collect()
}

#[test]
fn a_flipped_byte_in_the_wal_is_taken_from_the_bucket_and_told() {
    let (bucket, dir, mut model) = (Bucket::in_memory(), scratch(), Model::default());
    let wal = crashed(&bucket, dir.path(), &mut model, 20);
    change(&wal, |bytes| bytes[333] ^= 1);
    let messages = expect_all(&bucket, dir.path(), &model);
    let [warning] = warnings(&messages)[..] else { panic!("{messages:?}") };
    for part in [wal.to_str().unwrap(), "1 bytes", "offset 333"] {
        assert!(warning.contains(part), "'{part}' is missing in: {warning}");
    }
    assert_eq!(warnings(&expect_all(&bucket, dir.path(), &model)), [""; 0], "the second start finds nothing");
}

#[test]
fn an_old_copy_of_the_directory_of_the_same_root_gets_the_later_commits() {
    let (bucket, dir, mut model) = (Bucket::in_memory(), scratch(), Model::default());
    let (mut db, _) = open_db(&bucket, dir.path());
    db.commit(&mut model, 0b11, 1, 1);
    db.store.publish(WAIT).unwrap();
    let wal = newest_wal(dir.path());
    let copy = fs::read(&wal).unwrap();
    for seq in 2..9 {
        let position = db.commit(&mut model, 0b11, seq, seq);
        db.sync();
        db.store.wait_shipped(position, WAIT).unwrap();
    }
    crash(db);
    fs::write(&wal, copy).unwrap();
    let messages = expect_all(&bucket, dir.path(), &model);
    assert!(warnings(&messages)[0].contains("offset 32"), "{messages:?}");
}

#[test]
fn a_missing_wal_comes_back() {
    let (bucket, dir, mut model) = (Bucket::in_memory(), scratch(), Model::default());
    let wal = crashed(&bucket, dir.path(), &mut model, 7);
    fs::remove_file(&wal).unwrap();
    let messages = expect_all(&bucket, dir.path(), &model);
    assert!(warnings(&messages)[0].contains("is missing (224 bytes)"), "{messages:?}");
}

/// Simulates a crash while RocksDB deletes several WALs: no warning, because nothing is wrong with the disk.
#[test]
fn a_wal_that_was_deleted_before_an_older_one_comes_back_without_a_warning() {
    let (bucket, dir, mut model) = (Bucket::in_memory(), scratch(), Model::default());
    let wals: Vec<PathBuf> = (0..3).map(|_| crashed(&bucket, dir.path(), &mut model, 1)).collect();
    assert!(wals[0] < wals[1] && wals[1] < wals[2], "{wals:?}");
    fs::remove_file(&wals[1]).unwrap();
    let messages = expect_all(&bucket, dir.path(), &model);
    assert_eq!(warnings(&messages), [""; 0]);
    let came_back =
        |message: &str| message.contains(wals[1].to_str().unwrap()) && message.contains("(32 bytes)");
    assert!(messages.iter().any(|(_, message)| came_back(message)), "{messages:?}");
}

/// The WAL has bytes that were never shipped, after a damaged part that was shipped.
#[test]
fn what_only_the_local_wal_has_stays() {
    let (bucket, dir, mut model) = (Bucket::in_memory(), scratch(), Model::default());
    let hour = Duration::from_secs(3600);
    let (mut db, _) =
        open_with(&bucket, dir.path(), Tuning { ship_interval: hour, settle_after_open: hour, ..quick() });
    for seq in 1..6 {
        db.commit(&mut model, 0b11, seq, seq);
    }
    db.sync();
    db.store.wait_shipped(db.store.wal_position(), WAIT).unwrap();
    for seq in 6..9 {
        db.commit(&mut model, 0b11, seq, seq);
    }
    db.sync();
    crash(db);
    change(&newest_wal(dir.path()), |bytes| bytes[40..60].fill(0));
    let messages = expect_all(&bucket, dir.path(), &model);
    assert!(warnings(&messages)[0].contains("offset 40"), "{messages:?}");
}

/// The server writes zeros after the last record of its WAL, in advance, and can cut them off later: that is
/// no difference.
#[test]
fn zeros_behind_the_end_are_no_difference() {
    let (bucket, dir, mut model) = (Bucket::in_memory(), scratch(), Model::default());
    let wal = crashed(&bucket, dir.path(), &mut model, 5);
    OpenOptions::new().append(true).open(&wal).unwrap().write_all(&[0; 5000]).unwrap();
    // The next process ships these zeros, too.
    let (mut db, messages) = open_db(&bucket, dir.path());
    assert_eq!(warnings(&messages), [""; 0]);
    let position = db.commit(&mut model, 0b11, 6, 6);
    db.sync();
    db.store.wait_shipped(position, WAIT).unwrap();
    crash(db);
    // Then the local file loses the zeros that the bucket has: five records of 32 bytes stay.
    OpenOptions::new().write(true).open(&wal).unwrap().set_len(5 * 32).unwrap();
    assert_eq!(warnings(&expect_all(&bucket, dir.path(), &model)), [""; 0]);
}

/// The local WAL is whole, so a damaged bucket does not keep the server from starting. The chunks that are
/// left in the bucket stay.
#[test]
fn a_damaged_chunk_in_the_bucket_is_told_and_the_local_wal_is_used() {
    let (bucket, dir, mut model) = (Bucket::in_memory(), scratch(), Model::default());
    crashed(&bucket, dir.path(), &mut model, 12); // too few chunks to be merged
    let chunks = || block(bucket.list(&names::wal_dir(1), None)).unwrap();
    let damaged = chunks()[2].key.clone();
    block(bucket.delete(&damaged)).unwrap();
    let left = chunks().len();
    block(async {
        let bytes = bytes::Bytes::from_static(b"not a chunk");
        bucket.put_unconditional(&damaged, bytes, Default::default()).await.unwrap();
    });
    let (mut db, messages) = open_db(&bucket, dir.path());
    assert!(warnings(&messages)[0].contains(&damaged), "{messages:?}");
    db.check(&model, "with a damaged chunk");
    assert_eq!(db.last_seq, 12);
    db.commit(&mut model, 0b11, 13, 13);
    db.store.publish(WAIT).unwrap();
    db.store.close(WAIT).unwrap();
    assert!(chunks().len() > left, "chunks of the former epoch were deleted");
}

/// Damages the WALs at random after each of several lives of the database.
#[test]
fn random_damage_to_the_wals_loses_nothing_that_was_shipped() {
    let mut random = Random::from_environment("random_damage_to_the_wals_loses_nothing_that_was_shipped");
    for _ in 0..20 {
        let context = format!("seed {}", random.seed);
        let (bucket, dir, mut model) = (Bucket::in_memory(), scratch(), Model::default());
        for _ in 0..4 {
            let (mut db, _) = open_db(&bucket, dir.path());
            db.check(&model, &context);
            assert_eq!(db.last_seq, model.commits.len() as u64, "{context}");
            for _ in 0..random.below(30) {
                db.commit(&mut model, 0b11, random.below(9), random.next());
                if random.below(12) == 0 {
                    db.flush(random.below(FAMILIES), random.below(2) == 0);
                }
            }
            db.sync();
            db.store.wait_shipped(db.store.wal_position(), WAIT).unwrap();
            crash(db);
            damage(&mut random, &dir.path().join("db"));
        }
    }
}

fn damage(random: &mut Random, local: &Path) {
    for (number, length) in wal_files(local).unwrap() {
        let path = wal_path(local, number);
        let at = random.below(length);
        match random.below(5) {
            0 => fs::remove_file(path).unwrap(),
            1 => OpenOptions::new().write(true).open(path).unwrap().set_len(at).unwrap(),
            2 if length > 0 => change(&path, |bytes| bytes[at as usize] ^= 1 << random.below(8)),
            3 => change(&path, |bytes| bytes[at as usize..].fill(0)),
            _ => {}
        }
    }
}
