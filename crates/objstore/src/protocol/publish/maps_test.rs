//! Goal:   with 100,000 table files, the cost of a publish depends on what has changed, a restore reads a
//!         bounded number of objects, and an error names a part of the map that is lost or replaced.
//! Method: a store that counts requests and bytes. Most files exist only as entries of a root that the test
//!         writes; no one reads them.

use crate::config::Durability;
use crate::error::StoreError;
use crate::files::{FileChanges, FileRecord, Labels, object_key};
use crate::protocol::format::image;
use crate::protocol::format::names;
use crate::protocol::format::records::{Root, RootId};
use crate::protocol::format::slots::list_root_slots;
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::publish::map_record::MapPart;
use crate::protocol::publish::map_writer::MapWriter;
use crate::protocol::shared::Tuning;
use crate::protocol::testing::test_db::*;
use crate::protocol::testing::test_random::Random;
use crate::requests::bucket::Bucket;
use crate::requests::stuck::{Hurt, StuckStore, Verb, stuck_bucket};
use crate::stats::read;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// How many bytes a publish of ten changed files may send. Pieces of a new MANIFEST would come on top, but no
/// new MANIFEST occurs here.
const PUBLISH_BYTES_MAX: usize = 64 << 10;
const RESTORE_OBJECTS_MAX: usize = 150;
/// The changes of this many publishes are more than a root holds, so a part is made anew at least once.
const PUBLISHES: u64 = 120;

/// The tuning of a test, but with a server's limits for file maps. The owner makes no request by itself.
fn server_tuning() -> Tuning {
    let server = Tuning::default();
    Tuning { map: server.map, alive_interval: Duration::from_secs(3600), gc: server.gc, ..quick() }
}

/// The newest root of `epoch`.
fn newest_root(bucket: &Bucket, epoch: u64) -> Root {
    let slots = block(list_root_slots(bucket, epoch)).unwrap();
    block(image::read_root(bucket, RootId { epoch, slot: *slots.last().unwrap() })).unwrap()
}

/// A bucket with one database that has `files` table files and a few more; only the few have an object.
fn bucket_with(files: u64, random: &mut Random) -> (Bucket, std::sync::Arc<StuckStore>) {
    let (bucket, store) = stuck_bucket(1000, REQUEST_TIMEOUT);
    let dir = scratch();
    let config = config(dir.path(), "first:1", Durability::Sync);
    let mut db = Db::open(open_store(&config, &bucket, server_tuning()).unwrap(), dir.path(), true);
    db.commit(&mut Model::default(), 0b11, 1, 10);
    db.flush(0, true);
    db.store.publish(WAIT).unwrap();
    crash(db);
    let root = newest_root(&bucket, 1);
    let mut map = MapWriter::new(1, Tuning::default().map);
    let mut changes: FileChanges =
        root.added.iter().map(|entry| (entry.number, Some(entry.record()))).collect();
    assert!(!changes.is_empty());
    let mut number = 1000;
    for _ in 0..files {
        number += 1 + random.below(4);
        // The objects are named as after a bulk load, because such names take most bytes.
        let key = object_key(1, &format!("s{number}"), "sst").into();
        changes.insert(
            number,
            Some(FileRecord { key, size: random.below(80 << 20), crc32c: 1, labels: Labels::default() }),
        );
    }
    map.apply(changes).unwrap();
    for part in map.unsent() {
        store.replace(&format!("db/{}", names::map_part(1, part.part)), part.bytes.to_vec());
    }
    let (added, map_in_parts) = map.content();
    let (files_count, slot) = (map.files().len() as u64, root.id.slot);
    let root = Root { files_count, map_in_parts, added, ..root };
    store.replace(&format!("db/{}", names::root(1, slot)), root.encode(&[7; 16]));
    (bucket, store)
}

