//! Where an owner of the database runs: the part of a claim by which a copy of the directory is recognized.

use crate::protocol::format::codec::{FormatError, FrameReader};

/// What identifies the directory of an owner on its machine: the machine's boot, and the lock file. A copy of
/// the directory, or of the machine, differs in one of them (`alive.rs`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Home {
    /// The id of the machine's boot; empty when the machine does not tell.
    pub(crate) boot: String,
    /// Device and inode of the lock file that the owner holds.
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

impl Home {
    /// Returns true when both are surely the same lock file on the same machine since the same boot. Two
    /// homes without a boot id are never the same.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        !self.boot.is_empty() && self == other
    }

    pub(crate) fn read(frame: &mut FrameReader<'_>) -> Result<Self, FormatError> {
        Ok(Self { boot: frame.string()?, device: frame.u64()?, inode: frame.u64()? })
    }
}
