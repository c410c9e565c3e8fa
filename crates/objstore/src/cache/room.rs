//! Before its disk is full, the part cache evicts parts, because the space is needed for the log, for new
//! table files and for everything else that the server writes to that disk.

use super::Cache;
use crate::log::Level;
use std::sync::atomic::Ordering;

/// The cache keeps this many bytes of its disk free, or a quarter of a disk below 4 GiB. The free space is
/// looked at every second, and a server writes less than 1 GiB within a second. A quarter of a small disk has room
/// for what the server writes at once: a flush of a memtable of 64 MiB, and the log.
const FREE_BYTES_MIN: u64 = 1 << 30;

/// The size of a file system and its free space, in bytes.
#[derive(Clone, Copy)]
pub(super) struct Disk {
    pub(super) total: u64,
    pub(super) free: u64,
}

impl Disk {
    /// How many bytes must be freed, so that the disk has the free space that the cache keeps; 0 when it has
    /// enough.
    fn lacks(self) -> u64 {
        FREE_BYTES_MIN.min(self.total / 4).saturating_sub(self.free)
    }
}

impl Cache {
    /// Evicts as many bytes as the disk lacks of free space, and makes the cache store nothing for a while.
    /// Local disk work only.
    pub(crate) fn give_way(&self) {
        // When the file system does not tell its free space, nothing is evicted.
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