/// Opens the database without a local directory. Also returns the number of objects that the restore read.
fn restore(dir: &Path, bucket: &Bucket, store: &StuckStore) -> (Db, usize) {
    store.forget();
    let heir = open_store(&config(dir, "heir:1", Durability::Sync), bucket, server_tuning()).unwrap();
    let read = ["/root/", "/map/", "/man/", "/wal/"].map(|part| store.seen(Verb::Get, part));
    assert!(heir.was_restored());
    eprintln!("a restore read {read:?} roots, parts of the map, pieces of the MANIFEST, objects of the WAL");
    (Db::open(heir, dir, false), read.iter().sum())
}

/// The most that one publish of ten changed files costs. `bytes`: sent to the bucket, without the table
/// files. `parts`: parts of the map that were sent. `entries`: entries of the map that were looked at.
/// `local_bytes`: written for the map in the local directory.
#[derive(Debug, Default)]
struct Cost {
    bytes: usize,
    parts: usize,
    entries: u64,
    local_bytes: u64,
}

/// Returns the bytes of ATOLL_FILES and of the parts that are new since `before`, and the names of all parts.
fn local_map_bytes(dir: &Path, before: &BTreeSet<String>) -> (u64, BTreeSet<String>) {
    let parts: Vec<_> =
        std::fs::read_dir(dir.join("db/ATOLL_MAP")).unwrap().map(|part| part.unwrap()).collect();
    let name = |part: &std::fs::DirEntry| part.file_name().into_string().unwrap();
    let new = parts.iter().filter(|part| !before.contains(&name(part)));
    let bytes: u64 = new.map(|part| part.metadata().unwrap().len()).sum();
    let files = std::fs::metadata(dir.join("db/ATOLL_FILES")).unwrap().len();
    (bytes + files, parts.iter().map(name).collect())
}

/// Publishes `publishes` times, each time after adding five files and removing five. Returns the most that
/// one publish cost.
fn cost_of_publishes(db: &Db, dir: &Path, store: &StuckStore, random: &mut Random, publishes: u64) -> Cost {
    let files = db.store.files();
    let mut live: Vec<u64> = files.list().into_iter().map(|(number, _)| number).collect();
    live.retain(|number| *number > 1000);
    let mut next = live.iter().max().unwrap() + 1000;
    let stats = db.store.shared().bucket.stats();
    let mut most = Cost::default();
    db.store.publish(WAIT).unwrap();
    eprintln!(
        "the first publish: {} bytes of root and parts",
        store.bytes_put("/root/") + store.bytes_put("/map/")
    );
    let (_, mut parts) = local_map_bytes(dir, &BTreeSet::new());
    for _ in 0..publishes {
        store.forget();
        let visited = read(&stats.map_entries_visited);
        for _ in 0..5 {
            next += 1;
            let path = dir.join(format!("db/{next:06}.sst"));
            std::fs::write(&path, b"a table").unwrap();
            files.add_file(next, &path).unwrap();
            live.push(next);
            let gone = live.swap_remove(random.below(live.len() as u64) as usize);
            files.remove_file(gone).unwrap();
        }
        db.store.publish(WAIT).unwrap();
        most.bytes = most.bytes.max(store.bytes_put("") - store.bytes_put("/sst/"));
        most.parts = most.parts.max(store.seen(Verb::Put, "/map/"));
        most.entries = most.entries.max(read(&stats.map_entries_visited) - visited);
        let local_bytes;
        (local_bytes, parts) = local_map_bytes(dir, &parts);
        most.local_bytes = most.local_bytes.max(local_bytes);
    }
    most
}

