//! `atollctl snapshot protect`: makes a snapshot that cannot be dropped until a date.

use crate::output::{Printer, shown};
use crate::progress;
use clap::ValueEnum;
use objstore::date::{self, utc_seconds};
use objstore::protocol::Inspector;
use objstore::{LockMode, StoreError};
use serde_json::json;

/// The modes of the store's object lock. They differ in whether an account can end the lock early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ObjectLock {
    /// an account with the right s3:BypassGovernanceRetention can end the lock early
    Governance,
    /// no account can end the lock early, yours included: you pay for the objects until the date
    Compliance,
}

impl From<ObjectLock> for LockMode {
    fn from(lock: ObjectLock) -> Self {
        match lock {
            ObjectLock::Governance => Self::Governance,
            ObjectLock::Compliance => Self::Compliance,
        }
    }
}

/// Protects the snapshot `name` from deletion until `until_us`, in microseconds since 1970. Prints why it
/// cannot be protected and returns false, for example when there is no such snapshot.
pub(crate) async fn run(
    printer: &Printer,
    inspector: &Inspector,
    name: &str,
    until_us: u64,
    lock: Option<ObjectLock>,
) -> Result<bool, StoreError> {
    match protect(printer, inspector, name, until_us / 1_000_000, lock).await {
        Err(error @ (StoreError::Invalid(_) | StoreError::NotFound { .. })) => {
            eprintln!("atollctl: {error}");
            Ok(false)
        }
        other => other.map(|()| true),
    }
}

async fn protect(
    printer: &Printer,
    inspector: &Inspector,
    name: &str,
    until_s: u64,
    lock: Option<ObjectLock>,
) -> Result<(), StoreError> {
    if lock.is_some() && !inspector.has_object_lock().await? {
        return Err(StoreError::Invalid(
            "the bucket has no object lock: it is switched on at the store, with many stores only when a bucket is made. Without \
             --object-lock the snapshot is protected from everybody who goes through Atoll"
                .to_owned(),
        ));
    }
    let protected_s = inspector.protect_snapshot(name, until_s).await?;
    let mut locked = 0;
    if let Some(lock) = lock {
        let bar = progress::objects_bar(printer);
        let show = |done, all| progress::show(&bar, done, all);
        let done = inspector.lock_snapshot(name, lock.into(), until_s, &show).await;
        bar.finish_and_clear();
        if done.is_err() {
            let until = day_and_time(protected_s);
            eprintln!(
                "atollctl: '{}' is protected until {until}, but not all of its objects are locked: repeat the command",
                shown(name)
            );
        }
        locked = done?;
    }
    if printer.is_json() {
        printer.json(&json!({ "name": name, "protected_until_s": protected_s, "locked_objects": locked }));
        return Ok(());
    }
    printer.line(&format!("'{}' is protected until {}", shown(name), day_and_time(protected_s)));
    if locked > 0 {
        printer.line(&format!(
            "the store has locked its {locked} objects at least until {}",
            day_and_time(until_s)
        ));
    }
    Ok(())
}

/// A time in seconds since 1970 as text: date, time and "UTC".
pub(crate) fn day_and_time(seconds: u64) -> String {
    format!("{} UTC", utc_seconds(seconds))
}

/// Parses a date and time into microseconds since 1970. A date alone, `2027-01-31`, means the beginning of
/// that day in UTC.
pub(crate) fn parse_until(text: &str) -> Result<u64, String> {
    date::parse(text).map_err(|error| error.to_string())
}
