//! Goal:   with a history, the state after every commit can be restored, while compactions, changes of
//!         definitions and the collector go on. Objects that only the history keeps are deleted when the
//!         history is switched off. A moment that cannot be restored is refused with a reason.
//! Method: the simulated database (test_db.rs) writes groups of commits into its log and notes them. Random
//!         moments are cloned, and the clones' logs are read.

use crate::config::{Durability, StoreConfig};
use crate::error::{Result, StoreError};
use crate::protocol::Random;
use crate::protocol::format::image;
use crate::protocol::format::names;
use crate::protocol::format::records::RootId;
use crate::protocol::gc::HistoryLimits;
use crate::protocol::history::clone::{CloneRequest, CloneStatus};
use crate::protocol::history::past::Past;
use crate::protocol::history::rewind::RewindRequest;
use crate::protocol::history::snapshot_test::{Fixture, NOW};
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::shared::Tuning;
use crate::protocol::testing::test_db::*;
use crate::protocol::wal::marks::Gtid;
use crate::requests::bucket::Bucket;
use std::time::{Duration, Instant};

pub(super) const HOUR: HistoryLimits =
    HistoryLimits { retention: Duration::from_secs(3600), bytes_max: u64::MAX };

/// A database with a history. Its commit number n has the time `base_us` + n microseconds and the GTID 0-1-n.
pub(super) struct Ledger {
    pub(super) f: Fixture,
    pub(super) base_us: u64,
    pub(super) commits: u64,
    clones: u32,
}

impl Ledger {
    fn new(limits: HistoryLimits) -> Self {
        Self::of(Fixture::keeping(limits))
    }

    /// A ledger whose commits are in a new WAL, because those of the fixture are no records of RocksDB.
    pub(super) fn of(f: Fixture) -> Self {
        let mut ledger = Self { f, base_us: now_us(), commits: 0, clones: 0 };
        ledger.flush();
        ledger
    }

    /// Makes a group of commits that stays in the log. Waits for nothing.
    pub(super) fn commit(&mut self, count: u64) {
        let db = &mut self.f.db;
        db.commit_group(self.base_us + self.commits + 1, self.commits + 1, count);
        self.commits += count;
        db.sync();
    }

    pub(super) fn flush(&mut self) {
        let db = &mut self.f.db;
        for family in db.families() {
            db.flush(family, true);
        }
        db.delete_obsolete_wals();
    }

    /// Flushes what is in memory, and then makes some groups of commits, which stay in the log.
    fn work(&mut self, random: &mut Random) {
        self.flush();
        let db = &mut self.f.db;
        if random.below(4) == 0 && db.create_next_family() {
            db.store.publish(WAIT).unwrap();
        }
        for _ in 0..=random.below(3) {
            self.commit(1 + random.below(4));
        }
        let db = &mut self.f.db;
        db.store.wait_shipped(db.store.wal_position(), WAIT).unwrap();
        db.store.publish(WAIT).unwrap();
    }

    pub(super) fn clone_at(&mut self, past: Past) -> Result<(Bucket, CloneStatus)> {
        self.clones += 1;
        let child = self.f.bucket.sibling(&format!("child{}", self.clones))?;
        let (place, creator) = ("elsewhere".to_owned(), "tester".to_owned());
        let request =
            CloneRequest { past: Some(past), place, creator, discards_unfinished: false, expires_s: None };
        let status = block(self.f.inspector().clone_to(&child, &request))?;
        Ok((child, status))
    }

    /// Clones the state `past`, and checks that the clone has exactly the commits up to number `last`.
    pub(super) fn expect_state(&mut self, past: &Past, last: u64) {
        let (child, status) = self.clone_at(past.clone()).unwrap();
        assert_eq!(status.commit_us, Some(self.base_us + last), "{past:?}");
        assert_eq!(status.gtid_position, format!("0-1-{last}"), "{past:?}");
        let child = Inspector::new(child);
        let report = block(child.verify(true, |_, _| {})).unwrap();
        assert!(report.problems.is_empty(), "{past:?}: {report:?}");
        let in_log: Vec<u64> =
            block(child.commits()).unwrap().iter().map(|commit| commit.gtid.unwrap().sequence).collect();
        let root = RootId { epoch: status.parent.epoch, slot: status.parent.slot };
        let position = block(image::read_root(&self.f.bucket, root)).unwrap().position.unwrap();
        let in_files = position.gtids.get(&0).map_or(0, |gtid| gtid.sequence);
        assert!(in_files <= last, "{past:?}: root {root:?} has commit {in_files}");
        assert!(in_log.iter().all(|commit| *commit <= last), "{past:?}: {in_log:?}");
        let behind_root: Vec<u64> = in_log.into_iter().filter(|commit| *commit > in_files).collect();
        assert_eq!(behind_root, (in_files + 1..=last).collect::<Vec<_>>(), "{past:?}: behind root {root:?}");
    }

