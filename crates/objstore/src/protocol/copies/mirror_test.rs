//! Goal:   a copy in another bucket always opens with the state that its source had at one moment; a later
//!         round copies only what is new; the source keeps the files that are being copied, and no pin
//!         remains after a round; a copy that a server has opened is left alone (MIRROR-1 to 3).
//! Method: simulated databases (test_db.rs) in two buckets in memory, and in directories, where one request
//!         after the other is made to fail.

use crate::config::Durability;
use crate::error::{Result, StoreError};
use crate::protocol::copies::adopt::COPIES;
use crate::protocol::copies::mirror::{CopyRequest, CopyStatus};
use crate::protocol::format::names;
use crate::protocol::history::clone::CloneRequest;
use crate::protocol::history::past::Past;
use crate::protocol::history::pin::{self, PinKind};
use crate::protocol::history::snapshot_test::{Fixture, NOW};
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::kept_settings::SettingsChange;
use crate::protocol::start::claim::take_epoch;
use crate::protocol::start::home::Home;
use crate::protocol::testing::test_copies::change;
use crate::protocol::testing::test_db::*;
use crate::requests::bucket::Bucket;
use crate::requests::fault::{Fault, FaultStore, faulty_bucket};
use crate::requests::upload::stream::Pace;
use bytes::Bytes;
use object_store::memory::InMemory;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn request() -> CopyRequest {
    CopyRequest {
        past: None,
        place: "s3://elsewhere".to_owned(),
        creator: "tester".to_owned(),
        stays_in_step: true,
        must_mask: false,
        pace: Pace::new(None),
    }
}

fn copy_as(source: &Bucket, target: &Bucket, request: &CopyRequest) -> Result<CopyStatus> {
    block(Inspector::new(source.clone()).copy_to(target, request, &|_, _| {}))
}

fn copy(source: &Bucket, target: &Bucket) -> Result<CopyStatus> {
    copy_as(source, target, &request())
}

/// Returns an empty bucket in another object store, and that object store, whose requests the test can make
/// fail.
fn elsewhere() -> (Bucket, Arc<FaultStore<InMemory>>) {
    let (bucket, store) = faulty_bucket();
    (bucket.sibling("mirror").unwrap(), store)
}

fn open_copy(bucket: &Bucket, dir: &std::path::Path) -> Db {
    let config = config(dir, "heir:1", Durability::Sync);
    Db::open(open_store(&config, bucket, quick()).unwrap(), dir, false)
}

/// Opens the copy without a local directory, as after the loss of a machine, and checks that it has the
/// commits of `model`.
fn check_opened(bucket: &Bucket, model: &Model, context: &str) {
    let dir = scratch();
    let db = open_copy(bucket, dir.path());
    assert_eq!(db.last_seq, model.commits.len() as u64, "{context}");
    db.check(model, context);
    crash(db);
}

/// Returns how many commits a server would find in the copy. It opens a clone of the copy, because a copy
/// that a server has opened can no longer be brought up to date (MIRROR-2).
fn commits_in(copy: &Bucket) -> u64 {
    let request = CloneRequest {
        past: None,
        place: "s3://probe".to_owned(),
        creator: "tester".to_owned(),
        discards_unfinished: false,
        expires_s: None,
    };
    let (probe, dir) = (copy.sibling("probe").unwrap(), scratch());
    block(Inspector::new(copy.clone()).clone_to(&probe, &request)).unwrap();
    let db = open_copy(&probe, dir.path());
    let found = db.last_seq;
    crash(db);
    found
}

fn is_clean(bucket: &Bucket) -> bool {
    let report = block(Inspector::new(bucket.clone()).fsck(NOW, |_, _| {})).unwrap();
    assert!(report.verified.problems.is_empty() && report.foreign.is_empty(), "{report:?}");
    report.orphaned.is_empty() && report.pending.is_empty()
}

