//! Reads a database in a bucket without owning it, for `atollctl`. The functions in this file claim no epoch
//! and write no object.
//!
//! A running owner publishes roots and deletes objects meanwhile, so an object in a listing can be gone a
//! moment later. Then the newest root is read again, and an object is reported as missing only if this root
//! needs it.

use crate::crc::{crc32c, crc32c_join};
use crate::error::{Result, StoreError};
use crate::files::FileRecord;
use crate::protocol::format::image::{self, Image};
use crate::protocol::format::names;
use crate::protocol::format::records::{EpochClaim, RootId, RootSlot};
use crate::protocol::format::slots::{read_record, read_root_slot};
use crate::protocol::publish::map_record::{object_bytes, objects_of};
use crate::protocol::start::age::{self, NewestRecord};
use crate::protocol::start::alive;
use crate::protocol::start::claim;
use crate::protocol::start::home::Home;
use crate::protocol::start::identity::{self, Identity, Parent};
use crate::protocol::start::local::damaged_object;
use crate::protocol::wal::marks::{BinlogPosition, Commit, CommitReader};
use crate::requests::bucket::{Bucket, ObjectInfo};
use crate::stats::Stats;
use futures_util::{StreamExt, stream};
use serde::Serialize;
use std::collections::BTreeMap;

/// How many requests run at a time during a verification.
const PARALLEL: usize = 16;
/// A table file is read in ranges of this size.
const RANGE_BYTES: u64 = 8 << 20;

/// What the bucket says about the database in it; `atollctl status` shows this.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct DatabaseStatus {
    pub place: String,
    pub db_uuid: String,
    pub bucket_format: u32,
    pub created_ms: u64,
    /// The database and root from which this database was cloned or copied. None: it is neither a clone nor a
    /// copy.
    pub parent: Option<Parent>,
    pub newest_epoch: u64,
    /// The server that claimed the newest epoch, and when it did so, in milliseconds since 1970 by its clock.
    pub claimed_by: String,
    pub claimed_ms: u64,
    pub owner: Option<OwnerStatus>,
    pub root: Option<RootStatus>,
    /// Number and bytes of the objects by kind. The kind is the part of the key before the first slash, for
    /// example `sst`, `wal` or `root`; `other` for keys without a slash.
    pub objects: BTreeMap<String, ObjectCount>,
}

/// The content of the hint that the owner writes while it lives. It is possibly old; no safety depends on it.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct OwnerStatus {
    pub epoch: u64,
    pub server_id: String,
    pub counter: u64,
    pub closed: bool,
}

/// The record in one root slot: a root, a claim or a fence.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct RootStatus {
    pub epoch: u64,
    pub slot: u64,
    /// `root`, `claim` or `fence`.
    pub kind: String,
    /// Unix time in milliseconds, by the owner's clock; 0 for claims and fences.
    pub published_ms: u64,
    pub manifest: u64,
    pub manifest_bytes: u64,
    pub files: u64,
    pub files_bytes: Option<u64>,
    pub ddl_seq: u64,
    pub wal_first_chunk: u64,
    /// The newest commits when the root was made: RocksDB's last sequence number, the time in microseconds
    /// since 1970, the last GTID of each domain, the position in the binary log. None: the root knows no
    /// commit, or an earlier version made it.
    pub sequence: Option<u64>,
    pub commit_us: Option<u64>,
    pub gtid_position: String,
    pub binlog: Option<BinlogPosition>,
    /// Further information in words, for example who fenced the epoch.
    pub note: String,
}

/// How many objects of one kind there are.
#[derive(Debug, Clone, Default, Serialize)]
#[allow(missing_docs)]
pub struct ObjectCount {
    pub objects: u64,
    pub bytes: u64,
}

/// A table file of the newest root.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct FileStatus {
    pub number: u64,
    pub key: String,
    pub size: u64,
    pub crc32c: u32,
}

/// What a verification has checked and found.
#[derive(Debug, Clone, Default, Serialize)]
#[allow(missing_docs)]
pub struct VerifyReport {
    pub root: Option<RootStatus>,
    pub files_checked: u64,
    pub bytes_read: u64,
    pub manifest_bytes: u64,
    pub wal_chunks: u64,
    pub wal_bytes: u64,
    /// What is wrong, in one sentence each; empty when all is well.
    pub problems: Vec<String>,
}

