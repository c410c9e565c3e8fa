//! Reads the log of a state as a copy of the state has it: small chunks are joined, the log ends with the
//! state, and transactions of the server that are in the middle of a two-phase commit at its end are rolled
//! back (undecided.rs).
//!
//! A state can need hundreds of megabytes of log. So the log is read in steps, and the reader keeps in memory
//! only what a rollback can still replace.

use crate::error::Result;
use crate::protocol::format::image::{self, WalkEnd};
use crate::protocol::format::records::{Root, WalChunk};
use crate::protocol::history::snapshot::Moment;
use crate::protocol::wal::undecided::{Rollback, Undecided};
use crate::requests::bucket::Bucket;
use std::ops::ControlFlow;

/// How much of the log is read and written at a time.
#[derive(Debug, Clone, Copy)]
pub(in crate::protocol) struct Sizes {
    /// One step reads chunks until they have this many bytes.
    pub(in crate::protocol) step_bytes: usize,
    /// Chunks are joined up to this many bytes.
    pub(in crate::protocol) piece_bytes: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        Self { step_bytes: 32 << 20, piece_bytes: 4 << 20 }
    }
}

/// Reads the log of a moment. Besides this log, a reader of the state needs only the table files and the
/// MANIFEST.
pub(in crate::protocol) struct LogReader<'a> {
    from: &'a Bucket,
    moment: &'a Moment,
    log: LogCopy,
    undecided: Undecided,
    /// The first chunk in the bucket that was not read yet.
    next: u64,
    is_complete: bool,
    step_bytes: usize,
}

impl<'a> LogReader<'a> {
    /// The chunks that the reader returns are numbered from 0 on, and belong to `epoch`.
    pub(in crate::protocol) fn new(from: &'a Bucket, epoch: u64, moment: &'a Moment) -> Self {
        Self::with_sizes(from, epoch, moment, Sizes::default())
    }

    pub(in crate::protocol) fn with_sizes(
        from: &'a Bucket,
        epoch: u64,
        moment: &'a Moment,
        sizes: Sizes,
    ) -> Self {
        Self {
            from,
            moment,
            log: LogCopy { epoch, piece_bytes: sizes.piece_bytes, taken: 0, chunks: Vec::new() },
            undecided: Undecided::default(),
            next: moment.image.root.wal_first_chunk,
            is_complete: false,
            step_bytes: sizes.step_bytes,
        }
    }

    /// Returns the next chunks, without the checksums of the chunks before them. None: there are no more.
    ///
    /// Errors: as [`image::read_wal`]. Requests: over all calls, one GET per merged object or chunk; a
    /// step repeats those that it had begun to read ahead.
    pub(in crate::protocol) async fn next(&mut self) -> Result<Option<Vec<WalChunk>>> {
        while !self.is_complete {
            self.read_step().await?;
            let settled = self.log.take_before(self.settled());
            if !settled.is_empty() {
                return Ok(Some(settled));
            }
        }
        let last = std::mem::take(&mut self.log.chunks);
        Ok((!last.is_empty()).then_some(last))
    }

    /// WAL and offset from which on a rollback can replace the log.
    fn settled(&self) -> (u64, u64) {
        self.undecided.end().max((self.moment.image.root.wal_min, 0))
    }

    /// Reads about `step_bytes` of the log, or what is left of it.
    async fn read_step(&mut self) -> Result<()> {
        let Self { from, moment, log, undecided, next, step_bytes, .. } = self;
        let (mut read, first) = (0, *next);
        // The chunk before the first one is read again, to check that the first one continues it.
        let repeated = first.saturating_sub(1).max(moment.image.root.wal_first_chunk);
        let root = Root { wal_first_chunk: repeated, ..moment.image.root.clone() };
        let mut add = |chunk: WalChunk| {
            if chunk.log >= root.wal_min {
                undecided.read(chunk.log, &chunk.bytes)?;
            }
            log.add(chunk);
            Ok(())
        };
        let (end, why) = image::walk_wal(from, &root, Some(moment.wal_end), root.ddl_seq, |chunk| {
            if chunk.chunk < first {
                return Ok(ControlFlow::Continue(()));
            }
            if read >= *step_bytes {
                return Ok(ControlFlow::Break(()));
            }
            read += chunk.bytes.len();
            let kept = moment
                .cut
                .as_ref()
                .map_or(chunk.bytes.len(), |cut| cut.keeps(chunk.log, chunk.offset, chunk.bytes.len()));
            add(WalChunk { bytes: chunk.bytes[..kept].to_vec(), ..*chunk }).map(ControlFlow::Continue)
        })
        .await?;
        *next = end.max(first);
        if why == WalkEnd::Stopped {
            return Ok(());
        }
        image::check_wal_end(&root, end, Some(moment.wal_end))?;
        if let Some(cut) = &moment.cut {
            add(piece(&root, cut.log, cut.offset, cut.tail()))?;
        }
        self.is_complete = true;
        if let Some(Rollback { log, offset, bytes }) = self.undecided.rollback() {
            self.log.cut(log, offset);
            self.log.add(piece(&root, log, offset, bytes));
        }
        Ok(())
    }
}

