//! Puts a clone back to a state of its parent: removes the clone and makes it again in the same place.
//!
//! RESET-1: the state of the parent is looked for before anything is removed. A reset that dies leaves a clone
//!     that is still there, or a prefix in which `clone --discard-unfinished` makes it.
//! RESET-2: the claims of the former clone stay, so no object of the new one has a name for which a DELETE was
//!     sent (CLONE-6).

use crate::error::{Result, StoreError};
use crate::protocol::format::names;
use crate::protocol::history::clone::{CloneRequest, CloneStatus};
use crate::protocol::history::pin;
use crate::protocol::inspection::inspect::Inspector;
use crate::requests::bucket::Bucket;

impl Inspector {
    /// Checks that this clone can be put back, and returns access to its parent. `takes_over`: as in
    /// [`Inspector::plan_removal`].
    ///
    /// Errors: as [`Inspector::plan_removal`]; `Invalid` when this database is no clone; `NotFound` when the
    /// parent is gone. Requests: those of the plan, and a GET.
    pub async fn plan_reset(&self, takes_over: bool) -> Result<Self> {
        let no_clone =
            || StoreError::Invalid(format!("the database in {} is no clone", self.bucket().place()));
        let parent = self.identity().await?.parent.ok_or_else(no_clone)?;
        let there = Self::new(self.bucket().sibling(parent.origins.first().ok_or_else(no_clone)?)?);
        let found = there.identity().await?;
        if found.db_uuid != parent.db_uuid {
            return Err(StoreError::Invalid(format!(
                "{} holds another database now than the parent of this clone",
                there.bucket().place()
            )));
        }
        self.plan_removal(takes_over).await?;
        Ok(there)
    }

    /// Puts this clone back to the state of its parent that `request` names. The clone gets a new identity. It
    /// must be masked if the former one was made to be masked, and expires when that one did unless `request`
    /// says when. `takes_over`: as in [`Inspector::plan_removal`].
    ///
    /// Errors: as [`Inspector::plan_reset`]; those of finding the state, and then nothing was changed; later
    /// ones as [`Inspector::remove`] and [`Inspector::clone_to`]. Requests: those of these functions.
    pub async fn reset_clone(&self, request: &CloneRequest, takes_over: bool) -> Result<CloneStatus> {
        let parent = self.plan_reset(takes_over).await?;
        match &request.past {
            Some(past) => drop(parent.find(past).await?),
            None => drop(parent.moment().await?),
        }
        let own = self.identity().await?;
        let masked_in = own.masked_in;
        let expires_s = match request.expires_s {
            None => expiry_of_clone(parent.bucket(), &own.db_uuid).await?,
            given => given,
        };
        self.remove_but_claims(&request.creator, takes_over).await?;
        self.bucket().delete(names::DB).await?;
        let request = CloneRequest { discards_unfinished: true, expires_s, ..request.clone() };
        // A clone that has the duty of its parent only gets it from there again (MASK-3).
        match masked_in.len() {
            1 => parent.clone_to_mask(self.bucket(), &request).await,
            _ => parent.clone_to(self.bucket(), &request).await,
        }
    }
}

/// Checks that the database of `clone` is a clone of that of `parent`.
///
/// Errors: `Invalid` when it is no clone, or that of another database; `NotFound` when one of the two is not there.
/// Requests: two GETs.
pub async fn check_clone_of(clone: &Inspector, parent: &Inspector) -> Result<()> {
    let (own, wanted) = (clone.identity().await?, parent.identity().await?.db_uuid);
    let place = clone.bucket().place();
    match own.parent {
        None => Err(StoreError::Invalid(format!("the database in {place} is no clone"))),
        Some(found) if found.db_uuid != wanted => Err(StoreError::Invalid(format!(
            "the database in {place} is a clone of {}, and {} holds {wanted}",
            found.db_uuid,
            parent.bucket().place()
        ))),
        Some(_) => Ok(()),
    }
}

/// Returns when the clone `db_uuid` of the database in `parent` expires, in seconds since 1970. None: nobody has
/// said when, or the clone has no pin any more. Requests: one GET.
async fn expiry_of_clone(parent: &Bucket, db_uuid: &str) -> Result<Option<u64>> {
    match pin::read(parent, &pin::clone_key(db_uuid)).await {
        Ok(pin) => Ok(pin.expires_s),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
#[path = "reset_test.rs"]
mod tests;
