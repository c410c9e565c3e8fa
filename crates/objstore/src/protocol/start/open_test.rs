//! Goal:   an open treats the local directory and a live owner as the rules say; commits wait at the lag
//!         limit; a close ships the whole log.
//! Method: one scene per rule, on a bucket in memory, a failing one, or a directory.

use crate::config::{Durability, StoreConfig};
use crate::error::StoreError;
use crate::log::{Level, LogFn, silent};
use crate::protocol::start::claim::newest_epoch;
use crate::protocol::start::identity;
use crate::protocol::start::local;
use crate::protocol::start::open::{Options, open};
use crate::protocol::start::opener::Opener;
use crate::protocol::store::Store;
use crate::protocol::testing::test_db::*;
use crate::requests::bucket::Bucket;
use crate::requests::fault::{Fault, faulty_bucket};
use parking_lot::Mutex;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn polite(dir: &Path, server: &str) -> StoreConfig {
    StoreConfig { take_over: false, ..config(dir, server, Durability::Sync) }
}

fn open_db(bucket: &Bucket, dir: &Path) -> Db {
    Db::open(open_store(&config(dir, "owner:1", Durability::Sync), bucket, quick()).unwrap(), dir, true)
}

fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let copy = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_dir(&path, &copy);
        } else {
            // The copy fails when the table file moves into the cache meanwhile.
            let _ = fs::copy(&path, copy);
        }
    }
}

#[test]
fn a_live_owner_is_respected_and_named_until_it_is_closed() {
    let bucket = Bucket::in_memory();
    let (first, second) = (scratch(), scratch());
    let db = open_db(&bucket, first.path());
    let outcome = open_store(&polite(second.path(), "guest:1"), &bucket, quick());
    let Err(StoreError::Unavailable(message)) = outcome else { panic!("{:?}", outcome.err()) };
    assert!(message.contains("owner:1") && message.contains("atoll_take_over"), "{message}");
    let outcome = open_patiently(&polite(second.path(), "guest:1"), &bucket, quick());
    let Err(StoreError::ReadOnly(message)) = outcome else { panic!("{:?}", outcome.err()) };
    assert!(message.contains("owner:1") && message.contains("atoll_take_over"), "{message}");
    assert!(db.store.may_write().is_ok(), "a refused guest must not fence the owner");
    db.store.close(WAIT).unwrap();
    drop(
        open_store(&polite(second.path(), "guest:1"), &bucket, quick())
            .expect("nobody waits after a good-bye"),
    );
}

#[test]
fn a_bucket_that_refuses_deletions_is_opened_with_a_warning() {
    let (bucket, faults) = faulty_bucket();
    let (dir, told) = (scratch(), Arc::new(Mutex::new(String::new())));
    faults.refuse_deletes(true);
    let log: LogFn = {
        let told = Arc::clone(&told);
        Arc::new(move |_: Level, message: &str| told.lock().push_str(message))
    };
    for _ in 0..2 {
        let options = Options { tuning: quick(), ..Options::default() };
        let config = config(dir.path(), "owner:1", Durability::Sync);
        let store = open(&config, bucket.clone(), log.clone(), options).unwrap();
        assert!(store.stats().trim_disabled && told.lock().contains("deletes nothing, and the bucket grows"));
        store.close(WAIT).unwrap();
        told.lock().clear();
    }
}

#[test]
fn an_owner_that_died_is_succeeded_after_a_while_or_at_once_by_itself() {
    let bucket = Bucket::in_memory();
    let (first, second) = (scratch(), scratch());
    crash(open_db(&bucket, first.path()));
    let same = open_store(&polite(first.path(), "owner:1"), &bucket, quick());
    same.expect("its own former life is not waited for").kill();
    let began = Instant::now();
    let heir = open_patiently(&polite(second.path(), "heir:1"), &bucket, quick()).unwrap();
    assert!(began.elapsed() >= quick().alive_patience, "{:?}", began.elapsed());
    heir.kill();
}

