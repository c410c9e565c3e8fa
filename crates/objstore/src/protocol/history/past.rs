//! Finds the state of a database at one moment of its history: a pinned root, and the later log up to one
//! commit.
//!
//! PAST-1: the state after a commit can be restored from a root whose table files hold no newer commit. Two
//!     conditions make that sure. The newest commit that the root records is this commit or an earlier one.
//!     And in the log, the commit comes after all WALs that were closed when the root was made, because the
//!     table files hold only commits of closed WALs.
//! PAST-2: the root contains every MANIFEST edit on which the log up to the commit depends, so that this log
//!     can be replayed over the root (gate PUB-G8).
//! PAST-3: the epoch of a moment is the newest epoch that had been claimed by then. So a moment before a
//!     rewind belongs to the history that the rewind set aside. When no root can be used, the moment cannot
//!     be restored, and the error says which moments can.
//! PAST-4: when the log of the newest epoch has no commit that is later than the moment, it may lack
//!     commits from before the moment, which the owner has not shipped yet. Then the end of the log is the
//!     state at the moment only if the owner says so: in its liveness hint, or in its own process. Otherwise
//!     the moment is refused. The hint is read before the log: what it promises was in the bucket then.
//! PAST-5: when an owner dies, its successor may have commits from before its claim that are only in the
//!     local log, so the log of the former epoch lacks them. The successor's roots record the newest commit
//!     that it had when it opened the database. If that commit is later than the end of the former log, a
//!     moment between the two logs is looked for behind the successor's first root, or refused.

use crate::date::{self, utc};
use crate::error::{Result, StoreError};
use crate::protocol::format::image::{self, WalkEnd};
use crate::protocol::format::names;
use crate::protocol::format::records::{Alive, Root, RootId, RootSlot};
use crate::protocol::format::slots::read_root_slot;
use crate::protocol::history::log_cut::{Cutter, Until};
use crate::protocol::history::named::snapshot_names::SnapshotNames;
use crate::protocol::history::pin::{self, Listed};
use crate::protocol::history::snapshot::Moment;
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::shared::Tuning;
use crate::protocol::start::alive;
use crate::protocol::start::claim;
use crate::protocol::start::claim::wall_clock_ms;
use crate::protocol::wal::marks::{Commit, Gtid};
use crate::protocol::wal::position::{Position, Tracker};
use crate::requests::bucket::Bucket;
use std::collections::BTreeSet;
use std::time::Duration;

/// How often a moment is looked for that the bucket may not cover yet, and the time between. A
/// server with a history ships a new commit within a part of the lag limit.
const TRIES_MAX: u32 = 3;
const TRIES_INTERVAL: Duration = Duration::from_secs(1);

/// How long a hint is on its way, at most, when the bucket works.
const HINT_WAY: Duration = Duration::from_secs(5);

/// A state of a database that a caller asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Past {
    /// The state of the snapshot of this name.
    Snapshot(String),
    /// The state after the last commit that is not later than this time, in microseconds since 1970.
    At(u64),
    /// The state after this transaction and all transactions that were committed before it.
    Gtid(Gtid),
}

impl Past {
    /// Returns the snapshot with the name `when` or, if there is none, the moment that the text `when`
    /// describes. So a snapshot whose name looks like a moment has precedence.
    ///
    /// Errors: `Invalid` for a text that names no snapshot and no moment. Requests: a LIST and a GET.
    pub(in crate::protocol) async fn named(bucket: &Bucket, when: &str) -> Result<Self> {
        if SnapshotNames::list(bucket).await?.find(bucket, when).await?.is_some() {
            return Ok(Self::Snapshot(when.to_owned()));
        }
        let no_moment =
            |error: StoreError| StoreError::Invalid(format!("there is no snapshot '{when}', and {error}"));
        date::parse(when).map(Self::At).map_err(no_moment)
    }
}

/// A state that was found, and the pin that keeps it.
pub(in crate::protocol) struct Found {
    pub(in crate::protocol) moment: Moment,
    /// The key of the pin that keeps this state or its root. None: the root is the newest one, and no pin of
    /// the history keeps it.
    pub(in crate::protocol) pin: Option<String>,
}

