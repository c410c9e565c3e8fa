//! The marks of commits in RocksDB's WAL. They tell which transactions a restore brings back, in the order of
//! their commits, and where in the WAL a restore must stop to bring back only those up to a chosen one.
//!
//! RocksDB writes a group of commits as one record. A mark comes after the changes of its commit, in the same
//! record; for a commit that was prepared, the mark comes before the commit marker. Changes without a mark
//! belong to the next mark: they are invisible until a later commit, which has a mark. Writer:
//! engine/lsm/commit_mark.cc. Byte table: FMT-W12 of docs/internals/formats-bucket.md. Source of a record's
//! form: RocksDB 11.8.1, db/write_batch.cc.

use crate::error::{Result, StoreError};
use crate::protocol::wal::replay::WalReader;
use serde::Serialize;
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

const MARK_VERSION: u8 = 1;
const HAS_GTID: u8 = 1;
const HAS_BINLOG: u8 = 2;
const IS_RECOVERED: u8 = 4;
const TIME_BYTES: usize = 7;
/// A record begins with the sequence number of its first change (8 bytes) and the number of changes (4).
const RECORD_HEADER_BYTES: usize = 12;
/// A huge transaction has a marker, whose key begins with these bytes, in RocksDB's default family. The small
/// transaction that goes with the huge one removes this marker.
const HUGE: &[u8] = b"spilled/";

/// A global transaction id, as MariaDB writes it: domain-server-sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[allow(missing_docs)]
pub struct Gtid {
    pub domain: u32,
    pub server: u32,
    pub sequence: u64,
}

impl FromStr for Gtid {
    type Err = StoreError;

    /// Reads a GTID as MariaDB writes it. Errors: `Invalid` for any other text.
    fn from_str(text: &str) -> Result<Self> {
        let wrong =
            || StoreError::Invalid(format!("'{text}' is no GTID: write domain-server-sequence, as 0-1-5120"));
        let mut numbers = text.split('-');
        let mut next = || numbers.next().ok_or_else(wrong);
        let (domain, server, sequence) = (next()?, next()?, next()?);
        let gtid = Self {
            domain: domain.parse().map_err(|_| wrong())?,
            server: server.parse().map_err(|_| wrong())?,
            sequence: sequence.parse().map_err(|_| wrong())?,
        };
        if gtid.to_string() == text { Ok(gtid) } else { Err(wrong()) }
    }
}

impl Display for Gtid {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{}-{}-{}", self.domain, self.server, self.sequence)
    }
}

/// A position in the binary log of the server that wrote the commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct BinlogPosition {
    /// The number at the end of the file's name, such as 7 in `mariadb-bin.000007`.
    pub file: u64,
    /// The offset at which the events of the transaction end.
    pub offset: u64,
}

/// One commit in the WAL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Commit {
    /// The time when the commit's changes were handed to RocksDB, in microseconds since 1970 by the server's
    /// clock. The commits of one group may be in another order than their times.
    pub time_us: u64,
    /// None: the server gave the commit no GTID, because the commit changed a definition, or because its
    /// session neither writes to a binary log nor replicates. Also None when `is_recovered`.
    pub gtid: Option<Gtid>,
    /// None: no binary log has it, the commit ended an XA transaction, or it `is_recovered`.
    pub binlog: Option<BinlogPosition>,
    /// True: the server stopped before the commit was in the WAL, and decided at its next start to commit.
    /// Only the binary log knows the commit's GTID.
    pub is_recovered: bool,
    /// The number of the WAL that holds the commit.
    pub log: u64,
    /// The sequence number at which the record of the commit starts.
    pub sequence: u64,
    /// The length of the record up to the end of this commit, in bytes: a restore that stops at the commit
    /// keeps this part.
    pub end: usize,
    /// The number of changes in that part of the record.
    pub changes: u32,
}

/// Reads WALs in the order of the stream, in pieces of any size, and gives their commits.
#[derive(Debug, Default)]
pub struct CommitReader {
    wal: WalReader,
    /// The bytes so far of the record that is not whole yet.
    record: Vec<u8>,
}