#[test]
fn a_copied_directory_is_refused_while_its_original_runs() {
    let bucket = Bucket::in_memory();
    let dir = scratch();
    let (original, copy) = (dir.path().join("original"), dir.path().join("copy"));
    let mut model = Model::default();
    let mut db = open_db(&bucket, &original);
    db.commit(&mut model, 0b11, 1, 1);
    db.store.publish(WAIT).unwrap();
    copy_dir(&original.join("db"), &copy.join("db"));
    fs::copy(original.join("db.lock"), copy.join("db.lock")).unwrap();
    let objects = objects_but_hints(&bucket);
    // The copy is refused although it has the original's server id, as on a cloned machine, which has the
    // same host, port and process id.
    let outcome = open_patiently(&polite(&copy, "owner:1"), &bucket, quick());
    let Err(StoreError::ReadOnly(message)) = outcome else { panic!("{:?}", outcome.err()) };
    assert!(message.contains("is a copy") && message.contains("atoll_take_over=ON"), "{message}");
    assert_eq!(objects_but_hints(&bucket), objects, "the bucket has changed");
    db.commit(&mut model, 0b11, 2, 2);
    db.store.wait_shipped(db.store.wal_position(), WAIT).expect("the original owns the database");
    db.store.close(WAIT).unwrap();
    // After the original's good-bye a copy may start. It finds also what was written after the copy was made.
    let store =
        open_store(&polite(&copy, "owner:1"), &bucket, quick()).expect("nobody waits after a good-bye");
    Db::open(store, &copy, true).check(&model, "the copy");
}

fn objects_but_hints(bucket: &Bucket) -> Vec<String> {
    let objects = block(bucket.list("", None)).unwrap();
    objects.into_iter().map(|object| object.key).filter(|key| !key.starts_with("hint/")).collect()
}

#[test]
fn a_server_that_fails_to_open_for_hours_takes_one_epoch() {
    let (bucket, store) = faulty_bucket();
    let (first, second) = (scratch(), scratch());
    let mut model = Model::default();
    let mut db = open_db(&bucket, first.path());
    db.commit(&mut model, 0b11, 1, 1);
    db.store.publish(WAIT).unwrap();
    db.store.close(WAIT).unwrap();
    let opener = Opener::default();
    let try_to_open = || {
        let options = Options { tuning: quick(), opener: opener.clone(), ..Options::default() };
        open(&polite(second.path(), "heir:1"), bucket.clone(), silent(), options)
    };
    // Each attempt fails one request later: before the claim, during it or after it, until one succeeds.
    let mut tries = 0;
    let heir = loop {
        for position in tries..tries + 200 {
            store.hurt(position, Fault::LostRequest);
        }
        match try_to_open() {
            Ok(heir) => break heir,
            Err(error) => assert!(matches!(error, StoreError::Unavailable(_)), "try {tries}: {error}"),
        }
        store.heal();
        tries += 1;
        assert!(tries < 200, "no attempt succeeds");
    };
    store.heal();
    assert!(tries > 10, "only {tries} requests until the database was open");
    assert_eq!(block(newest_epoch(&bucket)).unwrap(), 2, "after {tries} failed attempts");
    Db::open(heir, second.path(), true).check(&model, "the heir");
}

#[test]
fn one_directory_has_one_process() {
    let bucket = Bucket::in_memory();
    let dir = scratch();
    let _db = open_db(&bucket, dir.path());
    let outcome = open_store(&config(dir.path(), "twin:1", Durability::Sync), &bucket, quick());
    assert!(matches!(outcome, Err(StoreError::ReadOnly(_))), "{:?}", outcome.err());
}

#[test]
fn a_directory_of_another_database_is_refused() {
    let (bucket, other) = (Bucket::in_memory(), Bucket::in_memory());
    let dir = scratch();
    crash(open_db(&bucket, dir.path()));
    let refused = |bucket: &Bucket| match open_store(&polite(dir.path(), "owner:1"), bucket, quick()) {
        Err(StoreError::Invalid(message)) => message,
        outcome => panic!("{:?}", outcome.err()),
    };
    assert!(refused(&other).contains("holds no database"));
    block(identity::read_or_create(&other)).unwrap();
    assert!(refused(&other).contains("but memory holds database"));
}

#[test]
fn a_directory_of_somebody_else_is_not_touched() {
    let bucket = Bucket::in_memory();
    let dir = scratch();
    fs::create_dir_all(dir.path().join("db")).unwrap();
    fs::write(dir.path().join("db/precious"), b"data").unwrap();
    let outcome = open_store(&polite(dir.path(), "owner:1"), &bucket, quick());
    assert!(matches!(outcome, Err(StoreError::Invalid(_))), "{:?}", outcome.err());
    assert_eq!(fs::read(dir.path().join("db/precious")).unwrap(), b"data");
}

