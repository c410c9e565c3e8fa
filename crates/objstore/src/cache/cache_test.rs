//! Goal:   the part cache returns the right bytes whatever happens to its disk files, fetches each part once,
//!         and stays within its budget.
//! Method: the bucket counts requests; the tests damage and evict the cache's disk files, and reopen the
//!         cache.

use super::*;
use crate::crc::PART_BYTES;
use crate::requests::fault::{FaultStore, faulty_bucket};
use bytes::Bytes;
use fetch::Wanted;
use object_store::memory::InMemory;
use std::os::unix::fs::{FileExt, MetadataExt};

const PART: usize = PART_BYTES as usize;

struct Fixture {
    runtime: tokio::runtime::Runtime,
    folder: tempfile::TempDir,
    bucket: Bucket,
    store: Arc<FaultStore<InMemory>>,
}

impl Fixture {
    fn new() -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (bucket, store) = faulty_bucket();
        Self { runtime, folder: tempfile::tempdir().unwrap(), bucket, store }
    }

    /// Stores an object of `size` bytes in the bucket; its bytes depend on the key.
    fn object(&self, key: &str, size: usize) -> (Arc<str>, Vec<u8>) {
        let salt = key.len() + usize::from(key.as_bytes()[key.len() - 1]);
        let bytes: Vec<u8> = (0..size).map(|i| ((i * salt) ^ (i >> 11)) as u8).collect();
        let put = self.bucket.put_unconditional(key, Bytes::from(bytes.clone()), Default::default());
        self.runtime.block_on(put).unwrap();
        (key.into(), bytes)
    }

    fn open(&self, budget: u64, objects: &[(&Arc<str>, usize)]) -> Arc<Cache> {
        self.open_with(budget, objects, Interrupt::default())
    }

    fn open_with(&self, budget: u64, objects: &[(&Arc<str>, usize)], interrupt: Interrupt) -> Arc<Cache> {
        let known: Vec<(Arc<str>, u64)> =
            objects.iter().map(|(key, size)| (Arc::clone(key), *size as u64)).collect();
        let log = crate::log::silent();
        let handle = self.runtime.handle().clone();
        let folder = self.folder.path().join("uuid");
        Cache::open(&folder, budget, self.bucket.clone(), log, handle, interrupt, known).unwrap()
    }

    fn read(&self, cache: &Arc<Cache>, key: &Arc<str>, size: usize, offset: usize, length: usize) -> Vec<u8> {
        let file = cache.file(key, size as u64).unwrap();
        let data = file.data().unwrap();
        let mut out = vec![0; length];
        let mut wanted = [Wanted { offset: offset as u64, out: &mut out, result: Ok(()) }];
        cache.read(&file, &data, &mut wanted);
        wanted[0].result.as_ref().unwrap();
        out
    }

    fn gets(&self) -> u64 {
        crate::stats::read(&self.bucket.stats().requests_get)
    }

    /// Waits until the fetched parts are on disk. Readers get the bytes earlier, before the parts are stored.
    fn settle(&self, cache: &Arc<Cache>, key: &Arc<str>, size: usize) {
        let file = cache.file(key, size as u64).unwrap();
        while !file.flights.lock().is_empty() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn disk_bytes(&self) -> u64 {
        let files = std::fs::read_dir(self.folder.path().join("uuid")).unwrap();
        files
            .map(|f| f.unwrap())
            .filter(|f| f.path().extension().is_none_or(|e| e != "parts"))
            .fold(0, |sum, f| sum + f.metadata().unwrap().blocks() * 512)
    }
}

#[test]
fn a_part_is_fetched_once_and_then_read_from_disk() {
    let f = Fixture::new();
    let size = 5 * PART + 777;
    let (key, bytes) = f.object("sst/00/1-1.sst", size);
    let cache = f.open(100 << 20, &[]);
    assert_eq!(f.read(&cache, &key, size, 10, 100), bytes[10..110]);
    f.settle(&cache, &key, size);
    let gets = f.gets();
    assert_eq!(f.read(&cache, &key, size, 0, PART), bytes[..PART]);
    assert_eq!(f.gets(), gets, "the first part was fetched again");
    assert_eq!(f.read(&cache, &key, size, PART - 5, 3 * PART), bytes[PART - 5..4 * PART - 5]);
    assert_eq!(f.gets(), gets + 1, "neighbouring parts did not share a GET");
    assert_eq!(f.read(&cache, &key, size, size - 3, 3), bytes[size - 3..]);
}

