//! Which part leaves the cache next: three queues of part ids, after the idea of S3-FIFO (Yang et al., SOSP
//! 2023, "FIFO queues are all you need for cache eviction").
//!
//! A new part enters `small`. At the end of `small`, a part that was used again moves to `main`. A part that
//! was not used again is evicted, and its id is remembered in `ghost`: when such a part is fetched again, it
//! enters `main` directly. So a scan, which touches each part once, passes through `small`, a tenth of the
//! cache, and leaves the parts in `main` alone. A hit only sets a bit of the part (see [`super::file`]); only
//! misses change the queues. Lock: the lock of `Cache::state` protects the queues.

use std::collections::{HashSet, VecDeque};

/// A part: (cache file id, index of the part in its file).
pub(super) type PartId = (u32, u32);

/// What the cache answers when `evict` asks it about the part at the end of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// A reader has used the part since the cache was last asked about it. Asking clears the mark.
    Used,
    /// No reader has used the part since then.
    Unused,
    /// The part is no longer in the cache, so its queue entry is void.
    Gone,
}

/// The three queues (see the head of this file), and the order of the ids in `ghost`.
#[derive(Debug, Default)]
pub(super) struct Queues {
    small: VecDeque<PartId>,
    main: VecDeque<PartId>,
    ghost: HashSet<PartId>,
    ghost_order: VecDeque<PartId>,
}

/// `evict` takes from `small` while that holds more than one in ten parts, as in the paper, and else from
/// `main`.
const SMALL_SHARE: usize = 10;

impl Queues {
    /// Adds a part that has come into the cache.
    pub(super) fn insert(&mut self, part: PartId) {
        if self.ghost.remove(&part) {
            self.main.push_back(part);
        } else {
            self.small.push_back(part);
        }
    }

    /// Adds a part that was cached when the server last stopped. It enters `main`, like a part that was used
    /// again.
    pub(super) fn insert_known(&mut self, part: PartId) {
        self.main.push_back(part);
    }

    /// Removes the part to evict next from its queue and returns it; None when both queues are empty.
    ///
    /// Asks `usage` about each candidate. The loop ends, because each answer `Used` clears the part's mark: a
    /// part is put back at most once each time that a reader marks it.
    pub(super) fn evict(&mut self, usage: impl Fn(PartId) -> Use) -> Option<PartId> {
        loop {
            let from_small =
                self.small.len() * SMALL_SHARE > self.small.len() + self.main.len() || self.main.is_empty();
            if from_small {
                let part = self.small.pop_front()?;
                match usage(part) {
                    Use::Used => self.main.push_back(part),
                    Use::Unused => {
                        self.remember(part);
                        return Some(part);
                    }
                    Use::Gone => {}
                }
            } else {
                let part = self.main.pop_front()?;
                match usage(part) {
                    Use::Used => self.main.push_back(part),
                    Use::Unused => return Some(part),
                    Use::Gone => {}
                }
            }
        }
    }

    /// The number of entries in both queues, also of those whose part is no longer in the cache.
    pub(super) fn len(&self) -> usize {
        self.small.len() + self.main.len()
    }

    /// Drops the entries whose part is no longer in the cache. Call it when there are many more entries than
    /// parts.
    pub(super) fn retain(&mut self, is_present: impl Fn(PartId) -> bool) {
        self.small.retain(|part| is_present(*part));
        self.main.retain(|part| is_present(*part));
    }

    fn remember(&mut self, part: PartId) {
        if self.ghost.insert(part) {
            self.ghost_order.push_back(part);
        }
        while self.ghost_order.len() > self.main.len() + self.small.len() + 64 {
            if let Some(oldest) = self.ghost_order.pop_front() {
                self.ghost.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn a_scan_leaves_the_used_parts_alone() {
        let used = RefCell::new(HashSet::new());
        let usage = |p: PartId| if used.borrow_mut().remove(&p) { Use::Used } else { Use::Unused };
        let mut queues = Queues::default();
        for part in 0..100 {
            queues.insert((1, part));
            used.borrow_mut().insert((1, part));
        }
        let mut evicted = Vec::new();
        for part in 0..1000 {
            for hot in 0..90 {
                used.borrow_mut().insert((1, hot));
            }
            queues.insert((2, part));
            evicted.push(queues.evict(usage).unwrap());
        }
        let hot_lost = evicted.iter().filter(|(file, part)| *file == 1 && *part < 90).count();
        // One hot part can be evicted at the beginning, while `main` is still empty.
        assert!(hot_lost <= 1, "a scan of 1000 parts pushed {hot_lost} hot parts out");
    }

    #[test]
    fn a_part_that_comes_back_is_kept_longer() {
        let mut queues = Queues::default();
        queues.insert((1, 1));
        assert_eq!(queues.evict(|_| Use::Unused), Some((1, 1)));
        queues.insert((1, 1));
        for part in 0..20 {
            queues.insert((2, part));
        }
        for _ in 0..10 {
            assert_ne!(queues.evict(|_| Use::Unused), Some((1, 1)));
        }
    }

    #[test]
    fn void_entries_are_skipped_and_dropped() {
        let mut queues = Queues::default();
        (0..10).for_each(|part| queues.insert((1, part)));
        queues.retain(|(_, part)| part % 2 == 0);
        assert_eq!(queues.len(), 5);
        let usage = |(_, part): PartId| if part == 8 { Use::Unused } else { Use::Gone };
        assert_eq!(queues.evict(usage), Some((1, 8)));
        assert_eq!(queues.evict(usage), None);
    }
}
