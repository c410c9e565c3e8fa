//! Gives local copies up after publication: moves them into the part cache when they fit, else deletes them.
//!
//! In a directory bucket the local file stays, because it has the same inode as the object and so takes no
//! space. Only when the bucket is on another file system is the local file a second copy, which is deleted.

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
    /// Gives up the local copies of published files, in the background.
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

    /// Returns the part checksums that the upload has computed. For a file that an earlier process uploaded,
    /// computes them and compares the file with the published checksum. A damaged local copy is given up and
    /// None returned, because the bucket has the right bytes.
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

    /// Deletes the local file when the object in the bucket's directory is another inode, that is, a second
    /// copy.
    fn settle_in_directory(&self, entry: &Entry, local: &Path) {
        use std::os::unix::fs::MetadataExt;
        let inode = |path: &Path| std::fs::metadata(path).map(|m| (m.dev(), m.ino())).ok();
        let object = self.bucket.local_path(&entry.key).and_then(|path| inode(&path));
        if object.is_some() && object != inode(local) && entry.leave_local().is_some() {
            let _ = std::fs::remove_file(local);
        }
    }
}

/// Moves a local file into the cache while no reader reads it. Does nothing when RocksDB has removed the file
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
            delete_open(local);
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

/// Makes readers use the bucket from now on, deletes the local file, and frees its space. Not for a bucket in a
/// directory, where handles go on reading the descriptors that they have.
pub(super) fn give_up_local(entry: &Entry) {
    if let Some(path) = entry.leave_local() {
        delete_open(&path);
    }
}

/// Deletes a file that handles may have open. RocksDB keeps handles for long, and an open file keeps its space, so the
/// file is truncated, unless it has another name. No handle reads it any more, since its entry is `Place::Bucket`.
fn delete_open(path: &Path) {
    use std::os::unix::fs::MetadataExt;
    let opened = File::options().write(true).open(path);
    let _ = std::fs::remove_file(path);
    if let Ok(file) = opened
        && file.metadata().is_ok_and(|found| found.nlink() == 0)
    {
        let _ = file.set_len(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deleted_file_that_is_open_takes_no_space() {
        let dir = tempfile::tempdir().unwrap();
        for has_another_name in [false, true] {
            let (path, other) = (dir.path().join("1.sst"), dir.path().join("2.sst"));
            std::fs::write(&path, b"bytes").unwrap();
            if has_another_name {
                std::fs::hard_link(&path, &other).unwrap();
            }
            let open = File::open(&path).unwrap();
            delete_open(&path);
            assert!(!path.exists());
            assert_eq!(open.metadata().unwrap().len(), if has_another_name { 5 } else { 0 });
        }
    }
}
