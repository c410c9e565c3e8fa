//! The local directory: whose data it holds, where its table files are, and how it is replaced as a whole.
//!
//! ```text
//! <local_dir>/ATOLL          marker: database, epoch, the root that was about to be published
//! <local_dir>/ATOLL_FILES    the file map of that root: where the objects of this directory are
//! <local_dir>/ATOLL_MAP/     parts of that map (local_map.rs)
//! <local_dir>.lock           held while a process owns the directory
//! <local_dir>.restoring      a restore that has not finished; thrown away at the next open
//! <local_dir>/ATOLL_CLOSED   the last owner has noted that the bucket has everything (aside.rs)
//! <local_dir>.stale-<epoch>  a copy that a newer owner has overtaken; kept for the DBA (aside.rs)
//! ```
//!
//! DIR-1: ATOLL and ATOLL_FILES are replaced by rename, after the new bytes are durable.
//! DIR-2: ATOLL_FILES is written before ATOLL, and both before the root is published. So they are at most one
//!        root ahead of the bucket and never behind it. A directory whose marker is behind the bucket is an
//!        old copy.

use crate::error::{Result, StoreError};
use crate::machine::fill_random;
use crate::protocol::format::codec::{FormatError, Nonce};
use crate::protocol::format::names;
use crate::protocol::format::records::Marker;
use crate::requests::bucket::is_plain_key;
use crate::requests::origin;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const MARKER: &str = "ATOLL";

/// What open() found on the local disk.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LocalState {
    /// No directory, or an empty one.
    Absent,
    /// A directory with a marker. `has_database`: RocksDB has been opened there at least once.
    Present { marker: Marker, has_database: bool },
}

/// Looks at `dir`, and deletes the unfinished directory of a restore that was interrupted.
///
/// Errors: `Invalid` when the directory holds files but no marker.
pub(crate) fn inspect(dir: &Path) -> Result<LocalState> {
    let restoring = sibling(dir, "restoring");
    if restoring.exists() {
        fs::remove_dir_all(&restoring).map_err(|e| StoreError::from_io("removing", &restoring, &e))?;
    }
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(LocalState::Absent),
        Err(error) => return Err(StoreError::from_io("reading", dir, &error)),
    };
    let Some(marker) = read_marker(dir)? else {
        if entries.count() == 0 {
            return Ok(LocalState::Absent);
        }
        return Err(StoreError::Invalid(format!(
            "the directory {} holds files but no {MARKER} marker, so it is not known whose they are. Point \
             atoll's local directory elsewhere, or move this one away to have it rebuilt from the bucket",
            dir.display()
        )));
    };
    Ok(LocalState::Present { marker, has_database: dir.join("CURRENT").exists() })
}

/// Takes the exclusive lock beside `dir`; it is held as long as the file is open. Errors: `ReadOnly` when
/// another process holds it.
pub(crate) fn lock(dir: &Path) -> Result<File> {
    if let Some(parent) = dir.parent() {
        fs::create_dir_all(parent).map_err(|e| StoreError::from_io("creating", parent, &e))?;
    }
    let path = sibling(dir, "lock");
    let file = File::create(&path).map_err(|e| StoreError::from_io("creating", &path, &e))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(StoreError::ReadOnly(format!(
            "another process of this machine uses {}: stop it first",
            dir.display()
        ))),
        Err(fs::TryLockError::Error(error)) => Err(StoreError::from_io("locking", &path, &error)),
    }
}

/// The path `<dir>.<suffix>`.
pub(crate) fn sibling(dir: &Path, suffix: &str) -> PathBuf {
    let mut name = dir.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    PathBuf::from(name)
}

/// Renames a directory that the bucket has overtaken to `<dir>.stale-<epoch>`, or adds a number when that
/// name is taken. Returns the new name.
pub(crate) fn set_aside(dir: &Path, epoch: u64) -> Result<PathBuf> {
    let free = |n: u32| match n {
        0 => sibling(dir, &format!("stale-{epoch}")),
        n => sibling(dir, &format!("stale-{epoch}.{n}")),
    };
    let target = (0..).map(free).find(|path| !path.exists()).unwrap_or_else(|| free(0));
    fs::rename(dir, &target).map_err(|e| StoreError::from_io("moving aside", dir, &e))?;
    sync_parent(dir)?;
    Ok(target)
}

/// Renames `restoring`, the directory of a finished restore, to `dir`.
pub(crate) fn move_into_place(restoring: &Path, dir: &Path) -> Result<()> {
    sync_directory(restoring)?;
    // remove_dir deletes an empty directory `dir`. It fails when the directory holds anything.
    match fs::remove_dir(dir) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(StoreError::from_io("replacing", dir, &error));
        }
        _ => {}
    }
    fs::rename(restoring, dir).map_err(|e| StoreError::from_io("renaming", restoring, &e))?;
    sync_parent(dir)
}

pub(crate) fn read_marker(dir: &Path) -> Result<Option<Marker>> {
    let path = dir.join(MARKER);
    match read_optional(&path)? {
        Some(bytes) => Marker::decode(&bytes).map(Some).map_err(|e| damaged(&path, &e)),
        None => Ok(None),
    }
}