/// Gives access to the database in a bucket without a running server. The functions in this file only read
/// it; those in other files also make snapshots, clones and copies, for example.
#[derive(Debug, Clone)]
pub struct Inspector {
    bucket: Bucket,
}

impl Inspector {
    /// Gives access to the database in `bucket`. Sends no request.
    pub fn new(bucket: Bucket) -> Self {
        Self { bucket }
    }

    pub(in crate::protocol) fn bucket(&self) -> &Bucket {
        &self.bucket
    }

    /// Returns the counts of the requests that were sent through this value's bucket.
    pub fn requests(&self) -> &Stats {
        self.bucket.stats()
    }

    /// Returns the identity, the owner, the newest root, and the number of objects by kind.
    ///
    /// Errors: `NotFound` when there is no database. Requests: LIST of everything, a few GETs.
    pub async fn status(&self) -> Result<DatabaseStatus> {
        let bucket = &self.bucket;
        let identity = self.identity().await?;
        let owner = alive::read(bucket).await?.map(|hint| OwnerStatus {
            epoch: hint.epoch,
            server_id: hint.server_id,
            counter: hint.counter,
            closed: hint.closed,
        });
        let root = self.newest_image().await?.map(|(image, _)| status_of_image(&image));
        let mut objects: BTreeMap<String, ObjectCount> = BTreeMap::new();
        for object in self.objects().await? {
            let kind = object.key.split_once('/').map_or("other", |(kind, _)| kind);
            let count = objects.entry(kind.to_owned()).or_default();
            count.objects += 1;
            count.bytes += object.size;
        }
        let newest_epoch = claim::newest_epoch(bucket).await?;
        let claim = self.claim_of(newest_epoch).await?;
        Ok(DatabaseStatus {
            place: bucket.place().to_owned(),
            db_uuid: identity.db_uuid,
            bucket_format: identity.format,
            created_ms: identity.created_ms,
            parent: identity.parent,
            newest_epoch,
            claimed_by: claim.server_id,
            claimed_ms: claim.claimed_ms,
            owner,
            root,
            objects,
        })
    }

    /// Returns the identity of the database. Errors: `NotFound` when there is none. Requests: a GET.
    pub(in crate::protocol) async fn identity(&self) -> Result<Identity> {
        let place = self.bucket.place();
        identity::read(&self.bucket).await?.ok_or_else(|| StoreError::NotFound {
            operation: "reading",
            object: format!("{} in {place}: the prefix holds no Atoll database", names::DB),
        })
    }

    /// Returns the claim of `epoch`. For epoch 0, before any server has opened the database, its server name
    /// is empty.
    pub(in crate::protocol) async fn claim_of(&self, epoch: u64) -> Result<EpochClaim> {
        if epoch == 0 {
            return Ok(EpochClaim { epoch, server_id: String::new(), claimed_ms: 0, home: Home::default() });
        }
        let key = names::epoch(epoch);
        read_record(&self.bucket, &key, |b| EpochClaim::decode(b).map_err(|e| damaged_object(&key, &e))).await
    }

    /// Lists every object below the prefix of the database. Requests: a LIST per 1000 objects.
    pub async fn objects(&self) -> Result<Vec<ObjectInfo>> {
        self.bucket.list("", None).await
    }

    /// Returns the table files of the newest root. Empty: there is no root.
    pub async fn files(&self) -> Result<Vec<FileStatus>> {
        let image = self.newest_image().await?;
        let files = image.map(|(image, _)| image.files).unwrap_or_default();
        let status = |(number, file): (u64, FileRecord)| FileStatus {
            number,
            key: file.key.as_ref().to_owned(),
            size: file.size,
            crc32c: file.crc32c,
        };
        Ok(files.into_iter().map(status).collect())
    }

