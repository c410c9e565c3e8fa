//! One object under several file numbers: a clone of a table has table files in common with the table.
//!
//! FILE-5  An object becomes garbage when RocksDB has removed the last of the files that have the object.
//! FILE-6  A file that shares an object has a note in RocksDB's directory. The note is written before the
//!         MANIFEST can name the file's number, and stays until a root names the file, because no other local
//!         file tells which object the file has.
//! FILE-7  A file may have an object that left the map before (a table comes back from a mount). A pin holds
//!         the object until the registry knows the file; from then on the collector finds its key here,
//!         also when a tomb lists it (GC-2).

use super::entry::Entry;
use super::{FileRecord, Files, State, closing};
use crate::error::{Result, StoreError};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

/// A file that shares the object of another file, and the path of its note (FILE-6).
#[derive(Debug)]
pub(crate) struct SharedFile {
    pub(crate) number: u64,
    pub(crate) record: FileRecord,
    pub(crate) note: PathBuf,
}

/// For each key of an object, how many files and garbage entries have that key.
#[derive(Default)]
pub(super) struct KeyUses {
    uses: HashMap<Arc<str>, usize>,
    /// How many keys have more than one use. While it is 0, [`Self::is_shared`] looks nothing up.
    shared: usize,
}

impl KeyUses {
    pub(super) fn add(&mut self, key: &Arc<str>) {
        let uses = self.uses.entry(Arc::clone(key)).or_default();
        *uses += 1;
        self.shared += usize::from(*uses == 2);
    }

    pub(super) fn remove(&mut self, key: &Arc<str>) {
        let Some(uses) = self.uses.get_mut(key) else { return };
        *uses -= 1;
        self.shared -= usize::from(*uses == 1);
        if *uses == 0 {
            self.uses.remove(key);
        }
    }

    pub(super) fn contains(&self, key: &str) -> bool {
        self.uses.contains_key(key)
    }

    /// True when more than one file or garbage entry has the key. Costs nothing while no key is shared.
    pub(super) fn is_shared(&self, key: &str) -> bool {
        self.shared > 0 && self.uses.get(key).is_some_and(|uses| *uses > 1)
    }
}

impl Files {
    /// Returns the record that a root will have for file `number`, so that another file can share its object.
    ///
    /// Blocks: until the file is uploaded. Errors: `NotFound`; `Fenced`; `Corruption` when it can never be
    /// uploaded; `Interrupted` at close, or when the statement of this thread was killed.
    pub(crate) fn uploaded_record(&self, number: u64) -> Result<FileRecord> {
        self.block_on(async {
            let mut changes = self.changed.subscribe();
            loop {
                changes.borrow_and_update();
                if let Some(record) = self.record_of(number)? {
                    return Ok(record);
                }
                changes.changed().await.map_err(|_| closing())?;
            }
        })?
    }

    /// The record of file `number`; None: its upload has not ended.
    fn record_of(&self, number: u64) -> Result<Option<FileRecord>> {
        let state = self.state.lock();
        if let Some(ended) = &state.ended {
            return Err(ended.clone());
        }
        let entry = state.live.get(&number).ok_or_else(|| no_such_file(number))?;
        entry.failure()?;
        Ok(entry.record())
    }

    /// Makes file `shared.number` have the object of file `from`. The note is deleted once it is not needed any
    /// more, also after an error. Without `from`, perhaps no file has the object any more; then a pin that counts
    /// must hold it until this function returns (FILE-7).
    ///
    /// Requires: the note is durable. Errors: `NotFound` when `from` does not have the object of the record
    /// any more; the error with which the registry ended.
    pub(crate) fn share(&self, from: Option<u64>, shared: SharedFile) -> Result<()> {
        let mut state = self.state.lock();
        let has_object = |number| state.live.get(&number).is_some_and(|entry| entry.key == shared.record.key);
        let error = match (&state.ended, from) {
            (Some(ended), _) => Some(ended.clone()),
            (None, Some(from)) if !has_object(from) => Some(no_such_file(from)),
            _ => None,
        };
        if let Some(error) = error {
            drop(state);
            let _ = std::fs::remove_file(shared.note);
            return Err(error);
        }
        self.enter_shared(&mut state, shared);
        Ok(())
    }

    /// Registers those files of `noted` that the published map lacks, and deletes the notes of the others.
    pub(super) fn install_shared(&self, state: &mut State, noted: Vec<SharedFile>) {
        for shared in noted {
            match state.live.contains_key(&shared.number) {
                true => drop(std::fs::remove_file(shared.note)),
                false => self.enter_shared(state, shared),
            }
        }
    }

    fn enter_shared(&self, state: &mut State, shared: SharedFile) {
        state.numbers_used.insert(shared.number);
        state.keys.add(&shared.record.key);
        let entry = Arc::new(Entry::known(shared.number, &shared.record, None));
        entry.remember_note(shared.note);
        self.insert(state, shared.number, &entry);
    }
}

fn no_such_file(number: u64) -> StoreError {
    StoreError::NotFound { operation: "sharing", object: format!("file {number}") }
}
