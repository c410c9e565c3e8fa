//! The cache gives way first: before its disk is full, the cache frees space for what cannot do without it, which is the log, new table
//! files, and everything else of the server on that disk.

use super::Cache;
use crate::log::Level;
use std::sync::atomic::Ordering;

/// The cache leaves this much free, or a sixteenth of a small disk: what a server writes between two looks at the
/// disk, a second apart, is less than that on any disk.
const FREE_BYTES_MIN: u64 = 1 << 30;

/// What a file system says of itself, in bytes.
#[derive(Clone, Copy)]
pub(super) struct Disk {
    pub(super) total: u64,
    pub(super) free: u64,
}

impl Disk {
    /// How much must become free.
    fn lacks(self) -> u64 {
        FREE_BYTES_MIN.min(self.total / 16).saturating_sub(self.free)
    }
}

impl Cache {
    /// Evicts as much as the disk lacks of free space, and stores nothing for a while. Local disk work only.
    pub(crate) fn give_way(&self) {
        // A file system that does not say how full it is cannot be helped.
        let Ok(disk) = rustix::fs::statvfs(&self.folder) else { return };
        let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
        self.leave_room(Disk { total: bytes(disk.f_blocks), free: bytes(disk.f_bavail) });
    }

    pub(super) fn leave_room(&self, disk: Disk) {
        let (lacks, used) = (disk.lacks(), self.used_bytes.load(Ordering::Relaxed));
        if lacks == 0 || used == 0 {
            return;
        }
        if !self.is_full() {
            (self.log)(
                Level::Warning,
                &format!(
                    "the disk of {} has {} bytes left: the part cache, which has {used}, gives space back. Free space, or \
                     set a smaller atoll_cache_size",
                    self.folder.display(),
                    disk.free
                ),
            );
        }
        self.pause_storing();
        self.shrink_to(used.saturating_sub(lacks));
    }
}
