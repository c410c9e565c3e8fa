//! Merged WAL chunks: their record, and how a root lists them (byte tables FMT-W6 and FMT-W11 of
//! docs/internals/formats-bucket.md).

use crate::protocol::format::codec::{FormatError, FrameWriter, Nonce};
use crate::protocol::format::records::{KIND_MERGED_CHUNKS, open};
use bytes::Bytes;

/// One merged object, `wal/<E>/<first>-<end>`: the chunks from `first` on, `end` not included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WalRun {
    pub(crate) first: u64,
    pub(crate) end: u64,
    /// Size of the object in bytes.
    pub(crate) bytes: u64,
}

/// `wal/<E>/<first>-<end>`: the bytes of chunk objects, one after the other, as they were in their slots. A
/// merged object is read only through a root that names it; the chunk objects are deleted after that root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MergedChunks {
    pub(crate) epoch: u64,
    pub(crate) first: u64,
    /// The chunk objects; `first` plus their number is the end.
    pub(crate) chunks: Vec<Bytes>,
}

impl MergedChunks {
    /// Makes one object of the chunk objects `chunks`, of which the first has number `first`. Each chunk is
    /// freed as soon as it has been copied, so that chunks and object together take hardly more memory than
    /// one of the two.
    pub(crate) fn encode(epoch: u64, first: u64, chunks: Vec<Bytes>, nonce: &Nonce) -> Vec<u8> {
        let body_bytes = chunks.iter().map(|chunk| chunk.len() + 4).sum::<usize>() + 24;
        let mut frame = FrameWriter::new(KIND_MERGED_CHUNKS, nonce, body_bytes);
        frame.u64(epoch).u64(first).u32(chunks.len() as u32);
        for chunk in chunks {
            frame.bytes(&chunk);
        }
        frame.finish()
    }

    /// Decodes a merged object. The chunks are parts of `bytes`, not copies. Each chunk has a frame of its
    /// own, which is not checked here.
    pub(crate) fn decode(bytes: &Bytes) -> Result<Self, FormatError> {
        let mut frame = open(bytes, KIND_MERGED_CHUNKS, "merged WAL chunks")?;
        let (epoch, first) = (frame.u64()?, frame.u64()?);
        let mut chunks = Vec::new();
        for _ in 0..frame.count(4)? {
            chunks.push(bytes.slice_ref(frame.bytes()?));
        }
        frame.finish().map(|()| Self { epoch, first, chunks })
    }
}

/// The value of a root's field that lists `runs`.
pub(crate) fn write_runs(runs: &[WalRun]) -> Vec<u8> {
    runs.iter().flat_map(|run| [run.first, run.end, run.bytes]).flat_map(u64::to_le_bytes).collect()
}

/// Decodes what [`write_runs`] wrote; None when bytes are missing, or the runs overlap or are not in
/// ascending order.
pub(crate) fn read_runs(bytes: &[u8]) -> Option<Vec<WalRun>> {
    let mut runs: Vec<WalRun> = Vec::new();
    for entry in bytes.chunks(24) {
        let mut words = entry.chunks_exact(8).map(|word| word.try_into().map(u64::from_le_bytes).ok());
        let run = WalRun { first: words.next()??, end: words.next()??, bytes: words.next()?? };
        let before = runs.last().map_or(0, |last| last.end);
        if run.first < before || run.end <= run.first {
            return None;
        }
        runs.push(run);
    }
    Some(runs)
}
