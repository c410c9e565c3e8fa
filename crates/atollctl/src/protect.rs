//! `atollctl snapshot protect`: a snapshot that nobody drops until a date.

use crate::output::{Printer, shown};
use objstore::StoreError;
use objstore::date::{self, utc};
use objstore::protocol::Inspector;
use serde_json::json;

/// Protects the snapshot `name` until `until_us`. True: it is protected.
pub(crate) async fn run(
    printer: &Printer,
    inspector: &Inspector,
    name: &str,
    until_us: u64,
) -> Result<bool, StoreError> {
    let until_s = match inspector.protect_snapshot(name, until_us / 1_000_000).await {
        Ok(until_s) => until_s,
        Err(error @ (StoreError::Invalid(_) | StoreError::NotFound { .. })) => {
            eprintln!("atollctl: {error}");
            return Ok(false);
        }
        Err(error) => return Err(error),
    };
    match printer.is_json() {
        true => printer.json(&json!({ "name": name, "protected_until_s": until_s })),
        false => printer.line(&format!("'{}' is protected until {}", shown(name), day_and_time(until_s))),
    }
    Ok(true)
}

/// Seconds since 1970 for people.
pub(crate) fn day_and_time(seconds: u64) -> String {
    let text = utc(seconds.saturating_mul(1_000_000));
    format!("{} UTC", text.split('.').next().unwrap_or_default())
}

/// A date, `2027-01-31`, is its begin.
pub(crate) fn parse_until(text: &str) -> Result<u64, String> {
    date::parse(text).map_err(|error| error.to_string())
}
