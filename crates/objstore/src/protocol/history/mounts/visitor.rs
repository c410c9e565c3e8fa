//! A visitor: a program that reads states of a database which it does not own, beside the owner or without
//! one.
//!
//! A visitor writes nothing to the bucket but pins for the states that it reads. Their keys begin with
//! `pin/copy-`, like those of the pins of programs that copy a database (pin.rs).

use crate::client;
use crate::config::StoreConfig;
use crate::error::Result;
use crate::files::{Files, FilesConfig};
use crate::log::LogFn;
use crate::machine::Executor;
use crate::protocol::history::clone::{CloneRequest, Pins};
use crate::protocol::history::mounts::mount::{Hold, Mount, request, write_directory};
use crate::protocol::history::past::Past;
use crate::protocol::history::pin;
use crate::protocol::history::snapshot::Moment;
use crate::protocol::inspection::diff::PRESENT;
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::start::identity::Identity;
use crate::protocol::start::local::random_nonce;
use crate::requests::bucket::Bucket;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::Arc;

/// A program that reads states of one database without owning it.
pub struct Visitor {
    pub(super) bucket: Bucket,
    pub(super) files: Arc<Files>,
    pub(super) creator: String,
    pub(super) executor: Arc<Executor>,
    pub(super) identity: Identity,
}

impl Visitor {
    /// Connects as `config` says. The part cache is in `cache_dir`; `local_dir` should not exist, because
    /// [`Files`] searches it for table files, and a visitor has none. Lists of pins show `server_id`.
    ///
    /// Errors: `Invalid` for a configuration that cannot be used; `NotFound` without a database; those of the
    /// bucket and of the local disk. Requests: a GET. Requires: not called on a thread of a tokio runtime.
    pub fn open(config: &StoreConfig, log: LogFn) -> Result<Self> {
        Self::over(client::connect(config, Arc::default())?, config, log)
    }

    /// Makes a visitor of the database in `bucket`.
    pub(in crate::protocol) fn over(bucket: Bucket, config: &StoreConfig, log: LogFn) -> Result<Self> {
        let executor = Arc::new(Executor::new()?);
        let identity = executor.block_on(Inspector::new(bucket.clone()).identity())?;
        let runtime = executor.handle().clone();
        let uuid = identity.db_uuid.clone();
        let files = Files::new(FilesConfig::of(config, bucket.clone(), uuid, log, runtime))?;
        files.install(Vec::new(), Vec::new())?;
        Ok(Self { bucket, files, creator: config.server_id.clone(), executor, identity })
    }

    /// Pins the state that `when` names, and writes the files that RocksDB needs beside the table files into
    /// `dir`, which must not exist. `when` is [`PRESENT`] (everything in the bucket), the name of a snapshot,
    /// or a moment.
    ///
    /// Errors, requests: as [`Store::mount`](crate::protocol::Store::mount), and a DELETE when the
    /// mount is dropped. A process that is killed leaves the pin, which `atollctl snapshot list` shows as a
    /// copy.
    pub fn mount(&self, when: &str, dir: &Path) -> Result<Mount> {
        let past = match when {
            PRESENT => None,
            when => Some(self.files.block_on(Past::named(&self.bucket, when))??),
        };
        let key = pin::copy_key(&random_nonce()?);
        let (moment, pins) = self.pin(key, request(past, "a comparison of rows", &self.creator))?;
        let hold = Hold::Visitor { executor: self.executor.clone(), pins };
        self.files.block_on(write_directory(&self.bucket, &moment, dir))??;
        Ok(Mount::new(&self.files, moment, hold))
    }

    /// Creates the pin `key` of the requested state. When the statement is killed meanwhile, this waits for the end of
    /// the pin's PUT: the bucket could carry out a PUT that nobody waits for after the DELETE of the pin. After an
    /// error no pin is left, unless its DELETE fails.
    pub(super) fn pin(&self, key: String, request: CloneRequest) -> Result<(Moment, Pins)> {
        let inspector = Inspector::new(self.bucket.clone());
        let mut pinning = self.executor.handle().spawn(async move {
            let mut pins = Pins::default();
            let moment = inspector.pin_for_clone(&key, &request, &mut pins).await;
            (moment, pins)
        });
        let waited = self.files.block_on(async { (&mut pinning).await });
        let (ended, error) = match waited {
            Ok(ended) => (ended, None),
            Err(interrupted) => (self.executor.block_on(pinning), Some(interrupted)),
        };
        let (moment, pins) = ended.unwrap_or_else(|panicked| resume_unwind(panicked.into_panic()));
        let outcome = error.map_or(moment, Err);
        if outcome.is_err() {
            self.executor.block_on(pins.take_back());
        }
        Ok((outcome?, pins))
    }
}
