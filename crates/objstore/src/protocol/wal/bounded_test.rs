//! Goal:   the number of objects that a restore must read is bounded whatever the load was, and a request
//!         that gets stuck delays commits only a little.
//! Method: a store that counts requests by kind and name and lets chosen requests hang; limits of time have
//!         room to spare.

use crate::config::Durability;
use crate::error::StoreError;
use crate::protocol::format::image;
use crate::protocol::format::names;
use crate::protocol::format::records::RootId;
use crate::protocol::format::slots::list_root_slots;
use crate::protocol::shared::Tuning;
use crate::protocol::testing::test_db::*;
use crate::protocol::wal::wal_record::WalRun;
use crate::requests::bucket::Bucket;
use crate::requests::stuck::{Hurt, StuckStore, Verb, stuck_bucket};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The lag limit of these tests.
const LAG: Duration = Duration::from_secs(1);
/// How long a request of a real server may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// How often a measurement is tried: a machine that stands still for a moment spoils one attempt.
const ATTEMPTS: usize = 5;

/// Returns how long the commits of one second take when one PUT of a name that contains `part` hangs.
fn delay_by_a_stuck_put(durability: Durability, part: &'static str, context: &str) -> Duration {
    let (bucket, store) = stuck_bucket(1000, REQUEST_TIMEOUT);
    let dir = scratch();
    let mut config = config(dir.path(), "owner:1", durability);
    config.lag_max = LAG;
    let mut db = Db::open(open_store(&config, &bucket, quick()).unwrap(), dir.path(), true);
    let mut model = Model::default();
    db.store.publish(WAIT).unwrap();
    store.hurt(Verb::Put, part, 0, 1, Hurt::Hangs);
    // The new family makes a root necessary, the commit makes a chunk necessary.
    db.create_family(2);
    let position = db.commit(&mut model, 0b111, 1, 10);
    db.sync();
    let started = Instant::now();
    while started.elapsed() < LAG {
        db.store.after_commit(position, WAIT).unwrap_or_else(|e| panic!("{context}: {e}"));
        std::thread::sleep(Duration::from_millis(10));
    }
    db.store.after_commit(position, WAIT).unwrap_or_else(|e| panic!("{context}: {e}"));
    db.store.wait_shipped(position, WAIT).unwrap_or_else(|e| panic!("{context}: {e}"));
    let delay = started.elapsed();
    eprintln!("{context}: {delay:?}");
    delay
}

#[test]
fn one_stuck_request_delays_commits_by_less_than_twice_the_lag_limit() {
    for durability in [Durability::Sync, Durability::Async] {
        for part in ["/wal/", "/root/"] {
            let context = format!("{durability:?}, a PUT of {part}");
            let is_short = (0..ATTEMPTS).any(|_| delay_by_a_stuck_put(durability, part, &context) < 2 * LAG);
            assert!(is_short, "{context}");
        }
    }
}

#[test]
fn a_chunk_is_cut_four_times_per_lag_limit_unless_somebody_waits() {
    let (bucket, store) = stuck_bucket(1000, REQUEST_TIMEOUT);
    let dir = scratch();
    let mut config = config(dir.path(), "owner:1", Durability::Async);
    config.lag_max = LAG;
    let tuning = Tuning {
        ships_per_lag: 4,
        ship_bytes: 1 << 20,
        chunk_bytes_max: 1 << 20,
        merge: Tuning::default().merge,
        ..quick()
    };
    let mut db = Db::open(open_store(&config, &bucket, tuning).unwrap(), dir.path(), true);
    let mut model = Model::default();
    db.store.publish(WAIT).unwrap();
    store.forget();
    let started = Instant::now();
    let mut position = 0;
    while started.elapsed() < 2 * LAG {
        position = db.commit(&mut model, 0b11, 1, 10);
        db.sync();
        db.store.after_commit(position, WAIT).unwrap();
        std::thread::sleep(Duration::from_millis(5));
    }
    let intervals = started.elapsed().as_millis() / 250;
    let puts = store.seen(Verb::Put, "/wal/") as u128;
    // On a machine that is slow for a moment, a commit waits and gets its own chunk at once.
    assert!(puts <= 2 * intervals + 4, "{puts} chunks in {intervals} intervals");
    db.store.wait_shipped(position, WAIT).unwrap();
}

/// Opens a new database with durability `sync`. Returns its bucket, the store below the bucket, its
/// directory, the database, and a model without rows.
fn sync_owner(tuning: Tuning) -> (Bucket, Arc<StuckStore>, TempDir, Db, Model) {
    let (bucket, store) = stuck_bucket(1000, REQUEST_TIMEOUT);
    let dir = scratch();
    let config = config(dir.path(), "owner:1", Durability::Sync);
    let db = Db::open(open_store(&config, &bucket, tuning).unwrap(), dir.path(), true);
    (bucket, store, dir, db, Model::default())
}

