//! Goal:   several servers use one database while snapshots are made; their requests fail or come late, and
//!         they die at any time. Acknowledged commits are found again, the newest root and the roots of
//!         snapshots can be restored at every moment, no reader loses an object within the grace time, and in
//!         the end no needless object is left (IMAGE-1, IMAGE-3, IMAGE-4, IMAGE-5).
//! Method: the real code in a simulation (`sim/`); a seed determines the whole history. `ATOLL_SEED=7` runs
//!         one seed and prints its trace, `make sim SEEDS=10000` runs that many seeds.

use crate::protocol::format::names;
use crate::protocol::inspection::fsck::FsckOptions;
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::testing::sim_checks::at_once;
use crate::protocol::testing::sim_world::{Life, Rule, World};
use crate::protocol::testing::test_db::*;
use crate::sim::network::LATE_MAX;
use crate::sim::{self, Ended, below, fail, note, once_in};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

const NO_GRACE: FsckOptions =
    FsckOptions { deep: true, grace: Duration::ZERO, second_look: Duration::from_millis(1) };

/// The number by which the simulated network knows the thread that makes snapshots; those of servers begin
/// with 1.
const PINNER: u64 = 0;

/// How many seeds the short form in `make test` runs.
const SEEDS: u64 = 50;

/// The most time from the last commit until no orphaned object is left.
const CLEAN_MAX: Duration = Duration::from_secs(120);

/// One history: up to three servers use one bucket, then a last server uses it alone and without faults.
fn history() {
    history_without(None);
}

fn history_without(rule: Option<Rule>) {
    let world = World::new(rule);
    world.network.hurt([0, 40, 15, 8][below(4) as usize]);
    let servers: Vec<_> = (0..1 + below(3))
        .map(|_| {
            let world = Arc::clone(&world);
            sim::spawn("server", move || serve(&world))
        })
        .collect();
    let pinner = {
        let world = Arc::clone(&world);
        sim::spawn("pinner", move || make_snapshots(&world))
    };
    let clock = {
        let world = Arc::clone(&world);
        sim::spawn("clock", move || {
            for _ in 0..below(4) {
                sim::sleep(Duration::from_millis(below(4000)));
                world.jump_clocks();
            }
        })
    };
    let dirs: Vec<Arc<TempDir>> = servers.into_iter().map(|server| server.join()).collect();
    let made = pinner.join();
    clock.join();
    world.network.hurt(0);
    note("the network is healthy");
    sim::sleep(2 * LATE_MAX);
    for name in &made {
        if let Err(error) =
            sim::block_on(Inspector::new(world.direct()).verify_snapshot(name, true, |_, _| {}))
        {
            fail(format!("the snapshot '{name}' was made and nobody dropped it: {error}"));
        }
        world.watcher.unpinned(name);
    }
    drop_all_pins(&world);
    end(&world, &dirs[0]);
}

/// Makes snapshots beside the servers and drops some of them. Returns the names of those that were not
/// dropped.
fn make_snapshots(world: &Arc<World>) -> Vec<String> {
    let line = world.network.line(PINNER);
    let inspector = Inspector::new(world.bucket(&line));
    let mut made: Vec<String> = Vec::new();
    for number in 0..below(8) {
        sim::sleep(Duration::from_millis(below(2000)));
        let name = format!("snapshot {}", number % 3);
        // When create_snapshot fails, the pin of the snapshot may exist all the same.
        if sim::block_on(inspector.create_snapshot(&name, "pinner")).is_ok() {
            note(&format!("made {name}"));
            world.watcher.pinned(&name);
            made.push(name);
        }
        if let Some(name) = made.last().filter(|_| once_in(3)) {
            hide_root(world, name);
        }
        if (once_in(2) || made.len() == 3)
            && let Some(name) = made.pop()
        {
            world.watcher.unpinned(&name);
            note(&format!("drops {name}"));
            let _ = sim::block_on(inspector.drop_snapshot(&name));
        }
    }
    made
}

/// Deletes the root of the snapshot `name`, unless it is the newest root, and puts it back later.
fn hide_root(world: &World, name: &str) {
    let bucket = world.direct();
    let inspector = Inspector::new(bucket.clone());
    let Ok((_, pin, _)) = at_once(inspector.snapshot_image(name)) else { return };
    let newest = at_once(inspector.newest_id());
    if !matches!(newest, Ok(Some((newest, _))) if newest > pin.root) {
        return;
    }
    let key = names::root(pin.root.epoch, pin.root.slot);
    let bytes = at_once(bucket.get(&key)).unwrap();
    at_once(bucket.delete(&key)).unwrap();
    note(&format!("{key} is lost"));
    sim::sleep(Duration::from_millis(below(3000)));
    at_once(bucket.create_slot(&key, bytes.clone(), bytes[12..28].try_into().unwrap())).unwrap();
    note(&format!("{key} is back"));
}

/// Drops the pins of the snapshots that are left, those of the history, and those whose PUT came late.
fn drop_all_pins(world: &World) {
    let bucket = world.direct();
    for pin in at_once(bucket.list(names::PIN_DIR, None)).unwrap() {
        world.watcher.unpinned(&pin.key);
        at_once(bucket.delete(&pin.key)).unwrap();
    }
}

/// Starts a server one to three times in one directory, one life after the other. Returns the directory.
fn serve(world: &Arc<World>) -> Arc<TempDir> {
    let dir = Arc::new(scratch());
    for _ in 0..1 + below(3) {
        sim::sleep(Duration::from_millis(below(3000)));
        let takes_over = !once_in(4);
        if let Some(life) = world.open(&dir, takes_over) {
            live(life);
        }
    }
    dir
}

