//! Goal:   a snapshot keeps exactly the objects that its restore reads, until it is dropped. A program whose
//!         pin came too late gives up. No fault of the network leaves half a snapshot (rules PIN-1 to PIN-4,
//!         GC-7).
//! Method: the simulated database (test_db.rs) over a bucket in memory, where one request after the other is
//!         made to fail.

use crate::config::{Durability, StoreConfig};
use crate::error::StoreError;
use crate::protocol::format::names;
use crate::protocol::format::records::RootId;
use crate::protocol::gc::{HistoryLimits, held_among};
use crate::protocol::history::pin::{self, PinKind};
use crate::protocol::inspection::fsck::FsckOptions;
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::shared::Tuning;
use crate::protocol::testing::test_db::*;
use crate::protocol::wal::marks::Gtid;
use crate::protocol::wal::position::NotedCommit;
use crate::requests::bucket::Bucket;
use crate::requests::fault::{Fault, FaultStore, faulty_bucket};
use bytes::Bytes;
use object_store::memory::InMemory;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub(in crate::protocol) const NOW: FsckOptions =
    FsckOptions { deep: true, grace: Duration::ZERO, second_look: Duration::from_millis(1) };

/// A database in the prefix `db`, whose owner is running.
pub(in crate::protocol) struct Fixture {
    pub(in crate::protocol) db: Db,
    pub(in crate::protocol) model: Model,
    pub(in crate::protocol) bucket: Bucket,
    pub(in crate::protocol) store: Arc<FaultStore<InMemory>>,
    pub(in crate::protocol) dir: TempDir,
}

impl Fixture {
    pub(in crate::protocol) fn new() -> Self {
        Self::keeping(HistoryLimits::default())
    }

    /// A database with a history. The owner's hints come often, because they say up to which moment the bucket
    /// has everything.
    pub(in crate::protocol) fn keeping(history: HistoryLimits) -> Self {
        let alive_interval = if history.is_on() { Duration::from_millis(20) } else { WAIT };
        Self::tuned(history, Durability::Sync, Tuning { alive_interval, ..quick() })
    }

    pub(in crate::protocol) fn tuned(
        history: HistoryLimits,
        durability: Durability,
        mut tuning: Tuning,
    ) -> Self {
        let (bucket, store) = faulty_bucket();
        let dir = scratch();
        tuning.gc.search_interval = Duration::from_millis(5);
        let config = StoreConfig { history, ..config(dir.path(), "owner:1", durability) };
        let opened = open_store(&config, &bucket, tuning).unwrap();
        let db = Db::open(opened, dir.path(), true);
        let mut fixture = Self { db, model: Model::default(), bucket, store, dir };
        fixture.work(2);
        fixture
    }

    /// The configuration of `name`, a program that reads the database without owning it.
    pub(in crate::protocol) fn guest(&self, name: &str) -> StoreConfig {
        let scratch = self.dir.path().join("guest");
        StoreConfig {
            local_dir: scratch.join("none"),
            cache_dir: scratch.join("cache"),
            ..config(self.dir.path(), name, Durability::Sync)
        }
    }

    /// Makes commits that are flushed into new table files, and then commits that are only in the log.
    pub(in crate::protocol) fn work(&mut self, rounds: u64) {
        for round in 0..rounds {
            self.db.commit(&mut self.model, 0b11, round, self.db.last_seq);
            self.db.flush(0, true);
            self.db.flush(1, true);
            self.db.delete_obsolete_wals();
            self.db.store.publish(WAIT).unwrap();
            let position = self.db.commit(&mut self.model, 0b11, round, self.db.last_seq);
            self.db.store.wait_shipped(position, WAIT).unwrap();
        }
    }

    pub(in crate::protocol) fn inspector(&self) -> Inspector {
        Inspector::new(self.bucket.clone())
    }

    pub(in crate::protocol) fn create(&self, name: &str) -> Result<(), StoreError> {
        let made = block(self.inspector().create_snapshot(name, "tester"))?;
        assert_eq!(made.alone_bytes, 0, "all of it is in the newest root, too");
        Ok(())
    }

    pub(in crate::protocol) fn keys(&self, dir: &str) -> Vec<String> {
        block(self.bucket.list(dir, None)).unwrap().into_iter().map(|object| object.key).collect()
    }

