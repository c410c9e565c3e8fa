//! Goal:   a mount reads its state of the past as long as it exists, even when the snapshot is dropped
//!         meanwhile. After that, it keeps no object from being deleted any more (rule MOUNT-1).
//! Method: the simulated database (test_db.rs) over a bucket in memory.

use crate::config::Durability;
use crate::error::StoreError;
use crate::protocol::format::names;
use crate::protocol::history::mounts::mount::Mount;
use crate::protocol::history::pin::{self, PinKind};
use crate::protocol::history::snapshot_test::{Fixture, NOW};
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::store::Store;
use crate::protocol::testing::test_db::*;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

impl Fixture {
    fn mount(&self, when: &str, name: &str) -> (Result<Mount, StoreError>, PathBuf) {
        let dir = self.dir.path().join(name);
        (self.db.store.mount(when, "shop_then", &dir), dir)
    }
}

/// Returns the number, checksum and bytes of each table file.
pub(in crate::protocol) fn read_all(mount: &Mount) -> Vec<(u64, u32, Vec<u8>)> {
    let read = |(number, bytes): (u64, u64)| {
        let mut content = vec![0; bytes as usize];
        assert_eq!(mount.open(number).unwrap().read(0, &mut content, false).unwrap() as u64, bytes);
        (number, mount.file_crc32c(number).unwrap(), content)
    };
    mount.list().map(read).collect()
}

#[test]
fn a_mount_outlives_its_snapshot_and_holds_nothing_longer() {
    let mut f = Fixture::new();
    f.create("s").unwrap();
    let (mount, dir) = f.mount("s", "mounted");
    let mount = mount.unwrap();
    let before = read_all(&mount);
    assert_eq!(before.len(), 2);
    let pins = block(f.inspector().snapshots()).unwrap();
    assert!(
        pins.iter().any(|pin| (pin.kind.as_str(), pin.name.as_str()) == ("mount", "shop_then")),
        "{pins:?}"
    );
    block(f.inspector().drop_snapshot("s")).unwrap();
    f.work(9);
    f.until_clean();
    assert_eq!(read_all(&mount), before);
    assert!(matches!(mount.open(9999), Err(StoreError::NotFound { .. })));
    let names: Vec<_> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.iter().any(|name| name == "CURRENT") && names.len() >= 3, "{names:?}");
    drop(mount);
    f.until_clean();
    assert_eq!((f.keys(names::FILE_DIR).len(), f.keys(names::PIN_DIR).len()), (2, 0));
    crash(f.db);
}

/// A file that comes back from a mount is a file like any other: its object stays without the mount, over a
/// crash and a restore, and goes when the file is removed. Meanwhile the object was garbage, and a tomb listed
/// it.
#[test]
fn a_file_that_comes_back_from_a_mount_keeps_its_object() {
    const NUMBER: u64 = 9000;
    let mut f = Fixture::new();
    f.create("s").unwrap();
    let (mount, _dir) = f.mount("s", "mounted");
    let mount = mount.unwrap();
    let (from, crc32c, content) = read_all(&mount).remove(0);
    let key = mount.record(from).unwrap().key.to_string();
    block(f.inspector().drop_snapshot("s")).unwrap();
    f.work(9);
    f.until_clean();
    assert_eq!(f.db.store.files().file_size(from), None, "the present has it no more");
    assert!(matches!(mount.give(8888, &f.db.store, NUMBER), Err(StoreError::NotFound { .. })));
    mount.give(from, &f.db.store, NUMBER).unwrap();
    drop(mount);
    f.until_clean();
    let read = |store: &Store| {
        let mut found = vec![0; content.len()];
        store.files().open(NUMBER).unwrap().read(0, &mut found, false).unwrap();
        crate::crc::crc32c(&found)
    };
    assert_eq!((read(&f.db.store), f.keys(names::FILE_DIR).contains(&key)), (crc32c, true));
    crash(f.db);
    let restored = scratch();
    for dir in [f.dir.path(), restored.path()] {
        let store = open_store(&config(dir, "owner:1", Durability::Sync), &f.bucket, quick()).unwrap();
        assert_eq!(read(&store), crc32c, "{}", dir.display());
        store.kill();
    }
}