impl CommitReader {
    /// A reader that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes of WAL `log`; returns the commits of the records that are whole now, in order.
    /// Like RocksDB, it ignores the rest of a WAL after damage.
    ///
    /// Errors: `Corruption` for a whole record that is not understood; a newer version may have written it.
    pub fn read(&mut self, log: u64, bytes: &[u8]) -> Result<Vec<Commit>> {
        let (mut commits, mut outcome) = (Vec::new(), Ok(()));
        let record = &mut self.record;
        self.wal.read(log, bytes, |part| {
            if part.begins_record {
                record.clear();
            }
            record.extend_from_slice(part.content);
            if part.ends_record && outcome.is_ok() {
                outcome = read_record(log, record, &mut commits);
            }
        });
        outcome.map(|()| commits)
    }
}

/// Adds the commits of a whole record of WAL `log`. Errors: as [`CommitReader::read`].
pub(crate) fn read_record(log: u64, record: &[u8], commits: &mut Vec<Commit>) -> Result<()> {
    let damaged = || not_understood(log, record);
    let mut input = Input { bytes: record };
    input.take(RECORD_HEADER_BYTES).ok_or_else(damaged)?;
    let sequence = sequence_of(record);
    let (mut changes, mut is_open) = (0, false);
    while !input.bytes.is_empty() {
        let item = input.item().ok_or_else(damaged)?;
        let end = record.len() - input.bytes.len();
        match item {
            Item::Mark(bytes) => {
                let place = Place { log, sequence, end, changes };
                commits.push(read_mark(bytes, &place).ok_or_else(damaged)?);
            }
            Item::CommitMarker(_) if is_open => {
                if let Some(commit) = commits.last_mut() {
                    commit.end = end;
                }
            }
            Item::Change | Item::Deletion(_) => changes += 1,
            Item::CommitMarker(_) | Item::Section | Item::Ending(_) | Item::Other => {}
        }
        is_open = matches!(item, Item::Mark(_));
    }
    Ok(())
}

