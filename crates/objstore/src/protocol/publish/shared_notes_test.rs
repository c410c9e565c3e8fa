//! Goal:   a file that shares an object is found again after a crash that comes before a root names the file,
//!         and after a restore from a root that names it (FILE-6). The error for a damaged note says what to
//!         do.
//! Method: the pretend RocksDB of test_db.rs over a bucket in memory.

use super::*;
use crate::config::Durability;
use crate::protocol::testing::test_copies::{change, open_db};
use crate::protocol::testing::test_db::*;
use crate::requests::bucket::Bucket;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const NUMBER: u64 = 9000;

/// Makes a database with one published file, whose object file `NUMBER` shares. Also returns the file's size.
fn share(bucket: &Bucket, dir: &Path, model: &mut Model) -> (Db, u64) {
    let mut db = open_db(bucket, dir);
    change(&mut db, model, 1);
    let (source, bytes) = db.store.files().list()[0];
    db.store.share_file(source, NUMBER).unwrap();
    assert!(note_in(dir).exists());
    (db, bytes)
}

fn note_in(dir: &Path) -> PathBuf {
    dir.join(format!("db/{NUMBER:06}.shared"))
}

fn size_found(bucket: &Bucket, dir: &Path) -> Option<u64> {
    let store = open_store(&config(dir, "owner:1", Durability::Sync), bucket, quick()).unwrap();
    let size = store.files().file_size(NUMBER);
    store.kill();
    size
}

#[test]
fn a_note_tells_of_a_shared_file_after_a_crash() {
    let (bucket, dir, mut model) = (Bucket::in_memory(), scratch(), Model::default());
    let (db, bytes) = share(&bucket, dir.path(), &mut model);
    db.store.kill();
    drop(db);
    assert_eq!(size_found(&bucket, dir.path()), Some(bytes));
}

#[test]
fn a_root_tells_of_a_shared_file_from_the_next_publish_on() {
    let (bucket, dir, mut model) = (Bucket::in_memory(), scratch(), Model::default());
    let (mut db, bytes) = share(&bucket, dir.path(), &mut model);
    change(&mut db, &mut model, 2);
    let deadline = Instant::now() + WAIT;
    while note_in(dir.path()).exists() {
        assert!(Instant::now() < deadline, "the note is still there");
        std::thread::sleep(Duration::from_millis(5)); // The note is deleted just after the root is published.
    }
    db.store.kill();
    drop(db);
    assert_eq!(size_found(&bucket, scratch().path()), Some(bytes));
}

#[test]
fn an_unfinished_note_is_removed_and_tells_nothing() {
    let dir = scratch();
    let unfinished = dir.path().join("000007.shared.new");
    std::fs::write(&unfinished, "half").unwrap();
    assert!(read_notes(dir.path(), "any").unwrap().is_empty());
    assert!(!unfinished.exists());
}

#[test]
fn a_damaged_note_is_corruption_with_a_way_out() {
    let dir = scratch();
    let record = FileRecord { key: "sst/0f/3-7.sst".into(), size: 5, crc32c: 6, labels: Default::default() };
    let shared = write_note(dir.path(), "a", 7, record.clone()).unwrap();
    assert_eq!(read_notes(dir.path(), "a").unwrap()[0].record, record);
    let refused = |uuid: &str| read_notes(dir.path(), uuid).unwrap_err().to_string();
    assert!(refused("b").contains("Move the directory away"), "{}", refused("b"));
    let mut bytes = std::fs::read(&shared.note).unwrap();
    bytes[20] ^= 1;
    std::fs::write(&shared.note, bytes).unwrap();
    assert!(refused("a").contains("Move the directory away"), "{}", refused("a"));
}
