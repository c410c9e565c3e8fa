//! Goal:   whatever a database does, and whenever it loses its process, its machine or its bucket for a
//!         while, no object that its newest root needs is ever missing, and after the grace time no needless
//!         object is left.
//! Method: random steps of create, drop, load, flush, crash and outage on a pretend RocksDB over a bucket in
//!         memory with faults. Besides, the test puts objects under names that were deleted, as late uploads
//!         do, begins uploads that nobody ends, and deletes tombs. `fsck` checks the bucket after every life
//!         and at the end. `ATOLL_SEED` repeats a run, `ATOLL_GC_STEPS` makes it longer.

use crate::config::{Durability, StoreConfig};
use crate::error::StoreError;
use crate::protocol::format::names;
use crate::protocol::gc::GcTuning;
use crate::protocol::inspection::fsck::{FsckOptions, FsckReport};
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::shared::Tuning;
use crate::protocol::testing::test_db::*;
use crate::protocol::testing::test_random::Random;
use crate::requests::bucket::Bucket;
use crate::requests::fault::{FaultStore, faulty_bucket};
use bytes::Bytes;
use object_store::memory::InMemory;
use object_store::multipart::MultipartStore;
use object_store::{ObjectStoreExt, path::Path};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const STEPS: u64 = 1000;
/// Steps in one bucket; then the test begins anew with an empty one.
const STEPS_PER_BUCKET: u64 = 250;
const STEPS_PER_LIFE: u64 = 60;
const NO_GRACE: FsckOptions =
    FsckOptions { deep: true, grace: Duration::ZERO, second_look: Duration::from_millis(1) };

/// A database and its bucket, which servers use one after the other. The time of one server is a life.
struct Lives {
    random: Random,
    bucket: Bucket,
    store: Arc<FaultStore<InMemory>>,
    dir: TempDir,
    model: Model,
    /// Keys of table files that were in the bucket at some time: late uploads may bring objects back under
    /// these keys.
    seen: BTreeSet<String>,
    lives: u64,
}

impl Lives {
    fn new(random: Random) -> Self {
        let (bucket, store) = faulty_bucket();
        let (model, seen) = Default::default();
        Self { random, bucket, store, dir: scratch(), model, seen, lives: 0 }
    }

    fn context(&self) -> String {
        format!("seed {}, life {}", self.random.seed, self.lives)
    }

    fn open(&mut self) -> Db {
        self.lives += 1;
        let gc = GcTuning {
            grace: Duration::from_millis(self.random.below(30)),
            search_interval: Duration::from_millis(10),
            ..quick_gc()
        };
        let tuning = Tuning { gc, ..quick() };
        let durability = [Durability::Async, Durability::Sync][self.random.below(2) as usize];
        let config: StoreConfig = config(self.dir.path(), &format!("server:{}", self.lives), durability);
        for _ in 0..100 {
            match open_store(&config, &self.bucket, tuning.clone()) {
                Ok(store) => {
                    let db = Db::open(store, self.dir.path(), self.random.below(2) == 0);
                    db.check(&self.model, &self.context());
                    return db;
                }
                Err(StoreError::Unavailable(_)) => {}
                Err(error) => panic!("{}: {error}", self.context()),
            }
        }
        panic!("{}: the database cannot be opened", self.context())
    }

    /// Runs one server for `steps` steps, until it crashes, closes or loses its directory. Afterwards the
    /// bucket has no faults, and `fsck` must find no problem.
    fn live(&mut self, steps: u64) {
        if self.random.below(2) == 0 {
            self.store.hurt_randomly(self.random.next(), 15);
        }
        let mut db = self.open();
        for _ in 0..steps {
            self.step(&mut db);
        }
        match self.random.below(4) {
            0 => crash(db),
            1 => {
                self.store.heal();
                db.store.close(WAIT).unwrap();
            }
            _ => lose(db, self.dir.path()),
        }
        self.store.heal();
        let report = fsck(&self.bucket);
        let problems = &report.verified.problems;
        assert!(problems.is_empty(), "{}: {problems:?}", self.context());
    }

