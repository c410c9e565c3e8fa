//! The file map of the local directory: `ATOLL_FILES`, and its parts in `ATOLL_MAP/<E>-<part>`, each with the
//! bytes of the object `map/<E>/<part>`.
//!
//! DIR-3: a part is durable before `ATOLL_FILES` names it, and is deleted only after an `ATOLL_FILES` without
//!        it is durable.

use crate::error::{Result, StoreError};
use crate::protocol::format::image::{change, join};
use crate::protocol::publish::map_record::{FileMap, LocalFiles, MapInParts, MapPart, PartRef};
use crate::protocol::publish::map_writer::NewPart;
use crate::protocol::start::local::{
    damaged, random_nonce, read_optional, replace, sync_directory, write_durably,
};
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

const FILES: &str = "ATOLL_FILES";
const PARTS: &str = "ATOLL_MAP";

/// Reads the map that was written last; None when `ATOLL_FILES` does not exist, because no root was published
/// from this directory.
///
/// Errors: `Invalid` when the map belongs to another database; `Corruption`, whose message says what to do,
/// when the map is damaged, or a part is absent or damaged.
pub(crate) fn read_files(dir: &Path, db_uuid: &str) -> Result<Option<FileMap>> {
    let path = dir.join(FILES);
    let Some(bytes) = read_optional(&path)? else { return Ok(None) };
    let local = LocalFiles::decode(&bytes).map_err(|e| damaged(&path, &e))?;
    if local.db_uuid != db_uuid {
        return Err(StoreError::Invalid(format!(
            "{} belongs to database {}, its directory to {db_uuid}",
            path.display(),
            local.db_uuid
        )));
    }
    assemble(dir, &path.display().to_string(), &local).map(Some)
}

fn assemble(dir: &Path, object: &str, local: &LocalFiles) -> Result<FileMap> {
    let broken = |e: StoreError| e.with("move the directory away to have it rebuilt from the bucket");
    let Some(map) = &local.in_parts else {
        let mut files = FileMap::new();
        change(&mut files, object, &[], &local.files, local.files.len() as u64).map_err(broken)?;
        return Ok(files);
    };
    let parts: Vec<MapPart> =
        map.parts.iter().map(|part| read_part(dir, map.epoch, *part)).collect::<Result<_>>()?;
    join(&parts, map, object).map_err(broken)
}

fn read_part(dir: &Path, epoch: u64, part: PartRef) -> Result<MapPart> {
    let path = part_path(dir, epoch, part.part);
    let Some(bytes) = read_optional(&path)? else {
        return Err(StoreError::Corruption(format!(
            "{}, a part of the file map, is missing. Move the directory away to have it rebuilt from the bucket",
            path.display()
        )));
    };
    MapPart::read(&bytes, epoch, part).map_err(|e| damaged(&path, &e))
}

/// Writes the parts that `ATOLL_FILES` is about to name, durably. Does nothing when there are none.
pub(crate) fn write_parts(dir: &Path, epoch: u64, parts: &[NewPart]) -> Result<()> {
    if parts.is_empty() {
        return Ok(());
    }
    let folder = dir.join(PARTS);
    fs::create_dir_all(&folder).map_err(|e| StoreError::from_io("creating", &folder, &e))?;
    for part in parts {
        write_durably(&part_path(dir, epoch, part.part), &part.bytes)?;
    }
    sync_directory(&folder)?;
    sync_directory(dir)
}

/// Replaces `ATOLL_FILES`. The rename is durable only after `write_marker`, which follows. A crash in between
/// leaves the old or the new map. Both are usable, because no local file is given up before both writes are
/// done.
pub(crate) fn write_files(dir: &Path, files: &LocalFiles) -> Result<()> {
    replace(&dir.join(FILES), &files.encode(&random_nonce()?))
}

/// Deletes the parts that `named`, the map in a durable `ATOLL_FILES`, does not name. A part that cannot be
/// deleted stays: it only costs space, and the next call tries again.
pub(crate) fn delete_other_parts(dir: &Path, named: Option<&MapInParts>) {
    let paths: HashSet<PathBuf> = named
        .iter()
        .flat_map(|named| named.parts.iter().map(|part| part_path(dir, named.epoch, part.part)))
        .collect();
    let Ok(found) = fs::read_dir(dir.join(PARTS)) else { return };
    for path in found.flatten().map(|part| part.path()).filter(|path| !paths.contains(path)) {
        let _ = fs::remove_file(path);
    }
}

fn part_path(dir: &Path, epoch: u64, part: u64) -> PathBuf {
    dir.join(PARTS).join(format!("{epoch:020}-{part:020}"))
}

#[cfg(test)]
#[path = "local_map_test.rs"]
mod tests;
