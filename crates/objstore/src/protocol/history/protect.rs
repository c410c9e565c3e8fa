//! Protection of snapshots: no program of Atoll drops a protected snapshot before the date of its protection.
//!
//! ```text
//! a program that protects S                    a program that drops S
//!   create snapshot/<S>-until-<seconds>          list snapshot/: is S protected? refuse
//!   does the name of S still exist?              delete the name of S
//!   no: delete the protection, S is gone         list snapshot/ again: protected? create the name, refuse
//!                                                delete the pin of S, and its protections that have ended
//! ```
//!
//! PROTECT-1: if one program protects S while another one drops S, at least one of them sees what the other
//!     did and gives up. So a snapshot that was reported as protected exists. A clock only decides whether a
//!     protection has ended: the clock of the machine that drops the snapshot.
//! PROTECT-2: no program shortens a protection: if a snapshot has several protections, the latest date
//!     counts. Only Atoll's own programs respect protections. Another program can delete a protected snapshot
//!     if its user has the right to delete objects in the bucket. Only the object lock of the bucket prevents
//!     that.

use crate::date::utc_seconds;
use crate::error::{Result, StoreError};
use crate::protocol::format::names;
use crate::protocol::history::pin::{self, PinKind, SnapshotName};
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::start::claim::wall_clock_ms;
use crate::protocol::start::local::random_nonce;
use crate::requests::bucket::{Bucket, ObjectInfo};
use bytes::Bytes;
use std::collections::HashMap;

/// When the protection of each snapshot ends, in seconds since 1970, by the key of the record with the
/// snapshot's name.
#[derive(Debug, Default)]
pub(in crate::protocol) struct Protections(HashMap<String, u64>);

impl Protections {
    /// Reads all protections. Requests: a LIST.
    pub(in crate::protocol) async fn read(bucket: &Bucket) -> Result<Self> {
        Ok(Self::among(&bucket.list(names::SNAPSHOT_DIR, None).await?))
    }

    fn among(objects: &[ObjectInfo]) -> Self {
        let mut latest = HashMap::new();
        for (key, until_s) in objects.iter().filter_map(|object| names::parse_protection(&object.key)) {
            let entry = latest.entry(key.to_owned()).or_insert(until_s);
            *entry = until_s.max(*entry);
        }
        Self(latest)
    }

    /// Returns until when the snapshot `name` is protected, which is possibly a time that has passed. None:
    /// it was never protected.
    pub(in crate::protocol) fn until_s(&self, name: &str) -> Option<u64> {
        self.0.get(&SnapshotName::key(name)).copied()
    }
}

impl Inspector {
    /// Protects the snapshot `name` until `until_s`, in seconds since 1970. Returns until when it is
    /// protected now: a time later than `until_s` if another protection of the snapshot lasts longer.
    ///
    /// Errors: `NotFound` without the snapshot; `Invalid` for an `until_s` that has passed. Requests: two
    /// GETs, a HEAD, a PUT and a LIST.
    pub async fn protect_snapshot(&self, name: &str, until_s: u64) -> Result<u64> {
        if until_s <= now_s() {
            return Err(StoreError::Invalid(format!("{} is over", moment(until_s))));
        }
        self.snapshot_pin(name).await?;
        let (key, nonce) = (names::protection(&SnapshotName::key(name), until_s), random_nonce()?);
        self.bucket().create_slot(&key, Bytes::copy_from_slice(&nonce), &nonce).await?;
        // Rule PROTECT-1: another program has possibly dropped the snapshot before it could see this
        // protection. So the snapshot must still exist now; otherwise the protection is deleted again.
        if let Err(error) = self.snapshot_pin(name).await {
            if error.is_not_found() {
                self.bucket().delete(&key).await?;
            }
            return Err(error);
        }
        Ok(Protections::read(self.bucket()).await?.until_s(name).unwrap_or(until_s))
    }

    /// Checks that the snapshot `name` is not protected. Errors: `Invalid` if it is. Requests: a LIST.
    pub(in crate::protocol) async fn check_unprotected(&self, name: &str) -> Result<()> {
        match Protections::read(self.bucket()).await?.until_s(name) {
            Some(until_s) if until_s > now_s() => Err(StoreError::Invalid(format!(
                "the snapshot '{name}' is protected until {}: nobody drops it before",
                moment(until_s)
            ))),
            _ => Ok(()),
        }
    }

    /// Checks that the pin `key` is not that of a protected snapshot. Errors: `Invalid` if it is.
    pub(in crate::protocol) async fn check_pin_unprotected(&self, key: &str) -> Result<()> {
        match pin::read(self.bucket(), key).await {
            Ok(pin) if pin.kind == PinKind::Snapshot => self.check_unprotected(&pin.name).await,
            Ok(_) | Err(StoreError::Corruption(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Deletes the protections of the snapshot `name`, which was dropped.
    pub(in crate::protocol) async fn forget_protections(&self, name: &str) -> Result<()> {
        let own = SnapshotName::key(name);
        for object in self.bucket().list(names::SNAPSHOT_DIR, None).await? {
            if names::parse_protection(&object.key).is_some_and(|(snapshot, _)| snapshot == own) {
                self.bucket().delete(&object.key).await?;
            }
        }
        Ok(())
    }
}

fn now_s() -> u64 {
    wall_clock_ms() / 1000
}

fn moment(seconds: u64) -> String {
    format!("{} UTC", utc_seconds(seconds))
}
