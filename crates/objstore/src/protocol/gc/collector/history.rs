//! The history: pins that the owner creates and drops. Every commit since the oldest of them can be restored
//! (bucket.md, "History").
//!
//! HISTORY-1: a root that the history wants gets its pin before the collector deletes anything that was
//!     proposed after that root. So at the time of a deletion, every older root that the history wants has
//!     its pin already. When an owner dies before that, its successor pins these roots with its base.
//! HISTORY-2: pins are dropped in order, the oldest first. The oldest pin is dropped when the next one is as
//!     old as the retention. It is dropped at any age while the objects that only the history keeps have more
//!     bytes than the limit. All pins are dropped when the server wants no history. When the history was off
//!     for a while, the pins from before that time are dropped.
//!
//! The time by which pins become too old is the time of clock.rs (rule HISTORY-3).
//!
//! Requests: for each pin a GET, a PUT, two LISTs and what `HeldHistory` sends; to drop it, a GET, a LIST of pins
//! and a DELETE. Without a history, and while nothing is published and nothing expires: none.

use super::Collector;
use crate::error::{Result, StoreError};
use crate::log::Level;
use crate::protocol::format::image;
use crate::protocol::format::names;
use crate::protocol::format::records::{RootId, RootSlot};
use crate::protocol::format::slots::{list_root_slots, read_root_slot};
use crate::protocol::history::pin::{self, Listed, Pin, PinKind};
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::start::claim::wall_clock_ms;
use crate::requests::origin;
use crate::stats::add;
use std::sync::atomic::Ordering;
use tokio::time::Instant;

impl Collector {
    /// When `keep_history` has something to do next: to pin a root, or to drop a pin that is too old. None:
    /// not before another root is published.
    pub(super) fn history_event(&mut self) -> Option<Instant> {
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
        let now_ms = self.now_ms();
        Some(self.clock.moment_of(due_ms, now_ms))
    }

    /// Returns the time by which pins become too old (rule HISTORY-3). Requires: `held` is up to date.
    fn now_ms(&mut self) -> u64 {
        self.clock.now_ms(wall_clock_ms(), self.held.history.former_ms(self.shared.epoch))
    }

    /// Does what is due: pins the waiting roots, and drops pins that are too old. If there is a history and
    /// this owner is not fenced, `held` is up to date afterwards.
    pub(super) async fn keep_history(&mut self) -> Result<()> {
        self.pin_waiting().await?;
        if self.held.history.oldest().is_none() || self.is_fenced().await? {
            return Ok(());
        }
        let pins = self.list_pins().await?;
        if self.look_at_pins(&pins).await? {
            self.limit_history().await?;
        }
        Ok(())
    }

