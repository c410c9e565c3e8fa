//! Gives local copies up after publication: moves them into the part cache when they fit, else deletes them.
//!
//! In a directory bucket the local name costs nothing (same inode) and stays; only a copy on another file
//! system is redundant.

use super::Files;
use super::entry::{Entry, Place, Upload};
use crate::cache::Cache;
use crate::crc::crc_of_parts;
use crate::log::Level;
use crate::requests::upload::{blocking, copy_file, sum_file};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

impl Files {
    /// Moves the local copies of published files, in the background.
    pub(super) fn settle(self: &Arc<Self>, entries: Vec<Arc<Entry>>) {
        if entries.is_empty() {
            return;
        }
        let files = Arc::clone(self);
        let work = move || {
            entries.iter().for_each(|entry| files.settle_one(entry));
            Ok(())
        };
        self.supervisor.spawn_work("mover of local files", async move {
            // An error means that the store is closing: the next open moves the files that are
            // left.
            let _ = blocking(work).await;
        });
    }

    fn settle_one(&self, entry: &Arc<Entry>) {
        let Some(local) = entry.local_path() else { return };
        if self.bucket.is_directory() {
            self.settle_in_directory(entry, &local);
            return;
        }
        let Some(cache) = self.cache.read().clone() else { return };
        let Some(crcs) = self.checked_parts(entry, &local) else { return };
        if let Err(error) = move_into_cache(&cache, entry, &local, &crcs) {
            (self.log)(
                Level::Warning,
                &format!("moving {} into the part cache: {error}; it is dropped instead", local.display()),
            );
            give_up_local(entry);
        }
    }

    /// The part checksums of the upload; for a file of an earlier process they are computed, and the file is
    /// compared with the published checksum. A damaged one is dropped: the bucket has the right bytes.
    fn checked_parts(&self, entry: &Arc<Entry>, local: &Path) -> Option<Vec<u32>> {
        let (expected, known) = match &*entry.upload.lock() {
            Upload::Done { crc32c, part_crcs } => (*crc32c, part_crcs.clone()),
            _ => return None,
        };
        if !known.is_empty() || entry.size == 0 {
            return Some(known);
        }
        let crcs = File::open(local).and_then(|file| sum_file(&file, entry.size)).unwrap_or_default();
        if crc_of_parts(&crcs, entry.size) == expected && !crcs.is_empty() {
            return Some(crcs);
        }
        (self.log)(
            Level::Warning,
            &format!("{} is damaged on the local disk; reads go to the bucket's copy", local.display()),
        );
        give_up_local(entry);
        None
    }

    /// Drops the local copy when the bucket directory has one of its own.
    fn settle_in_directory(&self, entry: &Entry, local: &Path) {
        use std::os::unix::fs::MetadataExt;
        let inode = |path: &Path| std::fs::metadata(path).map(|m| (m.dev(), m.ino())).ok();
        let object = self.bucket.local_path(&entry.key).and_then(|path| inode(&path));
        if object.is_some() && object != inode(local) {
            give_up_local(entry);
        }
    }
}

/// Moves a local file into the cache while no reader is inside it. Does nothing when RocksDB removed it
/// meanwhile.
fn move_into_cache(cache: &Cache, entry: &Entry, local: &Path, crcs: &[u32]) -> std::io::Result<()> {
    if !cache.has_room_for(entry.size) {
        give_up_local(entry);
        return Ok(());
    }
    match adopt_from(cache, entry, local, local, crcs) {
        Err(error) if error.raw_os_error() == Some(libc::EXDEV) => {
            let copy = cache.landing_path(&entry.key);
            copy_file(local, &copy)?;
            let adopted = adopt_from(cache, entry, local, &copy, crcs);
            let _ = std::fs::remove_file(copy);
            adopted?;
            let _ = std::fs::remove_file(local);
            Ok(())
        }
        outcome => outcome,
    }
}

/// Gives `source`, the local file or a copy of it, to the cache, if the entry is still read from `local`.
fn adopt_from(
    cache: &Cache,
    entry: &Entry,
    local: &Path,
    source: &Path,
    crcs: &[u32],
) -> std::io::Result<()> {
    let mut place = entry.place.write();
    if matches!(&*place, Place::Local(path) if path == local) {
        cache.adopt(source, &entry.key, entry.size, crcs)?;
        *place = Place::Bucket;
    }
    Ok(())
}

/// Reads go to the bucket from now on. Open descriptors of the local file stay valid.
pub(super) fn give_up_local(entry: &Entry) {
    if let Some(path) = entry.leave_local() {
        let _ = std::fs::remove_file(path);
    }
}
