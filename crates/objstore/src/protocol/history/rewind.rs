//! Sets a database back to a snapshot or a moment, in its own prefix, while no server owns it.
//!
//! ```text
//! refuse the database if it has an owner that possibly still runs
//! claim epoch E, close the former epochs, create root/E/0   no former owner can change the state any more
//! create a snapshot of the present state
//! copy MANIFEST and log of the past state, create root/E/1  now the database has the past state
//! ```
//!
//! REWIND-1: a program that dies before it creates `root/E/1` changes nothing: an epoch without a root adds
//!     nothing to its base (CLAIM-3), so the next server starts from the present state.
//! REWIND-2: the snapshot of the present state exists before `root/E/1`, so a second rewind can undo the
//!     first.
//! REWIND-3: `root/E/1` is newer than every local directory, so the next server sets its local directory
//!     aside and restores a new one.

use crate::error::{Result, StoreError};
use crate::protocol::format::image;
use crate::protocol::format::records::{Alive, RootId};
use crate::protocol::history::clone::{check_files, foreign_files};
use crate::protocol::history::past::Past;
use crate::protocol::history::snapshot::{Moment, SnapshotStatus, check_name};
use crate::protocol::history::state_copy;
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::publish::map_record::object_bytes;
use crate::protocol::start::alive;
use crate::protocol::start::claim::{StopAfter, close_and_claim, take_epoch};
use crate::protocol::start::home::Home;
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

    /// Sets the database back to a snapshot or a moment. The present state becomes a snapshot first.
    ///
    /// Errors: `ReadOnly` when a server owns the database or possibly owns it; `NotFound` without the
    /// snapshot; `Invalid` when the moment is outside the history, the name for the present state is taken,
    /// or another program claimed the database meanwhile; `Fenced`; `Unavailable` when the outcome is not
    /// known: look at the roots, or repeat the call. After any other error the database is as before.
    /// Requests: those of a claim, of a snapshot, and of copying the MANIFEST and log of the past state.
    pub async fn rewind(&self, request: &RewindRequest) -> Result<RewindStatus> {
        check_name(&request.keep)?;
        self.identity().await?;
        let past = self.find(&request.past).await?.moment;
        check_files(self.bucket(), foreign_files(&past.image, &self.bucket().origin()).values()).await?;
        if !request.takes_over
            && let Some(sight) = alive::look(self.bucket(), &Home::default()).await?
        {
            return Err(StoreError::ReadOnly(format!(
                "{} has not said good-bye. Stop it first; if it surely does not run any more, take over",
                sight.owner()
            )));
        }
        let epoch = take_epoch(self.bucket(), &request.creator, &Home::default()).await?.number;
        let rewound = self.rewind_in(epoch, &past, request).await;
        if rewound.is_err() {
            // This hint says that the epoch has no owner any more, so that the next server need not wait for
            // this process.
            let gone = Alive { epoch, server_id: request.creator.clone(), counter: 0, closed: true };
            let _ = alive::show(self.bucket(), &gone).await;
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
        state_copy::write(bucket, bucket, epoch, past, &files, &request.creator).await?;
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
