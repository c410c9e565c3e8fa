//! The collector's task: writes keys of unneeded objects into tombs, waits for the grace time, deletes the
//! objects, and searches the bucket for strays, which are objects that nothing names.
//!
//! One task does all of this, one batch at a time. Requests: for a batch of at most 1000 keys two PUTs, a
//! GET, a LIST, a DELETE per key and two more DELETEs; for a new pin those that read its root; for a search a
//! LIST per 1000 objects, a LIST per 1000 unfinished uploads and a DELETE for each of these uploads, and LISTs
//! of the pins, tombs, horizons and names of snapshots. While there is no pin, the pins are listed twice. An
//! idle collector sends no request, but lists the pins every 15 minutes while it knows pins of readers.

mod history;
mod pins;
mod readers;
mod search;

use super::clock::HistoryClock;
use super::held::Held;
use super::keep::{Needs, Use, epoch_of};
use super::tombs::{self, KEYS_PER_TOMB_MAX, Tomb};
use super::{GcTuning, KEYS_MAX};
use crate::error::{Result, StoreError};
use crate::protocol::format::names;
use crate::protocol::format::records::{RootId, RootSlot};
use crate::protocol::format::slots::read_root_slot;
use crate::protocol::shared::{Former, Shared};
use crate::protocol::start::claim::wall_clock_ms;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use readers::ReaderPins;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout_at};

/// How many DELETEs run at a time.
const PARALLEL_DELETES: usize = 8;
/// How many searches are made after the last new root, until there is another root. The second search finds
/// uploads that ended after the first one.
const SEARCHES_PER_CHANGE: u32 = 2;
/// The time between searches grows by this for each page of the listing, so that there are at most 60 LISTs
/// per hour.
const REST_PER_PAGE: Duration = Duration::from_secs(60);
/// How many objects the reply to one LIST shows at most.
const PAGE_OBJECTS: usize = 1000;

/// Runs until the database is closed or fenced. At a close, writes the keys that are still to be deleted into
/// tombs.
pub(crate) async fn run(shared: Arc<Shared>) {
    let mut collector = Collector::new(shared.clone());
    while !shared.is_ending() {
        let wake = shared.inbox.wake.notified();
        match collector.next_event() {
            None => wake.await,
            Some(moment) => {
                let _ = timeout_at(moment, wake).await;
            }
        }
        let outcome = collector.turn().await;
        collector.rest_after(outcome);
    }
    if !shared.path.is_fenced() {
        // If this fails, the next owner's search finds these objects.
        let _ = collector.bury().await;
    }
}

struct Collector {
    shared: Arc<Shared>,
    tuning: GcTuning,
    tombs: Vec<Tomb>,
    tombs_written: u64,
    /// When the keys of the inbox are written into a tomb. None: no keys wait there, or there is no room for
    /// them, because the tombs hold too many keys already.
    gather_until: Option<Instant>,
    /// The collector does nothing before this time, because requests have failed or a pin forbids all
    /// deletions.
    not_before: Instant,
    /// The length of the last pause after a failure. Zero after a batch was deleted.
    rest: Duration,
    next_search: Instant,
    /// How many roots this process had published at the last search, and how many searches were made since
    /// that number changed.
    roots_seen: Option<u64>,
    searches: u32,
    /// An extra search is due at this time, because pins were deleted and perhaps nothing needs their
    /// objects. None: no extra search is due.
    search_again_at: Option<Instant>,
    /// The reason of the hold that was logged since the last deletion; empty if there was none.
    hold_told: String,
    /// The pins of copying programs of which the log says that they are old.
    told_old: BTreeSet<String>,
    readers: ReaderPins,
    /// The highest horizon that this process has created: the collector is allowed to delete objects that
    /// only older roots need. None: it has created none.
    horizon: Option<RootId>,
    /// The objects that pins need, as of the last listing of pins.
    held: Held,
    /// The time by which the history becomes too old.
    clock: HistoryClock,
    is_clock_told: bool,
}