/// How many objects a restore is allowed to read: roots, parts of the file map, pieces of the MANIFEST and
/// objects of the WAL together.
const RESTORE_OBJECTS_MAX: usize = 150;

/// The limits of a server, with the short intervals of a test.
fn server_tuning() -> Tuning {
    let server = Tuning::default();
    Tuning {
        merge: server.merge,
        map: server.map,
        manifest_chunks_max: server.manifest_chunks_max,
        ..quick()
    }
}

fn objects_read(store: &StuckStore) -> usize {
    let parts = ["/root/", "/map/", "/man/", "/wal/"];
    let [roots, maps, pieces, chunks] = parts.map(|part| store.seen(Verb::Get, part));
    eprintln!(
        "a restore read {roots} roots, {maps} parts of the map, {pieces} pieces of the MANIFEST, {chunks} objects of the WAL"
    );
    roots + maps + pieces + chunks
}

/// Restores into an empty directory, compares with the model, and returns the number of objects read.
fn restore(bucket: &Bucket, store: &StuckStore, model: &Model, commits: u64) -> usize {
    let dir = scratch();
    store.forget();
    let heir = open_store(&config(dir.path(), "heir:1", Durability::Sync), bucket, server_tuning()).unwrap();
    let read = objects_read(store);
    assert!(heir.was_restored());
    let db = Db::open(heir, dir.path(), false);
    db.check(model, "after the restore");
    assert_eq!(db.last_seq, commits, "a commit that was acknowledged is missing");
    crash(db);
    read
}

/// One family is flushed often, the other never. So every root adds a piece of the MANIFEST, and no WAL can
/// be deleted.
#[test]
fn a_restore_reads_few_objects_after_thousands_of_small_commits() {
    let (bucket, store, dir, mut db, mut model) = sync_owner(server_tuning());
    for commit in 0..4000 {
        let position = db.commit(&mut model, 0b11, commit % 50, commit);
        db.sync();
        db.store.after_commit(position, WAIT).unwrap();
        std::thread::sleep(Duration::from_millis(1)); // Real buckets are slower; the merger needs the time.
        if commit % 50 == 49 {
            db.flush(0, true);
        }
        if commit % 500 == 499 {
            // The bound must hold at any moment: the server could die now, whether or not a merge is on its
            // way.
            let objects = objects_to_read(&bucket);
            assert!(objects <= RESTORE_OBJECTS_MAX, "{objects} objects after {commit} commits");
        }
    }
    lose(db, dir.path());
    let read = restore(&bucket, &store, &model, 4000);
    assert!(read <= RESTORE_OBJECTS_MAX, "{read} objects");
}

/// The newest root of epoch 1, and the files it names.
fn newest_image(bucket: &Bucket) -> image::Image {
    let slots = block(list_root_slots(bucket, 1)).unwrap();
    block(image::load(bucket, RootId { epoch: 1, slot: *slots.last().unwrap() })).unwrap()
}

/// Returns how many objects a restore would read now. The objects are counted by their names, not by reading
/// them, because the owner goes on and deletes objects.
fn objects_to_read(bucket: &Bucket) -> usize {
    let root = newest_image(bucket).root;
    let count = |dir: &str| block(bucket.list(dir, None)).unwrap().into_iter().map(|o| o.key);
    let is_loose = |key: &String| {
        names::parse_slot(names::WAL_DIR, key).is_some_and(|(_, k)| k >= root.wal_loose_first())
    };
    let chunks = count(&names::wal_dir(1)).filter(is_loose).count();
    let pieces = count(&names::manifest_dir(1, root.manifest)).count();
    let roots = 1 + root.map_parts().count();
    eprintln!(
        "{roots} roots and parts of the map, {pieces} pieces of the MANIFEST, {} merged objects, {chunks} chunks",
        root.wal_runs.len()
    );
    roots + pieces + root.wal_runs.len() + chunks
}