#[test]
fn a_short_end_comes_with_the_part_before_it() {
    let f = Fixture::new();
    let (short, long) = (3 * PART + 777, 3 * PART + PART / 2);
    let (short_key, short_bytes) = f.object("sst/00/1-1.sst", short);
    let (long_key, _) = f.object("sst/00/1-2.sst", long);
    let cache = f.open(100 << 20, &[]);
    assert_eq!(f.read(&cache, &short_key, short, short - 53, 53), short_bytes[short - 53..]);
    f.read(&cache, &long_key, long, long - 53, 53);
    f.settle(&cache, &short_key, short);
    f.settle(&cache, &long_key, long);
    let gets = f.gets();
    let before = 2 * PART + 9;
    assert_eq!(f.read(&cache, &short_key, short, before, PART), short_bytes[before..before + PART]);
    assert_eq!(f.gets(), gets);
    f.read(&cache, &long_key, long, before, PART);
    assert_eq!(f.gets(), gets + 1);
}

#[test]
fn concurrent_readers_of_a_missing_part_cause_one_get() {
    let f = Fixture::new();
    let (key, bytes) = f.object("sst/00/1-1.sst", PART);
    let cache = f.open(100 << 20, &[]);
    for position in 0..4 {
        f.store.hurt(position, crate::requests::fault::Fault::Delay);
    }
    std::thread::scope(|scope| {
        for reader in 0..16 {
            let (f, cache, key, bytes) = (&f, &cache, &key, &bytes);
            scope.spawn(move || {
                let at = reader * 1000;
                assert_eq!(f.read(cache, key, PART, at, 500), bytes[at..at + 500]);
            });
        }
    });
    assert_eq!(f.gets(), 1);
}

#[test]
fn a_flipped_bit_on_disk_heals_after_restart() {
    let f = Fixture::new();
    let size = 3 * PART;
    let (key, bytes) = f.object("sst/00/1-1.sst", size);
    let cache = f.open(100 << 20, &[]);
    f.read(&cache, &key, size, 0, size);
    f.settle(&cache, &key, size);
    drop(cache);
    let path = f.folder.path().join("uuid/1-1.sst");
    let disk = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    disk.write_all_at(&[bytes[PART + 9] ^ 1], PART as u64 + 9).unwrap();
    let gets = f.gets();
    let cache = f.open(100 << 20, &[(&key, size)]);
    assert_eq!(f.read(&cache, &key, size, 0, size), bytes);
    assert_eq!(f.gets(), gets + 1, "only the damaged part is fetched again");
    assert_eq!(crate::stats::read(&f.bucket.stats().cache_corruptions), 1);
    f.settle(&cache, &key, size);
    assert_eq!(f.read(&cache, &key, size, 0, size), bytes);
    assert_eq!(f.gets(), gets + 1, "the healed part is on disk again");
}

#[test]
fn a_restart_keeps_known_parts_and_drops_unknown_objects() {
    let f = Fixture::new();
    let (kept, bytes) = f.object("sst/00/1-1.sst", 2 * PART);
    let (gone, _) = f.object("sst/00/1-2.sst", 2 * PART);
    let cache = f.open(100 << 20, &[]);
    for key in [&kept, &gone] {
        f.read(&cache, key, 2 * PART, 0, 2 * PART);
        f.settle(&cache, key, 2 * PART);
    }
    drop(cache);
    let gets = f.gets();
    let cache = f.open(100 << 20, &[(&kept, 2 * PART)]);
    assert_eq!(f.read(&cache, &kept, 2 * PART, 0, 2 * PART), bytes);
    assert_eq!(f.gets(), gets);
    assert_eq!(cache.used_bytes.load(Ordering::Relaxed), 2 * PART_BYTES);
    assert!(!f.folder.path().join("uuid/1-2.sst").exists());
    assert!(!f.folder.path().join("uuid/1-2.sst.parts").exists());
}

#[test]
fn an_index_of_another_object_is_not_believed() {
    let f = Fixture::new();
    let (key, _) = f.object("sst/00/1-1.sst", 2 * PART);
    let cache = f.open(100 << 20, &[]);
    f.read(&cache, &key, 2 * PART, 0, PART);
    f.settle(&cache, &key, 2 * PART);
    drop(cache);
    let index = f.folder.path().join("uuid/1-1.sst.parts");
    let good = std::fs::read(&index).unwrap();
    for damage in [vec![], good[..17].to_vec(), vec![0; good.len()], [good.clone(), vec![0]].concat()] {
        std::fs::write(&index, damage).unwrap();
        let cache = f.open(100 << 20, &[(&key, 2 * PART)]);
        assert_eq!(cache.used_bytes.load(Ordering::Relaxed), 0);
        f.read(&cache, &key, 2 * PART, 0, PART);
        f.settle(&cache, &key, 2 * PART);
    }
}

