//! Removes a database: deletes all its objects, and releases its pins in its parents.
//!
//! ```text
//! refuse the database if it has an owner that may still run, if clones read its files, if a program copies
//! it, or if a snapshot is protected
//! claim epoch E, close the former epochs, create root/E/0    no server publishes any more
//! create a horizon, list the pins once more                  no clone begins any more (PIN-1)
//! delete all objects but db.json, the claims, root/E/0 and the horizon
//! release the pins in the parents; delete db.json            now there is no database
//! delete root/E/0, the horizon, and the claims, the newest last
//! ```
//!
//! REMOVE-1: a removal that dies can be repeated. Until then no server opens what is left as an empty database:
//!     the claims and root/E/0 say that there was a state, which is not there any more.
//! REMOVE-2: no object is deleted while a clone has a pin. A clone that begins later gives up, because its root
//!     is below the horizon.
//!
//! Objects whose names are not of the protocol stay.

use crate::date::utc_seconds;
use crate::error::{Result, StoreError};
use crate::protocol::copies::adopt::claimer;
use crate::protocol::format::names;
use crate::protocol::format::records::{Alive, RootId};
use crate::protocol::gc::{Needs, Use};
use crate::protocol::history::hand_over::own_takings;
use crate::protocol::history::snapshot::SNAPSHOT;
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::start::alive;
use crate::protocol::start::claim::{StopAfter, close_and_claim, newest_epoch, take_epoch, wall_clock_ms};
use crate::protocol::start::home::Home;
use crate::protocol::start::identity;
use crate::protocol::start::local::random_nonce;
use crate::requests::bucket::ObjectInfo;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use serde::Serialize;

/// The beginning of the name with which a removing program claims its epoch.
const REMOVES: &str = "removal";
const PARALLEL_DELETES: usize = 8;
/// How many objects are deleted between two looks for a newer claim.
const BATCH: usize = 1000;

/// What [`Inspector::remove`] deletes.
#[derive(Debug, Clone, Default, Serialize)]
#[allow(missing_docs)]
pub struct RemovalStatus {
    /// Empty: only the last objects of a removal that died are left.
    pub db_uuid: String,
    pub objects: u64,
    pub bytes: u64,
    /// Objects in the prefix that are not Atoll's, which stay.
    pub left_alone: u64,
    /// The snapshots that are lost with the database.
    pub snapshots: Vec<String>,
    /// The databases whose files this one could read, and whose pins for it are released.
    pub parents: Vec<String>,
}

impl Inspector {
    /// Checks that the database can be removed, and returns what would be deleted. `takes_over`: the owner did
    /// not close the database, and surely does not run any more.
    ///
    /// Errors: `NotFound` without a database; `Invalid` when somebody needs the database; `ReadOnly` when a
    /// server owns it or may own it. Requests: LISTs, and a GET or two for each pin outside of the history.
    pub async fn plan_removal(&self, takes_over: bool) -> Result<RemovalStatus> {
        let (own, others): (Vec<_>, Vec<_>) = self.objects().await?.into_iter().partition(is_of_protocol);
        let mut status = RemovalStatus {
            objects: own.len() as u64,
            bytes: own.iter().map(|object| object.size).sum(),
            left_alone: others.len() as u64,
            ..RemovalStatus::default()
        };
        let Some(found) = identity::read(self.bucket()).await? else {
            self.check_leftovers(&own).await?;
            return Ok(status);
        };
        status.snapshots = self.refuse_needed().await?;
        self.refuse_other_owner(takes_over).await?;
        status.db_uuid = found.db_uuid;
        status.parents = found.parent.map(|parent| parent.origins).unwrap_or_default();
        Ok(status)
    }

    /// Removes the database. `creator`: the name of this program, for its claim. `takes_over`: as in
    /// [`Inspector::plan_removal`]. Returns what was deleted.
    ///
    /// Errors: as [`Inspector::plan_removal`], and then nothing was deleted; `Invalid` also when somebody
    /// claimed the database meanwhile; those of the bucket. After any other error the caller repeats the call.
    /// Requests: those of the plan and of a claim, a DELETE for each object, a HEAD and a PUT for each parent.
    pub async fn remove(&self, creator: &str, takes_over: bool) -> Result<RemovalStatus> {
        let status = self.plan_removal(takes_over).await?;
        let bucket = self.bucket();
        let mut epoch = newest_epoch(bucket).await?;
        if !status.db_uuid.is_empty() {
            epoch = self.remove_but_claims(creator, takes_over).await?;
            bucket.delete(names::DB).await?;
        }
        self.delete_but(epoch, |key| names::parse_epoch(key).is_some()).await?;
        for old in 1..=epoch {
            bucket.delete(&names::epoch(old)).await?;
        }
        Ok(status)
    }

    /// Deletes all objects of the database but db.json, the claims, and what belongs to the newest claim, which
    /// this program makes. Releases the pins in the parents. Returns the epoch of the claim. Errors, requests:
    /// as [`Inspector::remove`].
    pub(in crate::protocol) async fn remove_but_claims(
        &self,
        creator: &str,
        takes_over: bool,
    ) -> Result<u64> {
        let RemovalStatus { db_uuid, parents, .. } = self.plan_removal(takes_over).await?;
        let (bucket, server_id) = (self.bucket(), format!("{REMOVES} by {creator}"));
        let epoch = take_epoch(bucket, &server_id, &Home::default()).await?.number;
        if let Err(error) = self.close_for_good(epoch, &server_id).await {
            // The next server need not wait for this process.
            let _ = alive::show(bucket, &Alive::gone(epoch, &server_id)).await;
            return Err(error);
        }
        let takings = own_takings(self).await?;
        self.delete_but(epoch, |key| stays_longer(key, epoch)).await?;
        self.release_pins(&db_uuid, &parents).await?;
        for (id, origin) in takings {
            self.release_pins(&id, &[origin]).await?;
        }
        Ok(epoch)
    }

