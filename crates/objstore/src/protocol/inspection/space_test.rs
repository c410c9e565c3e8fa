//! Goal:   `atollctl du` counts each object once, under the right use: a file that only a snapshot keeps is
//!         history, a file that nobody needs is unneeded.
//! Method: the simulated database (test_db.rs) over a bucket in memory. Its MANIFEST is not in RocksDB's
//!         format, so the tables of the files are not known. The test makes a snapshot, then changes, and
//!         then puts an unneeded and a foreign object into the bucket.

use crate::protocol::format::names;
use crate::protocol::history::snapshot_test::Fixture;
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::inspection::space::{Space, SpaceUse};
use crate::protocol::testing::test_db::*;
use object_store::{ObjectStoreExt, path::Path};
use std::collections::BTreeMap;

fn keys_of(space: &Space, usage: SpaceUse) -> Vec<&str> {
    let of_usage = space.objects.iter().filter(|object| object.usage == usage);
    of_usage.map(|object| object.key.as_str()).filter(|key| key.starts_with(names::FILE_DIR)).collect()
}

#[test]
fn every_object_is_counted_once_under_its_use() {
    let mut fixture = Fixture::new();
    let space = || block(fixture.inspector().space()).unwrap();
    let first = space();
    assert!(!keys_of(&first, SpaceUse::Live).is_empty());
    assert!(keys_of(&first, SpaceUse::Shared).is_empty());
    block(fixture.inspector().create_snapshot("s", "me")).unwrap();
    let held: Vec<String> = block(fixture.inspector().snapshot_keys("s")).unwrap().into_iter().collect();
    assert_eq!(keys_of(&space(), SpaceUse::Live), Vec::<&str>::new(), "the snapshot has all that is there");
    fixture.work(2);
    // The owner stops, because otherwise it would change the bucket between the listings that are compared.
    crash(fixture.db);
    let inspector = Inspector::new(fixture.bucket.clone());
    for stray in ["sst/00/00000000000000000001-9.sst", "somebody/elses"] {
        block(fixture.store.inner.put(&Path::from(format!("db/{stray}")), "x".into())).unwrap();
    }
    let space = block(inspector.space()).unwrap();
    let newest: Vec<String> = block(inspector.files()).unwrap().into_iter().map(|file| file.key).collect();
    for object in space.objects.iter().filter(|object| object.key.starts_with(names::FILE_DIR)) {
        let expected = match (newest.contains(&object.key), held.contains(&object.key)) {
            (true, true) => SpaceUse::Shared,
            (true, false) => SpaceUse::Live,
            (false, true) => SpaceUse::History,
            (false, false) => SpaceUse::Unneeded,
        };
        assert_eq!(object.usage, expected, "{}", object.key);
    }
    assert!(!keys_of(&space, SpaceUse::History).is_empty());
    let by_use = space.objects.iter().fold(BTreeMap::new(), |mut count, object| {
        *count.entry(object.usage).or_insert(0) += 1;
        count
    });
    assert_eq!(by_use.get(&SpaceUse::Foreign), Some(&1));
    assert_eq!(by_use.values().sum::<usize>(), block(inspector.objects()).unwrap().len());
    assert!(space.problem.contains("does not understand"), "its MANIFEST is none: {}", space.problem);
}
