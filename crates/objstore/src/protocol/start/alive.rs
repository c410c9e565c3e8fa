//! Signs of life: the owner shows in the bucket that it lives, and a starting server looks for such signs
//! before it claims the database.
//!
//! No safety argument rests on this. The hint can be wrong, late or absent; fencing alone keeps two writers
//! apart.
//!
//! The claim of an epoch names its owner's *home*: the boot id of the machine, and the device and inode of
//! `<local_dir>.lock`. The owner keeps that file locked as long as it lives. So a process that holds the lock
//! of the same file in the same boot knows without waiting that the owner is dead. A copy of the directory
//! has another lock file, and a copy of the machine has another boot id. The home is not stored in the
//! directory, so it is not copied with the directory. Names, addresses and machine ids are not used, because
//! copies share them and containers change them.

use crate::error::{Result, StoreError};
use crate::protocol::format::names;
use crate::protocol::format::records::{Alive, EpochClaim};
use crate::protocol::start::claim::newest_epoch;
use crate::protocol::start::home::Home;
use crate::protocol::start::local::random_nonce;
use crate::requests::bucket::Bucket;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Linux: a random id of the running kernel, one for all containers of a machine, another after each boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// What a starting server sees in the bucket, at one moment, of an owner that may live. If it changes,
/// the owner lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sight {
    /// The newest epoch that anybody has claimed, and the server that claimed it.
    pub(crate) newest_epoch: u64,
    pub(crate) server_id: String,
    /// The content of the hint; None when it is absent or damaged. A former owner may have written it.
    pub(crate) hint: Option<Alive>,
}

impl Sight {
    /// The owner's name for messages.
    pub(crate) fn owner(&self) -> String {
        format!("server '{}' (epoch {})", self.server_id, self.newest_epoch)
    }
}

/// Returns the home (see the head of this file) of the process that holds `lock`, the lock file of its
/// directory.
///
/// Errors: the local disk's. Without a boot id of the machine, the home counts as different from any
/// other.
pub(crate) fn home_of(lock: &File, dir: &Path) -> Result<Home> {
    let meta = lock.metadata().map_err(|e| StoreError::from_io("reading the lock of", dir, &e))?;
    let boot = std::fs::read_to_string(BOOT_ID).unwrap_or_default();
    Ok(Home { boot: boot.trim().to_owned(), device: meta.dev(), inode: meta.ino() })
}

/// Writes the hint: the owner lives, or it has shut down in order (`closed`: it has said good-bye).
///
/// Requests: one PUT.
pub(crate) async fn show(bucket: &Bucket, alive: &Alive) -> Result<()> {
    bucket.put(names::ALIVE, alive.encode(&random_nonce()?).into()).await
}

