//! Reads and writes times in text: `2026-01-31 23:59:59`, in UTC or with an offset.

use crate::error::{Result, StoreError};
use crate::machine;
use std::time::SystemTime;

const DAY_S: u64 = 86_400;

/// A time in microseconds since 1970 as `2026-01-31 23:59:59.000001`.
pub fn utc(time_us: u64) -> String {
    format!("{}.{:06}", utc_seconds(time_us / 1_000_000), time_us % 1_000_000)
}

/// A time in seconds since 1970 as `2026-01-31 23:59:59`.
pub fn utc_seconds(time_s: u64) -> String {
    let (mut day, of_day) = (time_s / DAY_S, time_s % DAY_S);
    let mut year = 1970;
    while day >= 365 + u64::from(is_leap(year)) {
        day -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let mut month = 1;
    for days in months_of(year) {
        if day < days {
            break;
        }
        day -= days;
        month += 1;
    }
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year}-{month:02}-{:02} {hour:02}:{minute:02}:{second:02}", day + 1)
}

/// Parses a time such as `2026-01-31 23:59:59.5` into microseconds since 1970. `T` can stand for the blank,
/// and the seconds or the whole time of day can be missing. A span before now is also understood, such as
/// `5 minutes ago`, by this machine's clock. The time is in UTC, unless an offset such as
/// `+02:00` or `-0530` follows. `Z` and ` UTC` can follow, too, and change nothing.
///
/// Errors: `Invalid`, also when a time zone is named, because on the day on which summer time ends, one hour
/// occurs twice in such a zone.
pub fn parse(text: &str) -> Result<u64> {
    let wrong = || {
        StoreError::Invalid(format!(
            "'{text}' is no moment: write '2026-01-31 23:59:59' for UTC, '2026-01-31 23:59:59+02:00', or '5 minutes ago'. Names of \
             time zones are not understood"
        ))
    };
    if let Some(ago) = text.trim().strip_suffix("ago").and_then(parse_span) {
        let before_us = |ago_us| now_us().checked_sub(ago_us);
        return ago.checked_mul(1_000_000).and_then(before_us).ok_or_else(wrong);
    }
    let (local, offset_s) = split_offset(text.trim()).ok_or_else(wrong)?;
    let local_us = parse_local(local).ok_or_else(wrong)?;
    local_us.checked_add_signed(-offset_s * 1_000_000).ok_or_else(wrong)
}

fn now_us() -> u64 {
    let since = machine::time_of_day().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as u64)
}

/// Parses a span such as `5 minutes` or `1 day` into seconds. None if `text` is no span.
fn parse_span(text: &str) -> Option<u64> {
    let (count, unit) = text.trim().split_once(' ')?;
    let seconds = match unit.trim().strip_suffix('s').unwrap_or(unit.trim()) {
        "second" => 1,
        "minute" | "min" => 60,
        "hour" => 3600,
        "day" => DAY_S,
        _ => return None,
    };
    number(count)?.checked_mul(seconds)
}

/// Splits `text` into the date with the time, and the offset in seconds east of UTC (0 when none is given).
/// None if the offset cannot be parsed.
fn split_offset(text: &str) -> Option<(&str, i64)> {
    let in_utc = text.strip_suffix("UTC").or_else(|| text.strip_suffix('Z'));
    if let Some(local) = in_utc {
        return Some((local.trim_end(), 0));
    }
    // A sign within the first ten characters belongs to the date, not to an offset.
    let Some(at) = text.rfind(['+', '-']).filter(|at| *at > "2026-01-31".len()) else {
        return Some((text, 0));
    };
    let (local, offset) = text.split_at(at);
    let sign = if offset.starts_with('-') { -1 } else { 1 };
    let digits: String = offset[1..].chars().filter(|c| *c != ':').collect();
    let number = (digits.len() == 4).then(|| number(&digits))??;
    let (hours, minutes) = ((number / 100) as i64, (number % 100) as i64);
    (hours <= 15 && minutes < 60).then(|| (local.trim_end(), sign * (hours * 60 + minutes) * 60))
}

