//! Reads a database in a bucket without owning it, for `atollctl`. The functions in this file claim no epoch
//! and write no object.
//!
//! A running owner publishes roots and deletes objects meanwhile, so an object in a listing can be gone a
//! moment later. Then the newest root is read again, and an object is reported as missing only if this root
//! needs it.

use crate::error::{Result, StoreError};
use crate::files::FileRecord;
use crate::protocol::format::image::{self, Image};
use crate::protocol::format::names;
use crate::protocol::format::records::{EpochClaim, RootId, RootSlot};
use crate::protocol::format::slots::{read_record, read_root_slot};
use crate::protocol::history::snapshot::SnapshotStatus;
use crate::protocol::inspection::sharing::Sharing;
use crate::protocol::inspection::snapshot_list::readers;
use crate::protocol::publish::map_record::object_bytes;
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
use std::time::SystemTime;

/// How many roots are read at a time.
const PARALLEL: usize = 16;

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
    /// Whether no server opens the tables before their rows are masked: here, or in the database from which
    /// they were cloned.
    pub must_be_masked: bool,
    pub newest_epoch: u64,
    /// The server that claimed the newest epoch, and when it did so, in milliseconds since 1970 by its clock.
    pub claimed_by: String,
    pub claimed_ms: u64,
    pub owner: Option<OwnerStatus>,
    pub root: Option<RootStatus>,
    /// Which table files of the newest root are in other databases. None: there is no root.
    pub sharing: Option<Sharing>,
    /// The states that readers show, the oldest first; a reader has one for each view that is in use.
    pub readers: Vec<SnapshotStatus>,
    /// Number and bytes of the objects by kind. The kind is the part of the key before the first slash, for
    /// example `sst`, `wal` or `root`; `other` for keys without a slash.
    pub objects: BTreeMap<String, ObjectCount>,
}

/// The content of the hint that the owner writes while it lives. It may be old; no safety depends on it.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct OwnerStatus {
    pub epoch: u64,
    pub server_id: String,
    pub counter: u64,
    pub closed: bool,
    /// When the owner wrote the hint, by the bucket's clock, in milliseconds since 1970; 0: not known.
    pub seen_ms: u64,
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

/// Gives access to the database in a bucket without a running server. The functions in this file only read
/// it; those in other files also make snapshots, clones and copies, for example.
#[derive(Debug, Clone)]
pub struct Inspector {
    bucket: Bucket,
    /// Only in the process of the owner: the bucket has all commits that were acknowledged by this time, in
    /// microseconds since 1970.
    owner_us: Option<u64>,
}

impl Inspector {
    /// Gives access to the database in `bucket`. Sends no request.
    pub fn new(bucket: Bucket) -> Self {
        Self { bucket, owner_us: None }
    }

    /// Gives the owner's own process access to its database. The bucket has all commits that the owner had
    /// acknowledged by `covered_us`. None: the caller does not know it and asks for no moment.
    pub(in crate::protocol) fn of_owner(bucket: Bucket, covered_us: Option<u64>) -> Self {
        Self { bucket, owner_us: covered_us }
    }

    pub(in crate::protocol) fn owner_us(&self) -> Option<u64> {
        self.owner_us
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
        let mut owner = alive::read(bucket).await?.map(|hint| OwnerStatus {
            epoch: hint.epoch,
            server_id: hint.server_id,
            counter: hint.counter,
            closed: hint.closed,
            seen_ms: 0,
        });
        let newest = self.newest_image().await?.map(|(image, _)| image);
        let root = newest.as_ref().map(status_of_image);
        let sharing = newest.as_ref().map(Sharing::of);
        let mut objects: BTreeMap<String, ObjectCount> = BTreeMap::new();
        for object in self.objects().await? {
            let kind = object.key.split_once('/').map_or("other", |(kind, _)| kind);
            let count = objects.entry(kind.to_owned()).or_default();
            count.objects += 1;
            count.bytes += object.size;
            if let Some(owner) = owner.as_mut().filter(|_| object.key == names::ALIVE) {
                let since = object.last_modified.duration_since(SystemTime::UNIX_EPOCH);
                owner.seen_ms = since.map_or(0, |since| since.as_millis() as u64);
            }
        }
        let newest_epoch = claim::newest_epoch(bucket).await?;
        let claim = self.claim_of(newest_epoch).await?;
        Ok(DatabaseStatus {
            place: bucket.place().to_owned(),
            db_uuid: identity.db_uuid,
            bucket_format: identity.format,
            created_ms: identity.created_ms,
            parent: identity.parent,
            must_be_masked: !identity.masked_in.is_empty(),
            newest_epoch,
            claimed_by: claim.server_id,
            claimed_ms: claim.claimed_ms,
            owner,
            root,
            sharing,
            readers: readers(bucket).await?,
            objects,
        })
    }

    /// Checks that the prefix holds a database. Errors: `NotFound` when it does not. Requests: a GET.
    pub async fn check_exists(&self) -> Result<()> {
        self.identity().await.map(|_| ())
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

    /// Returns the table files of the newest root. Empty: there is no root. Errors: as [`identity`](Self::identity).
    pub async fn files(&self) -> Result<Vec<FileStatus>> {
        self.identity().await?;
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

    /// Returns every record below `root/`, ordered by epoch and slot. Errors: as [`identity`](Self::identity).
    pub async fn roots(&self) -> Result<Vec<RootStatus>> {
        self.identity().await?;
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
    /// Errors: as [`identity`](Self::identity). Requests: as a restore sends for the log.
    pub async fn commits(&self) -> Result<Vec<Commit>> {
        self.identity().await?;
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
