//! The record `hint/alive` (byte table FMT-W9 of docs/internals/formats-bucket.md).

use crate::protocol::format::codec::{FormatError, FrameWriter, Nonce};
use crate::protocol::format::records::{KIND_ALIVE, open, read_flag};

/// Field of the hint's extension area: `covered_us`. Its tag allows earlier versions to ignore it.
const TAG_COVERED: u16 = 0x0001;

/// `hint/alive`: shows that the owner lives, or that it has closed the database. No safety depends on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Alive {
    pub(crate) epoch: u64,
    pub(crate) server_id: String,
    pub(crate) counter: u64,
    pub(crate) closed: bool,
    /// The bucket has every commit that the owner had acknowledged by this time, in microseconds since 1970
    /// by the owner's clock; `u64::MAX` when the owner has closed the database (past.rs, PAST-4). None: the
    /// owner does not know it, or is of an earlier version.
    pub(crate) covered_us: Option<u64>,
}

impl Alive {
    /// Makes the hint that `epoch`, which the program `server_id` had claimed, has no owner any more.
    pub(crate) fn gone(epoch: u64, server_id: &str) -> Self {
        Self { epoch, server_id: server_id.to_owned(), counter: 0, closed: true, covered_us: None }
    }

    pub(crate) fn encode(&self, nonce: &Nonce) -> Vec<u8> {
        let mut frame = FrameWriter::new(KIND_ALIVE, nonce, 128);
        frame.u64(self.epoch).bytes(self.server_id.as_bytes()).u64(self.counter).u8(u8::from(self.closed));
        let covered = self.covered_us.map(|time_us| (TAG_COVERED, time_us.to_le_bytes().to_vec()));
        frame.extension(covered.as_slice());
        frame.finish()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut frame = open(bytes, KIND_ALIVE, "a liveness hint")?;
        let mut record = Self {
            epoch: frame.u64()?,
            server_id: frame.string()?,
            counter: frame.u64()?,
            closed: read_flag(&mut frame)?,
            covered_us: None,
        };
        if let Some(covered) = frame.extension(&[TAG_COVERED])?.get(&TAG_COVERED) {
            let covered = (*covered).try_into();
            let wrong = |_| frame.wrong("the time up to which the bucket has all commits is malformed");
            record.covered_us = Some(u64::from_le_bytes(covered.map_err(wrong)?));
        }
        frame.finish().map(|()| record)
    }
}
