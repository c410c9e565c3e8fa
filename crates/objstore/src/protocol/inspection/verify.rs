//! `atollctl verify`: checks that the bucket holds what restores need, of the newest state and of the states
//! that snapshots, clones and the history keep.

use crate::crc::{crc32c, crc32c_join};
use crate::error::{Result, StoreError};
use crate::files::FileRecord;
use crate::protocol::format::image::{self, Image, WalkEnd};
use crate::protocol::format::names;
use crate::protocol::format::records::{Root, RootId};
use crate::protocol::gc::is_pause;
use crate::protocol::history::pin::{self, Listed, Pin};
use crate::protocol::inspection::inspect::{Inspector, RootStatus, status_of_image};
use crate::protocol::inspection::snapshot_list::status_of_pin;
use crate::protocol::publish::map_record::{object_bytes, objects_of};
use futures_util::{StreamExt, stream};
use serde::Serialize;
use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;

/// How many requests run at a time during a verification.
const PARALLEL: usize = 16;
/// A table file is read in ranges of this size.
const RANGE_BYTES: u64 = 8 << 20;

/// What a verification has checked and found.
#[derive(Debug, Clone, Default, Serialize)]
#[allow(missing_docs)]
pub struct VerifyReport {
    /// None: the bucket has no root, so nothing was checked.
    pub root: Option<RootStatus>,
    pub files_checked: u64,
    pub bytes_read: u64,
    pub manifest_bytes: u64,
    pub wal_chunks: u64,
    pub wal_bytes: u64,
    /// What is wrong, in one sentence each; empty when all is well.
    pub problems: Vec<String>,
}

/// What [`Inspector::verify_kept`] has found about one pin. Table files that were checked for an earlier state
/// are not counted again, but their problems are named again.
#[derive(Debug, Clone, Serialize)]
pub struct KeptReport {
    /// `snapshot`, `clone`, `copy`, `mount` or `history`; `unknown` for a pin that cannot be read.
    pub kind: String,
    /// The name of the snapshot; where the clone or copy is; for the history, its root.
    pub name: String,
    /// The key of the pin.
    pub pin: String,
    /// What was checked, and the problems.
    #[serde(flatten)]
    pub report: VerifyReport,
}

/// The table files that were checked, and what is wrong with each. None: nothing.
type CheckedFiles = HashMap<Arc<str>, Option<String>>;

impl Inspector {
    /// Checks that every object that a restore of the newest root needs exists; `deep` also reads and checks
    /// every table file. Calls `progress` with the bytes checked so far, and the bytes of all table files.
    ///
    /// Errors: the bucket's. Damaged and missing data is no error; the report lists it. Requests: a HEAD
    /// per file; `deep`: a GET per 8 MiB.
    pub async fn verify(&self, deep: bool, progress: impl Fn(u64, u64)) -> Result<VerifyReport> {
        let mut before = None;
        loop {
            let Some((image, wal_end)) = self.newest_image().await? else {
                return Ok(VerifyReport::default());
            };
            let report = self.verify_image(&image, wal_end, deep, &progress).await?;
            // While an owner runs, it can publish a newer root and delete objects that only the verified root
            // needs. Then the newer root is verified instead.
            let has_moved = self.newest_id().await?.is_some_and(|(id, _)| id != image.root.id);
            if report.problems.is_empty() || !has_moved || before == Some(image.root.id) {
                return Ok(report);
            }
            before = Some(image.root.id);
        }
    }

    /// Verifies the state of each pin: snapshots, clones, copies, mounts, and the history with its log. Each
    /// table file is checked once. Pins that end meanwhile, and those of snapshots that are not finished, are
    /// left out. Calls `progress` with the number of states checked so far, and of all.
    ///
    /// Errors: `NotFound` when the prefix holds no database. Otherwise errors and requests are those of
    /// [`verify`](Self::verify) for each pin, and a LIST.
    pub async fn verify_kept(&self, deep: bool, progress: impl Fn(u64, u64)) -> Result<Vec<KeptReport>> {
        self.identity().await?;
        let listed = Listed::among(&self.bucket().list(names::PIN_DIR, None).await?);
        // The newest root bounds the log of the last pin; what follows belongs to the newest state.
        let newest = self.newest_id().await?.map(|(id, _)| id);
        let history: BTreeSet<RootId> =
            listed.pins.iter().filter_map(|key| pin::history_root_of(key)).chain(newest).collect();
        let (mut checked, mut reports) = (CheckedFiles::new(), Vec::new());
        let pins: Vec<&String> = listed.pins.iter().filter(|key| !is_pause(key)).collect();
        for (done, key) in (0..).zip(&pins) {
            progress(done, pins.len() as u64);
            reports.extend(self.verify_pin(key, &history, deep, &mut checked).await?);
        }
        Ok(reports)
    }

