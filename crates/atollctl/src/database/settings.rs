//! `atollctl settings`: shows and changes the settings of a database that are kept in the bucket.

use crate::ask;
use crate::output::{Printer, age, shown, size};
use clap::Args;
use objstore::StoreError;
use objstore::date::utc_seconds;
use objstore::protocol::{Inspector, KeptSettings, SettingsChange};
use std::time::Duration;

/// Which settings to change. Without any they are only shown.
#[derive(Args)]
pub(crate) struct SettingsOptions {
    /// Keep the history for this time, as atoll_history_retention. 0: no history.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(..=366 * 86400))]
    history_retention: Option<u64>,
    /// The most bytes that the history alone may keep, as atoll_history_max_bytes; also with K, M, G or T.
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    history_max_bytes: Option<u64>,
    /// When the retention becomes shorter: for how long the former history still stays.
    #[arg(long, value_name = "SECONDS", default_value_t = 3600, value_parser = clap::value_parser!(u64).range(..=7 * 86400))]
    grace: u64,
}

/// Changes the settings that the options give, and shows all of them. Returns true.
///
/// Errors: as [`Inspector::change_settings`].
pub(crate) async fn run(
    printer: &Printer,
    inspector: &Inspector,
    options: &SettingsOptions,
) -> Result<bool, StoreError> {
    let change = SettingsChange {
        retention_s: options.history_retention,
        bytes_max: options.history_max_bytes,
        schedule: None,
        grace: Duration::from_secs(options.grace),
    };
    let is_change = change.retention_s.is_some() || change.bytes_max.is_some();
    let settings = match is_change {
        true => inspector.change_settings(&change, &ask::this_process()).await?,
        false => inspector.settings().await?,
    };
    if printer.is_json() {
        printer.json(&settings);
        return Ok(true);
    }
    lines(&settings).iter().for_each(|line| printer.line(line));
    if is_change {
        printer.line("a running server heeds this from its next start on; SET GLOBAL works at once");
    }
    Ok(true)
}

/// Describes `settings`, a line for each.
pub(crate) fn lines(settings: &KeptSettings) -> Vec<String> {
    if settings.number == 0 {
        return vec!["settings   none were stored: only the server's configuration counts".to_owned()];
    }
    let mut lines = vec![match settings.retention_s {
        0 => "history    none".to_owned(),
        seconds => format!("history    {seconds} s"),
    }];
    if settings.former_retention_s > settings.retention_s {
        let until = utc_seconds(settings.former_until_ms / 1000);
        lines.push(format!("           {} s until {until} UTC", settings.former_retention_s));
    }
    if settings.bytes_max > 0 {
        lines.push(format!("           at most {}", size(settings.bytes_max)));
    }
    let schedule = if settings.schedule.is_empty() { "none" } else { &settings.schedule };
    lines.push(format!("schedule   {}", shown(schedule)));
    lines.push(format!("changed    {} by '{}'", age(settings.changed_ms), shown(&settings.changed_by)));
    lines
}

/// Reads a number of bytes, as the server's variables accept it.
fn parse_bytes(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.chars().last().map(|unit| unit.to_ascii_uppercase()) {
        Some('K') => (&text[..text.len() - 1], 10),
        Some('M') => (&text[..text.len() - 1], 20),
        Some('G') => (&text[..text.len() - 1], 30),
        Some('T') => (&text[..text.len() - 1], 40),
        _ => (text, 0),
    };
    let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    match bytes {
        Some(bytes) if ((1 << 20)..=(1 << 60)).contains(&bytes) => Ok(bytes),
        _ => Err("give a number of bytes from 1M on, such as 100G".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_as_the_server_reads_them() {
        assert_eq!(parse_bytes("5g"), Ok(5 << 30));
        assert_eq!(parse_bytes("2097152"), Ok(2 << 20));
        for wrong in ["", "G", "1K", "5X", "-1", "99999999T"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_history_that_still_stays_is_shown_until_when() {
        let none = KeptSettings::default();
        assert!(lines(&none)[0].contains("none were stored"));
        let shorter = KeptSettings {
            number: 2,
            former_retention_s: 60,
            former_until_ms: 1_764_000_000_000,
            ..KeptSettings::default()
        };
        assert_eq!(
            lines(&shorter)[..2],
            ["history    none", "           60 s until 2025-11-24 16:00:00 UTC"]
        );
    }
}
