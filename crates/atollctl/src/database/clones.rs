//! `atollctl clone list` and `clone drop-expired`: which clones read files of this database, and the removal of
//! those that are not needed any more.

use crate::ask::{self, Consent};
use crate::output::{Printer, Table, age, now_ms, shown, size};
use clap::Subcommand;
use objstore::date::{utc, utc_seconds};
use objstore::protocol::{Inspector, Sharing, SnapshotStatus};
use objstore::{Bucket, StoreError};
use serde::Serialize;
use std::path::Path;

/// The `kind` of the row of a clone in a list of snapshots.
const CLONE: &str = "clone";
/// The pin of a clone has this name, followed by the uuid of the clone.
const PIN: &str = "pin/clone-";

/// What to do with the clones of a database.
#[derive(Subcommand)]
pub(crate) enum CloneAction {
    /// Shows the clones that may read files of this database: where each is, its state, what is kept for it, what it reads of
    /// others now and has of its own, when it expires.
    List {
        /// file:///absolute/path or s3://bucket/prefix
        url: String,
    },
    /// Removes the clones of this database whose date of --expires is over, as `drop` does: one whose server runs stays.
    DropExpired {
        /// file:///absolute/path or s3://bucket/prefix
        url: String,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
}

impl CloneAction {
    pub(crate) fn url(&self) -> &str {
        match self {
            Self::List { url } | Self::DropExpired { url, .. } => url,
        }
    }
}

/// A clone as the database and the clone itself know it.
#[derive(Serialize)]
struct Listed {
    /// What the database keeps for the clone.
    #[serde(flatten)]
    kept: SnapshotStatus,
    /// What the clone reads now. None: it could not be read.
    now: Option<Sharing>,
    /// Why the clone could not be read; empty: it could.
    unread: String,
}

/// Prints the clones of the database. `connect` gives the bucket at the URL of a clone. Returns true when all is well
/// with them. A clone that cannot be read is no problem: this program may lack the keys for it.
pub(crate) async fn list(
    printer: &Printer,
    inspector: &Inspector,
    connect: impl AsyncFn(&str) -> Result<Bucket, StoreError>,
) -> Result<bool, StoreError> {
    let mut clones = Vec::new();
    for kept in clones_of(inspector.snapshots().await?) {
        let (now, unread) = match sharing_now(&kept, &connect).await {
            Ok(now) => (Some(now), String::new()),
            Err(error) => (None, error.to_string()),
        };
        clones.push(Listed { kept, now, unread });
    }
    printer.table_or_json(&table_of(&clones), &clones);
    let problems: Vec<_> = clones.iter().map(|it| &it.kept).filter(|kept| !kept.problem.is_empty()).collect();
    if !printer.is_json() {
        for Listed { kept, unread, .. } in clones.iter().filter(|clone| !clone.unread.is_empty()) {
            printer.line(&format!("unknown: {}: {}", shown(&kept.name), shown(unread)));
        }
        problems.iter().for_each(|it| printer.line(&format!("PROBLEM: {}: {}", it.pin, it.problem)));
    }
    Ok(problems.is_empty())
}

fn table_of(clones: &[Listed]) -> Table {
    let mut table = Table::new(&[
        "place",
        "database",
        "made",
        "last commit (UTC)",
        ">shared",
        ">alone",
        ">reads now",
        ">own",
        "expires",
    ]);
    for Listed { kept, now, .. } in clones {
        let bytes = |of: fn(&Sharing) -> u64| now.as_ref().map_or("?".to_owned(), |now| size(of(now)));
        table.row(&[
            shown(&kept.name),
            uuid(kept).to_owned(),
            age(kept.created_ms),
            kept.commit_us.map(utc).unwrap_or_default(),
            size(kept.shared_bytes),
            size(kept.alone_bytes),
            bytes(|now| now.shared_bytes),
            bytes(|now| now.own_bytes),
            expiry(kept),
        ]);
    }
    table
}

/// Finds out which table files the clone reads in other databases now, and which it has of its own. Errors: `NotFound`
/// when it is not there any more. Requests: a GET, and those that read its newest root.
async fn sharing_now(
    clone: &SnapshotStatus,
    connect: &impl AsyncFn(&str) -> Result<Bucket, StoreError>,
) -> Result<Sharing, StoreError> {
    if has_no_directory(clone) {
        return Err(StoreError::NotFound { operation: "reading", object: clone.name.clone() });
    }
    Sharing::read(&Inspector::new(connect(&clone.name).await?), uuid(clone)).await
}

/// Describes what a clone shares.
pub(crate) fn describe(sharing: &Sharing) -> String {
    let Sharing { shared_files, shared_bytes, own_files, own_bytes } = sharing;
    format!(
        "{shared_files} files, {}, of other databases; {own_files} files, {}, are its own",
        size(*shared_bytes),
        size(*own_bytes)
    )
}

/// Asks the user about each expired clone, then removes it. `connect` gives the bucket at the URL of a clone.
/// Returns true when no expired clone is left. False: a message on standard error says which stays, and why.
pub(crate) async fn drop_expired(
    printer: &Printer,
    inspector: &Inspector,
    consent: Consent,
    connect: impl AsyncFn(&str) -> Result<Bucket, StoreError>,
) -> Result<bool, StoreError> {
    let mut are_gone = true;
    for clone in clones_of(inspector.pins().await?).iter().filter(|clone| is_expired(clone)) {
        match drop_one(clone, consent, &connect).await {
            Ok(objects) if printer.is_json() => {
                printer.json(&serde_json::json!({ "place": clone.name, "objects": objects }));
            }
            Ok(objects) => printer.line(&format!("removed {}: {objects} objects", shown(&clone.name))),
            Err(error) => {
                eprintln!("atollctl: {} stays: {error}", shown(&clone.name));
                are_gone = false;
            }
        }
    }
    Ok(are_gone)
}

/// Removes a clone. Returns how many objects it had. Errors: `Invalid` when the user does not agree, when there
/// is another database, or when somebody needs the clone; `ReadOnly` when a server owns it.
async fn drop_one(
    clone: &SnapshotStatus,
    consent: Consent,
    connect: &impl AsyncFn(&str) -> Result<Bucket, StoreError>,
) -> Result<u64, StoreError> {
    let gone = || {
        StoreError::Invalid(format!(
            "it is not there any more. Give up what is kept for it: atollctl snapshot drop URL {} --pin",
            clone.pin
        ))
    };
    if has_no_directory(clone) {
        return Err(gone());
    }
    let there = Inspector::new(connect(&clone.name).await?);
    let found = match there.plan_removal(false).await {
        Err(error) if error.is_not_found() => return Err(gone()),
        found => found?,
    };
    // A removal that was interrupted has no identity any more, and may be the one of this clone.
    if !found.db_uuid.is_empty() && found.db_uuid != uuid(clone) {
        return Err(gone());
    }
    let what = format!("Removing the clone in {}, which expired: {}.", shown(&clone.name), expiry(clone));
    consent.to(&what)?;
    Ok(there.remove(&ask::this_process(), false).await?.objects)
}

fn clones_of(mut statuses: Vec<SnapshotStatus>) -> Vec<SnapshotStatus> {
    statuses.retain(|status| status.kind == CLONE);
    statuses
}

/// Whether the clone was in a directory that is gone. Connecting would create it, as a server needs it.
fn has_no_directory(clone: &SnapshotStatus) -> bool {
    clone.name.strip_prefix("file://").is_some_and(|path| !Path::new(path).is_dir())
}

fn uuid(clone: &SnapshotStatus) -> &str {
    clone.pin.strip_prefix(PIN).unwrap_or_default()
}

fn is_expired(clone: &SnapshotStatus) -> bool {
    clone.expires_s.is_some_and(|seconds| seconds <= now_ms() / 1000)
}

fn expiry(clone: &SnapshotStatus) -> String {
    let date = clone.expires_s.map_or("never".to_owned(), |seconds| format!("{} UTC", utc_seconds(seconds)));
    if is_expired(clone) { format!("{date}: is over") } else { date }
}