    /// Takes the right to publish from every other program, and makes sure that no clone can begin any more.
    async fn close_for_good(&self, epoch: u64, server_id: &str) -> Result<()> {
        close_and_claim(self.bucket(), epoch, server_id, StopAfter::Nothing).await?;
        let (RootId { epoch, slot }, nonce) = (horizon_of(epoch), random_nonce()?);
        let key = names::horizon(epoch, slot);
        self.bucket().create_slot(&key, Bytes::copy_from_slice(&nonce), &nonce).await?;
        self.refuse_needed().await.map(drop)
    }

    /// Refuses a database that somebody needs. Returns the names of its snapshots. Errors: `Invalid`.
    async fn refuse_needed(&self) -> Result<Vec<String>> {
        let pins = self.pins().await?;
        let needed = pins.iter().find_map(|pin| match (pin.kind.as_str(), pin.protected_until_s) {
            ("clone", _) => Some(format!(
                "the clone at {} reads its files. Remove that clone first, or materialize it; if it does not exist any more: \
                 atollctl snapshot drop URL {} --pin",
                pin.name, pin.pin
            )),
            ("copy", _) => Some(format!(
                "{} reads it ({}). Wait until that has ended; if it has died: atollctl snapshot drop URL {} --pin",
                pin.creator, pin.name, pin.pin
            )),
            ("unknown", _) => Some(format!("{} cannot be read: {}", pin.pin, pin.problem)),
            (_, Some(until_s)) if until_s > wall_clock_ms() / 1000 => {
                Some(format!("the snapshot '{}' is protected until {} UTC", pin.name, utc_seconds(until_s)))
            }
            _ => None,
        });
        match needed {
            Some(why) => Err(StoreError::Invalid(format!("nothing was removed: {why}"))),
            None => Ok(pins.into_iter().filter(|pin| pin.kind == SNAPSHOT).map(|pin| pin.name).collect()),
        }
    }

    /// Refuses a database whose owner may live. A removing program that died is no owner. Errors:
    /// `ReadOnly`.
    async fn refuse_other_owner(&self, takes_over: bool) -> Result<()> {
        match alive::look(self.bucket(), &Home::default()).await? {
            Some(sight) if !takes_over && !sight.server_id.starts_with(REMOVES) => {
                Err(StoreError::ReadOnly(format!(
                    "nothing was removed: {} has not said good-bye. Stop it first; if it surely does not run any more, give \
                     --take-over",
                    sight.owner()
                )))
            }
            _ => Ok(()),
        }
    }

    /// Checks that `own` are the last objects of a removal that died. Errors: `NotFound` if not.
    async fn check_leftovers(&self, own: &[ObjectInfo]) -> Result<()> {
        let epoch = newest_epoch(self.bucket()).await?;
        let claimed_by = if epoch == 0 { None } else { claimer(self.bucket(), epoch).await? };
        let is_removal = claimed_by.is_some_and(|name| name.starts_with(REMOVES));
        if is_removal && own.iter().all(|object| stays_longer(&object.key, epoch)) {
            return Ok(());
        }
        self.check_exists().await
    }

    /// Deletes the objects of the protocol for which `stays` is false. Errors: `Invalid` when a server has
    /// claimed the database.
    async fn delete_but(&self, epoch: u64, stays: impl Fn(&str) -> bool) -> Result<()> {
        let bucket = self.bucket();
        let mut keys: Vec<String> =
            self.objects().await?.into_iter().filter(is_of_protocol).map(|o| o.key).collect();
        keys.retain(|key| !stays(key));
        for batch in keys.chunks(BATCH) {
            if newest_epoch(bucket).await? != epoch {
                return Err(StoreError::Invalid(
                    "a server has opened the database while it was being removed, and has no whole database. Stop it, and repeat"
                        .to_owned(),
                ));
            }
            let deletes =
                stream::iter(batch).map(|key| bucket.delete(key)).buffer_unordered(PARALLEL_DELETES);
            deletes.try_collect::<()>().await?;
        }
        Ok(())
    }
}

/// The root below which everything may be deleted: all roots before epoch `epoch`.
fn horizon_of(epoch: u64) -> RootId {
    RootId { epoch, slot: 1 }
}

/// Whether the object `key` stays until the rest of the database is gone (REMOVE-1).
fn stays_longer(key: &str, epoch: u64) -> bool {
    let RootId { epoch, slot } = horizon_of(epoch);
    key == names::DB
        || names::parse_epoch(key).is_some()
        || key == names::root(epoch, 0)
        || key == names::horizon(epoch, slot)
        || key.starts_with(names::TAKEN) // names the pins to release
}

fn is_of_protocol(object: &ObjectInfo) -> bool {
    Needs::nothing().use_of(&object.key, Some(object.size), |_| false) != Use::Foreign
}

#[cfg(test)]
#[path = "remove_test.rs"]
mod tests;
