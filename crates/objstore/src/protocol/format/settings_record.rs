//! The record `settings/<n>` (byte table FMT-W17 of docs/internals/formats-bucket.md).

use crate::protocol::format::codec::{FormatError, FrameWriter, Nonce};
use crate::protocol::format::records::open;
use serde::Serialize;

const KIND_SETTINGS: u16 = 14;

/// What has been decided for a database, and not for one server (kept_settings.rs).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct KeptSettings {
    /// The number in the name of the record; the highest one counts. 0: there is no record, so nothing was
    /// decided.
    pub number: u64,
    /// When the record was made, in milliseconds since 1970, and by which program. For people.
    pub changed_ms: u64,
    #[allow(missing_docs)]
    pub changed_by: String,
    /// For how many seconds the history is kept (`atoll_history_retention`).
    pub retention_s: u64,
    /// The most bytes that the history alone may keep (`atoll_history_max_bytes`); 0: not decided.
    pub bytes_max: u64,
    /// A retention that was shortened, which still holds until `former_until_ms`, in milliseconds since 1970.
    /// Zeros: none.
    pub former_retention_s: u64,
    #[allow(missing_docs)]
    pub former_until_ms: u64,
    /// The schedule of snapshots (`atoll_snapshot_schedule`).
    pub schedule: String,
}

impl KeptSettings {
    pub(crate) fn encode(&self, nonce: &Nonce) -> Vec<u8> {
        let mut frame = FrameWriter::new(KIND_SETTINGS, nonce, 128);
        frame.u64(self.number).u64(self.changed_ms).bytes(self.changed_by.as_bytes());
        frame.u64(self.retention_s).u64(self.bytes_max);
        frame.u64(self.former_retention_s).u64(self.former_until_ms).bytes(self.schedule.as_bytes());
        frame.finish()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut frame = open(bytes, KIND_SETTINGS, "the settings of a database")?;
        let record = Self {
            number: frame.u64()?,
            changed_ms: frame.u64()?,
            changed_by: frame.string()?,
            retention_s: frame.u64()?,
            bytes_max: frame.u64()?,
            former_retention_s: frame.u64()?,
            former_until_ms: frame.u64()?,
            schedule: frame.string()?,
        };
        frame.finish().map(|()| record)
    }
}
