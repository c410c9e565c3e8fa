//! Goal:   many threads may use the C interface on one store at once, as objstore.h promises.
//! Method: threads do through the C interface what the server's threads do: they add, read and remove tables,
//!         append to MANIFEST and WAL, change settings, and read counters. Every table must read back as it
//!         was written. `make tsan` runs this test to look for data races.

#![allow(clippy::unwrap_used, clippy::panic)] // A test reports an error by a panic.

use atoll_objstore::*;
use std::ffi::{CString, c_char};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};

const TABLE_THREADS: u64 = 3;
const TABLES_PER_THREAD: u64 = 12;
/// More than one part of the cache, so that a read of a table fetches several parts.
const TABLE_BYTES: usize = 300_000;
const APPENDS: u64 = 60;
/// The time limit of calls that wait for the bucket, and the greatest lag. It is long enough for a slow
/// machine. A call that exceeds it fails the test.
const TIMEOUT_MS: u32 = 60_000;

/// An open store as C code has it: a raw pointer, which all threads of the test share.
#[derive(Clone, Copy)]
struct Handle(*mut StoreHandle);
// SAFETY: objstore.h allows every call but open and close from any thread at once.
unsafe impl Send for Handle {}
// SAFETY: the threads share only the pointer, and objstore.h allows calls from any thread at once.
unsafe impl Sync for Handle {}

fn c_text(text: &str) -> CString {
    CString::new(text).unwrap()
}

fn c_path(path: &Path) -> CString {
    c_text(path.to_str().unwrap())
}

#[track_caller]
fn check(result: &AtollResult) {
    assert_eq!(result.code, 0);
}

fn open(folder: &Path) -> Handle {
    fs::create_dir(folder.join("bucket")).unwrap();
    let url = c_text(&format!("file://{}", folder.join("bucket").display()));
    let (local, cache) = (c_path(&folder.join("db")), c_path(&folder.join("cache")));
    let server = c_text("threads");
    let config = AtollStoreConfig {
        url: url.as_ptr(),
        endpoint: null(),
        region: null(),
        access_key: null(),
        secret_key: null(),
        session_token: null(),
        ca_file: null(),
        addressing: null(),
        sse: null(),
        sse_kms_key_id: null(),
        local_dir: local.as_ptr(),
        cache_dir: cache.as_ptr(),
        server_id: server.as_ptr(),
        cache_bytes: 4 << 20,
        backlog_bytes_max: 0,
        lag_bytes_max: 1 << 30,
        lag_ms_max: TIMEOUT_MS,
        request_timeout_ms: 0,
        history_retention_s: 0,
        history_bytes_max: 0,
        durability: 1,
        take_over: 0,
        log: None,
        wish: None,
    };
    let mut store = null_mut();
    // SAFETY: the configuration and its strings live until the call returns.
    check(&unsafe { atoll_store_open(std::ptr::null(), &config, &mut store) });
    Handle(store)
}

/// The bytes of table `number`. They differ from table to table and from offset to offset, so that a read of
/// the wrong bytes is noticed.
fn table_bytes(number: u64) -> Vec<u8> {
    (0..TABLE_BYTES as u64).map(|at| ((at ^ (at >> 9)).wrapping_mul(2 * number + 1) >> 3) as u8).collect()
}

fn read_of(offset: usize, buffer: &mut [u8]) -> AtollRead {
    let (buffer, length) = (buffer.as_mut_ptr().cast::<c_char>(), buffer.len() as u64);
    AtollRead { offset: offset as u64, length, buffer, read: 0, result: AtollResult::ok() }
}

/// Reads the whole table in two requests of one call.
fn read_table(store: Handle, number: u64) -> Vec<u8> {
    let mut bytes = vec![0; TABLE_BYTES];
    let (front, back) = bytes.split_at_mut(TABLE_BYTES / 3);
    let mut reads = [read_of(0, front), read_of(TABLE_BYTES / 3, back)];
    let mut file = null_mut();
    // SAFETY: the store is open, and the buffers belong to this thread and live until the end of the
    // function. The file is closed once and not used later.
    unsafe {
        check(&atoll_file_open(store.0, number, &mut file));
        atoll_file_prefetch(file, 0, TABLE_BYTES as u64);
        atoll_file_read_many(file, reads.as_mut_ptr(), reads.len());
        atoll_file_close(file);
    }
    for read in &reads {
        check(&read.result);
        assert_eq!(read.read, read.length);
    }
    bytes
}