    pub(super) fn until(&self, what: &str, condition: impl Fn(&Fixture) -> bool) {
        let start = Instant::now();
        while !condition(&self.f) {
            assert!(start.elapsed() < WAIT, "waited in vain: {what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Returns a moment that is later than all commits so far, in microseconds since 1970.
pub(super) fn now_us() -> u64 {
    std::thread::sleep(Duration::from_millis(3));
    crate::protocol::start::claim::wall_clock_ms() * 1000
}

fn gtid(sequence: u64) -> Past {
    Past::Gtid(Gtid { domain: 0, server: 1, sequence })
}

fn files(f: &Fixture) -> usize {
    f.keys(names::FILE_DIR).len()
}

#[test]
fn every_commit_of_the_history_can_be_had_again() {
    let mut random = Random::from_environment("every_commit_of_the_history_can_be_had_again");
    for _ in 0..3 {
        let mut ledger = Ledger::new(HOUR);
        for _ in 0..10 {
            ledger.work(&mut random);
        }
        ledger.f.until_clean();
        for _ in 0..12 {
            let last = 1 + random.below(ledger.commits);
            ledger.expect_state(&Past::At(ledger.base_us + last), last);
            ledger.expect_state(&gtid(last), last);
        }
        let now = Past::At(now_us());
        ledger.expect_state(&now, ledger.commits);
        let report = block(ledger.f.inspector().fsck(NOW, |_, _| {})).unwrap();
        assert!(report.orphaned.is_empty(), "the history is taken for orphans: {report:?}");
        crash(ledger.f.db);
    }
}

#[test]
fn the_history_of_a_former_server_stays() {
    let mut random = Random::new(7);
    let mut ledger = Ledger::new(HOUR);
    (0..5).for_each(|_| ledger.work(&mut random));
    let former = ledger.commits;
    // The simulated database cannot replay groups of commits from the log when it is opened again, so they
    // are flushed first.
    ledger.flush();
    ledger.f.db.store.close(WAIT).unwrap();
    let config = StoreConfig { history: HOUR, ..config(ledger.f.dir.path(), "owner:2", Durability::Sync) };
    let mut tuning = quick();
    (tuning.alive_interval, tuning.gc.search_interval) = (WAIT, Duration::from_millis(5));
    let store = open_store(&config, &ledger.f.bucket, tuning).unwrap();
    ledger.f.db = Db::open(store, ledger.f.dir.path(), true);
    ledger.commits += 1000;
    ledger.base_us = now_us() - ledger.commits;
    let base_us = ledger.base_us;
    (0..5).for_each(|_| ledger.work(&mut random));
    ledger.f.until_clean();
    for last in [1, former / 2, former] {
        let (child, status) = ledger.clone_at(gtid(last)).unwrap();
        assert_eq!(status.gtid_position, format!("0-1-{last}"));
        assert!(block(Inspector::new(child).verify(true, |_, _| {})).unwrap().problems.is_empty());
    }
    let last = ledger.commits;
    ledger.expect_state(&gtid(last), last);
    assert!(ledger.base_us == base_us && last > former + 1000);
    crash(ledger.f.db);
}

#[test]
fn what_only_the_history_keeps_goes_with_it() {
    let mut random = Random::new(11);
    let mut ledger = Ledger::new(HOUR);
    (0..6).for_each(|_| ledger.work(&mut random));
    ledger.f.until_clean();
    let families = ledger.f.db.families().len();
    assert!(files(&ledger.f) > 2, "the files of the first root are kept");
    let row = block(ledger.f.inspector().snapshots()).unwrap().remove(0);
    assert!(row.kind == "history" && row.alone_bytes > 0 && row.problem.is_empty(), "{row:?}");
    ledger.until("the server tells the bytes", |f| f.db.store.stats().history_bytes > 0);
    ledger.f.db.store.set_history(HistoryLimits::default());
    ledger.until("the pins go", |f| f.keys(names::PIN_DIR).is_empty());
    ledger.f.until_clean();
    let numbers = ledger.f.db.store.stats();
    assert_eq!((numbers.history_bytes, numbers.history_s), (0, 0));
    assert!(files(&ledger.f) <= families, "{:?}", ledger.f.keys(names::FILE_DIR));
    crash(ledger.f.db);
}

#[test]
fn a_history_that_begins_anew_has_no_moment_of_the_former() {
    let mut random = Random::new(12);
    let mut ledger = Ledger::new(HOUR);
    (0..6).for_each(|_| ledger.work(&mut random));
    ledger.f.until_clean();
    assert!(ledger.f.keys(names::PIN_DIR).len() > 1);
    ledger.f.db.store.set_history(HistoryLimits::default());
    ledger.f.db.store.set_history(HOUR);
    ledger.until("one pin is left, of the newest root", |f| f.keys(names::PIN_DIR).len() == 1);
    assert!(ledger.clone_at(gtid(1)).is_err());
    (0..2).for_each(|_| ledger.work(&mut random));
    ledger.f.until_clean();
    let commits = ledger.commits;
    ledger.expect_state(&gtid(commits), commits);
    crash(ledger.f.db);
}

#[test]
fn an_idle_server_gives_up_what_is_older_than_the_retention() {
    let mut random = Random::new(13);
    let mut ledger =
        Ledger::new(HistoryLimits { retention: Duration::from_millis(300), bytes_max: u64::MAX });
    (0..6).for_each(|_| ledger.work(&mut random));
    let newest = ledger.f.db.families().len();
    ledger.until("one pin is left, of the newest root", |f| f.keys(names::PIN_DIR).len() == 1);
    ledger.until("older files go", |f| files(f) <= newest);
    let commits = ledger.commits;
    ledger.expect_state(&Past::At(now_us()), commits);
    crash(ledger.f.db);
}

#[test]
fn the_bound_in_bytes_wins_over_the_retention() {
    let mut ledger = Ledger::new(HistoryLimits { bytes_max: 1, ..HOUR });
    for _ in 0..6 {
        ledger.f.work(1);
        assert!(ledger.f.db.create_next_family());
        ledger.f.db.store.publish(WAIT).unwrap();
    }
    ledger.until("the history is cut", |f| f.db.store.stats().history_cuts > 0);
    ledger.until("the newest pin stays", |f| f.keys(names::PIN_DIR).len() == 1);
    crash(ledger.f.db);
}

#[test]
fn a_moment_that_cannot_be_had_is_refused_with_the_reason() {
    let refused = |ledger: &mut Ledger, past: Past, why: &str| {
        let error = ledger.clone_at(past).unwrap_err();
        assert!(matches!(&error, StoreError::Invalid(text) if text.contains(why)), "{error}");
        let pins = ledger.f.keys(names::PIN_DIR);
        assert!(pins.iter().all(|key| key.starts_with("pin/history-")), "nothing is left: {pins:?}");
    };
    let mut none = Ledger::new(HistoryLimits::default());
    refused(&mut none, Past::At(5), "keeps no history");
    crash(none.f.db);
    let mut ledger = Ledger::new(HOUR);
    (0..3).for_each(|_| ledger.work(&mut Random::new(1)));
    ledger.until("a pin", |f| !f.keys(names::PIN_DIR).is_empty());
    let in_an_hour = now_us() + 3_600_000_000;
    refused(&mut ledger, Past::At(in_an_hour), "in the future");
    refused(&mut ledger, Past::At(5), "before the history");
    let beyond = ledger.commits + 1;
    refused(&mut ledger, gtid(beyond), "no transaction with GTID 0-1-");
    crash(ledger.f.db);
}

#[test]
fn a_rewind_to_a_moment_leaves_the_history_before_it_to_be_had() {
    let mut random = Random::new(17);
    let mut ledger = Ledger::new(HOUR);
    (0..5).for_each(|_| ledger.work(&mut random));
    ledger.until("a pin", |f| !f.keys(names::PIN_DIR).is_empty());
    ledger.f.db.store.close(WAIT).unwrap();
    let back_to = |ledger: &Ledger, last: u64, keep: &str| {
        let (past, creator) = (Past::At(ledger.base_us + last), "tester".to_owned());
        let plan = block(ledger.f.inspector().plan_rewind(&past)).unwrap();
        assert_eq!(plan.gtid_position, format!("0-1-{last}"));
        let request = RewindRequest { past, keep: keep.to_owned(), creator, takes_over: false };
        let done = block(ledger.f.inspector().rewind(&request)).unwrap();
        assert_eq!(done.commit_us, Some(ledger.base_us + last));
        let commits = block(ledger.f.inspector().commits()).unwrap();
        assert!(commits.iter().all(|commit| commit.gtid.unwrap().sequence <= last));
        assert!(block(ledger.f.inspector().verify(true, |_, _| {})).unwrap().problems.is_empty());
    };
    back_to(&ledger, 3, "a");
    // This moment is later than that of the first rewind. It is in the part of the history that the first
    // rewind set aside.
    let all = ledger.commits;
    back_to(&ledger, all - 1, "b");
    back_to(&ledger, 2, "c");
}

/// A database with durability `local` and a history, whose owner writes no hint and ships log every `ship`.
fn local(ship: Duration) -> Ledger {
    let tuning = Tuning { alive_interval: WAIT, ship_interval: ship, ..quick() };
    Ledger::of(Fixture::tuned(HOUR, Durability::Local, tuning))
}

#[test]
fn with_local_durability_a_moment_has_every_commit_or_is_refused() {
    let tuning = Tuning { alive_interval: Duration::from_millis(20), ..quick() };
    let mut ledger = Ledger::of(Fixture::tuned(HOUR, Durability::Local, tuning));
    let begun = Instant::now();
    for _ in 0..20 {
        ledger.commit(3);
        let (moment, made) = (now_us(), ledger.commits);
        // Nobody has asked for a publish or for the log: the moment can be restored all the same.
        ledger.expect_state(&Past::At(moment), made);
    }
    ledger.until("the history has a length", |f| f.db.store.stats().history_s > 0);
    ledger.f.store.outage(true);
    let (length_max, commit) = (begun.elapsed().as_secs() + 1, ledger.commits + 1);
    ledger.commit(1);
    std::thread::sleep(Duration::from_millis(2500));
    let length = ledger.f.db.store.stats().history_s;
    assert!(length <= length_max, "{length}: commit {commit} is not in the bucket, where the history ends");
    ledger.f.store.heal();
    crash(ledger.f.db);
}

#[test]
fn a_moment_that_the_bucket_possibly_does_not_cover_is_refused_until_it_does() {
    let mut ledger = local(WAIT);
    ledger.commit(2);
    ledger.f.db.store.publish(WAIT).unwrap();
    ledger.commit(2);
    let (moment, made) = (now_us(), ledger.commits);
    let error = ledger.clone_at(Past::At(moment)).unwrap_err();
    assert!(matches!(&error, StoreError::Invalid(text) if text.contains("nobody knows yet")), "{error}");
    assert!(ledger.f.keys(names::PIN_DIR).iter().all(|key| key.starts_with("pin/history-")));
    // The owner ships its log when it is asked for a moment, and knows how far it is.
    let dir = ledger.f.dir.path().join("mounted");
    let when = crate::date::utc(now_us());
    let mount = ledger.f.db.store.mount(&when, "shop", &dir).unwrap();
    assert_eq!(mount.commit_us(), ledger.base_us + made);
    drop(mount);
    // After the close, the hint says that the bucket has everything.
    ledger.commit(1);
    let made = ledger.commits;
    ledger.f.db.store.close(WAIT).unwrap();
    ledger.expect_state(&Past::At(now_us()), made);
}

#[test]
fn commits_that_only_the_next_owner_ships_are_in_the_moment_before_it() {
    for has_tail in [false, true] {
        let mut ledger = local(WAIT);
        ledger.commit(2);
        ledger.f.db.store.publish(WAIT).unwrap();
        let position = ledger.f.db.store.wal_position();
        ledger.f.db.store.wait_shipped(position, WAIT).unwrap();
        ledger.until("a pin", |f| !f.keys(names::PIN_DIR).is_empty());
        if has_tail {
            ledger.commit(2);
        }
        let (moment, made) = (Past::At(now_us()), ledger.commits);
        ledger.f.db.store.kill();
        let error = ledger.clone_at(moment.clone()).unwrap_err();
        assert!(matches!(&error, StoreError::Invalid(text) if text.contains("start it")), "{error}");
        std::thread::sleep(Duration::from_millis(5));
        let config =
            StoreConfig { history: HOUR, ..config(ledger.f.dir.path(), "owner:2", Durability::Local) };
        let store = open_store(&config, &ledger.f.bucket, quick()).unwrap();
        ledger.f.db = Db::open(store, ledger.f.dir.path(), true);
        ledger.f.db.store.publish(WAIT).unwrap();
        let (_, status) = ledger.clone_at(moment).unwrap();
        assert_eq!(status.commit_us, Some(ledger.base_us + made), "with a tail: {has_tail}");
        assert_eq!(status.parent.epoch, if has_tail { 2 } else { 1 });
        crash(ledger.f.db);
    }
}

#[test]
fn without_a_history_local_durability_ships_only_what_somebody_needs() {
    let mut ledger = Ledger::of(Fixture::tuned(HistoryLimits::default(), Durability::Local, quick()));
    let shipped = |ledger: &Ledger| ledger.f.db.store.stats().wal_chunks_shipped;
    let before = shipped(&ledger);
    ledger.commit(1);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(shipped(&ledger), before);
    ledger.f.db.store.set_history(HOUR);
    let start = Instant::now();
    while shipped(&ledger) == before {
        assert!(start.elapsed() < WAIT, "a history that is switched on ships the log");
        std::thread::sleep(Duration::from_millis(5));
    }
    crash(ledger.f.db);
}

/// HISTORY-1: the owner dies before it has pinned a root with a new DDL number.
#[test]
fn a_root_that_the_former_owner_could_not_pin_any_more_is_pinned_by_the_next() {
    let mut ledger = Ledger::new(HOUR);
    ledger.commit(1);
    ledger.f.db.store.publish(WAIT).unwrap();
    ledger.until("a pin", |f| !f.keys(names::PIN_DIR).is_empty());
    let before = ledger.f.keys(names::PIN_DIR);
    assert!(ledger.f.db.create_next_family());
    ledger.f.db.store.publish(WAIT).unwrap();
    ledger.until("the pin of the edit", |f| f.keys(names::PIN_DIR).len() > before.len());
    let pin = ledger.f.keys(names::PIN_DIR).into_iter().find(|key| !before.contains(key)).unwrap();
    ledger.commit(2);
    let last = ledger.commits - 1;
    ledger.flush();
    ledger.f.db.store.publish(WAIT).unwrap();
    ledger.f.db.store.kill();
    block(ledger.f.bucket.delete(&pin)).unwrap();
    let config = StoreConfig { history: HOUR, ..config(ledger.f.dir.path(), "owner:2", Durability::Sync) };
    let store = open_store(&config, &ledger.f.bucket, quick()).unwrap();
    ledger.f.db = Db::open(store, ledger.f.dir.path(), true);
    ledger.f.db.store.publish(WAIT).unwrap();
    ledger.until("the pin comes back", |f| f.keys(names::PIN_DIR).contains(&pin));
    let (_, status) = ledger.clone_at(gtid(last)).unwrap();
    assert_eq!(status.gtid_position, format!("0-1-{last}"));
    crash(ledger.f.db);
}

/// HISTORY-1: `release_parents` creates a horizon above the roots that wait for their pins.
#[test]
fn a_horizon_of_another_program_takes_no_root_from_the_history() {
    let mut ledger = Ledger::new(HOUR);
    ledger.commit(1);
    ledger.f.db.store.publish(WAIT).unwrap();
    ledger.until("a pin", |f| !f.keys(names::PIN_DIR).is_empty());
    let before = ledger.f.keys(names::PIN_DIR);
    block(ledger.f.bucket.create_slot(&names::horizon(1, 100_000), vec![7; 16].into(), &[7; 16])).unwrap();
    assert!(ledger.f.db.create_next_family());
    ledger.f.db.store.publish(WAIT).unwrap();
    ledger.until("the pin of the edit", |f| f.keys(names::PIN_DIR).len() > before.len());
    crash(ledger.f.db);
}
