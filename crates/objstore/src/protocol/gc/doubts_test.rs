//! Goal:   the collector destroys nothing that a pin keeps when the bucket answers wrongly: a listing without the
//!         pins, a root that is not found (GC-8), a root that is absent for a while (GC-9). An owner heeds
//!         releases of clones' pins only (PIN-4).
//! Method: the simulated database (test_db.rs) over a bucket in memory that answers chosen requests wrongly.

use crate::config::Durability;
use crate::log::Level;
use crate::protocol::format::names;
use crate::protocol::format::slots::exists;
use crate::protocol::gc::GcTuning;
use crate::protocol::history::pin::{self, Pin, PinKind};
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::shared::Tuning;
use crate::protocol::start::open::{Options, open};
use crate::protocol::testing::test_db::*;
use crate::requests::bucket::Bucket;
use crate::requests::stuck::{Hurt, StuckStore, Verb, stuck_bucket};
use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// An open database with a bucket that can lie, and what its owner has logged.
struct Fixture {
    bucket: Bucket,
    store: Arc<StuckStore>,
    dir: TempDir,
    model: Model,
    db: Db,
    errors: Arc<Mutex<Vec<String>>>,
}

fn tuning() -> Tuning {
    let gc = GcTuning { search_interval: Duration::from_millis(5), ..quick_gc() };
    Tuning { gc, alive_interval: WAIT, ..quick() }
}

impl Fixture {
    fn new() -> Self {
        let (bucket, store) = stuck_bucket(1000, Duration::from_secs(2));
        let (dir, errors) = (scratch(), Arc::default());
        let db = open_logging(&bucket, &dir, &errors);
        let mut fixture = Self { bucket, store, dir, model: Model::default(), db, errors };
        fixture.work();
        fixture
    }

    /// Ends the owner, and opens the database again.
    fn again(self, between: impl FnOnce(&Bucket, &StuckStore)) -> Self {
        let Self { bucket, store, dir, model, db, errors } = self;
        db.store.close(WAIT).unwrap();
        between(&bucket, &store);
        let db = open_logging(&bucket, &dir, &errors);
        Self { bucket, store, dir, model, db, errors }
    }

    /// Commits, flushes and publishes, which makes the former table files superfluous.
    fn work(&mut self) {
        for round in 0..3 {
            self.db.commit(&mut self.model, 0b11, round, self.db.last_seq);
            self.db.flush(0, true);
            self.db.flush(1, true);
            self.db.delete_obsolete_wals();
            self.db.store.publish(WAIT).unwrap();
        }
    }

    fn inspector(&self) -> Inspector {
        Inspector::new(self.bucket.clone())
    }

    fn is_whole(&self, snapshot: &str) -> bool {
        let report = block(self.inspector().verify_snapshot(snapshot, true, |_, _| {}));
        report.is_ok_and(|report| report.problems.is_empty())
    }

    fn files(&self) -> usize {
        block(self.bucket.list(names::FILE_DIR, None)).unwrap().len()
    }

