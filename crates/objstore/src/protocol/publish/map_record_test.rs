//! Goal:   parts of file maps are the same after encoding and decoding, damaged and wrong parts are refused,
//!         and maps of earlier versions are read.
//! Method: random entries with keys of every form; every truncation, and a flipped bit in every byte; roots
//!         that the test writes into the bucket.

use crate::files::{FileRecord, Labels, object_key};
use crate::protocol::format::image;
use crate::protocol::format::names::{self, ManifestCopy};
use crate::protocol::format::records::{Root, RootId, RootSlot};
use crate::protocol::publish::map_record::*;
use crate::protocol::testing::test_db::block;
use crate::protocol::testing::test_random::Random;
use crate::requests::bucket::Bucket;

const NONCE: [u8; 16] = [7; 16];

fn entries(random: &mut Random) -> Vec<MapEntry> {
    let mut number = random.below(3);
    let mut entries = Vec::new();
    for _ in 0..random.below(9) {
        let (epoch, name) = (random.below(4), number.to_string());
        let key = match random.below(6) {
            0 => object_key(epoch, &format!("s{}", random.next()), "sst"),
            5 => object_key(epoch, &format!("s0{number}-r2"), "blob"),
            1 => object_key(epoch, &name, "blob"),
            2 => "another/shape".to_owned(),
            _ => object_key(epoch, &name, "sst"),
        };
        entries.push(MapEntry {
            number,
            key,
            size_bytes: random.next() >> random.below(64),
            crc32c: 9,
            labels: Labels::default(),
        });
        number += 1 + (random.next() >> random.below(61).max(4)) / 16;
    }
    entries
}

fn reference(part: &MapPart) -> PartRef {
    let bytes = part.encode(&NONCE);
    let first = part.entries.first().map_or(0, |entry| entry.number);
    let crc32c = checksum(&bytes);
    PartRef { part: part.part, first, files: part.entries.len() as u64, bytes: bytes.len() as u64, crc32c }
}

#[test]
fn a_part_survives_the_way_to_bytes_and_no_damage_does() {
    let mut random = Random::from_environment("a_part_survives_the_way_to_bytes_and_no_damage_does");
    for _ in 0..50 {
        let part = MapPart { epoch: random.below(3), part: random.next(), entries: entries(&mut random) };
        let bytes = part.encode(&NONCE);
        assert_eq!(MapPart::decode(&bytes), Ok(part.clone()), "seed {}", random.seed);
        assert_eq!(MapPart::read(&bytes, part.epoch, reference(&part)), Ok(part));
        for end in 0..bytes.len() {
            assert!(MapPart::decode(&bytes[..end]).is_err(), "cut at {end}");
            let mut flipped = bytes.clone();
            flipped[end] ^= 1 << random.below(8);
            assert!(MapPart::decode(&flipped).is_err(), "flipped at {end}");
        }
    }
}

/// The first names are those of files that RocksDB has written. The second are those of files that a bulk
/// load has uploaded before they had a number.
#[test]
fn names_follow_from_numbers_so_an_entry_has_few_bytes() {
    let bytes_of = |name: fn(u64) -> String| {
        let entry = |number: u64| MapEntry {
            number,
            key: object_key(7, &name(number), "sst"),
            size_bytes: 64 << 20,
            crc32c: 0xffff_ffff,
            labels: Labels::default(),
        };
        let entries = (1_000_000..1_001_000).map(entry).collect();
        MapPart { epoch: 7, part: 1, entries }.encode(&NONCE).len()
    };
    let (written, staged) = (bytes_of(|number| number.to_string()), bytes_of(|number| format!("s{number}")));
    assert!(written < 11 * 1000, "{written} bytes for 1000 entries");
    assert!(staged < 14 * 1000, "{staged} bytes for 1000 entries");
}

