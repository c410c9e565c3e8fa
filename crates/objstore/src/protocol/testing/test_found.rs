//! What the pretend RocksDB of test_db.rs finds on disk when it opens: MANIFEST, table files and WALs.

use crate::crc::crc32c;
use crate::error::StoreError;
use crate::protocol::store::Store;
use crate::protocol::testing::test_db::{Content, FAMILIES, Family, RECORD_BYTES};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// What RocksDB finds on disk.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) families: BTreeMap<u64, Family>,
    pub(crate) content: BTreeMap<u64, Content>,
    pub(crate) wals: BTreeMap<u64, u64>,
    pub(crate) last_seq: u64,
    pub(crate) next_number: u64,
    pub(crate) dropped: BTreeSet<u64>,
}

impl Found {
    pub(crate) fn read(store: &Store, dir: &Path) -> Self {
        let mut found = Self::default();
        let numbers: Vec<u64> =
            fs::read_dir(dir).unwrap().filter_map(|e| number_of(&e.unwrap().path())).collect();
        let known = store.files().list().into_iter().map(|(number, _)| number);
        found.next_number = numbers.iter().copied().chain(known).max().unwrap_or(0) + 1;
        let Ok(current) = fs::read_to_string(dir.join("CURRENT")) else {
            found.families = (0..FAMILIES).map(|family| (family, Family::default())).collect();
            found.content = (0..FAMILIES).map(|family| (family, Content::new())).collect();
            return found;
        };
        let manifest = fs::read_to_string(dir.join(current.trim())).unwrap();
        let mut min_wal = 0;
        for line in manifest.lines() {
            found.apply(line, &mut min_wal);
        }
        found.read_tables(store);
        found.replay(dir, numbers, min_wal);
        found
    }

    fn apply(&mut self, line: &str, min_wal: &mut u64) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |index: usize| words[index].parse::<u64>().unwrap();
        match words[0] {
            "family" => {
                self.families.entry(number(1)).or_default();
            }
            "file" => {
                self.families.insert(number(1), Family { file: Some(number(2)), flushed: number(3) });
            }
            "drop" => {
                self.families.remove(&number(1));
                self.dropped.insert(number(1));
            }
            "wal" => *min_wal = number(1),
            other => panic!("MANIFEST line {other}"),
        }
    }

    fn read_tables(&mut self, store: &Store) {
        for (family, state) in &self.families {
            let content = self.content.entry(*family).or_default();
            if let Some(number) = state.file {
                let bytes = read_table(store, number);
                let length = bytes.len();
                let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
                assert_eq!(word(length - 8), state.flushed);
                content.extend((0..length / 16).map(|i| (word(i * 16), word(i * 16 + 8))));
            }
            self.last_seq = self.last_seq.max(state.flushed);
        }
    }

    /// Replays to a point in time: stops at the first record that does not continue the sequence.
    fn replay(&mut self, dir: &Path, mut numbers: Vec<u64>, min_wal: u64) {
        numbers.sort_unstable();
        numbers.retain(|number| *number >= min_wal && dir.join(format!("{number:06}.log")).exists());
        let mut next: Option<u64> = None;
        for number in numbers {
            let bytes = fs::read(dir.join(format!("{number:06}.log"))).unwrap();
            let mut last = 0;
            for chunk in bytes.chunks_exact(RECORD_BYTES) {
                let Some((seq, families, key, value)) = parse(chunk) else { break };
                if next.is_some_and(|next| next != seq) {
                    return;
                }
                next = Some(seq + 1);
                last = seq;
                let is_live = |family: &u64| families >> family & 1 == 1 && !self.dropped.contains(family);
                for family in (0..64).filter(is_live) {
                    let state = self
                        .families
                        .get(&family)
                        .unwrap_or_else(|| panic!("PUB-G8: unknown family {family}"));
                    if seq > state.flushed {
                        self.content.entry(family).or_default().insert(key, value);
                    }
                }
                self.last_seq = self.last_seq.max(seq);
            }
            self.wals.insert(number, last);
        }
    }
}

/// Returns the content of a table file without the checksum in its last 8 bytes. If the checksum is wrong,
/// reads the file again with `refetch`, as RocksDB does with a block.
fn read_table(store: &Store, number: u64) -> Vec<u8> {
    let file = store.files().open(number).unwrap_or_else(|e| panic!("IMAGE-1: live file {number}: {e}"));
    let mut bytes = vec![0; file.size() as usize];
    let mut failed = String::new();
    for attempt in 0..30 {
        match file.read(0, &mut bytes, attempt > 0) {
            Ok(length) => assert_eq!(length, bytes.len(), "IMAGE-1: file {number}"),
            Err(error @ StoreError::Unavailable(_)) => {
                failed = error.to_string();
                crate::sim::sleep(Duration::from_millis(2));
                continue;
            }
            Err(error) => panic!("IMAGE-1: live file {number}: {error}"),
        }
        let content = bytes.len() - 8;
        if bytes[content..] == u64::from(crc32c(&bytes[..content])).to_le_bytes() {
            bytes.truncate(content);
            return bytes;
        }
        crate::sim::sleep(Duration::from_millis(2));
    }
    panic!("IMAGE-1: file {number} cannot be read: {failed}")
}

fn number_of(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?;
    name.strip_prefix("MANIFEST-").or(name.split('.').next()).and_then(|digits| digits.parse().ok())
}

fn parse(bytes: &[u8]) -> Option<(u64, u64, u64, u64)> {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let is_good = crc32c(&bytes[..24]).to_le_bytes() == bytes[24..28];
    is_good.then(|| (word(0), word(8) >> 32, word(8) & 0xffff_ffff, word(16)))
}
