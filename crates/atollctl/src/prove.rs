//! `atollctl verify --restore`: proves that the database can be restored, by restoring it as a server without
//! a local directory does.

use crate::ask;
use crate::output::{Printer, size};
use crate::progress::{bytes_bar, show};
use crate::rows::{self, Place};
use objstore::StoreError;
use objstore::date::utc;
use objstore::protocol::{Inspector, PRESENT, Proof};
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Restores into a scratch directory below `place` (None: below the directory for temporary files) and reads
/// all table files. If `rows` is given, reads all rows, too. Returns true when the restore worked. False: a
/// restore would fail or lack data, and the printed problems say why.
pub(crate) async fn run(
    printer: &Printer,
    inspector: &Inspector,
    place: Option<&Path>,
    rows: Option<&Place>,
) -> Result<bool, StoreError> {
    let scratch = Scratch::new(place)?;
    let bar = bytes_bar(printer);
    let proof = inspector
        .prove_restore(&scratch.0, &ask::this_process(), |done, total| show(&bar, done, total))
        .await;
    bar.finish_and_clear();
    let mut proof = proof?;
    inspector.leave_proof(&proof).await?;
    if let Some(rows) = rows
        && proof.is_restorable
    {
        read_rows(inspector, rows, &mut proof).await?;
        inspector.leave_proof(&proof).await?;
    }
    match printer.is_json() {
        true => printer.json(&proof),
        false => print_proof(printer, &proof),
    }
    Ok(proof.is_restorable)
}

/// Lets RocksDB read all rows of the newest state, and adds their number and the problems to `proof`. That
/// state includes the commits made since the restore.
async fn read_rows(inspector: &Inspector, place: &Place, proof: &mut Proof) -> Result<(), StoreError> {
    let names = inspector.table_names().await?;
    match rows::check(place, &names, PRESENT).await {
        Ok(tables) => {
            proof.rows_read = Some(tables.iter().map(|table| table.rows).sum());
            let damaged = tables.iter().filter(|table| !table.problem.is_empty());
            let problems = damaged.map(|table| format!("table {}: {}", table.name, table.problem));
            proof.report.problems.extend(problems);
        }
        Err(StoreError::Corruption(what)) => proof.report.problems.push(what),
        Err(error) => return Err(error),
    }
    proof.is_restorable = proof.report.problems.is_empty();
    Ok(())
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
    if let Some(rows) = proof.rows_read {
        printer.line(&format!(
            "RocksDB has opened it and read all of it: {rows} rows, with their index entries"
        ));
    }
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
        // The directory will hold the database's log, which no other user may read.
        let mut builder = DirBuilder::new();
        builder
            .mode(0o700)
            .create(&path)
            .map_err(|error| StoreError::Invalid(format!("creating {}: {error}", path.display())))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
