//! `atollctl restore`: puts a database back to a snapshot or a moment.

use crate::ask::{self, Consent};
use crate::command::PastOptions;
use crate::output::{Printer, shown, size};
use objstore::StoreError;
use objstore::date::utc;
use objstore::protocol::{Inspector, Past, RewindRequest, RewindStatus};
use std::time::SystemTime;

/// The state that the options name. Errors: `Invalid` when none of the options was given.
pub(crate) fn wanted(past: &PastOptions) -> Result<Past, StoreError> {
    let missing =
        || StoreError::Invalid("which state? Give --snapshot NAME, --at MOMENT or --gtid GTID".to_owned());
    past.get().ok_or_else(missing)
}

/// Shows what [`run`] would do. Returns true when it can be done. False: a message on standard error says why
/// not.
pub(crate) async fn plan(printer: &Printer, inspector: &Inspector, past: &Past) -> Result<bool, StoreError> {
    let plan = match inspector.plan_rewind(past).await {
        Err(error) => return refused(error),
        Ok(plan) => plan,
    };
    if printer.is_json() {
        printer.json(&plan);
    } else {
        printer.line(&what(&plan, past));
        let ((epoch, slot), (first, end)) = (plan.from_root, plan.log_chunks);
        let cut = if plan.is_cut { ", the last of which is cut" } else { "" };
        let chunks = end.saturating_sub(first);
        printer.line(&format!(
            "from root {epoch}/{slot} and {chunks} chunks of the log behind it, {first} to {end}{cut}"
        ));
    }
    Ok(true)
}

/// Puts the database back to `past` and keeps the present as the snapshot `keep`. Returns true when this is
/// done. False: the request cannot be carried out or the user does not agree, and a message on standard error
/// says so.
pub(crate) async fn run(
    printer: &Printer,
    inspector: &Inspector,
    past: Past,
    keep: Option<&str>,
    takes_over: bool,
    consent: Consent,
) -> Result<bool, StoreError> {
    let plan = match inspector.plan_rewind(&past).await {
        Err(error) => return refused(error),
        Ok(plan) => plan,
    };
    if let Err(error) = inspector.check_unowned(takes_over).await {
        return refused(error);
    }
    let keep = keep.map_or_else(default_name, str::to_owned);
    let question = format!("{} The present stays as the snapshot '{}'.", what(&plan, &past), shown(&keep));
    if let Err(error) = consent.to(&question) {
        return refused(error);
    }
    let creator = ask::this_process();
    let request = RewindRequest { past, keep, creator, takes_over };
    let done = match inspector.rewind(&request).await {
        Err(error) => return refused(error),
        Ok(done) => done,
    };
    if printer.is_json() {
        printer.json(&done);
        return Ok(true);
    }
    let (epoch, slot) = done.root.unwrap_or_default();
    printer.line(&format!("the database is as in {}, in root {epoch}/{slot}", name_of(&request.past)));
    printer.line(&format!("the state before it is the snapshot '{}'", shown(&request.keep)));
    printer.line(
        "start the server: it moves its local directory aside and rebuilds it. Its binary log still has what was undone",
    );
    Ok(true)
}

fn what(plan: &RewindStatus, past: &Past) -> String {
    format!(
        "Restoring {}: the newest commit will be of {} instead of {}; {} table files, {}, none of which is copied.",
        name_of(past),
        commit(plan.commit_us, &plan.gtid_position),
        commit(plan.present_commit_us, &plan.present_gtid_position),
        plan.files,
        size(plan.files_bytes)
    )
}

fn name_of(past: &Past) -> String {
    match past {
        Past::Snapshot(name) => format!("'{}'", shown(name)),
        Past::At(time_us) => format!("the moment {} UTC", utc(*time_us)),
        Past::Gtid(gtid) => format!("transaction {gtid}"),
    }
}

fn commit(time_us: Option<u64>, gtid: &str) -> String {
    match (time_us, gtid) {
        (None, _) => "no time, there was none".to_owned(),
        (Some(time), "") => format!("{} UTC", utc(time)),
        (Some(time), gtid) => format!("{} UTC ({gtid})", utc(time)),
    }
}

fn default_name() -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("before restore {}", utc(now.as_micros() as u64))
}

/// Prints an error that the user can correct, and returns false, which gives exit status 1. The database is
/// unchanged.
fn refused(error: StoreError) -> Result<bool, StoreError> {
    match error {
        StoreError::Invalid(_) | StoreError::NotFound { .. } | StoreError::ReadOnly(_) => {
            eprintln!("atollctl: {error}");
            Ok(false)
        }
        error => Err(error),
    }
}
