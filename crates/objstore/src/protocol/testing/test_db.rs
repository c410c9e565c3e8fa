//! A pretend RocksDB for the protocol's tests: two column families at first, a WAL, a MANIFEST and table
//! files; and a model to compare the rows with.
//!
//! A commit writes one key into the chosen families, usually into all, in one WAL record, so half a
//! transaction is visible as a difference between the families. A flush of one family writes all its rows
//! into one file, which replaces the family's former file. Only the names of the files, and the records of
//! `commit_group`, are like RocksDB's.

use crate::config::{Durability, StoreConfig};
use crate::crc::crc32c;
use crate::error::{Result, StoreError};
use crate::log::silent;
use crate::protocol::gc::{Doubts, GcTuning};
use crate::protocol::publish::map_writer::MapLimits;
use crate::protocol::shared::Tuning;
use crate::protocol::start::open::{Options, open};
use crate::protocol::start::opener::Opener;
use crate::protocol::store::Store;
use crate::protocol::testing::test_found::Found;
use crate::protocol::wal::marks::Gtid;
use crate::protocol::wal::position::NotedCommit;
use crate::protocol::wal::replay::encode_record;
use crate::protocol::wal::wal_runs::MergeLimits;
use crate::requests::bucket::Bucket;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub(crate) const WAIT: Duration = Duration::from_secs(60);
pub(crate) const RECORD_BYTES: usize = 32;
pub(crate) const FAMILIES: u64 = 2;

/// Short intervals, so that a test does in milliseconds what a server does in seconds.
pub(crate) fn quick() -> Tuning {
    Tuning {
        ship_interval: Duration::from_millis(2),
        ships_per_lag: u32::MAX,
        ship_bytes: 200,
        chunk_bytes_max: 100,
        publish_interval: Duration::from_millis(3),
        settle_after_open: Duration::ZERO,
        alive_interval: Duration::from_millis(20),
        alive_patience: Duration::from_millis(1000),
        merge: MergeLimits {
            merge_chunks: 6,
            small_bytes_max: 4000,
            objects_max: 11,
            chunks_bytes_max: 4000,
            runs_max: 4,
            run_bytes_max: 4000,
        },
        map: MapLimits { small_files: 1, part_files: 2, changes_bytes: 40, parts_max: 4 },
        manifest_chunks_max: 7,
        roots_kept: 3,
        gc: quick_gc(),
        ..Tuning::default()
    }
}

/// A collector that deletes at once, and searches the bucket once.
pub(crate) fn quick_gc() -> GcTuning {
    GcTuning {
        gather: Duration::from_millis(1),
        grace: Duration::ZERO,
        raises_horizon: true,
        doubts: Doubts::default(),
        clock_trust: Duration::from_secs(3600),
        hold_interval: Duration::from_millis(20),
        reader_pin_life: Duration::from_secs(900),
        search_interval: Duration::from_secs(3600),
        deletes_per_second: 100_000,
        history_interval_min: Duration::ZERO,
        retry_min: Duration::from_millis(10),
        retry_max: Duration::from_millis(100),
    }
}

pub(crate) fn config(dir: &Path, server: &str, durability: Durability) -> StoreConfig {
    StoreConfig {
        local_dir: dir.join("db"),
        cache_dir: dir.join("cache"),
        server_id: server.to_owned(),
        durability,
        take_over: true,
        lag_max: Duration::from_secs(5),
        ..StoreConfig::default()
    }
}

pub(crate) fn open_store(config: &StoreConfig, bucket: &Bucket, tuning: Tuning) -> Result<Arc<Store>> {
    open(config, bucket.clone(), silent(), Options { tuning, ..Options::default() })
}