/// Does what flushes and compactions do: adds tables one by one, and after each reads all tables that it
/// still has. After every second table, it removes the oldest one.
fn make_tables(store: Handle, folder: &Path, first: u64) {
    let mut kept = Vec::new();
    for number in first..first + TABLES_PER_THREAD {
        let path = folder.join(format!("db/{number:06}.sst"));
        fs::write(&path, table_bytes(number)).unwrap();
        // SAFETY: the store is open.
        check(&unsafe { atoll_store_add_file(store.0, number, c_path(&path).as_ptr()) });
        kept.push(number);
        for number in &kept {
            assert_eq!(read_table(store, *number), table_bytes(*number), "table {number}");
        }
        if number % 2 == 0 {
            let gone = kept.remove(0);
            // SAFETY: the store is open.
            check(&unsafe { atoll_store_remove_file(store.0, gone) });
        }
    }
}

/// Does what committing threads do: appends commits to the WAL, one after the other, and syncs each.
fn append_wal(store: Handle, path: PathBuf, number: u64) {
    let mut wal = File::create(path).unwrap();
    // SAFETY: the store is open.
    unsafe { atoll_store_wal_created(store.0, number) };
    for n in 1..=APPENDS {
        wal.write_all(&[n as u8; 100]).unwrap();
        // SAFETY: the store is open.
        unsafe {
            atoll_store_wal_appended(store.0, number, n * 100);
            atoll_store_wal_synced(store.0, number, n * 100);
            check(&atoll_store_after_commit(store.0, atoll_store_wal_position(store.0), TIMEOUT_MS));
        }
    }
    // SAFETY: the store is open.
    check(&unsafe { atoll_store_wait_shipped(store.0, atoll_store_wal_position(store.0), TIMEOUT_MS) });
}

/// Appends edits to the MANIFEST, and publishes a root after every tenth.
fn append_manifest(store: Handle, db: &Path, number: u64) {
    let mut manifest = File::create(db.join(format!("MANIFEST-{number:06}"))).unwrap();
    for n in 1..=APPENDS {
        manifest.write_all(&[n as u8; 50]).unwrap();
        // SAFETY: the store is open.
        unsafe { atoll_store_manifest_synced(store.0, number, n * 50) };
        if n == 1 {
            fs::write(db.join("CURRENT"), format!("MANIFEST-{number:06}\n")).unwrap();
            // SAFETY: the store is open.
            unsafe { atoll_store_current_set(store.0, number) };
        }
        if n % 10 == 0 {
            // SAFETY: the store is open.
            unsafe {
                atoll_store_note_ddl(store.0);
                check(&atoll_store_publish(store.0, TIMEOUT_MS));
            }
        }
    }
}

fn stats(store: Handle) -> AtollStoreStats {
    // SAFETY: the struct has only numbers and arrays of numbers, and these may be zero.
    let mut stats = unsafe { std::mem::zeroed() };
    // SAFETY: the store is open.
    unsafe { atoll_store_get_stats(store.0, &mut stats) };
    stats
}

/// Does what SET GLOBAL and SHOW STATUS do: changes settings and reads counters. The cache becomes too small
/// for the tables that are read, and then large again.
fn change_settings(store: Handle, done: &AtomicBool) {
    let mut round = 0_u32;
    while !done.load(Ordering::Relaxed) {
        round += 1;
        // SAFETY: the store is open.
        unsafe {
            atoll_store_set_cache_bytes(store.0, if round.is_multiple_of(2) { 4 << 20 } else { 400_000 });
            atoll_store_set_durability(store.0, 1 + (round % 2) as u8, TIMEOUT_MS, 1 << 30);
            check(&atoll_store_may_write(store.0));
        }
        assert_eq!(stats(store).fenced, 0);
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

#[test]
fn many_threads_use_one_store_and_read_what_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let db = folder.path().join("db");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        (0..2).for_each(|_| drop(scope.spawn(|| change_settings(store, &done))));
        let tables = (0..TABLE_THREADS).map(|n| 100 * (n + 1));
        let mut workers: Vec<_> = tables
            .map(|first| {
                let folder = folder.path();
                scope.spawn(move || make_tables(store, folder, first))
            })
            .collect();
        workers.push(scope.spawn(|| append_wal(store, db.join("000002.log"), 2)));
        workers.push(scope.spawn(|| append_manifest(store, &db, 1)));
        let outcomes: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        done.store(true, Ordering::Relaxed);
        outcomes.into_iter().for_each(|outcome| outcome.unwrap());
    });
    let numbers = stats(store);
    assert_eq!(numbers.files, TABLE_THREADS * TABLES_PER_THREAD / 2);
    assert!(numbers.roots_published > 0 && numbers.wal_chunks_shipped > 0);
    // SAFETY: no thread uses the store any more.
    check(&unsafe { atoll_store_close(store.0, TIMEOUT_MS) });
}