/// What a record says about a prepared transaction, mostly with the transaction's XID.
#[derive(Clone, Copy)]
pub(crate) enum Ending<'a> {
    Prepared(&'a [u8]),
    /// The transaction was prepared, and it goes with a huge transaction, whose marker it removes.
    PreparedHuge,
    /// The transaction was committed or rolled back.
    Over(&'a [u8]),
}

/// Returns the sequence number of a whole record of WAL `log`, the number of its changes, and what it says of
/// prepared transactions, in order.
///
/// Errors: as [`CommitReader::read`].
pub(crate) fn endings(log: u64, record: &[u8]) -> Result<(u64, u64, Vec<Ending<'_>>)> {
    let (mut input, mut changes, mut found) = (Input { bytes: record }, 0, Vec::new());
    let sequence = sequence_of(record);
    let mut removes_marker = false; // in the prepared section that the record is in
    input.take(RECORD_HEADER_BYTES).ok_or_else(|| not_understood(log, record))?;
    while !input.bytes.is_empty() {
        match input.item().ok_or_else(|| not_understood(log, record))? {
            Item::Change => changes += 1,
            Item::Deletion(key) => {
                changes += 1;
                removes_marker |= key.starts_with(HUGE);
            }
            Item::Section => removes_marker = false,
            Item::CommitMarker(xid) => found.push(Ending::Over(xid)),
            Item::Ending(Ending::Prepared(_)) if removes_marker => found.push(Ending::PreparedHuge),
            Item::Ending(ending) => found.push(ending),
            Item::Mark(_) | Item::Other => {}
        }
    }
    Ok((sequence, changes, found))
}

fn sequence_of(record: &[u8]) -> u64 {
    record.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn not_understood(log: u64, record: &[u8]) -> StoreError {
    let sequence = sequence_of(record);
    StoreError::Corruption(format!(
        "the record at sequence number {sequence} of WAL {log} is not understood; use a newer version"
    ))
}

struct Place {
    log: u64,
    sequence: u64,
    end: usize,
    changes: u32,
}

/// Decodes a mark; None when it is not a mark of this version.
fn read_mark(bytes: &[u8], place: &Place) -> Option<Commit> {
    let mut input = Input { bytes };
    let [head] = *input.take(1)?.first_chunk()?;
    let flags = head & 0xf;
    if head >> 4 != MARK_VERSION || flags & !(HAS_GTID | HAS_BINLOG | IS_RECOVERED) != 0 {
        return None;
    }
    let time = input.take(TIME_BYTES)?.iter().rev();
    let time_us = time.fold(0, |value, byte| value << 8 | u64::from(*byte));
    let mut gtid = None;
    if flags & HAS_GTID != 0 {
        gtid = Some(Gtid {
            domain: input.varint()?.try_into().ok()?,
            server: input.varint()?.try_into().ok()?,
            sequence: input.varint()?,
        });
    }
    let mut binlog = None;
    if flags & HAS_BINLOG != 0 {
        binlog = Some(BinlogPosition { file: input.varint()?, offset: input.varint()? });
    }
    let Place { log, sequence, end, changes } = *place;
    let is_recovered = flags & IS_RECOVERED != 0;
    let commit = Commit { time_us, gtid, binlog, is_recovered, log, sequence, end, changes };
    input.bytes.is_empty().then_some(commit)
}

/// One entry of a record: a change of a row, a mark, or an entry about a prepared transaction.
#[derive(Clone, Copy)]
enum Item<'a> {
    Change,
    /// A change that deletes this key of RocksDB's default family.
    Deletion(&'a [u8]),
    Mark(&'a [u8]),
    /// The marker of a commit, with its XID.
    CommitMarker(&'a [u8]),
    /// The beginning of a prepared section.
    Section,
    /// The end of a prepared section, which makes the transaction prepared, or the rollback of such a
    /// transaction.
    Ending(Ending<'a>),
    Other,
}

/// The bytes of a record that are not read yet. Each function returns None when the bytes end too early or
/// are not understood.
struct Input<'a> {
    bytes: &'a [u8],
}

impl<'a> Input<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        Some(taken)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = *self.take(1)?.first_chunk()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn string(&mut self) -> Option<&'a [u8]> {
        let length = self.varint()?;
        self.take(length.try_into().ok()?)
    }

    /// Reads a change: first the family's number, when the type of the change has one, then one string or
    /// two.
    fn change(&mut self, has_family: bool, strings: usize) -> Option<Item<'a>> {
        if has_family {
            self.varint()?;
        }
        for _ in 0..strings {
            self.string()?;
        }
        Some(Item::Change)
    }

    fn item(&mut self) -> Option<Item<'a>> {
        let [kind] = *self.take(1)?.first_chunk()?;
        match kind {
            // A deletion: its key.
            0x0 => self.string().map(Item::Deletion),
            0x7 => self.change(false, 1),
            0x4 | 0x8 => self.change(true, 1),
            // A key and a value, or the two ends of a range that is deleted.
            0x1 | 0x2 | 0xf | 0x11 | 0x16 => self.change(false, 2),
            0x5 | 0x6 | 0xe | 0x10 | 0x17 => self.change(true, 2),
            0x3 => self.string().map(Item::Mark),
            0x9 => Some(Item::Section),
            // A no-op.
            0xd => Some(Item::Other),
            // The end of a prepared section, and its rollback, each with the XID.
            0xa => self.string().map(|xid| Item::Ending(Ending::Prepared(xid))),
            0xc => self.string().map(|xid| Item::Ending(Ending::Over(xid))),
            0xb => self.string().map(Item::CommitMarker),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::wal::replay::append_record;

    const PUT: &[u8] = b"\x05\x02\x03key\x05value";
    const DELETE: &[u8] = b"\x00\x03key";
    const COMMIT: &[u8] = b"\x0b\x02id";

    fn record(sequence: u64, items: &[&[u8]]) -> Vec<u8> {
        let mut record = sequence.to_le_bytes().to_vec();
        record.extend_from_slice(&[0; 4]);
        items.iter().for_each(|item| record.extend_from_slice(item));
        record
    }

    fn mark(bytes: &[u8]) -> Vec<u8> {
        [&[3, bytes.len() as u8], bytes].concat()
    }

    fn commits_of(wal: &[u8], step: usize) -> Result<Vec<Commit>> {
        let mut reader = CommitReader::new();
        let mut commits = Vec::new();
        for piece in wal.chunks(step) {
            commits.extend(reader.read(7, piece)?);
        }
        Ok(commits)
    }

    /// The bytes that commit_mark_test.cc expects of the writer.
    const FULL: &[u8] = b"\x13\x07\x06\x05\x04\x03\x02\x01\x01\xac\x02\x80\x01\x02\xe8\x07";

    #[test]
    fn the_commits_of_a_group_are_found_in_order_with_what_belongs_to_each() {
        let (full, bare) = (mark(FULL), mark(b"\x10\x01\0\0\0\0\0\0"));
        let big = [&b"\x01\x03key\x90\xa1\x0f"[..], &vec![b'x'; 250_000]].concat();
        let mut wal = Vec::new();
        append_record(&mut wal, &record(5, &[PUT, DELETE, &full, &big, &bare]));
        append_record(&mut wal, &record(9, &[b"\x09", PUT, b"\x0a\x02id"]));
        append_record(&mut wal, &record(9, &[&bare, COMMIT, PUT, &full]));
        let first = Commit {
            time_us: 0x0001_0203_0405_0607,
            gtid: Some(Gtid { domain: 1, server: 300, sequence: 128 }),
            binlog: Some(BinlogPosition { file: 2, offset: 1000 }),
            is_recovered: false,
            log: 7,
            sequence: 5,
            end: 12 + PUT.len() + DELETE.len() + full.len(),
            changes: 2,
        };
        let second = Commit {
            time_us: 1,
            gtid: None,
            binlog: None,
            end: first.end + big.len() + bare.len(),
            changes: 3,
            ..first
        };
        let prepared =
            Commit { sequence: 9, end: 12 + bare.len() + COMMIT.len(), changes: 0, ..second.clone() };
        let last =
            Commit { sequence: 9, end: prepared.end + PUT.len() + full.len(), changes: 1, ..first.clone() };
        let expected = [first, second, prepared, last];
        for step in [1, 1000, 1_000_000] {
            assert_eq!(commits_of(&wal, step).unwrap(), expected, "step {step}");
        }
        assert_eq!(expected[0].gtid.unwrap().to_string(), "1-300-128");
    }

    #[test]
    fn marks_and_entries_that_are_not_understood_are_refused() {
        let refused = |items: &[&[u8]]| {
            let mut wal = Vec::new();
            append_record(&mut wal, &record(5, items));
            matches!(commits_of(&wal, 1000), Err(StoreError::Corruption(text)) if text.contains("number 5 of WAL 7"))
        };
        assert!(!refused(&[&mark(FULL)]));
        let mut newer = FULL.to_vec();
        newer[0] = 0x23;
        assert!(refused(&[&mark(&newer)]), "another version");
        newer[0] = 0x1b;
        assert!(refused(&[&mark(&newer)]), "an unknown flag");
        assert!(refused(&[&mark(&FULL[..FULL.len() - 1])]), "cut");
        assert!(refused(&[&mark(&[FULL, &[0]].concat())]), "too long");
        assert!(refused(&[PUT, b"\x1f"]), "an unknown entry");
        assert!(refused(&[&PUT[..PUT.len() - 1]]), "an entry that is cut");
    }

    #[test]
    fn a_record_that_the_next_wal_leaves_open_is_dropped() {
        let mut wal = Vec::new();
        append_record(&mut wal, &record(5, &[PUT, &mark(FULL)]));
        let mut reader = CommitReader::new();
        assert_eq!(reader.read(7, &wal[..wal.len() - 1]).unwrap(), []);
        assert_eq!(reader.read(8, &wal).unwrap().len(), 1);
    }
}
