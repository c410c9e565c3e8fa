//! Goal:   the keep-set contains what a restore, a reader of kept roots or the next root needs, and nothing
//!         else.
//! Method: keys of every kind, from the root's epoch, former epochs and later ones, judged one by one.

use super::*;

const EPOCH: u64 = 7;

fn needs(is_former_superfluous: bool) -> Needs {
    Needs {
        epoch: EPOCH,
        manifest: ManifestCopy { number: 20, copy: 1 },
        wal_loose_first: 30,
        runs: vec![WalRun { first: 10, end: 30, bytes: 5 }],
        roots_floor: 40,
        parts: HashSet::from([3, 8]),
        parts_end: 9,
        is_former_superfluous,
    }
}

fn use_of(key: &str, size: u64) -> Use {
    needs(true).use_of(key, Some(size), |key| key == "sst/00/00000000000000000007-1.sst")
}

#[test]
fn records_of_this_epoch_are_needed_from_the_newest_root_on() {
    let manifest = |number, copy| names::manifest_chunk(EPOCH, ManifestCopy { number, copy }, 0);
    for (key, expected) in [
        (manifest(20, 1), Use::Needed),
        (manifest(20, 2), Use::Needed),
        (manifest(21, 0), Use::Needed),
        (manifest(20, 0), Use::Unneeded),
        (manifest(19, 5), Use::Unneeded),
        (names::wal_chunk(EPOCH, 30), Use::Needed),
        (names::wal_chunk(EPOCH, 29), Use::Unneeded),
        (names::merged_chunks(EPOCH, 10, 30), Use::Needed),
        (names::merged_chunks(EPOCH, 10, 20), Use::Unneeded),
        (names::merged_chunks(EPOCH, 30, 35), Use::Needed),
        (names::root(EPOCH, 0), Use::Needed),
        (names::root(EPOCH, 39), Use::Unneeded),
        (names::root(EPOCH, 40), Use::Needed),
        (names::map_part(EPOCH, 3), Use::Needed),
        (names::map_part(EPOCH, 7), Use::Unneeded),
        (names::map_part(EPOCH, 9), Use::Needed),
        ("sst/00/00000000000000000007-1.sst".to_owned(), Use::Needed),
        ("sst/00/00000000000000000007-2.sst".to_owned(), Use::Unneeded),
    ] {
        assert_eq!(use_of(&key, 1000), expected, "{key}");
    }
}

#[test]
fn a_merged_object_on_its_way_is_needed() {
    let mut needs = needs(true);
    let key = names::merged_chunks(EPOCH, 2, 12);
    assert_eq!(needs.use_of(&key, None, |_| false), Use::Unneeded);
    needs.add_runs([WalRun { first: 2, end: 12, bytes: 0 }]);
    assert_eq!(needs.use_of(&key, None, |_| false), Use::Needed);
}

#[test]
fn of_former_epochs_only_claims_and_fences_stay_and_nothing_goes_too_early() {
    let manifest = names::manifest_chunk(3, ManifestCopy { number: 99, copy: 0 }, 0);
    let merged = names::merged_chunks(3, 90, 99);
    let file = "sst/00/00000000000000000003-1.sst".to_owned();
    for key in [manifest, merged, file, names::root(3, 99), names::wal_chunk(3, 99), names::map_part(3, 99)] {
        assert_eq!(use_of(&key, 1000), Use::Unneeded, "{key}");
        assert_eq!(needs(false).use_of(&key, Some(1000), |_| false), Use::Needed, "{key}");
    }
    for key in [names::root(3, 99), names::wal_chunk(3, 99), names::root(3, 0)] {
        assert_eq!(use_of(&key, FENCE_BYTES), Use::Needed, "{key}");
    }
    assert_eq!(use_of(&names::root(3, 0), 1000), Use::Needed);
}

#[test]
fn what_later_owners_the_protocol_and_others_wrote_is_left_alone() {
    for key in
        [names::root(8, 3), names::wal_chunk(8, 3), names::merged_chunks(8, 1, 2), names::map_part(8, 1)]
    {
        assert_eq!(use_of(&key, 1000), Use::Needed, "{key}");
    }
    for key in [
        names::epoch(1),
        names::DB.to_owned(),
        names::ALIVE.to_owned(),
        names::tomb(1, 2),
        "pin/x".to_owned(),
        "snapshot/x".to_owned(),
        names::horizon(7, 3),
    ] {
        assert_eq!(use_of(&key, 1000), Use::Needed, "{key}");
    }
    for key in ["sst/readme", "backup.tar", "root/7/40", "wal/x"] {
        assert_eq!(use_of(key, 1000), Use::Foreign, "{key}");
    }
    assert_eq!(Needs::nothing().use_of(&names::wal_chunk(1, 1), Some(9), |_| false), Use::Needed);
}
