//! Fetches missing parts from the bucket: neighbouring parts in one GET, several GETs in parallel, each part
//! once.
//!
//! A part that is being fetched has a *flight*, an entry in the file's table `flights`. Every reader that
//! needs the part waits for its flight. The readers get the bytes as soon as the GET has ended, but the
//! flight stays in the table until the part is on disk. So a reader that comes later finds the flight or the
//! part, and does not fetch the part again. Each GET runs in its own task, so it goes on for the other
//! readers when the reader that started it is killed.

use super::file::{CacheFile, Check};
use super::{Cache, STORE_DELAY_MAX, STORE_QUIET, UNSTORED_PARTS_MAX};
use crate::crc::PART_BYTES;
use crate::error::{Result, StoreError};
use crate::machine;
use crate::stats::add;
use bytes::Bytes;
use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::time::timeout;

/// A part that is being fetched: None until its GET has ended, then the bytes or the error.
pub(super) type Flight = watch::Receiver<Option<Result<Bytes>>>;
type Landing = watch::Sender<Option<Result<Bytes>>>;

/// Gaps between missing parts are fetched along with the parts when they are at most this large: at 1 Gbit/s
/// 1 MiB takes 8 ms, less than the latency of another request.
pub(crate) const GAP_BYTES_MAX: u64 = 1 << 20;

/// The most bytes of one GET. A larger GET would make its readers wait longer for their bytes, and hold more
/// memory.
pub(crate) const GET_BYTES_MAX: u64 = 8 << 20;

/// A last part shorter than this seldom holds everything that RocksDB reads when it opens a table file,
/// because the file's index takes 1 to 4 bytes for each 1,000 bytes of the file.
const SHORT_PART_BYTES: u64 = PART_BYTES / 2;

/// How many times a read tries to get its parts through the cache when eviction takes them away again. After
/// that it reads from the bucket without the cache.
const ATTEMPTS_MAX: usize = 4;

/// Who asked for a GET: a reader that waits for it, or a prefetch for which nobody waits. The two have
/// separate limits for the number of GETs that run at once.
#[derive(Debug, Clone, Copy)]
enum Urgency {
    Reader,
    Prefetch,
}

/// A range of an object that a reader wants, and the buffer for its bytes.
pub(crate) struct Wanted<'a> {
    /// The position of the first byte in the object. Requires: `offset + out.len()` is inside the object.
    pub(crate) offset: u64,
    /// Filled completely unless `result` is an error.
    pub(crate) out: &'a mut [u8],
    /// Ok when `out` is filled, else the error. A range of 0 bytes leaves it unchanged.
    pub(crate) result: Result<()>,
}

