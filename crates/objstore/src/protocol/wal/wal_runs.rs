//! Decides which chunks are merged into bigger objects, so that a restore reads few objects. Pure state, no
//! I/O.
//!
//! A *run* is a merged object; the chunks with higher numbers than those in the last run are *loose*.
//!
//! RUN-1: runs are in ascending order and do not overlap; a new run holds whole runs or whole chunks, which
//!        follow each other.
//! RUN-2: a new run is planned only when a published root names all other runs, because an object becomes
//!        superfluous only when a root names the run that takes its place.
//! RUN-3: of small chunks that have arrived, fewer than `merge_chunks` stay loose. As long as any two
//!        neighbouring runs fit into one object, at most `runs_max` runs stay. Large chunks stay loose until
//!        there are more than `objects_max` runs and chunks together. So a restore reads at most
//!        `objects_max` objects or, for a very long WAL, two for every `run_bytes_max` bytes and for every
//!        `merge_chunks` chunks of it. In addition it reads the chunks that arrive during a merge.
//!
//! Large chunks are merged late, because they come from a load, and a flush soon makes them superfluous. If
//! every 24 of them were merged, the WAL of a load would be written to the bucket a second time.
//!
//! Runs are merged late, too, only when there are too many. Then those neighbours are merged for which the
//! size of the merged object, divided by the size of the biggest of them, is largest. A merge of eight runs
//! of equal size makes a run eight times as large, so a byte is written again only a few times (tests in
//! wal_runs_test.rs). A byte whose WAL is flushed soon is not written again at all. If the smallest runs were
//! merged instead, one run could grow by only a little each time.

use crate::protocol::wal::wal_record::WalRun;
use std::cmp::Reverse;
use std::collections::VecDeque;

/// At most this many runs are merged into one at a time.
const WINDOW_MAX: usize = 8;
/// The size of a chunk object without its bytes of the WAL, rounded up.
const CHUNK_OVERHEAD_BYTES: u64 = 128;

/// The limits that decide when chunks and runs are merged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MergeLimits {
    /// This many loose chunks become a run, if together they have at most `small_bytes_max`.
    pub(crate) merge_chunks: usize,
    pub(crate) small_bytes_max: u64,
    /// With more runs and loose chunks than these, large chunks become a run as well, of at most
    /// `chunks_bytes_max`, which the merger holds in memory.
    pub(crate) objects_max: usize,
    pub(crate) chunks_bytes_max: u64,
    /// With more runs than these, some of them become one.
    pub(crate) runs_max: usize,
    /// The most bytes of a merged object.
    pub(crate) run_bytes_max: u64,
}

impl MergeLimits {
    /// The limits of a server.
    pub(crate) const SERVER: Self = Self {
        merge_chunks: 24,
        small_bytes_max: 4 << 20,
        objects_max: 72,
        chunks_bytes_max: 32 << 20,
        runs_max: 24,
        run_bytes_max: 64 << 20,
    };

    /// Whether a chunk of `bytes` is merged soon, and not only when there are more than `objects_max`.
    pub(crate) fn is_small_chunk(&self, bytes: u64) -> bool {
        bytes <= self.small_bytes_max / self.merge_chunks as u64
    }
}

/// One object, a run or a chunk, that goes into a merged object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    Run(WalRun),
    Chunk(u64),
}

/// The chunks `first..end` are to become one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Merge {
    pub(crate) first: u64,
    pub(crate) end: u64,
    pub(crate) sources: Vec<Source>,
}

/// The runs and the loose chunks of this epoch.
#[derive(Debug, Default)]
pub(crate) struct RunTable {
    runs: Vec<WalRun>,
    /// How many objects the last merged object replaces; 0 when a root names it. Until then, a restore reads
    /// those objects.
    replaced: usize,
    /// The object of the last merge that was begun, while it is not known to be in the bucket.
    begun: Option<WalRun>,
    loose_first: u64,
    /// Bytes of each loose chunk from `loose_first` on.
    loose: VecDeque<u64>,
}

impl RunTable {
    /// Notes that the next chunk has been cut, with `bytes` of the WAL.
    pub(crate) fn chunk_cut(&mut self, bytes: u64) {
        self.loose.push_back(bytes + CHUNK_OVERHEAD_BYTES);
    }

    /// Returns what to merge next; None when there is nothing to merge now. Chunks from `arrived_end` on are
    /// perhaps not in the bucket yet.
    pub(crate) fn plan(&self, limits: &MergeLimits, arrived_end: u64) -> Option<Merge> {
        if self.is_unnamed() {
            return None;
        }
        self.plan_runs(limits).or_else(|| self.plan_chunks(limits, arrived_end))
    }