#[test]
fn a_publish_of_ten_files_of_a_hundred_thousand_sends_little_and_a_restore_reads_few_objects() {
    let mut random = Random::from_environment("a_publish_of_ten_files_of_a_hundred_thousand");
    let mut costs = Vec::new();
    for files in [10_000, 100_000] {
        let (bucket, store) = bucket_with(files, &mut random);
        let dir = scratch();
        let (db, _) = restore(dir.path(), &bucket, &store);
        let cost = cost_of_publishes(&db, dir.path(), &store, &mut random, PUBLISHES);
        eprintln!("{files} files: at most {cost:?}");
        assert!(cost.bytes <= PUBLISH_BYTES_MAX, "{files} files: {cost:?}");
        assert!(cost.local_bytes <= PUBLISH_BYTES_MAX as u64, "{files} files: {cost:?}");
        assert_eq!(cost.parts, 1, "{files} files: {cost:?}");
        let named: Vec<_> = db.store.files().list();
        lose(db, dir.path());
        let (heir, objects) = restore(dir.path(), &bucket, &store);
        assert!(objects <= RESTORE_OBJECTS_MAX, "{files} files: a restore read {objects} objects");
        assert_eq!(heir.store.files().list(), named);
        crash(heir);
        costs.push(cost);
    }
    let (few, many) = (&costs[0], &costs[1]);
    assert!(many.entries <= few.entries + few.entries / 2, "entries looked at: {few:?}, {many:?}");
}

/// The root of a small database holds the file map, so a publish puts only the root, and a piece of the
/// MANIFEST when that has grown.
#[test]
fn a_publish_of_a_small_database_is_one_request_beside_its_files_and_its_manifest() {
    let (bucket, store) = stuck_bucket(1000, REQUEST_TIMEOUT);
    let dir = scratch();
    let config = config(dir.path(), "owner:1", Durability::Local);
    let mut db = Db::open(open_store(&config, &bucket, server_tuning()).unwrap(), dir.path(), true);
    db.commit(&mut Model::default(), 0b11, 1, 10);
    db.store.publish(WAIT).unwrap();
    for number in 1000..1200 {
        let path = dir.path().join(format!("db/{number:06}.sst"));
        std::fs::write(&path, b"a table").unwrap();
        db.store.files().add_file(number, &path).unwrap();
    }
    let before = db.store.stats().roots_published;
    store.forget();
    db.store.publish(WAIT).unwrap();
    let puts = ["/root/", "/map/", "/man/"].map(|part| store.seen(Verb::Put, part));
    assert_eq!(puts[1..], [0, 0], "parts of the map, pieces of the MANIFEST");
    assert!(!dir.path().join("db/ATOLL_MAP").exists());
    let roots = db.store.stats().roots_published - before;
    assert!(puts[0] as u64 <= roots, "{puts:?}, {roots} roots");
    crash(db);
}

/// Parts of a map are in the bucket, but the root that would name them is not, so the next owner deletes the
/// parts.
#[test]
fn parts_of_a_root_that_never_came_are_collected() {
    let (bucket, store) = stuck_bucket(1000, REQUEST_TIMEOUT);
    let dir = scratch();
    let config = config(dir.path(), "owner:1", Durability::Local);
    let mut db = Db::open(open_store(&config, &bucket, quick()).unwrap(), dir.path(), true);
    let mut model = Model::default();
    db.commit(&mut model, 0b11, 1, 10);
    db.store.publish(WAIT).unwrap();
    let named = newest_root(&bucket, 1);
    store.hurt(Verb::Put, "/root/", 0, u32::MAX, Hurt::Hangs);
    for family in 2..8 {
        db.create_family(family);
        db.flush(family, true);
    }
    let parts = || -> Vec<(u64, u64)> {
        let objects = block(bucket.list(names::MAP_DIR, None)).unwrap();
        objects.iter().filter_map(|o| names::parse_slot(names::MAP_DIR, &o.key)).collect()
    };
    let is_named = |part: u64| named.map_parts().any(|named| named == part);
    let start = Instant::now();
    while parts().iter().all(|(_, part)| is_named(*part)) {
        assert!(start.elapsed() < WAIT, "no part was put");
        std::thread::sleep(Duration::from_millis(2));
    }
    crash(db);
    store.heal();
    let db = Db::open(open_store(&config, &bucket, quick()).unwrap(), dir.path(), true);
    db.check(&model, "after the crash");
    db.store.publish(WAIT).unwrap();
    let start = Instant::now();
    while parts().iter().any(|(epoch, _)| *epoch == 1) {
        assert!(start.elapsed() < WAIT, "orphans stay: {:?}", parts());
        std::thread::sleep(Duration::from_millis(10));
    }
    crash(db);
}