impl Cache {
    /// Fills all wanted ranges of `file`, from disk where possible.
    ///
    /// Requests: one GET per run of missing parts. Blocks: on the network; not for use on the runtime's
    /// threads.
    pub(crate) fn read(self: &Arc<Self>, file: &Arc<CacheFile>, data: &File, wanted: &mut [Wanted<'_>]) {
        let mut open: Vec<&mut Wanted<'_>> = Vec::new();
        for want in wanted.iter_mut().filter(|w| !w.out.is_empty()) {
            if self.read_cached(file, data, want) {
                add(&self.stats.cache_hits, 1);
            } else {
                open.push(want);
            }
        }
        for _ in 0..ATTEMPTS_MAX {
            if open.is_empty() {
                return;
            }
            let mut missing = missing_parts(file, &open);
            add(&self.stats.cache_misses, missing.len() as u64);
            join_short_end(file, &mut missing);
            self.waiting_readers.send_modify(|readers| *readers += 1);
            let fetched = self.interrupt.block_on(&self.runtime, self.fetch(file, &missing));
            self.waiting_readers.send_modify(|readers| *readers -= 1);
            let fetched = match fetched {
                Ok(fetched) => fetched,
                Err(killed) => {
                    open.iter_mut().for_each(|want| want.result = Err(killed.clone()));
                    return;
                }
            };
            open.retain_mut(|want| match self.assemble(file, data, want, &fetched) {
                Some(outcome) => {
                    want.result = outcome;
                    false
                }
                None => true,
            });
        }
        self.read_past(&file.key, open);
    }

    /// Starts fetching the missing parts of a range; no reader waits for them.
    pub(crate) fn prefetch(self: &Arc<Self>, file: &Arc<CacheFile>, range: Range<u64>) {
        let range = range.start..range.end.min(file.size());
        if range.is_empty() || !self.is_enabled() || self.is_full() {
            return;
        }
        let parts = CacheFile::parts_of(range.start, range.end - range.start);
        let missing: Vec<u32> = parts.filter(|part| !file.is_present(*part)).collect();
        if !missing.is_empty() {
            self.launch(file, &missing, Urgency::Prefetch);
        }
    }

    /// Reads ranges of an object from the bucket and stores nothing, because the cache is off, its disk
    /// fails, or it evicts parts faster than they are read.
    pub(crate) fn read_past(&self, key: &str, mut wanted: Vec<&mut Wanted<'_>>) {
        wanted.retain(|w| !w.out.is_empty());
        wanted.sort_unstable_by_key(|w| w.offset);
        let ranges = merge(wanted.iter().map(|w| w.offset..w.offset + w.out.len() as u64));
        let gets = ranges.iter().map(|range| async {
            let _permit = self.fetches.acquire().await;
            let body = self.bucket.get_range(key, range.clone()).await;
            if body.is_ok() {
                self.stats.lost_objects.found(key, range.end);
            }
            body
        });
        let bodies = self.interrupt.block_on(&self.runtime, futures_util::future::join_all(gets));
        for want in wanted {
            want.result = match &bodies {
                Ok(bodies) => copy_from(&ranges, bodies, want.offset, want.out),
                Err(killed) => Err(killed.clone()),
            };
        }
    }

    /// Removes the parts of a range from the cache, because the caller has found a wrong checksum in their
    /// bytes. The next read fetches them again.
    pub(crate) fn drop_range(&self, file: &CacheFile, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        for part in CacheFile::parts_of(range.start, range.end - range.start) {
            self.drop_damaged(file, part);
            // The damaged bytes may come from a GET that has just ended, so the next reader must not
            // take the bytes of that GET's flight.
            let mut flights = file.flights.lock();
            if flights.get(&part).is_some_and(|flight| flight.borrow().is_some()) {
                flights.remove(&part);
            }
        }
    }

    /// Reads one range from disk. Returns false when a part is missing or damaged; a damaged part is removed
    /// from the cache.
    fn read_cached(&self, file: &CacheFile, data: &File, want: &mut Wanted<'_>) -> bool {
        match file.read(data, want.offset, want.out) {
            Ok(()) => {
                want.result = Ok(());
                true
            }
            Err((part, Check::Bad)) => {
                self.drop_damaged(file, part);
                false
            }
            Err(_) => false,
        }
    }

    /// Fetches `parts` and waits for them; returns the bytes or the error of each. Parts that came to the
    /// disk meanwhile are left out of the result.
    async fn fetch(self: &Arc<Self>, file: &Arc<CacheFile>, parts: &[u32]) -> HashMap<u32, Result<Bytes>> {
        let mut fetched = HashMap::new();
        for (part, mut flight) in self.launch(file, parts, Urgency::Reader) {
            let outcome = match flight.wait_for(Option::is_some).await {
                Ok(landed) => landed.clone(),
                Err(_) => Some(Err(StoreError::Interrupted("the store is closing".to_owned()))),
            };
            if let Some(outcome) = outcome {
                fetched.insert(part, outcome);
            }
        }
        fetched
    }

    /// Returns the flights of `parts`; starts a flight for each part that has none and is not on disk.
    fn launch(
        self: &Arc<Self>,
        file: &Arc<CacheFile>,
        parts: &[u32],
        urgency: Urgency,
    ) -> Vec<(u32, Flight)> {
        let mut joined = Vec::with_capacity(parts.len());
        let mut started: Vec<(u32, Landing)> = Vec::new();
        {
            let mut flights = file.flights.lock();
            for part in parts {
                // No reader joins a flight that has failed: a reader that asks again wants another
                // attempt.
                if let Some(flight) = flights.get(part).filter(|flight| !has_failed(flight)) {
                    joined.push((*part, flight.clone()));
                } else if !file.is_present(*part) {
                    let (landing, flight) = watch::channel(None);
                    flights.insert(*part, flight.clone());
                    joined.push((*part, flight));
                    started.push((*part, landing));
                }
            }
        }
        let byte_range = |part: u32| {
            let start = u64::from(part) * PART_BYTES;
            start..start + file.part_length(part)
        };
        let runs = merge(started.iter().map(|(part, _)| byte_range(*part)));
        let mut started = started.into_iter().peekable();
        for run in runs {
            let mut landings = Vec::new();
            while let Some(next) = started.next_if(|(part, _)| byte_range(*part).end <= run.end) {
                landings.push(next);
            }
            let task = Arc::clone(self).fetch_run(Arc::clone(file), run, landings, urgency);
            self.runtime.spawn(task);
        }
        joined
    }

    /// Sends one GET, gives its parts to the readers that wait for them, stores the parts, and removes their
    /// flights.
    async fn fetch_run(
        self: Arc<Self>,
        file: Arc<CacheFile>,
        run: Range<u64>,
        landings: Vec<(u32, Landing)>,
        urgency: Urgency,
    ) {
        let permit = match urgency {
            Urgency::Reader => self.fetches.acquire().await,
            Urgency::Prefetch => self.prefetches.acquire().await,
        };
        let body = self.bucket.get_range(&file.key, run.clone()).await;
        if body.is_ok() {
            self.stats.lost_objects.found(&file.key, run.end);
        }
        let mut parts = Vec::with_capacity(landings.len());
        for (part, landing) in &landings {
            let piece = body.clone().map(|bytes| {
                let from = (u64::from(*part) * PART_BYTES - run.start) as usize;
                bytes.slice(from..from + file.part_length(*part) as usize)
            });
            if let Ok(bytes) = &piece {
                parts.push((*part, bytes.clone()));
            }
            landing.send_replace(Some(piece));
        }
        let parts_count = (parts.len() as u32).min(UNSTORED_PARTS_MAX as u32);
        let _room = match self.unstored.try_acquire_many(parts_count) {
            Ok(room) => {
                drop(permit);
                self.wait_for_a_quiet_moment().await;
                Ok(room)
            }
            Err(_) => {
                self.room_wanted.notify_waiters();
                let room = self.unstored.acquire_many(parts_count).await;
                drop(permit);
                room
            }
        };
        let (cache, target) = (Arc::clone(&self), Arc::clone(&file));
        let _ = machine::run_blocking(move || cache.store(&target, &parts)).await;
        let mut flights = file.flights.lock();
        for (part, landing) in landings {
            if flights.get(&part).is_some_and(|flight| flight.same_channel(&landing.subscribe())) {
                flights.remove(&part);
            }
        }
    }

    async fn wait_for_a_quiet_moment(&self) {
        let quiet = async {
            let mut readers = self.waiting_readers.subscribe();
            while readers.wait_for(|count| *count == 0).await.is_ok() {
                if timeout(STORE_QUIET, readers.changed()).await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            biased;
            () = quiet => {}
            () = self.room_wanted.notified() => {}
            () = tokio::time::sleep(STORE_DELAY_MAX) => {}
        }
    }

    /// Fills one range with the parts in `fetched` and the others from disk. None when a part that is not in
    /// `fetched` is not on disk any more, or is damaged there.
    fn assemble(
        &self,
        file: &CacheFile,
        data: &File,
        want: &mut Wanted<'_>,
        fetched: &HashMap<u32, Result<Bytes>>,
    ) -> Option<Result<()>> {
        let end = want.offset + want.out.len() as u64;
        for part in CacheFile::parts_of(want.offset, want.out.len() as u64) {
            let start = u64::from(part) * PART_BYTES;
            let from = start.max(want.offset);
            let to = (start + PART_BYTES).min(end);
            let out = want.out.get_mut((from - want.offset) as usize..(to - want.offset) as usize)?;
            match fetched.get(&part) {
                Some(Ok(bytes)) => {
                    out.copy_from_slice(bytes.get((from - start) as usize..(to - start) as usize)?)
                }
                Some(Err(error)) => return Some(Err(error.clone())),
                None => match file.read(data, from, out) {
                    Ok(()) => {}
                    Err((bad, Check::Bad)) => {
                        self.drop_damaged(file, bad);
                        return None;
                    }
                    Err(_) => return None,
                },
            }
        }
        Some(Ok(()))
    }
}

fn has_failed(flight: &Flight) -> bool {
    matches!(&*flight.borrow(), Some(Err(_)))
}

/// The parts that the ranges need and the disk does not have, in order, each once.
fn missing_parts(file: &CacheFile, wanted: &[&mut Wanted<'_>]) -> Vec<u32> {
    let mut parts: Vec<u32> = wanted
        .iter()
        .flat_map(|w| CacheFile::parts_of(w.offset, w.out.len() as u64))
        .filter(|part| !file.is_present(*part))
        .collect();
    parts.sort_unstable();
    parts.dedup();
    parts
}

/// Adds the part before the object's last part to `parts` when the last part is missing and short: RocksDB
/// opens a table file by reading its end, and then the index, which lies before that.
fn join_short_end(file: &CacheFile, parts: &mut Vec<u32>) {
    let last = file.parts_count().saturating_sub(1);
    if parts.last() != Some(&last) || last == 0 || file.part_length(last) >= SHORT_PART_BYTES {
        return;
    }
    if !file.is_present(last - 1) && !parts.contains(&(last - 1)) {
        parts.insert(parts.len() - 1, last - 1);
    }
}

/// Joins sorted ranges over small gaps into runs of bounded size. A single range above the bound stays whole.
fn merge(ranges: impl Iterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match runs.last_mut() {
            Some(run)
                if range.start <= run.end + GAP_BYTES_MAX
                    && range.end.max(run.end) - run.start <= GET_BYTES_MAX =>
            {
                run.end = run.end.max(range.end);
            }
            Some(run) if range.end <= run.end => {}
            _ => runs.push(range),
        }
    }
    runs
}

/// Fills `out` from the fetched run that contains its range. Errors: as the run's GET; `Bug` when no run
/// contains the range.
fn copy_from(ranges: &[Range<u64>], bodies: &[Result<Bytes>], offset: u64, out: &mut [u8]) -> Result<()> {
    let end = offset + out.len() as u64;
    for (range, body) in ranges.iter().zip(bodies) {
        if range.start <= offset && end <= range.end {
            let body = body.as_ref().map_err(Clone::clone)?;
            let from = (offset - range.start) as usize;
            if let Some(bytes) = body.get(from..from + out.len()) {
                out.copy_from_slice(bytes);
                return Ok(());
            }
        }
    }
    Err(StoreError::Bug(format!("no request covers the bytes {offset}..{end}")))
}
