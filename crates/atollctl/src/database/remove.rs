//! `atollctl drop`: removes a whole database from its bucket.

use crate::ask::{self, Consent};
use crate::output::{Printer, shown, size};
use objstore::StoreError;
use objstore::protocol::{Inspector, RemovalStatus};

/// Asks the user, then deletes all objects of the database. `takes_over`: its server did not end in order, and
/// surely does not run any more. Returns true when the database is gone. False: the request cannot be carried
/// out or the user does not agree, and a message on standard error says so.
pub(crate) async fn run(
    printer: &Printer,
    inspector: &Inspector,
    takes_over: bool,
    consent: Consent,
) -> Result<bool, StoreError> {
    let plan = match inspector.plan_removal(takes_over).await {
        Err(error) => return refused(error),
        Ok(plan) => plan,
    };
    if let Err(error) = consent.to(&what(&plan)) {
        return refused(error);
    }
    let done = match inspector.remove(&ask::this_process(), takes_over).await {
        Err(error) => return refused(error),
        Ok(done) => done,
    };
    if printer.is_json() {
        printer.json(&done);
        return Ok(true);
    }
    printer.line(&format!("removed {} objects, {}", done.objects, size(done.bytes)));
    if !done.parents.is_empty() {
        printer.line(&format!("released in: {}", done.parents.join(", ")));
    }
    if done.left_alone > 0 {
        printer.line(&format!("{} objects stay, which are not Atoll's", done.left_alone));
    }
    Ok(true)
}

fn what(plan: &RemovalStatus) -> String {
    let snapshots = match plan.snapshots.as_slice() {
        [] => String::new(),
        names => {
            let shown: Vec<String> = names.iter().take(5).map(|name| format!("'{}'", shown(name))).collect();
            let more = if names.len() > 5 { ", ..." } else { "" };
            format!(", with {} snapshots ({}{more})", names.len(), shown.join(", "))
        }
    };
    let database = match plan.db_uuid.as_str() {
        "" => "the rest of a database whose removal was interrupted".to_owned(),
        uuid => format!("database {uuid}"),
    };
    format!(
        "Removing {database}{snapshots}: {} objects, {}. They cannot be had back.",
        plan.objects,
        size(plan.bytes)
    )
}

/// Prints an error that the user can correct, and returns false, which gives exit status 1.
fn refused(error: StoreError) -> Result<bool, StoreError> {
    match error {
        StoreError::Invalid(_) | StoreError::ReadOnly(_) => {
            eprintln!("atollctl: {error}");
            Ok(false)
        }
        error => Err(error),
    }
}
