//! Goal:   every root in the bucket can be restored and is published exactly once, whatever fails during a
//!         publish (IMAGE-1, IMAGE-2, IMAGE-5); the gates of a publish are needed, and the bucket does not
//!         grow without bound.
//! Method: one fault at a time, of every kind and at every request of a publish; gates are switched off; the
//!         bucket's objects are counted and compared with those that the newest root needs.

use crate::config::Durability;
use crate::error::StoreError;
use crate::protocol::format::image;
use crate::protocol::format::names;
use crate::protocol::format::records::{Root, RootId, RootSlot, WalChunk};
use crate::protocol::format::slots::{list_root_slots, read_root_slot};
use crate::protocol::shared::Tuning;
use crate::protocol::testing::test_db::*;
use crate::requests::bucket::Bucket;
use crate::requests::fault::{Fault, faulty_bucket};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

fn fresh(bucket: &Bucket, dir: &Path, durability: Durability) -> Db {
    Db::open(open_store(&config(dir, "owner:1", durability), bucket, quick()).unwrap(), dir, true)
}

fn restored(bucket: &Bucket, model: &Model, context: &str) -> Db {
    let dir = scratch();
    let store = open_store(&config(dir.path(), "heir:1", Durability::Sync), bucket, quick()).unwrap();
    assert!(store.was_restored(), "{context}");
    let db = Db::open(store, dir.path(), true);
    db.check(model, context);
    db
}

#[test]
fn a_publish_survives_every_single_fault() {
    for fault in Fault::ALL {
        let mut position = 0;
        loop {
            let context = format!("{fault:?} at request {position}");
            let (bucket, faults) = faulty_bucket();
            let dir = scratch();
            let mut model = Model::default();
            // The liveness hint is switched off, so that only publisher, shipper and uploads send requests.
            let mut tuning = quick();
            tuning.alive_interval = Duration::from_secs(3600);
            let store =
                open_store(&config(dir.path(), "owner:1", Durability::Sync), &bucket, tuning).unwrap();
            let mut db = Db::open(store, dir.path(), true);
            db.store.publish(WAIT).unwrap();
            let before = faults.requests();
            faults.hurt(position, fault);
            db.commit(&mut model, 0b11, 1, 10);
            db.flush(0, true);
            db.commit(&mut model, 0b11, 2, 20);
            db.store.publish(WAIT).unwrap_or_else(|e| panic!("{context}: {e}"));
            let sent = faults.requests() - before;
            faults.heal();
            lose(db, dir.path());
            let heir = restored(&bucket, &model, &context);
            assert_eq!(heir.last_seq, 2, "{context}: a published commit is missing");
            crash(heir);
            position += 1;
            if position > sent {
                assert!(position > 4, "a publish sends more than {sent} requests");
                break;
            }
        }
    }
}

/// Shows that gate PUB-G2 is needed. Family 0 is flushed, family 1 is not. If a root is published before the
/// WAL is shipped, a restore finds only family 0's half of the transaction.
#[test]
fn without_gate_g2_half_a_transaction_comes_back() {
    for gate_wal in [true, false] {
        let bucket = Bucket::in_memory();
        let dir = scratch();
        let mut model = Model::default();
        let mut tuning = quick();
        tuning.gate_wal = gate_wal;
        let config = config(dir.path(), "owner:1", Durability::Local);
        let mut db = Db::open(open_store(&config, &bucket, tuning).unwrap(), dir.path(), true);
        db.commit(&mut model, 0b11, 1, 10);
        db.flush(0, true);
        let slot = wait_for_root_with_file(&db);
        assert!(slot > 0);
        lose(db, dir.path());
        let store = open_store(&config, &bucket, quick()).unwrap();
        let heir = Db::open(store, dir.path(), true);
        let check = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| heir.check(&model, "PUB-G2")));
        assert_eq!(check.is_ok(), gate_wal, "gate {gate_wal}");
    }
}