#[test]
fn another_part_is_refused_by_name() {
    let part = |crc32c| MapPart {
        epoch: 3,
        part: 5,
        entries: vec![MapEntry {
            number: 1,
            key: object_key(3, "1", "sst"),
            size_bytes: 2,
            crc32c,
            labels: Labels::default(),
        }],
    };
    // `other` is a part of another database: it has the same epoch and part number, but another file.
    let (ours, other) = (part(1), part(2));
    let error = MapPart::read(&other.encode(&NONCE), 3, reference(&ours)).unwrap_err().to_string();
    assert!(error.contains("another database"), "{error}");
    for (epoch, number) in [(2, 5), (3, 6)] {
        let reference = PartRef { part: number, ..reference(&ours) };
        assert!(MapPart::read(&ours.encode(&NONCE), epoch, reference).is_err());
    }
}

fn in_parts(parts: Vec<PartRef>, files_count: u64) -> MapInParts {
    MapInParts { epoch: 1, files_count, parts, removed: vec![], added: vec![] }
}

#[test]
fn a_map_in_parts_survives_the_way_to_bytes_and_is_refused_when_it_is_cut() {
    let mut random = Random::from_environment("a_map_in_parts_survives_the_way_to_bytes");
    for _ in 0..200 {
        let (epoch, files_count, added) = (random.below(3), random.next(), entries(&mut random));
        let removed = entries(&mut random).iter().map(|entry| entry.number).collect();
        let parts = vec![PartRef { part: random.next(), first: 2, files: 3, bytes: 4, crc32c: 5 }];
        let map = MapInParts { epoch, files_count, parts, removed, added };
        let value = map.encode();
        assert_eq!(MapInParts::decode(&value), Some(map), "seed {}", random.seed);
        assert!((0..value.len()).all(|end| MapInParts::decode(&value[..end]).is_none()));
        assert_eq!(MapInParts::decode(&[&value[..], &[0]].concat()), None);
    }
}

#[test]
fn lists_of_parts_that_are_empty_or_out_of_order_are_refused() {
    let part = |first, files| PartRef { part: 1, first, files, bytes: 9, crc32c: 2 };
    let decode = |parts| MapInParts::decode(&in_parts(parts, 3).encode());
    assert!(decode(vec![part(0, 3), part(9, 1)]).is_some());
    for bad in [vec![], vec![part(9, 1), part(9, 1)], vec![part(9, 1), part(3, 1)], vec![part(1, 0)]] {
        assert_eq!(decode(bad.clone()), None, "{bad:?}");
    }
}

pub(in crate::protocol) fn root(
    slot: u64,
    map_slot: u64,
    added: &[u64],
    removed: &[u64],
    files_count: u64,
) -> Root {
    let entry = |number: &u64| MapEntry {
        number: *number,
        key: object_key(1, &number.to_string(), "sst"),
        size_bytes: 10,
        crc32c: 5,
        labels: Labels::default(),
    };
    Root {
        id: RootId { epoch: 1, slot },
        manifest: ManifestCopy { number: 1, copy: 0 },
        manifest_bytes: 0,
        manifest_crc32c: 0,
        ddl_seq: 0,
        wal_min: 0,
        wal_first_chunk: 0,
        wal_needed_end: 0,
        published_ms: 0,
        map_slot,
        files_count,
        map_in_parts: None,
        added: added.iter().map(entry).collect(),
        removed: removed.to_vec(),
        wal_runs: vec![],
        position: None,
        opened: None,
    }
}

fn put(bucket: &Bucket, key: &str, bytes: Vec<u8>) {
    block(bucket.create_slot(key, bytes.into(), &NONCE)).unwrap();
}

/// Earlier versions wrote a full map into one root, and its changes into each later root.
#[test]
fn a_map_in_the_roots_of_an_earlier_version_is_read() {
    let bucket = Bucket::in_memory();
    for root in [root(4, 4, &[1, 2, 3], &[], 3), root(5, 4, &[7], &[2], 3), root(6, 4, &[8, 9], &[1, 7], 3)] {
        put(&bucket, &names::root(1, root.id.slot), root.encode(&NONCE));
    }
    let image = block(image::load(&bucket, RootId { epoch: 1, slot: 6 })).unwrap();
    assert_eq!(image.files.keys().copied().collect::<Vec<_>>(), [3, 8, 9]);
}

