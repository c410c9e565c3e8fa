//! Shows what differs between two states of a database: for each table, the bytes of the table files that
//! only one state has. Writes nothing to the bucket.
//!
//! Rows are not read. A file that only one state has can hold rows that the other state has as well, in a
//! file of another name, because a compaction also rewrites rows that it does not change. Changes that are
//! only in the log of a state, and not in its table files, are not seen.

use crate::error::{Result, StoreError};
use crate::protocol::format::image::{self, Image};
use crate::protocol::history::past::Past;
use crate::protocol::inspection::families::{Families, FileOwner};
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::inspection::table_names::{self, TableNames};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The text with which a caller names the newest root as a state.
pub const PRESENT: &str = "now";

/// One of the two states that were compared.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct ComparedState {
    pub epoch: u64,
    pub slot: u64,
    /// When the newest commit that can be in the state's table files was made, in microseconds since 1970; 0:
    /// unknown.
    pub commit_us: u64,
}

/// Bytes of the table files of one table, or of several small tables that share them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TableBytes {
    /// Bytes in files that only the first state has.
    pub only_first: u64,
    /// Bytes in files that both states have.
    pub both: u64,
    /// Bytes in files that only the second state has.
    pub only_second: u64,
}

/// The differences between two states.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct StateDiff {
    pub first: ComparedState,
    pub second: ComparedState,
    /// The bytes of each table. The key None stands for files whose table cannot be seen in the two
    /// MANIFESTs.
    pub tables: BTreeMap<Option<FileOwner>, TableBytes>,
    /// RocksDB's names of the column families, by RocksDB's numbers of them.
    pub families: BTreeMap<u32, String>,
    /// The present names of the tables, from the hint that the owner writes.
    pub names: TableNames,
    /// Why the tables of some table files are not known; empty when all is well.
    pub problem: String,
}

/// A root with its files, and the tables of these files.
struct State {
    image: Image,
    families: Families,
}

impl Inspector {
    /// Reads the hint with the names of tables. It is empty when the owner has not written it. Errors: those
    /// of the bucket. Requests: a GET.
    pub async fn table_names(&self) -> Result<TableNames> {
        table_names::read(self.bucket()).await
    }

    /// Compares two states: each is [`PRESENT`], the name of a snapshot, or a moment (`date::parse`).
    ///
    /// Errors: `NotFound` without a database or a root; `Invalid` for a text that names no state;
    /// `Corruption` for a MANIFEST that cannot be read. Requests: those that find and read the
    /// roots of both, and their MANIFESTs.
    pub async fn diff(&self, first: &str, second: &str) -> Result<StateDiff> {
        self.identity().await?;
        let names = self.table_names().await?;
        let (first, second) = (self.state(first).await?, self.state(second).await?);
        let mut tables: BTreeMap<Option<FileOwner>, TableBytes> = BTreeMap::new();
        let (of_first, of_second) = (first.files(), second.files());
        for (file, bytes) in &of_first {
            let table = tables.entry(file.1).or_default();
            match of_second.contains_key(file) {
                true => table.both += bytes,
                false => table.only_first += bytes,
            }
        }
        for (file, bytes) in of_second.iter().filter(|(file, _)| !of_first.contains_key(*file)) {
            tables.entry(file.1).or_default().only_second += bytes;
        }
        let problem = match first.families.is_whole && second.families.is_whole {
            true => String::new(),
            false => "a MANIFEST has entries that this version does not understand".to_owned(),
        };
        let seen = (first.seen(), second.seen());
        let mut families = first.families.names;
        families.extend(second.families.names);
        Ok(StateDiff { first: seen.0, second: seen.1, tables, families, names, problem })
    }

    async fn state(&self, when: &str) -> Result<State> {
        let image = match when {
            PRESENT => {
                let no_root = || StoreError::NotFound {
                    operation: "reading",
                    object: "a root of the database".to_owned(),
                };
                self.newest_image().await?.ok_or_else(no_root)?.0
            }
            _ => self.find(&Past::named(self.bucket(), when).await?).await?.moment.image,
        };
        let families = Families::read(&image::read_manifest(self.bucket(), &image.root).await?);
        Ok(State { image, families })
    }
}

impl State {
    fn seen(&self) -> ComparedState {
        let root = &self.image.root;
        let commit_us = root.position.as_ref().map_or(0, |position| position.time_us);
        ComparedState { epoch: root.id.epoch, slot: root.id.slot, commit_us }
    }

    /// Returns the size of each object, by its key and the table whose rows it holds. An object that two
    /// tables share counts for both. Files of dropped column families are left out.
    fn files(&self) -> HashMap<(Arc<str>, Option<FileOwner>), u64> {
        let owner = |number| self.families.files.get(number).map(|owner| FileOwner { index: None, ..*owner });
        let is_there = |owner: &Option<FileOwner>| {
            owner.is_none_or(|owner| !self.families.dropped.contains(&owner.family))
        };
        let files = self.image.files.iter().map(|(number, file)| (owner(number), file));
        let files = files.filter(|(owner, _)| is_there(owner));
        files.map(|(owner, file)| ((Arc::clone(&file.key), owner), file.size)).collect()
    }
}

#[cfg(test)]
#[path = "diff_test.rs"]
mod tests;
