//! RocksDB's WAL as a stream of records, and how far RocksDB must replay it: to the last record of the
//! bucket's WAL, which is known by the sequence number at which it starts.
//!
//! A WAL is made of blocks of 32 KiB. A block holds fragments: checksum (4 bytes, masked CRC-32C of the rest
//! without the length), length (2), type (1), content; fewer than seven bytes at its end are unused. The
//! first fragment of a record begins with the sequence number of its first change (8 bytes, little-endian).
//! Zeros stand where nothing was written. Source: RocksDB 11.8.1, db/log_format.h, db/log_reader.cc,
//! db/write_batch.cc.

use crate::crc::crc32c;
use std::path::Path;

const BLOCK_BYTES: u64 = 32 << 10;
const HEADER_BYTES: usize = 7;
const CHECKSUM_MASK: u32 = 0xa282_ead8;

/// Splits WALs into fragments. Reads the WALs in the order of the stream, in pieces of any size.
#[derive(Debug, Default)]
pub(crate) struct WalReader {
    log: u64,
    /// The offset of `rest` in the WAL.
    position: u64,
    /// Bytes that are no whole fragment yet.
    rest: Vec<u8>,
    /// True: a fragment was damaged. Then the rest of this WAL is ignored, as RocksDB ignores it.
    is_damaged: bool,
}

/// One fragment of a record.
pub(crate) struct Part<'a> {
    pub(crate) begins_record: bool,
    pub(crate) ends_record: bool,
    /// The offset of the fragment in its WAL.
    pub(crate) offset: u64,
    pub(crate) content: &'a [u8],
}

/// What was found at the beginning of the bytes that are left.
enum Fragment<'a> {
    /// A fragment of that many bytes, or unused bytes at the end of a block. None: they belong to no record.
    Whole(usize, Option<Part<'a>>),
    /// The bytes end in the middle of a fragment: more bytes are needed.
    Partial,
    Damaged,
}

impl WalReader {
    /// Takes the next bytes of WAL `log`, and calls `each` with every fragment of a record that is complete
    /// now.
    pub(crate) fn read(&mut self, log: u64, bytes: &[u8], mut each: impl FnMut(&Part<'_>)) {
        if log != self.log {
            *self = Self { log, ..Self::default() };
        }
        if self.is_damaged {
            return;
        }
        self.rest.extend_from_slice(bytes);
        let mut used = 0;
        loop {
            match fragment(&self.rest[used..], self.position + used as u64) {
                Fragment::Whole(length, part) => {
                    used += length;
                    if let Some(part) = part {
                        each(&part);
                    }
                }
                Fragment::Partial => break,
                Fragment::Damaged => {
                    self.is_damaged = true;
                    break;
                }
            }
        }
        self.rest.drain(..used);
        self.position += used as u64;
    }
}

/// Reads WALs and finds the sequence number at which their last record starts.
#[derive(Debug, Default)]
pub(crate) struct ReplayEnd {
    wal: WalReader,
    last_start: Option<u64>,
}

impl ReplayEnd {
    /// Takes the next bytes of WAL `log`.
    pub(crate) fn read(&mut self, log: u64, bytes: &[u8]) {
        self.wal.read(log, bytes, |part| {
            if let Some(sequence) = part.content.first_chunk().filter(|_| part.begins_record) {
                self.last_start = Some(u64::from_le_bytes(*sequence));
            }
        });
    }

    /// The sequence number at which the last record starts; None without any. RocksDB has replayed everything
    /// before that record when RocksDB's own last sequence number is at least this number minus one.
    pub(crate) fn last_start(&self) -> Option<u64> {
        self.last_start
    }
}

/// The fragment at byte `position` of a WAL.
fn fragment(bytes: &[u8], position: u64) -> Fragment<'_> {
    let block_left = (BLOCK_BYTES - position % BLOCK_BYTES) as usize;
    let skip_block =
        || if bytes.len() < block_left { Fragment::Partial } else { Fragment::Whole(block_left, None) };
    if block_left < HEADER_BYTES {
        return skip_block();
    }
    let Some((header, content)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return Fragment::Partial;
    };
    let [c0, c1, c2, c3, l0, l1, kind] = *header;
    let length = usize::from(u16::from_le_bytes([l0, l1]));
    if kind == 0 && length == 0 {
        return skip_block();
    }
    let end = HEADER_BYTES + length;
    if end > block_left {
        return Fragment::Damaged;
    }
    let Some(content) = content.get(..length) else { return Fragment::Partial };
    let part =
        |begins_record, ends_record| Some(Part { begins_record, ends_record, offset: position, content });
    let part = match kind {
        1 => part(true, true),
        2 => part(true, false),
        3 => part(false, false),
        4 => part(false, true),
        // Fragments in which RocksDB describes the WAL itself.
        9 | 10 | 130 => None,
        _ => return Fragment::Damaged,
    };
    if u32::from_le_bytes([c0, c1, c2, c3]) != masked(crc32c(&bytes[HEADER_BYTES - 1..end])) {
        return Fragment::Damaged;
    }
    Fragment::Whole(end, part)
}