/// Shows that gate PUB-G7 is needed, which is about the newest WAL: a root without dropped data waits for the
/// commit that removed the last reference to the data.
#[test]
fn a_root_without_dropped_data_has_the_commit_that_dropped_it() {
    for is_noted in [true, false] {
        let bucket = Bucket::in_memory();
        let dir = scratch();
        let mut model = Model::default();
        let config = config(dir.path(), "owner:1", Durability::Local);
        let mut db = Db::open(open_store(&config, &bucket, quick()).unwrap(), dir.path(), true);
        db.store.publish(WAIT).unwrap();
        let before = db.store.shared().published_slot();
        db.commit(&mut model, 0b11, 1, 10);
        db.drop_data(is_noted);
        db.create_family(2); // The bytes before this change get a chunk of their own, see `next_mark`.
        db.commit(&mut model, 0b11, 2, 20);
        let deadline = Instant::now() + WAIT;
        while db.store.shared().published_slot() == before || db.store.shared().is_dirty() {
            assert!(Instant::now() < deadline, "no root was published");
            std::thread::sleep(Duration::from_millis(2));
        }
        lose(db, dir.path());
        let heir = Db::open(open_store(&config, &bucket, quick()).unwrap(), dir.path(), true);
        heir.check(&model, "PUB-G7");
        assert_eq!(heir.last_seq > 0, is_noted, "the dropping commit, noted {is_noted}");
        crash(heir);
    }
}

