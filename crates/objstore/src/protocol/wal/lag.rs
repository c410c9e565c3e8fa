//! The commit path: how far the bucket lags behind the local WAL, in atomics that a committing thread reads
//! without a lock.
//!
//! A *position* counts WAL bytes: those of the WALs found at open, and then those that this process appends,
//! over all its WALs. `covered` is the position up to which a restore from the bucket alone would find
//! everything: the chunks are in the bucket without a gap, and a published root has every MANIFEST edit that
//! they depend on. Lag is the distance from `covered` to the newest position, in bytes and in age.
//!
//! LAG-1: `covered` never passes a byte that a restore would not replay.
//! LAG-2: while anything is uncovered, `pending_since` is set. Only the race described in `clear_pending` can
//!        make it later than the append of the oldest uncovered byte, and by no more than that race takes. So
//!        the reported age never hides lag.
//! LAG-3: uncovered bytes of a former process (its *inheritance*) have no known age and count as too old.
//!        With durability async, no new commit is acknowledged before the bucket has a root of this epoch,
//!        the WAL found at open, and the commits that the server's recovery adds to that WAL.
//! Lock rule: none; every field is an atomic.

use crate::config::Durability;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use tokio::time::Instant;

const NO_WAL: u64 = u64::MAX;

/// Atomics shared by committing threads, the shipper and the publisher.
#[derive(Debug)]
pub(crate) struct CommitPath {
    origin: Instant,
    active_wal: AtomicU64,
    /// Position of the first byte of `active_wal`.
    active_base: AtomicU64,
    position: AtomicU64,
    /// All bytes before this position are durable on local disk. [`Self::synced`] raises it for syncs that
    /// are counted without the lock, so that the WAL table does not know of them yet.
    synced: AtomicU64,
    covered: AtomicU64,
    /// The number of MANIFEST edits that later WAL bytes depend on. It starts at 1, so that nothing is
    /// covered before a first root.
    ddl_noted: AtomicU64,
    ddl_published: AtomicU64,
    /// Milliseconds since `origin`, plus one; 0 = nothing is uncovered.
    pending_since: AtomicU64,
    /// LAG-3: position after the last byte found at open, plus one; 0 = there is no inheritance.
    inherited_end: AtomicU64,
    durability: AtomicU8,
    lag_ms_max: AtomicU32,
    lag_bytes_max: AtomicU64,
    fenced: AtomicBool,
}

impl CommitPath {
    pub(crate) fn new(durability: Durability, lag_max: Duration, lag_bytes_max: u64) -> Self {
        Self {
            origin: Instant::now(),
            active_wal: AtomicU64::new(NO_WAL),
            active_base: AtomicU64::new(0),
            position: AtomicU64::new(0),
            synced: AtomicU64::new(0),
            covered: AtomicU64::new(0),
            ddl_noted: AtomicU64::new(1),
            ddl_published: AtomicU64::new(0),
            pending_since: AtomicU64::new(0),
            inherited_end: AtomicU64::new(0),
            durability: AtomicU8::new(durability as u8),
            lag_ms_max: AtomicU32::new(milliseconds(lag_max)),
            lag_bytes_max: AtomicU64::new(lag_bytes_max),
            fenced: AtomicBool::new(false),
        }
    }

    /// Counts an append to the active WAL. Returns false when `wal` is not the active one: the caller then
    /// counts the append in the WAL table, under the lock.
    pub(crate) fn appended(&self, wal: u64, length: u64) -> bool {
        let Some(base) = self.base_of_active(wal) else { return false };
        self.advance(base + length);
        true
    }

    /// Counts a sync of the active WAL, whose first `length` bytes are durable. Returns false as
    /// [`Self::appended`] does.
    pub(crate) fn synced(&self, wal: u64, length: u64) -> bool {
        let Some(base) = self.base_of_active(wal) else { return false };
        self.synced.fetch_max(base + length, SeqCst);
        true
    }

    /// Returns the position of the first byte of `wal`; None when `wal` is not the active one.
    fn base_of_active(&self, wal: u64) -> Option<u64> {
        if self.active_wal.load(SeqCst) != wal {
            return None;
        }
        let base = self.active_base.load(SeqCst);
        // The number is read again: if the active WAL was switched in between, the base may be that of
        // another WAL.
        (self.active_wal.load(SeqCst) == wal).then_some(base)
    }

