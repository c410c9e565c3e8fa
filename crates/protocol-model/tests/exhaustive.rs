//! Goal:   no order of steps breaks an invariant (IMAGE-1 to IMAGE-5, OPEN-3), within each of these bounds.
//! Method: a breadth-first search through all states. A counterexample is printed step by step. Each part of
//!         the protocol has a bound of its own, because each further kind of event multiplies the number of
//!         states. ATOLL_MODEL_LARGE=1 adds bounds that take minutes.

// This test prints the numbers of states because docs/internals/bucket.md quotes them. It panics at a
// counterexample because that is not a comparison of two values.
#![allow(clippy::print_stdout, clippy::panic)]

use protocol_model::{Bound, Gates, Protocol};
use stateright::{Checker, HasDiscoveries, Model};
use std::time::Instant;

fn check(name: &str, bound: Bound) {
    let began = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let builder = Protocol { bound, gates: Gates::ALL }.checker().threads(threads);
    let checker = builder.finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let states = checker.unique_state_count();
    println!("{name}: {states} states, {} steps, {} ms", checker.max_depth(), began.elapsed().as_millis());
    if let Some((invariant, path)) = checker.discoveries().into_iter().next() {
        let last = format!("{:#?}", path.last_state());
        let steps: Vec<String> = path.into_actions().iter().map(|step| format!("  {step:?}")).collect();
        panic!("{name}: \"{invariant}\" is broken by\n{}\nwhich leads to {last}", steps.join("\n"));
    }
    assert!(states > 1000, "{name}: {states} states are too few to mean anything");
}

#[test]
fn claims_of_three_servers_that_die() {
    check("claims", Bound { crashes: 2, repeats: 1, ..Bound::new(3, 3, 0, 0) });
}

#[test]
fn an_owner_publishes_while_another_claims() {
    check("roots", Bound { repeats: 1, ..Bound::new(2, 2, 0, 3) });
    check("roots and a wrong listing", Bound { lies: 1, ..Bound::new(2, 2, 0, 3) });
    check("roots and a third claim", Bound { crashes: 1, ..Bound::new(2, 3, 1, 1) });
}

#[test]
fn an_owner_ships_while_another_claims() {
    check("chunks", Bound { crashes: 1, ..Bound::new(2, 2, 2, 1) });
    check("chunks and a flush", Bound { crashes: 1, flushes: 1, ..Bound::new(2, 2, 1, 2) });
}

#[test]
fn families_are_flushed_one_at_a_time() {
    check("flushes", Bound { flushes: 2, ..Bound::new(1, 2, 2, 2) });
}

#[test]
fn families_come_and_go() {
    check("create", Bound { creates: 1, ..Bound::new(2, 2, 1, 2) });
    check("drop", Bound { drops: 1, ..Bound::new(2, 2, 1, 2) });
}

#[test]
fn files_are_compacted_and_collected() {
    check("compaction", Bound { crashes: 1, flushes: 2, compactions: 1, ..Bound::new(1, 2, 1, 2) });
}

#[test]
fn disks_are_damaged_and_lost() {
    check("damage", Bound { crashes: 1, flushes: 1, damages: 1, ..Bound::new(1, 2, 2, 1) });
    check("lost disk", Bound { crashes: 1, flushes: 1, lost_disks: 1, ..Bound::new(1, 2, 2, 1) });
}

#[test]
fn large_bounds() {
    if std::env::var_os("ATOLL_MODEL_LARGE").is_none() {
        return;
    }
    check("two commits and a flush", Bound { flushes: 1, ..Bound::new(2, 2, 2, 2) });
    check("two commits and a create", Bound { creates: 1, ..Bound::new(2, 2, 2, 2) });
    check("three owners in turn", Bound { crashes: 1, ..Bound::new(2, 3, 2, 1) });
    check("three roots and a commit", Bound::new(2, 2, 1, 3));
}
