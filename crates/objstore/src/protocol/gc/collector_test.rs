//! Goal:   the collector deletes what nothing needs, after the grace time and not before. It keeps objects
//!         that are needed again. It deletes nothing while a pin forbids it, after a fence, and while the
//!         bucket refuses its requests. While the server runs, it finds strays: objects that nothing names.
//! Method: a simulated database (test_db.rs) over a bucket in memory whose requests are counted or made to
//!         fail. The tests put objects beside those of the protocol.

use crate::config::Durability;
use crate::error::StoreError;
use crate::protocol::format::names;
use crate::protocol::gc::GcTuning;
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::shared::Tuning;
use crate::protocol::testing::test_db::*;
use crate::requests::bucket::Bucket;
use crate::requests::fault::{Fault, FaultStore, faulty_bucket};
use bytes::Bytes;
use object_store::memory::InMemory;
use object_store::multipart::MultipartStore;
use object_store::{ObjectStoreExt, path::Path};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// An open database that has published.
struct Fixture {
    db: Db,
    model: Model,
    bucket: Bucket,
    store: Arc<FaultStore<InMemory>>,
    dir: TempDir,
}

impl Fixture {
    fn new(gc: GcTuning) -> Self {
        let (bucket, store) = faulty_bucket();
        Self::over(bucket, store, scratch(), Model::default(), gc)
    }

    fn over(
        bucket: Bucket,
        store: Arc<FaultStore<InMemory>>,
        dir: TempDir,
        model: Model,
        gc: GcTuning,
    ) -> Self {
        // With a long `alive_interval`, the task that looks for other owners never runs in this test. So only
        // the collector can notice a successor while the owner is idle.
        let tuning = Tuning { gc, alive_interval: WAIT, ..quick() };
        let opened = open_store(&config(dir.path(), "owner:1", Durability::Sync), &bucket, tuning).unwrap();
        let db = Db::open(opened, dir.path(), true);
        let mut fixture = Self { db, model, bucket, store, dir };
        fixture.work(1);
        fixture
    }

    /// Commits, flushes and publishes, which makes the former table file and some WAL superfluous.
    fn work(&mut self, rounds: u64) {
        for round in 0..rounds {
            self.db.commit(&mut self.model, 0b11, round, round);
            self.db.flush(0, true);
            self.db.flush(1, true);
            self.db.delete_obsolete_wals();
            self.db.store.publish(WAIT).unwrap();
        }
    }

    fn put(&self, key: &str, text: &str) {
        let bytes = Bytes::from(text.to_owned());
        block(self.store.inner.put(&Path::from(format!("db/{key}")), bytes.into())).unwrap();
    }

    fn keys(&self, dir: &str) -> Vec<String> {
        let bucket = Bucket::clone(&self.bucket);
        block(bucket.list(dir, None)).unwrap().into_iter().map(|object| object.key).collect()
    }

    fn until(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let start = Instant::now();
        while !condition(self) {
            assert!(start.elapsed() < WAIT, "waited in vain: {what}");
            std::thread::sleep(Duration::from_millis(3));
        }
    }

    /// Returns how many files below `sst/` are superfluous: all but two, because the database has one live
    /// table file in each of its two families.
    fn superfluous_files(&self) -> usize {
        self.keys(names::FILE_DIR).len() - 2
    }
}

fn searching() -> GcTuning {
    GcTuning { search_interval: Duration::from_millis(5), ..quick_gc() }
}

#[test]
fn a_superfluous_object_is_tombed_first_and_deleted_after_the_grace_time() {
    let grace = Duration::from_millis(400);
    let mut f = Fixture::new(GcTuning { grace, ..quick_gc() });
    let start = Instant::now();
    f.work(3);
    f.until("tombs", |f| !f.keys(names::TOMB_DIR).is_empty());
    let superfluous = f.superfluous_files();
    assert!(start.elapsed() > grace || superfluous >= 3, "{superfluous} files left within the grace time");
    f.until("deleted", |f| f.superfluous_files() == 0 && f.keys(names::TOMB_DIR).is_empty());
    assert!(start.elapsed() >= grace);
    crash(f.db);
}

#[test]
fn what_is_needed_again_when_the_grace_time_is_over_stays() {
    let mut f = Fixture::new(quick_gc());
    f.until("the files of the start are gone", |f| f.superfluous_files() == 0);
    let root = names::root(1, f.db.store.shared().published_slot());
    let live = f.keys(names::FILE_DIR);
    let proposed = [live.clone(), vec![root.clone(), names::epoch(1), "backup.tar".to_owned()]].concat();
    f.put("backup.tar", "x");
    f.put("sst/00/00000000000000000001-99.sst", "stray");
    f.db.store.shared().inbox.propose(proposed);
    f.db.store.shared().inbox.propose(["sst/00/00000000000000000001-99.sst".to_owned()]);
    f.until("the stray is deleted", |f| !f.keys(names::FILE_DIR).iter().any(|key| key.contains("-99")));
    f.until("worked off", |f| f.keys(names::TOMB_DIR).is_empty());
    for key in live.iter().chain([&root, &names::epoch(1), &"backup.tar".to_owned()]) {
        assert!(f.keys("").contains(key), "{key} was deleted");
    }
    f.work(1);
    crash(f.db);
}