#[test]
fn eviction_keeps_the_budget_and_the_bytes_right() {
    let f = Fixture::new();
    let budget = 8 * PART_BYTES;
    let size = 20 * PART;
    let (a, a_bytes) = f.object("sst/00/1-1.sst", size);
    let (b, b_bytes) = f.object("sst/00/1-2.sst", size);
    let cache = f.open(budget, &[]);
    for round in 0..3 {
        for part in 0..20 {
            let at = part * PART + 100;
            assert_eq!(f.read(&cache, &a, size, at, 200), a_bytes[at..at + 200], "round {round}");
            assert_eq!(f.read(&cache, &b, size, at, 200), b_bytes[at..at + 200], "round {round}");
        }
    }
    f.settle(&cache, &a, size);
    f.settle(&cache, &b, size);
    assert!(cache.used_bytes.load(Ordering::Relaxed) <= budget);
    let present: u64 = [&a, &b].iter().map(|k| cache.file(k, size as u64).unwrap().bytes_present()).sum();
    assert_eq!(present, cache.used_bytes.load(Ordering::Relaxed));
    assert!(f.disk_bytes() <= budget + (64 << 10), "{} bytes on disk", f.disk_bytes());
    assert!(crate::stats::read(&f.bucket.stats().cache_evictions) > 0);
    cache.set_budget(PART_BYTES);
    assert!(cache.used_bytes.load(Ordering::Relaxed) <= PART_BYTES);
}

#[test]
fn without_hole_punching_whole_files_are_evicted() {
    let f = Fixture::new();
    let budget = 8 * PART_BYTES;
    let size = 6 * PART;
    let objects: Vec<_> = (1..6).map(|n| f.object(&format!("sst/00/1-{n}.sst"), size)).collect();
    let cache = f.open(budget, &[]);
    cache.evict_whole_from_now_on();
    for _ in 0..3 {
        for (key, bytes) in &objects {
            assert_eq!(f.read(&cache, key, size, 0, size), *bytes);
            f.settle(&cache, key, size);
        }
    }
    assert!(cache.used_bytes.load(Ordering::Relaxed) <= budget);
    assert!(f.disk_bytes() <= budget + (64 << 10), "{} bytes on disk", f.disk_bytes());
    assert!(!f.bucket.stats().trim_disabled.load(Ordering::Relaxed), "that says something about the bucket");
}

#[test]
fn readers_and_eviction_at_once_never_see_holes() {
    let f = Fixture::new();
    let seed = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
    eprintln!("seed {seed}");
    let size = 16 * PART;
    let (key, bytes) = f.object("sst/00/1-1.sst", size);
    assert!(bytes.chunks(64).all(|c| c.iter().any(|b| *b != 0)), "zeros would hide a hole");
    let cache = f.open(4 * PART_BYTES, &[]);
    std::thread::scope(|scope| {
        for reader in 0..4u64 {
            let (f, cache, key, bytes) = (&f, &cache, &key, &bytes);
            scope.spawn(move || {
                let mut random = seed.wrapping_mul(reader + 1) | 1;
                for _ in 0..300 {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    let at = random as usize % (size - 70_000);
                    let length = 1 + (random >> 40) as usize % 70_000;
                    assert!(
                        f.read(cache, key, size, at, length) == bytes[at..at + length],
                        "seed {seed} at {at}"
                    );
                }
            });
        }
    });
    f.settle(&cache, &key, size);
    assert!(cache.used_bytes.load(Ordering::Relaxed) <= 4 * PART_BYTES);
    assert_eq!(crate::stats::read(&f.bucket.stats().cache_corruptions), 0);
}

#[test]
fn a_full_disk_serves_without_caching() {
    let f = Fixture::new();
    let (key, bytes) = f.object("sst/00/1-1.sst", 2 * PART);
    let cache = f.open(100 << 20, &[]);
    cache.note_full(&io::Error::from_raw_os_error(libc::ENOSPC));
    assert_eq!(f.read(&cache, &key, 2 * PART, 5, PART), bytes[5..PART + 5]);
    f.settle(&cache, &key, 2 * PART);
    assert_eq!(cache.used_bytes.load(Ordering::Relaxed), 0);
    assert!(!cache.has_room_for(1));
}

