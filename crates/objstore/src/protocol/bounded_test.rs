//! Goal:   what a restore must read is bounded whatever the load was, and a request that gets stuck costs little.
//! Method: a store that counts requests by kind and name and lets chosen ones hang; clocks are looked at with room to
//!         spare only.

use super::test_db::*;
use crate::config::Durability;
use crate::stuck::{Hurt, Verb, stuck_bucket};
use std::time::{Duration, Instant};

/// The lag limit of these tests.
const LAG: Duration = Duration::from_secs(1);
/// What a request of a real server may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

#[test]
fn one_stuck_request_delays_commits_by_less_than_twice_the_lag_limit() {
    for durability in [Durability::Sync, Durability::Async] {
        for part in ["/wal/", "/root/"] {
            let context = format!("{durability:?}, a PUT of {part}");
            let (bucket, store) = stuck_bucket(1000, REQUEST_TIMEOUT);
            let dir = scratch();
            let mut config = config(dir.path(), "owner:1", durability);
            config.lag_max = LAG;
            let mut db = Db::open(open_store(&config, &bucket, quick()).unwrap(), dir.path(), true);
            let mut model = Model::default();
            db.store.publish(WAIT).unwrap();
            store.hurt(Verb::Put, part, 0, 1, Hurt::Hangs);
            // The family makes a root necessary, the commit a chunk.
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
            assert!(delay < 2 * LAG, "{context}: {delay:?}");
        }
    }
}

#[test]
fn a_chunk_is_cut_four_times_per_lag_limit_unless_somebody_waits() {
    let (bucket, store) = stuck_bucket(1000, REQUEST_TIMEOUT);
    let dir = scratch();
    let mut config = config(dir.path(), "owner:1", Durability::Async);
    config.lag_max = LAG;
    let tuning =
        super::shared::Tuning { ships_per_lag: 4, ship_bytes: 1 << 20, chunk_bytes_max: 1 << 20, ..quick() };
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
    assert!(puts <= intervals + 2, "{puts} chunks in {intervals} intervals");
    db.store.wait_shipped(position, WAIT).unwrap();
}
