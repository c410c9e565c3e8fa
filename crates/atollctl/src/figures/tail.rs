//! `atollctl tail`: prints what the server publishes, until it is interrupted or its output is closed.

use crate::output::{Printer, now_ms, shown, size};
use objstore::StoreError;
use objstore::date::{utc, utc_seconds};
use objstore::protocol::{FileChange, Follower, Inspector, RootStatus, TailEvent};
use std::time::{Duration, Instant};

/// The time between two listings of the bucket: `WAIT_MIN` while new objects appear. Each listing without a
/// new object doubles the time, up to `WAIT_MAX`.
const WAIT_MIN: Duration = Duration::from_secs(1);
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Prints new events for at most `seconds`, or without end if None. Returns true when the time is over or the
/// output is closed.
pub(crate) async fn run(
    printer: &Printer,
    inspector: Inspector,
    seconds: Option<u64>,
) -> Result<bool, StoreError> {
    let end = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let mut follower = Follower::new(inspector);
    let mut wait = WAIT_MIN;
    loop {
        match follower.poll().await {
            Ok(events) => {
                wait = if events.is_empty() { (wait * 2).min(WAIT_MAX) } else { WAIT_MIN };
                if !events.iter().all(|event| tell(printer, event)) {
                    return Ok(true);
                }
            }
            // The bucket can answer again later. The next poll then reports what was published meanwhile, so
            // nothing is missed.
            Err(error @ StoreError::Unavailable(_)) => {
                eprintln!("atollctl: {error}");
                wait = (wait * 2).min(WAIT_MAX);
            }
            Err(error) => return Err(error),
        }
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Ok(true);
        }
        tokio::time::sleep(left.map_or(wait, |left| left.min(wait))).await;
    }
}

/// Prints one event. Returns false when the output is closed, so that no more events can be printed.
fn tell(printer: &Printer, event: &TailEvent) -> bool {
    if printer.is_json() {
        return serde_json::to_string(event).is_ok_and(|line| printer.try_line(&line));
    }
    let line = match event {
        TailEvent::Root { root, added, dropped } => of_root(root, *added, *dropped),
        TailEvent::Log { epoch, first, chunks, bytes } => {
            format!("log   {epoch}/{first}: {chunks} chunks, {}", size(*bytes))
        }
        TailEvent::Closed { epoch, by_epoch, by_server } => {
            format!("claim epoch {by_epoch} by '{}' has closed epoch {epoch}", shown(by_server))
        }
    };
    let now = utc_seconds(now_ms() / 1000);
    printer.try_line(&format!("{} {line}", now.split_once(' ').map_or("", |(_, time)| time)))
}

fn of_root(root: &RootStatus, added: FileChange, dropped: FileChange) -> String {
    let commit = root.commit_us.map_or_else(String::new, |time| format!(", last commit {} UTC", utc(time)));
    format!(
        "root  {}/{}: {} files, +{} ({}) -{} ({}){commit} {}",
        root.epoch,
        root.slot,
        root.files,
        added.files,
        size(added.bytes),
        dropped.files,
        size(dropped.bytes),
        root.gtid_position
    )
    .trim_end()
    .to_owned()
}
