//! Goal:   whatever a database does and whenever its process or its machine is lost, the next open finds a
//!         prefix of its history. That prefix has every commit that was acknowledged as shipped, no half
//!         transaction and no gap (IMAGE-1, IMAGE-4, IMAGE-5).
//! Method: a seeded random workload on a pretend RocksDB over a bucket in memory, with and without random
//!         network faults; compared with a model after every reopen. `ATOLL_SEED` repeats a run.

use crate::config::{Durability, StoreConfig};
use crate::error::StoreError;
use crate::protocol::shared::Tuning;
use crate::protocol::store::Store;
use crate::protocol::testing::test_db::*;
use crate::protocol::testing::test_random::Random;
use crate::requests::bucket::Bucket;
use crate::requests::fault::faulty_bucket;
use std::sync::Arc;

/// One run: `rounds` lives of the database, each ended by a crash, a loss of the machine, or a close.
pub(crate) fn run(random: &mut Random, bucket: &Bucket, rounds: u32, tuning: &Tuning, steps: u64) {
    let dir = scratch();
    let mut model = Model::default();
    let mut shipped = 0;
    let mut local = 0;
    let mut is_lost = false;
    for round in 0..rounds {
        let context = format!("seed {}, round {round}", random.seed);
        let durability = [Durability::Local, Durability::Async, Durability::Sync][random.below(3) as usize];
        let config = config(dir.path(), &format!("server{round}"), durability);
        let store = open_again(&config, bucket, tuning, &context);
        let mut db = Db::open(store, dir.path(), random.below(2) == 0);
        let floor = if is_lost { shipped } else { local };
        assert!(db.last_seq >= floor, "{context}: {} of {floor} (lost {is_lost})", db.last_seq);
        db.check(&model, &context);
        for _ in 0..random.below(steps) {
            step(random, &mut db, &mut model, &mut shipped);
        }
        local = db.last_seq;
        is_lost = true;
        match random.below(4) {
            0 => {
                crash(db);
                is_lost = false;
            }
            1 => {
                db.store.close(WAIT).unwrap_or_else(|e| panic!("{context}: {e}"));
                shipped = db.last_seq;
                is_lost = random.below(2) == 0;
                if is_lost {
                    let _ = std::fs::remove_dir_all(dir.path().join("db"));
                }
            }
            _ => lose(db, dir.path()),
        }
    }
}

/// Opens the database. Faults may make several attempts necessary, as when a DBA starts the server again.
fn open_again(config: &StoreConfig, bucket: &Bucket, tuning: &Tuning, context: &str) -> Arc<Store> {
    for _ in 0..30 {
        match open_store(config, bucket, tuning.clone()) {
            Ok(store) => return store,
            Err(StoreError::Unavailable(_)) => {}
            Err(error) => panic!("{context}: {error}"),
        }
    }
    panic!("{context}: the database cannot be opened")
}

fn step(random: &mut Random, db: &mut Db, model: &mut Model, shipped: &mut u64) {
    match random.below(40) {
        0 => {
            let position = db.store.wal_position();
            let seq = db.last_seq;
            if random.below(2) == 0 {
                db.sync();
            }
            db.store.wait_shipped(position, WAIT).unwrap();
            *shipped = seq;
        }
        1 | 2 => {
            let families = db.families();
            db.flush(families[random.below(families.len() as u64) as usize], random.below(2) == 0);
        }
        3 => {
            for family in db.families() {
                db.flush(family, true);
            }
            db.delete_obsolete_wals();
        }
        4 => db.delete_obsolete_wals(),
        5 => db.roll_manifest(),
        6 if db.families().len() < 6 => db.create_family(db.families().len() as u64),
        7 => {
            let seq = db.last_seq;
            db.store.publish(WAIT).unwrap();
            *shipped = seq;
        }
        8 => std::thread::sleep(std::time::Duration::from_millis(random.below(8))),
        9..=14 => db.sync(),
        _ => {
            // A commit writes to both of the first families, and to some of the others, chosen at random.
            let families = db.families().iter().fold(0, |bits, family| match family {
                0 | 1 => bits | 1 << family,
                family => bits | random.below(2) << family,
            });
            db.commit(model, families, random.below(20), random.next());
        }
    }
}

