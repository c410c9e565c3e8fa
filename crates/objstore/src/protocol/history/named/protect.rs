//! Protection of snapshots: no program of Atoll drops a protected snapshot before the date of its protection.
//!
//! ```text
//! a program that protects S                    a program that drops S
//!   create snapshot/<P>-until-<seconds>          list snapshot/: is S protected? refuse
//!   does the name of S still exist?              mark the name of S as dropped
//!   no: delete the protection, S is gone         list snapshot/ again: protected? name S again, refuse
//!                                                delete the pin of S, and its protections that have ended
//! ```
//!
//! P is the random part of the pin's key. So no later snapshot of the same name has a protection with this
//! key, which a DELETE that lands late could take away. Earlier versions wrote the digits of the name in its
//! place; such a protection counts for the snapshot that has the name.
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

/// When each protection ends, in seconds since 1970, by what it protects ([`protected`]).
#[derive(Debug, Default)]
pub(in crate::protocol) struct Protections(HashMap<String, u64>);

impl Protections {
    /// Reads all protections. Requests: a LIST.
    pub(in crate::protocol) async fn read(bucket: &Bucket) -> Result<Self> {
        Ok(Self::among(&bucket.list(names::SNAPSHOT_DIR, None).await?))
    }

    pub(in crate::protocol) fn among(objects: &[ObjectInfo]) -> Self {
        let mut latest = HashMap::new();
        for (key, until_s) in objects.iter().filter_map(|object| names::parse_protection(&object.key)) {
            let entry = latest.entry(key.to_owned()).or_insert(until_s);
            *entry = until_s.max(*entry);
        }
        Self(latest)
    }

    /// Returns until when the snapshot `name` with the pin `pin` is protected; this can be a time that
    /// has passed. None: it was never protected.
    pub(in crate::protocol) fn until_s(&self, name: &str, pin: &str) -> Option<u64> {
        let keys = [protected(pin), SnapshotName::key(name, 0)];
        keys.iter().filter_map(|key| self.0.get(key)).max().copied()
    }
}

/// Returns what the key of a protection begins with, if it protects the snapshot with the pin `pin`.
pub(in crate::protocol) fn protected(pin: &str) -> String {
    format!("{}{}", names::SNAPSHOT_DIR, pin.strip_prefix(names::PIN_DIR).unwrap_or(pin))
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
        let named = self.snapshot_pin(name).await?;
        let (key, nonce) = (names::protection(&protected(&named.pin), until_s), random_nonce()?);
        self.bucket().create_slot(&key, Bytes::copy_from_slice(&nonce), &nonce).await?;
        // Rule PROTECT-1: another program may have dropped the snapshot before it could see this
        // protection. So the snapshot must still exist now; otherwise the protection is deleted again.
        let still = self.snapshot_pin(name).await;
        let is_gone = match &still {
            Ok(still) => still.pin != named.pin,
            Err(error) => error.is_not_found(),
        };
        if is_gone {
            self.bucket().delete(&key).await?;
            let object = format!("snapshot '{name}', which was dropped meanwhile");
            return Err(StoreError::NotFound { operation: "protecting", object });
        }
        still?;
        Ok(Protections::read(self.bucket()).await?.until_s(name, &named.pin).unwrap_or(until_s))
    }

    /// Checks that the snapshot `name` is not protected. Errors: `Invalid` if it is. Requests: a LIST.
    pub(in crate::protocol) async fn check_unprotected(&self, name: &str, pin: &str) -> Result<()> {
        match Protections::read(self.bucket()).await?.until_s(name, pin) {
            Some(until_s) if until_s > now_s() => Err(StoreError::Invalid(format!(
                "the snapshot '{name}' is protected until {}: it cannot be dropped before",
                moment(until_s)
            ))),
            _ => Ok(()),
        }
    }

    /// Checks that the pin `key` does not belong to a protected snapshot. Errors: `Invalid` if it is.
    pub(in crate::protocol) async fn check_pin_unprotected(&self, key: &str) -> Result<()> {
        match pin::read(self.bucket(), key).await {
            Ok(pin) if pin.kind == PinKind::Snapshot => self.check_unprotected(&pin.name, key).await,
            Ok(_) | Err(StoreError::Corruption(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Deletes the protections of the snapshot `name`, which was dropped.
    pub(in crate::protocol) async fn forget_protections(&self, name: &str, pin: &str) -> Result<()> {
        let own = [protected(pin), SnapshotName::key(name, 0)];
        for object in self.bucket().list(names::SNAPSHOT_DIR, None).await? {
            let snapshot = names::parse_protection(&object.key).map(|(snapshot, _)| snapshot);
            if snapshot.is_some_and(|snapshot| own.iter().any(|own| own == snapshot)) {
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