#[test]
fn a_copy_is_kept_in_step_with_what_is_new_and_opens_without_its_source() {
    let mut f = Fixture::new();
    let (target, _) = elsewhere();
    let first = copy(&f.bucket, &target).unwrap();
    assert_eq!((first.adopted.copied_files, first.adopted.reused_files), (first.files, 0));
    assert!(copy(&f.bucket, &target).unwrap().is_unchanged);
    f.db.commit(&mut f.model, 0b11, 5, 5);
    f.db.flush(0, true);
    f.db.store.publish(WAIT).unwrap();
    let second = copy(&f.bucket, &target).unwrap();
    assert_eq!(second.db_uuid, first.db_uuid);
    assert!(second.adopted.copied_files == 1 && second.adopted.reused_files == 1, "{second:?}");
    assert!(second.deleted_objects > 0 && is_clean(&target), "{second:?}");
    f.work(3);
    f.until_clean();
    copy(&f.bucket, &target).unwrap();
    assert!(is_clean(&target), "what the former round alone needed is gone");
    let copies = f.keys(names::PIN_DIR);
    assert!(copies.is_empty(), "{copies:?}");
    let model = f.model.clone();
    crash(f.db);
    check_opened(&target, &model, "the copy");
}

#[test]
fn a_copier_leaves_the_pin_of_another_that_may_be_at_work() {
    let mut f = Fixture::new();
    let (target, _) = elsewhere();
    copy(&f.bucket, &target).unwrap();
    let source = block(f.inspector().identity()).unwrap().db_uuid;
    let another = format!("{COPIES} {source} by another");
    block(take_epoch(&target, &another, &Home::default())).unwrap();
    let (key, moment) = (pin::copy_key(&[7; 16]), block(f.inspector().moment()).unwrap());
    let pin = moment.pin(PinKind::Clone, "copy in s3://elsewhere", "another");
    block(f.inspector().put_pin(&key, &pin)).unwrap();
    assert!(copy(&f.bucket, &target).unwrap().is_unchanged);
    assert_eq!(f.keys(names::PIN_DIR), std::slice::from_ref(&key), "a copier that has nothing to do");
    change(&mut f.db, &mut f.model, 5);
    let newest = block(f.inspector().files()).unwrap().into_iter().next_back().unwrap();
    let bytes = block(f.bucket.get(&newest.key)).unwrap();
    let replace = |bytes: Bytes| block(f.bucket.put_unconditional(&newest.key, bytes, Default::default()));
    replace(vec![7; bytes.len()].into()).unwrap();
    assert!(copy(&f.bucket, &target).is_err());
    assert_eq!(f.keys(names::PIN_DIR), std::slice::from_ref(&key), "a copier that has failed");
    replace(bytes).unwrap();
    copy(&f.bucket, &target).unwrap();
    assert!(f.keys(names::PIN_DIR).is_empty(), "a copier that has copied");
    crash(f.db);
}

#[test]
fn a_copy_that_a_server_has_opened_and_what_is_none_is_left_alone() {
    let mut f = Fixture::new();
    let (target, _) = elsewhere();
    copy(&f.bucket, &target).unwrap();
    check_opened(&target, &f.model, "the copy");
    f.work(1);
    let before = block(target.list("", None)).unwrap();
    let refused = |source: &Bucket, target: &Bucket, expected: &str| {
        let error = copy(source, target).unwrap_err();
        assert!(matches!(&error, StoreError::Invalid(m) if m.contains(expected)), "{error}");
    };
    refused(&f.bucket, &target, "opened by 'heir:1'");
    assert_eq!(block(target.list("", None)).unwrap(), before);
    let other = Fixture::new();
    refused(&other.bucket, &target, "no copy of");
    refused(&f.bucket, &other.bucket, "overlap");
    let (strange, _) = elsewhere();
    block(strange.put("hint/x", b"x".to_vec().into())).unwrap();
    refused(&f.bucket, &strange, "other objects");
    crash(f.db);
    crash(other.db);
}

