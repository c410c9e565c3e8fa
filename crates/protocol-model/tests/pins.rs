//! Goal:   no collector takes what a pin names, whatever the order of their steps (section 3.6 of the design).
//! Method: all histories of two pinners, four roots and three runs of the collector; then each rule switched off.

use protocol_model::pin::Pins;
use stateright::{Checker, Model};

const MODEL: Pins =
    Pins { roots: 4, pinners: 2, runs: 3, horizon_before_list: true, horizon_after_pin: true };

#[test]
fn a_pinned_root_keeps_its_objects_in_every_order() {
    let checker = MODEL.checker().spawn_bfs().join();
    checker.assert_properties();
    assert!(checker.unique_state_count() > 10_000, "{}", checker.unique_state_count());
}

#[test]
fn without_a_rule_a_pinned_root_loses_objects() {
    for model in [Pins { horizon_before_list: false, ..MODEL }, Pins { horizon_after_pin: false, ..MODEL }] {
        let checker = model.clone().checker().spawn_bfs().join();
        assert!(checker.discovery("a pinned root keeps its objects").is_some(), "{model:?}");
    }
}
