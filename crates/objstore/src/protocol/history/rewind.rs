//! Sets a database back to a snapshot or a moment, in its own prefix, while no server owns it.
//!
//! ```text
//! pin the past state, check its files and pins              from now on nobody deletes what it needs (PIN-3)
//! refuse the database if it has an owner that may still run
//! claim epoch E, close the former epochs, create root/E/0   no former owner can change the state any more
//! create a snapshot of the present state
//! copy MANIFEST and log of the past state
//! check the files and pins of the past state once more
//! create root/E/1                                           now the database has the past state
//! delete the pin of the past state
//! ```
//!
//! REWIND-1: a program that dies before it creates `root/E/1` changes nothing: an epoch without a root adds
//!     nothing to its base (CLAIM-3), so the next server starts from the present state.
//! REWIND-2: the snapshot of the present state exists before `root/E/1`, so a second rewind can undo the
//!     first.
//! REWIND-4: all files of the past state exist when `root/E/1` is created. The rewind's own pin keeps those of
//!     this database, even when somebody drops the snapshot meanwhile. In a clone, the pins in the parents
//!     keep the others, and the rewind looks for them as late as possible.
//! REWIND-3: `root/E/1` is newer than every local directory, so the next server sets its local directory
//!     aside and restores a new one.

use crate::error::{Result, StoreError};
use crate::protocol::format::image;
use crate::protocol::format::records::{Alive, RootId};
use crate::protocol::history::clone::{CloneRequest, Pins, check_files, foreign_files};
use crate::protocol::history::past::Past;
use crate::protocol::history::pin;
use crate::protocol::history::snapshot::{Moment, SnapshotStatus, check_name};
use crate::protocol::history::state_copy;
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::publish::map_record::object_bytes;
use crate::protocol::start::alive;
use crate::protocol::start::claim::{StopAfter, close_and_claim, take_epoch};
use crate::protocol::start::home::Home;
use crate::protocol::start::local::random_nonce;
use crate::protocol::start::precheck::check_rewindable;
use crate::protocol::wal::position::Position;
use serde::Serialize;

/// What [`Inspector::rewind`] is asked to do.
#[derive(Debug, Clone)]
pub struct RewindRequest {
    /// The state to which the database goes back.
    pub past: Past,
    /// The name of the snapshot that keeps the present state.
    pub keep: String,
    /// The program that rewinds, shown to people.
    pub creator: String,
    /// True: the rewind fences an owner that has not written the hint that it closed the database. False: the
    /// rewind refuses such a database.
    pub takes_over: bool,
}

/// What a rewind did, or would do.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct RewindStatus {
    /// When the newest commit of the present state and of the past state was made, in microseconds since
    /// 1970; None: the state has no commit.
    pub present_commit_us: Option<u64>,
    pub commit_us: Option<u64>,
    pub present_gtid_position: String,
    pub gtid_position: String,
    /// Epoch and slot of the root of the past state. `log_chunks` are the log chunks that are replayed over
    /// it: the number of the first, and one more than the number of the last.
    pub from_root: (u64, u64),
    pub log_chunks: (u64, u64),
    /// True: the log of the past state is cut inside the last of these chunks, so not all records of that
    /// chunk are replayed.
    pub is_cut: bool,
    pub files: u64,
    pub files_bytes: u64,
    /// Epoch and slot of the root from which the next server starts. None: this is only a plan.
    pub root: Option<(u64, u64)>,
    /// The snapshot of the present state. None: this is only a plan.
    pub kept: Option<SnapshotStatus>,
}

impl Inspector {
    /// Returns what [`Inspector::rewind`] would do. Errors, requests: those of the part of `rewind` that only
    /// reads.
    pub async fn plan_rewind(&self, past: &Past) -> Result<RewindStatus> {
        self.identity().await?;
        let present = self.moment().await?;
        Ok(status_of(&present.position, &self.find(past).await?.moment))
    }

    /// Checks that no server owns the database, so that `rewind` would not refuse it. `takes_over`: as in
    /// [`RewindRequest`]. Errors: `ReadOnly`. Requests: a LIST, a HEAD, at most two GETs.
    pub async fn check_unowned(&self, takes_over: bool) -> Result<()> {
        if takes_over {
            return Ok(());
        }
        match alive::look(self.bucket(), &Home::default()).await? {
            None => Ok(()),
            Some(sight) => Err(StoreError::ReadOnly(format!(
                "{} may still be running. Stop it first. If you are sure that it is dead, repeat with --take-over",
                sight.owner()
            ))),
        }
    }

