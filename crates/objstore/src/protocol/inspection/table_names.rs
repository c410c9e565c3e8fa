//! `hint/tables`: the names of the tables in the bucket, for people and tools that look at the bucket from
//! outside.
//!
//! The catalog is in table files, which only RocksDB reads. So the owner writes the names into this hint as
//! well, a few seconds after they have changed. The hint also has the names of tables that are gone, because
//! snapshots and the history may still need their files. It is advice only: no decision depends on it.
//! It can be late, absent or damaged, and a server can start without it. It is JSON, so that other programs
//! can read it, too (docs/internals/formats-bucket.md).

use crate::error::{Result, StoreError};
use crate::protocol::format::names;
use crate::requests::bucket::Bucket;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// The content of the hint `hint/tables`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableNames {
    /// Tables and partitions; `t#P#p0` is partition `p0` of `t`.
    pub tables: Vec<NamedTable>,
    /// Tables that are gone, because they were dropped or rewritten; the latest first, at most [`GONE_MAX`].
    #[serde(default)]
    pub gone: Vec<NamedTable>,
}

/// How many names of gone tables are kept, for the files in snapshots and in the history: about 100 KB.
const GONE_MAX: usize = 1000;

impl TableNames {
    /// Fills `gone` from the hint that is to be overwritten, `former`: with the names of those tables that
    /// are not among the present ones.
    fn keep_gone(&mut self, former: TableNames) {
        let present: HashSet<(u32, u32)> = self.tables.iter().map(NamedTable::place).collect();
        let gone = former.tables.into_iter().chain(former.gone);
        self.gone = gone.filter(|table| !present.contains(&table.place())).take(GONE_MAX).collect();
    }
}

/// The name of one table or partition, and where its rows are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct NamedTable {
    pub database: String,
    pub name: String,
    /// The column family and the key prefix of its rows, see [`FileOwner`](crate::protocol::FileOwner).
    pub family: u32,
    pub prefix: u32,
    pub indexes: Vec<NamedIndex>,
}

impl NamedTable {
    /// Returns the column family and the prefix. No two tables ever have the same pair.
    pub fn place(&self) -> (u32, u32) {
        (self.family, self.prefix)
    }
}

/// One index of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct NamedIndex {
    pub ordinal: u16,
    /// The name of the index. Empty: the table has no primary key, and this index stores its rows by the
    /// hidden id.
    pub name: String,
}

/// Reads the hint. A damaged hint counts as absent.
///
/// Requests: one GET.
pub(crate) async fn read(bucket: &Bucket) -> Result<TableNames> {
    match bucket.get(names::TABLES).await {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).unwrap_or_default()),
        Err(error) if error.is_not_found() => Ok(TableNames::default()),
        Err(error) => Err(error),
    }
}

/// Writes `json`, which has the present names of the tables, as the hint. Adds the names of gone tables from
/// the hint that it overwrites.
///
/// Errors: `Invalid`: the text is not the JSON of a hint. Requests: a GET, a PUT.
pub(crate) async fn write(bucket: &Bucket, json: &[u8]) -> Result<()> {
    let mut names: TableNames = serde_json::from_str(&String::from_utf8_lossy(json))
        .map_err(|error| StoreError::Invalid(format!("the names of the tables: {error}")))?;
    names.keep_gone(read(bucket).await?);
    let bytes = serde_json::to_vec(&names).map_err(|error| StoreError::Bug(error.to_string()))?;
    bucket.put(names::TABLES, bytes.into()).await
}

/// Writes the hint of `parent` into `child`, which has the same tables, so that the names are known before a
/// server of `child` has run. Failures are not reported: that server writes the hint, too. Requests: a GET, a PUT.
pub(crate) async fn pass_on(parent: &Bucket, child: &Bucket) {
    if let Ok(bytes) = parent.get(names::TABLES).await {
        let _ = child.put(names::TABLES, bytes).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::testing::test_db::block;

    fn named(name: &str, family: u32) -> NamedTable {
        NamedTable { name: name.to_owned(), family, ..NamedTable::default() }
    }

    fn written(bucket: &Bucket, tables: Vec<NamedTable>) -> TableNames {
        let names = TableNames { tables, gone: Vec::new() };
        block(write(bucket, &serde_json::to_vec(&names).unwrap())).unwrap();
        block(read(bucket)).unwrap()
    }

    #[test]
    fn the_names_of_tables_that_went_are_kept_the_latest_first() {
        let bucket = Bucket::in_memory();
        written(&bucket, vec![named("a", 1), named("b", 2)]);
        let names = written(&bucket, vec![named("renamed", 2)]);
        assert_eq!((names.tables, names.gone), (vec![named("renamed", 2)], vec![named("a", 1)]));
        let names = written(&bucket, vec![named("c", 3)]);
        assert_eq!(names.gone, [named("renamed", 2), named("a", 1)]);
        assert!(block(write(&bucket, b"{")).is_err());
        assert_eq!(block(read(&bucket)).unwrap(), names, "the hint stays");
    }

    #[test]
    fn a_clone_knows_the_names_of_its_parent_before_its_server_has_run() {
        let parent = Bucket::in_memory();
        let child = parent.sibling("child").unwrap();
        block(pass_on(&parent, &child));
        assert_eq!(block(read(&child)).unwrap(), TableNames::default(), "the parent has no hint");
        let names = written(&parent, vec![named("a", 1)]);
        block(pass_on(&parent, &child));
        assert_eq!(block(read(&child)).unwrap(), names);
    }

    #[test]
    fn a_damaged_hint_is_as_good_as_none_and_an_older_one_has_none_that_went() {
        let bucket = Bucket::in_memory();
        block(bucket.put(names::TABLES, "{".into())).unwrap();
        assert_eq!(written(&bucket, vec![named("a", 1)]).gone, []);
        block(bucket.put(names::TABLES, r#"{"tables": []}"#.into())).unwrap();
        assert_eq!(block(read(&bucket)).unwrap(), TableNames::default());
    }

    #[test]
    fn no_more_names_are_kept_than_there_may_be() {
        let bucket = Bucket::in_memory();
        written(&bucket, (0..GONE_MAX as u32 + 10).map(|family| named("t", family)).collect());
        assert_eq!(written(&bucket, Vec::new()).gone.len(), GONE_MAX);
    }
}
