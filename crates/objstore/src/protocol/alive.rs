//! Politeness between servers: the owner shows that it lives, a newcomer looks before it claims.
//!
//! No safety argument rests on this. The hint may be wrong, late or absent; fencing alone keeps two writers apart.

use super::local::random_nonce;
use super::names;
use super::records::Alive;
use crate::bucket::Bucket;
use crate::error::{Result, StoreError};
use std::time::Duration;
use tokio::time::Instant;

/// Writes the hint.
///
/// Requests: one PUT.
pub(crate) async fn show(bucket: &Bucket, alive: &Alive) -> Result<()> {
    bucket.put(names::ALIVE, alive.encode(&random_nonce()?).into()).await
}

/// Reads the hint. A damaged hint is as good as none.
pub(crate) async fn read(bucket: &Bucket) -> Result<Option<Alive>> {
    match bucket.get(names::ALIVE).await {
        Ok(bytes) => Ok(Alive::decode(&bytes).ok()),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Refuses when another server shows signs of life within `patience`.
///
/// `own_epoch`: the epoch of the local directory; its owner was a former life of this server, because the directory
/// is locked by this process.
/// Errors: `ReadOnly` names the other server.
/// Requests: one GET; when an owner might live, one more per tenth of `patience`.
pub(crate) async fn refuse_live_owner(bucket: &Bucket, own_epoch: u64, patience: Duration) -> Result<()> {
    let Some(first) = read(bucket).await? else { return Ok(()) };
    if first.closed || first.epoch == own_epoch {
        return Ok(());
    }
    let deadline = Instant::now() + patience;
    while Instant::now() < deadline {
        tokio::time::sleep(patience / 10).await;
        let Some(now) = read(bucket).await? else { continue };
        if now.closed {
            return Ok(());
        }
        if (now.epoch, now.counter) != (first.epoch, first.counter) {
            return Err(StoreError::ReadOnly(format!(
                "the database in {} is in use by server '{}' (epoch {}). Stop that server first, or start this \
                 one with atoll_take_over=ON to fence it off",
                bucket.place(),
                now.server_id,
                now.epoch
            )));
        }
    }
    Ok(())
}
