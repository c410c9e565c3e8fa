//! Finds the objects below the prefix of a database that nobody needs. `atollctl fsck` reports them together
//! with the result of a verification.
//!
//! There are three kinds of table files in the bucket: those in the newest root's file map; those that wait
//! to be published or deleted; and orphans, left by an upload whose owner died or by a deletion that was
//! forgotten. While an owner works, one listing of the bucket cannot tell the last two kinds apart. So an
//! object counts as an orphan only if it is older than the grace time, if a second listing a while later
//! shows that it still exists and no root needs it, and if no tomb lists it. The owner itself deletes what
//! its tombs list.

use crate::error::Result;
use crate::machine;
use crate::protocol::format::image::Image;
use crate::protocol::format::names;
use crate::protocol::format::records::{RootId, RootSlot};
use crate::protocol::format::slots::read_root_slot;
use crate::protocol::gc::{Needs, Use, held_among, tombed_keys};
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::inspection::verify::VerifyReport;
use crate::requests::bucket::ObjectInfo;
use futures_util::{StreamExt, stream};
use serde::Serialize;
use std::collections::HashSet;
use std::time::Duration;

/// The time between the two listings. It is longer than the ten seconds for which an owner gathers keys to
/// delete before it writes them into a tomb (`gc/`). So an object that the owner is about to delete is in a
/// tomb by then.
const SECOND_LOOK: Duration = Duration::from_secs(25);

/// How many GETs run at a time while the roots of an epoch are read.
const PARALLEL_GETS: usize = 16;

/// What to check, and how long to wait.
#[derive(Debug, Clone, Copy)]
pub struct FsckOptions {
    /// True: reads every table file and compares its checksum. False: only checks that each file exists and
    /// has its size.
    pub deep: bool,
    /// Objects younger than this are never called orphans, because the owner may be about to publish
    /// them.
    pub grace: Duration,
    /// The time between the two listings of the bucket. Only tests shorten it.
    pub second_look: Duration,
}

impl Default for FsckOptions {
    fn default() -> Self {
        Self { deep: false, grace: Duration::from_secs(24 * 3600), second_look: SECOND_LOOK }
    }
}

/// What `fsck` found.
#[derive(Debug, Clone, Default, Serialize)]
#[allow(missing_docs)]
pub struct FsckReport {
    /// The result of the verification of the newest root. Its problems are missing and damaged objects.
    pub verified: VerifyReport,
    pub objects: u64,
    /// Objects older than the grace time that nobody needs, found in both listings. They take space and do no
    /// other harm.
    pub orphaned: Vec<Unneeded>,
    /// Other objects that nobody needs: younger ones, which an owner can still publish or delete, and those
    /// that a tomb lists.
    pub pending: Vec<Unneeded>,
    /// Objects whose names are not of the protocol: another program has put them there, so Atoll never
    /// deletes them.
    pub foreign: Vec<String>,
}

/// An object that neither the newest root nor a pin needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct Unneeded {
    pub key: String,
    pub size: u64,
    pub age_s: u64,
}

impl Inspector {
    /// Searches the bucket for objects that nobody needs, and verifies the newest root.
    ///
    /// Errors: the bucket's. Damaged and missing data is no error; the report lists it. Requests:
    /// those of [`verify`](Self::verify), and a LIST of everything. If the LIST shows an object that is
    /// perhaps an orphan: a second LIST, two LISTs of the tombs, and two GETs per tomb.
    pub async fn fsck(&self, options: FsckOptions, progress: impl Fn(u64, u64)) -> Result<FsckReport> {
        let mut report = self.find_unneeded(options.grace).await?;
        if !report.orphaned.is_empty() {
            tokio::time::sleep(options.second_look).await;
            // The tombs are read before the second listing. An owner deletes a tomb after the objects that it
            // lists, so the second listing does not show the objects of a tomb that is gone by now.
            // The tombs are read again after the listing, because the owner can write a new one meanwhile.
            let mut tombed = tombed_keys(self.bucket()).await?;
            let again = self.find_unneeded(options.grace).await?;
            tombed.extend(tombed_keys(self.bucket()).await?);
            let before: HashSet<&str> = report.orphaned.iter().map(|object| object.key.as_str()).collect();
            let (orphaned, pending): (Vec<_>, Vec<_>) = again
                .orphaned
                .into_iter()
                .partition(|object| before.contains(object.key.as_str()) && !tombed.contains(&object.key));
            report = FsckReport { orphaned, ..again };
            report.pending.extend(pending);
        }
        report.verified = self.verify(options.deep, progress).await?;
        Ok(report)
    }

