//! Goal:   without any one rule of the protocol, the checker finds a broken invariant.
//! Method: switches off one rule at a time. Within a small bound the checker must then find a history that
//!         breaks an invariant. This shows that the model can reveal such errors, so "no counterexample" has
//!         a meaning.

use protocol_model::{Bound, Gates, Protocol};
use stateright::{Checker, HasDiscoveries, Model};

fn broken(gates: Gates, bound: Bound, invariant: &str) {
    assert_ne!(gates, Gates::ALL);
    let model = Protocol { bound, gates };
    let checker = model.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let discoveries = checker.discoveries();
    let found: Vec<&str> = discoveries.keys().copied().collect();
    assert!(found.iter().any(|name| name.starts_with(invariant)), "{invariant} holds; found: {found:?}");
}

fn on() -> Gates {
    Gates::ALL
}

#[test]
fn g1_files_before_root() {
    broken(
        Gates { files_before_root: false, ..on() },
        Bound { flushes: 1, ..Bound::new(1, 1, 1, 1) },
        "IMAGE-5",
    );
}

#[test]
fn g2_wal_before_root() {
    broken(
        Gates { wal_before_root: false, ..on() },
        Bound { flushes: 1, ..Bound::new(1, 1, 1, 1) },
        "IMAGE-4",
    );
}

#[test]
fn g3_root_before_delete() {
    let bound = Bound { flushes: 2, compactions: 1, ..Bound::new(1, 1, 1, 2) };
    broken(Gates { root_before_delete: false, ..on() }, bound, "IMAGE-5");
}

#[test]
fn g4_root_before_trim() {
    let bound = Bound { flushes: 2, ..Bound::new(1, 1, 1, 2) };
    broken(Gates { root_before_trim: false, ..on() }, bound, "IMAGE-");
}

#[test]
fn g6_root_before_evict() {
    let bound = Bound { flushes: 1, crashes: 1, ..Bound::new(1, 2, 1, 0) };
    broken(Gates { root_before_evict: false, ..on() }, bound, "IMAGE-5");
}

#[test]
fn g7_drop_before_root() {
    broken(
        Gates { drop_before_root: false, ..on() },
        Bound { drops: 1, ..Bound::new(1, 1, 1, 1) },
        "IMAGE-4",
    );
}

#[test]
fn g8_edit_before_replay() {
    broken(
        Gates { edit_before_replay: false, ..on() },
        Bound { creates: 1, ..Bound::new(1, 1, 1, 1) },
        "IMAGE-4",
    );
}

#[test]
fn g8_edit_before_cover() {
    broken(
        Gates { edit_before_cover: false, ..on() },
        Bound { creates: 1, ..Bound::new(1, 1, 1, 1) },
        "IMAGE-3",
    );
}

#[test]
fn w2_skip_is_edit() {
    let bound = Bound { flushes: 2, ..Bound::new(1, 1, 2, 1) };
    broken(Gates { skip_is_edit: false, ..on() }, bound, "IMAGE-3");
}

#[test]
fn fence_roots() {
    broken(Gates { fence_roots: false, ..on() }, Bound::new(2, 2, 0, 2), "IMAGE-2");
}

#[test]
fn look_behind_fence() {
    broken(Gates { look_behind_fence: false, ..on() }, Bound::new(2, 2, 0, 3), "IMAGE-");
}

#[test]
fn fence_is_listed() {
    let bound = Bound { lies: 1, ..Bound::new(2, 2, 0, 3) };
    broken(Gates { fence_is_listed: false, ..on() }, bound, "IMAGE-");
}

#[test]
fn fence_wal() {
    broken(Gates { fence_wal: false, ..on() }, Bound::new(2, 2, 1, 1), "IMAGE-3");
}

#[test]
fn s1_read_lost_slot() {
    broken(Gates { read_lost_slot: false, ..on() }, Bound::new(2, 2, 0, 2), "IMAGE-2");
}

#[test]
fn h2_contiguous_prefix() {
    broken(Gates { contiguous_prefix: false, ..on() }, Bound::new(1, 1, 2, 1), "IMAGE-3");
}

#[test]
fn e3_root_before_cover() {
    broken(Gates { root_before_cover: false, ..on() }, Bound::new(2, 2, 1, 0), "IMAGE-3");
}

#[test]
fn d2_marker_before_root() {
    let bound = Bound { crashes: 1, ..Bound::new(1, 2, 0, 1) };
    broken(Gates { marker_before_root: false, ..on() }, bound, "an open");
}

#[test]
fn old_directory_aside() {
    let bound = Bound { crashes: 1, ..Bound::new(2, 3, 2, 1) };
    broken(Gates { old_directory_aside: false, ..on() }, bound, "an open");
}

#[test]
fn compare_wals() {
    let bound = Bound { crashes: 1, damages: 1, ..Bound::new(1, 2, 1, 1) };
    broken(Gates { compare_wals: false, ..on() }, bound, "an open");
}
