//! Fills the file registry at open: from the published file map and from the table files in RocksDB's
//! directory.

use super::entry::{Entry, Place};
use super::{FileRecord, Files, SharedFile};
use crate::cache::Cache;
use crate::error::{Result, StoreError};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Files {
    /// Registers the published files, opens the part cache, and adds local table files that no root names.
    ///
    /// Requires: called once, after `set_epoch`, before RocksDB opens; not on the runtime's threads.
    /// A local copy whose size is wrong is deleted. Local files that the MANIFEST no longer needs are added
    /// too; RocksDB removes them while it opens. `noted`: files that share the object of another file. They
    /// are added as well, because perhaps no root names them yet.
    pub(crate) fn install(
        self: &Arc<Self>,
        map: Vec<(u64, FileRecord)>,
        noted: Vec<SharedFile>,
    ) -> Result<()> {
        let mut local = self.local_files()?;
        self.open_cache(&map)?;
        let mut copies = Vec::new();
        {
            let mut state = self.state.lock();
            for (number, record) in &map {
                let path = local.remove(number).and_then(|(path, size)| {
                    if size == record.size {
                        return Some(path);
                    }
                    let _ = std::fs::remove_file(&path);
                    None
                });
                let entry = Arc::new(Entry::known(*number, record, path));
                if matches!(&*entry.place.read(), Place::Local(_)) {
                    copies.push(Arc::clone(&entry));
                }
                state.keys.add(&entry.key);
                state.changed.insert(*number);
                state.live.insert(*number, entry);
                // The numbers do not go into `numbers_used`: the names of these objects contain former
                // epochs, so the names with these numbers are still free in this epoch.
            }
            self.install_shared(&mut state, noted);
            self.note_change(&mut state);
        }
        for (number, (path, size)) in local {
            self.add_now(number, &path, size)?;
        }
        self.settle(copies);
        Ok(())
    }

    fn open_cache(&self, map: &[(u64, FileRecord)]) -> Result<()> {
        if self.bucket.is_directory() {
            return Ok(());
        }
        let objects: Vec<(Arc<str>, u64)> =
            map.iter().map(|(_, record)| (Arc::clone(&record.key), record.size)).collect();
        let cache = Cache::open(
            &self.cache_folder,
            self.cache_bytes.load(Ordering::Relaxed),
            self.bucket.clone(),
            Arc::clone(&self.log),
            self.runtime.clone(),
            self.interrupt.clone(),
            objects,
        )?;
        *self.cache.write() = Some(cache);
        Ok(())
    }

    /// `NNNNNN.sst` and `.blob` files of RocksDB's directory: number -> (path, size).
    fn local_files(&self) -> Result<BTreeMap<u64, (PathBuf, u64)>> {
        let io = |e: std::io::Error| StoreError::from_io("reading the directory", &self.local_dir, &e);
        let mut found = BTreeMap::new();
        if !self.local_dir.exists() {
            return Ok(found);
        }
        for item in std::fs::read_dir(&self.local_dir).map_err(io)? {
            let path = item.map_err(io)?.path();
            let is_table = path.extension().is_some_and(|e| e == "sst" || e == "blob");
            let number = path.file_stem().and_then(|stem| stem.to_str()?.parse::<u64>().ok());
            if let (true, Some(number)) = (is_table, number) {
                match std::fs::metadata(&path) {
                    Ok(metadata) => drop(found.insert(number, (path, metadata.len()))),
                    // A store that this process closed before may still be moving its files into the cache,
                    // on a thread of its own.
                    Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                    Err(e) => return Err(io(e)),
                }
            }
        }
        Ok(found)
    }
}
