//! Goal:   `atollctl verify --all` notices every object that a snapshot, a clone or a moment of the history needs
//!         and that is missing or damaged.
//! Method: a small database in memory with a snapshot and a history, whose present needs none of their files;
//!         then each object that only they need is removed in turn.

use crate::config::{Durability, StoreConfig};
use crate::protocol::format::names;
use crate::protocol::gc::HistoryLimits;
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::inspection::verify::KeptReport;
use crate::protocol::testing::test_db::*;
use crate::requests::bucket::Bucket;
use crate::requests::fault::faulty_bucket;
use std::collections::BTreeSet;
use std::time::Duration;

fn verify_kept(inspector: &Inspector, deep: bool) -> Vec<KeptReport> {
    block(inspector.verify_kept(deep, |_, _| {})).unwrap()
}

fn problems(inspector: &Inspector) -> Vec<String> {
    verify_kept(inspector, true).into_iter().flat_map(|kept| kept.report.problems).collect()
}

#[test]
fn a_prefix_without_a_database_is_an_error_and_one_without_a_root_is_told() {
    let bucket = Bucket::in_memory();
    let inspector = Inspector::new(bucket.clone());
    assert!(block(inspector.check_exists()).unwrap_err().is_not_found());
    assert!(block(inspector.verify_kept(false, |_, _| {})).unwrap_err().is_not_found());
    assert!(block(inspector.files()).unwrap_err().is_not_found());
    assert!(block(inspector.roots()).unwrap_err().is_not_found());
    assert!(block(inspector.commits()).unwrap_err().is_not_found());
    let dir = scratch();
    let store = open_store(&config(dir.path(), "owner:1", Durability::Sync), &bucket, quick()).unwrap();
    let report = block(inspector.verify(false, |_, _| {})).unwrap();
    assert!(report.root.is_none(), "{report:?}");
    block(inspector.check_exists()).unwrap();
    drop(store);
}

#[test]
fn every_object_that_only_a_snapshot_or_the_history_needs_is_missed() {
    use object_store::{ObjectStoreExt, path::Path};
    let (bucket, faults) = faulty_bucket();
    let dir = scratch();
    let config = StoreConfig {
        history: HistoryLimits { retention: Duration::from_secs(3600), bytes_max: u64::MAX },
        ..config(dir.path(), "owner:1", Durability::Sync)
    };
    let store = open_store(&config, &bucket, quick()).unwrap();
    let mut db = Db::open(store, dir.path(), true);
    let mut model = Model::default();
    let inspector = Inspector::new(bucket.clone());
    for round in 0..4 {
        for key in 0..6 {
            db.commit(&mut model, 0b11, key, round);
        }
        db.flush(0, true);
        db.flush(1, true);
        db.delete_obsolete_wals();
        db.store.publish(WAIT).unwrap();
        if round == 1 {
            block(inspector.create_snapshot("s", "test")).unwrap();
        }
    }
    lose(db, dir.path());
    let kept = verify_kept(&inspector, true);
    let kinds: BTreeSet<&str> = kept.iter().map(|kept| kept.kind.as_str()).collect();
    assert!(kinds.contains("snapshot") && problems(&inspector).is_empty(), "{kept:?}");
    let present: BTreeSet<String> =
        block(inspector.files()).unwrap().into_iter().map(|file| file.key).collect();
    let only_past: Vec<String> = block(bucket.list(names::FILE_DIR, None))
        .unwrap()
        .into_iter()
        .map(|object| object.key)
        .filter(|key| !present.contains(key))
        .collect();
    assert!(!only_past.is_empty());
    let mut found = 0;
    for key in only_past {
        let path = Path::from(format!("db/{key}"));
        let bytes = block(bucket.get(&key)).unwrap();
        block(faults.inner.delete(&path)).unwrap();
        let missing = problems(&inspector);
        let mut damaged = bytes.to_vec();
        damaged[0] ^= 1;
        block(faults.inner.put(&path, damaged.into())).unwrap();
        let wrong = problems(&inspector);
        assert_eq!(missing.is_empty(), wrong.is_empty(), "{key}: {missing:?} {wrong:?}");
        assert!(missing.iter().chain(&wrong).all(|problem| problem.contains(&key)), "{missing:?} {wrong:?}");
        found += usize::from(!missing.is_empty());
        assert!(block(inspector.verify(true, |_, _| {})).unwrap().problems.is_empty(), "the present is well");
        block(faults.inner.put(&path, bytes.into())).unwrap();
    }
    assert!(found > 0, "no object of the past was missed");
}