    /// Makes [`Self::appended`] and [`Self::synced`] return false until the next [`Self::activate`].
    pub(crate) fn deactivate(&self) {
        self.active_wal.store(NO_WAL, SeqCst);
    }

    /// Makes `wal`, whose first byte has position `base`, the one that [`Self::appended`] accepts.
    pub(crate) fn activate(&self, wal: u64, base: u64) {
        if self.active_wal.load(SeqCst) == wal && self.active_base.load(SeqCst) == base {
            return;
        }
        self.active_wal.store(NO_WAL, SeqCst);
        self.active_base.store(base, SeqCst);
        self.active_wal.store(wal, SeqCst);
    }

    pub(crate) fn advance(&self, position: u64) {
        self.position.fetch_max(position, SeqCst);
        self.set_pending_now();
    }

    pub(crate) fn position(&self) -> u64 {
        self.position.load(SeqCst)
    }

    /// The position up to which [`Self::synced`] has counted bytes as durable.
    pub(crate) fn synced_position(&self) -> u64 {
        self.synced.load(SeqCst)
    }

    pub(crate) fn covered(&self) -> u64 {
        self.covered.load(SeqCst)
    }

    /// Notes one MANIFEST edit that later bytes depend on; returns its number.
    pub(crate) fn note_ddl(&self) -> u64 {
        let number = self.ddl_noted.fetch_add(1, SeqCst) + 1;
        self.set_pending_now();
        number
    }

    pub(crate) fn ddl_noted(&self) -> u64 {
        self.ddl_noted.load(SeqCst)
    }

    pub(crate) fn ddl_published(&self) -> u64 {
        self.ddl_published.load(SeqCst)
    }

    pub(crate) fn set_ddl_published(&self, number: u64) {
        self.ddl_published.fetch_max(number, SeqCst);
    }

    /// Notes that everything up to `position` is covered. `later_since`: a time before which no byte at a
    /// higher position was appended; None when no such time is known.
    pub(crate) fn set_covered(&self, position: u64, later_since: Option<Instant>) {
        self.covered.fetch_max(position, SeqCst);
        let age = later_since.map(|time| time.saturating_duration_since(self.origin));
        self.clear_pending(age.map_or(0, |age| age.as_millis() as u64 + 1));
    }

    /// Returns true when a restore from the bucket would find everything done so far.
    pub(crate) fn is_all_covered(&self) -> bool {
        self.is_covered(self.position(), self.ddl_noted())
    }

    pub(crate) fn is_covered(&self, position: u64, ddl: u64) -> bool {
        self.covered() >= position && self.ddl_published() >= ddl
    }

    pub(crate) fn lag_bytes(&self) -> u64 {
        self.position().saturating_sub(self.covered())
    }

    /// Age of the oldest uncovered byte or edit; zero when all is covered.
    pub(crate) fn lag(&self) -> Duration {
        match self.pending_since.load(SeqCst) {
            0 => Duration::ZERO,
            _ if self.is_all_covered() => Duration::ZERO,
            since => Duration::from_millis(self.now().saturating_sub(since)),
        }
    }

    /// Notes that a former process may have acknowledged everything counted so far (LAG-3).
    pub(crate) fn set_inherited(&self) {
        self.inherited_end.store(self.position() + 1, SeqCst);
    }

    fn is_inheritance_safe(&self) -> bool {
        let end = self.inherited_end.load(SeqCst);
        end == 0 || self.is_covered(end - 1, 1)
    }

    pub(crate) fn is_within_bounds(&self) -> bool {
        self.is_inheritance_safe()
            && self.lag_bytes() <= self.lag_bytes_max.load(SeqCst)
            && self.lag().as_millis() <= u128::from(self.lag_ms_max.load(SeqCst))
    }

    /// How far, in time, the bucket is allowed to lag behind the local disk.
    pub(crate) fn lag_max(&self) -> Duration {
        Duration::from_millis(u64::from(self.lag_ms_max.load(SeqCst)))
    }

    pub(crate) fn durability(&self) -> Durability {
        Durability::from_number(self.durability.load(SeqCst)).unwrap_or_default()
    }

    pub(crate) fn set_durability(&self, durability: Durability, lag_max: Duration, lag_bytes_max: u64) {
        self.lag_ms_max.store(milliseconds(lag_max), SeqCst);
        self.lag_bytes_max.store(lag_bytes_max, SeqCst);
        self.durability.store(durability as u8, SeqCst);
    }

