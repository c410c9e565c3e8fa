//! Goal:   in any order of steps, the collector deletes no object that a pin names (gate PUB-G5), even when
//!         pins are copied and dropped.
//! Method: checks all histories of pinners, roots and runs of the collector within the bounds below; then the
//!         same with one rule switched off.

#![allow(clippy::print_stdout)] // The test prints the number of states.

use protocol_model::pin::Pins;
use stateright::{Checker, Model};

const MODEL: Pins = Pins {
    roots: 4,
    pinners: 3,
    runs: 2,
    horizon_before_list: true,
    horizon_after_pin: true,
    original_after_copy: true,
    lies: 0,
    losses: 0,
    doubts_listings: true,
    absence_holds: true,
};

/// The model with wrong answers of the bucket.
const WRONG: Pins = Pins { pinners: 2, lies: 1, losses: 1, ..MODEL };

#[test]
fn a_pinned_root_keeps_its_objects_in_every_order() {
    for model in [MODEL, Pins { pinners: 2, runs: 3, ..MODEL }, WRONG] {
        let checker = model.clone().checker().spawn_bfs().join();
        checker.assert_properties();
        println!("{model:?}: {} states", checker.unique_state_count());
        assert!(checker.unique_state_count() > 10_000, "{}", checker.unique_state_count());
    }
}

#[test]
fn without_a_rule_a_pinned_root_loses_objects() {
    for model in [
        Pins { horizon_before_list: false, ..MODEL },
        Pins { horizon_after_pin: false, ..MODEL },
        Pins { original_after_copy: false, ..MODEL },
        Pins { doubts_listings: false, ..WRONG },
        Pins { absence_holds: false, ..WRONG },
    ] {
        let checker = model.clone().checker().spawn_bfs().join();
        assert!(checker.discovery("a pinned root keeps its objects").is_some(), "{model:?}");
    }
}
