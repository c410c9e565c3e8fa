//! What a replica by the binary log needs of the state with which it begins: a GTID position.

use crate::error::{Result, StoreError};
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::wal::position::Position;

/// Checks that a clone of the newest state of `primary` has a position in the binary log, from which a replica can go
/// on. A database without commits has none and needs none: its replica reads the binary log from the beginning.
///
/// Errors: `Invalid` when there are commits and none of them has a GTID: tell the user; `NotFound` without a database
/// or a root. Requests: those that read the newest root. Only if this root knows no GTID: also those that read its log.
pub async fn check_replica_start(primary: &Inspector) -> Result<()> {
    primary.check_exists().await?;
    if let Some((image, _)) = primary.newest_image().await?
        && image.root.position.is_some_and(|position| !position.gtids.is_empty())
    {
        return Ok(());
    }
    match can_begin(&primary.moment().await?.position) {
        true => Ok(()),
        false => Err(StoreError::Invalid(
            "no commit in the bucket has a GTID, so a replica would not know where to go on. Set log_bin in the primary's \
             configuration, restart it, and commit a change of an ATOLL table. When that has reached the bucket, repeat this \
             command"
                .to_owned(),
        )),
    }
}

/// Whether a replica that begins with a state at `position` misses nothing.
fn can_begin(position: &Position) -> bool {
    !position.gtids.is_empty() || position.time_us == 0
}

#[cfg(test)]
#[path = "replica_test.rs"]
mod tests;
