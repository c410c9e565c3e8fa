//! The pins of readers, and how long the collector has seen each of them (rule READER-1 of
//! history/mounts/reader.rs).

use crate::protocol::history::pin::is_reader_key;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;

/// The pins of readers in the last listing.
pub(super) struct ReaderPins {
    life: Duration,
    /// When the collector has seen each pin first.
    seen: BTreeMap<String, Instant>,
}

impl ReaderPins {
    /// Pins are abandoned when they have been seen for `life`.
    pub(super) fn new(life: Duration) -> Self {
        Self { life, seen: BTreeMap::new() }
    }

    /// Notes the pins that a listing shows. Returns those that their readers have abandoned, which the caller deletes.
    pub(super) fn note(&mut self, listed: &BTreeSet<String>, now: Instant) -> Vec<String> {
        self.seen.retain(|key, _| listed.contains(key));
        for key in listed.iter().filter(|key| is_reader_key(key)) {
            self.seen.entry(key.clone()).or_insert(now);
        }
        let is_old = |since: &Instant| now.duration_since(*since) >= self.life;
        self.seen.iter().filter(|(_, since)| is_old(since)).map(|(key, _)| key.clone()).collect()
    }

    /// When the pins must be listed again. None: no pin of a reader is known.
    pub(super) fn look_at(&self) -> Option<Instant> {
        self.seen.values().min().map(|since| *since + self.life)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::history::pin::{copy_key, reader_key};

    #[test]
    fn only_a_pin_of_a_reader_that_stays_too_long_is_abandoned() {
        let (life, start) = (Duration::from_secs(900), Instant::now());
        let (old, young, copy) = (reader_key(&[1; 16]), reader_key(&[2; 16]), copy_key(&[3; 16]));
        let mut pins = ReaderPins::new(life);
        assert_eq!(pins.look_at(), None);
        let listed = |keys: &[&String]| keys.iter().map(|key| (*key).clone()).collect::<BTreeSet<_>>();
        assert!(pins.note(&listed(&[&old, &copy]), start).is_empty());
        assert_eq!(pins.look_at(), Some(start + life));
        let later = start + life / 2;
        assert!(pins.note(&listed(&[&old, &young, &copy]), later).is_empty());
        assert_eq!(pins.note(&listed(&[&old, &young, &copy]), start + life), [old]);
        assert!(pins.note(&listed(&[&young, &copy]), start + life).is_empty());
        assert_eq!(pins.look_at(), Some(later + life));
    }
}