/// Tries to open until the opener no longer waits for another owner.
pub(crate) fn open_patiently(config: &StoreConfig, bucket: &Bucket, tuning: Tuning) -> Result<Arc<Store>> {
    let opener = Opener::default();
    loop {
        let options = Options { tuning: tuning.clone(), opener: opener.clone(), ..Options::default() };
        let outcome = open(config, bucket.clone(), silent(), options);
        if opener.waits().is_zero() {
            return outcome;
        }
        assert!(matches!(outcome, Err(StoreError::Unavailable(_))), "{:?}", outcome.err());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A directory for one test; in memory where the machine has that, because every publish syncs files.
pub(crate) fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Runs one future to its end, for tests that look into the bucket.
pub(crate) fn block<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// The rows of a column family: key -> value.
pub(crate) type Content = BTreeMap<u64, u64>;

/// Commit n of the history wrote `commits[n-1]`: (families as bits, key, value).
#[derive(Debug, Clone, Default)]
pub(crate) struct Model {
    pub(crate) commits: Vec<(u64, u64, u64)>,
}

impl Model {
    pub(crate) fn content_at(&self, seq: u64, family: u64) -> Content {
        let commits = self.commits.iter().take(seq as usize);
        commits
            .filter(|(families, _, _)| families >> family & 1 == 1)
            .map(|(_, key, value)| (*key, *value))
            .collect()
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Family {
    /// The number of the family's table file, and the sequence number up to which the file has all changes.
    pub(crate) file: Option<u64>,
    pub(crate) flushed: u64,
}

/// The pretend RocksDB with an open database.
pub(crate) struct Db {
    pub(crate) store: Arc<Store>,
    dir: PathBuf,
    families: BTreeMap<u64, Family>,
    content: BTreeMap<u64, Content>,
    pub(crate) last_seq: u64,
    next_number: u64,
    manifest: (u64, File, u64),
    wal: (u64, File, u64),
    /// WAL number -> highest sequence number in it.
    wals: BTreeMap<u64, u64>,
    dropped: BTreeSet<u64>,
}

impl Db {
    /// Opens like RocksDB: reads CURRENT, MANIFEST and WALs, then writes a new MANIFEST and a new WAL.
    ///
    /// `flush`: recovered WALs are flushed and deleted; otherwise they are kept.
    pub(crate) fn open(store: Arc<Store>, dir: &Path, flush: bool) -> Self {
        let dir = dir.join("db");
        let mut found = Found::read(&store, &dir);
        let number = found.next_number;
        let wals = std::mem::take(&mut found.wals);
        let manifest_path = dir.join(format!("MANIFEST-{number:06}"));
        let wal_number = number + 1;
        let mut db = Self {
            manifest: (number, File::create(manifest_path).unwrap(), 0),
            wal: (wal_number, File::create(dir.join(format!("{wal_number:06}.log"))).unwrap(), 0),
            store,
            dir,
            families: found.families,
            content: found.content,
            last_seq: found.last_seq,
            next_number: number + 2,
            wals,
            dropped: found.dropped,
        };
        db.store.wal_created(wal_number);
        db.wals.insert(wal_number, db.last_seq);
        db.write_manifest_start();
        db.store.opened(db.last_seq);
        if flush {
            for family in db.families.keys().copied().collect::<Vec<_>>() {
                db.flush_family(family);
            }
            db.delete_obsolete_wals();
        }
        db
    }

    fn write_manifest_start(&mut self) {
        for family in self.dropped.clone() {
            self.edit(&format!("drop {family}"));
        }
        for (family, state) in self.families.clone() {
            self.edit(&format!("family {family}"));
            if let Some(file) = state.file {
                self.edit(&format!("file {family} {file} {}", state.flushed));
            }
        }
        let min = self.min_wal();
        self.edit(&format!("wal {min}"));
        fs::write(self.dir.join("CURRENT"), format!("MANIFEST-{:06}\n", self.manifest.0)).unwrap();
        self.store.current_set(self.manifest.0);
    }

    /// A new MANIFEST, as RocksDB writes when the old one is long.
    pub(crate) fn roll_manifest(&mut self) {
        let number = self.number();
        let old = self.manifest.0;
        let path = self.dir.join(format!("MANIFEST-{number:06}"));
        self.manifest = (number, File::create(path).unwrap(), 0);
        self.write_manifest_start();
        let _ = fs::remove_file(self.dir.join(format!("MANIFEST-{old:06}")));
    }

    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number - 1
    }

    fn edit(&mut self, line: &str) {
        let (number, file, length) = &mut self.manifest;
        writeln!(file, "{line}").unwrap();
        *length += line.len() as u64 + 1;
        self.store.manifest_synced(*number, *length);
    }

    /// Creates a family (DDL). A commit that writes to it is not replayed over a root that lacks it (gate
    /// PUB-G8).
    pub(crate) fn create_family(&mut self, family: u64) {
        self.families.entry(family).or_default();
        self.content.entry(family).or_default();
        self.edit(&format!("family {family}"));
        self.store.note_ddl();
    }

    /// Creates a family with a number that no family had before (DDL). False when there is no number left.
    pub(crate) fn create_next_family(&mut self) -> bool {
        let known = self.families.keys().chain(&self.dropped).max().map_or(0, |family| family + 1);
        if known < 63 {
            self.create_family(known);
        }
        known < 63
    }

    /// Drops a family with its file (DDL). Its number is never used again.
    pub(crate) fn drop_family(&mut self, family: u64) {
        let state = self.families.remove(&family).unwrap();
        self.content.remove(&family);
        self.dropped.insert(family);
        self.store.note_drop();
        self.edit(&format!("drop {family}"));
        if let Some(file) = state.file {
            self.store.files().remove_file(file).unwrap();
        }
    }

    /// Simulates a bulk load: a file is uploaded before it has a number. Then it gets a number and becomes
    /// the only file of `family`, or the load is given up (`is_kept` false). False when fenced.
    pub(crate) fn load(&mut self, family: u64, is_kept: bool) -> bool {
        self.switch_wal(true);
        let staged = self.dir.join(format!("load{}.tmp", self.next_number));
        fs::write(&staged, self.table_of(family)).unwrap();
        match self.store.files().stage_file(&staged) {
            Err(StoreError::Fenced(_)) => return false,
            outcome => outcome.unwrap(),
        }
        if !is_kept {
            self.store.files().unstage_file(&staged);
            return true;
        }
        let file = self.number();
        let path = self.dir.join(format!("{file:06}.sst"));
        fs::rename(&staged, &path).unwrap();
        self.store.files().bind_file(&staged, file, &path).unwrap();
        self.name_file(family, file);
        self.store.note_ddl();
        true
    }

    /// Simulates that data leaves the MANIFEST because the last commit removed the last reference to it. For
    /// the tests it matters only that the MANIFEST changes. `is_noted`: the store is told of the drop.
    pub(crate) fn drop_data(&mut self, is_noted: bool) {
        if is_noted {
            self.store.note_drop();
        }
        let min = self.min_wal();
        self.edit(&format!("wal {min}"));
    }

    pub(crate) fn current_manifest(&self) -> u64 {
        self.manifest.0
    }

    pub(crate) fn families(&self) -> Vec<u64> {
        self.families.keys().copied().collect()
    }

    /// One transaction; returns the position to wait for.
    pub(crate) fn commit(&mut self, model: &mut Model, families: u64, key: u64, value: u64) -> u64 {
        self.last_seq += 1;
        model.commits.truncate(self.last_seq as usize - 1);
        model.commits.push((families, key, value));
        let (number, file, length) = &mut self.wal;
        file.write_all(&record(self.last_seq, families, key, value)).unwrap();
        *length += RECORD_BYTES as u64;
        self.store.wal_appended(*number, *length);
        self.wals.insert(*number, self.last_seq);
        for family in 0..64 {
            if families >> family & 1 == 1 {
                self.content.get_mut(&family).unwrap().insert(key, value);
            }
        }
        self.store.wal_position()
    }

    /// Writes commits to the log as RocksDB writes a group of them: one record, with a change and a mark for
    /// each. The first commit has the time `first_us`, the sequence number `first` for its change, and the
    /// GTID 0-1-`first`; these three go up by one from commit to commit.
    pub(crate) fn commit_group(&mut self, first_us: u64, first: u64, count: u64) {
        let mut record = [first.to_le_bytes().as_slice(), &(count as u32).to_le_bytes()].concat();
        for n in 0..count {
            let (time_us, number) = (first_us + n, u32::try_from(first + n).unwrap());
            let (low, high) = (number as u8 | 0x80, (number >> 7) as u8);
            record.extend_from_slice(b"\x05\x02\x03key\x05value");
            record.extend_from_slice(&[3, 12, 0x11]);
            record.extend_from_slice(&time_us.to_le_bytes()[..7]);
            record.extend_from_slice(&[0, 1, low, high]);
            let gtid = Some(Gtid { domain: 0, server: 1, sequence: first + n });
            self.store.note_commit(&NotedCommit { sequence: first + n + 1, time_us, gtid, binlog: None });
        }
        let offset = self.wal.2;
        self.append(&encode_record(offset, &record));
    }

    /// Appends bytes to the WAL that are no record of this database.
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        let (number, file, length) = &mut self.wal;
        file.write_all(bytes).unwrap();
        *length += bytes.len() as u64;
        self.store.wal_appended(*number, *length);
    }

    pub(crate) fn sync(&self) {
        self.store.wal_synced(self.wal.0, self.wal.2);
    }

    /// Makes a new WAL, then the family's file, then the MANIFEST edit. False when fenced.
    pub(crate) fn flush(&mut self, family: u64, close_first: bool) -> bool {
        self.switch_wal(close_first);
        self.flush_family(family)
    }

    fn switch_wal(&mut self, close_first: bool) {
        let number = self.number();
        let old = (self.wal.0, self.wal.2);
        self.wal = (number, File::create(self.dir.join(format!("{number:06}.log"))).unwrap(), 0);
        self.store.wal_created(number);
        if close_first {
            self.store.wal_closed(old.0, old.1);
        }
        self.wals.insert(number, self.last_seq);
    }

    /// False when the store refuses the file, because this process is fenced.
    fn flush_family(&mut self, family: u64) -> bool {
        let file = self.number();
        let path = self.dir.join(format!("{file:06}.sst"));
        let bytes = self.table_of(family);
        fs::write(&path, bytes).unwrap();
        match self.store.files().add_file(file, &path) {
            Err(StoreError::Fenced(_)) => return false,
            outcome => outcome.unwrap(),
        }
        self.name_file(family, file);
        true
    }

    /// The content of a family as a table file.
    fn table_of(&self, family: u64) -> Vec<u8> {
        let rows = self.content[&family].iter();
        let mut bytes: Vec<u8> =
            rows.flat_map(|(k, v)| [k.to_le_bytes(), v.to_le_bytes()].concat()).collect();
        bytes.extend_from_slice(&self.last_seq.to_le_bytes());
        bytes.extend_from_slice(&u64::from(crc32c(&bytes)).to_le_bytes());
        bytes
    }

    /// Makes the MANIFEST name `file` as the only file of `family`, and removes the family's former file.
    fn name_file(&mut self, family: u64, file: u64) {
        let before = self.families.insert(family, Family { file: Some(file), flushed: self.last_seq });
        self.edit(&format!("file {family} {file} {}", self.last_seq));
        if let Some(old) = before.and_then(|family| family.file) {
            self.store.files().remove_file(old).unwrap();
        }
    }

    fn min_wal(&self) -> u64 {
        let flushed = self.families.values().map(|family| family.flushed).min().unwrap_or(0);
        let needed = |(number, last): &(&u64, &u64)| **last > flushed || **number == self.wal.0;
        self.wals.iter().find(needed).map_or(self.wal.0, |(number, _)| *number)
    }

    pub(crate) fn delete_obsolete_wals(&mut self) {
        let min = self.min_wal();
        self.edit(&format!("wal {min}"));
        let kept = self.wals.split_off(&min);
        for number in std::mem::replace(&mut self.wals, kept).into_keys() {
            let _ = fs::remove_file(self.dir.join(format!("{number:06}.log")));
            self.store.wal_deleted(number);
        }
    }

    /// Whether the rows are those that the history `model` has after the last commit that this database has.
    pub(crate) fn matches(&self, model: &Model) -> bool {
        self.last_seq <= model.commits.len() as u64
            && self
                .content
                .iter()
                .all(|(family, content)| *content == model.content_at(self.last_seq, *family))
    }

    /// Compares everything with the model; the message names what differs.
    pub(crate) fn check(&self, model: &Model, context: &str) {
        assert!(self.last_seq <= model.commits.len() as u64, "{context}: recovered more than was written");
        for (family, content) in &self.content {
            let expected = model.content_at(self.last_seq, *family);
            assert_eq!(*content, expected, "{context}: family {family} at commit {}", self.last_seq);
        }
    }
}

fn record(seq: u64, families: u64, key: u64, value: u64) -> Vec<u8> {
    let mut bytes: Vec<u8> =
        [seq, families << 32 | key, value].iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.extend_from_slice(&crc32c(&bytes).to_le_bytes());
    bytes.resize(RECORD_BYTES, 0xee);
    bytes
}

/// Simulates the loss of the machine: ends the process and deletes its directory.
pub(crate) fn lose(db: Db, dir: &Path) {
    crash(db);
    let _ = fs::remove_dir_all(dir.join("db"));
    let _ = fs::remove_dir_all(dir.join("cache"));
}

/// Simulates the death of the process; its directory stays.
pub(crate) fn crash(db: Db) {
    db.store.kill();
}

/// True when the result is the error of a fenced server.
pub(crate) fn is_fenced<T>(result: &Result<T>) -> bool {
    matches!(result, Err(StoreError::Fenced(_)))
}
