//! `hint/tables`: the names that the tables in the bucket have, for people and tools that look at it from outside.
//!
//! The catalog itself lies in table files, which only RocksDB reads. So the owner writes the names down beside them, a few seconds
//! after they have changed. Advice only: nothing rests on it, it may be late, absent or damaged, and a start without it loses
//! nothing. JSON, so that others can read it, too (docs/internals/formats-bucket.md).

use crate::error::Result;
use crate::protocol::format::names;
use crate::requests::bucket::Bucket;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// What the hint says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableNames {
    /// Tables and partitions; `t#P#p0` is partition `p0` of `t`.
    pub tables: Vec<NamedTable>,
}

/// One table or partition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct NamedTable {
    pub database: String,
    pub name: String,
    /// Where its rows are: see [`FileOwner`](crate::protocol::FileOwner).
    pub family: u32,
    pub prefix: u32,
    pub indexes: Vec<NamedIndex>,
}

/// One index of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct NamedIndex {
    pub ordinal: u16,
    /// Empty: the hidden primary key of a table without one.
    pub name: String,
}

/// Reads the hint. A damaged one is as good as none.
///
/// Requests: one GET.
pub(crate) async fn read(bucket: &Bucket) -> Result<TableNames> {
    match bucket.get(names::TABLES).await {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).unwrap_or_default()),
        Err(error) if error.is_not_found() => Ok(TableNames::default()),
        Err(error) => Err(error),
    }
}

/// Writes `json`, the hint as the owner made it.
///
/// Requests: one PUT.
pub(crate) async fn write(bucket: &Bucket, json: Bytes) -> Result<()> {
    bucket.put(names::TABLES, json).await
}
