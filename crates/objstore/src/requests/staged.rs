//! Staged files of a `file://` bucket. The crate `object_store` writes an object as `NAME#<digits>` and
//! renames the file when all bytes are written. A process that dies before the rename leaves the staged file
//! behind, which no listing shows and which takes space.

use crate::error::{Result, StoreError};
use crate::machine::run_blocking;
use crate::requests::bucket::Bucket;
use std::fs::DirEntry;
use std::io;
use std::path::Path;
use std::time::Duration;

/// A staged file to which nothing was written for this time was left by a process that has died. A process
/// that lives finishes the file within a minute, because its requests end within a minute.
const ABANDONED_AFTER: Duration = Duration::from_secs(3600);

impl Bucket {
    /// Removes staged files of objects whose key satisfies `is_ours`, if the key satisfies `is_abandoned` or
    /// nothing was written to the file for an hour. If the writer of such a file is still running, its PUT
    /// fails and can be repeated. Files of other programs stay, whatever their names look like. Returns how
    /// many files were removed; 0 for a bucket that is no directory.
    ///
    /// Errors: the file system's. It is no error if a file disappears meanwhile. Requests: none.
    pub(crate) async fn remove_staged(
        &self,
        is_ours: impl Fn(&str) -> bool + Send + 'static,
        is_abandoned: impl Fn(&str) -> bool + Send + 'static,
    ) -> Result<usize> {
        let Some(root) = self.parts.directory.clone() else { return Ok(0) };
        let walked = run_blocking(move || {
            let judge = |key: &str| match (is_ours(key), is_abandoned(key)) {
                (false, _) => Age::Foreign,
                (true, true) => Age::Abandoned,
                (true, false) => Age::OfItsWriter,
            };
            let removed = remove_below(&root, &root, &judge);
            removed.map_err(|e| StoreError::from_io("removing half-written objects below", &root, &e))
        });
        walked.await.map_err(|e| StoreError::Bug(format!("removing half-written objects: {e}")))?
    }
}

/// What the name of a staged file says about its age.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Age {
    /// It is of another program.
    Foreign,
    /// Its writer is gone.
    Abandoned,
    /// Only the time of its last change tells.
    OfItsWriter,
}

fn remove_below(root: &Path, directory: &Path, judge: &dyn Fn(&str) -> Age) -> io::Result<usize> {
    let mut removed = 0;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        removed += if entry.file_type()?.is_dir() {
            unless_gone(remove_below(root, &entry.path(), judge))?
        } else {
            unless_gone(remove_if_abandoned(root, &entry, judge))?
        };
    }
    Ok(removed)
}

fn remove_if_abandoned(root: &Path, entry: &DirEntry, judge: &dyn Fn(&str) -> Age) -> io::Result<usize> {
    let path = entry.path();
    let Some(key) = path.strip_prefix(root).ok().and_then(Path::to_str).and_then(key_of_staged) else {
        return Ok(0);
    };
    let is_old = || -> io::Result<bool> {
        // A file time in the future, which a wrong clock has set, counts as new.
        Ok(entry.metadata()?.modified()?.elapsed().is_ok_and(|age| age >= ABANDONED_AFTER))
    };
    match judge(key) {
        Age::Foreign => Ok(0),
        Age::OfItsWriter if !is_old()? => Ok(0),
        Age::Abandoned | Age::OfItsWriter => std::fs::remove_file(&path).map(|()| 1),
    }
}

fn unless_gone(outcome: io::Result<usize>) -> io::Result<usize> {
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        other => other,
    }
}

/// The name of the object that the staged file `name` belongs to. None if `name` is no staged file.
fn key_of_staged(name: &str) -> Option<&str> {
    let (key, suffix) = name.rsplit_once('#')?;
    (!suffix.is_empty() && suffix.bytes().all(|byte| byte.is_ascii_digit())).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requests::client::connect_directory;
    use crate::requests::retry::RetryPolicy;
    use std::fs::{File, FileTimes};
    use std::sync::Arc;
    use std::time::SystemTime;

    #[tokio::test]
    async fn half_written_objects_go_when_their_writer_is_gone_or_an_hour_has_passed() {
        let is_ours = |key: &str| key.starts_with("wal/");
        let dir = tempfile::tempdir().unwrap();
        let bucket = connect_directory(dir.path(), Arc::default(), RetryPolicy::default()).unwrap();
        let put = |name: &str, age: Duration| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            let times = FileTimes::new().set_modified(SystemTime::now() - age);
            File::create(path).unwrap().set_times(times).unwrap();
        };
        let new = Duration::ZERO;
        put("wal/1/5#1", new);
        put("wal/2/5#12", new);
        put("wal/2/6#1", ABANDONED_AFTER * 2);
        put("wal/1/5", ABANDONED_AFTER * 2);
        put("wal/1/5#", ABANDONED_AFTER * 2);
        put("wal/1/5#a1", ABANDONED_AFTER * 2);
        put("notes/report#1", ABANDONED_AFTER * 2);
        put("invoice#17", ABANDONED_AFTER * 2);
        assert_eq!(bucket.remove_staged(is_ours, |key| key.starts_with("wal/1/")).await.unwrap(), 2);
        assert!(dir.path().join("notes/report#1").exists() && dir.path().join("invoice#17").exists());
        let mut left: Vec<_> = std::fs::read_dir(dir.path().join("wal/1")).unwrap().collect();
        left.extend(std::fs::read_dir(dir.path().join("wal/2")).unwrap());
        let mut left: Vec<_> = left.into_iter().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["5", "5#", "5#12", "5#a1"]);
        assert_eq!(Bucket::in_memory().remove_staged(|_| true, |_| true).await.unwrap(), 0);
    }
}
