//! The note `<number>.shared` in RocksDB's directory: a local file map with only the file of that number,
//! which shares an object in the bucket (FILE-6 in files/share.rs). A note is replaced by rename after its
//! bytes are durable.

use crate::error::{Result, StoreError};
use crate::files::{FileRecord, SharedFile};
use crate::protocol::publish::map_record::{LocalFiles, MapEntry};
use crate::protocol::start::local::{
    check_file_key, damaged, numbered_files, random_nonce, replace, sync_directory,
};
use std::path::Path;

const EXTENSION: &str = "shared";

/// Writes a durable note that file `number` has the object of `record`. Errors: `Unavailable`, `NoSpace`.
pub(crate) fn write_note(dir: &Path, db_uuid: &str, number: u64, record: FileRecord) -> Result<SharedFile> {
    let files = vec![MapEntry::new(number, &record)];
    let map = LocalFiles { db_uuid: db_uuid.to_owned(), files, in_parts: None };
    let note = dir.join(format!("{number:06}.{EXTENSION}"));
    replace(&note, &map.encode(&random_nonce()?))?;
    sync_directory(dir)?;
    Ok(SharedFile { number, record, note })
}

/// Returns all notes of the directory, and removes those that a crash has left unfinished. Errors:
/// `Corruption`, whose message says what to do, when a note is damaged or belongs to another database.
pub(crate) fn read_notes(dir: &Path, db_uuid: &str) -> Result<Vec<SharedFile>> {
    for (_, unfinished) in numbered_files(dir, &format!("{EXTENSION}.new"))? {
        let _ = std::fs::remove_file(unfinished);
    }
    let notes = numbered_files(dir, EXTENSION)?.into_iter();
    notes
        .map(|(number, note)| Ok(SharedFile { number, record: read_note(&note, db_uuid, number)?, note }))
        .collect()
}

fn read_note(note: &Path, db_uuid: &str, number: u64) -> Result<FileRecord> {
    let bytes = std::fs::read(note).map_err(|e| StoreError::from_io("reading", note, &e))?;
    let map = LocalFiles::decode(&bytes).map_err(|e| damaged(note, &e))?;
    let name = note.display().to_string();
    match map.files.as_slice() {
        [entry] if entry.number == number && map.db_uuid == db_uuid => {
            check_file_key(&entry.key, &name)?;
            Ok(entry.record())
        }
        _ => Err(StoreError::Corruption(format!(
            "{name} is not about this file of database {db_uuid}. Move the directory away to have it rebuilt from the bucket"
        ))),
    }
}

#[cfg(test)]
#[path = "shared_notes_test.rs"]
mod tests;
