//! `atollctl verify`: says whether the bucket holds what restores need. `prove.rs` has `verify --restore`.

use crate::output::{Printer, size};
use crate::progress;
use indicatif::ProgressBar;
use objstore::StoreError;
use objstore::protocol::{Inspector, KeptReport, VerifyReport};
use serde::Serialize;

/// The outcome of `verify --all` as JSON.
#[derive(Serialize)]
struct AllReports {
    newest: VerifyReport,
    kept: Vec<KeptReport>,
}

/// Verifies the newest state and, if `all`, each state that a pin keeps. Returns true when nothing is missing
/// or damaged.
pub(crate) async fn run(
    printer: &Printer,
    inspector: &Inspector,
    deep: bool,
    all: bool,
) -> Result<bool, StoreError> {
    inspector.check_exists().await?;
    let bar = if deep { progress::bytes_bar(printer) } else { ProgressBar::hidden() };
    let newest = inspector.verify(deep, |done, total| progress::show(&bar, done, total)).await?;
    bar.finish_and_clear();
    if !all {
        match printer.is_json() {
            true => printer.json(&newest),
            false => print_newest(printer, &newest),
        }
        return Ok(is_restorable(&newest));
    }
    let reports = AllReports { newest, kept: inspector.verify_kept(deep, |_, _| {}).await? };
    match printer.is_json() {
        true => printer.json(&reports),
        false => print_all(printer, &reports),
    }
    Ok(is_restorable(&reports.newest) && reports.kept.iter().all(|kept| kept.report.problems.is_empty()))
}

/// Prints what the verification of the newest root has found.
pub(crate) fn print_newest(printer: &Printer, report: &VerifyReport) {
    if let Some(root) = &report.root {
        let checked = counts(report);
        printer.line(&format!("root {}/{}: {checked}", root.epoch, root.slot));
    }
    print_problems(printer, report);
    printer.line(match (is_restorable(report), &report.root) {
        (true, _) => "ok: the database can be restored from the bucket",
        (false, Some(_)) => "the database can NOT be restored completely from the bucket",
        (false, None) => {
            "nothing was published yet: this is a new database, or a clone that was not finished"
        }
    });
}

/// Whether the newest state was found and has no problem.
pub(crate) fn is_restorable(report: &VerifyReport) -> bool {
    report.root.is_some() && report.problems.is_empty()
}

fn print_all(printer: &Printer, reports: &AllReports) {
    print_newest(printer, &reports.newest);
    for kept in &reports.kept {
        printer.line(&format!("{} '{}': {}", kept.kind, kept.name, counts(&kept.report)));
        print_problems(printer, &kept.report);
        if !kept.report.problems.is_empty() {
            printer.line(&format!(
                "if nobody needs this state, give it up: atollctl snapshot drop URL {} --pin",
                kept.pin
            ));
        }
    }
    let damaged = reports.kept.iter().filter(|kept| !kept.report.problems.is_empty()).count();
    let states = reports.kept.len();
    printer.line(&match damaged {
        0 => format!("ok: all {states} states of the past can be restored from the bucket"),
        _ => {
            format!("{damaged} of {states} states of the past can NOT be restored completely from the bucket")
        }
    });
}

fn print_problems(printer: &Printer, report: &VerifyReport) {
    for problem in &report.problems {
        printer.line(&format!("PROBLEM: {problem}"));
    }
}

fn counts(report: &VerifyReport) -> String {
    format!(
        "{} files checked ({} read), MANIFEST {}, WAL {} chunks ({})",
        report.files_checked,
        size(report.bytes_read),
        size(report.manifest_bytes),
        report.wal_chunks,
        size(report.wal_bytes)
    )
}