/// MIRROR-2: a server opens the copy while a program copies files to it. The program then ends with an error,
/// and the server's database has the state of the round before.
#[test]
fn a_copier_that_a_server_overtakes_ends_and_changes_nothing() {
    let mut f = Fixture::new();
    let (target, _) = elsewhere();
    copy(&f.bucket, &target).unwrap();
    let old = f.model.clone();
    f.work(1);
    let (dir, opened) = (scratch(), std::sync::Mutex::new(None));
    let open = |_, _| {
        let mut opened = opened.lock().unwrap();
        if opened.is_none() {
            let dir = dir.path();
            *opened =
                std::thread::scope(|scope| scope.spawn(|| Some(open_copy(&target, dir))).join().unwrap());
        }
    };
    let outcome = block(Inspector::new(f.bucket.clone()).copy_to(&target, &request(), &open));
    assert!(matches!(outcome, Err(StoreError::Invalid(_) | StoreError::Fenced(_))), "{outcome:?}");
    let db = opened.into_inner().unwrap().unwrap();
    db.check(&old, "the copy");
    db.store.publish(WAIT).unwrap();
    crash(db);
    crash(f.db);
}

#[test]
fn a_moment_of_the_past_is_copied_as_a_clone_that_is_no_copy() {
    let mut f = Fixture::new();
    f.create("s").unwrap();
    let model = f.model.clone();
    f.work(2);
    let (target, _) = elsewhere();
    let clone = CopyRequest { past: Some(Past::Snapshot("s".to_owned())), stays_in_step: false, ..request() };
    copy_as(&f.bucket, &target, &clone).unwrap();
    for again in [&clone, &request()] {
        assert!(matches!(copy_as(&f.bucket, &target, again), Err(StoreError::Invalid(_))));
    }
    check_opened(&target, &model, "the clone");
    crash(f.db);
}

/// Each request to either bucket in turn is made to fail, or is the one at which the copying program is
/// killed. The copy then has the former state or the new one, and the next round succeeds.
#[test]
fn a_copy_is_never_half_whatever_request_is_hurt_or_is_the_last() {
    let faults = [Fault::LostRequest, Fault::LostReply, Fault::ConflictAfterApply, Fault::CorruptBody];
    let mut f = Fixture::new();
    let mut reused = 0;
    for fault in faults.map(Some).into_iter().chain([None]) {
        for hurts_target in [false, true] {
            for position in 0.. {
                let (target, store) = elsewhere();
                let is_first = position % 2 == 0;
                if !is_first {
                    copy(&f.bucket, &target).unwrap();
                }
                let old = f.model.clone();
                f.work(1);
                let hurt = if hurts_target { &store } else { &f.store };
                let before = hurt.requests();
                match fault {
                    Some(fault) => hurt.hurt(position, fault),
                    None => hurt.end_at(position),
                }
                let outcome = copy(&f.bucket, &target);
                let sent = hurt.requests() - before;
                hurt.heal();
                let context = format!("{fault:?} {hurts_target} {position}: {outcome:?}");
                assert!(!matches!(outcome, Err(StoreError::Bug(_))), "{context}");
                let exists = block(target.list(names::DB, None)).is_ok_and(|found| !found.is_empty());
                let exists = exists || block(target.get(names::DB)).is_ok();
                assert!(exists || is_first && outcome.is_err(), "{context}");
                if exists {
                    let found = commits_in(&target);
                    let states = [&old, &f.model].map(|model| model.commits.len() as u64);
                    assert!(
                        found == states[1] || outcome.is_err() && found == states[0],
                        "{context} {found}"
                    );
                }
                assert!(
                    block(Inspector::new(target.clone()).verify(true, |_, _| {}))
                        .unwrap()
                        .problems
                        .is_empty()
                );
                reused += copy(&f.bucket, &target).unwrap().adopted.reused_files;
                check_opened(&target, &f.model, &context);
                assert!(!f.keys(names::PIN_DIR).iter().any(|key| pin::is_copy_key(key)), "{context}");
                if position > sent + 1 {
                    assert!(position > 15, "a copy sends more than {sent} requests");
                    break;
                }
            }
        }
    }
    assert!(reused > 5, "{reused}");
    crash(f.db);
}