/// Masks a checksum as RocksDB does before it stores it, because a CRC of bytes that contain their CRC is
/// weak.
pub(crate) fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(CHECKSUM_MASK)
}

/// The message to log when RocksDB opened the database in `dir` without replaying the record that starts at
/// `start`.
pub(crate) fn short_replay(dir: &Path, last_sequence: u64, start: u64) -> String {
    format!(
        "the database in {} was opened at change {last_sequence}, but the log in the bucket goes on to change {start}: the \
         replay ended early, and later commits are missing. Their log stays in the bucket until the next start. Stop this \
         server, keep copies of the bucket and of that directory, and report this",
        dir.display()
    )
}

/// A WAL of records with these sequence numbers and sizes, as RocksDB writes it.
#[cfg(test)]
pub(crate) fn wal_of(records: &[(u64, usize)]) -> Vec<u8> {
    let mut wal = Vec::new();
    for (sequence, size) in records {
        let mut content = sequence.to_le_bytes().to_vec();
        content.resize(*size, 0xab);
        append_record(&mut wal, &content);
    }
    wal
}

/// Adds a record to a WAL.
#[cfg(test)]
pub(crate) fn append_record(wal: &mut Vec<u8>, content: &[u8]) {
    wal.extend(encode_record(wal.len() as u64, content));
}

/// The bytes of the record `content` at byte `offset` of a WAL.
pub(crate) fn encode_record(offset: u64, content: &[u8]) -> Vec<u8> {
    let mut wal = Vec::new();
    let (mut left, mut is_first) = (content, true);
    while is_first || !left.is_empty() {
        let block_left = (BLOCK_BYTES - (offset + wal.len() as u64) % BLOCK_BYTES) as usize;
        if block_left < HEADER_BYTES {
            wal.resize(wal.len() + block_left, 0);
            continue;
        }
        let (part, rest) = left.split_at(left.len().min(block_left - HEADER_BYTES));
        let kind = match (is_first, rest.is_empty()) {
            (true, true) => 1,
            (true, false) => 2,
            (false, false) => 3,
            (false, true) => 4,
        };
        let checked = [&[kind], part].concat();
        wal.extend_from_slice(&masked(crc32c(&checked)).to_le_bytes());
        wal.extend_from_slice(&(part.len() as u16).to_le_bytes());
        wal.extend_from_slice(&checked);
        (left, is_first) = (rest, false);
    }
    wal
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads `wal` in pieces of `step` bytes.
    fn last_of(wal: &[u8], step: usize) -> Option<u64> {
        let mut end = ReplayEnd::default();
        wal.chunks(step).for_each(|piece| end.read(7, piece));
        end.last_start()
    }

    #[test]
    fn the_last_record_is_found_whatever_the_pieces_are() {
        let wal = wal_of(&[(5, 100), (6, 32_000), (9, 655), (10, 100_000), (2000, 12)]);
        for step in [1, 7, 100, 32_768, 1_000_000] {
            assert_eq!(last_of(&wal, step), Some(2000), "step {step}");
        }
        assert_eq!(last_of(&[], 1), None);
    }

    /// The fragment of a record that RocksDB 11.8.1 wrote: a PUT of an empty row by a server.
    #[test]
    fn a_record_of_rocksdb_is_understood() {
        let wal = b"\x65\xe8\x04\x46\x23\x00\x01\x03\0\0\0\0\0\0\0\x01\0\0\0\x05\x02\x0a\0\0\0\x01\0\x01\
                    \x80\0\0\0\x09\0\x01\0\0\0\0\0\0\0";
        assert_eq!(last_of(wal, wal.len()), Some(3));
    }

    #[test]
    fn every_end_of_a_wal_gives_the_last_record_that_begins_before_it() {
        let wal = wal_of(&[(5, 100), (6, 200)]);
        for length in 0..=wal.len() {
            let expected = if length < 107 {
                None
            } else if length < wal.len() {
                Some(5)
            } else {
                Some(6)
            };
            assert_eq!(last_of(&wal[..length], 64), expected, "{length} bytes");
        }
    }

    #[test]
    fn zeros_are_skipped_and_damage_ends_the_wal() {
        let mut wal = wal_of(&[(5, 100)]);
        wal.resize(BLOCK_BYTES as usize, 0);
        wal.extend(wal_of(&[(6, 100), (7, 100)]));
        assert_eq!(last_of(&wal, 1000), Some(7));
        let in_last = wal.len() - 50;
        for bit in 0..8 {
            let mut damaged = wal.clone();
            damaged[in_last] ^= 1 << bit;
            assert_eq!(last_of(&damaged, 1000), Some(6));
        }
    }

    #[test]
    fn a_later_wal_goes_on() {
        let mut end = ReplayEnd::default();
        end.read(7, &wal_of(&[(5, 100)])[..50]);
        end.read(9, &wal_of(&[(6, 100)]));
        assert_eq!(end.last_start(), Some(6));
        end.read(10, b"no record at all");
        assert_eq!(end.last_start(), Some(6));
    }
}