    fn step(&mut self, db: &mut Db) {
        let families = db.families();
        let any = families[self.random.below(families.len() as u64) as usize];
        match self.random.below(20) {
            0 => {
                db.create_next_family();
            }
            1 if any >= FAMILIES => db.drop_family(any),
            2 => {
                db.load(any, self.random.below(3) > 0);
            }
            3 | 4 => {
                db.flush(any, true);
            }
            5 => db.delete_obsolete_wals(),
            6 => db.roll_manifest(),
            7 => db.store.publish(WAIT).unwrap(),
            8 => self.outage(db),
            9 if self.random.below(2) == 0 => self.begin_upload(),
            9 => self.put_stray(),
            10 => self.lose_tomb(),
            11 => std::thread::sleep(Duration::from_millis(self.random.below(20))),
            _ => {
                let bits = families.iter().fold(0, |bits, family| bits | 1 << family);
                let (key, value) = (self.random.below(20), self.random.next());
                let position = db.commit(&mut self.model, bits, key, value);
                if self.random.below(3) == 0 {
                    db.store.wait_shipped(position, WAIT).unwrap();
                }
            }
        }
    }

    /// Simulates a bucket that does not answer while the database goes on writing.
    fn outage(&mut self, db: &mut Db) {
        self.store.outage(true);
        for family in db.families() {
            db.commit(&mut self.model, 1 << family, self.random.below(20), self.random.next());
            db.flush(family, true);
        }
        std::thread::sleep(Duration::from_millis(self.random.below(40)));
        self.store.outage(false);
    }

    /// Simulates that an upload arrives which its owner has given up long ago.
    fn put_stray(&mut self) {
        let there: BTreeSet<String> = self.keys(names::FILE_DIR).into_iter().collect();
        let gone: Vec<String> = self.seen.difference(&there).cloned().collect();
        self.seen.extend(there);
        if !gone.is_empty() {
            let key = &gone[self.random.below(gone.len() as u64) as usize];
            let path = Path::from(format!("db/{key}"));
            block(self.store.inner.put(&path, Bytes::from_static(b"late").into())).unwrap();
        }
    }

    /// Simulates a process that dies in the middle of an upload.
    fn begin_upload(&mut self) {
        let key = format!("db/sst/00/{:020}-{}.sst", self.lives, self.random.next());
        // A fault of this request may hide that the upload was begun.
        let _ = block(self.store.create_multipart(&Path::from(key)));
    }

    fn lose_tomb(&self) {
        if let Some(key) = self.keys(names::TOMB_DIR).first() {
            let _ = block(self.store.inner.delete(&Path::from(format!("db/{key}"))));
        }
    }

    /// The names of the objects in `dir`, read without faults.
    fn keys(&self, dir: &str) -> Vec<String> {
        let objects = block(async {
            use futures_util::TryStreamExt;
            let folder = Path::from(format!("db/{}", dir.trim_end_matches('/')));
            object_store::ObjectStore::list(&*self.store.inner, Some(&folder)).try_collect::<Vec<_>>().await
        });
        objects.unwrap().iter().map(|meta| meta.location.as_ref()["db/".len()..].to_owned()).collect()
    }

    /// The last owner runs until the collector has deleted all orphans. Then the database is restored from
    /// the bucket alone. Returns the generator.
    fn end(mut self) -> Random {
        let mut db = self.open();
        db.commit(&mut self.model, 0b11, 1, 1);
        db.store.publish(WAIT).unwrap();
        let start = Instant::now();
        loop {
            let report = fsck(&self.bucket);
            if report.orphaned.is_empty()
                && report.pending.is_empty()
                && self.keys(names::TOMB_DIR).is_empty()
            {
                assert!(report.verified.problems.is_empty(), "{}: {report:?}", self.context());
                break;
            }
            assert!(start.elapsed() < WAIT, "{}: orphans stay: {report:?}", self.context());
            std::thread::sleep(Duration::from_millis(10));
        }
        lose(db, self.dir.path());
        let heir = self.open();
        assert_eq!(heir.last_seq, self.model.commits.len() as u64, "{}", self.context());
        crash(heir);
        self.random
    }
}

fn fsck(bucket: &Bucket) -> FsckReport {
    block(Inspector::new(bucket.clone()).fsck(NO_GRACE, |_, _| {})).unwrap()
}

#[test]
fn nothing_is_missing_and_no_orphan_outlives_the_grace_time() {
    let mut random = Random::from_environment("nothing_is_missing_and_no_orphan_outlives_the_grace_time");
    let steps = std::env::var("ATOLL_GC_STEPS").ok().and_then(|text| text.parse().ok()).unwrap_or(STEPS);
    let mut done = 0;
    while done < steps {
        let mut lives = Lives::new(random);
        let end = steps.min(done + STEPS_PER_BUCKET);
        while done < end {
            let life = (1 + lives.random.below(STEPS_PER_LIFE)).min(end - done);
            lives.live(life);
            done += life;
        }
        random = lives.end();
    }
}