#[test]
fn a_part_that_is_absent_damaged_or_of_another_database_is_named_and_nothing_is_restored() {
    let (bucket, store) = bucket_with(2000, &mut Random::new(1));
    let root = newest_root(&bucket, 1);
    let key = names::map_part(1, root.map_parts().next().unwrap());
    let good = block(bucket.get(&key)).unwrap().to_vec();
    let mut flipped = good.clone();
    flipped[100] ^= 1;
    let mut part = MapPart::decode(&good).unwrap();
    part.entries[0].crc32c ^= 1;
    let of_another = part.encode(&[8; 16]);
    for (damage, expected) in [
        (None, "missing"),
        (Some(flipped), "checksum mismatch"),
        (Some(of_another), "another database"),
        (Some(good[..good.len() / 2].to_vec()), "truncated"),
    ] {
        match damage {
            None => block(bucket.delete(&key)).unwrap(),
            Some(bytes) => store.replace(&format!("db/{key}"), bytes),
        }
        let dir = scratch();
        let outcome = open_store(&config(dir.path(), "heir:1", Durability::Sync), &bucket, server_tuning());
        let Err(StoreError::Corruption(text)) = outcome else { panic!("{expected}: {:?}", outcome.err()) };
        assert!(text.contains(&key) && text.contains(expected), "{expected}: {text}");
        assert!(!dir.path().join("db").exists(), "{expected}: something was restored");
        let verified = block(Inspector::new(bucket.clone()).verify(false, |_, _| {}));
        assert!(verified.is_err(), "{expected}: {verified:?}");
    }
    store.replace(&format!("db/{key}"), good);
    let dir = scratch();
    let (db, _) = restore(dir.path(), &bucket, &store);
    assert_eq!(db.store.files().list().len() as u64, root.files_count);
    crash(db);
}

/// A root never names a part that is not in the bucket.
#[test]
fn a_root_waits_for_the_parts_that_it_names() {
    let (bucket, store) = stuck_bucket(1000, REQUEST_TIMEOUT);
    let dir = scratch();
    let config = config(dir.path(), "owner:1", Durability::Local);
    let mut db = Db::open(open_store(&config, &bucket, quick()).unwrap(), dir.path(), true);
    let mut model = Model::default();
    db.commit(&mut model, 0b11, 1, 10);
    db.store.publish(WAIT).unwrap();
    store.hurt(Verb::Put, "/map/", 0, u32::MAX, Hurt::Fails);
    for family in 2..8 {
        db.create_family(family);
        db.flush(family, true);
    }
    let wait_for_parts = |count: usize| {
        let start = Instant::now();
        while store.seen(Verb::Put, "/map/") < count {
            assert!(start.elapsed() < WAIT, "no part was tried {count} times");
            std::thread::sleep(Duration::from_millis(2));
        }
    };
    wait_for_parts(1); // Before that, a root without the new parts can still be published.
    store.forget();
    wait_for_parts(2);
    assert_eq!(store.seen(Verb::Put, "/root/"), 0, "a root came without its parts");
    store.heal();
    db.store.publish(WAIT).unwrap();
    assert_eq!(newest_root(&bucket, 1).files_count as usize, db.store.files().list().len());
    lose(db, dir.path());
    let (heir, _) = restore(dir.path(), &bucket, &store);
    heir.check(&model, "restored");
    crash(heir);
}
