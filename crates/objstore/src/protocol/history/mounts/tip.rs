//! How far a database in a bucket has come, as its listings show it: what a reader asks for again and again.

use crate::error::Result;
use crate::protocol::format::names;
use crate::protocol::start::claim::newest_epoch;
use crate::requests::bucket::{Bucket, ObjectInfo};

/// The newest epoch, and the keys of its newest root and of the newest object of its log. When one of them changes, the
/// bucket may have commits that it did not have before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::protocol) struct Tip {
    epoch: u64,
    root: Option<String>,
    chunk: Option<String>,
}

impl Tip {
    /// Reads the tip. Requests: three LISTs and a HEAD.
    pub(in crate::protocol) async fn read(bucket: &Bucket) -> Result<Self> {
        let epoch = newest_epoch(bucket).await?;
        let (root, chunk) = later(bucket, epoch, None, None).await?;
        Ok(Self { epoch, root, chunk })
    }

    /// Whether the bucket has anything that it did not have when this tip was read. Every server that claims the database
    /// closes the epoch before with a record behind its last root, so a change of owner shows here, too. Requests: two
    /// LISTs.
    pub(in crate::protocol) async fn is_passed(&self, bucket: &Bucket) -> Result<bool> {
        let found = later(bucket, self.epoch, self.root.as_deref(), self.chunk.as_deref()).await?;
        Ok(found != (None, None))
    }
}

/// Returns the last root and the last object of the log of `epoch` behind these keys.
async fn later(
    bucket: &Bucket,
    epoch: u64,
    root: Option<&str>,
    chunk: Option<&str>,
) -> Result<(Option<String>, Option<String>)> {
    let last = |objects: Vec<ObjectInfo>| objects.into_iter().next_back().map(|object| object.key);
    let root = bucket.list(&names::root_dir(epoch), root).await?;
    let chunk = bucket.list(&names::wal_dir(epoch), chunk).await?;
    Ok((last(root), last(chunk)))
}