fn live(mut life: Life) {
    for _ in 0..below(80) {
        if !life.step() {
            return life.crash();
        }
    }
    match below(4) {
        0 => life.crash(),
        1 => life.close(),
        _ => life.lose(),
    }
}

/// The last owner runs until the collector has deleted all needless objects. Then the database is restored
/// from the bucket alone.
fn end(world: &Arc<World>, dir: &Arc<TempDir>) {
    let Some(mut life) = world.open(dir, true) else { return fail("the last server cannot open".to_owned()) };
    life.commit();
    life.db.store.publish(WAIT).unwrap();
    let since = sim::elapsed();
    while let Some(rest) = leftovers(world) {
        if sim::elapsed() > since + CLEAN_MAX {
            return fail(format!("left in the bucket: {rest}"));
        }
        sim::sleep(Duration::from_millis(500));
    }
    let commits = life.db.last_seq;
    life.lose();
    let Some(heir) = world.open(dir, true) else { return fail("the heir cannot open".to_owned()) };
    if heir.db.last_seq != commits {
        fail(format!("the heir finds {} of {commits} commits", heir.db.last_seq));
    }
    heir.crash();
}

/// Lists the objects that the newest root does not need, for a message; None when there are none.
fn leftovers(world: &World) -> Option<String> {
    let report = sim::block_on(Inspector::new(world.direct()).fsck(NO_GRACE, |_, _| {})).unwrap();
    let problems = report.verified.problems;
    if !problems.is_empty() {
        fail(format!("the newest root misses {problems:?}"));
    }
    let tombs = at_once(world.direct().list(names::TOMB_DIR, None)).unwrap();
    let is_clean = report.orphaned.is_empty() && report.pending.is_empty() && tombs.is_empty();
    (!is_clean).then(|| format!("{:?} {:?} {tombs:?}", report.orphaned, report.pending))
}

/// Runs one seed and prints its trace; panics with its failure.
fn show(seed: u64) {
    let ended = sim::run(seed, true, history);
    eprintln!("{}", ended.lines.join("\n"));
    eprintln!("seed {seed}: {} steps, trace {:016x}", ended.steps, ended.hash);
    assert_eq!(ended.failure, None, "seed {seed}");
}

fn number_in(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

#[test]
fn every_seed_keeps_what_was_promised() {
    if let Some(seed) = number_in("ATOLL_SEED") {
        return show(seed);
    }
    let first = number_in("ATOLL_SIM_FIRST").unwrap_or(0);
    let seeds = number_in("ATOLL_SIM_SEEDS").unwrap_or(SEEDS);
    let (mut steps, mut failing) = (0, Vec::new());
    for seed in first..first + seeds {
        let Ended { steps: more, failure, .. } = sim::run(seed, false, history);
        steps += more;
        if let Some(failure) = failure {
            eprintln!("seed {seed}: {failure}");
            failing.push(seed);
        }
    }
    eprintln!("{seeds} seeds from {first}, {steps} steps, {} failed", failing.len());
    assert!(failing.is_empty(), "seeds {failing:?}; ATOLL_SEED={} prints the trace of one", failing[0]);
}

#[test]
fn a_seed_run_twice_gives_one_trace() {
    for seed in 0..8 {
        let (first, second) = (sim::run(seed, true, history), sim::run(seed, true, history));
        let same = first.lines.iter().zip(&second.lines).take_while(|(a, b)| a == b).count();
        assert_eq!(first.lines.get(same), second.lines.get(same), "seed {seed}: step {same} differs");
        assert_eq!((first.hash, first.steps), (second.hash, second.steps), "seed {seed}");
    }
}

#[test]
fn a_rule_that_is_switched_off_is_found() {
    for rule in [Rule::G2, Rule::Grace, Rule::Horizon, Rule::Clock] {
        let fails =
            |seed: &u64| sim::run(*seed, false, move || history_without(Some(rule))).failure.is_some();
        let seed = (0..3000).find(fails).unwrap_or_else(|| panic!("{rule:?}: not found"));
        eprintln!("{rule:?}: found by seed {seed}");
    }
}

/// One snapshot name is used again and again, while requests land late or twice. `has_marks`: false takes away
/// the marks of rule NAME-2, so that the key of the name is used again.
fn names_used_again(has_marks: bool) {
    let world = World::new(None);
    let dir = Arc::new(scratch());
    let Some(mut life) = world.open(&dir, true) else { return fail("the server cannot open".to_owned()) };
    life.commit();
    life.close();
    world.network.hurt(5);
    let line = world.network.line(PINNER);
    let (inspector, direct) = (Inspector::new(world.bucket(&line)), Inspector::new(world.direct()));
    for _ in 0..8 {
        if sim::block_on(inspector.create_snapshot("s", "pinner")).is_ok() {
            sim::sleep(Duration::from_millis(below(10_000)));
            if let Err(error) = at_once(direct.verify_snapshot("s", false, |_, _| {})) {
                fail(format!("the snapshot was made and nobody dropped it: {error}"));
            }
        }
        let _ = sim::block_on(inspector.drop_snapshot("s"));
        for mark in at_once(world.direct().list(names::SNAPSHOT_DIR, None)).unwrap() {
            if !has_marks && mark.key.ends_with("-dropped") {
                at_once(world.direct().delete(&mark.key)).unwrap();
            }
        }
    }
}

#[test]
fn a_name_that_is_used_again_is_not_lost_to_a_request_that_lands_late() {
    let fails = |has_marks: bool| {
        move |seed: &u64| sim::run(*seed, false, move || names_used_again(has_marks)).failure.is_some()
    };
    assert_eq!((0..30).find(fails(true)), None, "with the marks");
    let seed = (0..300).find(fails(false));
    eprintln!("without the marks: found by seed {seed:?}");
    assert!(seed.is_some(), "without the marks: not found");
}