#[test]
fn an_unwritable_data_file_serves_without_caching() {
    let f = Fixture::new();
    let (key, bytes) = f.object("sst/00/1-1.sst", 2 * PART);
    let cache = f.open(100 << 20, &[]);
    let file = cache.file(&key, 2 * PART_BYTES).unwrap();
    // This descriptor refuses writes, so write_part fails with EBADF, as it fails with ENOSPC on a full disk.
    let read_only = std::fs::File::open(f.folder.path().join("uuid/1-1.sst")).unwrap();
    assert!(file.write_part(&read_only, 0, &bytes[..PART]).is_err());
    assert!(!file.is_present(0));
    assert_eq!(f.read(&cache, &key, 2 * PART, 0, 2 * PART), bytes);
}

#[test]
fn a_bucket_error_reaches_every_reader_and_is_not_kept() {
    let f = Fixture::new();
    let (key, bytes) = f.object("sst/00/1-1.sst", PART);
    let cache = f.open(100 << 20, &[]);
    let file = cache.file(&key, PART_BYTES).unwrap();
    let data = file.data().unwrap();
    for _ in 0..20 {
        f.store.outage(true);
        let mut out = vec![0; 10];
        let mut wanted = [Wanted { offset: 0, out: &mut out, result: Ok(()) }];
        cache.read(&file, &data, &mut wanted);
        assert_eq!(wanted[0].result.as_ref().unwrap_err().code(), crate::Code::Unavailable);
        f.store.outage(false);
        // This read comes at once, when the table of flights may still have the failed flight. The read
        // must not join that flight but start a new GET.
        assert_eq!(f.read(&cache, &key, PART, 0, PART), bytes);
        f.settle(&cache, &key, PART);
        cache.drop_range(&file, 0..PART_BYTES);
    }
}

#[test]
fn dropped_ranges_are_fetched_again_and_prefetched_ones_are_not() {
    let f = Fixture::new();
    let size = 4 * PART;
    let (key, bytes) = f.object("sst/00/1-1.sst", size);
    let cache = f.open(100 << 20, &[]);
    let file = cache.file(&key, size as u64).unwrap();
    cache.prefetch(&file, 0..size as u64 * 2);
    f.settle(&cache, &key, size);
    assert_eq!(f.gets(), 1);
    assert_eq!(f.read(&cache, &key, size, 0, size), bytes);
    assert_eq!(f.gets(), 1);
    cache.drop_range(&file, PART_BYTES..PART_BYTES + 1);
    assert_eq!(f.read(&cache, &key, size, 0, size), bytes);
    assert_eq!(f.gets(), 2);
}

#[test]
fn many_ranges_share_gets_over_small_gaps_only() {
    let f = Fixture::new();
    let size = 80 * PART;
    let (key, bytes) = f.object("sst/00/1-1.sst", size);
    let cache = f.open(1 << 30, &[]);
    let file = cache.file(&key, size as u64).unwrap();
    let data = file.data().unwrap();
    // The ranges need parts 0, 2, 5 (gaps of 1 and 2 parts) and 60. The first three share a GET, so there are
    // two GETs.
    let places = [5 * PART + 1, 60 * PART, 0, 2 * PART + 9];
    let mut outs = vec![vec![0; 50]; places.len()];
    let mut wanted: Vec<Wanted<'_>> = outs
        .iter_mut()
        .zip(places)
        .map(|(out, at)| Wanted { offset: at as u64, out, result: Ok(()) })
        .collect();
    cache.read(&file, &data, &mut wanted);
    assert!(wanted.iter().all(|w| w.result.is_ok()));
    for (out, at) in outs.iter().zip(places) {
        assert_eq!(*out, bytes[at..at + 50], "at {at}");
    }
    assert_eq!(f.gets(), 2);
    assert_eq!(f.read(&cache, &key, size, 0, size), bytes);
}

