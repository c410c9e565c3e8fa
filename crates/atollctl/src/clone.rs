//! `atollctl clone` makes another database that begins with the state of this one and shares its files.
//! `atollctl release` tells the parents that the clone reads none of their files any more.

use crate::ask;
use crate::output::{Printer, now_ms, size};
use objstore::config::Location;
use objstore::date::{utc, utc_seconds};
use objstore::protocol::{CloneRequest, CloneStatus, Inspector, Past};
use objstore::{Bucket, StoreError};

/// How a clone is made.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Options {
    /// Leftovers of an unfinished clone are deleted first.
    pub(crate) discards_unfinished: bool,
    /// No server opens the tables of the clone before it has masked their rows.
    pub(crate) must_mask: bool,
    /// From when on the clone is not needed any more, in seconds since 1970.
    pub(crate) expires_s: Option<u64>,
}

/// Clones the database of `inspector` into the bucket `child`, whose URL is `child_url`. Returns true when
/// the clone was made. False: the request cannot be carried out, and a message on standard error says why.
pub(crate) async fn run(
    printer: &Printer,
    inspector: &Inspector,
    child: &Bucket,
    child_url: &str,
    past: Option<Past>,
    options: Options,
) -> Result<bool, StoreError> {
    let Options { discards_unfinished, must_mask, expires_s } = options;
    if let Some(seconds) = expires_s.filter(|seconds| *seconds <= now_ms() / 1000) {
        eprintln!("atollctl: the clone would expire at once: {} UTC is over", utc_seconds(seconds));
        return Ok(false);
    }
    let (place, creator) = (child_url.to_owned(), ask::this_process());
    let request = CloneRequest { past, place, creator, discards_unfinished, expires_s };
    let outcome = match must_mask {
        true => inspector.clone_to_mask(child, &request).await,
        false => inspector.clone_to(child, &request).await,
    };
    let made = match outcome {
        Ok(made) => made,
        Err(error @ (StoreError::Invalid(_) | StoreError::NotFound { .. })) => {
            eprintln!("atollctl: {error}");
            return Ok(false);
        }
        Err(error) => return Err(error),
    };
    tell(printer, &made);
    if !printer.is_json() {
        let and_mask =
            if must_mask { " and atoll_mask_file: its tables stay closed until they are masked" } else { "" };
        printer.line(&format!("start a server of its own with atoll_url={child_url}{and_mask}"));
    }
    Ok(true)
}

/// Prints which clone was made.
pub(crate) fn tell(printer: &Printer, made: &CloneStatus) {
    if printer.is_json() {
        return printer.json(made);
    }
    let (uuid, parent) = (&made.db_uuid, &made.parent);
    printer.line(&format!(
        "made database {uuid} from root {}/{} of {}",
        parent.epoch, parent.slot, parent.db_uuid
    ));
    if let Some(time_us) = made.commit_us {
        let gtid = if made.gtid_position.is_empty() { "none" } else { &made.gtid_position };
        printer.line(&format!("its last commit was at {} UTC, GTID position {gtid}", utc(time_us)));
    }
    printer.line(&format!(
        "{} table files, {}, stay where they are; {} of MANIFEST and log were copied",
        made.files,
        size(made.shared_bytes),
        size(made.copied_bytes)
    ));
}

/// Tells the parents of the clone of `inspector` that it needs none of their files any more. Returns true
/// when every parent was told. False: the clone still reads files of a parent or is no clone, and a message
/// on standard error says so.
pub(crate) async fn release(printer: &Printer, inspector: &Inspector) -> Result<bool, StoreError> {
    match inspector.release_parents().await {
        Ok(origins) if printer.is_json() => printer.json(&origins),
        Ok(origins) => printer.line(&format!("independent of: {}", origins.join(", "))),
        Err(error @ StoreError::Invalid(_)) => {
            eprintln!("atollctl: {error}");
            return Ok(false);
        }
        Err(error) => return Err(error),
    }
    Ok(true)
}

/// Whether a clone at the URL `child` could read files at the URL `parent`. The clone's file map can name
/// only a prefix of the same bucket, or a directory of the same machine.
pub(crate) fn shares_files(parent: &str, child: &str) -> Result<bool, StoreError> {
    Ok(match (Location::parse(parent)?, Location::parse(child)?) {
        (Location::Directory(_), Location::Directory(_)) => true,
        (Location::S3 { bucket, .. }, Location::S3 { bucket: other, .. }) => bucket == other,
        _ => false,
    })
}
