//! Merges WAL chunks into bigger objects, so that a restore reads few objects whatever the load was.
//!
//! One task per database does one merge at a time; while no chunk arrives, it has nothing to do. The objects
//! are read back from the bucket and checked, so that the object which takes their place holds what a restore
//! would have read. A merge holds the new object in memory, and each chunk only until it has been copied into
//! that object: at most 32 MiB when chunks are merged, 64 MiB when merged objects are.
//!
//! MERGE-1: a merged object is read only through a root that names it (the publisher is woken to publish
//!          one), and the objects that went into it are deleted only after that root (gc/). So a merged
//!          object does no harm if it arrives late, if it is written twice, or if no root ever names it. A
//!          fenced owner can publish no root, so no server reads the merged objects that it writes.
//! MERGE-2: a merge leaves the chunks in their slots. The server that closes the epoch goes through the
//!          chunks with higher numbers than the last merged one.

use crate::error::{Result, StoreError};
use crate::protocol::format::image::{Chain, read_chunk, read_run};
use crate::protocol::format::names;
use crate::protocol::format::slots::settle;
use crate::protocol::shared::Shared;
use crate::protocol::start::local::random_nonce;
use crate::protocol::wal::wal_record::MergedChunks;
use crate::protocol::wal::wal_runs::{Merge, Source};
use crate::requests::bucket::SlotOutcome;
use crate::requests::upload::blocking;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use std::sync::Arc;
use std::time::Duration;

/// The most GETs that run at once. Memory does not require fewer, because all chunks of one merge fit into it
/// (MergeLimits). The sooner a merge ends, the fewer chunks arrive meanwhile.
const PARALLEL_GETS: usize = 32;
const RETRY_DELAY: Duration = Duration::from_secs(10);

/// Runs until the database is closed or fenced.
pub(crate) async fn run(shared: Arc<Shared>) {
    while !shared.is_ending() {
        let Some(merge) = plan(&shared) else {
            shared.wake_merger.notified().await;
            continue;
        };
        match carry_out(&shared, &merge).await {
            Ok(()) => shared.merged.notify_one(),
            // A root that needs none of these chunks was published meanwhile, and they were deleted.
            Err(StoreError::NotFound { .. }) if plan(&shared).as_ref() != Some(&merge) => {}
            Err(error) => {
                shared.report("merging chunks of the WAL in the bucket", &error);
                tokio::time::sleep(RETRY_DELAY).await;
            }
        }
    }
}

fn plan(shared: &Shared) -> Option<Merge> {
    shared.lock().wal.plan_merge(&shared.tuning.merge)
}

/// Reads the objects that `merge` names and writes them as one object.
///
/// Errors: `NotFound` when an object is gone; `Corruption` names the one that is damaged.
/// Requests: one GET per object, one PUT.
async fn carry_out(shared: &Arc<Shared>, merge: &Merge) -> Result<()> {
    let chunks = read_sources(shared, merge).await?;
    shared.lock().wal.runs.begin(merge);
    let nonce = random_nonce()?;
    let (epoch, first) = (shared.epoch, merge.first);
    let bytes = blocking(move || Ok(MergedChunks::encode(epoch, first, chunks, &nonce))).await?;
    let (key, bytes) = (names::merged_chunks(epoch, first, merge.end), Bytes::from(bytes));
    let report = |error: &StoreError| shared.report("merging chunks of the WAL in the bucket", error);
    match settle(&shared.slots(), &key, &bytes, &nonce, report).await? {
        SlotOutcome::Mine => shared.lock().wal.runs.merged(merge, bytes.len() as u64),
        SlotOutcome::Lost(_) => shared.slot_taken(&key),
    }
    Ok(())
}

/// Reads the objects of all chunks of `merge` and checks them.
async fn read_sources(shared: &Arc<Shared>, merge: &Merge) -> Result<Vec<Bytes>> {
    let mut reads =
        stream::iter(merge.sources.clone()).map(|source| read(shared, source)).buffered(PARALLEL_GETS);
    let mut chain = Chain::new(shared.epoch);
    let mut chunks = Vec::new();
    while let Some(objects) = reads.next().await {
        for object in objects? {
            chain.check(merge.first + chunks.len() as u64, &object)?;
            chunks.push(object);
        }
    }
    Ok(chunks)
}

async fn read(shared: &Shared, source: Source) -> Result<Vec<Bytes>> {
    match source {
        Source::Run(run) => read_run(&shared.bucket, shared.epoch, run).await,
        Source::Chunk(chunk) => match read_chunk(&shared.bucket, shared.epoch, chunk).await? {
            Some(object) => Ok(vec![object]),
            None => Err(StoreError::NotFound {
                operation: "reading",
                object: names::wal_chunk(shared.epoch, chunk),
            }),
        },
    }
}
