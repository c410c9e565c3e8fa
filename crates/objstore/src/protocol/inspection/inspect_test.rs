//! Goal:   what `atollctl` shows agrees with the database, and `verify` notices every object that is missing
//!         or damaged.
//! Method: a small database in memory; then each object that a restore needs is removed or damaged in turn.

use crate::config::Durability;
use crate::protocol::format::names;
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::testing::test_db::*;
use crate::protocol::wal::marks::{BinlogPosition, Gtid};
use crate::protocol::wal::position::NotedCommit;
use crate::requests::bucket::Bucket;
use crate::requests::fault::faulty_bucket;

fn database(bucket: &Bucket) -> (tempfile::TempDir, Db) {
    let dir = scratch();
    let mut model = Model::default();
    let store = open_store(&config(dir.path(), "owner:1", Durability::Sync), bucket, quick()).unwrap();
    let mut db = Db::open(store, dir.path(), true);
    for key in 0..9 {
        db.commit(&mut model, 0b11, key, key);
    }
    db.flush(0, true);
    db.store.publish(WAIT).unwrap();
    (dir, db)
}

#[test]
fn status_roots_and_files_agree_with_the_store() {
    let bucket = Bucket::in_memory();
    let (_dir, db) = database(&bucket);
    let inspector = Inspector::new(bucket.clone());
    let status = block(inspector.status()).unwrap();
    let stats = db.store.stats();
    assert_eq!((status.db_uuid.as_str(), status.newest_epoch), (stats.database_uuid.as_str(), stats.epoch));
    assert_eq!(status.claimed_by, "owner:1");
    assert_eq!(status.owner.unwrap().server_id, "owner:1");
    let root = status.root.unwrap();
    assert_eq!((root.files, root.files_bytes), (stats.files, Some(stats.files_bytes)));
    let files = block(inspector.files()).unwrap();
    let sizes: Vec<(u64, u64)> = files.iter().map(|file| (file.number, file.size)).collect();
    assert_eq!(sizes, db.store.files().list());
    let roots = block(inspector.roots()).unwrap();
    assert_eq!(roots.first().map(|root| root.kind.as_str()), Some("claim"));
    assert_eq!(roots.last().map(|last| last.slot), Some(root.slot));
    assert!(block(Inspector::new(Bucket::in_memory()).status()).unwrap_err().is_not_found());
}

#[test]
fn roots_say_how_far_the_commits_go_also_after_a_start_or_without_the_directory() {
    let bucket = Bucket::in_memory();
    let (dir, mut db) = database(&bucket);
    let newest = || block(Inspector::new(bucket.clone()).status()).unwrap().root.unwrap();
    assert_eq!((newest().sequence, newest().commit_us, newest().gtid_position.as_str()), (Some(0), None, ""));
    let mut model = Model::default();
    for (domain, sequence) in [(0, 5), (3, 7), (0, 6)] {
        let gtid = Some(Gtid { domain, server: 1, sequence });
        let binlog = Some(BinlogPosition { file: 4, offset: 100 * sequence });
        db.store.note_commit(&NotedCommit { sequence, time_us: 1000 + sequence, gtid, binlog });
    }
    let expected = BinlogPosition { file: 4, offset: 700 };
    for round in 0..3 {
        db.commit(&mut model, 0b11, round, round);
        db.flush(0, true);
        db.store.publish(WAIT).unwrap();
        let root = newest();
        assert_eq!((root.sequence, root.commit_us), (Some(7), Some(1007)), "round {round}");
        assert_eq!((root.gtid_position.as_str(), root.binlog), ("0-1-6,3-1-7", Some(expected)));
        if round == 0 {
            crash(db);
        } else {
            lose(db, dir.path());
        }
        let store = open_store(&config(dir.path(), "owner:1", Durability::Sync), &bucket, quick()).unwrap();
        db = Db::open(store, dir.path(), true);
    }
}

#[test]
fn verify_finds_every_missing_or_damaged_object() {
    use object_store::{ObjectStoreExt, path::Path};
    let (bucket, faults) = faulty_bucket();
    let (dir, db) = database(&bucket);
    lose(db, dir.path());
    let inspector = Inspector::new(bucket.clone());
    let verify = |deep| block(inspector.verify(deep, |_, _| {})).unwrap();
    let good = verify(true);
    assert!(good.problems.is_empty() && good.files_checked > 0 && good.bytes_read > 0, "{good:?}");
    let first = |dir: &str| block(bucket.list(dir, None)).unwrap().pop().unwrap().key;
    let chunk = names::wal_chunk(1, good.root.as_ref().unwrap().wal_first_chunk);
    for key in [first(names::FILE_DIR), first(names::MANIFEST_DIR), chunk] {
        let path = Path::from(format!("db/{key}"));
        let bytes = block(bucket.get(&key)).unwrap();
        block(faults.inner.delete(&path)).unwrap();
        assert!(!verify(false).problems.is_empty(), "{key} is missing");
        let mut damaged = bytes.to_vec();
        let middle = damaged.len() / 2;
        damaged[middle] ^= 1;
        block(faults.inner.put(&path, damaged.into())).unwrap();
        let report = verify(true);
        assert!(report.problems.iter().any(|problem| problem.contains(&key)), "{key}: {:?}", report.problems);
        block(faults.inner.put(&path, bytes.into())).unwrap();
    }
    assert!(verify(true).problems.is_empty());
}