    /// Returns the objects that nobody needs at this moment, separated by their age. Requests: a LIST of
    /// everything, and those that read the newest root and, when its file map has parts, a GET per root of
    /// its epoch.
    pub(in crate::protocol) async fn find_unneeded(&self, grace: Duration) -> Result<FsckReport> {
        let objects = self.objects().await?;
        // The root is read after the listing. If it were read before, the listing could show objects that
        // only a newer root names, and they would seem unneeded.
        let image = self.newest_image().await?.map(|(image, _)| image);
        let live: HashSet<&str> =
            image.iter().flat_map(|i| i.files.values()).map(|f| f.key.as_ref()).collect();
        let held = held_among(self.bucket(), &objects).await?;
        let mut needs = needs_of(image.as_ref());
        if let Some(image) = &image {
            self.add_parts_of_kept_roots(&mut needs, image, &objects).await?;
        }
        let use_of =
            |object: &ObjectInfo| needs.use_of(&object.key, Some(object.size), |key| live.contains(key));
        let mut report = FsckReport { objects: objects.len() as u64, ..FsckReport::default() };
        let now = machine::time_of_day();
        for object in &objects {
            match use_of(object) {
                Use::Needed => {}
                Use::Unneeded if held.needs(&object.key) => {}
                Use::Foreign => report.foreign.push(object.key.clone()),
                Use::Unneeded => {
                    let age = now.duration_since(object.last_modified).unwrap_or_default();
                    let list = if age < grace { &mut report.pending } else { &mut report.orphaned };
                    list.push(Unneeded { key: object.key.clone(), size: object.size, age_s: age.as_secs() });
                }
            }
        }
        Ok(report)
    }

    /// Adds to `needs` the parts of file maps that the older roots of the newest epoch name. A root that is
    /// deleted meanwhile needs none.
    pub(in crate::protocol) async fn add_parts_of_kept_roots(
        &self,
        needs: &mut Needs,
        newest: &Image,
        objects: &[ObjectInfo],
    ) -> Result<()> {
        if !objects.iter().any(|object| object.key.starts_with(names::MAP_DIR)) {
            return Ok(());
        }
        let mut slots = stream::iter(roots_of(newest.root.id.epoch, objects))
            .map(|id| read_root_slot(self.bucket(), id))
            .buffer_unordered(PARALLEL_GETS);
        while let Some(slot) = slots.next().await {
            match slot {
                Ok(RootSlot::Root(root)) => needs.add_parts(root.map_parts(), 0),
                Ok(_) => {}
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Returns the roots of `epoch` among `objects`.
fn roots_of(epoch: u64, objects: &[ObjectInfo]) -> Vec<RootId> {
    let slots = objects.iter().filter_map(|object| names::parse_slot(names::ROOT_DIR, &object.key));
    slots.filter(|(owner, _)| *owner == epoch).map(|(epoch, slot)| RootId { epoch, slot }).collect()
}

/// Returns what the root of `image` needs. In doubt, an object counts as needed, because people will perhaps
/// delete by hand what `fsck` calls an orphan. So all older roots of the epoch count as needed: how many of
/// them the owner keeps is not known here.
pub(in crate::protocol) fn needs_of(image: Option<&Image>) -> Needs {
    let Some(image) = image else { return Needs::nothing() };
    let mut needs = Needs::of_root(&image.root, 0);
    needs.is_former_superfluous = true;
    needs
}
