//! Goal:   parts and changes always make up the whole map and stay within the limits, and the cost of a
//!         publish depends on what has changed.
//! Method: random changes and failed publishes with small limits; the map is read back as a restore reads it.
//!         Then a map of 100,000 files with a server's limits. The seed is printed.

use super::*;
use crate::files::Labels;
use crate::protocol::format::image::join;
use crate::protocol::shared::Tuning;
use crate::protocol::testing::test_random::Random;
use std::collections::HashMap;

/// What the test keeps in place of a bucket: the parts, and the file map of the newest root.
#[derive(Default)]
struct Published {
    objects: HashMap<u64, Bytes>,
    files: Vec<MapEntry>,
    in_parts: Option<MapInParts>,
}

impl Published {
    /// Puts the unsent parts of `map` and the root. Returns the bytes of the parts and of the root's map in
    /// parts.
    fn publish(&mut self, map: &mut MapWriter) -> usize {
        let mut bytes = 0;
        for new in map.unsent() {
            bytes += new.bytes.len();
            assert!(self.objects.insert(new.part, new.bytes.clone()).is_none(), "MAP-2: a part is put once");
        }
        map.sent();
        (self.files, self.in_parts) = map.content();
        bytes + self.in_parts.as_ref().map_or(0, |map| map.encode().len())
    }

    /// Reads the map as a restore does.
    fn read(&self) -> FileMap {
        let Some(map) = &self.in_parts else {
            return self.files.iter().map(|entry| (entry.number, entry.record())).collect();
        };
        let part = |part: &PartRef| MapPart::read(&self.objects[&part.part], 3, *part).unwrap();
        join(&map.parts.iter().map(part).collect::<Vec<_>>(), map, "a root").unwrap()
    }

    fn parts(&self) -> usize {
        self.in_parts.as_ref().map_or(0, |map| map.parts.len())
    }
}

fn file(random: &mut Random, number: u64) -> FileRecord {
    let name = if random.below(10) == 0 { format!("s{number}") } else { number.to_string() };
    let key = crate::files::object_key(1 + random.below(2), &name, "sst").into();
    FileRecord { key, size: random.below(80 << 20), crc32c: random.next() as u32, labels: Labels::default() }
}

#[test]
fn parts_and_changes_are_always_the_whole_map() {
    let mut random = Random::from_environment("parts_and_changes_are_always_the_whole_map");
    for _ in 0..40 {
        let limits = MapLimits {
            small_files: random.below(12) as usize,
            part_files: 1 + random.below(8) as usize,
            changes_bytes: random.below(200) as usize,
            parts_max: 1 + random.below(6) as usize,
        };
        let context = format!("seed {}, {limits:?}", random.seed);
        let mut map = MapWriter::new(3, limits.clone());
        let mut published = Published::default();
        let mut model = FileMap::new();
        // The changes that the newest root lacks; they are applied again with each publish until one
        // succeeds.
        let mut pending = FileChanges::new();
        for _ in 0..150 {
            let many = if random.below(20) == 0 { 40 } else { 5 };
            for _ in 0..random.below(many) {
                let number = random.below(60) + model.len() as u64;
                let file = (random.below(5) < 3).then(|| file(&mut random, number));
                model.remove(&number);
                model.extend(file.clone().map(|file| (number, file)));
                pending.insert(number, file);
            }
            map.apply(pending.clone()).unwrap();
            assert_eq!(map.files(), &model, "{context}");
            if random.below(4) == 0 {
                continue; // The publish failed.
            }
            published.publish(&mut map);
            pending.clear();
            assert_eq!(published.read(), model, "{context}");
            assert!(published.parts() <= limits.parts_max, "{context}: {} parts", published.parts());
            match &published.in_parts {
                None => assert!(model.len() <= limits.small_files, "{context}: {} files", model.len()),
                Some(map) => {
                    let bytes = ADDED_BYTES * map.added.len() + REMOVED_BYTES * map.removed.len();
                    assert!(bytes <= limits.changes_bytes, "{context}: {bytes} bytes of changes");
                }
            }
        }
    }
}

