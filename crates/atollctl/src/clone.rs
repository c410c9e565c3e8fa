//! `atollctl clone` makes another database that begins with the state of this one and shares its files.
//! `atollctl release` tells the parents that the clone reads none of their files any more.

use crate::ask;
use crate::output::{Printer, size};
use objstore::config::Location;
use objstore::date::utc;
use objstore::protocol::{CloneRequest, Inspector, Past};
use objstore::{Bucket, StoreError};

/// Clones the database of `inspector` into the bucket `child`, whose URL is `child_url`. Returns true when
/// the clone was made. False: the request cannot be carried out, and a message on standard error says why.
pub(crate) async fn run(
    printer: &Printer,
    inspector: &Inspector,
    child: &Bucket,
    child_url: &str,
    past: Option<Past>,
    discards_unfinished: bool,
) -> Result<bool, StoreError> {
    let request =
        CloneRequest { past, place: child_url.to_owned(), creator: ask::this_process(), discards_unfinished };
    let made = match inspector.clone_to(child, &request).await {
        Ok(made) => made,
        Err(error @ (StoreError::Invalid(_) | StoreError::NotFound { .. })) => {
            eprintln!("atollctl: {error}");
            return Ok(false);
        }
        Err(error) => return Err(error),
    };
    if printer.is_json() {
        printer.json(&made);
        return Ok(true);
    }
    let (uuid, parent) = (&made.db_uuid, &made.parent);
    printer.line(&format!(
        "made database {uuid} from root {}/{} of {}",
        parent.epoch, parent.slot, parent.db_uuid
    ));
    if let Some(time_us) = made.commit_us {
        let gtid = if made.gtid_position.is_empty() { "none" } else { &made.gtid_position };
        printer.line(&format!("its last commit is that of {} UTC, GTID position {gtid}", utc(time_us)));
    }
    printer.line(&format!(
        "{} table files, {}, stay where they are; {} of MANIFEST and log were copied",
        made.files,
        size(made.shared_bytes),
        size(made.copied_bytes)
    ));
    printer.line(&format!("start a server of its own with atoll_url={child_url}"));
    Ok(true)
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