#[test]
fn a_damaged_file_of_the_source_is_named_and_the_copy_keeps_its_state() {
    let mut f = Fixture::new();
    let (target, _) = elsewhere();
    copy(&f.bucket, &target).unwrap();
    let old = f.model.clone();
    f.db.commit(&mut f.model, 0b11, 5, 5);
    f.db.flush(0, true);
    f.db.store.publish(WAIT).unwrap();
    let newest = block(f.inspector().files()).unwrap().into_iter().next_back().unwrap();
    let path = f.bucket.path(&newest.key).unwrap();
    block(object_store::ObjectStoreExt::put(
        f.store.inner.as_ref(),
        &path,
        vec![7; newest.size as usize].into(),
    ))
    .unwrap();
    let error = copy(&f.bucket, &target).unwrap_err();
    assert!(matches!(&error, StoreError::Corruption(m) if m.contains(&newest.key)), "{error}");
    check_opened(&target, &old, "the copy of the round before");
    crash(f.db);
}

#[test]
fn a_copy_goes_to_a_directory_and_back_and_keeps_to_its_pace() {
    let f = Fixture::new();
    let place = scratch();
    let stats: Arc<crate::Stats> = Arc::default();
    let directory = crate::requests::client::connect_directory(
        place.path(),
        stats,
        crate::requests::retry::RetryPolicy::default(),
    )
    .unwrap();
    let (start, pace) = (Instant::now(), Pace::new(Some(1)));
    // The pace is one byte per second. The first piece is copied at once. The second piece waits as long as
    // the first takes at this pace, so the copy does not end within a second.
    let small = block(async {
        tokio::time::timeout(
            Duration::from_secs(1),
            Inspector::new(f.bucket.clone()).copy_to(
                &directory,
                &CopyRequest { pace, ..request() },
                &|_, _| {},
            ),
        )
        .await
    });
    assert!(small.is_err() && start.elapsed() >= Duration::from_secs(1), "one byte in a second");
    let copied = copy(&f.bucket, &directory).unwrap();
    assert!(copied.adopted.copied_files + copied.adopted.reused_files == copied.files);
    let (back, _) = elsewhere();
    copy(&directory, &back).unwrap();
    let model = f.model.clone();
    crash(f.db);
    check_opened(&back, &model, "the copy of the copy");
    check_opened(&directory, &model, "the copy in a directory");
}

#[test]
fn an_object_of_several_numbers_is_copied_once() {
    let mut f = Fixture::new();
    let numbers: Vec<u64> = f.db.store.files().list().iter().map(|(number, _)| *number).collect();
    for number in &numbers {
        for copy in 1..4 {
            f.db.store.share_file(*number, 9000 * copy + number).unwrap();
        }
    }
    let mut model = f.model.clone();
    let next = model.commits.len() as u64 + 1;
    change(&mut f.db, &mut model, next);
    let place = scratch();
    let retry = crate::requests::retry::RetryPolicy::default();
    let directory = crate::requests::client::connect_directory(place.path(), Arc::default(), retry).unwrap();
    let copied = copy(&f.bucket, &directory).unwrap();
    assert!(copied.files >= 4 * numbers.len() as u64 - 1, "{copied:?}");
    assert!(copied.adopted.copied_files <= numbers.len() as u64 + 1, "{copied:?}");
    let report = block(Inspector::new(directory).verify(true, |_, _| {})).unwrap();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
}

#[test]
fn a_copy_has_the_settings_of_its_source_and_a_clone_elsewhere_has_none() {
    let f = Fixture::new();
    let set = |retention_s| {
        let wanted = SettingsChange { retention_s: Some(retention_s), ..SettingsChange::default() };
        block(Inspector::new(f.bucket.clone()).change_settings(&wanted, "tester")).unwrap();
    };
    let of = |bucket: &Bucket| block(Inspector::new(bucket.clone()).settings()).unwrap();
    set(70);
    let ((target, _), (clone, _)) = (elsewhere(), elsewhere());
    copy(&f.bucket, &target).unwrap();
    assert_eq!((of(&target).retention_s, of(&target).number), (70, 1));
    set(80);
    assert!(copy(&f.bucket, &target).unwrap().is_unchanged);
    assert_eq!(of(&target).retention_s, 80);
    copy_as(&f.bucket, &clone, &CopyRequest { stays_in_step: false, ..request() }).unwrap();
    assert_eq!(of(&clone).number, 0);
    crash(f.db);
}
