//! Brings table files from elsewhere into a database. A *copier* claims an epoch of the database, copies the files below the database's own
//! prefix, and then writes the root that names them.
//!
//! The name of a copy is made from the name of its source. So when a copier has died, the next one finds the copies that exist.
//!
//! ADOPT-1: a copier uses a copy that no root of the database names yet only if every epoch since the copy was made was claimed by a
//!     copier. A server deletes what no root of its own names; its deletion may land late, and a copier cannot know which objects it
//!     concerns. A copier deletes only what its own root, the newest one, does not name (mirror.rs), and no copier uses such an object
//!     again.

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

/// Copies in flight. In memory each has two pieces of 16 MiB at most.
const PARALLEL_COPIES: usize = 4;

/// The time between two hints that the copier lives: shorter than a server waits before it believes that an
/// owner is dead (alive.rs).
const SHOW_INTERVAL: Duration = Duration::from_secs(45);

/// Is told how many bytes of table files have been copied, and how many are to be copied in all.
pub type Progress<'a> = &'a (dyn Fn(u64, u64) + Sync);

/// What became of table files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct Adopted {
    pub copied_files: u64,
    pub copied_bytes: u64,
    /// Files whose copies were there already.
    pub reused_files: u64,
    pub reused_bytes: u64,
}

/// The program that copies into a database.
pub(in crate::protocol) struct Copier<'a> {
    pub(in crate::protocol) bucket: &'a Bucket,
    /// The epoch that the copier has taken, and in which it has published nothing yet.
    pub(in crate::protocol) epoch: u64,
    /// Name in claims and hints.
    pub(in crate::protocol) server_id: String,
    /// The bucket to copy from, and how fast. None: the store itself copies files that are foreign here.
    pub(in crate::protocol) from: Option<(&'a Bucket, &'a Pace)>,
    pub(in crate::protocol) progress: Progress<'a>,
}

/// A file and where its copy is, or is to be.
struct Step {
    number: u64,
    file: FileRecord,
    target: FileRecord,
    need: Need,
}

#[derive(PartialEq)]
enum Need {
    Copy,
    /// The copy is there already.
    Nothing,
    /// Another number has the same object (FILE-5), and so the same copy.
    SameCopy,
}

impl Copier<'_> {
    /// Copies `files`, unless copies are there. `named`: the files of the newest root. Returns the copies, by the same numbers.
    ///
    /// Requires: the former epochs are closed. Errors: `NotFound`, `Corruption` for a file that is absent or
    /// damaged; `NoSpace`. Requests: a LIST per 1000 objects below `sst/`, a GET for each epoch since the
    /// newest root, those of a copy for each file, and a PUT each 45 seconds.
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

    /// The copies that ADOPT-1 allows this copier to use again: their keys, by the name from the source and the size.
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

    /// Writes the hint that this copier lives, unless it was last written at `before` and that is not long ago. Returns when the hint was
    /// last written.
    async fn show(&self, before: Option<Instant>) -> Result<Instant> {
        if let Some(before) = before.filter(|before| before.elapsed() < SHOW_INTERVAL) {
            return Ok(before);
        }
        // The value says nothing: what counts is that it changes.
        let counter = crate::protocol::start::claim::wall_clock_ms();
        let alive = Alive { epoch: self.epoch, server_id: self.server_id.clone(), counter, closed: false };
        alive::show(self.bucket, &alive).await?;
        Ok(Instant::now())
    }

    /// Says that the epoch has no owner any more, so that nobody waits for it.
    pub(in crate::protocol) async fn leave(&self) {
        let gone = Alive { epoch: self.epoch, server_id: self.server_id.clone(), counter: 0, closed: true };
        let _ = alive::show(self.bucket, &gone).await;
    }
}

/// The fingerprint from which the name of a copy is made. It includes the checksum, because a bucket that was put back to an earlier state
/// gives a name a second time.
fn identity_of(file: &FileRecord) -> String {
    fingerprint(format!("{} {} {:08x}", file.key, file.size, file.crc32c).as_bytes())
}

/// The name with which copiers of one purpose claim epochs.
pub(in crate::protocol) fn copier_id(purpose: &str, creator: &str) -> String {
    format!("{purpose} by {creator}")
}

/// The purposes of copiers: the first words of their claims.
pub(in crate::protocol) const MATERIALIZES: &str = "atollctl materialize";
pub(in crate::protocol) const COPIES: &str = "atollctl copy of";

/// Whether `epoch` was claimed by a copier, which deletes nothing that no root names.
async fn is_of_copier(bucket: &Bucket, epoch: u64) -> Result<bool> {
    let claimer = claimer(bucket, epoch).await?;
    Ok(claimer.is_some_and(|id| id.starts_with(MATERIALIZES) || id.starts_with(COPIES)))
}

/// The id of the server or program that claimed `epoch`. None: there is no claim, or it cannot be read. Requests: a GET.
pub(in crate::protocol) async fn claimer(bucket: &Bucket, epoch: u64) -> Result<Option<String>> {
    let decoded =
        |bytes: &[u8]| -> std::result::Result<EpochClaim, FormatError> { EpochClaim::decode(bytes) };
    match bucket.get(&names::epoch(epoch)).await {
        Ok(bytes) => Ok(decoded(&bytes).ok().map(|claim| claim.server_id)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Refuses a database whose owner may live. A copier that died is nobody to wait for: it is fenced, and has published nothing.
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
        "{} has not said good-bye. Stop the server first, in order; one that was killed is started and stopped",
        sight.owner()
    )))
}
