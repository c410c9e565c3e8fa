//! Undecided transactions: those that a log leaves in the middle of a two-phase commit of the server.
//!
//! No client has got an acknowledgement of them, so the code that copies the log appends their rollback. The
//! server that opens the copy cannot roll them back by itself. Its binary log may have their commit,
//! which is undone in the copy, and the server would commit them again. If the binary log does not have them,
//! the server does not even start. XA transactions of users stay prepared. A huge transaction has a small
//! one, which names its files. The small one stays prepared, too: when a server opens the copy, the engine
//! decides about it by what is in the database (huge-transactions.md).

use crate::error::Result;
use crate::protocol::wal::marks::{Ending, endings};
use crate::protocol::wal::replay::{WalReader, encode_record};
use std::collections::BTreeSet;

const FRAGMENT_HEADER_BYTES: u64 = 7;
/// An XID in the log: format (8 bytes), the lengths of its two parts, the parts. The server's own XIDs have
/// no second part, and their first part begins with SERVERS_OWN.
/// Source: MariaDB 10.11, sql/handler.h; the writer is engine/handler/session/transactions.cc.
const PARTS_AT: usize = 10;
const SERVERS_OWN: &[u8] = b"MySQLXid";
/// A rollback in the log: its type, then the XID.
const ROLLBACK: u8 = 0xc;

/// Reads a log and collects the XIDs of its undecided transactions.
#[derive(Debug, Default)]
pub(crate) struct Undecided {
    wal: WalReader,
    record: Vec<u8>,
    xids: BTreeSet<Vec<u8>>,
    /// WAL and offset of the end of the last whole record.
    end: (u64, u64),
    /// The highest sequence number of a record. RocksDB's next number may be higher by up to `changes`,
    /// because prepared changes are counted at their commit. Gaps are fine; numbers must not go back.
    sequence: u64,
    /// The number of changes in all records.
    changes: u64,
}

/// The bytes to write at byte `offset` of WAL `log`; they replace everything from that byte on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rollback {
    pub(crate) log: u64,
    pub(crate) offset: u64,
    pub(crate) bytes: Vec<u8>,
}

impl Undecided {
    /// Takes the next bytes of WAL `log`. Errors: `Corruption` for a whole record that is not understood.
    pub(crate) fn read(&mut self, log: u64, bytes: &[u8]) -> Result<()> {
        let (record, end, mut whole) = (&mut self.record, &mut self.end, Vec::new());
        self.wal.read(log, bytes, |part| {
            if part.begins_record {
                record.clear();
            }
            record.extend_from_slice(part.content);
            if part.ends_record {
                *end = (log, part.offset + FRAGMENT_HEADER_BYTES + part.content.len() as u64);
                whole.push(std::mem::take(record));
            }
        });
        for record in whole {
            let (sequence, changes, found) = endings(log, &record)?;
            self.sequence = self.sequence.max(sequence);
            self.changes += changes;
            for ending in found {
                match ending {
                    Ending::Prepared(xid) if is_servers_own(xid) => {
                        self.xids.insert(xid.to_vec());
                    }
                    Ending::Prepared(_) | Ending::PreparedHuge => {}
                    Ending::Over(xid) => {
                        self.xids.remove(xid);
                    }
                }
            }
        }
        Ok(())
    }

    /// WAL and offset of the end of the last whole record. A rollback replaces nothing that comes before it.
    pub(crate) fn end(&self) -> (u64, u64) {
        self.end
    }

    /// Returns the record that rolls the undecided transactions back, and where to append it to the log;
    /// None: there are none.
    pub(crate) fn rollback(&self) -> Option<Rollback> {
        if self.xids.is_empty() {
            return None;
        }
        let mut record = (self.sequence + self.changes).to_le_bytes().to_vec();
        record.extend_from_slice(&[0; 4]);
        for xid in &self.xids {
            record.extend_from_slice(&[ROLLBACK, u8::try_from(xid.len()).unwrap_or(0)]);
            record.extend_from_slice(xid);
        }
        let (log, offset) = self.end;
        Some(Rollback { log, offset, bytes: encode_record(offset, &record) })
    }
}