/// Commits synchronously until fenced; returns the database, its history, and the last acknowledged commit.
fn commit_until_fenced(mut db: Db, mut model: Model, seed: u64) -> (Db, Model, u64) {
    let mut random = Random::new(seed);
    let mut acknowledged = 0;
    loop {
        let position = db.commit(&mut model, 0b11, random.below(20), random.next());
        match random.below(30) {
            0 if !db.flush(random.below(2), true) => break,
            1 => db.sync(),
            _ => {}
        }
        match db.store.wait_shipped(position, WAIT) {
            Ok(()) => acknowledged = db.last_seq,
            Err(StoreError::Fenced(_)) => break,
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
    (db, model, acknowledged)
}

/// Owners are overtaken while they commit. The next owner finds what the former one acknowledged (IMAGE-3,
/// IMAGE-4).
#[test]
fn a_takeover_loses_nothing_acknowledged() {
    let mut random = Random::from_environment("a_takeover_loses_nothing_acknowledged");
    for faulty in [false, true] {
        let (bucket, faults) = faulty_bucket();
        if faulty {
            faults.hurt_randomly(random.next(), 15);
        }
        let dirs: Vec<_> = (0..3).map(|_| scratch()).collect();
        // An owner that published nothing leaves no trace, and then an older directory can be the newest. So
        // a server can find a prefix of any history that contains all acknowledged commits.
        let mut histories = vec![Model::default()];
        let mut promised = Vec::new();
        let mut running: Option<std::thread::JoinHandle<(Db, Model, u64)>> = None;
        for turn in 0..12 {
            let context = format!("seed {}, faults {faulty}, turn {turn}", random.seed);
            let dir = &dirs[turn % dirs.len()];
            let config = config(dir.path(), &format!("server{turn}:1"), Durability::Sync);
            let store = open_again(&config, &bucket, &quick(), &context);
            let db = Db::open(store, dir.path(), random.below(2) == 0);
            if let Some(former) = running.take() {
                let (zombie, history, acknowledged) = former.join().unwrap();
                if acknowledged > 0 {
                    promised = history.commits[..acknowledged as usize].to_vec();
                }
                histories.push(history);
                crash(zombie);
            }
            let (found, acknowledged) = (db.last_seq, promised.len() as u64);
            assert!(found >= acknowledged, "{context}: {acknowledged} acknowledged, {found} found");
            let is_it = |history: &&Model| db.matches(history) && history.commits.starts_with(&promised);
            let history = histories.iter().rev().find(is_it);
            let history = history.unwrap_or_else(|| panic!("{context}: a state that never was")).clone();
            let seed = random.next();
            running = Some(std::thread::spawn(move || commit_until_fenced(db, history, seed)));
            std::thread::sleep(std::time::Duration::from_millis(random.below(60)));
        }
        faults.heal();
        // No server has fenced the last owner yet, so one more server opens the database.
        let last = open_again(&config(dirs[0].path(), "last:1", Durability::Sync), &bucket, &quick(), "last");
        let (zombie, _, acknowledged) = running.take().unwrap().join().unwrap();
        assert!(acknowledged > 0 || zombie.last_seq > 0);
        crash(zombie);
        last.kill();
    }
}

#[test]
fn every_reopen_finds_a_prefix_with_everything_shipped() {
    let mut random = Random::from_environment("every_reopen_finds_a_prefix_with_everything_shipped");
    for _ in 0..6 {
        run(&mut random, &Bucket::in_memory(), 12, &quick(), 120);
    }
}

#[test]
fn random_network_faults_change_nothing() {
    let mut random = Random::from_environment("random_network_faults_change_nothing");
    for _ in 0..4 {
        let (bucket, faults) = faulty_bucket();
        faults.hurt_randomly(random.next(), 12);
        run(&mut random, &bucket, 8, &quick(), 80);
    }
}