#[test]
fn a_directory_that_another_owner_overtook_is_set_aside() {
    let bucket = Bucket::in_memory();
    let (first, second) = (scratch(), scratch());
    let mut model = Model::default();
    let mut db = open_db(&bucket, first.path());
    db.commit(&mut model, 0b11, 1, 1);
    db.store.publish(WAIT).unwrap();
    crash(db);
    let mut db = open_db(&bucket, second.path());
    db.commit(&mut model, 0b11, 2, 2);
    db.store.publish(WAIT).unwrap();
    lose(db, second.path());
    let db = open_db(&bucket, first.path());
    assert!(db.store.was_restored());
    db.check(&model, "rebuilt");
    assert_eq!(db.last_seq, 2);
    assert!(first.path().join("db.stale-1/CURRENT").exists(), "the stale directory is kept");
}

#[test]
fn an_old_copy_of_the_directory_is_set_aside_even_in_the_same_epoch() {
    let bucket = Bucket::in_memory();
    let dir = scratch();
    let mut model = Model::default();
    let mut db = open_db(&bucket, dir.path());
    db.commit(&mut model, 0b11, 1, 1);
    db.store.publish(WAIT).unwrap();
    copy_dir(&dir.path().join("db"), &dir.path().join("copy"));
    db.commit(&mut model, 0b11, 2, 2);
    db.flush(0, true);
    db.store.publish(WAIT).unwrap();
    lose(db, dir.path());
    fs::rename(dir.path().join("copy"), dir.path().join("db")).unwrap();
    let db = open_db(&bucket, dir.path());
    assert!(db.store.was_restored());
    db.check(&model, "rebuilt");
    assert_eq!(db.last_seq, 2);
}

#[test]
fn a_restore_that_was_interrupted_starts_again() {
    let bucket = Bucket::in_memory();
    let dir = scratch();
    let mut model = Model::default();
    let mut db = open_db(&bucket, dir.path());
    db.commit(&mut model, 0b11, 1, 1);
    db.store.publish(WAIT).unwrap();
    lose(db, dir.path());
    let half = local::sibling(&dir.path().join("db"), "restoring");
    fs::create_dir_all(&half).unwrap();
    fs::write(half.join("CURRENT"), b"MANIFEST-999999\n").unwrap();
    let db = open_db(&bucket, dir.path());
    db.check(&model, "after an interrupted restore");
    assert_eq!(db.last_seq, 1);
    assert!(!half.exists());
}

#[test]
fn lost_file_map_is_taken_from_the_bucket() {
    let bucket = Bucket::in_memory();
    let dir = scratch();
    let mut model = Model::default();
    let mut db = open_db(&bucket, dir.path());
    db.commit(&mut model, 0b11, 1, 1);
    db.flush(0, true);
    db.store.close(WAIT).unwrap();
    fs::remove_file(dir.path().join("db/ATOLL_FILES")).unwrap();
    let db = open_db(&bucket, dir.path());
    assert!(!db.store.was_restored());
    db.check(&model, "without ATOLL_FILES");
}

#[test]
fn a_clean_close_leaves_nothing_behind_in_any_durability() {
    for durability in [Durability::Local, Durability::Async, Durability::Sync] {
        let bucket = Bucket::in_memory();
        let dir = scratch();
        let mut model = Model::default();
        let config = config(dir.path(), "owner:1", durability);
        let mut db = Db::open(open_store(&config, &bucket, quick()).unwrap(), dir.path(), true);
        for key in 0..50 {
            db.commit(&mut model, 0b11, key, key);
        }
        db.flush(1, false);
        db.commit(&mut model, 0b11, 7, 8);
        db.store.close(WAIT).unwrap();
        fs::remove_dir_all(dir.path().join("db")).unwrap();
        let db = Db::open(open_store(&config, &bucket, quick()).unwrap(), dir.path(), false);
        db.check(&model, "closed cleanly");
        assert_eq!(db.last_seq, 51, "{durability:?}");
    }
}