/// Whether the server itself made `xid`, and it is shorter than 128 bytes, so that its length takes one byte
/// in the log.
fn is_servers_own(xid: &[u8]) -> bool {
    let parts = xid.get(PARTS_AT..).unwrap_or_default();
    xid.len() < 128 && xid.get(PARTS_AT - 1) == Some(&0) && parts.starts_with(SERVERS_OWN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUT: &[u8] = b"\x05\x02\x03key\x05value";
    const REMOVED_MARKER: &[u8] = b"\x00\x09spilled/7";

    fn xid(text: &[u8]) -> Vec<u8> {
        [&[1, 0, 0, 0, 0, 0, 0, 0, text.len() as u8, 0], text].concat()
    }

    fn item(kind: u8, xid: &[u8]) -> Vec<u8> {
        [&[kind, xid.len() as u8], xid].concat()
    }

    fn prepared(xid: &[u8], change: &[u8]) -> Vec<u8> {
        [&[0x9], change, &item(0xa, xid)].concat()
    }

    fn log_of(records: &[Vec<u8>]) -> Vec<u8> {
        let mut log = Vec::new();
        for (number, items) in records.iter().enumerate() {
            let header = [&(number as u64 + 1).to_le_bytes()[..], &[1, 0, 0, 0]].concat();
            log.extend(encode_record(log.len() as u64, &[header, items.clone()].concat()));
        }
        log
    }

    #[test]
    fn only_the_servers_own_transactions_that_are_in_the_middle_are_rolled_back() {
        let (open, done, undone) = (xid(b"MySQLXid1"), xid(b"MySQLXid2"), xid(b"MySQLXid3"));
        let (users, huge) = (xid(b"users"), xid(b"MySQLXid4"));
        let mut log = log_of(&[
            [prepared(&open, PUT), prepared(&done, PUT)].concat(),
            prepared(&undone, PUT),
            prepared(&users, PUT),
            prepared(&huge, REMOVED_MARKER),
            [item(0xb, &done), item(0xc, &undone)].concat(),
        ]);
        let end = log.len() as u64;
        log.extend_from_slice(&[0; 50]);
        for step in [1, 20, 1000] {
            let mut undecided = Undecided::default();
            log.chunks(step).for_each(|bytes| undecided.read(7, bytes).unwrap());
            let rollback = undecided.rollback().unwrap();
            assert_eq!((undecided.sequence, undecided.changes), (5, 5), "a number for each change");
            assert_eq!((rollback.log, rollback.offset), (7, end), "in front of zeros, pieces of {step}");
            let mut again = Undecided::default();
            again.read(7, &log[..end as usize]).unwrap();
            assert!(again.rollback().is_some());
            again.read(7, &rollback.bytes).unwrap();
            assert_eq!(again.rollback(), None, "all are over");
        }
        let mut none = Undecided::default();
        none.read(7, &log_of(&[prepared(&users, PUT), PUT.to_vec()])).unwrap();
        assert_eq!(none.rollback(), None);
    }

    /// A row may contain the bytes of a marker's key, and a record may have a huge transaction beside others.
    #[test]
    fn only_the_transaction_that_removes_a_marker_goes_with_a_huge_one() {
        let (huge, others) = (xid(b"MySQLXid1"), [xid(b"MySQLXid2"), xid(b"MySQLXid3")]);
        let record = [
            prepared(&others[0], b"\x05\x02\x03key\x09spilled/7"),
            prepared(&huge, REMOVED_MARKER),
            prepared(&others[1], b"\x04\x02\x09spilled/7"),
        ];
        let mut undecided = Undecided::default();
        undecided.read(7, &log_of(&[record.concat()])).unwrap();
        assert_eq!(undecided.xids, BTreeSet::from(others));
    }
}