    /// Sets the database back to a snapshot or a moment. The present state becomes a snapshot first.
    ///
    /// Errors: `ReadOnly` when a server owns the database or may own it; `NotFound` without the
    /// snapshot; `Invalid` when the moment is outside the history, the name for the present state is taken,
    /// or another program claimed the database meanwhile; `Fenced`; `Unavailable` when the outcome is not
    /// known: look at the roots, or repeat the call. After any other error the database is as before.
    /// Requests: as a pin, a claim, a snapshot, and of copying the MANIFEST and log of the past state.
    pub async fn rewind(&self, request: &RewindRequest) -> Result<RewindStatus> {
        check_name(&request.keep)?;
        let mut pins = Pins::default();
        let outcome = async {
            let past = self.hold_past(request, &mut pins).await?;
            self.rewind_held(&past, request).await
        };
        let outcome = outcome.await;
        pins.take_back().await;
        outcome
    }

    /// Pins the past state, and checks that it is whole. Notes the pin in `pins`, also when this function
    /// fails.
    pub(in crate::protocol) async fn hold_past(
        &self,
        request: &RewindRequest,
        pins: &mut Pins,
    ) -> Result<Moment> {
        let wanted = CloneRequest {
            past: Some(request.past.clone()),
            place: "a restore in place".to_owned(),
            creator: request.creator.clone(),
            discards_unfinished: false,
            expires_s: None,
        };
        let past = self.pin_for_clone(&pin::copy_key(&random_nonce()?), &wanted, pins).await?;
        self.check_past(&past).await?;
        Ok(past)
    }

    /// Rule REWIND-4. Errors: `Corruption` when a file is absent; `NotFound` when a pin in a parent is absent
    /// or released. Requests: a LIST per 1000 files, and one for each parent.
    async fn check_past(&self, past: &Moment) -> Result<()> {
        let files = foreign_files(&past.image, &self.bucket().origin());
        self.check_parents_pins(&files).await?;
        check_files(self.bucket(), files.values()).await
    }

    /// Sets the database back to the state `past`, which the caller has pinned.
    pub(in crate::protocol) async fn rewind_held(
        &self,
        past: &Moment,
        request: &RewindRequest,
    ) -> Result<RewindStatus> {
        self.check_unowned(request.takes_over).await?;
        check_rewindable(self.bucket()).await?;
        let epoch = take_epoch(self.bucket(), &request.creator, &Home::default()).await?.number;
        let rewound = self.rewind_in(epoch, past, request).await;
        if rewound.is_err() {
            // This hint says that the epoch has no owner any more, so that the next server need not wait for
            // this process.
            let _ = alive::show(self.bucket(), &Alive::gone(epoch, &request.creator)).await;
        }
        rewound
    }

    async fn rewind_in(&self, epoch: u64, past: &Moment, request: &RewindRequest) -> Result<RewindStatus> {
        let bucket = self.bucket();
        let claim = close_and_claim(bucket, epoch, &request.creator, StopAfter::Nothing).await?;
        let base = claim.base.ok_or_else(|| StoreError::Bug("a snapshot without a root".to_owned()))?;
        let present = self.moment_of(image::load(bucket, base).await?, Some(claim.wal_end)).await?;
        let kept = self.hold(&present, &request.keep, &request.creator).await?.ok_or_else(|| {
            let RootId { epoch, slot } = base;
            StoreError::Corruption(format!("root {epoch}/{slot}, the newest one, is below what was deleted"))
        })?;
        let files = past.image.files.iter().map(|(number, file)| (*number, file.clone())).collect();
        let copied = state_copy::prepare(bucket, bucket, epoch, past, &files).await?;
        self.check_past(past).await?;
        state_copy::publish(bucket, copied, &request.creator).await?;
        let root = Some((epoch, state_copy::SLOT));
        Ok(RewindStatus { root, kept: Some(kept), ..status_of(&present.position, past) })
    }
}

fn status_of(present: &Position, past: &Moment) -> RewindStatus {
    let commit_us = |position: &Position| (position.time_us != 0).then_some(position.time_us);
    RewindStatus {
        present_commit_us: commit_us(present),
        commit_us: commit_us(&past.position),
        present_gtid_position: present.gtid_text(),
        gtid_position: past.position.gtid_text(),
        from_root: (past.image.root.id.epoch, past.image.root.id.slot),
        log_chunks: (past.image.root.wal_first_chunk, past.wal_end),
        is_cut: past.cut.is_some(),
        files: past.image.files.len() as u64,
        files_bytes: object_bytes(&past.image.files),
        root: None,
        kept: None,
    }
}
