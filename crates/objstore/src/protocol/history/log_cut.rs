//! Finds where a log must end so that a restore brings back only the commits up to one moment.
//!
//! RocksDB writes a group of commits as one record. So the record that contains the first unwanted commit is
//! written anew, with only the commits in front of that one. Everything in front of that record is kept, also
//! parts of the log that belong to no commit yet, such as a prepared XA transaction.

use crate::error::Result;
use crate::protocol::format::records::WalChunk;
use crate::protocol::wal::marks::{Commit, read_record};
use crate::protocol::wal::position::{NotedCommit, Tracker};
use crate::protocol::wal::replay::{WalReader, encode_record};
use std::ops::ControlFlow;

/// Where a record has the number of its changes: behind the sequence number of the first change.
const COUNT_AT: usize = 8;

/// The last commit that the cut log is to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// The commit in front of the first one that is later than this time, in microseconds since 1970.
    ///
    /// Every commit that was acknowledged before this time is kept, because the time of a commit is taken
    /// before the commit is written.
    Time(u64),
    /// The commit with this GTID.
    Gtid(crate::protocol::wal::marks::Gtid),
}

/// Where a log is cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cut {
    /// The chunk with the beginning of the first record that is not kept whole.
    pub(crate) chunk: u64,
    /// The WAL of that record, and the record's offset in it: everything in front of the record is kept.
    pub(crate) log: u64,
    pub(crate) offset: u64,
    /// The shortened record that takes its place; empty: nothing takes its place.
    last: Vec<u8>,
}

impl Cut {
    /// How many of the `length` bytes that begin at `offset` of WAL `log` are kept.
    pub(crate) fn keeps(&self, log: u64, offset: u64, length: usize) -> usize {
        match log.cmp(&self.log) {
            std::cmp::Ordering::Less => length,
            std::cmp::Ordering::Greater => 0,
            std::cmp::Ordering::Equal => (self.offset.saturating_sub(offset) as usize).min(length),
        }
    }

    /// The bytes that follow the kept ones in that WAL: the shortened record, if there is one.
    pub(crate) fn tail(&self) -> Vec<u8> {
        if self.last.is_empty() { Vec::new() } else { encode_record(self.offset, &self.last) }
    }
}

/// Reads a log up to the place where it is to be cut.
pub(crate) struct Cutter {
    until: Until,
    wal: WalReader,
    record: Record,
    /// The position of all commits kept so far.
    pub(crate) commits: Tracker,
    /// The last commit that is kept, and the first that is not.
    pub(crate) last: Option<Commit>,
    pub(crate) next: Option<Commit>,
    /// The largest DDL number of the kept part of the log.
    pub(crate) ddl_seq: u64,
    pub(crate) cut: Option<Cut>,
}

/// The record that is being read.
#[derive(Default)]
struct Record {
    bytes: Vec<u8>,
    chunk: u64,
    offset: u64,
    /// The largest DDL number of the log in front of the record.
    ddl_before: u64,
}

impl Cutter {
    /// `commits`: the position of the commits that the table files have, so that the log need not contain
    /// them.
    pub(crate) fn new(until: Until, commits: Tracker) -> Self {
        let (wal, record) = Default::default();
        Self { until, wal, record, commits, last: None, next: None, ddl_seq: 0, cut: None }
    }

    /// Reads the next chunk. Break: the place of the cut is found.
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
    /// ends in this record, behind the returned commit, or in front of the whole record if no commit is
    /// returned.
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