impl Collector {
    fn new(shared: Arc<Shared>) -> Self {
        let now = Instant::now();
        Self {
            tuning: shared.tuning.gc.clone(),
            tombs: Vec::new(),
            tombs_written: 0,
            gather_until: None,
            not_before: now,
            rest: Duration::ZERO,
            next_search: now,
            roots_seen: None,
            searches: 0,
            search_again_at: None,
            hold_told: String::new(),
            told_old: BTreeSet::new(),
            readers: ReaderPins::new(shared.tuning.gc.reader_pin_life),
            horizon: None,
            held: Held::doubting(shared.tuning.gc.doubts),
            clock: HistoryClock::new(shared.tuning.gc.clock_trust, wall_clock_ms()),
            is_clock_told: false,
            shared,
        }
    }

    /// When the collector has something to do next. None: not before another task wakes it.
    fn next_event(&mut self) -> Option<Instant> {
        let mut events: Vec<Instant> = self.history_event().into_iter().collect();
        if self.shared.inbox.has_keys() && self.has_room() {
            let gather = self.tuning.gather;
            events.push(*self.gather_until.get_or_insert_with(|| Instant::now() + gather));
        }
        if self.judge().is_some() {
            events.extend(self.tombs.iter().map(|tomb| tomb.due).min());
            events.extend(self.search_at());
            events.extend(self.readers.look_at());
        }
        events.into_iter().min().map(|moment| moment.max(self.not_before))
    }

    /// Does what is due now: aborts failed uploads, pins roots, writes tombs, deletes objects whose grace
    /// time is over, searches the bucket.
    async fn turn(&mut self) -> Result<()> {
        let now = Instant::now();
        if now < self.not_before {
            return Ok(());
        }
        self.abort_given_up().await?;
        if self.history_event().is_some_and(|at| at <= Instant::now()) {
            self.keep_history().await?;
        }
        if self.gather_until.is_some_and(|until| until <= now) {
            self.bury().await?;
        }
        if self.judge().is_none() {
            return Ok(());
        }
        while let Some(at) = self.tombs.iter().position(|tomb| tomb.due <= now) {
            let horizon = self.tombs[at].horizon;
            if !self.may_delete(horizon).await? {
                return Ok(());
            }
            let mut tomb = self.tombs.swap_remove(at);
            if let Err(error) = self.delete(&mut tomb).await {
                self.tombs.push(tomb);
                return Err(error);
            }
            self.rest = Duration::ZERO;
            self.shared.bucket.stats().trim_disabled.store(false, Ordering::Relaxed);
        }
        if self.search_at().is_some_and(|at| at <= now) {
            self.search().await?;
        }
        if self.readers.look_at().is_some_and(|at| at <= now) {
            let pins = self.list_pins().await?;
            self.look_at_pins(&pins).await?;
        }
        Ok(())
    }

    /// Makes a pause after a failure, each time a longer one. So a bucket that refuses deletions gets only
    /// the first few requests of one batch after each pause.
    fn rest_after(&mut self, outcome: Result<()>) {
        let Err(error) = outcome else { return };
        if self.shared.is_ending() {
            return;
        }
        if let StoreError::Refused(_) = error {
            self.shared.bucket.stats().trim_disabled.store(true, Ordering::Relaxed);
        }
        self.shared.report("deleting objects that are no longer needed", &error);
        self.rest = (self.rest * 2).clamp(self.tuning.retry_min, self.tuning.retry_max);
        self.not_before = Instant::now() + self.rest;
    }

    /// Returns what is needed now. None while this is not known: before the first root of this epoch, and
    /// until it is known whether the objects of former epochs are superfluous (GC-6).
    fn judge(&self) -> Option<Needs> {
        let mut needs = self.shared.inbox.needs()?;
        let state = self.shared.state.lock();
        needs.is_former_superfluous = match state.former {
            Former::NeededTo(_) => return None,
            Former::Superfluous => true,
            Former::Kept => false,
        };
        needs.add_runs(state.wal.runs.on_their_way());
        Some(needs)
    }

    fn has_room(&self) -> bool {
        self.tombs.iter().map(|tomb| tomb.keys.len()).sum::<usize>() < KEYS_MAX
    }

    /// Writes the keys of the inbox into tombs.
    async fn bury(&mut self) -> Result<()> {
        self.gather_until = None;
        let mut keys = self.shared.inbox.take_keys();
        keys.sort_unstable();
        keys.dedup();
        for (index, batch) in keys.chunks(KEYS_PER_TOMB_MAX).enumerate() {
            let name = names::tomb(self.shared.epoch, self.tombs_written);
            // Each number is used for one attempt only, because a failed attempt may have created the
            // tomb.
            self.tombs_written += 1;
            if let Err(error) = tombs::write(&self.shared.bucket, &name, batch).await {
                self.shared.inbox.propose(keys.drain(index * KEYS_PER_TOMB_MAX..));
                return Err(error);
            }
            self.tombs.push(self.tomb(name, batch.to_vec()));
        }
        Ok(())
    }

