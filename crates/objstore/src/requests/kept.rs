//! Objects that stay in memory after they were read, for a program that reads the same ones again and again: a reader
//! reads the log behind the newest root for each view, and most of it was there before.
//!
//! Only objects that are written once and whose bytes were decoded are kept, so what is kept is what the bucket has, or
//! has had.

use crate::requests::bucket::Bucket;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Returns a handle of the same bucket that keeps up to `bytes_max` bytes of the records in `folders` in memory, and reads
/// them from there. All clones of the handle share them.
pub(crate) fn keeping(bucket: &Bucket, folders: &'static [&'static str], bytes_max: usize) -> Bucket {
    Bucket { kept: Some(Arc::new(Kept::new(folders, bytes_max))), ..bucket.clone() }
}

/// The objects that were kept last, up to a number of bytes. Threads: any.
#[derive(Debug)]
pub(crate) struct Kept {
    /// Which objects are kept: those whose keys begin with one of these.
    folders: &'static [&'static str],
    bytes_max: usize,
    objects: Mutex<Objects>,
}

#[derive(Debug, Default)]
struct Objects {
    by_key: HashMap<String, Bytes>,
    /// The keys, the oldest first.
    order: VecDeque<String>,
    bytes: usize,
}

impl Kept {
    pub(crate) fn new(folders: &'static [&'static str], bytes_max: usize) -> Self {
        Self { folders, bytes_max, objects: Mutex::default() }
    }

    /// Returns the bytes of `key`. None: it is not kept.
    pub(crate) fn find(&self, key: &str) -> Option<Bytes> {
        self.objects.lock().by_key.get(key).cloned()
    }

    /// Keeps `bytes`, the whole content of `key`, if it is in one of the folders. Gives up the oldest objects for it.
    pub(crate) fn keep(&self, key: &str, bytes: &Bytes) {
        if !self.folders.iter().any(|folder| key.starts_with(folder)) || bytes.len() > self.bytes_max {
            return;
        }
        let mut objects = self.objects.lock();
        if objects.by_key.insert(key.to_owned(), bytes.clone()).is_some() {
            return; // Two threads have read it at the same time.
        }
        objects.order.push_back(key.to_owned());
        objects.bytes += bytes.len();
        while objects.bytes > self.bytes_max {
            let Some(oldest) = objects.order.pop_front() else { break };
            objects.bytes -= objects.by_key.remove(&oldest).map_or(0, |gone| gone.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_objects_of_the_folders_stay_within_the_bytes() {
        let kept = Kept::new(&["wal/", "man/"], 10);
        let bytes = |count: usize| Bytes::from(vec![7; count]);
        for (key, count) in
            [("wal/1", 4), ("root/1", 1), ("man/1", 4), ("wal/1", 4), ("wal/2", 3), ("wal/3", 11)]
        {
            kept.keep(key, &bytes(count));
        }
        let found =
            ["wal/1", "root/1", "man/1", "wal/2", "wal/3"].map(|key| kept.find(key).map(|found| found.len()));
        assert_eq!(found, [None, None, Some(4), Some(3), None]);
        kept.keep("wal/4", &bytes(10));
        assert_eq!((kept.find("wal/4"), kept.find("man/1")), (Some(bytes(10)), None));
    }
}
