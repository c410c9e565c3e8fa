//! Finds where a log must end so that a restore brings back only the commits up to one moment.
//!
//! RocksDB writes a group of commits as one record. So the record that contains the first unwanted commit is
//! written anew, with only the earlier commits of the group. All earlier records are kept, also those that
//! belong to no commit yet, such as a prepared XA transaction.

use crate::error::Result;
use crate::protocol::format::records::WalChunk;
use crate::protocol::wal::marks::{Commit, read_record};
use crate::protocol::wal::position::{NotedCommit, Tracker};
use crate::protocol::wal::replay::{WalReader, encode_record};
use std::ops::ControlFlow;

/// The offset at which a record stores the number of its changes. The sequence number of the first change, 8
/// bytes, comes before it.
const COUNT_AT: usize = 8;

/// Which commit is to be the last one in the cut log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// The last commit before the first one that is later than this time, in microseconds since 1970.
    ///
    /// Every commit that was acknowledged before this time is kept, because the time of a commit is taken
    /// before the commit is written.
    Time(u64),
    /// The commit with this GTID.
    Gtid(crate::protocol::wal::marks::Gtid),
}

/// Where a log is to end, and what takes the place of the record in which it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cut {
    /// The number of the chunk in which the first record begins that is not kept whole.
    pub(crate) chunk: u64,
    /// The WAL of that record, and the record's offset in this WAL. All earlier bytes of the log are kept.
    pub(crate) log: u64,
    pub(crate) offset: u64,
    /// The shortened record that takes its place; empty: nothing takes its place.
    last: Vec<u8>,
}

impl Cut {
    /// Returns how many of the `length` bytes that begin at `offset` of WAL `log` are kept.
    pub(crate) fn keeps(&self, log: u64, offset: u64, length: usize) -> usize {
        match log.cmp(&self.log) {
            std::cmp::Ordering::Less => length,
            std::cmp::Ordering::Greater => 0,
            std::cmp::Ordering::Equal => (self.offset.saturating_sub(offset) as usize).min(length),
        }
    }

    /// Returns the bytes that are to follow the kept ones: the shortened record, as RocksDB writes it. Empty:
    /// no record follows.
    pub(crate) fn tail(&self) -> Vec<u8> {
        if self.last.is_empty() { Vec::new() } else { encode_record(self.offset, &self.last) }
    }
}

/// Reads a log, chunk by chunk, until it has found where the log must end.
pub(crate) struct Cutter {
    until: Until,
    wal: WalReader,
    record: Record,
    /// The newest commits that are kept so far.
    pub(crate) commits: Tracker,
    /// The last commit that is kept, and the first that is not. None: no such commit was read yet.
    pub(crate) last: Option<Commit>,
    pub(crate) next: Option<Commit>,
    /// The largest DDL number of the kept part of the log.
    pub(crate) ddl_seq: u64,
    pub(crate) cut: Option<Cut>,
}

/// A record whose beginning was read. Its end may be in a later chunk.
#[derive(Default)]
struct Record {
    bytes: Vec<u8>,
    chunk: u64,
    offset: u64,
    /// The largest DDL number of the log before the record.
    ddl_before: u64,
}

impl Cutter {
    /// Makes a reader of a log. `commits`: the newest commits that were made before. The log need not contain
    /// them, because the table files have them.
    pub(crate) fn new(until: Until, commits: Tracker) -> Self {
        let (wal, record) = Default::default();
        Self { until, wal, record, commits, last: None, next: None, ddl_seq: 0, cut: None }
    }

    /// Reads the next chunk. Break: `cut` is set now, so the caller need not read on.
    pub(crate) fn read(&mut self, chunk: &WalChunk) -> Result<ControlFlow<()>> {
        let mut records = Vec::new();
        let (record, before) = (&mut self.record, self.ddl_seq);
        self.wal.read(chunk.log, &chunk.bytes, |part| {
            if part.begins_record {
                let ddl_before = if part.offset == chunk.offset { before } else { before.max(chunk.ddl_seq) };
                *record = Record { bytes: Vec::new(), chunk: chunk.chunk, offset: part.offset, ddl_before };
            }
            record.bytes.extend_from_slice(part.content);
            if part.ends_record {
                records.push(std::mem::take(record));
            }
        });
        for record in records {
            let mut commits = Vec::new();
            read_record(chunk.log, &record.bytes, &mut commits)?;
            if let Some(kept) = self.take(&commits) {
                let (offset, at) = (record.offset, record.chunk);
                let last = kept.map_or_else(Vec::new, |commit| shortened(&record.bytes, &commit));
                self.ddl_seq = if last.is_empty() { record.ddl_before } else { chunk.ddl_seq };
                self.cut = Some(Cut { chunk: at, log: chunk.log, offset, last });
                return Ok(ControlFlow::Break(()));
            }
        }
        self.ddl_seq = self.ddl_seq.max(chunk.ddl_seq);
        Ok(ControlFlow::Continue(()))
    }

    /// Reads the commits of one record. None: the record is kept whole, and the log goes on. Some: the log
    /// ends in this record, after the returned commit, or before the whole record if no commit is returned.
    fn take(&mut self, commits: &[Commit]) -> Option<Option<Commit>> {
        let mut kept = None;
        for commit in commits {
            if matches!(self.until, Until::Time(time_us) if commit.time_us > time_us) {
                self.next = Some(commit.clone());
                return Some(kept);
            }
            self.commits.note(&NotedCommit::from(commit));
            self.last = Some(commit.clone());
            kept = Some(commit.clone());
            if matches!(self.until, Until::Gtid(gtid) if commit.gtid == Some(gtid)) {
                return Some(kept);
            }
        }
        None
    }
}

/// Returns the record up to the end of `commit`, with the right number of changes.
fn shortened(record: &[u8], commit: &Commit) -> Vec<u8> {
    let mut kept = record[..commit.end].to_vec();
    kept[COUNT_AT..COUNT_AT + 4].copy_from_slice(&commit.changes.to_le_bytes());
    kept
}

#[cfg(test)]
#[path = "log_cut_test.rs"]
mod tests;