    /// Returns every record below `root/`, ordered by epoch and slot.
    pub async fn roots(&self) -> Result<Vec<RootStatus>> {
        let objects = self.bucket.list(names::ROOT_DIR, None).await?;
        let ids: Vec<RootId> = objects
            .iter()
            .filter_map(|object| names::parse_slot(names::ROOT_DIR, &object.key))
            .map(|(epoch, slot)| RootId { epoch, slot })
            .collect();
        let mut slots = stream::iter(ids)
            .map(|id| async move { (id, read_root_slot(&self.bucket, id).await) })
            .buffered(PARALLEL);
        let mut roots = Vec::new();
        while let Some((id, slot)) = slots.next().await {
            match slot {
                Ok(slot) => roots.push(status_of_slot(id, &slot)),
                // The owner has deleted this root since the listing.
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(roots)
    }

    /// Returns the commits that a restore of the newest root would replay from the log, in order. Older
    /// commits are in its table files.
    ///
    /// Requests: those of a restore for the log.
    pub async fn commits(&self) -> Result<Vec<Commit>> {
        let mut commits = Vec::new();
        let Some((image, wal_end)) = self.newest_image().await? else { return Ok(commits) };
        let mut reader = CommitReader::new();
        image::read_wal(&self.bucket, &image.root, wal_end, |chunk| {
            if chunk.log >= image.root.wal_min {
                commits.extend(reader.read(chunk.log, &chunk.bytes)?);
            }
            Ok(())
        })
        .await?;
        Ok(commits)
    }

    /// Checks that every object that a restore of the newest root needs exists; `deep` also reads and checks
    /// every table file. Calls `progress` with the bytes checked so far, and the bytes of all table files.
    ///
    /// Requests: a HEAD per file; `deep`: a GET per 8 MiB.
    pub async fn verify(&self, deep: bool, progress: impl Fn(u64, u64)) -> Result<VerifyReport> {
        let mut before = None;
        loop {
            let Some((image, wal_end)) = self.newest_image().await? else {
                return Ok(VerifyReport::default());
            };
            let report = self.verify_image(&image, wal_end, deep, &progress).await?;
            // A running owner has possibly published a newer root and deleted objects that only the verified
            // root needs. Then the newer root is verified instead.
            let has_moved = self.newest_id().await?.is_some_and(|(id, _)| id != image.root.id);
            if report.problems.is_empty() || !has_moved || before == Some(image.root.id) {
                return Ok(report);
            }
            before = Some(image.root.id);
        }
    }

    pub(in crate::protocol) async fn verify_image(
        &self,
        image: &Image,
        wal_end: Option<u64>,
        deep: bool,
        progress: &impl Fn(u64, u64),
    ) -> Result<VerifyReport> {
        let mut report = VerifyReport { root: Some(status_of_image(image)), ..VerifyReport::default() };
        match image::read_manifest(&self.bucket, &image.root).await {
            Ok(manifest) => report.manifest_bytes = manifest.len() as u64,
            Err(error) => keep_problem(&mut report, error)?,
        }
        let (mut chunks, mut wal_bytes) = (0, 0);
        let wal = image::read_wal(&self.bucket, &image.root, wal_end, |chunk| {
            chunks += 1;
            wal_bytes += chunk.bytes.len() as u64;
            Ok(())
        });
        if let Err(error) = wal.await {
            keep_problem(&mut report, error)?;
        }
        (report.wal_chunks, report.wal_bytes) = (chunks, wal_bytes);
        let total = object_bytes(&image.files);
        let mut checks = stream::iter(objects_of(&image.files))
            .map(|object| self.check_file(object, deep))
            .buffer_unordered(PARALLEL);
        let mut done = 0;
        while let Some((size, outcome)) = checks.next().await {
            done += size;
            progress(done, total);
            report.files_checked += 1;
            match outcome {
                Ok(read) => report.bytes_read += read,
                Err(error) => keep_problem(&mut report, error)?,
            }
        }
        Ok(report)
    }

    /// Checks one table file. Returns its size, for the report of progress, and either the number of bytes
    /// read or, as an error, what is wrong.
    async fn check_file(&self, file: &FileRecord, deep: bool) -> (u64, Result<u64>) {
        let outcome = async {
            let found = self.bucket.head(&file.key).await?.size;
            if found != file.size {
                return Err(StoreError::Corruption(format!(
                    "{} has {found} bytes, the newest root says {}",
                    file.key, file.size
                )));
            }
            if deep { self.read_file(file).await } else { Ok(0) }
        };
        (file.size, outcome.await)
    }

    async fn read_file(&self, file: &FileRecord) -> Result<u64> {
        let (mut at, mut crc) = (0, 0);
        while at < file.size {
            let end = (at + RANGE_BYTES).min(file.size);
            let bytes = self.bucket.get_range(&file.key, at..end).await?;
            crc = crc32c_join(crc, crc32c(&bytes), end - at);
            at = end;
        }
        if crc != file.crc32c {
            return Err(StoreError::Corruption(format!(
                "{} has checksum {crc:#010x}, the newest root says {:#010x}",
                file.key, file.crc32c
            )));
        }
        Ok(at)
    }

    pub(in crate::protocol) async fn newest_image(&self) -> Result<Option<(Image, Option<u64>)>> {
        let Some((id, wal_end)) = self.newest_id().await? else { return Ok(None) };
        match image::load(&self.bucket, id).await {
            Ok(image) => Ok(Some((image, wal_end))),
            Err(error) if error.is_not_found() => {
                // The owner has deleted this root meanwhile, because it has published newer ones.
                let Some((id, wal_end)) = self.newest_id().await? else { return Ok(None) };
                Ok(Some((image::load(&self.bucket, id).await?, wal_end)))
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the newest published root and the end of its WAL. The end is None while the root's epoch is
    /// open. None instead of both: there is no root.
    pub(in crate::protocol) async fn newest_id(&self) -> Result<Option<(RootId, Option<u64>)>> {
        let epoch = claim::newest_epoch(&self.bucket).await?;
        Ok(match age::newest_record(&self.bucket, epoch).await? {
            Some(NewestRecord::Root(root)) => Some((root.id, None)),
            Some(NewestRecord::Claim(claim)) => claim.base.map(|id| (id, Some(claim.wal_end))),
            None => None,
        })
    }
}

/// Adds an error about the data to the report. Errors: all others, which end the verification.
fn keep_problem(report: &mut VerifyReport, error: StoreError) -> Result<()> {
    match error {
        StoreError::Corruption(_) | StoreError::NotFound { .. } => {
            report.problems.push(error.to_string());
            Ok(())
        }
        other => Err(other),
    }
}

pub(in crate::protocol) fn status_of_image(image: &Image) -> RootStatus {
    let status = status_of_slot(image.root.id, &RootSlot::Root(image.root.clone()));
    RootStatus { files_bytes: Some(object_bytes(&image.files)), ..status }
}

fn status_of_slot(id: RootId, slot: &RootSlot) -> RootStatus {
    let mut status = RootStatus {
        epoch: id.epoch,
        slot: id.slot,
        kind: String::new(),
        published_ms: 0,
        manifest: 0,
        manifest_bytes: 0,
        files: 0,
        files_bytes: None,
        ddl_seq: 0,
        wal_first_chunk: 0,
        sequence: None,
        commit_us: None,
        gtid_position: String::new(),
        binlog: None,
        note: String::new(),
    };
    match slot {
        RootSlot::Root(root) => {
            "root".clone_into(&mut status.kind);
            status.published_ms = root.published_ms;
            (status.manifest, status.manifest_bytes) = (root.manifest.number, root.manifest_bytes);
            status.files = root.files_count;
            (status.ddl_seq, status.wal_first_chunk) = (root.ddl_seq, root.wal_first_chunk);
            if let Some(position) = &root.position {
                status.sequence = Some(position.sequence);
                status.commit_us = (position.time_us != 0).then_some(position.time_us);
                (status.gtid_position, status.binlog) = (position.gtid_text(), position.binlog);
            }
            let (added, removed) = match &root.map_in_parts {
                Some(map) => (map.added.len(), map.removed.len()),
                None => (root.added.len(), root.removed.len()),
            };
            let map = match &root.map_in_parts {
                Some(map) => format!("map in {} parts", map.parts.len()),
                None if root.is_full() => "full map".to_owned(),
                None => "changes".to_owned(),
            };
            status.note = format!("{map}: +{added} -{removed} files");
        }
        RootSlot::Claim(claim) => {
            "claim".clone_into(&mut status.kind);
            status.note = match claim.base {
                Some(base) => {
                    format!("starts from root {}/{}, WAL ends at {}", base.epoch, base.slot, claim.wal_end)
                }
                None => "starts empty".to_owned(),
            };
        }
        RootSlot::Fence(fence) => {
            "fence".clone_into(&mut status.kind);
            status.note = format!("closed by epoch {} of '{}'", fence.by_epoch, fence.by_server);
        }
    }
    status
}
