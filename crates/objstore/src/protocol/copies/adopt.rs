//! Copies table files from another database into this one. A *copying program* (atollctl, type `Copier`)
//! claims an epoch of the database, copies the files below the database's own prefix, and then creates the
//! root that names the copies (materialize.rs, mirror.rs).
//!
//! The name of a copy is made from the name of its source file. So when a copying program dies, the next one
//! finds the copies that the first one made.
//!
//! ADOPT-1: a copying program reuses a copy that no root of the database names yet only if copying programs,
//!     and no server, have claimed every epoch since the copy was made. The reason is that a server deletes
//!     every file that none of its roots names. Such a DELETE can take effect late, and a copying program
//!     cannot know which objects it concerns. A copying program also deletes objects: those that its own
//!     root, the newest one, does not need (mirror.rs). No later copying program reuses such an object.

use crate::error::{Result, StoreError};
use crate::files::{FileRecord, Labels};
use crate::protocol::format::codec::FormatError;
use crate::protocol::format::names;
use crate::protocol::format::records::{Alive, EpochClaim};
use crate::protocol::start::alive;
use crate::protocol::start::claim::newest_epoch;
use crate::requests::bucket::Bucket;
use crate::requests::s3::crypto::fingerprint;
use crate::requests::upload::stream::{Known, Pace};
use futures_util::{StreamExt, stream};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How many files are copied at a time. Of each file, at most two pieces of 16 MiB are in memory.
const PARALLEL_COPIES: usize = 4;

/// The interval at which the copying program writes the hint that it is alive. It is shorter than the time
/// for which a server watches an owner before it believes that the owner is dead (alive.rs).
const SHOW_INTERVAL: Duration = Duration::from_secs(45);

/// Called with the bytes of table files that have been copied, and the bytes that are to be copied in all.
pub type Progress<'a> = &'a (dyn Fn(u64, u64) + Sync);

/// How many table files a copying program copied, and how many copies it reused that an earlier one had made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct Adopted {
    pub copied_files: u64,
    pub copied_bytes: u64,
    /// Files that were not copied, because a copy existed already.
    pub reused_files: u64,
    pub reused_bytes: u64,
}

/// A program that copies table files into a database.
pub(in crate::protocol) struct Copier<'a> {
    pub(in crate::protocol) bucket: &'a Bucket,
    /// The epoch that this program has claimed. It has not created the root with the copied state yet.
    pub(in crate::protocol) epoch: u64,
    /// The name of this program, which it writes into its claims and hints.
    pub(in crate::protocol) server_id: String,
    /// The bucket to copy from, and the limit of the copy rate. None: the files to copy are in other
    /// databases of the same bucket or machine, so the S3 service or the file system copies them. Only
    /// objects above 5 GiB are downloaded and uploaded.
    pub(in crate::protocol) from: Option<(&'a Bucket, &'a Pace)>,
    pub(in crate::protocol) progress: Progress<'a>,
}

/// One table file of the source, and the object that is its copy or will become its copy.
struct Step {
    number: u64,
    file: FileRecord,
    target: FileRecord,
    need: Need,
}

#[derive(PartialEq)]
enum Need {
    Copy,
    /// A copy exists already and is reused.
    Nothing,
    /// Another file number of the source has the same object (FILE-5 allows this). Both numbers get the same
    /// copy, which is counted for the other number only.
    SameCopy,
}

