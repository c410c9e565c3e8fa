//! The names of snapshots: records that say which pin has a name, each under a key that is used once.
//!
//! ```text
//! snapshot/<digits>                     the first snapshot of a name (generation 0)
//! snapshot/<digits>-dropped             it was dropped
//! snapshot/<digits>.0000000001          the next snapshot of this name (generation 1), and so on
//! ```
//!
//! NAME-2: the key of a record is used for one snapshot only. A program that drops a snapshot creates the
//!     mark `…-dropped` before it deletes the record, and the next snapshot of this name has the next
//!     generation. So a DELETE that lands late does not take the name from a later snapshot. The owner
//!     deletes a mark when it is older than a day.
//! NAME-3: of two programs that make snapshots of one name, one gets the name, because both create the same
//!     key: the key of the first free generation.

use crate::error::{Result, StoreError};
use crate::machine;
use crate::protocol::format::names;
use crate::protocol::history::pin::SnapshotName;
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::start::local::random_nonce;
use crate::requests::bucket::{Bucket, ObjectInfo, SlotOutcome};
use bytes::Bytes;
use std::collections::HashMap;
use std::time::Duration;

/// How many times a program looks for a free generation, while others take and drop the same name.
const TRIES_MAX: u32 = 8;
/// The end of the key of a mark.
const DROPPED: &str = "-dropped";
/// The owner deletes a mark that is older. No request lands a day late.
const MARK_AGE_MAX: Duration = Duration::from_secs(24 * 3600);

/// The newest generation of each name, by the key of generation 0, as one listing shows it.
#[derive(Debug, Default)]
pub(in crate::protocol) struct SnapshotNames(HashMap<String, Newest>);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Newest {
    generation: u64,
    is_dropped: bool,
}

/// A snapshot that has its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::protocol) struct Named {
    /// The key of the record with the name.
    pub(in crate::protocol) key: String,
    /// The key of the pin.
    pub(in crate::protocol) pin: String,
}

impl SnapshotNames {
    /// Requests: a LIST.
    pub(in crate::protocol) async fn list(bucket: &Bucket) -> Result<Self> {
        Ok(Self::among(&bucket.list(names::SNAPSHOT_DIR, None).await?))
    }

    /// Finds the names in `objects`, a listing.
    pub(in crate::protocol) fn among(objects: &[ObjectInfo]) -> Self {
        let mut newest: HashMap<String, Newest> = HashMap::new();
        for (base, found) in objects.iter().filter_map(|object| parse(&object.key)) {
            let entry = newest.entry(base.to_owned()).or_insert(found);
            if found.generation > entry.generation {
                *entry = found;
            } else if found.generation == entry.generation {
                entry.is_dropped |= found.is_dropped;
            }
        }
        Self(newest)
    }

    fn newest(&self, name: &str) -> Option<Newest> {
        self.0.get(&SnapshotName::key(name, 0)).copied()
    }

    /// Returns the record of the newest snapshot `name`. None: there is no such snapshot, or it was dropped.
    /// Requests: a GET if there is one.
    pub(in crate::protocol) async fn find(&self, bucket: &Bucket, name: &str) -> Result<Option<Named>> {
        let Some(Newest { generation, is_dropped: false }) = self.newest(name) else { return Ok(None) };
        let key = SnapshotName::key(name, generation);
        match SnapshotName::read(bucket, &key).await {
            Ok(record) => Ok(Some(Named { key, pin: record.pin })),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Returns the key of generation 0, and what `key` says: a record or a mark. None: `key` is neither.
fn parse(key: &str) -> Option<(&str, Newest)> {
    let rest = key.strip_prefix(names::SNAPSHOT_DIR)?;
    let (rest, is_dropped) = rest.strip_suffix(DROPPED).map_or((rest, false), |rest| (rest, true));
    let (digits, generation) = match rest.split_once('.') {
        Some((digits, generation)) => (digits, generation.parse().ok()?),
        None => (rest, 0),
    };
    let is_name = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let base = &key[..names::SNAPSHOT_DIR.len() + digits.len()];
    is_name.then_some((base, Newest { generation, is_dropped }))
}

/// Deletes the marks among `objects`, a listing, that are so old that nobody needs them any more, and before
/// each mark the record that it marks, if it is still there. Only the owner calls this.
pub(in crate::protocol) async fn delete_old_marks(bucket: &Bucket, objects: &[ObjectInfo]) -> Result<()> {
    let now = machine::time_of_day();
    for object in objects {
        let is_mark = parse(&object.key).is_some_and(|(_, found)| found.is_dropped);
        if is_mark && now.duration_since(object.last_modified).is_ok_and(|age| age > MARK_AGE_MAX) {
            bucket.delete(object.key.trim_end_matches(DROPPED)).await?;
            bucket.delete(&object.key).await?;
        }
    }
    Ok(())
}

impl Inspector {
    /// Returns the snapshot `name`. Errors: `NotFound`, with what the caller does. Requests: a LIST, a GET.
    pub(in crate::protocol) async fn named(&self, name: &str, operation: &'static str) -> Result<Named> {
        let found = SnapshotNames::list(self.bucket()).await?.find(self.bucket(), name).await?;
        found.ok_or_else(|| StoreError::NotFound { operation, object: format!("snapshot '{name}'") })
    }

    /// Gives the pin `pin` the name `name`. False: another snapshot has that name. A record whose pin is gone
    /// does not count: the request that created it came late, after its program had given up.
    pub(in crate::protocol) async fn name_pin(&self, name: &str, pin: &str) -> Result<bool> {
        let bucket = self.bucket();
        for _ in 0..TRIES_MAX {
            let names = SnapshotNames::list(bucket).await?;
            if let Some(other) = names.find(bucket, name).await? {
                match bucket.head(&other.pin).await {
                    Ok(_) => return Ok(other.pin == pin),
                    Err(error) if error.is_not_found() => {}
                    Err(error) => return Err(error),
                }
            }
            let generation = names.newest(name).map_or(0, |newest| newest.generation + 1);
            let (key, nonce) = (SnapshotName::key(name, generation), random_nonce()?);
            let record = SnapshotName { name: name.to_owned(), pin: pin.to_owned() };
            if bucket.create_slot(&key, record.encode(&nonce).into(), &nonce).await? == SlotOutcome::Mine {
                if let Some(before) = generation.checked_sub(1) {
                    // It does not count any more. If this request fails, an object of some bytes stays.
                    let _ = bucket.delete(&SnapshotName::key(name, before)).await;
                }
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes the name from the snapshot `named`: marks its generation as dropped. Requests: a PUT.
    pub(in crate::protocol) async fn unname(&self, named: &Named) -> Result<()> {
        let nonce = random_nonce()?;
        let key = format!("{}{DROPPED}", named.key);
        self.bucket().create_slot(&key, Bytes::copy_from_slice(&nonce), &nonce).await.map(drop)
    }
}