#[test]
fn a_pin_of_any_kind_holds_everything_until_it_is_gone() {
    let mut f = Fixture::new(searching());
    f.put("pin/x", "");
    f.put("sst/00/00000000000000000001-99.sst", "stray");
    let before = f.keys(names::FILE_DIR).len();
    f.work(3);
    std::thread::sleep(Duration::from_millis(150));
    assert!(f.keys(names::FILE_DIR).len() >= before + 3, "something was deleted");
    block(f.bucket.delete("pin/x")).unwrap();
    f.until("all is deleted", |f| f.superfluous_files() == 0);
    crash(f.db);
}

/// The strays are late uploads, pieces of a MANIFEST that no root names, and roots whose tomb was lost.
#[test]
fn strays_are_found_while_the_server_runs() {
    let mut f = Fixture::new(searching());
    for round in 0..8 {
        let position = f.db.commit(&mut f.model, 0b11, round, round);
        f.db.store.wait_shipped(position, WAIT).unwrap();
        f.work(1);
    }
    f.until("swept", |f| f.superfluous_files() == 0 && f.keys(names::TOMB_DIR).is_empty());
    let strays = [
        "sst/00/00000000000000000001-99.sst".to_owned(),
        names::manifest_chunk(1, names::ManifestCopy { number: 1, copy: 0 }, 77),
        names::root(1, 1),
        names::wal_chunk(1, 0),
        names::merged_chunks(1, 0, 1),
    ];
    for key in &strays {
        f.put(key, "stray");
    }
    f.work(1);
    for key in &strays {
        f.until(key, |f| !f.keys("").contains(key));
    }
    crash(f.db);
}

#[test]
fn tombs_of_former_owners_are_worked_off_whatever_stands_in_them() {
    let f = Fixture::new(GcTuning { grace: WAIT, ..quick_gc() });
    let needed = names::root(1, 0);
    f.put("sst/00/00000000000000000001-98.sst", "old");
    f.put(&names::tomb(1, 1000), "abcdefghijklmnop\nsst/00/00000000000000000001-98.sst");
    f.put(&names::tomb(1, 1001), &format!("abcdefghijklmnop\n{needed}"));
    f.put(&names::tomb(1, 1002), "\u{1}");
    let Fixture { db, model, bucket, store, dir } = f;
    crash(db);
    let f = Fixture::over(bucket, store, dir, model, quick_gc());
    f.until("worked off", |f| f.keys(names::TOMB_DIR).is_empty());
    assert!(f.keys("").contains(&needed));
    assert!(!f.keys("").contains(&"sst/00/00000000000000000001-98.sst".to_owned()));
    crash(f.db);
}

#[test]
fn a_fenced_owner_deletes_nothing() {
    let mut f = Fixture::new(GcTuning { grace: Duration::from_millis(300), ..quick_gc() });
    f.work(3);
    f.until("tombs", |f| !f.keys(names::TOMB_DIR).is_empty());
    let other = scratch();
    let slow = Tuning { gc: GcTuning { grace: WAIT, ..quick_gc() }, ..quick() };
    let heir = open_store(&config(other.path(), "heir:1", Durability::Sync), &f.bucket, slow).unwrap();
    let before = f.keys(names::FILE_DIR);
    f.until("fenced", |f| matches!(f.db.store.may_write(), Err(StoreError::Fenced(_))));
    std::thread::sleep(Duration::from_millis(400));
    let after = f.keys(names::FILE_DIR);
    assert!(before.iter().all(|key| after.contains(key)), "{before:?} {after:?}");
    heir.kill();
    crash(f.db);
}

