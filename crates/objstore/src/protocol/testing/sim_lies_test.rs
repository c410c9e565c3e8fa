//! Goal:   wrong answers of the bucket lose neither acknowledged commits (LIST-1) nor what a snapshot keeps (GC-8,
//!         GC-9). Without one of these rules they do.
//! Method: histories of the simulation (sim_test.rs) in which nothing goes wrong but the answers about which the
//!         rule is. Each is run with the rule and without it.

use crate::protocol::format::names;
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::testing::sim_checks::at_once;
use crate::protocol::testing::sim_world::{Life, Rule, World};
use crate::protocol::testing::test_db::*;
use crate::requests::bucket::Bucket;
use crate::sim::{self, below, fail, note, once_in};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// How many seeds must keep everything while all rules are on.
const SEEDS: u64 = 20;
/// Within how many seeds a rule that is switched off must be found.
const FOUND_WITHIN: u64 = 40;

/// Opens the database, which must succeed.
fn open(world: &Arc<World>, dir: &Arc<TempDir>) -> Option<Life> {
    let life = world.open(dir, true);
    if life.is_none() {
        fail("the server cannot open".to_owned());
    }
    life
}

/// Commits, flushes and publishes `rounds` times, which makes former roots and table files superfluous.
fn work(life: &mut Life, rounds: u64) {
    for _ in 0..rounds {
        life.commit();
        life.db.flush(0, true);
        life.db.flush(1, true);
        life.db.delete_obsolete_wals();
        life.db.store.publish(WAIT).unwrap();
        sim::sleep(Duration::from_millis(below(1000)));
    }
}

/// Makes the snapshot "s" of the newest root.
fn make_snapshot(world: &World) {
    let inspector = Inspector::new(world.direct());
    sim::block_on(inspector.create_snapshot("s", "pinner")).unwrap();
    world.watcher.pinned("s");
}

fn check_snapshot(world: &World) {
    if let Err(error) = sim::block_on(Inspector::new(world.direct()).verify_snapshot("s", true, |_, _| {})) {
        fail(format!("the snapshot was made and nobody dropped it: {error}"));
    }
}

/// Servers lose their process or their machine one after the other, and half of the listings of the roots are
/// wrong while the next one starts.
fn starts_among_wrong_listings(is_on: bool) {
    let world = World::new(None);
    if !is_on {
        sim::believe_listings();
    }
    let dir = Arc::new(scratch());
    for _ in 0..5 {
        world.network.lie(2, "db/root");
        let Some(mut life) = open(&world, &dir) else { return };
        world.network.tell_the_truth();
        work(&mut life, 8);
        life.acknowledge();
        // The collector deletes the former roots, so the first free slot is not the one behind the newest root.
        sim::sleep(Duration::from_secs(6));
        if once_in(2) { life.crash() } else { life.lose() }
    }
}

/// A third of the listings of the pins is empty, while the collector deletes what only a snapshot needs and what
/// nobody needs, in two processes.
fn collects_among_wrong_listings(is_on: bool) {
    let world = World::new((!is_on).then_some(Rule::Listings));
    let dir = Arc::new(scratch());
    let Some(mut life) = open(&world, &dir) else { return };
    work(&mut life, 2);
    make_snapshot(&world);
    world.network.lie(3, "db/pin");
    work(&mut life, 12);
    life.close();
    let Some(mut life) = open(&world, &dir) else { return };
    work(&mut life, 12);
    world.network.tell_the_truth();
    check_snapshot(&world);
    life.crash();
}

/// The root of a snapshot is absent when a server starts, and comes back later. Half of the listings of the names
/// are wrong meanwhile.
fn collects_while_a_root_is_absent(is_on: bool) {
    let world = World::new((!is_on).then_some(Rule::Absence));
    let (dir, bucket) = (Arc::new(scratch()), world.direct());
    let Some(mut life) = open(&world, &dir) else { return };
    work(&mut life, 2);
    make_snapshot(&world);
    // The root of the snapshot must not be the newest one: that one is the base of the next server.
    work(&mut life, 2);
    life.close();
    let (key, bytes) = take_root_away(&bucket);
    world.network.lie(2, "db/snapshot");
    let Some(mut life) = open(&world, &dir) else { return };
    work(&mut life, 12);
    world.network.tell_the_truth();
    at_once(bucket.create_slot(&key, bytes.clone(), bytes[12..28].try_into().unwrap())).unwrap();
    note(&format!("{key} is back"));
    work(&mut life, 4);
    check_snapshot(&world);
    life.crash();
}

/// Deletes the root of the snapshot "s". Returns its key and content.
fn take_root_away(bucket: &Bucket) -> (String, bytes::Bytes) {
    let (_, pin, _) = at_once(Inspector::new(bucket.clone()).snapshot_image("s")).unwrap();
    let key = names::root(pin.root.epoch, pin.root.slot);
    let bytes = at_once(bucket.get(&key)).unwrap();
    at_once(bucket.delete(&key)).unwrap();
    note(&format!("{key} is lost"));
    (key, bytes)
}

/// Checks that no seed fails with the rule, and that one fails without it with a failure that says `loss`.
fn is_needed(history: fn(bool), loss: &str) {
    for seed in 0..SEEDS {
        let ended = sim::run(seed, false, move || history(true));
        assert_eq!(ended.failure, None, "seed {seed}");
    }
    let failure_of = |seed| Some((seed, sim::run(seed, false, move || history(false)).failure?));
    let mut others = Vec::new();
    for (seed, failure) in (0..FOUND_WITHIN).filter_map(failure_of) {
        if failure.contains(loss) {
            return eprintln!("without the rule: seed {seed}: {failure}");
        }
        others.push(failure);
    }
    panic!("without the rule, nothing was lost; other failures: {others:?}");
}

#[test]
fn a_start_among_wrong_listings_loses_nothing_and_without_the_rule_it_does() {
    is_needed(starts_among_wrong_listings, "acknowledged ones");
}

#[test]
fn a_collector_among_wrong_listings_loses_nothing_and_without_the_rule_it_does() {
    is_needed(collects_among_wrong_listings, "although the snapshot 's' needs it");
}

#[test]
fn a_collector_that_misses_a_root_loses_nothing_and_without_the_rule_it_does() {
    is_needed(collects_while_a_root_is_absent, "although the snapshot 's' needs it");
}
