//! `atollctl materialize`: makes a clone independent of its parent.

use crate::ask::{self, Consent};
use crate::output::{Printer, size};
use crate::progress::{bytes_bar, show};
use objstore::StoreError;
use objstore::protocol::{Inspector, MaterializeStatus};

/// Asks the user, then copies the files that the clone reads in other databases. Returns true when those
/// databases need not keep any file for the clone any more. False: they must still keep files, or the request
/// cannot be carried out; a message says why.
pub(crate) async fn run(
    printer: &Printer,
    inspector: &Inspector,
    consent: Consent,
) -> Result<bool, StoreError> {
    let plan = match inspector.plan_materialize().await {
        Ok(plan) => plan,
        Err(error) => return refused(error),
    };
    if plan.foreign_files > 0
        && let Err(error) = consent.to(&what(&plan))
    {
        return refused(error);
    }
    let bar = bytes_bar(printer);
    let outcome = inspector.materialize(&ask::this_process(), &|done, total| show(&bar, done, total)).await;
    bar.finish_and_clear();
    let done = match outcome {
        Ok(done) => done,
        Err(error) => return refused(error),
    };
    match printer.is_json() {
        true => printer.json(&done),
        false => print_done(printer, &done),
    }
    Ok(done.still_held.is_empty())
}

fn what(plan: &MaterializeStatus) -> String {
    format!(
        "Materializing: {} table files, {}, get copies in the clone's own place. Its server, which must not run, moves its local \
         directory aside at its next start and rebuilds it from the bucket.",
        plan.foreign_files,
        size(plan.foreign_bytes)
    )
}

fn print_done(printer: &Printer, done: &MaterializeStatus) {
    let adopted = &done.adopted;
    match done.root {
        Some((epoch, slot)) => printer.line(&format!(
            "copied {} table files, {}; {}, {}, were there from an earlier attempt; root {epoch}/{slot} names files of its own only",
            adopted.copied_files,
            size(adopted.copied_bytes),
            adopted.reused_files,
            size(adopted.reused_bytes)
        )),
        None => printer.line("the newest root names files of its own only: nothing was copied"),
    }
    if done.former_objects > 0 {
        printer.line(&format!(
            "{} objects of former states, {}, are still in the clone's place, with rows that were changed, masked or deleted since. A \
             running server deletes them: start it before you hand out keys that can read this place",
            done.former_objects,
            size(done.former_bytes)
        ));
    }
    match done.still_held.as_str() {
        "" => printer.line(&format!("independent of: {}", done.independent_of.join(", "))),
        why => printer.line(&format!(
            "the parent still keeps its files: {why}, because a snapshot or the history of the clone has that root. Drop it, or wait \
             until the history is over, then: atollctl release"
        )),
    }
}

/// Prints an error that the user can correct, and returns false, which gives exit status 1. The clone is
/// unchanged.
fn refused(error: StoreError) -> Result<bool, StoreError> {
    match error {
        StoreError::Invalid(_)
        | StoreError::NotFound { .. }
        | StoreError::ReadOnly(_)
        | StoreError::Corruption(_) => {
            eprintln!("atollctl: {error}");
            Ok(false)
        }
        error => Err(error),
    }
}
