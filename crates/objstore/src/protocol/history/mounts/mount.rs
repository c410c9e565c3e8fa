//! A mount is a state of the past that is open for reading beside the present state: in the server that owns
//! the database, or in another program (visitor.rs).
//!
//! ```text
//! note the key pin/mount-<E>-<random>, create the pin {R}, check that it counts   R's objects stay from now on
//! write MANIFEST, CURRENT and the log of R into a directory                   RocksDB opens it read-only
//! read table files where they are                                             sharing the part cache
//! forget the key of the pin                                                   the collector deletes the pin
//! ```
//!
//! MOUNT-1: the owner notes the key of a mount's pin in memory before it creates the pin. So its collector
//!     can delete every pin of a mount in its own epoch or an earlier one whose key was not noted: it belongs
//!     to a mount that has ended, or to a former process. It leaves the pins of later epochs alone: they are
//!     of an owner that has fenced this process, which may not have noticed that yet.

use crate::error::{Result, StoreError};
use crate::files::{FileHandle, FileRecord, Files};
use crate::machine::Executor;
use crate::protocol::history::clone::{CloneRequest, Pins};
use crate::protocol::history::log_copy::LogReader;
use crate::protocol::history::mounts::reader::ViewPin;
use crate::protocol::history::past::Past;
use crate::protocol::history::pin;
use crate::protocol::history::snapshot::Moment;
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::publish::shared_notes::write_note;
use crate::protocol::shared::Shared;
use crate::protocol::start::claim::wall_clock_ms;
use crate::protocol::start::local::random_nonce;
use crate::protocol::start::restore::{LogWriter, write_manifest};
use crate::protocol::store::Store;
use crate::protocol::wal::marks::Gtid;
use crate::protocol::wal::position::Position;
use crate::requests::bucket::Bucket;
use crate::requests::origin;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long a mount of a moment waits until the bucket has the newest commits, and how often it looks.
const COVER_TIMEOUT: Duration = Duration::from_secs(30);
const COVER_INTERVAL: Duration = Duration::from_millis(10);

/// A state of the past that is pinned and can be read. It stays readable until this value is dropped.
pub struct Mount {
    files: Arc<Files>,
    records: BTreeMap<u64, FileRecord>,
    position: Position,
    hold: Hold,
}

/// Keeps the pin of a mount. When it is dropped, the pin is deleted, and later the collector deletes the
/// objects that only the mount needed.
pub(in crate::protocol) enum Hold {
    /// The mount is in the owner's process. The drop removes the key of the pin from the noted ones, and the
    /// collector of this process then deletes the pin (rule MOUNT-1). The drop sends no request.
    Owner { shared: Arc<Shared>, pin: String },
    /// The mount is in another process than the owner's (visitor.rs). The drop deletes the pins, with a
    /// DELETE for each.
    Visitor { executor: Arc<Executor>, pins: Pins },
    /// The mount is the state of a database that hands a table over to this one (hand_over.rs). The drop does
    /// nothing: the pin belongs to the hand-over.
    Offer { origin: String },
    /// The mount is the view of a reader (reader.rs). After the drop, a task of the reader deletes the pin. The drop
    /// sends no request.
    Reader { _pin: ViewPin },
}

impl Drop for Hold {
    fn drop(&mut self) {
        match self {
            Self::Owner { shared, pin } => {
                shared.mounts.lock().remove(pin);
                shared.inbox.wake.notify_one();
            }
            Self::Visitor { executor, pins } => executor.block_on(pins.take_back()),
            Self::Offer { .. } | Self::Reader { .. } => {}
        }
    }
}

impl Store {
    /// Pins the state that `when` names, a snapshot or else a moment ([`date::parse`]), and writes the files
    /// that RocksDB needs beside the table files into `dir`, which must not exist: MANIFEST, CURRENT and the
    /// log, which ends at that moment. `schema`: the name of the mount in lists of pins.
    ///
    /// Errors: `Invalid` for a text that names no snapshot and no moment, and for a moment outside the
    /// history (the message names the moments that can be restored); `Fenced`; `Unavailable`; `Interrupted`;
    /// those of the local disk. After an error, at most `dir` is left, and the pin until the collector runs.
    /// Requests: those that find and read a state, a PUT, a LIST and a HEAD.
    pub fn mount(&self, when: &str, schema: &str, dir: &Path) -> Result<Mount> {
        let shared = &self.shared;
        shared.check_fence()?;
        let pin = pin::mount_key(shared.epoch, &random_nonce()?);
        shared.mounts.lock().insert(pin.clone());
        let hold = Hold::Owner { shared: shared.clone(), pin: pin.clone() };
        let work = async {
            let past = Past::named(&shared.bucket, when).await?;
            let covered_us = match past {
                Past::At(_) if shared.history.limits().is_on() => Some(self.cover_all().await?),
                _ => None,
            };
            let inspector = Inspector::of_owner(shared.bucket.clone(), covered_us);
            let request = request(Some(past), schema, &shared.server_id);
            let moment = inspector.pin_for_clone(&pin, &request, &mut Pins::default()).await?;
            write_directory(&shared.bucket, &moment, dir).await?;
            Ok(moment)
        };
        Ok(Mount::new(&shared.files, shared.files.block_on(work)??, hold))
    }