    fn plan_chunks(&self, limits: &MergeLimits, arrived_end: u64) -> Option<Merge> {
        let arrived = arrived_end.saturating_sub(self.loose_first) as usize;
        if arrived < limits.merge_chunks {
            return None;
        }
        let are_small = self.loose.iter().take(limits.merge_chunks).sum::<u64>() <= limits.small_bytes_max;
        if !are_small && self.objects() <= limits.objects_max {
            return None;
        }
        let mut bytes = 0;
        let fits = |size: &&u64| {
            bytes += **size;
            bytes <= limits.chunks_bytes_max
        };
        let count = self.loose.iter().take(arrived).take_while(fits).count() as u64;
        let (first, end) = (self.loose_first, self.loose_first + count);
        (count > 1).then(|| Merge { first, end, sources: (first..end).map(Source::Chunk).collect() })
    }

    /// Plans to merge the neighbours whose merged object grows most (see [`growth`]), and among equals the
    /// smallest.
    fn plan_runs(&self, limits: &MergeLimits) -> Option<Merge> {
        if self.runs.len() <= limits.runs_max {
            return None;
        }
        let windows = (0..self.runs.len()).flat_map(|from| self.windows_from(from, limits.run_bytes_max));
        let window = windows.max_by_key(|window| (growth(window), Reverse(bytes_of(window))))?;
        let (first, end) = (window.first()?.first, window.last()?.end);
        Some(Merge { first, end, sources: window.iter().copied().map(Source::Run).collect() })
    }

    /// All groups of two or more neighbours, the first of them run `from`, that fit into one object.
    fn windows_from(&self, from: usize, bytes_max: u64) -> impl Iterator<Item = &[WalRun]> {
        let follow = |pair: &[WalRun]| pair[0].end == pair[1].first;
        let longest = 1 + self.runs[from..].windows(2).take_while(|pair| follow(pair)).count();
        (2..=longest.min(WINDOW_MAX))
            .map(move |count| &self.runs[from..from + count])
            .take_while(move |window| bytes_of(window) <= bytes_max)
    }

    /// Notes that the object of `merge` is about to be written.
    pub(crate) fn begin(&mut self, merge: &Merge) {
        self.begun = Some(WalRun { first: merge.first, end: merge.end, bytes: 0 });
    }

    /// The merged objects that a root may name soon: those in the bucket, and the one that is being
    /// written.
    pub(crate) fn on_their_way(&self) -> impl Iterator<Item = WalRun> {
        self.runs.iter().copied().chain(self.begun)
    }

    /// Notes that the merged object is in the bucket, with `bytes`. It takes the place of the objects that
    /// went into it.
    pub(crate) fn merged(&mut self, merge: &Merge, bytes: u64) {
        let run = WalRun { first: merge.first, end: merge.end, bytes };
        self.begun = None; // it stays in `runs` until a root has named it
        self.runs.retain(|old| old.first < run.first || old.first >= run.end);
        let at = self.runs.partition_point(|old| old.first < run.first);
        self.runs.insert(at, run);
        self.replaced = merge.sources.len();
        self.forget_loose_below(run.end);
    }

    /// The runs that the next root names.
    pub(crate) fn runs(&self) -> &[WalRun] {
        &self.runs
    }

    /// Whether the next root will name a run that the newest root does not name.
    pub(crate) fn is_unnamed(&self) -> bool {
        self.replaced > 0
    }

    /// Notes that a root that names `runs` has been published, and needs no chunk below `first_needed`.
    ///
    /// A run that was merged while its chunks became superfluous is named once all the same, so
    /// that the collector learns of it.
    pub(crate) fn root_published(&mut self, runs: &[WalRun], first_needed: u64) {
        if self.runs.iter().all(|run| runs.contains(run)) {
            self.replaced = 0;
        }
        self.runs.retain(|run| run.end > first_needed || !runs.contains(run));
        self.forget_loose_below(first_needed);
    }

    fn forget_loose_below(&mut self, chunk: u64) {
        while self.loose_first < chunk {
            self.loose.pop_front();
            self.loose_first += 1;
        }
    }

    /// Objects that hold the WAL: runs, and chunks that are objects of their own.
    pub(crate) fn objects(&self) -> usize {
        self.runs.len() + self.loose.len()
    }

    /// How many objects of the WAL a restore would read now beyond `limits.objects_max`. In place of a merged
    /// object that no root names yet, it reads the objects that went into it.
    pub(crate) fn excess(&self, limits: &MergeLimits) -> usize {
        (self.objects() + self.replaced.saturating_sub(1)).saturating_sub(limits.objects_max)
    }
}

fn bytes_of(runs: &[WalRun]) -> u64 {
    runs.iter().map(|run| run.bytes).sum()
}

/// The size of all `runs` together, divided by the size of the biggest, in hundredths.
fn growth(runs: &[WalRun]) -> u64 {
    let biggest = runs.iter().map(|run| run.bytes).max().unwrap_or(0);
    100 * bytes_of(runs) / biggest.max(1)
}
