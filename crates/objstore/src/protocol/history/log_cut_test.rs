//! Goal:   a log that is cut at a moment has exactly the commits up to the moment, also when one record holds
//!         a group of commits, and the XA transactions that are prepared by then.
//! Method: logs written as RocksDB does, in chunks of any size; the cut log is read again.

use super::*;
use crate::protocol::wal::marks::{CommitReader, Gtid};

const PUT: &[u8] = b"\x05\x02\x03key\x05value";
const BEGIN: &[u8] = b"\x09";
const END: &[u8] = b"\x0a\x02id";
const COMMIT: &[u8] = b"\x0b\x02id";
const LOG: u64 = 7;

fn mark(time: u64) -> Vec<u8> {
    let time = u8::try_from(time).unwrap();
    [&[3, 11, 0x11, time, 0, 0, 0, 0, 0, 0][..], &[0, 1, time]].concat()
}

fn gtid(sequence: u64) -> Gtid {
    Gtid { domain: 0, server: 1, sequence }
}

fn record(sequence: u64, count: u32, items: &[&[u8]]) -> Vec<u8> {
    [&sequence.to_le_bytes()[..], &count.to_le_bytes(), &items.concat()].concat()
}

/// Returns a log with these commits, named by their times: 10; 20, 21 and 22 in one record; 30, which commits
/// an XA transaction that an earlier record has prepared; 31 in the same record as 30; 40 with a row that is
/// larger than a block.
fn log() -> Vec<u8> {
    let large = [&b"\x01\x03key\x90\xa1\x0f"[..], &vec![b'x'; 250_000]].concat();
    let mut log = Vec::new();
    for content in [
        record(1, 1, &[PUT, &mark(10)]),
        record(2, 4, &[PUT, &mark(20), PUT, PUT, &mark(21), PUT, &mark(22)]),
        record(6, 1, &[BEGIN, PUT, END]),
        record(7, 1, &[&mark(30), COMMIT, PUT, &mark(31)]),
        record(8, 1, &[&large, &mark(40)]),
    ] {
        log.extend(encode_record(log.len() as u64, &content));
    }
    log
}

/// Reads the log in chunks of `step` bytes and cuts it at `until`. Returns the cutter, and the bytes of the
/// cut log.
fn cut(until: Until, step: usize) -> (Cutter, Vec<u8>) {
    let (log, mut kept) = (log(), Vec::new());
    let mut cutter = Cutter::new(until, Tracker::default());
    for (number, bytes) in log.chunks(step).enumerate() {
        let (chunk, offset) = (number as u64, (number * step) as u64);
        let (bytes, ddl_seq) = (bytes.to_vec(), 1 + chunk / 2);
        let chunk = WalChunk { epoch: 1, chunk, log: LOG, offset, ddl_seq, previous_crc32c: 0, bytes };
        if cutter.read(&chunk).unwrap().is_break() {
            break;
        }
    }
    match &cutter.cut {
        Some(cut) => {
            kept.extend_from_slice(&log[..cut.keeps(LOG, 0, log.len())]);
            kept.extend(cut.tail());
        }
        None => kept = log,
    }
    (cutter, kept)
}

/// Returns the times of the commits in `log`, whose records must be complete.
fn times(log: &[u8]) -> Vec<u64> {
    CommitReader::new().read(LOG, log).unwrap().iter().map(|commit| commit.time_us).collect()
}

#[test]
fn a_log_is_cut_behind_the_last_commit_that_is_not_later() {
    let all = [10, 20, 21, 22, 30, 31, 40];
    for step in [1, 50, 1000, 1_000_000] {
        for time in 0..50 {
            let (cutter, kept) = cut(Until::Time(time), step);
            let expected: Vec<u64> = all.into_iter().filter(|commit| *commit <= time).collect();
            assert_eq!(times(&kept), expected, "until {time}, chunks of {step}");
            assert_eq!(cutter.last.map(|commit| commit.time_us), expected.last().copied());
            assert_eq!(cutter.next.map(|commit| commit.time_us), all.get(expected.len()).copied());
            assert_eq!(cutter.commits.position().time_us, expected.last().copied().unwrap_or(0));
        }
        for time in all {
            let (cutter, kept) = cut(Until::Gtid(gtid(time)), step);
            assert_eq!(times(&kept).last(), Some(&time), "chunks of {step}");
            assert_eq!(cutter.commits.position().gtids[&0], gtid(time));
        }
        assert!(cut(Until::Gtid(gtid(23)), step).0.cut.is_none());
    }
}

#[test]
fn what_was_prepared_before_the_moment_stays_and_its_commit_does_not() {
    let has = |log: &[u8], item: &[u8]| log.windows(item.len()).any(|bytes| bytes == item);
    let (_, before) = cut(Until::Time(21), 100);
    assert!(!has(&before, END), "prepared behind 22");
    let (_, prepared) = cut(Until::Time(22), 100);
    assert!(has(&prepared, END) && !has(&prepared, COMMIT));
    let (_, committed) = cut(Until::Time(30), 100);
    assert!(has(&committed, COMMIT) && times(&committed) == [10, 20, 21, 22, 30]);
}

#[test]
fn a_shortened_record_says_how_many_changes_it_has() {
    for (time, changes) in [(20, 1), (21, 3)] {
        let (cutter, _) = cut(Until::Time(time), 1000);
        let last = cutter.cut.unwrap().last;
        assert_eq!(last[..COUNT_AT], 2_u64.to_le_bytes());
        assert_eq!(last[COUNT_AT..COUNT_AT + 4], u32::to_le_bytes(changes), "until {time}");
    }
}

#[test]
fn what_is_left_out_does_not_count_for_the_ddl_number() {
    // The chunks have 50 bytes and the DDL numbers 1, 1, 2, 2 and so on. So the first record is in a chunk
    // with number 1, and the later records end in chunks with higher numbers. If the log is cut before these
    // records, their DDL numbers must not count.
    let (whole, _) = cut(Until::Time(40), 50);
    let (start, _) = cut(Until::Time(5), 50);
    assert_eq!(start.ddl_seq, 0, "nothing is kept");
    let (first, _) = cut(Until::Time(10), 50);
    assert!(first.ddl_seq >= 1 && first.ddl_seq < whole.ddl_seq);
}