    /// Verifies the state that the pin `key` keeps. None: the pin has ended, or its snapshot is not finished.
    async fn verify_pin(
        &self,
        key: &str,
        history: &BTreeSet<RootId>,
        deep: bool,
        checked: &mut CheckedFiles,
    ) -> Result<Option<KeptReport>> {
        let pin = match pin::read(self.bucket(), key).await {
            Err(error) if error.is_not_found() => return Ok(None),
            Err(StoreError::Corruption(what)) => return Ok(Some(unreadable(key, what))),
            pin => pin?,
        };
        let report = self.verify_state(&pin, history, deep, checked).await?;
        if !report.problems.is_empty() && !self.is_kept(key, &pin).await? {
            return Ok(None);
        }
        let status = status_of_pin(key.to_owned(), &pin);
        let name = match pin::history_root_of(key) {
            Some(id) => format!("from root {}/{}", id.epoch, id.slot),
            None => status.name,
        };
        Ok(Some(KeptReport { kind: status.kind, name, pin: status.pin, report }))
    }

    /// Whether the pin is still there, and its snapshot, if it has one, is finished.
    async fn is_kept(&self, key: &str, pin: &Pin) -> Result<bool> {
        match self.bucket().head(key).await {
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
            Ok(_) if pin.kind == pin::PinKind::Snapshot => Ok(self.snapshot_of(key).await?.is_some()),
            Ok(_) => Ok(true),
        }
    }

    async fn verify_state(
        &self,
        pin: &Pin,
        history: &BTreeSet<RootId>,
        deep: bool,
        checked: &mut CheckedFiles,
    ) -> Result<VerifyReport> {
        let mut report = VerifyReport::default();
        let image = match image::load(self.bucket(), pin.root).await {
            Ok(image) => image,
            Err(error) => return keep_problem(&mut report, error).map(|()| report),
        };
        report.root = Some(status_of_image(&image));
        let log = match pin.kind {
            pin::PinKind::History => self.walk_history(&image.root, history, &mut report).await,
            _ => self.walk_log(&image.root, Some(pin.wal_end), &mut report).await,
        };
        log.or_else(|error| keep_problem(&mut report, error))?;
        self.check_manifest(&image.root, &mut report).await?;
        self.check_files(&image, deep, &|_, _| {}, checked, &mut report).await?;
        Ok(report)
    }

    pub(in crate::protocol) async fn verify_image(
        &self,
        image: &Image,
        wal_end: Option<u64>,
        deep: bool,
        progress: &impl Fn(u64, u64),
    ) -> Result<VerifyReport> {
        let mut report = VerifyReport { root: Some(status_of_image(image)), ..VerifyReport::default() };
        self.check_manifest(&image.root, &mut report).await?;
        let log = self.walk_log(&image.root, wal_end, &mut report).await;
        log.or_else(|error| keep_problem(&mut report, error))?;
        self.check_files(image, deep, progress, &mut CheckedFiles::new(), &mut report).await?;
        Ok(report)
    }

    async fn check_manifest(&self, root: &Root, report: &mut VerifyReport) -> Result<()> {
        match image::read_manifest(self.bucket(), root).await {
            Ok(manifest) => report.manifest_bytes = manifest.len() as u64,
            Err(error) => keep_problem(report, error)?,
        }
        Ok(())
    }

    async fn walk_log(&self, root: &Root, end: Option<u64>, report: &mut VerifyReport) -> Result<()> {
        let read = image::read_wal(self.bucket(), root, end, |chunk| {
            report.wal_chunks += 1;
            report.wal_bytes += chunk.bytes.len() as u64;
            Ok(())
        });
        read.await.map(|_| ())
    }