/// A publish waits for uploads for as long as a load lasts; chunks are merged all the same.
#[test]
fn chunks_are_merged_while_a_publish_waits_for_an_upload() {
    let (bucket, store, dir, mut db, mut model) = sync_owner(server_tuning());
    db.store.publish(WAIT).unwrap();
    store.hurt(Verb::Put, "/sst/", 0, u32::MAX, Hurt::Hangs);
    db.flush(0, true);
    for commit in 0..1000 {
        let position = db.commit(&mut model, 0b11, commit % 50, commit);
        db.sync();
        db.store.after_commit(position, WAIT).unwrap();
    }
    // On a busy machine the merger can be late for a while. If it waited for the publish, it would never
    // catch up.
    let started = Instant::now();
    while objects_to_read(&bucket) > RESTORE_OBJECTS_MAX {
        assert!(started.elapsed() < WAIT, "{} objects", objects_to_read(&bucket));
        std::thread::sleep(Duration::from_millis(10));
    }
    lose(db, dir.path());
    let read = restore(&bucket, &store, &model, 1000);
    assert!(read <= RESTORE_OBJECTS_MAX, "{read} objects");
}

/// Roots are so slow that one merge takes as long as hundreds of chunks. One client commits, and each of its
/// commits gets a chunk of its own.
#[test]
fn one_client_that_commits_faster_than_chunks_are_merged_is_held_back() {
    let (bucket, store, dir, mut db, mut model) = sync_owner(server_tuning());
    db.store.publish(WAIT).unwrap();
    store.hurt(Verb::Put, "/root/", 0, u32::MAX, Hurt::Waits(Duration::from_millis(500)));
    let (started, mut commits, mut most) = (Instant::now(), 0, 0);
    while started.elapsed() < Duration::from_secs(8) {
        let position = db.commit(&mut model, 0b11, commits % 50, commits);
        db.sync();
        db.store.after_commit(position, WAIT).unwrap();
        commits += 1;
        if commits % 20 == 0 {
            most = most.max(objects_to_read(&bucket));
        }
    }
    assert!(commits > 200, "{commits} commits are no load");
    assert!(most <= RESTORE_OBJECTS_MAX, "{most} objects");
    lose(db, dir.path());
    let read = restore(&bucket, &store, &model, commits);
    assert!(read <= RESTORE_OBJECTS_MAX, "{read} objects");
}

/// Every request takes 30 ms, and commits come as fast as they can. So as many chunks arrive as may be in
/// flight, while each merge takes many round trips.
#[test]
fn a_bucket_with_latency_under_load_stays_bounded_all_the_time() {
    let (bucket, store) = stuck_bucket(1000, REQUEST_TIMEOUT);
    let dir = scratch();
    let mut config = config(dir.path(), "owner:1", Durability::Async);
    config.lag_bytes_max = 20_000;
    let mut db = Db::open(open_store(&config, &bucket, server_tuning()).unwrap(), dir.path(), true);
    let mut model = Model::default();
    db.store.publish(WAIT).unwrap();
    store.set_latency(Duration::from_millis(30));
    let mut most = 0;
    for round in 0..30 {
        for commit in 0..400 {
            let position = db.commit(&mut model, 0b11, commit % 50, round);
            db.sync();
            db.store.after_commit(position, WAIT).unwrap();
        }
        most = most.max(objects_to_read(&bucket));
        if round % 10 == 9 {
            db.flush(0, true);
        }
    }
    let shipped = db.store.stats().wal_chunks_shipped;
    assert!(shipped > 500, "{shipped} chunks are no load");
    assert!(most <= RESTORE_OBJECTS_MAX, "{most} objects");
    crash(db);
}

/// Without a pace, the first four commits get a chunk each at once, and the fifth commit waits for one of
/// those chunks.
#[test]
fn commits_that_arrive_together_share_a_chunk() {
    let Tuning { chunk_bytes_max, ship_bytes, ship_interval, chunks_in_flight, .. } = Tuning::default();
    let tuning = Tuning { chunk_bytes_max, ship_bytes, ship_interval, chunks_in_flight, ..quick() };
    let (_bucket, store, _dir, mut db, mut model) = sync_owner(tuning);
    let latency = Duration::from_millis(200);
    store.set_latency(latency);
    // The pace follows from the time that the first chunks took.
    for commit in 0..3 {
        let position = db.commit(&mut model, 0b11, commit, 0);
        db.sync();
        db.store.after_commit(position, WAIT).unwrap();
    }
    let before = db.store.stats().wal_chunks_shipped;
    let began = Instant::now();
    let mut arriving = Duration::ZERO;
    std::thread::scope(|scope| {
        let mut waiting = Vec::new();
        for commit in 0..16 {
            let position = db.commit(&mut model, 0b11, commit, 1);
            db.sync();
            let store = Arc::clone(&db.store);
            waiting.push(scope.spawn(move || store.after_commit(position, WAIT)));
            std::thread::sleep(Duration::from_millis(1));
        }
        arriving = began.elapsed();
        waiting.into_iter().for_each(|commit| commit.join().unwrap().unwrap());
    });
    let chunks = db.store.stats().wal_chunks_shipped - before;
    // On a busy machine the commits arrive over several intervals of the pace.
    let pace = latency.as_millis() / chunks_in_flight as u128;
    let most = 3 + (arriving.as_millis() / pace) as u64;
    assert!((1..=most).contains(&chunks), "{chunks} chunks for 16 commits within {arriving:?}");
    crash(db);
}