#[test]
fn the_lag_is_enforced_while_the_bucket_is_away_and_heals() {
    let (bucket, faults) = faulty_bucket();
    let dir = scratch();
    let mut model = Model::default();
    let mut settings = config(dir.path(), "owner:1", Durability::Async);
    settings.lag_max = Duration::from_millis(1000);
    let mut db = Db::open(open_store(&settings, &bucket, quick()).unwrap(), dir.path(), true);
    db.store.publish(WAIT).unwrap();
    faults.outage(true);
    let mut position = db.commit(&mut model, 0b11, 1, 1);
    db.store
        .after_commit(position, Duration::from_millis(100))
        .expect("within the lag a commit does not wait");
    std::thread::sleep(Duration::from_millis(1100));
    position = db.commit(&mut model, 0b11, 2, 2);
    let late = db.store.after_commit(position, Duration::from_millis(200));
    let Err(StoreError::Unavailable(message)) = late else { panic!("{late:?}") };
    assert!(message.contains("lags") && message.contains("Last error"), "{message}");
    assert!(db.store.stats().wal_lag_ms >= 1000 && db.store.stats().wal_lag_bytes > 0);
    faults.heal();
    db.store.after_commit(position, WAIT).expect("the bucket is back");
    db.store.wait_shipped(position, WAIT).unwrap();
    assert_eq!((db.store.stats().wal_lag_ms, db.store.stats().wal_lag_bytes), (0, 0));
    faults.outage(true);
    position = db.commit(&mut model, 0b11, 3, 3);
    db.store.set_durability(Durability::Local, Duration::from_secs(1), 1);
    db.store.after_commit(position, Duration::ZERO).expect("local promises nothing about the bucket");
    db.store.set_durability(Durability::Async, Duration::from_secs(1000), 10);
    let late = db.store.after_commit(position, Duration::from_millis(100));
    assert!(matches!(late, Err(StoreError::Unavailable(_))), "the limit in bytes: {late:?}");
    let closed = db.store.close(Duration::from_millis(300));
    assert!(matches!(closed, Err(StoreError::Unavailable(_))), "{closed:?}");
    faults.heal();
    let db = open_db(&bucket, dir.path());
    assert_eq!(db.last_seq, 3, "nothing is lost locally");
}

/// The bucket answers, but the owner had no time to send the last commit, which is on its local disk only.
#[test]
fn an_owner_that_closes_without_publishing_everything_does_not_say_good_bye() {
    let bucket = Bucket::in_memory();
    let (first, second) = (scratch(), scratch());
    let mut model = Model::default();
    let mut db = open_idle(&bucket, first.path(), false);
    db.store.set_durability(Durability::Local, Duration::from_secs(1), 1);
    db.commit(&mut model, 0b11, 1, 1);
    let closed = db.store.close(Duration::ZERO);
    assert!(matches!(closed, Err(StoreError::Unavailable(_))), "{closed:?}");
    drop(db);
    let outcome = open_store(&polite(second.path(), "guest:1"), &bucket, quick());
    let Err(StoreError::Unavailable(message)) = outcome else { panic!("{:?}", outcome.err()) };
    assert!(message.contains("owner:1"), "{message}");
    let db = open_db(&bucket, first.path());
    db.check(&model, "the owner's next start publishes it");
    db.store.close(WAIT).unwrap();
    open_store(&polite(second.path(), "guest:1"), &bucket, quick()).expect("nothing is missing now").kill();
}

#[test]
fn ddl_is_covered_by_a_root_before_it_is_acknowledged() {
    let bucket = Bucket::in_memory();
    let dir = scratch();
    let mut model = Model::default();
    let mut db = open_db(&bucket, dir.path());
    db.create_family(5);
    let position = db.commit(&mut model, 0b10_0011, 1, 1);
    db.store.wait_shipped(position, WAIT).unwrap();
    lose(db, dir.path());
    let db = open_db(&bucket, dir.path());
    db.check(&model, "after DDL");
    assert_eq!(db.last_seq, 1);
}

/// Opens a database that ships and publishes only when a thread waits for it.
fn open_idle(bucket: &Bucket, dir: &Path, flush: bool) -> Db {
    let mut tuning = quick();
    (tuning.ship_interval, tuning.settle_after_open) = (Duration::from_secs(3600), Duration::from_secs(3600));
    let config = config(dir, "owner:1", Durability::Async);
    Db::open(open_store(&config, bucket, tuning).unwrap(), dir, flush)
}