/// Parses a date and time without an offset into the microseconds since the beginning of 1970 in the same
/// time zone. None if `text` is no date and time.
fn parse_local(text: &str) -> Option<u64> {
    let (date, time) = text.split_once([' ', 'T']).unwrap_or((text, "00:00"));
    let [year, month, day] = numbers(date, '-')?.try_into().ok()?;
    let (clock, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let clock = numbers(clock, ':')?;
    let (hour, minute, second) = match clock[..] {
        [hour, minute] => (hour, minute, 0),
        [hour, minute, second] => (hour, minute, second),
        _ => return None,
    };
    let is_time = hour < 24 && minute < 60 && second < 60 && fraction.len() <= 6;
    let micros = number(&format!("{fraction:0<6}")).filter(|_| is_time)?;
    let days = days_before(year, month, day)?;
    Some((days * DAY_S + hour * 3600 + minute * 60 + second) * 1_000_000 + micros)
}

/// The number of days from the beginning of 1970 to the given day. None if there is no such day.
fn days_before(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(1970..10_000).contains(&year) || !(1..=12).contains(&month) {
        return None;
    }
    let years: u64 = (1970..year).map(|year| 365 + u64::from(is_leap(year))).sum();
    let months = months_of(year);
    let before: u64 = months.iter().take(month as usize - 1).sum();
    let is_day = (1..=*months.get(month as usize - 1)?).contains(&day);
    is_day.then_some(years + before + day - 1)
}

fn numbers(text: &str, separator: char) -> Option<Vec<u64>> {
    text.split(separator).map(number).collect()
}

/// Parses a number without a sign. None if `text` has other characters than digits.
fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn months_of(year: u64) -> [u64; 12] {
    [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected values come from `date -u -d @SECONDS`.
    #[test]
    fn times_are_dates() {
        assert_eq!(utc(0), "1970-01-01 00:00:00.000000");
        assert_eq!(utc(1_709_164_799_000_001), "2024-02-28 23:59:59.000001");
        assert_eq!(utc(1_709_251_200_000_000), "2024-03-01 00:00:00.000000");
        assert_eq!(utc(4_107_542_399_999_999), "2100-02-28 23:59:59.999999");
        assert_eq!(utc(4_107_542_400_000_000), "2100-03-01 00:00:00.000000");
        assert_eq!(utc(1_798_761_599_000_000), "2026-12-31 23:59:59.000000");
    }

    #[test]
    fn what_is_written_is_read_back() {
        for time_us in [0, 1_709_164_799_000_001, 1_709_251_200_000_000, 4_107_542_400_000_000] {
            assert_eq!(parse(&utc(time_us)).unwrap(), time_us);
        }
        let noon = parse("2026-11-20 12:00:00").unwrap();
        for same in [
            "2026-11-20 12:00",
            " 2026-11-20T12:00:00.000Z ",
            "2026-11-20 12:00:00 UTC",
            "2026-11-20 14:00:00+02:00",
            "2026-11-20T06:30-0530",
            "2026-11-21 02:00 +1400",
        ] {
            assert_eq!(parse(same).unwrap(), noon, "{same}");
        }
        assert_eq!(utc(parse("2026-11-20").unwrap()), "2026-11-20 00:00:00.000000");
    }

    #[test]
    fn a_span_before_now_is_a_moment() {
        for (text, seconds) in
            [("5 minutes ago", 300), ("1 day ago", 86_400), (" 2 hours  ago", 7200), ("0 seconds ago", 0)]
        {
            let before_us = now_us() - seconds * 1_000_000;
            let parsed = parse(text).unwrap();
            assert!((before_us..=now_us() - seconds * 1_000_000).contains(&parsed), "{text}: {parsed}");
        }
    }

    #[test]
    fn what_is_no_moment_is_refused() {
        for wrong in [
            "",
            "now",
            "ago",
            "5 ago",
            "5 years ago",
            "-5 minutes ago",
            "99999999999999 days ago",
            "2026-11-20 25:00",
            "2026-02-29 10:00",
            "2026-13-01",
            "2026-11-20 10:00:00 CET",
            "2026-11-20 10:00:00+2",
            "2026-11-20 10:00:00+02:70",
            "2026-11-20 10",
            "1969-12-31 23:59:59",
            "1970-01-01 00:00:00+01:00",
            "2026-11-20 10:00:00.1234567",
            "2026-11-20 -1:00",
        ] {
            assert!(matches!(parse(wrong), Err(StoreError::Invalid(_))), "{wrong}");
        }
    }
}