/// Makes a chunk; its log copy sets the epoch and the number.
fn piece(root: &Root, log: u64, offset: u64, bytes: Vec<u8>) -> WalChunk {
    WalChunk { epoch: 0, chunk: 0, log, offset, ddl_seq: root.ddl_seq, previous_crc32c: 0, bytes }
}

/// The part of a copied log that is in memory. Small chunks of the source are joined into few chunks.
struct LogCopy {
    epoch: u64,
    piece_bytes: usize,
    /// How many chunks were taken. The others are in `chunks`.
    taken: u64,
    chunks: Vec<WalChunk>,
}

impl LogCopy {
    fn add(&mut self, chunk: WalChunk) {
        if chunk.bytes.is_empty() {
            return;
        }
        if let Some(last) = self.chunks.last_mut()
            && (last.log, last.offset + last.bytes.len() as u64, last.ddl_seq)
                == (chunk.log, chunk.offset, chunk.ddl_seq)
            && last.bytes.len() + chunk.bytes.len() <= self.piece_bytes
        {
            return last.bytes.extend_from_slice(&chunk.bytes);
        }
        let number = self.taken + self.chunks.len() as u64;
        self.chunks.push(WalChunk { epoch: self.epoch, chunk: number, ..chunk });
    }

    /// Takes the chunks that end before byte `offset` of WAL `log`, except the last one, which can grow.
    fn take_before(&mut self, (log, offset): (u64, u64)) -> Vec<WalChunk> {
        let is_before =
            |chunk: &WalChunk| (chunk.log, chunk.offset + chunk.bytes.len() as u64) <= (log, offset);
        let settled = self.chunks.iter().take_while(|chunk| is_before(chunk)).count();
        let count = settled.min(self.chunks.len().saturating_sub(1));
        self.taken += count as u64;
        self.chunks.drain(..count).collect()
    }

    /// Removes everything from byte `offset` of WAL `log` on.
    fn cut(&mut self, log: u64, offset: u64) {
        self.chunks.retain(|chunk| (chunk.log, chunk.offset) < (log, offset));
        if let Some(last) = self.chunks.last_mut().filter(|last| last.log == log) {
            last.bytes.truncate((offset - last.offset) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(log: u64, offset: u64, text: &[u8]) -> WalChunk {
        let (epoch, chunk, ddl_seq, previous_crc32c) = (1, 0, 0, 0);
        WalChunk { epoch, chunk, log, offset, ddl_seq, previous_crc32c, bytes: text.to_vec() }
    }

    #[test]
    fn what_a_rollback_replaces_was_not_taken_before() {
        let mut log = LogCopy { epoch: 9, piece_bytes: 4, taken: 0, chunks: Vec::new() };
        for (offset, text) in [(0, b"aa"), (2, b"bb"), (4, b"cc"), (6, b"dd"), (8, b"ee")] {
            log.add(chunk(7, offset, text));
        }
        log.add(chunk(8, 0, b"f"));
        let taken = log.take_before((7, 7));
        assert_eq!((taken.len(), &taken[0].bytes[..], taken[0].epoch), (1, &b"aabb"[..], 9));
        log.cut(7, 7);
        log.add(chunk(7, 7, b"R"));
        log.add(chunk(7, 8, b"S"));
        let rest: Vec<_> = log.chunks.iter().map(|chunk| (chunk.chunk, &chunk.bytes[..])).collect();
        assert_eq!(rest, [(1, &b"ccdR"[..]), (2, &b"S"[..])]);
    }

    #[test]
    fn the_last_chunk_stays_because_it_can_grow() {
        let mut log = LogCopy { epoch: 9, piece_bytes: 4, taken: 0, chunks: Vec::new() };
        log.add(chunk(7, 0, b"aa"));
        assert!(log.take_before((8, 0)).is_empty());
        log.add(chunk(7, 2, b"bb"));
        assert!(log.take_before((8, 0)).is_empty());
        log.add(chunk(7, 4, b"c"));
        assert_eq!(log.take_before((8, 0)).len(), 1);
    }
}
