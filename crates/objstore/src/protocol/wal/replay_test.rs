//! Goal:   the objects of former epochs stay in the bucket until the database is open and has replayed all of
//!         its WAL.
//! Method: put records of RocksDB's format with high sequence numbers into the pretend database's WAL, open
//!         again with and without having replayed them, publish, and look whether the former WAL is still in
//!         the bucket.

use crate::config::Durability;
use crate::log::Level;
use crate::protocol::format::names;
use crate::protocol::start::open::{Options, open};
use crate::protocol::store::Store;
use crate::protocol::testing::test_db::*;
use crate::protocol::wal::replay::wal_of;
use crate::requests::bucket::Bucket;
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What was logged as an error.
type Errors = Arc<Mutex<Vec<String>>>;

/// Makes a database in `bucket` whose WAL of epoch 1 ends with a record that starts at `sequence`. Returns
/// its directory.
fn database(bucket: &Bucket, sequence: u64) -> tempfile::TempDir {
    let (dir, mut model) = (scratch(), Model::default());
    let mut db = Db::open(
        open_store(&config(dir.path(), "owner:1", Durability::Sync), bucket, quick()).unwrap(),
        dir.path(),
        false,
    );
    db.commit(&mut model, 0b11, 1, 1);
    db.store.publish(WAIT).unwrap();
    db.flush(0, true);
    db.append(&wal_of(&[(2, 40), (sequence, 40)]));
    db.sync();
    db.store.wait_shipped(db.store.wal_position(), WAIT).unwrap();
    crash(db);
    dir
}

fn open_logged(bucket: &Bucket, dir: &Path) -> (Arc<Store>, Errors) {
    let errors = Errors::default();
    let kept = errors.clone();
    let log = Arc::new(move |level, message: &str| {
        if level == Level::Error {
            kept.lock().push(message.to_owned());
        }
    });
    let config = config(dir, "owner:1", Durability::Sync);
    let options = Options { tuning: quick(), ..Options::default() };
    (open(&config, bucket.clone(), log, options).unwrap(), errors)
}

/// The number of chunks of the former WAL, without its fence.
fn former_chunks(bucket: &Bucket) -> usize {
    block(bucket.list(&names::wal_dir(1), None)).unwrap().len() - 1
}

/// Whether the former WAL is deleted within a short while.
fn is_swept(bucket: &Bucket) -> bool {
    let deadline = Instant::now() + Duration::from_millis(800);
    while Instant::now() < deadline {
        if former_chunks(bucket) == 0 {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

#[test]
fn a_short_replay_is_told_and_the_former_wal_stays() {
    for is_lost in [false, true] {
        let bucket = Bucket::in_memory();
        let dir = database(&bucket, 500);
        if is_lost {
            std::fs::remove_dir_all(dir.path().join("db")).unwrap();
        }
        let (store, errors) = open_logged(&bucket, dir.path());
        assert_eq!(store.was_restored(), is_lost);
        // The pretend database cannot read those records: it opens at change 1.
        let db = Db::open(store, dir.path(), true);
        db.store.publish(WAIT).unwrap();
        assert!(!is_swept(&bucket), "the former WAL was deleted");
        let errors = errors.lock().clone();
        assert!(errors.len() == 1 && errors[0].contains("goes on to change 500"), "{errors:?}");
        crash(db);
    }
}

#[test]
fn after_a_whole_replay_the_former_wal_goes() {
    let bucket = Bucket::in_memory();
    let dir = database(&bucket, 2);
    let (store, errors) = open_logged(&bucket, dir.path());
    let db = Db::open(store, dir.path(), true);
    db.store.publish(WAIT).unwrap();
    assert!(is_swept(&bucket), "the former WAL is still there");
    assert_eq!(*errors.lock(), [""; 0]);
    crash(db);
}

/// A root can be published while RocksDB opens; the former WAL stays until RocksDB reports that it has
/// opened.
#[test]
fn nothing_former_is_deleted_before_the_database_is_open() {
    let bucket = Bucket::in_memory();
    let dir = database(&bucket, 2);
    let (store, _) = open_logged(&bucket, dir.path());
    let manifest = std::fs::read_to_string(dir.path().join("db/CURRENT")).unwrap();
    let number = manifest.trim().trim_start_matches("MANIFEST-").parse().unwrap();
    store.manifest_synced(
        number,
        std::fs::metadata(dir.path().join("db").join(manifest.trim())).unwrap().len(),
    );
    store.current_set(number);
    store.publish(WAIT).unwrap();
    assert!(!is_swept(&bucket), "the former WAL was deleted");
    store.opened(1);
    assert!(is_swept(&bucket), "the former WAL is still there");
    store.kill();
}