    /// Publishes until the bucket has no unneeded object.
    pub(in crate::protocol) fn until_clean(&mut self) {
        let start = Instant::now();
        loop {
            self.work(1);
            std::thread::sleep(Duration::from_millis(20));
            let report = block(self.inspector().fsck(NOW, |_, _| {})).unwrap();
            assert!(report.verified.problems.is_empty(), "{report:?}");
            if report.orphaned.is_empty() && report.pending.is_empty() {
                return;
            }
            assert!(start.elapsed() < WAIT, "{:?} {:?}", report.orphaned, report.pending);
        }
    }

    pub(in crate::protocol) fn is_whole(&self, name: &str) -> bool {
        block(self.inspector().verify_snapshot(name, true, |_, _| {})).unwrap().problems.is_empty()
    }
}

#[test]
fn a_snapshot_keeps_what_its_restore_reads_until_it_is_dropped() {
    let mut f = Fixture::new();
    for name in ["first", "vor 'dem'\nUmbau 🙂"] {
        f.create(name).unwrap();
        let held = block(held_among(&f.bucket, &block(f.bucket.list("", None)).unwrap())).unwrap();
        assert!(held.holds_all().is_none());
        f.work(9);
        f.until_clean();
        assert!(f.is_whole(name));
    }
    let statuses = block(f.inspector().snapshots()).unwrap();
    assert_eq!(
        statuses.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(),
        ["first", "vor 'dem'\nUmbau 🙂"]
    );
    for status in &statuses {
        assert_eq!((status.files, status.shared_bytes), (2, 0), "{status:?}");
        assert!(status.alone_bytes > 0 && status.problem.is_empty() && status.kind == "snapshot");
    }
    let files = f.keys(names::FILE_DIR).len();
    assert_eq!(files, 6, "two of the newest root and two of each snapshot");
    block(f.inspector().drop_snapshot("first")).unwrap();
    f.until_clean();
    assert!(f.is_whole("vor 'dem'\nUmbau 🙂"));
    assert_eq!(f.keys(names::FILE_DIR).len(), 4);
    block(f.inspector().drop_snapshot("vor 'dem'\nUmbau 🙂")).unwrap();
    f.until_clean();
    assert_eq!((f.keys(names::FILE_DIR).len(), f.keys(names::PIN_DIR).len()), (2, 0));
    assert_eq!(f.keys(names::HORIZON_DIR).len(), 1);
    assert!(f.keys(names::SNAPSHOT_DIR).iter().all(|key| key.ends_with("-dropped")));
    crash(f.db);
}

#[test]
fn a_snapshot_says_how_far_its_commits_go() {
    let mut f = Fixture::new();
    let gtid = Some(Gtid { domain: 0, server: 1, sequence: 7 });
    f.db.store.note_commit(&NotedCommit { sequence: 9, time_us: 1000, gtid, binlog: None });
    f.work(1);
    f.create("s").unwrap();
    let status = block(f.inspector().snapshots()).unwrap().remove(0);
    assert_eq!((status.gtid_position.as_str(), status.commit_us), ("0-1-7", Some(1000)));
    assert!(status.shared_bytes > 0 && status.alone_bytes == 0, "{status:?}");
    crash(f.db);
}

#[test]
fn names_are_taken_once_and_have_bounds() {
    let f = Fixture::new();
    f.create("s").unwrap();
    for (name, expected) in [("s", "already"), ("", "needs a name"), (&"é".repeat(513), "1026")] {
        let error = f.create(name).unwrap_err();
        assert!(matches!(&error, StoreError::Invalid(m) if m.contains(expected)), "{error}");
    }
    assert!(block(f.inspector().drop_snapshot("t")).unwrap_err().is_not_found());
    assert!(block(Inspector::new(Bucket::in_memory()).create_snapshot("s", "t")).unwrap_err().is_not_found());
    crash(f.db);
}

