//! Goal:   a part of a file map is given up when no kept root names it any more, and not earlier. A part that
//!         no root ever named is given up, too.
//! Method: roots made by hand, each with the numbers of its parts.

use super::super::keep::Use;
use super::*;
use crate::protocol::publish::map_record::{MapInParts, PartRef};
use crate::protocol::publish::map_record_test::root;

const EPOCH: u64 = 1;

/// Publishes root `slot`, whose file map has `parts`. Returns what is needed then, and the parts that are
/// given up.
fn publish(history: &mut RootHistory, slot: u64, parts: &[u64]) -> (Needs, Vec<u64>) {
    let part = |part: &u64| PartRef { part: *part, first: *part, files: 1, bytes: 9, crc32c: 2 };
    let parts: Vec<PartRef> = parts.iter().map(part).collect();
    let files_count = parts.len() as u64;
    let map = MapInParts { epoch: EPOCH, files_count, parts, removed: vec![], added: vec![] };
    let map_in_parts = (files_count > 0).then_some(map);
    let root = Root { map_in_parts, ..root(slot, slot, &[], &[], files_count) };
    let (needs, keys) = history.published(&root, None);
    let parts = keys.iter().filter_map(|key| names::parse_slot(names::MAP_DIR, key));
    (needs, parts.map(|(_, part)| part).collect())
}

fn needed(needs: &Needs, parts: std::ops::Range<u64>) -> Vec<u64> {
    let is_needed =
        |part: &u64| needs.use_of(&names::map_part(EPOCH, *part), Some(9), |_| false) == Use::Needed;
    parts.filter(is_needed).collect()
}

#[test]
fn a_part_is_kept_as_long_as_a_kept_root_names_it() {
    let mut history = RootHistory::new(EPOCH, 2);
    for (slot, named, expected, gone) in [
        (1, &[0, 1][..], &[0, 1][..], &[][..]),
        // Part 2 was uploaded for a root that was never created.
        (2, &[0, 3], &[0, 1, 3], &[2]),
        (3, &[0, 3], &[0, 1, 3], &[]),
        (4, &[4], &[0, 3, 4], &[1]),
        // From here on the map is so small that the root itself holds it, and it has no parts.
        (5, &[], &[0, 3, 4], &[]),
        (6, &[], &[4], &[0, 3]),
        (7, &[], &[], &[4]),
    ] {
        let (needs, given_up) = publish(&mut history, slot, named);
        assert_eq!(given_up, gone, "given up behind root {slot}");
        let end = history.parts_end;
        assert_eq!(needed(&needs, 0..end), expected, "needed behind root {slot}");
        assert_eq!(needed(&needs, end..end + 2), [end, end + 1], "on their way behind root {slot}");
    }
}
