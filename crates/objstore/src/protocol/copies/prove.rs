//! Proves that the database can be restored from the bucket: does what a server without a local directory
//! does, and reads all table files.
//!
//! ```text
//! pin the newest state                                 a running server goes on, the objects stay
//! build a local directory from it, in a scratch place  MANIFEST and log, as RocksDB reads them
//! read every table file, compare its checksum
//! delete the pin; write the time and the outcome to hint/proved
//! ```
//!
//! RocksDB itself does not run here. `atollctl verify --restore --rows` has RocksDB read every row, too.

use crate::error::{Result, StoreError};
use crate::protocol::format::names;
use crate::protocol::history::clone::{CloneRequest, Pins};
use crate::protocol::history::pin;
use crate::protocol::history::snapshot::Moment;
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::inspection::verify::VerifyReport;
use crate::protocol::start::claim::{OwnEpoch, wall_clock_ms};
use crate::protocol::start::local::random_nonce;
use crate::protocol::start::restore::{fresh_marker, restore};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// When the newest proof of a restore was made, and its outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct LastProof {
    /// Unix time in milliseconds, by the clock of the machine that made the proof.
    pub proved_ms: u64,
    pub is_restorable: bool,
}

/// The outcome of a proof, as `hint/proved` stores it.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct Proof {
    /// Unix time in milliseconds, by the clock of the machine that made the proof.
    pub proved_ms: u64,
    pub took_ms: u64,
    pub is_restorable: bool,
    /// When the newest commit that the restore found was made, in microseconds since 1970; None: it
    /// found no commit.
    pub commit_us: Option<u64>,
    pub gtid_position: String,
    /// How many rows of all tables RocksDB has read. None: the caller did not ask for it.
    pub rows_read: Option<u64>,
    /// What was read, and in `problems` why a restore would fail.
    pub report: VerifyReport,
}

impl Inspector {
    /// Restores the newest state into `scratch`, which is empty, and reads all table files. The caller then
    /// stores the outcome with [`Inspector::leave_proof`].
    ///
    /// Errors: the bucket's and the local disk's. Damaged data is no error: it is listed among the
    /// problems of the proof. Requests: as a restore, a GET per 8 MiB of table files, and those of a
    /// pin.
    pub async fn prove_restore(
        &self,
        scratch: &Path,
        creator: &str,
        progress: impl Fn(u64, u64),
    ) -> Result<Proof> {
        let (start_ms, mut pins) = (wall_clock_ms(), Pins::default());
        let request = CloneRequest {
            past: None,
            place: "a proof of a restore".to_owned(),
            creator: creator.to_owned(),
            discards_unfinished: false,
            expires_s: None,
        };
        let db_uuid = self.identity().await?.db_uuid;
        let key = pin::copy_key(&random_nonce()?);
        let outcome = async {
            let moment = match self.pin_for_clone(&key, &request, &mut pins).await {
                Err(StoreError::Corruption(what)) => return Ok((None, broken(what))),
                moment => moment?,
            };
            let mut report = self.verify_image(&moment.image, Some(moment.wal_end), true, &progress).await?;
            if let Err(error) = self.restore_into(scratch, &db_uuid, &moment).await {
                match error {
                    StoreError::Corruption(what) => report.problems.push(what),
                    error => return Err(error),
                }
            }
            Ok((Some(moment.position), report))
        }
        .await;
        pins.take_back().await;
        let (position, report) = outcome?;
        Ok(Proof {
            proved_ms: start_ms,
            took_ms: wall_clock_ms().saturating_sub(start_ms),
            is_restorable: report.problems.is_empty(),
            commit_us: position.as_ref().map(|at| at.time_us).filter(|time| *time != 0),
            gtid_position: position.map(|at| at.gtid_text()).unwrap_or_default(),
            rows_read: None,
            report,
        })
    }

    /// Writes the proof to `hint/proved`. Errors: the bucket's. Requests: a PUT.
    pub async fn leave_proof(&self, proof: &Proof) -> Result<()> {
        let text = serde_json::to_vec_pretty(proof).map_err(|error| StoreError::Bug(error.to_string()))?;
        self.bucket().put(names::PROVED, text.into()).await
    }

    /// Reads the newest proof from `hint/proved`. None: there is none, or it cannot be read as one. Errors: the
    /// bucket's. Requests: a GET.
    pub async fn last_proof(&self) -> Result<Option<LastProof>> {
        match self.bucket().get(names::PROVED).await {
            Ok(text) => Ok(serde_json::from_slice(&text).ok()),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn restore_into(&self, scratch: &Path, db_uuid: &str, moment: &Moment) -> Result<()> {
        // No server will use this directory, so its marker names epoch 0, which is never claimed.
        let marker = fresh_marker(db_uuid, OwnEpoch { number: 0, nonce: [0; 16] });
        let (image, end) = (&moment.image, Some(moment.wal_end));
        restore(self.bucket(), image, end, &scratch.join("restored"), &marker).await.map(|_| ())
    }
}

fn broken(what: String) -> VerifyReport {
    VerifyReport { problems: vec![what], ..VerifyReport::default() }
}