/// Rule PIN-2: a snapshot that gets the name of a dropped one has a pin with a new key. The collector reads
/// each pin only once, so with the same key it would keep the objects of the former snapshot.
#[test]
fn a_snapshot_of_a_former_name_holds_its_own_moment() {
    let mut f = Fixture::new();
    for _ in 0..3 {
        f.create("s").unwrap();
        f.work(5);
        f.until_clean();
        assert!(f.is_whole("s"));
        block(f.inspector().drop_snapshot("s")).unwrap();
    }
    crash(f.db);
}

/// Rule PIN-1: a program that sees a horizon above the root that it has pinned gives up and deletes its pin.
#[test]
fn whoever_pins_what_may_be_gone_gives_up() {
    let f = Fixture::new();
    let newest = f.db.store.shared().published_slot();
    let raise = |slot| {
        let nonce = [7; 16];
        block(f.bucket.create_slot(&names::horizon(1, slot), Bytes::from(nonce.to_vec()), &nonce)).unwrap()
    };
    raise(newest);
    f.create("in time").unwrap();
    raise(newest + 1);
    assert!(matches!(f.create("too late"), Err(StoreError::Unavailable(_))));
    let left = block(f.inspector().snapshots()).unwrap();
    assert!(left.len() == 1 && left[0].name == "in time", "what counts for nothing is taken away: {left:?}");
    crash(f.db);
}

#[test]
fn a_pin_whose_root_is_gone_holds_nothing_and_one_that_is_not_understood_holds_all() {
    let mut f = Fixture::new();
    let lost = RootId { epoch: 1, slot: 999 };
    let moment = block(f.inspector().moment()).unwrap();
    let pin = pin::Pin { root: lost, ..moment.pin(PinKind::Snapshot, "lost", "tester") };
    assert!(block(f.inspector().put_pin("pin/lost", &pin)).unwrap());
    f.until_clean();
    assert!(!block(f.inspector().snapshots()).unwrap()[0].problem.is_empty());
    let nonce = [7; 16];
    block(f.bucket.create_slot("pin/of-a-later-version", Bytes::from(nonce.to_vec()), &nonce)).unwrap();
    let before = f.keys(names::FILE_DIR).len();
    f.work(3);
    std::thread::sleep(Duration::from_millis(150));
    assert!(f.keys(names::FILE_DIR).len() >= before + 3, "something was deleted");
    let plan = block(f.inspector().gc_plan()).unwrap();
    assert_eq!(plan.pins, ["pin/of-a-later-version"]);
    block(f.inspector().drop_pin("pin/of-a-later-version")).unwrap();
    f.until_clean();
    crash(f.db);
}

/// Rule PIN-4: the owner deletes a pin that was released, and the release.
#[test]
fn the_owner_takes_a_released_pin_away() {
    let mut f = Fixture::new();
    let moment = block(f.inspector().moment()).unwrap();
    let (key, nonce) = (pin::clone_key("u"), [7; 16]);
    assert!(block(f.inspector().put_pin(&key, &moment.pin(PinKind::Clone, "elsewhere", "tester"))).unwrap());
    f.until_clean();
    assert_eq!(f.keys(names::FILE_DIR).len(), 4);
    block(f.bucket.create_slot(&pin::release_key(&key), Bytes::from(nonce.to_vec()), &nonce)).unwrap();
    f.until_clean();
    assert_eq!((f.keys(names::FILE_DIR).len(), f.keys(names::PIN_DIR).len()), (2, 0));
    crash(f.db);
}

#[test]
fn a_snapshot_is_made_whole_or_not_at_all_whatever_request_is_hurt() {
    let f = Fixture::new();
    for fault in Fault::ALL {
        for position in 0.. {
            let name = format!("{fault:?} {position}");
            let before = f.store.requests();
            f.store.hurt(position, fault);
            let outcome = f.create(&name);
            let sent = f.store.requests() - before;
            f.store.heal();
            match outcome {
                Ok(()) => assert!(f.is_whole(&name), "{name}"),
                Err(error) => assert!(!matches!(error, StoreError::Bug(_)), "{name}: {error}"),
            }
            let all = block(f.inspector().snapshots()).unwrap();
            assert!(all.iter().all(|pin| ["snapshot", "unfinished"].contains(&pin.kind.as_str())), "{all:?}");
            if position > sent {
                assert!(position > 5, "a snapshot sends more than {sent} requests");
                break;
            }
        }
    }
    crash(f.db);
}