    /// Ships the log, and waits until the bucket has every commit that was acknowledged by now. Returns this
    /// time, in microseconds since 1970 (past.rs, PAST-4). Errors: `Fenced`; `Unavailable` when the bucket
    /// does not take the log.
    async fn cover_all(&self) -> Result<u64> {
        let (now_us, start, path) = (wall_clock_ms() * 1000, Instant::now(), &self.shared.path);
        let (position, ddl) = (path.position(), path.ddl_noted());
        self.want(position, ddl);
        while !path.is_covered(position, ddl) {
            self.shared.check_fence()?;
            if start.elapsed() > COVER_TIMEOUT {
                return Err(StoreError::Unavailable(format!(
                    "the bucket has not taken the newest commits within {} s, so it does not have all moments yet",
                    COVER_TIMEOUT.as_secs()
                )));
            }
            tokio::time::sleep(COVER_INTERVAL).await;
        }
        Ok(now_us)
    }
}

impl Mount {
    /// Makes the mount of the state `moment`, which `hold` keeps pinned.
    pub(in crate::protocol) fn new(files: &Arc<Files>, moment: Moment, hold: Hold) -> Self {
        Self { files: files.clone(), records: moment.image.files, position: moment.position, hold }
    }

    /// Returns when the newest commit of the state was made, in microseconds since 1970; 0: the state has no
    /// commit.
    pub fn commit_us(&self) -> u64 {
        self.position.time_us
    }

    /// Returns the last GTID of each replication domain among the commits of the state.
    pub fn gtids(&self) -> impl Iterator<Item = Gtid> + '_ {
        self.position.gtids.values().copied()
    }

    /// Returns the size of table file `number` in bytes. None: the state has no such file.
    pub fn file_bytes(&self, number: u64) -> Option<u64> {
        self.records.get(&number).map(|file| file.size)
    }

    /// Returns the checksum of table file `number`. None: the state has no such file. Two states of a
    /// database have the same file if its number, size and checksum are the same.
    pub fn file_crc32c(&self, number: u64) -> Option<u32> {
        self.records.get(&number).map(|file| file.crc32c)
    }

    /// Returns the number and the size in bytes of each table file.
    #[cfg(test)]
    pub(in crate::protocol) fn list(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.records.iter().map(|(number, file)| (*number, file.size))
    }

    /// Returns what the state's root says of table file `number`. Errors: `NotFound`. No request.
    pub(in crate::protocol) fn record(&self, number: u64) -> Result<&FileRecord> {
        let absent = || StoreError::NotFound { operation: "opening", object: format!("file {number}") };
        self.records.get(&number).ok_or_else(absent)
    }

    /// Makes table file `number` of `store` have the object of this state's table file `from`
    /// (`atoll_store_adopt_file` in objstore.h), so that rows of the past come back without a copy. This is
    /// durable on local disk when the function returns. Until then this mount holds the object (FILE-7).
    ///
    /// Requires: the mount is one of `store`. Errors: `NotFound` when the state has no file `from`; `Invalid` when
    /// the object belongs to a third database, from which the mounted one was cloned or took it; `Fenced`; `Unavailable`, `NoSpace` (local disk). No request.
    pub fn give(&self, from: u64, store: &Store, number: u64) -> Result<()> {
        let shared = &store.shared;
        shared.check_fence()?;
        let record = self.record(from)?.clone();
        let expected = match &self.hold {
            Hold::Offer { origin } => Some(origin.as_str()),
            _ => None,
        };
        if origin::split(&record.key).0 != expected {
            return Err(StoreError::Invalid(
                "that state has table files of another database, of which its own is a clone: use INSERT ... SELECT, or make \
                 the clone independent (atollctl materialize) first"
                    .to_owned(),
            ));
        }
        let given = write_note(&shared.local_dir, &shared.db_uuid, number, record)?;
        store.files().share(None, given)
    }

    /// Opens table file `number`. Errors: `NotFound`. No request.
    pub fn open(&self, number: u64) -> Result<FileHandle> {
        Ok(self.files.open_past(number, self.record(number)?))
    }
}

/// Makes the request to pin the state `past`; None: the newest state in the bucket. `place` and `creator` are
/// shown in lists of pins.
pub(in crate::protocol) fn request(past: Option<Past>, place: &str, creator: &str) -> CloneRequest {
    CloneRequest {
        past,
        place: place.to_owned(),
        creator: creator.to_owned(),
        discards_unfinished: false,
        expires_s: None,
    }
}

/// Writes the files of a pinned state that RocksDB needs beside its table files into `dir`, which must not exist.
pub(in crate::protocol) async fn write_directory(bucket: &Bucket, moment: &Moment, dir: &Path) -> Result<()> {
    let root = &moment.image.root;
    write_manifest(bucket, root, dir).await?;
    let mut logs = LogWriter::new(dir.to_owned(), root.wal_min);
    let mut log = LogReader::new(bucket, root.id.epoch, moment);
    while let Some(chunks) = log.next().await? {
        chunks.iter().try_for_each(|chunk| logs.append(chunk))?;
    }
    logs.finish().map(drop)
}