#[test]
fn only_what_is_another_counts_as_a_change() {
    let mut random = Random::new(1);
    let mut map = MapWriter::new(3, Tuning::default().map);
    let file = file(&mut random, 7);
    let change = |file: Option<&FileRecord>| FileChanges::from([(7, file.cloned())]);
    for (given, is_other) in [(None, false), (Some(&file), true), (Some(&file), false), (None, true)] {
        assert_eq!(map.apply(change(given)).unwrap(), is_other, "{given:?}");
    }
}

/// Publishes a map of `files` files `publishes` times; each publish adds five files and removes five. Returns
/// the most bytes and the average bytes that a publish sent, the most entries that one looked at, and the
/// most parts.
fn costs(files: u64, publishes: u64) -> (usize, usize, u64, usize) {
    let mut random = Random::from_environment("costs");
    let mut map = MapWriter::new(3, Tuning::default().map);
    let mut published = Published::default();
    let mut next = 0;
    let mut number = |random: &mut Random| {
        next += 1 + random.below(5);
        next
    };
    let first: FileChanges = (0..files)
        .map(|_| {
            let number = number(&mut random);
            // The objects are named as after a bulk load, because such names take most bytes.
            let key = crate::files::object_key(1, &format!("s{number}"), "sst").into();
            (
                number,
                Some(FileRecord {
                    key,
                    size: random.below(80 << 20),
                    crc32c: random.next() as u32,
                    labels: Labels::default(),
                }),
            )
        })
        .collect();
    map.apply(first).unwrap();
    published.publish(&mut map);
    map.take_visited();
    let (mut most, mut total, mut visited, mut parts) = (0, 0, 0, 0);
    for _ in 0..publishes {
        let mut changes = FileChanges::new();
        for _ in 0..5 {
            let number = number(&mut random);
            let key = crate::files::object_key(2, &number.to_string(), "sst").into();
            let size = random.below(80 << 20);
            changes.insert(
                number,
                Some(FileRecord { key, size, crc32c: random.next() as u32, labels: Labels::default() }),
            );
            let any = random.below(number);
            let gone = map.files().range(any..).next().map(|(number, _)| *number);
            changes.extend(gone.map(|gone| (gone, None)));
        }
        map.apply(changes).unwrap();
        let bytes = published.publish(&mut map);
        most = most.max(bytes);
        total += bytes;
        visited = visited.max(map.take_visited());
        parts = parts.max(published.parts());
    }
    assert_eq!(published.read(), *map.files());
    let average = total / publishes as usize;
    eprintln!("{files} files: {most} bytes at most, {average} on average, {visited} entries, {parts} parts");
    (most, average, visited, parts)
}

#[test]
fn a_publish_of_ten_files_costs_the_same_with_a_hundred_thousand_as_with_ten_thousand() {
    let few = costs(10_000, 1500);
    let many = costs(100_000, 1500);
    assert!(many.0 <= 64 << 10, "{} bytes in one publish", many.0);
    assert!(many.1 <= 32 << 10, "{} bytes in a publish on average", many.1);
    assert!(many.2 <= few.2 + few.2 / 2, "{} entries, with a tenth of the files {}", many.2, few.2);
    assert!(many.3 <= 40, "{} parts", many.3);
}

/// 100 TB of table files. A part has 50,000 of them then, so a publish may send one of some 750 KB.
#[test]
#[ignore = "too long without optimization; 4 s with --release"]
fn a_publish_of_ten_files_of_1_600_000_sends_one_part() {
    let (most, average, visited, parts) = costs(1_600_000, 300);
    assert!(most <= 1 << 20, "{most} bytes in one publish");
    assert!(average <= 32 << 10, "{average} bytes in a publish on average");
    assert!(visited <= 200_000, "{visited} entries");
    assert!(parts <= 40, "{parts} parts");
}
