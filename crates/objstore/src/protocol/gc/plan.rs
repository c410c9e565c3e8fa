//! What the collector of an owner will do, seen from outside; and how to hold it. Nothing here deletes an object of the database.
//!
//! Only the owner may delete: a server that died may have uploaded table files that its local directory names and no root
//! yet (DIR-2), and its next start needs them. From outside those look like strays, however old they are.

use super::{held_among, tombs};
use crate::error::{Result, StoreError};
use crate::machine::fill_random;
use crate::protocol::format::names;
use crate::protocol::inspection::fsck::Unneeded;
use crate::protocol::inspection::inspect::Inspector;
use crate::requests::bucket::SlotOutcome;
use crate::requests::unfinished::UnfinishedUpload;
use bytes::Bytes;
use serde::Serialize;
use std::collections::HashSet;
use std::time::Duration;

/// The pin by which people hold the collector.
const PAUSE: &str = "pin/atollctl-pause";

/// What is not needed in the bucket.
#[derive(Debug, Clone, Default, Serialize)]
pub struct GcPlan {
    /// Pins that hold everything: while there are any, nothing is deleted.
    pub pins: Vec<String>,
    /// Objects that a tomb lists: an owner that runs deletes them at the end of the grace time.
    pub tombed: Vec<Unneeded>,
    /// Objects in no root and in no tomb: they are about to be published or to get a tomb, or the owner's
    /// next search finds them.
    pub strays: Vec<Unneeded>,
    /// Unfinished uploads in pieces: they are on their way, or were left behind.
    pub uploads: Vec<UnfinishedUpload>,
    /// Why uploads could not be listed; empty when they were.
    pub uploads_unknown: String,
}

impl Inspector {
    /// What a collector would find superfluous now. Old roots of the newest epoch are left out: how many its owner keeps is
    /// not known here.
    ///
    /// Errors: of the bucket. Requests: a LIST of everything, three more LISTs, a GET per tomb, and those that read the newest root.
    pub async fn gc_plan(&self) -> Result<GcPlan> {
        let bucket = self.bucket();
        let mut listed = HashSet::new();
        for tomb in bucket.list(names::TOMB_DIR, None).await? {
            listed.extend(tombs::read(bucket, &tomb.key).await?.unwrap_or_default());
        }
        let held = held_among(bucket, &bucket.list(names::PIN_DIR, None).await?).await?;
        let pins = held.holds_all().map(|(pin, _)| pin.to_owned()).into_iter().collect();
        let unneeded = self.find_unneeded(Duration::ZERO).await?.orphaned;
        let (tombed, strays) = unneeded.into_iter().partition(|object| listed.contains(&object.key));
        let (uploads, uploads_unknown) = match bucket.unfinished_uploads().await {
            Ok(uploads) => (uploads, String::new()),
            Err(error @ StoreError::Unavailable(_)) => return Err(error),
            Err(error) => (Vec::new(), error.to_string()),
        };
        Ok(GcPlan { pins, tombed, strays, uploads, uploads_unknown })
    }

    /// Holds the collector of every owner, from now or from its next batch on, until [`Self::resume_collector`]. For copies of
    /// the bucket, and for people who want to look first. What is not needed stays meanwhile, and costs.
    ///
    /// Errors: of the bucket. Requests: one PUT.
    pub async fn pause_collector(&self) -> Result<()> {
        let mut nonce = [0; 16];
        fill_random(&mut nonce)?;
        match self.bucket().create_slot(PAUSE, Bytes::copy_from_slice(&nonce), &nonce).await? {
            // `Lost`: the collector was paused before, which is just as good.
            SlotOutcome::Mine | SlotOutcome::Lost(_) => Ok(()),
        }
    }

    /// Ends the pause; other pins stay. A running owner sees it within three minutes.
    ///
    /// Errors: of the bucket. Requests: one DELETE.
    pub async fn resume_collector(&self) -> Result<()> {
        self.bucket().delete(PAUSE).await
    }
}
