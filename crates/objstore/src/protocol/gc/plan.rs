//! Shows from outside what the collector of an owner will delete, and pauses it. Nothing here deletes an
//! object of the database.
//!
//! Only the owner is allowed to delete objects. A server that died may have uploaded table files that its
//! local directory names and no root names yet (DIR-2), and its next start needs them. Any other program
//! would take them for objects that nobody needs, however old they are.

use super::{held_among, tombed_keys};
use crate::error::{Result, StoreError};
use crate::machine::fill_random;
use crate::protocol::format::names;
use crate::protocol::inspection::fsck::Unneeded;
use crate::protocol::inspection::inspect::Inspector;
use crate::requests::bucket::SlotOutcome;
use crate::requests::unfinished::UnfinishedUpload;
use bytes::Bytes;
use serde::Serialize;
use std::time::Duration;

/// The keys of the pins with which people pause the collector begin with this. Each pause has a random key:
/// the DELETE of an ended pause that lands late must not end the next pause. (Earlier versions used this text
/// alone.)
const PAUSE: &str = "pin/atollctl-pause";

/// Whether `key` names a pause, which keeps no state.
pub(crate) fn is_pause(key: &str) -> bool {
    key.starts_with(PAUSE)
}

/// The objects of the bucket that nothing needs, by what will happen to them.
#[derive(Debug, Clone, Default, Serialize)]
pub struct GcPlan {
    /// The key of one pin that forbids all deletions. While there is such a pin, the owner deletes no object.
    /// Empty: there is none.
    pub pins: Vec<String>,
    /// Why this pin does that, and what people can do. Empty: there is none.
    pub held_why: String,
    /// Objects that a tomb lists. A running owner deletes them at the end of the grace time.
    pub tombed: Vec<Unneeded>,
    /// Objects that no root needs and no tomb lists. The owner is about to publish them or to write their
    /// tomb, or else its next search of the bucket finds them.
    pub strays: Vec<Unneeded>,
    /// Uploads in pieces that have not ended. They are still running, or their server died.
    pub uploads: Vec<UnfinishedUpload>,
    /// Why uploads could not be listed; empty when they were.
    pub uploads_unknown: String,
}

impl Inspector {
    /// Returns what a collector would find superfluous now, without old roots of the newest epoch: how many
    /// of these the owner keeps is not known here.
    ///
    /// Errors: the bucket's. Requests: a LIST of everything, three more LISTs, a GET per tomb, and
    /// those that read the newest root.
    pub async fn gc_plan(&self) -> Result<GcPlan> {
        let bucket = self.bucket();
        let listed = tombed_keys(bucket).await?;
        let held = held_among(bucket, &bucket.list(names::PIN_DIR, None).await?).await?;
        let (pins, held_why) = match held.holds_all() {
            Some((pin, why)) => (vec![pin.to_owned()], why.to_owned()),
            None => Default::default(),
        };
        let unneeded = self.find_unneeded(Duration::ZERO).await?.orphaned;
        let (tombed, strays) = unneeded.into_iter().partition(|object| listed.contains(&object.key));
        let (uploads, uploads_unknown) = match bucket.unfinished_uploads().await {
            Ok(uploads) => (uploads, String::new()),
            Err(error @ StoreError::Unavailable(_)) => return Err(error),
            Err(error) => (Vec::new(), error.to_string()),
        };
        Ok(GcPlan { pins, held_why, tombed, strays, uploads, uploads_unknown })
    }

    /// Pauses the collector of every owner, at once or from its next batch on, until
    /// [`Self::resume_collector`]. It is for the time in which a tool copies the bucket, and for people who
    /// want to look before something is deleted. Objects that are not needed take space meanwhile.
    ///
    /// Errors: of the bucket. Requests: one PUT.
    pub async fn pause_collector(&self) -> Result<()> {
        let mut nonce = [0; 16];
        fill_random(&mut nonce)?;
        let key = format!("{PAUSE}-{:032x}", u128::from_be_bytes(nonce));
        match self.bucket().create_slot(&key, Bytes::copy_from_slice(&nonce), &nonce).await? {
            // `Lost`: the key exists, and any object there pauses the collector.
            SlotOutcome::Mine | SlotOutcome::Lost(_) => Ok(()),
        }
    }

    /// Ends all pauses. Other pins stay. A running owner notices it within three minutes.
    ///
    /// Errors: of the bucket. Requests: a LIST, and a DELETE per pause.
    pub async fn resume_collector(&self) -> Result<()> {
        for pin in self.bucket().list(names::PIN_DIR, None).await? {
            if is_pause(&pin.key) {
                self.bucket().delete(&pin.key).await?;
            }
        }
        Ok(())
    }
}