#[test]
fn a_bucket_that_refuses_deletions_gets_few_of_them_and_is_told() {
    let gc = GcTuning { retry_max: Duration::from_secs(2), ..quick_gc() };
    let mut f = Fixture::new(gc);
    f.until("swept", |f| f.superfluous_files() == 0 && f.keys(names::TOMB_DIR).is_empty());
    let counts = |f: &Fixture| (f.db.store.stats().requests_list, f.db.store.stats().requests_delete);
    let (start, before) = (Instant::now(), counts(&f));
    f.store.refuse_deletes(true);
    f.work(20);
    f.until("told", |f| f.db.store.stats().trim_disabled);
    while start.elapsed() < Duration::from_secs(1) {
        f.work(1);
    }
    // The collector sends one LIST of the pins before each batch, so the LISTs count the batches. The pauses
    // after failures are 10 ms, 20 ms, 40 ms and so on. If the pauses did not grow, there would be about a
    // hundred batches in a second.
    let (lists, deletes) = counts(&f);
    let batches_max = u64::from((start.elapsed().as_millis() as u64 / 10).ilog2()) + 10;
    assert!(lists - before.0 <= batches_max, "{} batches in {:?}", lists - before.0, start.elapsed());
    assert!(deletes - before.1 <= 8 * batches_max, "{} deletions", deletes - before.1);
    f.store.refuse_deletes(false);
    f.until("deleted", |f| f.superfluous_files() == 0);
    assert!(!f.db.store.stats().trim_disabled);
    crash(f.db);
}

#[test]
fn pieces_of_uploads_that_nobody_goes_on_with_are_taken_away() {
    let mut f = Fixture::new(searching());
    let begin = |key: &str| block(f.store.create_multipart(&Path::from(format!("db/{key}")))).unwrap();
    for key in ["sst/00/00000000000000000000-1.sst", "sst/00/00000000000000000001-99.sst"] {
        begin(key);
    }
    for key in ["sst/00/00000000000000000002-1.sst", "sst/readme", "backup.tar"] {
        begin(key);
    }
    f.work(1);
    f.until("those of this epoch and former ones are aborted", |f| f.store.unfinished_count() == 3);
    f.work(2);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(f.store.unfinished_count(), 3, "those of later owners and of others stay");
    crash(f.db);
}

/// An upload that fails is aborted at the collector's next turn, without a search.
#[test]
fn a_failed_upload_leaves_no_pieces() {
    let mut f = Fixture::new(quick_gc());
    let path = f.dir.path().join("large");
    std::fs::write(&path, vec![7; crate::requests::upload::PIECE_BYTES as usize + 1]).unwrap();
    for position in 1..60 {
        f.store.hurt(position, Fault::Busy);
    }
    block(f.bucket.put_file("sst/00/00000000000000000001-99.sst", &path, &[])).unwrap_err();
    assert_eq!(f.store.unfinished_count(), 1);
    f.store.heal();
    f.work(1);
    f.until("aborted", |f| f.store.unfinished_count() == 0);
    crash(f.db);
}

#[test]
fn the_plan_tells_what_waits_and_a_pause_holds_it() {
    let mut f = Fixture::new(GcTuning { grace: Duration::from_millis(50), ..quick_gc() });
    let inspector = Inspector::new(f.bucket.clone());
    // A pause that was ended before: the DELETE of its pin lands again later.
    block(inspector.pause_collector()).unwrap();
    let ended = f.keys(names::PIN_DIR);
    block(inspector.resume_collector()).unwrap();
    block(inspector.pause_collector()).unwrap();
    ended.iter().for_each(|key| block(f.bucket.delete(key)).unwrap());
    f.work(3);
    f.until("tombs", |f| {
        let plan = block(Inspector::new(f.bucket.clone()).gc_plan()).unwrap();
        plan.tombed.iter().filter(|object| object.key.starts_with(names::FILE_DIR)).count() >= 3
    });
    std::thread::sleep(Duration::from_millis(100));
    f.put("sst/00/00000000000000000001-99.sst", "stray");
    let plan = block(inspector.gc_plan()).unwrap();
    assert_eq!(plan.pins.len(), 1);
    assert!(plan.strays.iter().any(|object| object.key.contains("-99")), "{plan:?}");
    assert_eq!(
        plan.tombed.iter().filter(|o| o.key.starts_with(names::FILE_DIR)).count() + 1,
        f.superfluous_files()
    );
    block(f.bucket.delete("sst/00/00000000000000000001-99.sst")).unwrap();
    block(inspector.resume_collector()).unwrap();
    f.until("deleted", |f| f.superfluous_files() == 0 && f.keys(names::TOMB_DIR).is_empty());
    let plan = block(inspector.gc_plan()).unwrap();
    assert!(plan.tombed.is_empty() && plan.pins.is_empty(), "{plan:?}");
    crash(f.db);
}

/// After a publish the collector searches twice, and then no more.
#[test]
fn an_idle_collector_sends_no_request() {
    let mut f = Fixture::new(searching());
    f.work(3);
    f.until("swept", |f| f.superfluous_files() == 0 && f.keys(names::TOMB_DIR).is_empty());
    std::thread::sleep(Duration::from_millis(200));
    let lists = f.db.store.stats().requests_list;
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(f.db.store.stats().requests_list, lists, "an idle collector lists");
    crash(f.db);
}