    /// Reads the log of the history from `root` to where the log of the next root of the history begins, or
    /// to the end of the epoch.
    async fn walk_history(
        &self,
        root: &Root,
        history: &BTreeSet<RootId>,
        report: &mut VerifyReport,
    ) -> Result<()> {
        let epoch = root.id.epoch;
        let behind = RootId { epoch, slot: root.id.slot + 1 }..RootId { epoch: epoch + 1, slot: 0 };
        let end = match history.range(behind).next() {
            Some(next) => match image::read_root(self.bucket(), *next).await {
                Ok(next) => Some(next.wal_first_chunk),
                // The report about that root says so.
                Err(error) if error.is_not_found() => self.end_of(epoch).await?,
                Err(error) => return Err(error),
            },
            None => self.end_of(epoch).await?,
        };
        let (next, why) = image::walk_wal(self.bucket(), root, end, u64::MAX, |chunk| {
            report.wal_chunks += 1;
            report.wal_bytes += chunk.bytes.len() as u64;
            Ok(ControlFlow::Continue(()))
        })
        .await?;
        match end.filter(|end| why == WalkEnd::Absent && next < *end) {
            None => image::check_wal_end(root, next, end),
            Some(end) => Err(StoreError::Corruption(format!(
                "{} is missing in the bucket, but the history needs the log up to chunk {end}",
                names::wal_chunk(epoch, next)
            ))),
        }
    }

    /// Checks those table files of `image` that are not among `checked`. Adds the problems of all its files to
    /// the report.
    async fn check_files(
        &self,
        image: &Image,
        deep: bool,
        progress: &impl Fn(u64, u64),
        checked: &mut CheckedFiles,
        report: &mut VerifyReport,
    ) -> Result<()> {
        let (known, new): (Vec<_>, Vec<_>) =
            objects_of(&image.files).into_iter().partition(|file| checked.contains_key(&file.key));
        report.problems.extend(known.iter().filter_map(|file| checked.get(&file.key).cloned().flatten()));
        let total = object_bytes(&image.files);
        let mut checks = stream::iter(new).map(|file| self.check_file(file, deep)).buffer_unordered(PARALLEL);
        let mut done = 0;
        while let Some((file, outcome)) = checks.next().await {
            done += file.size;
            progress(done, total);
            report.files_checked += 1;
            let before = report.problems.len();
            match outcome {
                Ok(read) => report.bytes_read += read,
                Err(error) => keep_problem(report, error)?,
            }
            checked.insert(Arc::clone(&file.key), report.problems.get(before).cloned());
        }
        Ok(())
    }

    /// Checks one table file. Returns it, and either the number of bytes read or, as an error, what is wrong.
    async fn check_file<'a>(&self, file: &'a FileRecord, deep: bool) -> (&'a FileRecord, Result<u64>) {
        let outcome = async {
            let found = self.bucket().head(&file.key).await?.size;
            if found != file.size {
                return Err(StoreError::Corruption(format!(
                    "{} has {found} bytes, its root says {}",
                    file.key, file.size
                )));
            }
            if deep { self.read_file(file).await } else { Ok(0) }
        };
        (file, outcome.await)
    }

    async fn read_file(&self, file: &FileRecord) -> Result<u64> {
        let (mut at, mut crc) = (0, 0);
        while at < file.size {
            let end = (at + RANGE_BYTES).min(file.size);
            let bytes = self.bucket().get_range(&file.key, at..end).await?;
            crc = crc32c_join(crc, crc32c(&bytes), end - at);
            at = end;
        }
        if crc != file.crc32c {
            return Err(StoreError::Corruption(format!(
                "{} has checksum {crc:#010x}, its root says {:#010x}",
                file.key, file.crc32c
            )));
        }
        Ok(at)
    }
}

/// The report about a pin that cannot be read.
fn unreadable(key: &str, what: String) -> KeptReport {
    KeptReport {
        kind: "unknown".to_owned(),
        name: String::new(),
        pin: key.to_owned(),
        report: VerifyReport { problems: vec![what], ..VerifyReport::default() },
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
