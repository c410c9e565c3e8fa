//! `atollctl verify --restore`: proves a restore by doing what a server without a local directory does.

use crate::ask;
use crate::output::{Printer, size};
use crate::progress::{bytes_bar, show};
use objstore::StoreError;
use objstore::date::utc;
use objstore::protocol::{Inspector, Proof};
use std::path::{Path, PathBuf};

/// Restores into a scratch directory below `place` and reads all table files. True: a restore works.
pub(crate) async fn run(
    printer: &Printer,
    inspector: &Inspector,
    place: Option<&Path>,
) -> Result<bool, StoreError> {
    let scratch = Scratch::new(place)?;
    let bar = bytes_bar(printer);
    let proof = inspector
        .prove_restore(&scratch.0, &ask::this_process(), |done, total| show(&bar, done, total))
        .await;
    bar.finish_and_clear();
    let proof = proof?;
    match printer.is_json() {
        true => printer.json(&proof),
        false => print_proof(printer, &proof),
    }
    Ok(proof.is_restorable)
}

fn print_proof(printer: &Printer, proof: &Proof) {
    let report = &proof.report;
    for problem in &report.problems {
        printer.line(&format!("PROBLEM: {problem}"));
    }
    let commit = proof.commit_us.map_or("none".to_owned(), |time| format!("{} UTC", utc(time)));
    let gtid = if proof.gtid_position.is_empty() { "none" } else { &proof.gtid_position };
    printer.line(&format!(
        "restored in {:.1} s: {} table files read ({}), MANIFEST {}, {} chunks of the log ({}); last commit {commit}, GTID position {gtid}",
        proof.took_ms as f64 / 1000.0,
        report.files_checked,
        size(report.bytes_read),
        size(report.manifest_bytes),
        report.wal_chunks,
        size(report.wal_bytes)
    ));
    printer.line(match proof.is_restorable {
        true => "ok: a restore works; hint/proved says so",
        false => "a restore would fail or lack data; hint/proved says so",
    });
}

/// A directory that is removed when this value is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(place: Option<&Path>) -> Result<Self, StoreError> {
        let parent = place.map_or_else(std::env::temp_dir, Path::to_owned);
        let path = parent.join(format!("atollctl-restore-{}", std::process::id()));
        std::fs::create_dir(&path)
            .map_err(|error| StoreError::Invalid(format!("creating {}: {error}", path.display())))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
