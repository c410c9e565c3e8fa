//! The position of a database in terms of replication (GTIDs and binary log), as a root records it.
//!
//! The engine reports each commit; the publisher puts the newest position into the next root. After a start,
//! the position is the base root's, brought up to date with the marks in the local WALs.

use crate::error::{Result, StoreError};
use crate::log::{Level, LogFn};
use crate::protocol::start::local::{wal_files, wal_path};
use crate::protocol::wal::marks::{BinlogPosition, Commit, CommitReader, Gtid};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// WALs are read in pieces of this size.
const PIECE_BYTES: usize = 1 << 20;
/// The bytes of the sequence number, the time, and the file and offset of the binary log.
const FIXED_BYTES: usize = 32;
const GTID_BYTES: usize = 16;

/// The newest commits at the time when a root was made. No commit in the root's table files is newer. Some of
/// these commits may be only in the log, which a restore of the root replays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Position {
    /// RocksDB's last sequence number.
    pub(crate) sequence: u64,
    /// When the newest commit was made, in microseconds since 1970; 0: there was no commit.
    pub(crate) time_us: u64,
    /// The last GTID of each domain.
    pub(crate) gtids: BTreeMap<u32, Gtid>,
    pub(crate) binlog: Option<BinlogPosition>,
}

impl Position {
    /// Returns the value of the root's field that holds the position.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let binlog = self.binlog.unwrap_or(BinlogPosition { file: 0, offset: 0 });
        let words = [self.sequence, self.time_us, binlog.file, binlog.offset];
        let mut bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
        for Gtid { domain, server, sequence } in self.gtids.values() {
            bytes.extend_from_slice(&domain.to_le_bytes());
            bytes.extend_from_slice(&server.to_le_bytes());
            bytes.extend_from_slice(&sequence.to_le_bytes());
        }
        bytes
    }

    /// Decodes what [`Self::encode`] wrote; None when bytes are missing or the domains are out of order.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (fixed, gtids) = bytes.split_at_checked(FIXED_BYTES)?;
        let mut words = fixed.chunks_exact(8).map(|word| word.try_into().map(u64::from_le_bytes).ok());
        let mut word = || words.next()?;
        let (sequence, time_us) = (word()?, word()?);
        let binlog = BinlogPosition { file: word()?, offset: word()? };
        let mut position = Self {
            sequence,
            time_us,
            gtids: BTreeMap::new(),
            binlog: (binlog.offset != 0).then_some(binlog),
        };
        for gtid in gtids.chunks(GTID_BYTES) {
            let (domain, rest) = gtid.split_first_chunk()?;
            let (server, rest) = rest.split_first_chunk()?;
            let sequence = u64::from_le_bytes(rest.try_into().ok()?);
            let (domain, server) = (u32::from_le_bytes(*domain), u32::from_le_bytes(*server));
            if position.gtids.last_key_value().is_some_and(|(last, _)| *last >= domain) {
                return None;
            }
            position.gtids.insert(domain, Gtid { domain, server, sequence });
        }
        Some(position)
    }

    /// The GTIDs as `@@gtid_binlog_pos` has them: the last of each domain, with commas between.
    pub(crate) fn gtid_text(&self) -> String {
        let gtids: Vec<String> = self.gtids.values().map(Gtid::to_string).collect();
        gtids.join(",")
    }
}

/// The newest commit that an owner had when it opened the database, as its roots record it. So a reader sees
/// whether the owner had commits that the log of the epoch before lacks (past.rs, PAST-5).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Opened {
    /// RocksDB's sequence number after that commit; 0: there was no commit.
    pub(crate) sequence: u64,
    /// When it was made, in microseconds since 1970.
    pub(crate) time_us: u64,
}

impl Opened {
    /// Returns the value of the root's field.
    pub(crate) fn encode(self) -> Vec<u8> {
        [self.sequence, self.time_us].into_iter().flat_map(u64::to_le_bytes).collect()
    }