/// A mount has the log that a restore ([`crate::protocol::start::restore`]) of the snapshot would write. It
/// must not have log that was written after the snapshot, so a later mount of the same snapshot has as many
/// bytes of log.
#[test]
fn the_log_of_a_mount_ends_where_the_snapshot_does() {
    let mut f = Fixture::new();
    f.create("s").unwrap();
    let (first, dir) = f.mount("s", "first");
    let logs = |dir: &PathBuf| {
        let logs = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
        let logs = logs.filter(|path| path.extension().is_some_and(|extension| extension == "log"));
        logs.map(|path| fs::metadata(path).unwrap().len()).sum::<u64>()
    };
    f.work(2);
    let (second, later) = f.mount("s", "second");
    assert!(logs(&dir) > 0);
    assert_eq!(logs(&dir), logs(&later));
    drop((first.unwrap(), second.unwrap()));
    crash(f.db);
}

#[test]
fn what_is_neither_a_snapshot_nor_a_moment_is_said_and_leaves_no_pin() {
    let f = Fixture::new();
    for (when, expected) in
        [("monday", "is no moment"), ("2999-01-01", "no history"), ("2020-01-01", "no history")]
    {
        let error = f.mount(when, "none").0.err().unwrap();
        assert!(matches!(&error, StoreError::Invalid(text) if text.contains(expected)), "{when}: {error}");
    }
    assert_eq!(f.keys(names::PIN_DIR), Vec::<String>::new());
    crash(f.db);
}

#[test]
fn the_pin_of_a_process_that_has_ended_goes() {
    let mut f = Fixture::new();
    let moment = block(f.inspector().moment()).unwrap();
    let left = moment.pin(PinKind::Clone, "shop_then", "a former process");
    assert!(block(f.inspector().put_pin(&pin::mount_key(1, &[7; 16]), &left)).unwrap());
    f.work(5);
    f.until_clean();
    assert_eq!((f.keys(names::FILE_DIR).len(), f.keys(names::PIN_DIR).len()), (2, 0));
    crash(f.db);
}

/// The owner of a later epoch has fenced this process, which has not noticed it yet.
#[test]
fn the_pin_of_a_later_owner_stays() {
    let mut f = Fixture::new();
    let moment = block(f.inspector().moment()).unwrap();
    let pin = moment.pin(PinKind::Clone, "shop_then", "owner:2");
    let (ended, later) = (pin::mount_key(1, &[7; 16]), pin::mount_key(2, &[7; 16]));
    for key in [&ended, &later] {
        assert!(block(f.inspector().put_pin(key, &pin)).unwrap());
    }
    f.work(5);
    let start = Instant::now();
    while f.keys(names::PIN_DIR).contains(&ended) {
        assert!(start.elapsed() < WAIT);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(f.keys(names::PIN_DIR), [later]);
    crash(f.db);
}

#[test]
fn what_only_the_mount_of_an_ended_process_held_goes_without_another_publish() {
    let mut f = Fixture::new();
    let moment = block(f.inspector().moment()).unwrap();
    let left = moment.pin(PinKind::Clone, "shop_then", "a former process");
    f.create("held until then").unwrap();
    f.work(3);
    crash(f.db);
    let inspector = Inspector::new(f.bucket.clone());
    assert!(block(inspector.put_pin(&pin::mount_key(1, &[7; 16]), &left)).unwrap());
    block(inspector.drop_snapshot("held until then")).unwrap();

    // The regular searches of this owner are an hour apart. So the objects go only if the owner searches
    // because it has deleted a pin.
    let config = config(f.dir.path(), "owner:1", Durability::Sync);
    let db = Db::open(open_store(&config, &f.bucket, quick()).unwrap(), f.dir.path(), true);
    let start = Instant::now();
    loop {
        let report = block(inspector.fsck(NOW, |_, _| {})).unwrap();
        if report.orphaned.is_empty() && report.pending.is_empty() {
            break;
        }
        assert!(start.elapsed() < WAIT, "{:?} {:?}", report.orphaned, report.pending);
        std::thread::sleep(Duration::from_millis(20));
    }
    crash(db);
}
