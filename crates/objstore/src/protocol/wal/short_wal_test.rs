//! Goal:   a local WAL that has lost bytes does not reach the bucket as zeros under a valid checksum.
//! Method: cut the file of a WAL before it is shipped, wait for the WAL to be shipped, and look into the
//!         chunks.

use crate::config::Durability;
use crate::error::StoreError;
use crate::protocol::format::names;
use crate::protocol::format::records::WalSlot;
use crate::protocol::format::slots::decode_wal_slot;
use crate::protocol::shared::Tuning;
use crate::protocol::start::local::{wal_files, wal_path};
use crate::protocol::testing::test_db::*;
use crate::requests::bucket::Bucket;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Opens a database that ships only what a caller waits for.
fn open_idle(bucket: &Bucket, dir: &Path) -> Db {
    let hour = Duration::from_secs(3600);
    let tuning = Tuning { ship_interval: hour, settle_after_open: hour, ship_bytes: u64::MAX, ..quick() };
    let config = config(dir, "owner:1", Durability::Local);
    Db::open(open_store(&config, bucket, tuning).unwrap(), dir, false)
}

fn commit_five(db: &mut Db, model: &mut Model) {
    for _ in 0..5 {
        let seq = db.last_seq + 1;
        db.commit(model, 0b11, seq, seq);
    }
    db.sync();
}

/// The newest WAL that has bytes.
fn wal_with_bytes(dir: &Path) -> PathBuf {
    let local = dir.join("db");
    let wals = wal_files(&local).unwrap();
    wal_path(&local, wals.iter().rfind(|(_, length)| *length > 0).unwrap().0)
}

fn cut(path: &Path, length: u64) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(length).unwrap();
}

/// Waiting for the WAL must fail with a message about `wal`. The chunks must not hold more bytes than `left`,
/// the number that the file still has.
fn expect_not_shipped(db: &Db, bucket: &Bucket, epoch: u64, wal: &Path, left: usize) {
    let waited = db.store.wait_shipped(db.store.wal_position(), Duration::from_millis(300));
    let Err(StoreError::Unavailable(message)) = waited else { panic!("{waited:?}") };
    assert!(message.contains(wal.to_str().unwrap()) && message.contains("ends before byte"), "{message}");
    let shipped: usize = block(async {
        let mut shipped = 0;
        for object in bucket.list(&names::wal_dir(epoch), None).await.unwrap() {
            let bytes = bucket.get(&object.key).await.unwrap();
            let chunk = names::parse_slot(names::WAL_DIR, &object.key).unwrap().1;
            if let WalSlot::Chunk(chunk) = decode_wal_slot(&object.key, &bytes, epoch, chunk).unwrap() {
                shipped += chunk.bytes.len();
            }
        }
        shipped
    });
    assert!(shipped <= left, "{shipped} bytes were shipped of a WAL that has {left}");
}

#[test]
fn a_live_wal_that_was_cut_is_not_shipped_as_zeros() {
    let (bucket, dir, mut model) = (Bucket::in_memory(), scratch(), Model::default());
    let mut db = open_idle(&bucket, dir.path());
    commit_five(&mut db, &mut model);
    let wal = wal_with_bytes(dir.path());
    cut(&wal, 70);
    expect_not_shipped(&db, &bucket, 1, &wal, 70);
    crash(db);
}

#[test]
fn a_former_wal_may_lose_its_zeros_and_no_more() {
    let (bucket, dir, mut model) = (Bucket::in_memory(), scratch(), Model::default());
    let mut db = open_idle(&bucket, dir.path());
    commit_five(&mut db, &mut model);
    crash(db);
    let wal = wal_with_bytes(dir.path());
    OpenOptions::new().append(true).open(&wal).unwrap().write_all(&[0; 1000]).unwrap();

    let db = open_idle(&bucket, dir.path());
    cut(&wal, 159);
    expect_not_shipped(&db, &bucket, 2, &wal, 159);
    crash(db);

    // So far record five has lost its last byte: five records have 160 bytes. Now zeros take the place of the
    // whole record.
    cut(&wal, 128);
    OpenOptions::new().append(true).open(&wal).unwrap().write_all(&[0; 1000]).unwrap();
    let db = open_idle(&bucket, dir.path());
    cut(&wal, 128);
    db.store.wait_shipped(db.store.wal_position(), WAIT).expect("only zeros were cut");
    lose(db, dir.path());
    let db = open_idle(&bucket, dir.path());
    db.check(&model, "from the bucket");
    assert_eq!(db.last_seq, 4);
}