    /// Decodes what [`Self::encode`] wrote. None: the length is another one.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (sequence, time_us) = bytes.split_first_chunk()?;
        let time_us = u64::from_le_bytes(time_us.try_into().ok()?);
        Some(Self { sequence: u64::from_le_bytes(*sequence), time_us })
    }
}

/// One commit, as the engine reports it to the store.
#[derive(Debug, Clone, Copy)]
pub struct NotedCommit {
    /// RocksDB's last sequence number after the commit.
    pub sequence: u64,
    /// Microseconds since 1970.
    pub time_us: u64,
    /// The GTID of the commit; None: it has none.
    pub gtid: Option<Gtid>,
    /// Where the binary log has the commit; None: no binary log has it.
    pub binlog: Option<BinlogPosition>,
}

impl From<&Commit> for NotedCommit {
    fn from(commit: &Commit) -> Self {
        let sequence = commit.sequence + u64::from(commit.changes);
        Self { sequence, time_us: commit.time_us, gtid: commit.gtid, binlog: commit.binlog }
    }
}

/// Follows the commits of a running database, to know its position.
#[derive(Debug, Default)]
pub(crate) struct Tracker {
    position: Position,
    opened: Opened,
    gtid_times: BTreeMap<u32, u64>,
    binlog_time: u64,
}

impl Tracker {
    /// A tracker that goes on from `position`.
    pub(crate) fn new(position: Position) -> Self {
        Self { position, ..Self::default() }
    }

    pub(crate) fn position(&self) -> &Position {
        &self.position
    }

    /// Notes that the database is opened in this position.
    pub(crate) fn set_opened(&mut self) {
        self.opened = Opened { sequence: self.position.sequence, time_us: self.position.time_us };
    }

    pub(crate) fn opened(&self) -> Opened {
        self.opened
    }

    /// Takes one commit. Commits of several connections may come slightly out of order. Of two commits the
    /// one with the later time counts, or, because the clock may have been set back, the one with the higher
    /// number. (The time is needed, too, because RESET MASTER makes the numbers begin anew.)
    pub(crate) fn note(&mut self, commit: &NotedCommit) {
        let position = &mut self.position;
        position.sequence = position.sequence.max(commit.sequence);
        position.time_us = position.time_us.max(commit.time_us);
        if let Some(gtid) = commit.gtid {
            let time = self.gtid_times.entry(gtid.domain).or_default();
            let last = position.gtids.entry(gtid.domain).or_insert(gtid);
            if commit.time_us >= *time || gtid.sequence > last.sequence {
                (*time, *last) = (commit.time_us, gtid);
            }
        }
        if let Some(binlog) = commit.binlog
            && (commit.time_us >= self.binlog_time || position.binlog < Some(binlog))
        {
            (self.binlog_time, position.binlog) = (commit.time_us, Some(binlog));
        }
    }

