//! Settings of the database, which are kept in the bucket: how much history there is, and the schedule of
//! snapshots. A server whose configuration lacks them goes on with them.
//!
//! ```text
//! settings/00000000000000000001      each change is a new record with the next number; the highest counts
//! settings/00000000000000000002      none is deleted, so a listing that lacks the newest is noticed (LIST-1)
//! ```
//!
//! SETTINGS-1: a record is written by a create-only PUT of the next number. So of two programs that change
//!     the settings at the same time, the second one changes what the first one has decided.
//! SETTINGS-2: a server that opens the database keeps no less history than the newest record says, whatever
//!     its configuration says. A change of the record shortens the history only when a grace time is over.

use super::gc::HistoryLimits;
use super::store::Store;
use crate::error::{Result, StoreError};
use crate::protocol::format::names;
pub use crate::protocol::format::settings_record::KeptSettings;
use crate::protocol::format::slots::{LISTINGS_MAX, exists, lying, read_record};
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::start::claim::wall_clock_ms;
use crate::protocol::start::local::{damaged_object, random_nonce};
use crate::requests::bucket::{Bucket, SlotOutcome};
use std::time::Duration;

/// The longest text of a schedule, in bytes. The C ABI has room for it.
const SCHEDULE_BYTES_MAX: usize = 255;

/// How often a change is made anew because another program has written the next record.
const CHANGES_MAX: u32 = 8;

/// A change of the settings. None: this setting stays as it is.
#[derive(Debug, Clone, Default)]
#[allow(missing_docs)]
pub struct SettingsChange {
    pub retention_s: Option<u64>,
    pub bytes_max: Option<u64>,
    pub schedule: Option<String>,
    /// For how long a longer retention still holds after this change.
    pub grace: Duration,
}

impl KeptSettings {
    /// The retention in seconds that holds at `now_ms`: until the grace time is over, the former one if it is
    /// longer.
    pub fn retention_at(&self, now_ms: u64) -> u64 {
        let former = if now_ms < self.former_until_ms { self.former_retention_s } else { 0 };
        self.retention_s.max(former)
    }

    /// The limits of the history with which a server opens the database: those of its configuration, or those
    /// of the settings where these are higher (SETTINGS-2).
    pub(crate) fn limits(&self, configured: HistoryLimits) -> HistoryLimits {
        if self.number == 0 {
            return configured;
        }
        let kept = Duration::from_secs(self.retention_at(wall_clock_ms()));
        let (retention, bytes_max) =
            (configured.retention.max(kept), configured.bytes_max.max(self.bytes_max));
        HistoryLimits { retention, bytes_max }
    }

    /// Returns the settings after `change`, which the program `by` makes at `now_ms`.
    fn changed(&self, change: &SettingsChange, by: &str, now_ms: u64) -> Self {
        let mut changed = Self {
            number: self.number + 1,
            changed_ms: now_ms,
            changed_by: by.to_owned(),
            retention_s: change.retention_s.unwrap_or(self.retention_s),
            bytes_max: change.bytes_max.unwrap_or(self.bytes_max),
            schedule: change.schedule.clone().unwrap_or_else(|| self.schedule.clone()),
            ..*self
        };
        let held_s = self.retention_at(now_ms);
        if change.retention_s.is_some_and(|wanted| wanted >= held_s || change.grace.is_zero()) {
            (changed.former_retention_s, changed.former_until_ms) = (0, 0);
        } else if changed.retention_s < self.retention_s {
            changed.former_retention_s = held_s;
            changed.former_until_ms = now_ms.saturating_add(change.grace.as_millis() as u64);
        }
        changed
    }

    /// Whether `other` has the same values. Writer and time do not count.
    fn says_the_same(&self, other: &Self) -> bool {
        let (number, changed_ms, changed_by) = (other.number, other.changed_ms, other.changed_by.clone());
        Self { number, changed_ms, changed_by, ..self.clone() } == *other
    }
}

/// Reads the settings of the database in `bucket`.
///
/// Errors: `Corruption` names the newest record if that is damaged; `ReadOnly` when listings lack a record
/// that is there. Requests: a LIST and a HEAD, and a GET if there is a record.
pub(crate) async fn read(bucket: &Bucket) -> Result<KeptSettings> {
    let number = newest_number(bucket).await?;
    if number == 0 {
        return Ok(KeptSettings::default());
    }
    let key = names::settings(number);
    read_record(bucket, &key, |bytes| KeptSettings::decode(bytes).map_err(|e| damaged_object(&key, &e))).await
}