    /// Returns a tomb whose grace time begins now.
    fn tomb(&self, name: String, keys: Vec<String>) -> Tomb {
        let horizon = RootId { epoch: self.shared.epoch, slot: self.shared.published_slot() };
        Tomb { name, keys, horizon, due: Instant::now() + self.tuning.grace }
    }

    /// Whether a newer owner has fenced this epoch. If so, this owner stops writing. Requests: a GET.
    async fn is_fenced(&self) -> Result<bool> {
        let shared = &self.shared;
        let next = RootId { epoch: shared.epoch, slot: shared.published_slot() + 1 };
        match read_root_slot(&shared.bucket, next).await {
            Ok(RootSlot::Fence(fence)) => {
                shared.fenced_by(&fence);
                Ok(true)
            }
            Ok(_) => Ok(false), // A root that this process is publishing.
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Deletes the objects that the tomb lists, except those that are needed again (GC-2), and then the tomb.
    async fn delete(&mut self, tomb: &mut Tomb) -> Result<()> {
        let Some(needs) = self.judge() else { return Ok(()) };
        let keys = self.unneeded(&needs, tomb.keys.iter().map(|key| (key.as_str(), None)));
        self.delete_keys(keys).await?;
        tomb.keys.clear();
        self.hold_told.clear();
        self.shared.bucket.delete(&tomb.name).await
    }

    /// Deletes `keys`. Errors: the first one. Whether the DELETEs that were running at that time succeeded is
    /// not known.
    async fn delete_keys(&self, keys: BTreeSet<String>) -> Result<()> {
        debug_assert!(
            keys.iter().all(|key| epoch_of(key).is_some()),
            "only pieces of roots are deleted: {keys:?}"
        );
        let bucket = &self.shared.bucket;
        let mut pace = interval(Duration::from_secs(1) / self.tuning.deletes_per_second.max(1));
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut running = FuturesUnordered::new();
        for key in keys {
            if self.shared.is_ending() {
                return Err(StoreError::Interrupted("the store is closing".to_owned()));
            }
            pace.tick().await;
            if running.len() >= PARALLEL_DELETES
                && let Some(done) = running.next().await
            {
                done?;
            }
            running.push(async move { bucket.delete(&key).await });
        }
        while let Some(done) = running.next().await {
            done?;
        }
        Ok(())
    }

    /// Returns the keys of those `objects` (keys with their sizes) that neither this owner nor a pin needs.
    fn unneeded<'a>(
        &self,
        needs: &Needs,
        objects: impl Iterator<Item = (&'a str, Option<u64>)>,
    ) -> BTreeSet<String> {
        let mut keys = self.superfluous(needs, objects);
        keys.retain(|key| !self.held.needs(key));
        keys
    }

    /// Returns the keys of those `objects` that this owner does not need. Possibly a pin still needs them.
    fn superfluous<'a>(
        &self,
        needs: &Needs,
        objects: impl Iterator<Item = (&'a str, Option<u64>)>,
    ) -> BTreeSet<String> {
        let epoch = self.shared.epoch;
        let is_later = |key: &str| names::parse_file_epoch(key).is_some_and(|owner| owner > epoch);
        let is_unneeded =
            |(key, size): &(&str, Option<u64>)| needs.use_of(key, *size, is_later) == Use::Unneeded;
        let mut keys: BTreeSet<String> = objects.filter(is_unneeded).map(|(key, _)| key.to_owned()).collect();
        self.shared.files.retain_unknown(&mut keys);
        keys
    }

    /// Aborts the uploads in pieces that have failed, which deletes their pieces.
    async fn abort_given_up(&self) -> Result<()> {
        let bucket = &self.shared.bucket;
        while let Some(upload) = bucket.take_given_up() {
            if let Err(error) = bucket.abort_upload(&upload).await {
                bucket.give_up_upload(upload);
                return Err(error);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "collector_test.rs"]
mod tests;

#[cfg(test)]
#[path = "doubts_test.rs"]
mod doubts_test;