#[test]
fn a_root_whose_map_in_parts_is_not_all_of_it_is_refused() {
    let map = in_parts(vec![PartRef { part: 1, first: 1, files: 1, bytes: 9, crc32c: 2 }], 1);
    let of_epoch_2 = MapInParts { epoch: 2, ..map.clone() };
    for (root, map, is_read) in [
        (root(6, 6, &[], &[], 1), &map, true),
        (root(6, 5, &[], &[], 1), &map, false),
        (root(6, 6, &[8], &[], 1), &map, false),
        (root(6, 6, &[], &[1], 1), &map, false),
        (root(6, 6, &[], &[], 2), &map, false),
        (root(6, 6, &[], &[], 1), &of_epoch_2, false),
    ] {
        let root = Root { map_in_parts: Some(map.clone()), ..root };
        let read = RootSlot::decode(&root.encode(&NONCE));
        assert_eq!(read == Ok(RootSlot::Root(root)), is_read, "{read:?}");
    }
}

#[test]
fn parts_that_overlap_and_changes_that_do_not_fit_are_refused() {
    let bucket = Bucket::in_memory();
    let numbered = |part: u64, numbers: &[u64]| {
        let entries = root(1, 1, numbers, &[], 0).added;
        MapPart { epoch: 1, part, entries }
    };
    let parts = [numbered(0, &[1, 2, 5]), numbered(1, &[4, 6]), numbered(2, &[6, 7])];
    for part in &parts {
        put(&bucket, &names::map_part(1, part.part), part.encode(&NONCE));
    }
    let named = |indexes: &[usize]| indexes.iter().map(|part| reference(&parts[*part])).collect::<Vec<_>>();
    for (slot, indexes, added, removed, count, expected) in [
        (1, &[0, 2][..], &[8][..], &[2, 7][..], 4, ""),
        (2, &[0, 1], &[], &[], 5, "overlap"),
        (3, &[0, 2], &[5], &[], 6, "adds a file that was there"),
        (4, &[0, 2], &[], &[3], 4, "removes a file that was not there"),
        (5, &[0, 2], &[8], &[2], 6, "number of files"),
    ] {
        let added = root(1, 1, added, &[], 0).added;
        let map = MapInParts { removed: removed.to_vec(), added, ..in_parts(named(indexes), count) };
        let root = Root { map_in_parts: Some(map), ..root(slot, slot, &[], &[], count) };
        put(&bucket, &names::root(1, slot), root.encode(&NONCE));
        match block(image::load(&bucket, root.id)) {
            Ok(image) => assert_eq!((image.files.len(), expected), (4, "")),
            Err(error) => {
                let text = error.to_string();
                assert!(!expected.is_empty() && text.contains(expected), "slot {slot}: {text}");
                assert!(text.contains(&names::root(1, slot)), "{text}");
            }
        }
    }
}

/// Clones of tables give one object several numbers.
#[test]
fn an_object_with_two_numbers_is_counted_once() {
    let record = |key: &str, size| FileRecord { key: key.into(), size, crc32c: 1, labels: Labels::default() };
    let files = FileMap::from([
        (1, record("a", 10)),
        (2, record("b", 100)),
        (3, record("a", 10)),
        (4, record("c", 1000)),
    ]);
    assert_eq!(object_bytes(&files), 1110);
    let keys: Vec<&str> = objects_of(&files).iter().map(|object| &*object.key).collect();
    assert_eq!(keys, ["a", "b", "c"]);
    // An object is listed twice when two file numbers have different sizes for it.
    assert_eq!(objects_of(&FileMap::from([(1, record("a", 10)), (2, record("a", 11))])).len(), 2);
}
