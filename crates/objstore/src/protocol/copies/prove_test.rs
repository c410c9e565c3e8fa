//! Goal:   a proof reports that a restore works when it does, names the damaged object when it does not, and
//!         leaves only its outcome in the bucket.
//! Method: the simulated database (test_db.rs) over a bucket in memory; the tests damage and delete objects.

use crate::protocol::copies::prove::Proof;
use crate::protocol::format::names;
use crate::protocol::history::snapshot_test::Fixture;
use crate::protocol::testing::test_db::*;
use object_store::ObjectStoreExt;

fn prove(f: &Fixture) -> Proof {
    let place = scratch();
    block(f.inspector().prove_restore(place.path(), "tester", |_, _| {})).unwrap()
}

#[test]
fn a_proof_restores_beside_the_owner_and_leaves_its_outcome() {
    let mut f = Fixture::new();
    f.work(2);
    let place = scratch();
    let proof = block(f.inspector().prove_restore(place.path(), "tester", |_, _| {})).unwrap();
    assert!(
        proof.is_restorable && proof.report.bytes_read > 0 && proof.report.files_checked == 2,
        "{proof:?}"
    );
    assert!(place.path().join("restored/CURRENT").is_file());
    assert!(f.keys(names::PIN_DIR).is_empty());
    block(f.inspector().leave_proof(&proof)).unwrap();
    let left: serde_json::Value =
        serde_json::from_slice(&block(f.bucket.get(names::PROVED)).unwrap()).unwrap();
    assert!(left["is_restorable"] == true && left["proved_ms"] == proof.proved_ms, "{left}");
    crash(f.db);
}

#[test]
fn what_a_restore_would_miss_is_named() {
    let f = Fixture::new();
    let file = block(f.inspector().files()).unwrap().remove(0);
    let path = f.bucket.path(&file.key).unwrap();
    block(f.store.inner.put(&path, vec![7; file.size as usize].into())).unwrap();
    let proof = prove(&f);
    assert!(!proof.is_restorable && proof.report.problems[0].contains(&file.key), "{proof:?}");
    let chunk = f.keys(names::MANIFEST_DIR).remove(0);
    block(f.bucket.delete(&chunk)).unwrap();
    let proof = prove(&f);
    assert!(proof.report.problems.iter().any(|problem| problem.contains("man/")), "{proof:?}");
    assert!(f.keys(names::PIN_DIR).is_empty());
    crash(f.db);
}
