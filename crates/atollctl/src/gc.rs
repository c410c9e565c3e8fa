//! `atollctl gc`: shows what the collector will delete, pauses the collector and ends the pause.

use crate::output::{Printer, shown, size, span};
use objstore::StoreError;
use objstore::protocol::{GcPlan, Inspector, Unneeded};

/// Shows which objects nothing needs. Always returns true: such objects are no problem of the database.
pub(crate) async fn plan(printer: &Printer, inspector: &Inspector) -> Result<bool, StoreError> {
    inspector.check_exists().await?;
    let plan = inspector.gc_plan().await?;
    if printer.is_json() {
        printer.json(&plan);
    } else {
        print_plan(printer, &plan);
    }
    Ok(true)
}

/// Keeps the collector from deleting anything until [`resume`] is called.
pub(crate) async fn pause(printer: &Printer, inspector: &Inspector) -> Result<bool, StoreError> {
    // A pin at a wrong URL would pause no collector.
    inspector.check_exists().await?;
    inspector.pause_collector().await?;
    printer.line("paused: no owner deletes anything from now on, but for a batch that has begun (at most 1000 objects)");
    Ok(true)
}

/// Ends the pause that [`pause`] began.
pub(crate) async fn resume(printer: &Printer, inspector: &Inspector) -> Result<bool, StoreError> {
    inspector.check_exists().await?;
    inspector.resume_collector().await?;
    let GcPlan { pins, held_why, .. } = inspector.gc_plan().await?;
    match pins.first() {
        Some(pin) => printer.line(&format!(
            "the pause has ended, but {pin} still keeps the collector from deleting: {}",
            shown(&held_why)
        )),
        None => printer.line("the pause has ended; a running owner goes on within three minutes"),
    }
    Ok(true)
}

fn print_plan(printer: &Printer, plan: &GcPlan) {
    print_unneeded(printer, "tombed", &plan.tombed);
    print_unneeded(printer, "stray", &plan.strays);
    for upload in &plan.uploads {
        printer.line(&format!("unfinished upload: {} (id {})", upload.key, upload.id));
    }
    for pin in &plan.pins {
        printer.line(&format!(
            "HELD: {pin} keeps the collector from deleting anything: {}",
            shown(&plan.held_why)
        ));
    }
    if !plan.uploads_unknown.is_empty() {
        printer.line(&format!("unfinished uploads are not known: {}", plan.uploads_unknown));
    }
    let bytes = plan.tombed.iter().chain(&plan.strays).map(|object| object.size).sum();
    printer.line(&format!(
        "{} tombed, {} in no root and no tomb (published or found later), {} together; {} unfinished uploads",
        plan.tombed.len(),
        plan.strays.len(),
        size(bytes),
        plan.uploads.len()
    ));
    printer.line("nothing was deleted: only the server that owns the database deletes, while it runs");
}

/// Prints one line, which begins with `label`, for each of `objects`.
pub(crate) fn print_unneeded(printer: &Printer, label: &str, objects: &[Unneeded]) {
    for object in objects {
        let age = span(object.age_s);
        printer.line(&format!("{label}: {} ({}, {age} old)", object.key, size(object.size)));
    }
}