/// The roots of the history and the newest root, in ascending order. Roots of earlier versions, which do not
/// record their newest commits, are left out.
struct History {
    roots: Vec<Root>,
    pinned: BTreeSet<RootId>,
}

impl Inspector {
    /// Finds the state that `past` names.
    ///
    /// Errors: `NotFound` without the snapshot; `Invalid` for a moment outside the history; the message names
    /// the moments that can be restored. Requests: those that read the root; for a moment also a GET for each
    /// root of the history, and those that read the log from the last root before the moment on.
    pub(in crate::protocol) async fn find(&self, past: &Past) -> Result<Found> {
        match past {
            Past::Snapshot(name) => {
                let (key, pin, image) = self.snapshot_image(name).await?;
                let moment = Moment { image, wal_end: pin.wal_end, position: pin.position, cut: None };
                Ok(Found { moment, pin: Some(key) })
            }
            Past::At(time_us) => self.find_time(*time_us).await,
            Past::Gtid(gtid) => self.find_gtid(&self.history().await?, *gtid).await,
        }
    }

    /// Reads the roots of the history and the newest root. Errors: `Invalid` when there is no history.
    async fn history(&self) -> Result<History> {
        let listed = Listed::among(&self.bucket().list(names::PIN_DIR, None).await?);
        let pinned: BTreeSet<RootId> =
            listed.pins.iter().filter_map(|key| pin::history_root_of(key)).collect();
        let newest = self.newest_id().await?.map(|(id, _)| id);
        let mut roots = Vec::new();
        for id in pinned.iter().copied().chain(newest).collect::<BTreeSet<_>>() {
            match image::read_root(self.bucket(), id).await {
                Ok(root) if root.position.is_some() => roots.push(root),
                Ok(_) => {}
                // The root has expired since the listing.
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        if pinned.is_empty() {
            return Err(StoreError::Invalid(
                "the server keeps no history: atoll_history_retention is 0, or was set only a short while ago. Only snapshots can be \
                 restored (atollctl snapshot list)"
                    .to_owned(),
            ));
        }
        Ok(History { roots, pinned })
    }

    async fn find_time(&self, time_us: u64) -> Result<Found> {
        for _ in 1..TRIES_MAX {
            if let Answer::Found(found) = self.try_time(time_us).await? {
                return Ok(*found);
            }
            tokio::time::sleep(TRIES_INTERVAL).await;
        }
        match self.try_time(time_us).await? {
            Answer::Found(found) => Ok(*found),
            Answer::Uncovered(error) => Err(error),
        }
    }

    async fn try_time(&self, time_us: u64) -> Result<Answer> {
        let covered = self.covered().await?;
        let history = self.history().await?;
        let now_us = wall_clock_ms() * 1000;
        if time_us > now_us {
            return Err(StoreError::Invalid(format!(
                "{} UTC is in the future: it is {} UTC now",
                utc(time_us),
                utc(now_us)
            )));
        }
        for epoch in history.epochs() {
            if self.claim_of(epoch).await?.claimed_ms * 1000 > time_us {
                continue;
            }
            if let Some(scan) = self.scan_time(&history, epoch, time_us).await? {
                return self.judge(&history, epoch, scan, time_us, &covered).await;
            }
        }
        Err(StoreError::Invalid(format!("{} UTC is before the history. {}", utc(time_us), history.range())))
    }

    async fn scan_time(&self, history: &History, epoch: u64, time_us: u64) -> Result<Option<Scan>> {
        let start = history.start(epoch, |position| position.time_us <= time_us);
        self.cut(history, start, Until::Time(time_us)).await
    }

    /// Decides whether `scan`, which has read the log of `epoch` up to the moment, has read all commits from
    /// before the moment (rules PAST-4, PAST-5).
    async fn judge(
        &self,
        history: &History,
        epoch: u64,
        scan: Scan,
        time_us: u64,
        covered: &Covered,
    ) -> Result<Answer> {
        let last = scan.cutter.commits.position();
        let is_whole = scan.cutter.cut.is_some()
            || match history.next_after(epoch) {
                Some(next) => next.opened.is_none_or(|opened| opened.sequence <= last.sequence),
                None => time_us <= covered.until_us(epoch),
            };
        if is_whole {
            return self.found(history, epoch, scan).await.map(|found| Answer::Found(Box::new(found)));
        }
        let Some(next) = history.next_after(epoch) else {
            let known_us = last.time_us.max(covered.until_us(epoch));
            let wait = wait_for_hint(time_us, covered.until_us(epoch), wall_clock_ms() * 1000);
            return Ok(Answer::Uncovered(uncovered(time_us, known_us, wait)));
        };
        let (epoch, opened) = (next.id.epoch, next.opened.unwrap_or_default());
        let later = self.scan_time(history, epoch, time_us).await?;
        match later.filter(|later| later.cutter.commits.position().sequence >= opened.sequence) {
            Some(later) => {
                self.found(history, epoch, later).await.map(|found| Answer::Found(Box::new(found)))
            }
            None => Err(history.between(epoch, &scan.cutter)),
        }
    }

    /// Returns what the owner says about how far its commits are in the bucket. Requests: a LIST and a GET;
    /// none in the owner's process.
    async fn covered(&self) -> Result<Covered> {
        if let Some(owner_us) = self.owner_us() {
            return Ok(Covered { owner_us, hint: None });
        }
        let newest = claim::newest_epoch(self.bucket()).await?;
        // A hint of another epoch is of a former owner that has not noticed its successor, or was not
        // replaced yet.
        let hint = alive::read(self.bucket()).await?.filter(|hint| hint.epoch == newest);
        Ok(Covered { owner_us: 0, hint })
    }

    async fn find_gtid(&self, history: &History, gtid: Gtid) -> Result<Found> {
        for epoch in history.epochs() {
            let is_before = |position: &Position| {
                position.gtids.get(&gtid.domain).is_none_or(|last| last.sequence < gtid.sequence)
            };
            let start = history.start(epoch, is_before);
            if let Some(scan) = self.cut(history, start, Until::Gtid(gtid)).await?
                && scan.cutter.cut.is_some()
            {
                return self.found(history, epoch, scan).await;
            }
        }
        Err(StoreError::Invalid(format!(
            "there is no transaction with GTID {gtid} in the history: it is of another time, or of a statement that changed no rows \
             of ATOLL tables, as a definition. {}",
            history.range()
        )))
    }

    /// Reads the log from the root of `start` on, up to `until`. None: `until` is earlier than the history.
    async fn cut(&self, history: &History, start: Start<'_>, until: Until) -> Result<Option<Scan>> {
        let Start { root, is_before } = start;
        if !is_before && history.is_oldest(root) {
            return Ok(None);
        }
        let epoch = root.id.epoch;
        let end = self.end_of(epoch).await?;
        let known =
            if is_before { Some(root) } else { history.roots.iter().rfind(|older| older.id < root.id) };
        let known = known.and_then(|root| root.position.clone()).unwrap_or_default();
        let mut cutter = Cutter::new(until, Tracker::new(known));
        let ddl_max = history.of(epoch).map(|root| root.ddl_seq).max().unwrap_or(0);
        let read = |chunk: &crate::protocol::format::records::WalChunk| cutter.read(chunk);
        let (next, why) = image::walk_wal(self.bucket(), root, end, ddl_max, read).await?;
        if let Some(end) = end.filter(|end| why == WalkEnd::Absent && next < *end) {
            return Err(StoreError::Corruption(format!(
                "{} is missing in the bucket, but the history needs the log up to chunk {end}",
                names::wal_chunk(epoch, next)
            )));
        }
        Ok(Some(Scan { cutter, next }))
    }

    /// Returns the number of the first chunk that does not belong to the log of `epoch`. None: the epoch is
    /// still open.
    pub(in crate::protocol) async fn end_of(&self, epoch: u64) -> Result<Option<u64>> {
        for later in epoch + 1..=claim::newest_epoch(self.bucket()).await? {
            let id = RootId { epoch: later, slot: 0 };
            match read_root_slot(self.bucket(), id).await {
                Ok(RootSlot::Claim(claim)) if claim.base.is_some_and(|base| base.epoch == epoch) => {
                    return Ok(Some(claim.wal_end));
                }
                Ok(_) => {}
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Finds the newest root from which the state at the end of `scan` can be restored (rules PAST-1,
    /// PAST-2). Errors: `Invalid` if there is none.
    async fn found(&self, history: &History, epoch: u64, scan: Scan) -> Result<Found> {
        let Scan { cutter, next } = scan;
        let position = cutter.commits.position().clone();
        let chunk = cutter.cut.as_ref().map_or(next, |cut| cut.chunk);
        let is_right = |root: &&Root| {
            root.ddl_seq >= cutter.ddl_seq
                && root.wal_needed_end <= chunk
                && root.position.as_ref().is_some_and(|own| own.sequence <= position.sequence)
        };
        let Some(root) = history.of(epoch).rfind(is_right) else {
            return Err(history.between(epoch, &cutter));
        };
        let image = image::load(self.bucket(), root.id).await?;
        let pin = history.pinned.contains(&root.id).then(|| pin::history_key(root.id));
        let wal_end = cutter.cut.as_ref().map_or(next, |cut| cut.chunk + 1);
        Ok(Found { moment: Moment { image, wal_end, position, cut: cutter.cut }, pin })
    }
}

/// What the search for a moment has found.
enum Answer {
    Found(Box<Found>),
    /// The bucket may lack commits from before the moment. The error says so.
    Uncovered(StoreError),
}

/// Up to which time the bucket has all acknowledged commits, by what the owner says (rule PAST-4).
struct Covered {
    /// What the owner knows in its own process, in microseconds since 1970. 0: this is another process.
    owner_us: u64,
    /// The hint of the newest epoch.
    hint: Option<Alive>,
}

impl Covered {
    /// Returns that time, in microseconds since 1970, for a moment after the last commit in the log of
    /// `epoch`. 0: nothing is known.
    fn until_us(&self, epoch: u64) -> u64 {
        let hinted = self.hint.as_ref().map_or(0, |hint| match hint.covered_us {
            Some(time_us) => time_us,
            // Programs that have written a whole epoch, and servers of earlier versions, say only that they
            // closed it. A program that took an epoch and gave up says nothing about the epoch before.
            None if hint.closed && hint.epoch == epoch => u64::MAX,
            None => 0,
        });
        hinted.max(self.owner_us)
    }
}

/// Returns the time from `now_us` on after which an idle server has shown that the bucket has everything up to
/// `time_us`. Its last hint said so up to `hinted_us`; 0: there was no such hint.
fn wait_for_hint(time_us: u64, hinted_us: u64, now_us: u64) -> Duration {
    let between_us = Tuning::default().alive_interval.as_micros() as u64;
    let hints = match hinted_us {
        0 => 1,
        _ => time_us.saturating_sub(hinted_us).div_ceil(between_us),
    };
    let from_us = if hinted_us == 0 { now_us } else { hinted_us };
    Duration::from_micros((from_us + hints * between_us).saturating_sub(now_us)) + HINT_WAY
}

/// Makes the error for a moment if the bucket may lack commits from before it. It surely has those up
/// to `known_us`. `wait`: after this time an idle server has shown that the bucket has them all.
fn uncovered(time_us: u64, known_us: u64, wait: Duration) -> StoreError {
    StoreError::Invalid(format!(
        "nobody knows yet whether the bucket has all commits up to {} UTC; it has those up to {} UTC. An idle server shows once in \
         {} s that the bucket has everything: repeat this in {} seconds, or ask the server itself (ATOLL_MOUNT). If the server was \
         killed, the rest is in its local log: start it, then stop it in order. Or take a moment up to {1} UTC",
        utc(time_us),
        utc(known_us),
        Tuning::default().alive_interval.as_secs(),
        wait.as_secs()
    ))
}

/// Where the search for a moment begins: the log is read from this root on.
struct Start<'a> {
    root: &'a Root,
    /// True: the wanted moment is later than `root`. False: `root` is the oldest of its epoch, and the moment
    /// may be earlier.
    is_before: bool,
}

/// What reading the log up to the wanted moment has found.
struct Scan {
    cutter: Cutter,
    /// The number of the first chunk that was not read, or in which the moment was found.
    next: u64,
}

impl History {
    /// Returns the epochs of the roots, the newest first.
    fn epochs(&self) -> Vec<u64> {
        let epochs: BTreeSet<u64> = self.roots.iter().map(|root| root.id.epoch).collect();
        epochs.into_iter().rev().collect()
    }

    fn of(&self, epoch: u64) -> impl DoubleEndedIterator<Item = &Root> {
        self.roots.iter().filter(move |root| root.id.epoch == epoch)
    }

    /// Returns the first root of the first epoch after `epoch` that has one.
    fn next_after(&self, epoch: u64) -> Option<&Root> {
        self.roots.iter().find(|root| root.id.epoch > epoch)
    }

    /// Returns the newest root of `epoch` for which `is_before` says that its newest commit is before the
    /// wanted moment. If there is none, returns the first root of `epoch`.
    fn start(&self, epoch: u64, is_before: impl Fn(&Position) -> bool) -> Start<'_> {
        let is_it = |root: &&Root| root.position.as_ref().is_some_and(&is_before);
        match self.of(epoch).rfind(is_it) {
            Some(root) => Start { root, is_before: true },
            None => Start { root: self.of(epoch).next().unwrap_or(&self.roots[0]), is_before: false },
        }
    }

    fn is_oldest(&self, root: &Root) -> bool {
        self.roots.first().is_some_and(|oldest| oldest.id == root.id)
    }

    /// Returns the text that names the moments that can be restored, for messages.
    fn range(&self) -> String {
        let time = |root: Option<&Root>| {
            let position = root.and_then(|root| root.position.as_ref());
            position.map_or_else(String::new, |position| match position.gtid_text() {
                gtid if gtid.is_empty() => format!("{} UTC", utc(position.time_us)),
                gtid => format!("{} UTC ({gtid})", utc(position.time_us)),
            })
        };
        format!(
            "It begins after the commit of {}, and reaches as far as the log is in the bucket, at least to the commit of {}",
            time(self.roots.first()),
            time(self.roots.last())
        )
    }

    /// Makes the error for a moment for which no root of `epoch` can be used.
    fn between(&self, epoch: u64, cutter: &Cutter) -> StoreError {
        let behind = self
            .of(epoch)
            .find(|root| root.ddl_seq >= cutter.ddl_seq)
            .and_then(|root| root.position.as_ref());
        let behind = behind.map_or_else(String::new, |position| {
            format!(", or after the commit of {} UTC", utc(position.time_us))
        });
        let in_front = cutter.last.as_ref().map_or_else(String::new, commit_text);
        StoreError::Invalid(format!(
            "the moment lies between a change of the tables' files (CREATE, DROP, ALTER, a bulk load) and the next root, or in the start \
             of a server{in_front}: it cannot be restored. Take one before that change{behind}. {}",
            self.range()
        ))
    }
}

fn commit_text(commit: &Commit) -> String {
    format!(", at the commit of {} UTC", utc(commit.time_us))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_ends_with_the_first_hint_that_covers_the_moment() {
        let second = 1_000_000;
        for (time, hinted, now, expected) in
            [(100, 90, 101, 54), (200, 90, 201, 19), (100, 0, 101, 65), (100, 90, 300, 0)]
        {
            let wait = wait_for_hint(time * second, hinted * second, now * second);
            assert_eq!(wait, Duration::from_secs(expected) + HINT_WAY, "{time} {hinted} {now}");
        }
    }
}
