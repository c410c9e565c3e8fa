//! Goal:   a table counts as added, dropped or changed by the bytes that each state has of it; a table
//!         without a difference is not shown.
//! Method: summarizes differences between states that were built by hand.

use super::*;
use objstore::protocol::{FileOwner, NamedTable, TableNames};
use std::collections::BTreeMap;

fn bytes(only_first: u64, both: u64, only_second: u64) -> TableBytes {
    TableBytes { only_first, both, only_second }
}

#[test]
fn tables_are_named_by_what_became_of_them() {
    let owner = |family| Some(FileOwner { family, prefix: Some(0), index: None });
    let named = |family, name: &str| NamedTable {
        database: "shop".to_owned(),
        name: name.to_owned(),
        family,
        ..NamedTable::default()
    };
    let state = ComparedState { epoch: 1, slot: 2, commit_us: 0 };
    let diff = StateDiff {
        first: state.clone(),
        second: state,
        tables: BTreeMap::from([
            (owner(3), bytes(40, 0, 0)),
            (owner(4), bytes(30, 0, 0)),
            (owner(5), bytes(0, 0, 10)),
            (owner(6), bytes(20, 0, 0)),
            (owner(7), bytes(1, 100, 2)),
            (owner(8), bytes(0, 100, 0)),
        ]),
        families: BTreeMap::new(),
        names: TableNames {
            tables: vec![named(5, "new"), named(7, "orders"), named(8, "same")],
            gone: vec![named(6, "old"), named(4, "orders")],
        },
        problem: String::new(),
    };
    let told: Vec<(String, &str)> = tables(&diff).into_iter().map(|row| (row.name, row.change)).collect();
    let told: Vec<(&str, &str)> = told.iter().map(|(name, change)| (name.as_str(), *change)).collect();
    assert_eq!(
        told[1..],
        [
            ("shop.orders (before it was rewritten)", "dropped"),
            ("shop.old (dropped)", "dropped"),
            ("shop.new", "added"),
            ("shop.orders", "changed")
        ]
    );
    assert!(told[0].0.starts_with('('), "its name is not known: {}", told[0].0);
}