/// While nothing is written, no chunk arrives, so the merger sends no request.
#[test]
fn merging_costs_nothing_when_nothing_is_written() {
    let tuning = Tuning { alive_interval: Duration::from_secs(3600), ..server_tuning() };
    let (bucket, store, _dir, mut db, mut model) = sync_owner(tuning);
    for commit in 0..100 {
        let position = db.commit(&mut model, 0b11, commit, commit);
        db.sync();
        db.store.after_commit(position, WAIT).unwrap();
    }
    std::thread::sleep(Duration::from_millis(300));
    store.forget();
    std::thread::sleep(Duration::from_millis(500));
    let seen = [Verb::Get, Verb::Put, Verb::List].map(|verb| store.seen(verb, ""));
    assert_eq!(seen, [0, 0, 0], "GET, PUT, LIST of an idle server");
    let merged = block(bucket.list(names::WAL_DIR, None)).unwrap();
    assert!(merged.iter().any(|o| names::parse_merged_chunks(&o.key).is_some()), "{merged:?}");
}

#[test]
fn a_merged_object_that_is_absent_or_damaged_is_named_and_nothing_is_restored() {
    for damage in ["absent", "flipped", "another"] {
        let (bucket, store, dir, mut db, mut model) = sync_owner(quick());
        for commit in 0..60 {
            let position = db.commit(&mut model, 0b11, commit, commit);
            db.sync();
            db.store.after_commit(position, WAIT).unwrap();
        }
        let deadline = Instant::now() + WAIT;
        while newest_image(&bucket).root.wal_runs.len() < 2 {
            assert!(Instant::now() < deadline, "nothing is merged");
            std::thread::sleep(Duration::from_millis(10));
        }
        lose(db, dir.path());
        let image = newest_image(&bucket);
        let [first, second, ..] = image.root.wal_runs[..] else { panic!("{:?}", image.root.wal_runs) };
        let key = |run: WalRun| names::merged_chunks(1, run.first, run.end);
        let mut bytes = block(bucket.get(&key(first))).unwrap().to_vec();
        match damage {
            "absent" => block(bucket.delete(&key(first))).unwrap(),
            "flipped" => {
                let middle = bytes.len() / 2;
                bytes[middle] ^= 1;
                store.replace(&format!("db/{}", key(first)), bytes);
            }
            _ => store
                .replace(&format!("db/{}", key(first)), block(bucket.get(&key(second))).unwrap().to_vec()),
        }
        let error = block(image::read_wal(&bucket, &image.root, None, |_| Ok(()))).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, StoreError::Corruption(_)) && text.contains(&key(first)), "{damage}: {text}");
    }
}

/// A claim must not list chunks that wait for deletion, because their number has no bound.
#[test]
fn a_claim_does_not_list_chunks_that_nobody_needs() {
    let (bucket, store) = stuck_bucket(10, REQUEST_TIMEOUT);
    let dir = scratch();
    let config = config(dir.path(), "owner:1", Durability::Sync);
    let mut db = Db::open(open_store(&config, &bucket, quick()).unwrap(), dir.path(), true);
    let mut model = Model::default();
    for commit in 0..300 {
        db.commit(&mut model, 0b11, commit, commit);
        db.sync();
    }
    db.store.wait_shipped(db.store.wal_position(), WAIT).unwrap();
    db.flush(0, true);
    db.flush(1, true);
    db.delete_obsolete_wals();
    db.store.publish(WAIT).unwrap();
    lose(db, dir.path());
    let image = newest_image(&bucket);
    let needless = image.root.wal_first_chunk;
    assert!(needless > 50, "{needless} chunks");
    for chunk in 0..needless {
        store.replace(&format!("db/{}", names::wal_chunk(1, chunk)), vec![0; 200]);
    }
    store.forget();
    let restored = scratch();
    let heir = open_store(
        &crate::protocol::testing::test_db::config(restored.path(), "heir:1", Durability::Sync),
        &bucket,
        quick(),
    );
    let db = Db::open(heir.unwrap(), restored.path(), true);
    let pages = store.seen(Verb::List, names::wal_dir(1).trim_end_matches('/'));
    assert!(pages <= 2, "{pages} pages of ten chunks each were listed");
    db.check(&model, "after the claim");
    crash(db);
}
