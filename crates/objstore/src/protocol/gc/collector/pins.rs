//! What the collector does before each batch of deletions: raises the horizon, lists the pins and reads what they
//! hold.

use super::Collector;
use crate::error::Result;
use crate::log::Level;
use crate::machine::{self, fill_random};
use crate::protocol::format::names;
use crate::protocol::format::records::RootId;
use crate::protocol::history::pin::{self, Listed};
use crate::protocol::inspection::snapshot_list::{SHORT_LIVED_MAX, left_behind};
use crate::requests::bucket::ObjectInfo;
use bytes::Bytes;
use tokio::time::Instant;

impl Collector {
    /// Whether it is allowed to delete the objects of a batch, which roots from `horizon` on do not need.
    /// Raises the horizon and then lists the pins (GC-7). False: a pin forbids it, or a fence was found, so
    /// that this owner stops writing. After true, `held` is up to date. After an error nothing is deleted
    /// (GC-4).
    pub(super) async fn may_delete(&mut self, horizon: RootId) -> Result<bool> {
        self.pin_waiting().await?;
        self.raise_horizon(horizon).await?;
        let pins = self.list_pins().await?;
        if !self.look_at_pins(&pins).await? {
            return Ok(false);
        }
        if self.is_fenced().await? {
            return Ok(false);
        }
        self.limit_history().await?;
        Ok(true)
    }

    /// Lists the pins. A listing without a pin is believed only if the next one has none either, because
    /// there is nothing that it could contradict (rule GC-8). Requests: a LIST, or two.
    pub(super) async fn list_pins(&self) -> Result<Vec<ObjectInfo>> {
        let bucket = &self.shared.bucket;
        let pins = bucket.list(names::PIN_DIR, None).await?;
        if pins.is_empty() && self.held.is_empty() && self.tuning.doubts.listings {
            return bucket.list(names::PIN_DIR, None).await;
        }
        Ok(pins)
    }

    /// Creates the horizon `to`: from now on objects that only older roots need may be deleted. Requests: a
    /// PUT, and a DELETE of the horizon before; none when this process has created one that is as high.
    async fn raise_horizon(&mut self, to: RootId) -> Result<()> {
        if self.horizon >= Some(to) || !self.tuning.raises_horizon {
            return Ok(());
        }
        let mut nonce = [0; 16];
        fill_random(&mut nonce)?;
        let bucket = &self.shared.bucket;
        // Another server may have created this horizon already. That does no harm, because only the name of a
        // horizon counts.
        bucket
            .create_slot(&names::horizon(to.epoch, to.slot), Bytes::copy_from_slice(&nonce), &nonce)
            .await?;
        if let Some(RootId { epoch, slot }) = self.horizon.replace(to) {
            bucket.delete(&names::horizon(epoch, slot)).await?;
        }
        Ok(())
    }

    /// Reads what the pins among `objects` need. Deletes the pins that their holders have released, those of ended
    /// mounts and of readers that have died, and releases that count for nothing. False: a pin forbids all deletions.
    pub(super) async fn look_at_pins(&mut self, objects: &[ObjectInfo]) -> Result<bool> {
        let bucket = &self.shared.bucket;
        let listed = Listed::among(objects);
        self.held.update(bucket, &listed).await?;
        let abandoned = self.readers.note(&listed.pins, Instant::now());
        for key in listed.released.iter().chain(&self.ended_mounts(&listed)).chain(&abandoned) {
            bucket.delete(key).await?;
            // If a search is running, it still counts what these pins kept as needed. So another one must
            // follow.
            self.search_again_at = Some(Instant::now() + self.tuning.grace);
        }
        for key in &listed.void {
            bucket.delete(key).await?;
            let text = format!("removed {key}: only the pin of a clone is released this way");
            (self.shared.log)(Level::Warning, &text);
        }
        self.warn_of_old(objects);
        let Some(reason) = self.held.holds_all().map(|(pin, why)| format!("{pin} holds it ({why})")) else {
            return Ok(true);
        };
        self.hold(reason);
        if self.held.is_damaged() {
            self.drop_damaged_history(&listed).await?;
        }
        Ok(false)
    }

    /// Returns the pins of mounts that have ended: those of this epoch or an earlier one that this process
    /// does not have (rule MOUNT-1).
    fn ended_mounts(&self, listed: &Listed) -> Vec<String> {
        let mounts = self.shared.mounts.lock();
        listed.mounts_up_to(self.shared.epoch).filter(|key| !mounts.contains(*key)).cloned().collect()
    }

    /// Logs once for each pin of a copying program that the pin is older than such a program works.
    fn warn_of_old(&mut self, objects: &[ObjectInfo]) {
        let now = machine::time_of_day();
        for object in objects.iter().filter(|object| pin::is_copy_key(&object.key)) {
            let age = now.duration_since(object.last_modified).unwrap_or_default();
            if age > SHORT_LIVED_MAX && self.told_old.insert(object.key.clone()) {
                let text = left_behind(&object.key, "a program that copies or reads the database", age);
                (self.shared.log)(Level::Warning, &text);
            }
        }
    }

    /// Makes a pause, and logs the reason, unless it was logged since the last deletion.
    fn hold(&mut self, reason: String) {
        self.not_before = Instant::now() + self.tuning.hold_interval;
        if self.hold_told != reason {
            let level = if self.held.is_damaged() { Level::Error } else { Level::Info };
            (self.shared.log)(level, &format!("nothing is deleted from the bucket, because {reason}"));
            self.hold_told = reason;
        }
    }
}