/// A publish that waits for the bucket still counts as lag: the newest root does not have its changes yet.
#[test]
fn the_publish_lag_is_zero_only_when_the_newest_root_says_all() {
    let (bucket, faults) = faulty_bucket();
    let dir = scratch();
    let mut model = Model::default();
    let mut db = fresh(&bucket, dir.path(), Durability::Local);
    db.store.publish(WAIT).unwrap();
    faults.outage(true);
    let before = db.store.shared().published_slot();
    db.commit(&mut model, 0b11, 1, 10);
    db.flush(0, true);
    let lag_ms = |db: &Db| db.store.stats().publish_lag_ms;
    let until = Instant::now() + Duration::from_millis(300);
    while Instant::now() < until {
        assert_ne!(lag_ms(&db), 0, "although nothing is published");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(db.store.shared().published_slot(), before);
    faults.heal();
    let deadline = Instant::now() + WAIT;
    while lag_ms(&db) > 0 {
        assert!(Instant::now() < deadline, "the lag stays");
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(db.store.shared().published_slot() > before);
    crash(db);
}

/// With durability `local`, a publish waits for the flush that makes the log superfluous, but no longer than
/// `flush_patience`.
#[test]
fn the_log_is_not_shipped_for_a_publish_between_two_flushes() {
    for (patience, is_shipped) in [(WAIT, false), (Duration::from_millis(50), true)] {
        let (bucket, dir) = (Bucket::in_memory(), scratch());
        let tuning = Tuning { spared_log_bytes: 200, flush_patience: patience, ..quick() };
        let config = config(dir.path(), "owner:1", Durability::Local);
        let mut db = Db::open(open_store(&config, &bucket, tuning).unwrap(), dir.path(), true);
        let mut model = Model::default();
        db.store.publish(WAIT).unwrap();
        let objects = || -> BTreeSet<String> {
            block(bucket.list(names::WAL_DIR, None)).unwrap().into_iter().map(|object| object.key).collect()
        };
        let before = (db.store.shared().published_slot(), objects());
        for key in 0..20 {
            db.commit(&mut model, 0b11, key, 10);
        }
        db.flush(0, true);
        if is_shipped {
            wait_for_root_behind(&db, before.0);
            assert!(!objects().is_subset(&before.1), "the root lacks what is in no table file");
        } else {
            std::thread::sleep(Duration::from_millis(50));
            assert_eq!(db.store.shared().published_slot(), before.0);
            db.flush(1, true);
            db.delete_obsolete_wals();
            wait_for_root_behind(&db, before.0);
            assert!(objects().is_subset(&before.1), "the log was shipped");
        }
        crash(db);
    }
}

fn wait_for_root_behind(db: &Db, slot: u64) {
    let deadline = Instant::now() + WAIT;
    while db.store.shared().published_slot() <= slot {
        assert!(Instant::now() < deadline, "no root was published");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// When RocksDB removes a file and nothing else happens, the object of that file is deleted all the same.
#[test]
fn an_idle_database_deletes_the_objects_of_removed_files() {
    let bucket = Bucket::in_memory();
    let dir = scratch();
    let mut model = Model::default();
    let mut db = fresh(&bucket, dir.path(), Durability::Local);
    db.commit(&mut model, 0b11, 1, 10);
    db.flush(0, true);
    db.store.publish(WAIT).unwrap();
    let count = || block(bucket.list(names::FILE_DIR, None)).unwrap().len();
    let before = count();
    let (number, _) = db.store.files().list()[0];
    db.store.files().remove_file(number).unwrap();
    let deadline = Instant::now() + WAIT;
    while count() == before {
        assert!(Instant::now() < deadline, "the object of file {number} stays in the bucket");
        std::thread::sleep(Duration::from_millis(10));
    }
    crash(db);
}

/// Waits until a published root names a table file; returns the root's slot. With durability `local`, the
/// publisher publishes without being asked.
fn wait_for_root_with_file(db: &Db) -> u64 {
    let deadline = Instant::now() + WAIT;
    loop {
        let shared = db.store.shared();
        let slot = shared.published_slot();
        if slot > 0 {
            let id = RootId { epoch: shared.epoch, slot };
            let files = db.store.files().list();
            let image = block(image::load(&shared.bucket, id));
            if image.is_ok_and(|image| {
                files.iter().any(|(number, size)| *size > 16 && image.files.contains_key(number))
            }) && !shared.is_dirty()
            {
                return slot;
            }
        }
        assert!(Instant::now() < deadline, "no root was published");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn root(ddl_seq: u64) -> Root {
    Root {
        id: RootId { epoch: 1, slot: 1 },
        manifest: names::ManifestCopy { number: 1, copy: 0 },
        manifest_bytes: 0,
        manifest_crc32c: 0,
        ddl_seq,
        wal_min: 0,
        wal_first_chunk: 0,
        wal_needed_end: 0,
        published_ms: 0,
        map_slot: 1,
        files_count: 0,
        map_in_parts: None,
        added: vec![],
        removed: vec![],
        wal_runs: vec![],
        position: None,
        opened: None,
    }
}

/// Puts a WAL chunk for each DDL number in `ddl`. Each chunk records the checksum of its predecessor.
fn put_chunks(bucket: &Bucket, ddl: &[u64]) {
    let mut previous_crc32c = 0;
    for (chunk, ddl_seq) in (0..).zip(ddl) {
        let bytes = vec![chunk as u8; 10];
        let record = WalChunk {
            epoch: 1,
            chunk,
            log: 3,
            offset: chunk * 10,
            ddl_seq: *ddl_seq,
            previous_crc32c,
            bytes,
        };
        let bytes = record.encode(&[chunk as u8; 16]);
        previous_crc32c = crate::crc::crc32c(&bytes);
        let key = names::wal_chunk(1, chunk);
        block(bucket.create_slot(&key, bytes.into(), &[chunk as u8; 16])).unwrap();
    }
}

fn replayed(bucket: &Bucket, root: &Root, end: Option<u64>) -> crate::error::Result<Vec<u64>> {
    let mut seen = Vec::new();
    block(image::read_wal(bucket, root, end, |chunk| {
        seen.push(chunk.chunk);
        Ok(())
    }))
    .map(|_| seen)
}

#[test]
fn wal_behind_an_unpublished_edit_is_not_replayed() {
    let bucket = Bucket::in_memory();
    put_chunks(&bucket, &[1, 1, 2, 2, 3]);
    assert_eq!(replayed(&bucket, &root(1), Some(5)).unwrap(), [0, 1]);
    assert_eq!(replayed(&bucket, &root(2), Some(5)).unwrap(), [0, 1, 2, 3]);
    assert_eq!(replayed(&bucket, &root(3), Some(4)).unwrap(), [0, 1, 2, 3]);
    assert_eq!(replayed(&bucket, &root(3), None).unwrap(), [0, 1, 2, 3, 4]);
}

#[test]
fn a_restore_that_lacks_needed_wal_is_refused_by_name() {
    let bucket = Bucket::in_memory();
    put_chunks(&bucket, &[1, 1, 1]);
    let needs = Root { wal_needed_end: 3, ..root(1) };
    assert_eq!(replayed(&bucket, &needs, Some(3)).unwrap(), [0, 1, 2]);
    block(bucket.delete(&names::wal_chunk(1, 1))).unwrap();
    let Err(StoreError::Corruption(message)) = replayed(&bucket, &needs, Some(3)) else { panic!("no error") };
    assert!(message.contains(&names::wal_chunk(1, 1)), "{message}");
}

#[test]
fn a_replaced_chunk_breaks_the_chain() {
    let bucket = Bucket::in_memory();
    put_chunks(&bucket, &[1, 1, 1]);
    let key = names::wal_chunk(1, 1);
    block(bucket.delete(&key)).unwrap();
    let other = WalChunk {
        epoch: 1,
        chunk: 1,
        log: 3,
        offset: 10,
        ddl_seq: 1,
        previous_crc32c: 77,
        bytes: vec![0; 10],
    };
    block(bucket.create_slot(&key, other.encode(&[3; 16]).into(), &[3; 16])).unwrap();
    assert!(matches!(replayed(&bucket, &root(1), Some(3)), Err(StoreError::Corruption(_))));
}

/// A restore refuses a damaged object, whichever it reads, and names the object.
#[test]
fn damage_in_the_bucket_is_named() {
    let (bucket, faults) = faulty_bucket();
    let dir = scratch();
    let mut model = Model::default();
    let mut db = fresh(&bucket, dir.path(), Durability::Sync);
    db.commit(&mut model, 0b11, 1, 1);
    db.store.publish(WAIT).unwrap();
    let slot = db.store.shared().published_slot();
    lose(db, dir.path());
    let wal = block(bucket.list(&names::wal_dir(1), None)).unwrap().remove(0).key;
    let manifest = block(bucket.list(names::MANIFEST_DIR, None)).unwrap().remove(0).key;
    for key in [names::root(1, slot), wal, manifest, names::DB.to_owned()] {
        let good = block(bucket.get(&key)).unwrap();
        let mut bad = good.to_vec();
        let middle = bad.len() / 2;
        bad[middle] ^= 4;
        overwrite(&faults.inner, &key, bad);
        let outcome = open_store(&config(dir.path(), "heir:1", Durability::Sync), &bucket, quick());
        let Err(StoreError::Corruption(message)) = outcome else {
            panic!("{key}: {outcome:?}", outcome = outcome.err())
        };
        assert!(message.contains(&key), "{key}: {message}");
        overwrite(&faults.inner, &key, good.to_vec());
    }
    assert_eq!(restored(&bucket, &model, "repaired").last_seq, 1);
}

fn overwrite(store: &object_store::memory::InMemory, key: &str, bytes: Vec<u8>) {
    use object_store::ObjectStoreExt;
    block(store.put(&object_store::path::Path::from(format!("db/{key}")), bytes.into())).unwrap();
}

#[test]
fn the_bucket_keeps_what_the_newest_root_needs_and_little_more() {
    let bucket = Bucket::in_memory();
    let dir = scratch();
    let mut model = Model::default();
    let mut db = fresh(&bucket, dir.path(), Durability::Async);
    for round in 0..40 {
        for key in 0..5 {
            db.commit(&mut model, 0b11, key, round);
        }
        db.flush(0, true);
        db.flush(1, true);
        db.delete_obsolete_wals();
        if round % 10 == 0 {
            db.roll_manifest();
        }
        db.store.publish(WAIT).unwrap();
    }
    let shared = db.store.shared().clone();
    let deadline = Instant::now() + WAIT;
    loop {
        let count = |dir: &str| block(bucket.list(dir, None)).unwrap().len();
        let counts = (count(names::FILE_DIR), count(names::WAL_DIR), count(names::ROOT_DIR));
        let id = RootId { epoch: 1, slot: shared.published_slot() };
        let RootSlot::Root(newest) = block(read_root_slot(&bucket, id)).unwrap() else { panic!("no root") };
        assert_eq!(newest.manifest.number, db.current_manifest());
        let manifests = count(&names::manifest_dir(1, newest.manifest));
        assert!(manifests <= 7, "{manifests} objects of one MANIFEST");
        let parts = parts_of_kept_roots(&bucket, newest.id);
        // When the collector has caught up, the bucket has only the two live files, a few chunks of the log,
        // the claim and the kept roots, one MANIFEST, and the parts of the kept roots' maps.
        if counts.0 == 2
            && counts.1 <= 8
            && counts.2 <= 12
            && count(names::MANIFEST_DIR) == manifests
            && count(names::MAP_DIR) == parts
        {
            break;
        }
        assert!(Instant::now() < deadline, "too much is left: {counts:?} {manifests}");
        std::thread::sleep(Duration::from_millis(10));
    }
    let slots = block(list_root_slots(&bucket, 1)).unwrap();
    assert!(slots.contains(&0) && slots.contains(&shared.published_slot()), "{slots:?}");
    lose(db, dir.path());
    assert_eq!(restored(&bucket, &model, "after trimming").last_seq, model.commits.len() as u64);
}

/// Reads the file maps of the newest root and of the older roots that are kept. Returns how many different
/// parts these maps have.
fn parts_of_kept_roots(bucket: &Bucket, newest: RootId) -> usize {
    let kept = newest.slot - quick().roots_kept..=newest.slot;
    let images = kept.map(|slot| block(image::load(bucket, RootId { slot, ..newest })).unwrap());
    let parts: BTreeSet<u64> = images.flat_map(|image| image.root.map_parts().collect::<Vec<_>>()).collect();
    assert!(!parts.is_empty());
    parts.len()
}

#[test]
fn leftovers_of_former_owners_are_swept_and_nothing_else() {
    let bucket = Bucket::in_memory();
    let dir = scratch();
    let mut model = Model::default();
    let mut db = fresh(&bucket, dir.path(), Durability::Sync);
    db.commit(&mut model, 0b11, 1, 1);
    db.flush(0, true);
    db.store.publish(WAIT).unwrap();
    lose(db, dir.path());
    // The collector must delete the first of these objects, a table file that no root has ever named. It must
    // keep the second, because the database does not use such names, and the fences of epoch 1, which the
    // next claim puts.
    for key in ["sst/00/00000000000000000001-77.sst", "sst/readme"] {
        let path = dir.path().join("x");
        std::fs::write(&path, b"0123456789").unwrap();
        block(bucket.put_file(key, &path, &[])).unwrap();
    }
    let mut db = fresh(&bucket, dir.path(), Durability::Sync);
    db.commit(&mut model, 0b11, 2, 2);
    db.store.publish(WAIT).unwrap();
    let keys = || -> Vec<String> {
        [names::FILE_DIR, names::ROOT_DIR, names::WAL_DIR, names::MANIFEST_DIR]
            .iter()
            .flat_map(|dir| block(bucket.list(dir, None)).unwrap().into_iter().map(|o| o.key))
            .collect()
    };
    let is_left = |key: &String| {
        key.contains("-77.sst")
            || key.starts_with(&names::manifest_dir(1, names::ManifestCopy::default())[..25])
    };
    let deadline = Instant::now() + WAIT;
    while keys().iter().any(is_left) {
        assert!(Instant::now() < deadline, "{:?}", keys());
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(50));
    let left = keys();
    assert!(left.contains(&"sst/readme".to_owned()), "{left:?}");
    let fences = |dir: &str| left.iter().filter(|key| key.starts_with(dir)).count();
    assert_eq!(fences(&names::root_dir(1)), 2, "claim and fence of epoch 1 stay: {left:?}");
    assert_eq!(fences(&names::wal_dir(1)), 1, "the WAL fence of epoch 1 stays: {left:?}");
    lose(db, dir.path());
    assert_eq!(restored(&bucket, &model, "after the sweep").last_seq, 2);
}

#[test]
fn every_published_root_is_restorable_at_its_time() {
    let bucket = Bucket::in_memory();
    let dir = scratch();
    let mut model = Model::default();
    let mut db = fresh(&bucket, dir.path(), Durability::Local);
    for round in 0..20 {
        db.commit(&mut model, 0b11, round, round);
        db.flush(round % 2, round % 3 == 0);
        if round % 7 == 0 {
            db.roll_manifest();
        }
        db.store.publish(WAIT).unwrap();
        let shared = db.store.shared();
        let id = RootId { epoch: 1, slot: shared.published_slot() };
        let image = block(image::load(&bucket, id)).unwrap();
        assert_eq!(
            block(image::read_manifest(&bucket, &image.root)).unwrap().len() as u64,
            image.root.manifest_bytes
        );
        block(image::read_wal(&bucket, &image.root, None, |_| Ok(()))).unwrap();
        for file in image.files.values() {
            assert_eq!(block(bucket.head(&file.key)).unwrap().size, file.size);
        }
        let RootSlot::Root(again) = block(read_root_slot(&bucket, id)).unwrap() else { panic!() };
        assert_eq!(again, image.root);
    }
    crash(db);
}