/// The number of the newest record; 0 without one. A listing is believed only if the next record is absent.
async fn newest_number(bucket: &Bucket) -> Result<u64> {
    let mut newest = 0;
    for attempt in 1..=LISTINGS_MAX {
        let listed = bucket.list(names::SETTINGS_DIR, None).await?;
        let numbers = listed.iter().filter_map(|object| names::parse_settings(&object.key));
        newest = numbers.max().unwrap_or(0).max(newest);
        if !exists(bucket, &names::settings(newest + 1)).await? {
            return Ok(newest);
        }
        bucket.pause(attempt).await;
    }
    Err(lying(bucket, names::SETTINGS_DIR, &names::settings(newest + 1)))
}

/// Changes the settings of the database in `bucket`. Returns the settings that hold then. Writes nothing if
/// the newest record says the same.
///
/// Errors: `Invalid` for a schedule that is too long; `Unavailable` when the outcome is not known, or when
/// other programs were faster each time: the caller may repeat the call; as [`read`]. Requests: those of
/// [`read`], and a PUT.
pub(crate) async fn change(bucket: &Bucket, change: &SettingsChange, by: &str) -> Result<KeptSettings> {
    if change.schedule.as_ref().is_some_and(|text| text.len() > SCHEDULE_BYTES_MAX) {
        return Err(StoreError::Invalid(format!("the schedule has more than {SCHEDULE_BYTES_MAX} bytes")));
    }
    for _ in 0..CHANGES_MAX {
        let before = read(bucket).await?;
        let after = before.changed(change, by, wall_clock_ms());
        if before.number > 0 && after.says_the_same(&before) {
            return Ok(before);
        }
        let (key, nonce) = (names::settings(after.number), random_nonce()?);
        match bucket.create_slot(&key, after.encode(&nonce).into(), &nonce).await? {
            SlotOutcome::Mine => return Ok(after),
            // Rule SETTINGS-1.
            SlotOutcome::Lost(_) => {}
        }
    }
    Err(StoreError::Unavailable(
        "other programs change the settings at the same time: repeat that".to_owned(),
    ))
}

/// Gives the copy in `target` the settings of the database in `source`. No record: the copy keeps its own.
///
/// Errors: as [`change`]. Requests: as [`read`] and [`change`].
pub(crate) async fn copy(source: &Bucket, target: &Bucket, by: &str) -> Result<()> {
    let KeptSettings { number, retention_s, bytes_max, schedule, .. } = read(source).await?;
    if number == 0 {
        return Ok(());
    }
    let (retention_s, bytes_max, schedule) = (Some(retention_s), Some(bytes_max), Some(schedule));
    let wanted = SettingsChange { retention_s, bytes_max, schedule, grace: Duration::ZERO };
    change(target, &wanted, by).await.map(drop)
}

impl Store {
    /// The settings of the database, as this process has last read or changed them. No request.
    pub fn kept_settings(&self) -> KeptSettings {
        self.shared.settings.lock().clone()
    }

    /// Changes the settings of the database. They hold for all later starts. The limits of this process stay
    /// as they are until [`Store::set_history`].
    ///
    /// Errors: `Fenced`; `Interrupted`; as [`change`]. Requests: as [`change`].
    pub fn change_settings(&self, wanted: &SettingsChange) -> Result<()> {
        let shared = &self.shared;
        shared.check_fence()?;
        let changed =
            shared.files.block_on(async { change(&shared.bucket, wanted, &shared.server_id).await })??;
        *shared.settings.lock() = changed;
        Ok(())
    }
}

impl Inspector {
    /// Returns the settings of the database.
    ///
    /// Errors: `NotFound` without a database; `Corruption` names the newest record if that is damaged; those of
    /// the bucket. Requests: two GETs, a LIST and a HEAD.
    pub async fn settings(&self) -> Result<KeptSettings> {
        self.identity().await?;
        read(self.bucket()).await
    }

    /// Changes the settings of the database, and returns those that hold then. A running server heeds them
    /// from its next start on. `by`: the name of this program, for people.
    ///
    /// Errors: as [`Inspector::settings`]; `Invalid` for a schedule that is too long; `Unavailable` when the
    /// outcome is not known: repeat the call. Requests: as [`Inspector::settings`], and a PUT.
    pub async fn change_settings(&self, wanted: &SettingsChange, by: &str) -> Result<KeptSettings> {
        self.identity().await?;
        change(self.bucket(), wanted, by).await
    }
}

#[cfg(test)]
#[path = "kept_settings_test.rs"]
mod tests;