    /// Pins the roots that wait in the queue (rule HISTORY-1).
    pub(super) async fn pin_waiting(&mut self) -> Result<()> {
        while let Some(root) = self.shared.history.next() {
            if root.epoch < self.shared.epoch {
                self.pin_left_behind(root).await?;
            }
            match self.pin_root(root, true).await {
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

    /// Pins the roots before `base`, the base of this process, that the former owner wanted to pin when it died:
    /// those with a new DDL number behind its last pin. The log between such a root and the base is replayed
    /// over no older root (PAST-2). Requests: two LISTs, and a GET for each root behind that pin.
    async fn pin_left_behind(&mut self, base: RootId) -> Result<()> {
        let bucket = self.shared.bucket.clone();
        let listed = Listed::among(&bucket.list(names::PIN_DIR, None).await?);
        let roots = listed.pins.iter().filter_map(|key| pin::history_root_of(key));
        let Some(last) = roots.filter(|root| root.epoch == base.epoch && *root < base).max() else {
            return Ok(());
        };
        let mut ddl_seq = 0;
        for slot in list_root_slots(&bucket, base.epoch).await? {
            if !(last.slot..base.slot).contains(&slot) {
                continue;
            }
            let id = RootId { epoch: base.epoch, slot };
            match read_root_slot(&bucket, id).await {
                Ok(RootSlot::Root(root)) if root.ddl_seq > ddl_seq => {
                    ddl_seq = root.ddl_seq;
                    if id != last {
                        self.pin_root(id, false).await?;
                    }
                }
                // A late fence can stand in the slot of a root that was deleted.
                Ok(_) => {}
                Err(error) if error.is_not_found() => {}
                Err(StoreError::Corruption(what)) => {
                    (self.shared.log)(Level::Warning, &format!("missing in the history: {what}"));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Pins root `id`. `is_queued`: the root is of this process, or its base. False: the pin came too late, because
    /// objects that the root needs may be deleted already. Then no pin is left.
    async fn pin_root(&mut self, id: RootId, is_queued: bool) -> Result<bool> {
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
            expires_s: None,
        };
        let (inspector, key) = (Inspector::new(bucket.clone()), pin::history_key(id));
        inspector.put_pin(&key, &pin).await?;
        let came_in_time =
            inspector.is_above_horizon(id).await? || is_queued && self.has_deleted_nothing_of(id).await?;
        if !came_in_time {
            bucket.delete(&key).await?;
            return Ok(false);
        }
        let listed = Listed::among(&bucket.list(names::PIN_DIR, None).await?);
        self.held.update(bucket, &listed).await.map(|()| true)
    }

    /// Whether the root `id`, which is of this process or its base, still has all that it needs, although there is a
    /// horizon above it: that horizon is none of this process. The program that makes a clone independent of its
    /// parents creates one (CLONE-5). It does not see roots that wait for their pin, so the root must read nothing
    /// in the parents.
    async fn has_deleted_nothing_of(&self, id: RootId) -> Result<bool> {
        if self.horizon > Some(id) {
            return Ok(false);
        }
        let image = image::load(&self.shared.bucket, id).await?;
        Ok(!image.files.values().any(|file| origin::is_foreign(&file.key)))
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
        let retention_ms = limits.retention.as_millis() as u64;
        let cutoff_ms = self.now_ms().saturating_sub(retention_ms);
        self.warn_of_clock(wall_clock_ms().saturating_sub(retention_ms), cutoff_ms);
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

    /// Logs once when pins are too old by the time of day, `wall_cutoff_ms`, and not yet by the time that
    /// counts, `cutoff_ms`.
    fn warn_of_clock(&mut self, wall_cutoff_ms: u64, cutoff_ms: u64) {
        let history = &self.held.history;
        let waiting = history.expired(wall_cutoff_ms).saturating_sub(history.expired(cutoff_ms));
        let was_told = std::mem::replace(&mut self.is_clock_told, waiting > 0);
        if waiting == 0 || was_told {
            return;
        }
        let message = format!(
            "by the clock of this machine, {waiting} states of the history are older than atoll_history_retention. The \
             clock is ahead of the time that has passed since the newest of them was made. If it \
             stays so for {} minutes, these states are given up: if the clock is wrong, correct it before",
            self.tuning.clock_trust.as_secs() / 60
        );
        (self.shared.log)(Level::Warning, &message);
    }

    /// Drops the pins of a history that is switched off when one of them is damaged: then it holds everything,
    /// so [`Self::limit_history`] is never reached.
    pub(super) async fn drop_damaged_history(&mut self, listed: &Listed) -> Result<()> {
        let roots = listed.pins.iter().filter_map(|key| pin::history_root_of(key));
        let former: Vec<RootId> = roots.filter(|root| self.shared.history.is_of_former(*root)).collect();
        if former.is_empty() || self.is_fenced().await? {
            return Ok(());
        }
        for root in former {
            self.shared.bucket.delete(&pin::history_key(root)).await?;
        }
        self.search_again_at = Some(Instant::now() + self.tuning.grace);
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
