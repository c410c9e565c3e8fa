//! `atollctl snapshot`: makes, shows and drops snapshots of a database.

use crate::ask::{self, Consent};
use crate::output::{Printer, Table, age, shown, size};
use crate::protect;
use clap::Subcommand;
use objstore::StoreError;
use objstore::date::utc;
use objstore::protocol::{Inspector, SnapshotStatus};

/// What to do with snapshots.
#[derive(Subcommand)]
pub(crate) enum SnapshotAction {
    /// Makes a snapshot of what is in the bucket now, beside a running server or without one.
    Create {
        /// file:///absolute/path or s3://bucket/prefix
        url: String,
        /// Any text of at most 1024 bytes.
        name: String,
    },
    /// Shows the snapshots, and what clones hold: moment, GTID position, bytes shared and kept alive.
    List {
        /// file:///absolute/path or s3://bucket/prefix
        url: String,
    },
    /// Drops a snapshot. What it alone kept is deleted by the server.
    Drop {
        /// file:///absolute/path or s3://bucket/prefix
        url: String,
        /// The name of the snapshot; with --pin the object, as `snapshot list` shows it.
        name: String,
        /// NAME is the key of a pin object, as `snapshot list` prints it, for example of an unfinished clone.
        #[arg(long)]
        pin: bool,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
    /// Protects a snapshot: nobody who goes through Atoll drops it before a date.
    Protect {
        /// file:///absolute/path or s3://bucket/prefix
        url: String,
        /// The name of the snapshot.
        name: String,
        /// '2027-01-31' or '2027-01-31 10:00:00', in UTC. The latest date that was given counts.
        #[arg(long, value_name = "DATE", value_parser = protect::parse_until)]
        until: u64,
        /// Has the store lock each object of the snapshot, too, which needs a bucket with object lock.
        #[arg(long, value_enum, value_name = "MODE")]
        object_lock: Option<protect::ObjectLock>,
    },
}

impl SnapshotAction {
    pub(crate) fn url(&self) -> &str {
        match self {
            Self::Create { url, .. }
            | Self::List { url }
            | Self::Drop { url, .. }
            | Self::Protect { url, .. } => url,
        }
    }
}

/// Runs `action`. Returns true when all is well. False: the request cannot be carried out, or a listed
/// snapshot has a problem; a message says so.
pub(crate) async fn run(
    printer: &Printer,
    inspector: &Inspector,
    action: &SnapshotAction,
) -> Result<bool, StoreError> {
    match action {
        SnapshotAction::Create { name, .. } => create(printer, inspector, name).await,
        SnapshotAction::Protect { name, until, object_lock, .. } => {
            protect::run(printer, inspector, name, *until, *object_lock).await
        }
        SnapshotAction::List { .. } => list(printer, inspector).await,
        SnapshotAction::Drop { name, pin, yes, .. } => {
            let consent = Consent::of(*yes);
            drop_one(printer, inspector, name, *pin, consent).await
        }
    }
}

async fn create(printer: &Printer, inspector: &Inspector, name: &str) -> Result<bool, StoreError> {
    let made = match inspector.create_snapshot(name, &ask::this_process()).await {
        Ok(made) => made,
        Err(error @ StoreError::Invalid(_)) => return refused(&error),
        Err(error) => return Err(error),
    };
    if printer.is_json() {
        printer.json(&made);
    } else {
        let gtid = if made.gtid_position.is_empty() { "none" } else { &made.gtid_position };
        let (files, bytes) = (made.files, size(made.shared_bytes + made.alone_bytes));
        let commit = made.commit_us.map_or("none".to_owned(), |time| format!("{} UTC", utc(time)));
        printer.line(&format!(
            "made the snapshot '{}' of root {}/{}: {files} files, {bytes}",
            shown(name),
            made.epoch,
            made.slot
        ));
        printer.line(&format!("last commit {commit}, GTID position {gtid}"));
    }
    Ok(true)
}

async fn list(printer: &Printer, inspector: &Inspector) -> Result<bool, StoreError> {
    let all = inspector.snapshots().await?;
    let headings = [
        "name",
        "kind",
        ">root",
        "made",
        "last commit (UTC)",
        "GTID position",
        ">binlog:offset",
        ">files",
        ">shared",
        ">alone",
        "protected until",
        "pin",
    ];
    let mut table = Table::new(&headings);
    all.iter().for_each(|snapshot| table.row(&row(snapshot)));
    printer.table_or_json(&table, &all);
    let problems: Vec<_> = all.iter().filter(|snapshot| !snapshot.problem.is_empty()).collect();
    if !printer.is_json() {
        for snapshot in &problems {
            printer.line(&format!("PROBLEM: {}: {}", snapshot.pin, snapshot.problem));
        }
    }
    Ok(problems.is_empty())
}

fn row(snapshot: &SnapshotStatus) -> Vec<String> {
    vec![
        shown(&snapshot.name),
        snapshot.kind.clone(),
        format!("{}/{}", snapshot.epoch, snapshot.slot),
        age(snapshot.created_ms),
        snapshot.commit_us.map(utc).unwrap_or_default(),
        snapshot.gtid_position.clone(),
        snapshot.binlog.map(|at| format!("{:06}:{}", at.file, at.offset)).unwrap_or_default(),
        snapshot.files.to_string(),
        size(snapshot.shared_bytes),
        size(snapshot.alone_bytes),
        snapshot.protected_until_s.map(protect::day_and_time).unwrap_or_default(),
        snapshot.pin.clone(),
    ]
}

async fn drop_one(
    printer: &Printer,
    inspector: &Inspector,
    name: &str,
    is_pin: bool,
    consent: Consent,
) -> Result<bool, StoreError> {
    let all = inspector.snapshots().await?;
    let is_it = |snapshot: &&SnapshotStatus| match is_pin {
        // One row stands for all pins of the history.
        true => snapshot.pin == name || (snapshot.kind == "history" && name.starts_with("pin/history-")),
        false => snapshot.kind == "snapshot" && snapshot.name == name,
    };
    let Some(snapshot) = all.iter().find(is_it) else {
        return refused(&format!(
            "there is no {} '{}'",
            if is_pin { "pin" } else { "snapshot" },
            shown(name)
        ));
    };
    let clone = match snapshot.kind.as_str() {
        "clone" => format!(" The clone at {} loses its data, if it exists!", shown(&snapshot.name)),
        _ => String::new(),
    };
    let what = format!(
        "Dropping {} '{}': {} of table files that nothing else needs will be deleted by the server.{clone}",
        snapshot.kind,
        shown(name),
        size(snapshot.alone_bytes)
    );
    if let Err(error) = consent.to(&what) {
        return refused(&error);
    }
    let dropped = match is_pin {
        true => inspector.drop_pin(name).await,
        false => inspector.drop_snapshot(name).await,
    };
    match dropped {
        Err(error @ StoreError::Invalid(_)) => return refused(&error),
        dropped => dropped?,
    }
    if printer.is_json() {
        printer.json(snapshot);
    } else {
        printer.line(&format!("dropped '{}'", shown(name)));
    }
    Ok(true)
}

/// Says which state a reader shows, from the row of its pin.
pub(crate) fn describe_reader(pin: &SnapshotStatus) -> String {
    let commit =
        pin.commit_us.map_or("the beginning".to_owned(), |us| format!("the commit at {} UTC", utc(us)));
    let gtid = match pin.gtid_position.as_str() {
        "" => String::new(),
        position => format!(" (GTID {position})"),
    };
    format!("'{}' shows the state up to {commit}{gtid}, pinned {}", shown(&pin.creator), age(pin.created_ms))
}

/// Prints why the request cannot be carried out, and returns false. Nothing was changed.
fn refused(why: &impl std::fmt::Display) -> Result<bool, StoreError> {
    eprintln!("atollctl: {why}");
    Ok(false)
}