    /// Takes the commits in the WALs of `dir`, which RocksDB is about to replay. A record that cannot be
    /// understood is only logged: the position is for people and for the choice of a root, and the next
    /// commits correct it.
    pub(crate) fn note_wals(&mut self, dir: &Path, log: &LogFn) -> Result<()> {
        let mut reader = CommitReader::new();
        for (number, _) in wal_files(dir)? {
            let path = wal_path(dir, number);
            let mut file = File::open(&path).map_err(|e| StoreError::from_io("opening", &path, &e))?;
            let mut piece = vec![0; PIECE_BYTES];
            loop {
                let length = file.read(&mut piece).map_err(|e| StoreError::from_io("reading", &path, &e))?;
                if length == 0 {
                    break;
                }
                match reader.read(number, &piece[..length]) {
                    Ok(commits) => commits.iter().for_each(|commit| self.note(&commit.into())),
                    Err(error) => log(Level::Warning, &format!("looking for GTIDs in the log: {error}")),
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::silent;
    use crate::protocol::wal::replay::append_record;

    fn gtid(domain: u32, sequence: u64) -> Gtid {
        Gtid { domain, server: 7, sequence }
    }

    fn noted(time_us: u64, gtid: Gtid, offset: u64) -> NotedCommit {
        NotedCommit {
            sequence: time_us,
            time_us,
            gtid: Some(gtid),
            binlog: Some(BinlogPosition { file: 2, offset }),
        }
    }

    #[test]
    fn a_position_is_stored_and_damage_is_seen() {
        let mut tracker = Tracker::default();
        assert_eq!(Position::decode(&Position::default().encode()), Some(Position::default()));
        for commit in [noted(10, gtid(3, 5), 100), noted(11, gtid(0, 9), 200)] {
            tracker.note(&commit);
        }
        let position = tracker.position();
        assert_eq!(position.gtid_text(), "0-7-9,3-7-5");
        let bytes = position.encode();
        assert_eq!(Position::decode(&bytes).as_ref(), Some(position));
        for length in (0..bytes.len()).filter(|length| *length != 32 && *length != 48) {
            assert_eq!(Position::decode(&bytes[..length]), None, "{length} bytes");
        }
        let twice = [&bytes[..], &bytes[48..]].concat();
        assert_eq!(Position::decode(&twice), None, "a domain twice");
    }

    #[test]
    fn local_wals_tell_the_last_commits() {
        let dir = tempfile::tempdir().unwrap();
        for (number, marks) in [(7, vec![8, 9]), (12, vec![10])] {
            let mut wal = Vec::new();
            for mark in marks {
                // Sequence number 40, one change (a deleted key), a mark with GTID 1-2-mark and binary log
                // 3:mark.
                let content =
                    [&[40, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, b'k', 3, 13, 0x13, mark][..], &[0; 6]];
                append_record(&mut wal, &[content.concat(), vec![1, 2, mark, 3, mark]].concat());
            }
            std::fs::write(wal_path(dir.path(), number), wal).unwrap();
        }
        let mut tracker = Tracker::default();
        tracker.note_wals(dir.path(), &silent()).unwrap();
        let position = tracker.position();
        assert_eq!(position.gtid_text(), "1-2-10");
        assert_eq!(position.binlog, Some(BinlogPosition { file: 3, offset: 10 }));
        assert_eq!((position.sequence, position.time_us), (41, 10));
    }

    /// A GTID that the engine adds for a DDL statement comes later than its commits, with a time before all of them.
    #[test]
    fn a_gtid_with_an_old_time_counts_only_by_its_number() {
        let mut tracker = Tracker::default();
        tracker.note(&noted(1000, gtid(0, 13), 500));
        tracker.note(&noted(0, gtid(0, 12), 0));
        assert_eq!(tracker.position().gtid_text(), "0-7-13");
        tracker.note(&noted(0, gtid(0, 14), 0));
        assert_eq!(tracker.position().gtid_text(), "0-7-14");
        tracker.note(&noted(1001, gtid(0, 1), 0));
        assert_eq!(tracker.position().gtid_text(), "0-7-1", "RESET MASTER");
    }

    #[test]
    fn the_later_of_two_commits_counts_in_whatever_order_they_are_told() {
        let mut tracker = Tracker::default();
        tracker.note(&noted(20, gtid(0, 5), 500));
        tracker.note(&noted(19, gtid(0, 4), 400));
        assert_eq!(tracker.position().gtids[&0].sequence, 5);
        assert_eq!(tracker.position().binlog.unwrap().offset, 500);
        tracker.note(&noted(21, gtid(0, 1), 100));
        assert_eq!(tracker.position().gtids[&0].sequence, 1, "after RESET MASTER");
        assert_eq!(tracker.position().binlog.unwrap().offset, 100);
        tracker.note(&noted(3, gtid(0, 2), 200));
        assert_eq!(tracker.position().gtids[&0].sequence, 2, "the clock was set back");
        assert_eq!(tracker.position().binlog.unwrap().offset, 200);
        assert_eq!((tracker.position().sequence, tracker.position().time_us), (21, 21));
    }
}
