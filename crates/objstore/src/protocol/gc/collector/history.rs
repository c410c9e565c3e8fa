//! The history: pins that the owner creates and drops. Every commit since the oldest of them can be restored
//! (bucket.md, "History").
//!
//! HISTORY-1: a root that the history wants gets its pin before the collector deletes anything that was
//!     proposed after that root. So at the time of a deletion, every older root that the history wants has
//!     its pin already.
//! HISTORY-2: pins are dropped in order, the oldest first. The oldest pin is dropped when the next one is as
//!     old as the retention. It is dropped at any age while the objects that only the history keeps have more
//!     bytes than the limit. All pins are dropped when the server wants no history. When the history was off
//!     for a while, the pins from before that time are dropped.
//!
//! Requests: for each pin a GET, a PUT, two LISTs and those of `HeldHistory`; to drop it, a LIST of pins and
//! a DELETE. Without a history, and while nothing is published and nothing expires: none.

use super::Collector;
use crate::error::Result;
use crate::log::Level;
use crate::protocol::format::image;
use crate::protocol::format::names;
use crate::protocol::format::records::RootId;
use crate::protocol::history::pin::{self, Listed, Pin, PinKind};
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::start::claim::wall_clock_ms;
use crate::stats::add;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::Instant;

impl Collector {
    /// When `keep_history` has something to do next: to pin a root, or to drop a pin that is too old. None:
    /// not before another root is published.
    pub(super) fn history_event(&self) -> Option<Instant> {
        let queue = &self.shared.history;
        if queue.next().is_some() {
            return Some(Instant::now());
        }
        let (oldest, _) = self.held.history.oldest()?;
        if queue.is_of_former(oldest) {
            return Some(Instant::now());
        }
        let next_ms = match self.held.history.second() {
            Some((_, second)) => second.published_ms,
            None if self.held.history.newest() == Some(oldest) => queue.unpinned_ms()?,
            None => return None,
        };
        let due_ms = next_ms.saturating_add(queue.limits().retention.as_millis() as u64);
        Some(Instant::now() + Duration::from_millis(due_ms.saturating_sub(wall_clock_ms())))
    }

    /// Does what is due: pins the waiting roots, and drops pins that are too old. If there is a history and
    /// this owner is not fenced, `held` is up to date afterwards.
    pub(super) async fn keep_history(&mut self) -> Result<()> {
        self.pin_waiting().await?;
        if self.held.history.oldest().is_none() || self.is_fenced().await? {
            return Ok(());
        }
        let pins = self.shared.bucket.list(names::PIN_DIR, None).await?;
        if self.look_at_pins(&pins).await? {
            self.limit_history().await?;
        }
        Ok(())
    }

    /// Pins the roots that wait in the queue (rule HISTORY-1).
    pub(super) async fn pin_waiting(&mut self) -> Result<()> {
        while let Some(root) = self.shared.history.next() {
            match self.pin_root(root).await {
                Err(error) if !error.is_not_found() => return Err(error),
                Ok(true) => {}
                Ok(false) | Err(_) => (self.shared.log)(
                    Level::Warning,
                    &format!(
                        "root {}/{} is missing in the history: it was gone already",
                        root.epoch, root.slot
                    ),
                ),
            }
            self.shared.history.done(root);
        }
        Ok(())
    }

    /// Pins root `id`. False: the pin came too late, because objects that the root needs are possibly deleted
    /// already. Then no pin is left.
    async fn pin_root(&mut self, id: RootId) -> Result<bool> {
        let bucket = &self.shared.bucket;
        let root = image::read_root(bucket, id).await?;
        let pin = Pin {
            kind: PinKind::History,
            name: String::new(),
            root: id,
            wal_end: u64::MAX,
            created_ms: root.published_ms,
            creator: self.shared.server_id.clone(),
            position: root.position.unwrap_or_default(),
        };
        let (inspector, key) = (Inspector::new(bucket.clone()), pin::history_key(id));
        inspector.put_pin(&key, &pin).await?;
        if !inspector.is_above_horizon(id).await? {
            bucket.delete(&key).await?;
            return Ok(false);
        }
        let listed = Listed::among(&bucket.list(names::PIN_DIR, None).await?);
        self.held.update(bucket, &listed).await.map(|()| true)
    }

    /// Drops the pins that rule HISTORY-2 names: those of a former history, those that are too old, and the
    /// oldest ones while the history alone keeps too many bytes. Requires: the caller has just checked that
    /// this owner is not fenced.
    pub(super) async fn limit_history(&mut self) -> Result<()> {
        let limits = self.shared.history.limits();
        while let Some((oldest, _)) = self.held.history.oldest() {
            if !self.shared.history.is_of_former(oldest) {
                break;
            }
            self.drop_from_history(oldest).await?;
        }
        if !limits.is_on() {
            self.show_history(0);
            return Ok(());
        }
        let cutoff_ms = wall_clock_ms().saturating_sub(limits.retention.as_millis() as u64);
        self.shared.history.pin_old_newest(cutoff_ms);
        while let (Some((oldest, _)), Some((_, second))) =
            (self.held.history.oldest(), self.held.history.second())
        {
            let is_expired = second.published_ms <= cutoff_ms;
            let bytes = if is_expired { 0 } else { self.history_bytes() };
            if !is_expired && bytes <= limits.bytes_max {
                break;
            }
            self.drop_from_history(oldest).await?;
            if !is_expired {
                add(&self.shared.bucket.stats().history_cuts, 1);
            }
        }
        let bytes = self.history_bytes();
        self.show_history(bytes);
        Ok(())
    }

    async fn drop_from_history(&mut self, oldest: RootId) -> Result<()> {
        self.shared.bucket.delete(&pin::history_key(oldest)).await?;
        let freed = self.held.history.forget(oldest);
        let Some(needs) = self.judge() else { return Ok(()) };
        let keys = self.unneeded(&needs, freed.iter().map(|(key, bytes)| (key.as_str(), Some(*bytes))));
        self.shared.inbox.propose(keys);
        Ok(())
    }

    /// Returns the bytes of the objects that only the history keeps: neither this owner nor another pin needs
    /// them.
    fn history_bytes(&self) -> u64 {
        let Some(needs) = self.judge() else { return 0 };
        let history = &self.held.history;
        let superfluous = self.superfluous(&needs, history.objects().map(|(key, bytes)| (key, Some(bytes))));
        let alone =
            history.objects().filter(|(key, _)| superfluous.contains(*key) && !self.held.is_pinned(key));
        alone.map(|(_, bytes)| bytes).sum::<u64>() + self.held.chunk_bytes_of_history_alone(&needs)
    }

    fn show_history(&self, bytes: u64) {
        let stats = self.shared.bucket.stats();
        stats.history_bytes.store(bytes, Ordering::Relaxed);
        let since_ms = self.held.history.oldest().map_or(0, |(_, pin)| pin.published_ms);
        stats.history_since_ms.store(since_ms, Ordering::Relaxed);
    }
}