    pub(crate) fn is_fenced(&self) -> bool {
        self.fenced.load(SeqCst)
    }

    pub(crate) fn set_fenced(&self) {
        self.fenced.store(true, SeqCst);
    }

    fn now(&self) -> u64 {
        self.origin.elapsed().as_millis() as u64 + 1
    }

    /// Sets the age when none is set. Reads the clock only then, because every commit comes through here.
    fn set_pending_now(&self) {
        if self.pending_since.load(SeqCst) == 0 {
            self.set_pending(self.now());
        }
    }

    fn set_pending(&self, now: u64) {
        if self.pending_since.load(SeqCst) == 0 {
            let _ = self.pending_since.compare_exchange(0, now, SeqCst, SeqCst);
        }
    }

    /// Moves `pending_since` forward to `since`, or to 0 when nothing is uncovered.
    ///
    /// An append may come between the test and the store of 0. That append sees the old value, which is not
    /// 0, and leaves it. So the test is repeated after the store, and sets `pending_since` again when a byte
    /// is uncovered.
    fn clear_pending(&self, since: u64) {
        if !self.is_all_covered() {
            if self.ddl_published() >= self.ddl_noted() {
                self.pending_since.fetch_max(since, SeqCst);
            }
            return;
        }
        self.pending_since.store(0, SeqCst);
        if !self.is_all_covered() {
            self.set_pending(since.max(1));
        }
    }
}

fn milliseconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(lag_ms: u64, lag_bytes: u64) -> CommitPath {
        let path = CommitPath::new(Durability::Async, Duration::from_millis(lag_ms), lag_bytes);
        path.set_ddl_published(1);
        path
    }

    #[test]
    fn nothing_is_covered_before_the_first_root() {
        let path = CommitPath::new(Durability::Async, Duration::from_secs(1), 10);
        assert!(!path.is_all_covered());
        path.set_ddl_published(1);
        assert!(path.is_all_covered());
    }

    #[test]
    fn lag_counts_bytes_and_age_from_the_oldest_uncovered_byte() {
        let path = path(1_000_000, 10);
        path.activate(7, 0);
        assert!(path.appended(7, 10) && path.is_within_bounds());
        assert!(path.appended(7, 11) && !path.is_within_bounds());
        path.set_covered(11, None);
        assert!(path.is_within_bounds() && path.lag() == Duration::ZERO && path.lag_bytes() == 0);
        path.set_durability(Durability::Async, Duration::from_millis(1), 1000);
        path.activate(8, 11);
        assert!(path.appended(8, 5));
        std::thread::sleep(Duration::from_millis(5));
        assert!(!path.is_within_bounds());
    }

    #[test]
    fn syncs_count_for_the_active_wal_only() {
        let path = path(1000, 1000);
        path.activate(7, 100);
        assert!(path.synced(7, 20) && path.synced(7, 10));
        assert!(!path.synced(8, 500), "not the active one");
        assert_eq!(path.synced_position(), 120);
        path.deactivate();
        assert!(!path.synced(7, 30));
    }

    #[test]
    fn an_inheritance_is_never_within_bounds() {
        let path = CommitPath::new(Durability::Async, Duration::from_secs(1000), 1000);
        path.advance(100);
        path.set_inherited();
        path.set_ddl_published(1);
        assert!(!path.is_within_bounds());
        path.set_covered(99, None);
        assert!(!path.is_within_bounds());
        path.set_covered(100, None);
        assert!(path.is_within_bounds());
    }

    #[test]
    fn an_append_to_another_wal_takes_the_slow_way() {
        let path = path(1, 1);
        path.activate(7, 100);
        assert!(!path.appended(6, 5));
        assert!(path.appended(7, 5));
        assert_eq!(path.position(), 105);
    }

    #[test]
    fn an_edit_that_is_not_published_counts_as_lag() {
        let path = path(1, 1000);
        path.set_covered(0, None);
        assert_eq!(path.lag(), Duration::ZERO);
        let edit = path.note_ddl();
        std::thread::sleep(Duration::from_millis(5));
        assert!(!path.is_covered(0, edit) && !path.is_within_bounds());
        path.set_ddl_published(edit);
        path.set_covered(0, None);
        assert!(path.is_covered(0, edit) && path.is_within_bounds());
    }
}