#[test]
fn adopted_files_are_read_without_requests() {
    let f = Fixture::new();
    let size = 2 * PART + 11;
    let (key, bytes) = f.object("sst/00/1-1.sst", size);
    let cache = f.open(100 << 20, &[]);
    let local = f.folder.path().join("000001.sst");
    std::fs::write(&local, &bytes).unwrap();
    let crcs = crate::crc::part_crcs(&bytes);
    cache.adopt(&local, &key, size as u64, &crcs).unwrap();
    assert!(!local.exists());
    assert_eq!(f.read(&cache, &key, size, 0, size), bytes);
    drop(cache);
    let cache = f.open(100 << 20, &[(&key, size)]);
    assert_eq!(f.read(&cache, &key, size, 0, size), bytes);
    assert_eq!(f.gets(), 0);
    cache.forget(&key);
    assert_eq!(cache.used_bytes.load(Ordering::Relaxed), 0);
    assert_eq!(f.disk_bytes(), 0);
}

#[test]
fn a_killed_statement_does_not_wait_for_the_bucket() {
    for budget in [1 << 20, 0] {
        let mut f = Fixture::new();
        let (key, _) = f.object("sst/00/1-1.sst", 2 * PART);
        // This policy retries a request without end, so that only the KILL can end the wait.
        let endless =
            crate::requests::retry::RetryPolicy { attempts_max: u32::MAX, ..f.bucket.policy().clone() };
        f.bucket = f.bucket.with_policy(endless);
        let cache = f.open_with(budget, &[(&key, 2 * PART)], Interrupt::new(|| true));
        f.store.outage(true);
        let start = Instant::now();
        let mut out = vec![0; 100];
        let mut wanted = [Wanted { offset: 0, out: &mut out, result: Ok(()) }];
        if budget > 0 {
            let file = cache.file(&key, 2 * PART as u64).unwrap();
            cache.read(&file, &file.data().unwrap(), &mut wanted);
        } else {
            cache.read_past(&key, wanted.iter_mut().collect());
        }
        let error = wanted[0].result.clone().unwrap_err();
        assert!(matches!(error, StoreError::Interrupted(_)), "budget {budget}: {error}");
        assert!(start.elapsed() < Duration::from_secs(5), "budget {budget}: {:?}", start.elapsed());
    }
}

#[test]
fn the_cache_gives_way_before_its_disk_is_full() {
    let f = Fixture::new();
    let size = 16 * PART;
    let (key, bytes) = f.object("sst/00/1-1.sst", size);
    let cache = f.open(1 << 30, &[(&key, size)]);
    assert_eq!(f.read(&cache, &key, size, 0, size), bytes);
    let used = || cache.used_bytes.load(Ordering::Relaxed);
    let start = Instant::now();
    while used() < size as u64 {
        assert!(start.elapsed() < Duration::from_secs(30), "the parts are not stored");
        std::thread::sleep(Duration::from_millis(5));
    }
    let total = 100 << 30;
    let with_free = |free: u64| cache.leave_room(room::Disk { total, free });

    with_free(1 << 30);
    assert_eq!((used(), cache.is_full()), (size as u64, false), "there is room enough");

    with_free((1 << 30) - 5 * PART as u64);
    assert_eq!(used(), 11 * PART as u64, "as much as was lacking");
    assert!(cache.is_full(), "nothing is stored while the disk is nearly full");
    assert_eq!(f.read(&cache, &key, size, 0, size), bytes);
    assert!(used() <= 11 * PART as u64);

    with_free(0);
    assert_eq!(used(), 0);
    // On a small disk only a quarter must stay free. That much is free here, so nothing has to be evicted.
    cache.leave_room(room::Disk { total: 160, free: 40 });
    assert_eq!(f.read(&cache, &key, size, 0, size), bytes);
}

#[test]
fn the_first_of_many_failed_writes_is_logged_and_the_first_after_a_quiet_time() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (bucket, _) = faulty_bucket();
    let warnings = Arc::new(Mutex::new(0));
    let counter = Arc::clone(&warnings);
    let log: LogFn = Arc::new(move |_, _| *counter.lock() += 1);
    let handle = runtime.handle().clone();
    let cache = Cache::open(
        &folder.path().join("uuid"),
        1 << 20,
        bucket,
        log,
        handle,
        Interrupt::default(),
        Vec::new(),
    )
    .unwrap();
    let full = io::Error::from(io::ErrorKind::StorageFull);
    runtime.block_on(async {
        for _ in 0..100 {
            cache.note_full(&full);
            tokio::time::advance(FULL_PAUSE).await;
        }
        assert_eq!(*warnings.lock(), 1);
        tokio::time::advance(QUIET).await;
        cache.note_full(&full);
        assert_eq!(*warnings.lock(), 2);
    });
}
