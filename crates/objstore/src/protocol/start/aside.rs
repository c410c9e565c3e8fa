//! Setting a local directory aside that the bucket has overtaken, and what the log says about it.
//!
//! ASIDE-1: a directory is deleted only if its last owner has noted, as its last act, that the bucket has everything
//!          that the directory has; or if nobody has written to it for [`KEPT_FOR`]. The next owner removes the note
//!          before it changes anything.

use crate::error::{Result, StoreError};
use crate::log::{Level, LogFn};
use crate::protocol::format::records::{Marker, RootId};
use crate::protocol::start::alive;
use crate::protocol::start::local::{set_aside, sibling, sync_directory, write_durably};
use crate::requests::bucket::Bucket;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The file in a local directory that notes that the bucket has everything. It is empty.
const CLOSED: &str = "ATOLL_CLOSED";
/// How long a directory is kept that may have transactions which the bucket lacks.
const KEPT_FOR: Duration = Duration::from_secs(30 * 86400);
/// How the name of a program begins that has put the database back. `atollctl` publishes roots only then.
const RESTORED_BY: &str = "atollctl@";

/// Notes that the bucket has everything that is in `dir`. Requires: nothing writes to `dir` any more.
pub(crate) fn note_closed(dir: &Path) -> Result<()> {
    write_durably(&dir.join(CLOSED), &[])?;
    sync_directory(dir)
}

/// Removes the note before `dir` is used again.
pub(crate) fn forget_closed(dir: &Path) -> Result<()> {
    match fs::remove_file(dir.join(CLOSED)) {
        Ok(()) => sync_directory(dir),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(StoreError::from_io("removing", &dir.join(CLOSED), &error)),
    }
}

/// A directory that was set aside, until its successor is restored.
pub(crate) struct Aside {
    path: PathBuf,
    is_closed: bool,
}

impl Aside {
    /// Renames `dir`, which ends at the root of `marker`. Logs why, if the directory `has_database`. `base`: the
    /// newest root of the bucket.
    ///
    /// Requests: a GET, for the name of the server that has written since. If this GET fails, the log does not
    /// name the writer.
    pub(crate) async fn set(
        bucket: &Bucket,
        log: &LogFn,
        dir: &Path,
        marker: &Marker,
        has_database: bool,
        base: RootId,
    ) -> Result<Self> {
        let is_closed = dir.join(CLOSED).exists();
        let path = set_aside(dir, marker.epoch)?;
        if has_database {
            let writer = match alive::claimer(bucket, base.epoch).await {
                Ok((server, _)) => server,
                Err(_) => "another server".to_owned(),
            };
            let (level, text) = explain(&writer, is_closed, &path);
            let ends = format!(
                "the directory {} ends at root {}/{}, and the bucket at {}/{}: ",
                dir.display(),
                marker.root.epoch,
                marker.root.slot,
                base.epoch,
                base.slot
            );
            log(level, &(ends + &text));
        }
        Ok(Self { path, is_closed })
    }

    /// Called when the new directory is restored. Deletes this one if the bucket has everything that it has, and
    /// old ones beside it.
    pub(crate) fn successor_is_there(self, dir: &Path, log: &LogFn) {
        if self.is_closed {
            remove(&self.path, log);
        }
        for path in siblings(dir).into_iter().filter(|path| is_old(path)) {
            log(
                Level::Info,
                &format!("{} was used last more than 30 days ago and is deleted", path.display()),
            );
            remove(&path, log);
        }
    }
}

/// Says what the directory is, and what follows.
fn explain(writer: &str, is_closed: bool, aside: &Path) -> (Level, String) {
    let what = if writer.starts_with(RESTORED_BY) {
        format!(
            "the database was put back by atollctl restore ({writer}), which has kept the state before as a snapshot"
        )
    } else if is_closed {
        format!("{writer} has written to the database since")
    } else {
        format!("{writer} has written to the database since, or this is an old copy")
    };
    if is_closed {
        let text = ". Nothing is missing: the bucket has everything that the directory has. It is rebuilt from the bucket";
        return (Level::Info, what + text);
    }
    let text = format!(
        ". It was moved to {} and is rebuilt from the bucket; commits that only it has are NOT in the database any \
         more",
        aside.display()
    );
    (Level::Warning, what + &text)
}

/// The directories that were set aside for `dir`.
fn siblings(dir: &Path) -> Vec<PathBuf> {
    let stale = sibling(dir, "stale-");
    let (Some(parent), Some(start)) = (dir.parent(), stale.file_name().and_then(|name| name.to_str())) else {
        return Vec::new();
    };
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let is_stale = |path: &PathBuf| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(start))
    };
    entries.map(|entry| entry.path()).filter(is_stale).collect()
}

fn is_old(path: &Path) -> bool {
    let changed = fs::metadata(path).and_then(|metadata| metadata.modified());
    changed.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > KEPT_FOR))
}

fn remove(path: &Path, log: &LogFn) {
    if let Err(error) = fs::remove_dir_all(path) {
        log(Level::Warning, &format!("{} could not be deleted: {error}", path.display()));
    }
}
