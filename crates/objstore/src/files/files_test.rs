//! Goal:   table files are uploaded, read, moved to the cache and deleted in the order of the gates PUB-G1,
//!         PUB-G3 and PUB-G6, over outages and restarts.
//! Method: a registry over a bucket in memory with faults and over a directory; the test acts as publisher.

use super::*;
use crate::requests::fault::{FaultStore, faulty_bucket};
use object_store::memory::InMemory;
use std::time::{Duration, Instant};

std::thread_local! {
    /// True while a test pretends that the statement of this thread was killed.
    pub(super) static IS_KILLED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

pub(super) struct Fixture {
    pub(super) files: Arc<Files>,
    bucket: Bucket,
    pub(super) store: Option<Arc<FaultStore<InMemory>>>,
    folder: tempfile::TempDir,
    pub(super) runtime: tokio::runtime::Runtime,
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

impl Fixture {
    pub(super) fn new() -> Self {
        let (bucket, store) = faulty_bucket();
        Self::over(bucket, Some(store), tempfile::tempdir().unwrap(), runtime(), Vec::new())
    }

    pub(super) fn in_directory() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("file://{}/bucket", folder.path().display());
        let config = crate::StoreConfig { url, ..Default::default() };
        let bucket = crate::requests::client::connect(&config, Arc::default()).unwrap();
        Self::over(bucket, None, folder, runtime(), Vec::new())
    }

    fn over(
        bucket: Bucket,
        store: Option<Arc<FaultStore<InMemory>>>,
        folder: tempfile::TempDir,
        runtime: tokio::runtime::Runtime,
        map: Vec<(u64, FileRecord)>,
    ) -> Self {
        std::fs::create_dir_all(folder.path().join("local")).unwrap();
        let files = Files::new(FilesConfig {
            bucket: bucket.clone(),
            local_dir: folder.path().join("local"),
            cache_dir: folder.path().join("cache"),
            cache_bytes: 64 << 20,
            backlog_bytes_max: crate::config::BACKLOG_BYTES_MAX,
            db_uuid: "uuid".to_owned(),
            interrupt: Interrupt::new(|| IS_KILLED.get()),
            log: crate::log::silent(),
            runtime: runtime.handle().clone(),
        })
        .unwrap();
        files.set_epoch(3);
        files.install(map, Vec::new()).unwrap();
        Self { files, bucket, store, folder, runtime }
    }

    /// Closes the registry and opens it again, with `map` as the published files.
    pub(super) fn reopen(self, map: Vec<(u64, FileRecord)>) -> Self {
        self.runtime.block_on(self.files.stop());
        drop(self.files);
        Self::over(self.bucket, self.store, self.folder, self.runtime, map)
    }

    /// The directory that is the bucket in [`Self::in_directory`].
    pub(super) fn bucket_directory(&self) -> String {
        format!("{}/bucket", self.folder.path().display())
    }

    pub(super) fn path(&self, number: u64) -> PathBuf {
        self.folder.path().join(format!("local/{number:06}.sst"))
    }

    pub(super) fn write(&self, path: &Path, size: usize) -> Vec<u8> {
        let salt = path.to_string_lossy().bytes().map(usize::from).sum::<usize>() | 1;
        let bytes: Vec<u8> = (0..size).map(|i| ((i * salt) ^ (i >> 10)) as u8).collect();
        std::fs::write(path, &bytes).unwrap();
        bytes
    }

    pub(super) fn add(&self, number: u64, size: usize) -> Vec<u8> {
        let bytes = self.write(&self.path(number), size);
        self.files.add_file(number, &self.path(number)).unwrap();
        bytes
    }

    pub(super) fn records(&self) -> BTreeMap<u64, FileRecord> {
        let snapshot = self.files.snapshot();
        self.wait(&snapshot)
    }

    /// Waits until the files of `snapshot` are uploaded; returns the records of those that changed.
    pub(super) fn wait(&self, snapshot: &FilesSnapshot) -> BTreeMap<u64, FileRecord> {
        let changes = self.wait_for_changes(snapshot).into_iter();
        changes.filter_map(|(number, record)| Some((number, record?))).collect()
    }

    fn wait_for_changes(&self, snapshot: &FilesSnapshot) -> FileChanges {
        match self.runtime.block_on(self.files.wait_uploaded(snapshot)).unwrap() {
            Uploaded::Complete(changes) => changes,
            Uploaded::Stale => panic!("stale"),
        }
    }

    pub(super) fn publish(&self) -> BTreeMap<u64, FileRecord> {
        let snapshot = self.files.snapshot();
        let records = self.wait(&snapshot);
        let _ = self.files.published(snapshot);
        records
    }

    pub(super) fn read(&self, number: u64, size: usize) -> Vec<u8> {
        let mut out = vec![0; size];
        let count = self.files.open(number).unwrap().read(0, &mut out, false).unwrap();
        assert_eq!(count, size);
        out
    }

    pub(super) fn object(&self, key: &str) -> Option<Vec<u8>> {
        self.runtime.block_on(self.bucket.get(key)).ok().map(|b| b.to_vec())
    }

    /// The object's bytes in the bucket, read past all injected faults.
    pub(super) fn stored(&self, key: &str) -> Option<Vec<u8>> {
        use object_store::ObjectStoreExt;
        let inner = &self.store.as_ref().unwrap().inner;
        let path = object_store::path::Path::from(format!("db/{key}"));
        self.runtime.block_on(async { Some(inner.get(&path).await.ok()?.bytes().await.ok()?.to_vec()) })
    }

    pub(super) fn until(&self, what: &str, condition: impl Fn() -> bool) {
        let start = Instant::now();
        while !condition() {
            assert!(start.elapsed() < Duration::from_secs(30), "waited in vain: {what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn a_file_is_uploaded_with_its_checksum_and_readable_at_every_stage() {
    let f = Fixture::new();
    let bytes = f.add(7, 700_000);
    assert_eq!(f.read(7, 700_000), bytes);
    let records = f.records();
    let record = &records[&7];
    assert_eq!((record.size, record.crc32c), (700_000, crate::crc::crc32c(&bytes)));
    assert!(record.key.starts_with("sst/") && record.key.ends_with("/00000000000000000003-7.sst"));
    assert_eq!(f.object(&record.key).unwrap(), bytes);
    assert!(f.path(7).exists(), "PUB-G6: the local copy stays until publication");
    let open_before = f.files.open(7).unwrap();
    let mut head = vec![0; 100];
    open_before.read(0, &mut head, false).unwrap();
    f.publish();
    f.until("local copy moved", || !f.path(7).exists());
    assert_eq!(f.read(7, 700_000), bytes);
    let mut again = vec![0; 700_000];
    assert_eq!(open_before.read(0, &mut again, false).unwrap(), 700_000);
    assert_eq!(again, bytes);
    assert_eq!(crate::stats::read(&f.bucket.stats().requests_get), 1, "only the test's own GET");
}

#[test]
fn reads_end_at_the_end_of_the_file() {
    for f in [Fixture::new(), Fixture::in_directory()] {
        let bytes = f.add(1, 1000);
        for stage in ["local", "published"] {
            let file = f.files.open(1).unwrap();
            let mut out = vec![0; 500];
            assert_eq!(file.read(900, &mut out, false).unwrap(), 100, "{stage}");
            assert_eq!(out[..100], bytes[900..], "{stage}");
            assert_eq!(file.read(1000, &mut out, false).unwrap(), 0, "{stage}");
            assert_eq!(file.read(5000, &mut out, false).unwrap(), 0, "{stage}");
            assert_eq!(file.read(0, &mut [], false).unwrap(), 0, "{stage}");
            f.publish();
            if !f.bucket.is_directory() {
                f.until("moved", || !f.path(1).exists());
            }
        }
    }
}

#[test]
fn an_outage_becomes_backlog_and_then_ends() {
    let f = Fixture::new();
    let store = f.store.as_ref().unwrap();
    store.outage(true);
    for number in 1..6 {
        f.add(number, 10_000);
    }
    assert_eq!(crate::stats::read(&f.bucket.stats().upload_backlog_files), 5);
    let snapshot = f.files.snapshot();
    let waiting = f.runtime.block_on(async {
        tokio::time::timeout(Duration::from_millis(200), f.files.wait_uploaded(&snapshot)).await
    });
    assert!(waiting.is_err(), "PUB-G1: nothing is complete in an outage");
    store.outage(false);
    assert_eq!(f.records().len(), 5);
    assert_eq!(crate::stats::read(&f.bucket.stats().upload_backlog_bytes), 0);
}

#[test]
fn a_removed_file_is_deleted_only_after_a_root_without_it() {
    let f = Fixture::new();
    f.add(1, 5000);
    f.add(2, 5000);
    let records = f.publish();
    let key = Arc::clone(&records[&1].key);
    let before = f.files.snapshot();
    f.files.remove_file(1).unwrap();
    assert!(f.files.remove_file(1).unwrap_err().is_not_found());
    assert_eq!(f.files.file_size(1), None);
    f.wait(&before);
    assert_eq!(f.files.published(before), [""; 0], "PUB-G3: that root still names the file");
    let mut keys = BTreeSet::from([key.as_ref().to_owned()]);
    f.files.retain_unknown(&mut keys);
    assert!(keys.is_empty(), "PUB-G3: it is not unknown yet");
    let after = f.files.snapshot();
    f.wait(&after);
    assert_eq!(f.files.published(after), [key.as_ref()]);
    let other = records[&2].key.as_ref().to_owned();
    let mut keys = BTreeSet::from([key.as_ref().to_owned(), other]);
    f.files.retain_unknown(&mut keys);
    assert_eq!(keys, BTreeSet::from([key.as_ref().to_owned()]), "live files are known");
}

#[test]
fn staged_files_keep_their_object_when_they_get_a_number() {
    let f = Fixture::new();
    let staged = f.folder.path().join("local/bulk.sst");
    let bytes = f.write(&staged, 40_000);
    f.files.stage_file(&staged).unwrap();
    std::fs::rename(&staged, f.path(9)).unwrap();
    f.files.bind_file(&staged, 9, &f.path(9)).unwrap();
    let records = f.publish();
    assert!(records[&9].key.ends_with("-s1.sst"), "{}", records[&9].key);
    assert_eq!(f.read(9, 40_000), bytes);
    assert_eq!(f.object(&records[&9].key).unwrap(), bytes);
    // `bind_file` adds a file that was never staged, as `add_file` does.
    f.write(&f.path(10), 10);
    f.files.bind_file(Path::new("/nowhere"), 10, &f.path(10)).unwrap();
    assert!(f.records()[&10].key.ends_with("-10.sst"));
    let lost = f.folder.path().join("local/lost.sst");
    f.write(&lost, 10);
    f.files.stage_file(&lost).unwrap();
    f.files.unstage_file(&lost);
    assert!(!lost.exists());
}

#[test]
fn a_number_that_comes_back_gets_another_name() {
    let f = Fixture::new();
    f.add(4, 100);
    let first = f.publish()[&4].clone();
    f.files.remove_file(4).unwrap();
    let bytes = f.add(4, 200);
    let second = f.publish()[&4].clone();
    assert_ne!(first.key, second.key);
    assert_eq!(f.object(&second.key).unwrap(), bytes);
}

#[test]
fn a_restart_reads_from_local_files_cache_or_bucket() {
    let f = Fixture::new();
    let bytes: Vec<_> = (1..4).map(|n| f.add(n, 300_000)).collect();
    let map: Vec<_> = f.publish().into_iter().collect();
    f.until("moved", || (1..4).all(|n| !f.path(n).exists()));
    // File 1 is damaged on the local disk, 2 is in the cache, 3 only in the bucket, and 5 was never
    // published.
    let f = f.reopen(map[..2].to_vec()); // drops the cached parts of file 3
    let mut damaged = bytes[0].clone();
    damaged[1234] ^= 1;
    std::fs::write(f.path(1), &damaged).unwrap();
    let unpublished = f.write(&f.path(5), 7000);
    std::fs::write(f.path(3), b"torn").unwrap();
    let f = f.reopen(map);
    f.until("the damaged copy is dropped", || !f.path(1).exists());
    for number in 1..4 {
        assert!(f.read(number, 300_000) == bytes[number as usize - 1], "file {number}");
    }
    assert_eq!(f.read(5, 7000), unpublished);
    assert_eq!(f.publish()[&5].size, 7000);
    assert_eq!(f.files.totals(), (4, 907_000));
}

#[test]
fn a_refetch_heals_a_damaged_local_copy_and_cached_part() {
    let f = Fixture::new();
    let bytes = f.add(1, 300_000);
    f.records();
    let file = f.files.open(1).unwrap();
    let mut out = vec![0; 300_000];
    let mut damaged = bytes.clone();
    damaged[77] ^= 4;
    std::fs::write(f.path(1), &damaged).unwrap();
    file.read(0, &mut out, false).unwrap();
    assert_eq!(out, damaged, "local bytes are not checked here; the block checksum above does");
    file.read(0, &mut out, true).unwrap();
    assert_eq!(out, bytes);
    f.until("cached", || crate::stats::read(&f.bucket.stats().cache_bytes_used) == 300_000);
    let gets = crate::stats::read(&f.bucket.stats().requests_get);
    file.read(0, &mut out, true).unwrap();
    assert_eq!(out, bytes);
    assert!(crate::stats::read(&f.bucket.stats().requests_get) > gets, "refetch must ask the bucket");
}

#[test]
fn a_file_that_only_a_mount_reads_is_cached_after_the_present_has_removed_it() {
    let f = Fixture::new();
    let bytes = f.add(1, 900_000);
    let record = f.publish()[&1].clone();
    f.until("moved", || !f.path(1).exists());
    let past = f.files.open_past(1, &record);
    let mut out = [0; 100];
    past.read(0, &mut out, false).unwrap();
    f.files.remove_file(1).unwrap();
    f.publish();
    f.until("forgotten", || crate::stats::read(&f.bucket.stats().cache_bytes_used) == 0);
    past.read(500_000, &mut out, false).unwrap();
    assert_eq!(out, bytes[500_000..500_100]);
    f.until("cached", || crate::stats::read(&f.bucket.stats().cache_bytes_used) > 0);
    let gets = crate::stats::read(&f.bucket.stats().requests_get);
    past.read(500_000, &mut out, false).unwrap();
    assert_eq!(out, bytes[500_000..500_100]);
    assert_eq!(crate::stats::read(&f.bucket.stats().requests_get), gets);
}

#[test]
fn without_a_cache_reads_go_straight_to_the_bucket() {
    let f = Fixture::new();
    let bytes = f.add(1, 900_000);
    f.files.set_cache_bytes(0);
    f.publish();
    f.until("dropped", || !f.path(1).exists());
    let file = f.files.open(1).unwrap();
    let mut out = [0; 100];
    file.read(500_000, &mut out, false).unwrap();
    assert_eq!(out, bytes[500_000..500_100]);
    assert_eq!(crate::stats::read(&f.bucket.stats().bytes_downloaded), 100);
    let mut far = [0; 10];
    let mut near = [0; 10];
    let mut requests = [
        ReadRequest { offset: 899_990, out: &mut far, result: Ok(0) },
        ReadRequest { offset: 3, out: &mut near, result: Ok(0) },
    ];
    file.read_many(&mut requests);
    assert!(requests.iter().all(|r| *r.result.as_ref().unwrap() == 10));
    assert_eq!(far, bytes[899_990..]);
    assert_eq!(near, bytes[3..13]);
}

#[test]
fn a_directory_bucket_has_no_cache_and_one_inode() {
    let f = Fixture::in_directory();
    let bytes = f.add(1, 50_000);
    let record = f.publish()[&1].clone();
    assert_eq!(f.read(1, 50_000), bytes);
    std::fs::remove_file(f.path(1)).unwrap();
    assert_eq!(f.read(1, 50_000), bytes, "the bucket's name of the same inode");
    let f = f.reopen(vec![(1, record)]);
    assert_eq!(f.read(1, 50_000), bytes);
    assert!(!f.folder.path().join("cache/uuid").exists());
}

#[test]
fn a_fence_wakes_and_refuses_writers() {
    let f = Fixture::new();
    f.store.as_ref().unwrap().outage(true);
    f.add(1, 100);
    f.files.state.lock().backlog_bytes = crate::config::BACKLOG_BYTES_MAX;
    let path = f.path(2);
    f.write(&path, 100);
    std::thread::scope(|scope| {
        let blocked = scope.spawn(|| f.files.add_file(2, &path));
        std::thread::sleep(Duration::from_millis(50));
        assert!(!blocked.is_finished(), "the backlog limit holds it");
        f.files.fence(StoreError::Fenced("epoch 4 owns the bucket".to_owned()));
        assert_eq!(blocked.join().unwrap().unwrap_err().code(), crate::Code::Fenced);
    });
    assert_eq!(f.files.stage_file(&path).unwrap_err().code(), crate::Code::Fenced);
    let snapshot = f.files.snapshot();
    let error = f.runtime.block_on(f.files.wait_uploaded(&snapshot)).unwrap_err();
    assert_eq!(error.code(), crate::Code::Fenced);
}

#[test]
fn a_vanished_local_file_is_reported_and_not_published() {
    let f = Fixture::new();
    f.store.as_ref().unwrap().outage(true);
    f.add(1, 100);
    std::fs::remove_file(f.path(1)).unwrap();
    let snapshot = f.files.snapshot();
    // The outage goes on, because an upload that had read the file before would succeed at its next attempt.
    let error = f.runtime.block_on(f.files.wait_uploaded(&snapshot)).unwrap_err();
    assert_eq!(error.code(), crate::Code::Corruption, "{error}");
}

#[test]
fn a_local_file_that_vanishes_while_the_directory_is_read_counts_as_absent() {
    let f = Fixture::new();
    f.add(1, 100);
    std::os::unix::fs::symlink("nowhere", f.path(2)).unwrap(); // the directory lists it, but it is no file
    let f = f.reopen(Vec::new());
    assert_eq!(f.records().keys().collect::<Vec<_>>(), [&1]);
}

/// Checks PUB-G1 and PUB-G3 over random histories: the bucket has every file that the newest root names, with
/// the right bytes.
#[test]
fn published_files_are_always_in_the_bucket_over_random_histories() {
    let seed = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
    eprintln!("seed {seed}");
    let mut random = seed | 1;
    let mut roll = move |bound: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % bound
    };
    let mut f = Fixture::new();
    f.store.as_ref().unwrap().hurt_randomly(seed, 20);
    let mut live: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    let mut root: BTreeMap<u64, FileRecord> = BTreeMap::new();
    let mut root_bytes: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    let mut next = 1;
    for step in 0..250 {
        match roll(10) {
            0..=3 => {
                let size = roll(600_000) as usize + 1;
                live.insert(next, f.add(next, size));
                next += 1;
            }
            4..=5 if !live.is_empty() => {
                let number = *live.keys().nth(roll(live.len() as u64) as usize).unwrap();
                f.files.remove_file(number).unwrap();
                live.remove(&number);
            }
            6..=7 => {
                let snapshot = if roll(2) == 0 { f.files.snapshot() } else { f.files.snapshot_held() };
                let named = live.clone();
                for (number, record) in f.wait_for_changes(&snapshot) {
                    root.remove(&number);
                    root.extend(record.map(|record| (number, record)));
                }
                root_bytes = named;
                assert_eq!(root.keys().collect::<Vec<_>>(), root_bytes.keys().collect::<Vec<_>>());
                for key in f.files.published(snapshot) {
                    f.runtime.block_on(async { while f.bucket.delete(&key).await.is_err() {} });
                }
            }
            8 if step % 5 == 0 => {
                // The restart finds local files that no root names. It also brings back removed files that
                // the root names, so the test removes them once more.
                f = f.reopen(root.clone().into_iter().collect());
                for number in root.keys().filter(|n| !live.contains_key(n)) {
                    f.files.remove_file(*number).unwrap();
                }
            }
            _ => {
                for (number, bytes) in &live {
                    // RocksDB checks blocks and reads damaged ones again with `refetch`, as this loop does.
                    let file = f.files.open(*number).unwrap();
                    let mut out = vec![0; bytes.len()];
                    let is_right = (0..6).any(|attempt| {
                        file.read(0, &mut out, attempt > 0).is_ok_and(|count| out[..count] == *bytes)
                    });
                    assert!(is_right, "seed {seed}, step {step}, file {number}");
                }
            }
        }
        for (number, record) in &root {
            let stored = f.stored(&record.key);
            assert!(stored.as_ref() == Some(&root_bytes[number]), "seed {seed}, step {step}, file {number}");
        }
    }
}

#[test]
fn a_second_process_in_the_same_epoch_replaces_no_file() {
    let f = Fixture::new();
    let bytes = f.add(7, 1000);
    let records = f.records();
    // `other` is a copy of the running machine: same epoch and file number, but another file.
    let other = Fixture::over(f.bucket.clone(), None, tempfile::tempdir().unwrap(), runtime(), Vec::new());
    std::fs::write(other.path(7), vec![9; 1000]).unwrap();
    other.files.add_file(7, &other.path(7)).unwrap();
    let snapshot = other.files.snapshot();
    let error = other.runtime.block_on(other.files.wait_uploaded(&snapshot)).unwrap_err();
    assert!(matches!(error, StoreError::Fenced(_)), "{error}");
    assert!(error.to_string().contains("copy of this machine"), "{error}");
    assert_eq!(f.stored(&records[&7].key).unwrap(), bytes);
}