/// Reads the hint. Returns None when it is absent or damaged.
///
/// Requests: one GET.
pub(crate) async fn read(bucket: &Bucket) -> Result<Option<Alive>> {
    match bucket.get(names::ALIVE).await {
        Ok(bytes) => Ok(Alive::decode(&bytes).ok()),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Looks for an owner that may live. `home`: the home of this process, which holds the lock of its
/// directory.
///
/// Returns None when it is certain that no owner lives: the database has had no owner, the last owner's hint
/// says that it shut down (a good-bye), or the last owner ran in `home`. A good-bye counts only when it is of
/// the newest epoch, because a former owner that has not noticed its successor may write the hint, too.
/// Requests: one LIST of the claims (a page per 1,000), at most two GETs.
pub(crate) async fn look(bucket: &Bucket, home: &Home) -> Result<Option<Sight>> {
    let newest_epoch = newest_epoch(bucket).await?;
    if newest_epoch == 0 {
        return Ok(None);
    }
    let hint = read(bucket).await?;
    if hint.as_ref().is_some_and(|hint| hint.epoch == newest_epoch && hint.closed) {
        return Ok(None);
    }
    let (server_id, lived) = claimer(bucket, newest_epoch).await?;
    Ok((!lived.is_same(home)).then_some(Sight { newest_epoch, server_id, hint }))
}

/// Returns the server that claimed `epoch`, and its home. When the claim cannot be read, both are unknown, so
/// that the owner counts as one that may live.
pub(crate) async fn claimer(bucket: &Bucket, epoch: u64) -> Result<(String, Home)> {
    let unknown = || ("unknown".to_owned(), Home::default());
    match bucket.get(&names::epoch(epoch)).await {
        Ok(bytes) => {
            Ok(EpochClaim::decode(&bytes).map_or_else(|_| unknown(), |claim| (claim.server_id, claim.home)))
        }
        Err(error) if error.is_not_found() => Ok(unknown()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::start::claim::take_epoch;
    use crate::requests::stuck::{Hurt, Verb, stuck_bucket};
    use std::time::Duration;

    fn home(boot: &str, device: u64, inode: u64) -> Home {
        Home { boot: boot.to_owned(), device, inode }
    }

    /// A bucket whose epochs 1, 2 and so on were claimed from these homes, in this order.
    async fn claimed(homes: &[Home]) -> Bucket {
        let bucket = Bucket::in_memory();
        for home in homes {
            take_epoch(&bucket, "s:1", home).await.unwrap();
        }
        bucket
    }

    async fn show_hint(bucket: &Bucket, epoch: u64, closed: bool) {
        show(bucket, &Alive { epoch, server_id: "s:1".to_owned(), counter: 0, closed, covered_us: None })
            .await
            .unwrap();
    }

    #[tokio::test]
    async fn only_the_same_lock_in_the_same_boot_proves_that_the_owner_is_dead() {
        let bucket = claimed(&[home("boot", 3, 3), home("boot", 1, 2)]).await;
        for hint in ["none", "of the former owner", "of the owner"] {
            match hint {
                "of the former owner" => show_hint(&bucket, 1, true).await,
                "of the owner" => show_hint(&bucket, 2, false).await,
                _ => {}
            }
            assert_eq!(look(&bucket, &home("boot", 1, 2)).await.unwrap(), None, "hint {hint}");
            for other in [home("x", 1, 2), home("boot", 9, 2), home("boot", 1, 9), home("boot", 3, 3)] {
                let sight = look(&bucket, &other).await.unwrap();
                assert!(
                    sight.is_some_and(|s| s.owner() == "server 's:1' (epoch 2)"),
                    "{other:?}, hint {hint}"
                );
            }
        }
        show_hint(&bucket, 2, true).await;
        assert_eq!(look(&bucket, &home("x", 1, 2)).await.unwrap(), None, "it said good-bye");
    }

    #[tokio::test]
    async fn a_home_without_a_boot_id_is_like_no_other() {
        let bucket = claimed(&[home("", 1, 2)]).await;
        assert!(look(&bucket, &home("", 1, 2)).await.unwrap().is_some());
    }

    #[tokio::test]
    async fn damaged_or_missing_traces_may_be_of_a_live_owner() {
        let home = home("boot", 1, 2);
        assert_eq!(look(&Bucket::in_memory(), &home).await.unwrap(), None, "nobody was ever there");
        let bucket = claimed(std::slice::from_ref(&home)).await;
        bucket.put(names::ALIVE, b"damaged".to_vec().into()).await.unwrap();
        bucket.delete(&names::epoch(1)).await.unwrap();
        let damaged = b"0123456789abcdef";
        bucket.create_slot(&names::epoch(1), damaged.to_vec().into(), damaged).await.unwrap();
        assert!(look(&bucket, &home).await.unwrap().is_some());
        bucket.delete(names::ALIVE).await.unwrap();
        assert!(look(&bucket, &home).await.unwrap().is_some());
    }

    /// Rule LIST-1.
    #[tokio::test]
    async fn a_listing_that_shows_no_claim_is_not_believed() {
        let (bucket, store) = stuck_bucket(1000, Duration::from_secs(2));
        for _ in 0..3 {
            take_epoch(&bucket, "s:1", &home("boot", 1, 2)).await.unwrap();
        }
        store.hurt(Verb::List, "epoch", 0, 2, Hurt::Lies);
        let sight = look(&bucket, &home("boot", 1, 3)).await.unwrap();
        assert_eq!(sight.map(|sight| sight.newest_epoch), Some(3));
        store.hurt(Verb::List, "epoch", 0, 100, Hurt::Lies);
        let refused = look(&bucket, &home("boot", 1, 3)).await;
        assert!(matches!(&refused, Err(StoreError::ReadOnly(why)) if why.contains("epoch/")), "{refused:?}");
    }

    #[test]
    fn a_copied_lock_file_is_another_home() {
        let dir = tempfile::tempdir().unwrap();
        let paths = [dir.path().join("db.lock"), dir.path().join("copy.lock")];
        File::create(&paths[0]).unwrap();
        std::fs::copy(&paths[0], &paths[1]).unwrap();
        let home = |path: &Path| home_of(&File::open(path).unwrap(), path).unwrap();
        assert!(home(&paths[0]).is_same(&home(&paths[0])));
        assert!(!home(&paths[0]).is_same(&home(&paths[1])));
    }
}