pub(crate) fn write_marker(dir: &Path, marker: &Marker) -> Result<()> {
    replace(&dir.join(MARKER), &marker.encode(&random_nonce()?))?;
    sync_directory(dir)
}

/// The WAL files of a directory in ascending order: (number, length in bytes).
pub(crate) fn wal_files(dir: &Path) -> Result<Vec<(u64, u64)>> {
    let mut found = numbered_files(dir, "log")?;
    found.sort_unstable();
    found
        .into_iter()
        .map(|(number, path)| {
            let meta = fs::metadata(&path).map_err(|e| StoreError::from_io("reading", &path, &e))?;
            Ok((number, meta.len()))
        })
        .collect()
}

/// Reads `length` bytes of a WAL from `offset` on, or fewer where the file ends.
pub(crate) fn read_wal_range(file: &File, offset: u64, length: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    let left = file.metadata()?.len().saturating_sub(offset);
    bytes.truncate(left.min(length as u64) as usize);
    file.read_exact_at(&mut bytes, offset).map(|()| bytes)
}

/// Reads `length` bytes of a file from `offset` on. It is an error when the file has fewer.
pub(crate) fn read_range(path: &Path, offset: u64, length: u64) -> Result<Vec<u8>> {
    let read = || {
        let mut bytes = vec![0; length as usize];
        File::open(path)?.read_exact_at(&mut bytes, offset).map(|()| bytes)
    };
    read().map_err(|e| StoreError::from_io("reading", path, &e))
}

/// The length of a WAL in bytes without the zeros at its end. The server writes such zeros in advance, after
/// its last record.
pub(crate) fn solid_bytes(path: &Path) -> Result<u64> {
    const STEP_BYTES: u64 = 64 << 10;
    let find = || {
        let file = File::open(path)?;
        let mut end = file.metadata()?.len();
        while end > 0 {
            let start = end.saturating_sub(STEP_BYTES);
            let bytes = read_wal_range(&file, start, (end - start) as usize)?;
            if let Some(last) = bytes.iter().rposition(|byte| *byte != 0) {
                return Ok(start + last as u64 + 1);
            }
            end = start;
        }
        Ok(0)
    };
    find().map_err(|e: std::io::Error| StoreError::from_io("reading", path, &e))
}

/// Returns number and path of RocksDB's files `<number>.<wanted>` in `dir`, unsorted.
pub(crate) fn numbered_files(dir: &Path, wanted: &str) -> Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(|e| StoreError::from_io("reading", dir, &e))? {
        let path = entry.map_err(|e| StoreError::from_io("reading", dir, &e))?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let Some((number, ending)) = name.and_then(|name| name.split_once('.')) else { continue };
        // RocksDB pads to six digits and grows beyond them.
        if ending == wanted && number.len() >= 6 && number.bytes().all(|byte| byte.is_ascii_digit()) {
            found.extend(number.parse().ok().map(|number| (number, path.clone())));
        }
    }
    Ok(found)
}

/// The path of MANIFEST `number`, named as RocksDB names it.
pub(crate) fn manifest_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("MANIFEST-{number:06}"))
}

pub(crate) fn wal_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:06}.log"))
}

/// Writes `bytes` to a new file and makes them durable.
pub(crate) fn write_durably(path: &Path, bytes: &[u8]) -> Result<()> {
    let write = || {
        let mut file = File::create(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(|e| StoreError::from_io("writing", path, &e))
}

pub(crate) fn random_nonce() -> Result<Nonce> {
    let mut nonce = [0; 16];
    fill_random(&mut nonce)?;
    Ok(nonce)
}

/// The error for an object that does not parse; it names the object.
pub(crate) fn damaged_object(object: &str, error: &FormatError) -> StoreError {
    StoreError::Corruption(format!(
        "{object} in the bucket is damaged: {error}. Restore this object from a copy or an older version"
    ))
}

pub(crate) fn damaged(path: &Path, error: &FormatError) -> StoreError {
    StoreError::Corruption(format!(
        "{} is damaged: {error}. Move the directory away to have it rebuilt from the bucket",
        path.display()
    ))
}

pub(crate) fn read_optional(path: &Path) -> Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::from_io("reading", path, &error)),
    }
}

pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let new = sibling(path, "new");
    write_durably(&new, bytes)?;
    fs::rename(&new, path).map_err(|e| StoreError::from_io("replacing", path, &e))
}

pub(crate) fn sync_directory(dir: &Path) -> Result<()> {
    let sync = || File::open(dir)?.sync_all();
    sync().map_err(|e| StoreError::from_io("syncing", dir, &e))
}

fn sync_parent(path: &Path) -> Result<()> {
    path.parent().map_or(Ok(()), sync_directory)
}

/// Checks the key of a table file that record `object` names. The key must be below `sst/` of the database's
/// own prefix or of another database's (an origin), and no segment of it may be `.` or `..`. Errors:
/// `Corruption`.
pub(crate) fn check_file_key(key: &str, object: &str) -> Result<()> {
    let (origin, own) = origin::split(key);
    let is_origin = origin.is_none_or(|origin| origin.is_empty() || is_plain_key(origin));
    if own.starts_with(names::FILE_DIR) && is_plain_key(own) && is_origin {
        return Ok(());
    }
    Err(StoreError::Corruption(format!("{object} names a table file '{key}', which cannot be one")))
}