/// Loses the directory. The next server must find at least the commits up to `seq_min` in the bucket.
fn expect_after_loss(db: Db, bucket: &Bucket, dir: &Path, model: &Model, seq_min: u64, lost: &str) {
    lose(db, dir);
    let heir = open_idle(bucket, dir, true);
    heir.check(model, "after the loss");
    assert!(heir.last_seq >= seq_min, "{lost} is lost");
    crash(heir);
}

/// Commits that a former process acknowledged and did not ship are in the bucket before a new commit is
/// acknowledged.
#[test]
fn the_first_commit_after_a_crash_takes_the_former_ones_along() {
    let bucket = Bucket::in_memory();
    let dir = scratch();
    let mut model = Model::default();
    let mut db = open_idle(&bucket, dir.path(), false);
    let position = db.commit(&mut model, 0b11, 1, 1);
    db.store.after_commit(position, WAIT).unwrap();
    db.commit(&mut model, 0b11, 2, 2);
    db.sync();
    crash(db);
    let mut db = open_idle(&bucket, dir.path(), false);
    assert_eq!(db.last_seq, 2);
    let position = db.commit(&mut model, 0b11, 3, 3);
    db.store.after_commit(position, WAIT).unwrap();
    expect_after_loss(db, &bucket, dir.path(), &model, 2, "what the second process found at open");
}

/// The commits that the server's recovery adds before it lets clients in are also in the bucket before a new
/// commit is acknowledged.
#[test]
fn the_first_commit_after_a_crash_takes_recovered_ones_along() {
    let bucket = Bucket::in_memory();
    let dir = scratch();
    let mut model = Model::default();
    crash(open_idle(&bucket, dir.path(), false));
    let mut db = open_idle(&bucket, dir.path(), false);
    db.store.publish(WAIT).unwrap();
    db.commit(&mut model, 0b11, 1, 1);
    db.store.note_recovered();
    let position = db.commit(&mut model, 0b11, 2, 2);
    db.store.after_commit(position, WAIT).unwrap();
    expect_after_loss(db, &bucket, dir.path(), &model, 1, "what recovery committed");
}

/// The chunk is in the bucket but does not count as covered, because a restore of the newest root does not
/// replay it.
#[test]
fn shipped_wal_behind_an_unpublished_edit_is_not_covered() {
    let bucket = Bucket::in_memory();
    let dir = scratch();
    let mut model = Model::default();
    let mut db = open_db(&bucket, dir.path());
    let before = db.commit(&mut model, 0b11, 1, 1);
    db.store.publish(WAIT).unwrap();
    // The store is told that the MANIFEST has 1 MiB, more than the file has. So no root can be published from
    // here on.
    db.store.manifest_synced(db.current_manifest(), 1 << 20);
    db.store.note_ddl();
    let position = db.commit(&mut model, 0b11, 2, 2);
    db.sync();
    let waited = db.store.wait_shipped(position, Duration::from_millis(200));
    assert!(matches!(waited, Err(StoreError::Unavailable(_))), "{waited:?}");
    let shared = db.store.shared();
    let deadline = Instant::now() + WAIT;
    while shared.state.lock().wal.shipped() < position {
        assert!(Instant::now() < deadline, "the chunk is not shipped");
        std::thread::sleep(Duration::from_millis(2));
    }
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(shared.path.covered(), before);
    assert!(db.store.stats().wal_lag_bytes > 0);
    crash(db);
}

#[test]
fn a_directory_bucket_works_the_same_way() {
    let bucket_dir = scratch();
    let dir = scratch();
    let url = format!("file://{}", bucket_dir.path().join("bucket").display());
    let settings = StoreConfig { url, ..config(dir.path(), "owner:1", Durability::Local) };
    let mut model = Model::default();
    for round in 0..3 {
        let mut db = Db::open(Store::open(&settings, silent()).unwrap(), dir.path(), true);
        db.check(&model, "directory bucket");
        assert_eq!(db.last_seq, round * 3);
        for key in 0..3 {
            db.commit(&mut model, 0b11, key, round);
        }
        db.flush(0, true);
        db.store.close(WAIT).unwrap();
        if round == 1 {
            fs::remove_dir_all(dir.path().join("db")).unwrap();
        }
    }
}