impl Copier<'_> {
    /// Copies `files`, except those of which there is a reusable copy already. `named`: the files of this
    /// database's newest root, whose copies are always reusable. Returns the copies under the same file
    /// numbers.
    ///
    /// Requires: the former epochs are closed. Errors: `NotFound` or `Corruption` when a file is absent or
    /// damaged; `NoSpace`. Requests: a LIST per 1000 objects below `sst/`; a GET for each epoch since the
    /// newest root; for each file those of a copy; a PUT every 45 seconds.
    pub(in crate::protocol) async fn adopt(
        &self,
        files: &BTreeMap<u64, FileRecord>,
        named: &BTreeMap<u64, FileRecord>,
        newest_root_epoch: u64,
    ) -> Result<(BTreeMap<u64, FileRecord>, Adopted)> {
        let reusable = self.reusable(named, newest_root_epoch).await?;
        let mut targets = HashSet::new();
        let steps: Vec<Step> = files
            .iter()
            .map(|(number, file)| self.step(*number, file, &reusable))
            .map(|step| match targets.insert(Arc::clone(&step.target.key)) {
                true => step,
                false => Step { need: Need::SameCopy, ..step },
            })
            .collect();
        let is_copied = |step: &&Step| step.need == Need::Copy;
        let (mut done, total) = (0, steps.iter().filter(is_copied).map(|step| step.file.size).sum());
        let mut copies = stream::iter(steps.iter().filter(is_copied))
            .map(|step| async move { self.copy(step).await.map(|()| step.file.size) })
            .buffer_unordered(PARALLEL_COPIES);
        let mut shown_at = self.show(None).await?;
        (self.progress)(0, total);
        while let Some(copied) = copies.next().await {
            done += copied?;
            (self.progress)(done, total);
            shown_at = self.show(Some(shown_at)).await?;
        }
        drop(copies);
        let mut adopted = Adopted::default();
        for step in &steps {
            let (count, bytes) = match step.need {
                Need::Copy => (&mut adopted.copied_files, &mut adopted.copied_bytes),
                Need::Nothing => (&mut adopted.reused_files, &mut adopted.reused_bytes),
                Need::SameCopy => continue,
            };
            (*count, *bytes) = (*count + 1, *bytes + step.file.size);
        }
        Ok((steps.into_iter().map(|step| (step.number, step.target)).collect(), adopted))
    }

    fn step(&self, number: u64, file: &FileRecord, reusable: &HashMap<String, String>) -> Step {
        let name = names::copied_name(&identity_of(file));
        let found = reusable.get(&format!("{name} {}", file.size)).cloned();
        let need = if found.is_some() { Need::Nothing } else { Need::Copy };
        let key = found.unwrap_or_else(|| {
            let extension = if file.key.ends_with(".blob") { "blob" } else { "sst" };
            crate::files::object_key(self.epoch, &name, extension)
        });
        let labels = Labels { storage_class: None, ..file.labels.clone() };
        let target = FileRecord { key: key.into(), labels, ..file.clone() };
        Step { number, file: file.clone(), target, need }
    }

    async fn copy(&self, step: &Step) -> Result<()> {
        let Step { file, target, .. } = step;
        let known = Known { key: &file.key, size: file.size, crc32c: file.crc32c };
        match self.from {
            None => self.bucket.copy_foreign(known, &target.key).await,
            Some((other, pace)) => self.bucket.stream_from(other, known, &target.key, pace).await,
        }
    }

    /// Returns the copies that rule ADOPT-1 allows this program to reuse, as a map. It gives the key of a
    /// copy for the text "name size", where the name was made from the source of the copy.
    async fn reusable(
        &self,
        named: &BTreeMap<u64, FileRecord>,
        newest_root_epoch: u64,
    ) -> Result<HashMap<String, String>> {
        let mut since = self.epoch;
        while since > newest_root_epoch + 1 && is_of_copier(self.bucket, since - 1).await? {
            since -= 1;
        }
        let listed = self.bucket.list(names::FILE_DIR, None).await?;
        let named: HashSet<&str> = named.values().map(|file| file.key.as_ref()).collect();
        let mut reusable = HashMap::new();
        for object in listed {
            if let Some((epoch, name)) = names::parse_copied_file(&object.key)
                && (epoch >= since || named.contains(object.key.as_str()))
            {
                reusable.insert(format!("{name} {}", object.size), object.key);
            }
        }
        Ok(reusable)
    }

    /// Writes the hint that this program is alive, except when the last hint is younger than 45 seconds.
    /// `before`: when the last hint was written; None: this program has written no hint yet. Returns when the
    /// last hint was written.
    async fn show(&self, before: Option<Instant>) -> Result<Instant> {
        if let Some(before) = before.filter(|before| before.elapsed() < SHOW_INTERVAL) {
            return Ok(before);
        }
        // The value of the counter has no meaning. A server that waits only checks whether it changes.
        let counter = crate::protocol::start::claim::wall_clock_ms();
        let gone = Alive::gone(self.epoch, &self.server_id);
        alive::show(self.bucket, &Alive { counter, closed: false, ..gone }).await?;
        Ok(Instant::now())
    }

    /// Writes the hint that the epoch has no owner any more. The copying program claimed the epoch as a
    /// server does, so without the hint the next server would wait until this program seems dead.
    pub(in crate::protocol) async fn leave(&self) {
        let _ = alive::show(self.bucket, &Alive::gone(self.epoch, &self.server_id)).await;
    }
}

/// Returns the fingerprint from which the name of a copy is made. It includes the checksum of the file,
/// because a bucket that was set back to an earlier state may use the same key again for another file.
fn identity_of(file: &FileRecord) -> String {
    fingerprint(format!("{} {} {:08x}", file.key, file.size, file.crc32c).as_bytes())
}

/// Returns the name with which a copying program claims an epoch. It consists of the purpose, which begins
/// with one of the texts below, and the creator.
pub(in crate::protocol) fn copier_id(purpose: &str, creator: &str) -> String {
    format!("{purpose} by {creator}")
}

/// What copying programs do. The name in each of their claims begins with one of these texts, by which
/// `is_of_copier` recognizes them.
pub(in crate::protocol) const MATERIALIZES: &str = "atollctl materialize";
pub(in crate::protocol) const COPIES: &str = "atollctl copy of";

/// Whether a copying program claimed `epoch`. A server that claims an epoch deletes the files that no root
/// names; a copying program does not (ADOPT-1). False also when the claim is absent or damaged.
pub(in crate::protocol) async fn is_of_copier(bucket: &Bucket, epoch: u64) -> Result<bool> {
    let claimer = claimer(bucket, epoch).await?;
    Ok(claimer.is_some_and(|id| id.starts_with(MATERIALIZES) || id.starts_with(COPIES)))
}

/// Returns the name of the server or program that claimed `epoch`. None: the claim is absent or cannot be
/// decoded. Requests: a GET.
pub(in crate::protocol) async fn claimer(bucket: &Bucket, epoch: u64) -> Result<Option<String>> {
    let decoded =
        |bytes: &[u8]| -> std::result::Result<EpochClaim, FormatError> { EpochClaim::decode(bytes) };
    match bucket.get(&names::epoch(epoch)).await {
        Ok(bytes) => Ok(decoded(&bytes).ok().map(|claim| claim.server_id)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Refuses a database whose owner may still run. If the last owner is a copying program, the database
/// is not refused: the next claim fences that program, and it has no commits that could be lost.
///
/// Errors: `ReadOnly` with the owner's name.
pub(in crate::protocol) async fn refuse_owner(bucket: &Bucket) -> Result<()> {
    let Some(sight) = alive::look(bucket, &crate::protocol::start::home::Home::default()).await? else {
        return Ok(());
    };
    if is_of_copier(bucket, newest_epoch(bucket).await?).await? {
        return Ok(());
    }
    Err(StoreError::ReadOnly(format!(
        "{} was not shut down cleanly. Shut it down first; if it was killed, start it once and shut it down",
        sight.owner()
    )))
}