    fn until(&mut self, what: &str, condition: impl Fn(&Self) -> bool) {
        let start = Instant::now();
        while !condition(self) {
            assert!(
                start.elapsed() < WAIT,
                "waited in vain: {what}: {} files, errors {:?}",
                self.files(),
                self.errors.lock()
            );
            self.work();
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the bucket has `files` table files: two for the newest root, and two for each snapshot.
    fn until_clean(&mut self, files: usize) {
        self.until("superfluous files are deleted", |f| f.files() == files);
    }
}

fn open_logging(bucket: &Bucket, dir: &TempDir, errors: &Arc<Mutex<Vec<String>>>) -> Db {
    let errors = Arc::clone(errors);
    let log = Arc::new(move |level: Level, text: &str| {
        if matches!(level, Level::Error) {
            errors.lock().push(text.to_owned());
        }
    });
    let options = Options { tuning: tuning(), ..Options::default() };
    let config = config(dir.path(), "owner:1", Durability::Sync);
    Db::open(open(&config, bucket.clone(), log, options).unwrap(), dir.path(), true)
}

#[test]
fn a_listing_that_hides_known_pins_is_not_believed() {
    let mut f = Fixture::new();
    block(f.inspector().create_snapshot("s", "tester")).unwrap();
    f.until_clean(4);
    for _ in 0..5 {
        f.store.hurt(Verb::List, "db/pin", 0, 2, Hurt::Lies);
        f.work();
        std::thread::sleep(Duration::from_millis(50));
        f.store.heal();
        assert!(f.is_whole("s"), "the collector has believed a listing without the pin");
    }
    f.until_clean(4);
    block(f.inspector().drop_snapshot("s")).unwrap();
    f.until_clean(2);
    crash(f.db);
}

#[test]
fn the_first_listing_of_a_process_needs_a_second_one_if_it_is_empty() {
    let mut f = Fixture::new();
    block(f.inspector().create_snapshot("s", "tester")).unwrap();
    f.until_clean(4);
    // A search and the batch behind it would otherwise get one wrong answer each.
    let mut f = f.again(|_, store| store.hurt(Verb::List, "db/pin", 0, 2, Hurt::Lies));
    for _ in 0..5 {
        f.work();
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(f.is_whole("s"), "the collector has believed a listing without the pin");
    f.until_clean(4);
    crash(f.db);
}

/// A process that begins reads the pin for a search, and again for the batch behind it.
#[test]
fn a_root_or_a_pin_that_one_answer_denies_is_not_given_up() {
    for part in ["the pin", "the root", "the MANIFEST"] {
        let mut f = Fixture::new();
        block(f.inspector().create_snapshot("s", "tester")).unwrap();
        f.until_clean(4);
        let (key, snapshot, _) = block(f.inspector().snapshot_image("s")).unwrap();
        let (verb, name) = match part {
            "the pin" => (Verb::Get, key),
            "the root" => (Verb::Get, names::root(snapshot.root.epoch, snapshot.root.slot)),
            _ => (Verb::List, names::MANIFEST_DIR.to_owned()),
        };
        let mut f = f.again(|_, store| store.hurt(verb, name.leak(), 0, 2, Hurt::Lies));
        for _ in 0..5 {
            f.work();
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(f.is_whole("s"), "wrong answers about {part}");
        f.until_clean(4);
        crash(f.db);
    }
}

/// Rule GC-9.
#[test]
fn a_snapshot_whose_root_is_absent_holds_everything_and_says_so() {
    let mut f = Fixture::new();
    block(f.inspector().create_snapshot("s", "tester")).unwrap();
    // The root of the snapshot must not be the newest one: a fence would take the place of that.
    f.work();
    f.until_clean(4);
    let (key, snapshot, _) = block(f.inspector().snapshot_image("s")).unwrap();
    let root = names::root(snapshot.root.epoch, snapshot.root.slot);
    let bytes = block(f.bucket.get(&root)).unwrap();
    let mut f = f.again(|bucket, _| block(bucket.delete(&root)).unwrap());
    let before = f.files();
    f.work();
    std::thread::sleep(Duration::from_millis(100));
    assert!(f.files() >= before + 4, "something was deleted");
    let told = f.errors.lock().clone();
    assert!(told.len() == 1 && told[0].contains(&root) && told[0].contains(&key), "{told:?}");
    let row = block(f.inspector().snapshots()).unwrap().remove(0);
    assert!(row.name == "s" && row.kind == "snapshot" && row.problem.contains(&root), "{row:?}");
    let nonce = bytes[12..28].try_into().unwrap();
    block(f.bucket.create_slot(&root, bytes.clone(), nonce)).unwrap();
    f.until_clean(4);
    assert!(f.is_whole("s"));
    crash(f.db);
}

/// Pins the newest root as `key`, for a program that dies, but too late: the root is kept, and the first piece of its
/// MANIFEST is deleted. Returns the key of that piece.
fn pin_late(f: &mut Fixture, key: &str) -> String {
    let moment = block(f.inspector().moment()).unwrap();
    let root = &moment.image.root;
    f.db.roll_manifest();
    f.db.store.publish(WAIT).unwrap();
    let piece = names::manifest_chunk(root.id.epoch, root.manifest, 0);
    block(f.bucket.delete(&piece)).unwrap();
    let pin = moment.pin(PinKind::Clone, "a place", "a program");
    assert!(block(f.inspector().put_pin(key, &pin)).unwrap());
    piece
}

#[test]
fn a_late_pin_of_a_program_that_copies_holds_nothing() {
    let mut f = Fixture::new();
    pin_late(&mut f, &pin::copy_key(&[7; 16]));
    f.until_clean(2);
    crash(f.db);
}

#[test]
fn a_late_pin_of_a_clone_is_reported_with_the_command_that_drops_it() {
    let mut f = Fixture::new();
    let key = pin::clone_key("dead");
    let piece = pin_late(&mut f, &key);
    let command = format!("atollctl snapshot drop URL {key} --pin");
    let names_both = |text: &str| text.contains(&piece) && text.contains(&command);
    f.until("the log names the pin", |f| f.errors.lock().iter().any(|text| names_both(text)));
    let before = f.files();
    f.work();
    assert!(f.files() > before, "nothing is deleted");
    let row = block(f.inspector().snapshots()).unwrap().into_iter().find(|row| row.pin == key).unwrap();
    assert!(names_both(&row.problem), "{row:?}");
    let plan = block(f.inspector().gc_plan()).unwrap();
    assert!(plan.pins == [key.clone()] && names_both(&plan.held_why), "{plan:?}");
    block(f.inspector().drop_pin(&key)).unwrap();
    f.until_clean(2);
    assert!(block(f.inspector().snapshots()).unwrap().is_empty());
    crash(f.db);
}

#[test]
fn the_pin_of_a_copying_program_that_is_a_day_old_is_reported() {
    let f = Fixture::new();
    let moment = block(f.inspector().moment()).unwrap();
    let hour_ms = 3_600_000;
    for (age_ms, is_old) in [(hour_ms, false), (25 * hour_ms, true)] {
        let key = pin::copy_key(&[u8::from(is_old); 16]);
        let made = moment.pin(PinKind::Clone, "copy in a place", "a copier");
        let pin = Pin { created_ms: made.created_ms - age_ms, ..made };
        block(f.inspector().put_pin(&key, &pin)).unwrap();
        let row = block(f.inspector().snapshots()).unwrap().into_iter().find(|row| row.pin == key).unwrap();
        let command = format!("atollctl snapshot drop URL {key} --pin");
        assert_eq!(row.problem.contains("a copier") && row.problem.contains(&command), is_old, "{row:?}");
        assert_eq!(row.problem.is_empty(), !is_old, "{row:?}");
    }
    crash(f.db);
}

#[test]
fn only_the_pin_of_a_clone_is_released() {
    let mut f = Fixture::new();
    block(f.inspector().create_snapshot("s", "tester")).unwrap();
    let later = crate::protocol::start::claim::wall_clock_ms() / 1000 + 3600;
    block(f.inspector().protect_snapshot("s", later)).unwrap();
    f.until_clean(4);
    let (key, _, _) = block(f.inspector().snapshot_image("s")).unwrap();
    let nonce = [7; 16];
    block(f.bucket.create_slot(&pin::release_key(&key), Bytes::from(nonce.to_vec()), &nonce)).unwrap();
    for _ in 0..3 {
        f.work();
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(f.is_whole("s"), "a protected snapshot was given up");
    f.until_clean(4);
    let is_there = |f: &Fixture| block(exists(&f.bucket, &pin::release_key(&key))).unwrap();
    f.until("the release that counts for nothing is deleted", |f| !is_there(f));
    crash(f.db);
}
