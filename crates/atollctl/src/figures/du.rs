//! `atollctl du`: how much space each table and index takes in the bucket, and whether the present, the past,
//! both or nothing needs it.

use crate::figures::usage::{Row, Summary, Usage, summarize};
use crate::output::{Printer, Table, now_ms, shown, size};
use objstore::StoreError;
use objstore::protocol::Inspector;

/// Shows what takes space in the bucket, by table, and also by index if `by_index`. Always returns true: used
/// space is no problem of the database.
pub(crate) async fn run(
    printer: &Printer,
    inspector: &Inspector,
    by_index: bool,
) -> Result<bool, StoreError> {
    let summary = summarize(&inspector.space().await?, by_index, now_ms());
    if printer.is_json() {
        printer.json(&summary);
    } else {
        print(printer, &summary, by_index);
    }
    Ok(true)
}

fn print(printer: &Printer, summary: &Summary, by_index: bool) {
    let mut headings = vec!["table"];
    headings.extend(by_index.then_some("index"));
    headings.extend([">objects", ">live", ">shared", ">history", ">not needed", ">total"]);
    let mut table = Table::new(&headings);
    for Row { name, index, usage, .. } in &summary.rows {
        table.row(&cells(name, by_index.then_some(index), usage));
    }
    table.row(&cells("total", by_index.then_some(&String::new()), &summary.total));
    printer.table(&table);
    if summary.elsewhere_files > 0 {
        printer.line(&format!(
            "beside that, {} table files ({}) are read from the prefix of another database",
            summary.elsewhere_files,
            size(summary.elsewhere_bytes)
        ));
    }
    if !summary.held_by.is_empty() {
        printer.line(&format!("HELD: nothing is deleted: {}", shown(&summary.held_by)));
    }
    if !summary.problem.is_empty() {
        printer.line(&format!("some table files have no name: {}", shown(&summary.problem)));
    }
}

fn cells(name: &str, index: Option<&String>, usage: &Usage) -> Vec<String> {
    let mut cells = vec![shown(name)];
    cells.extend(index.map(|index| shown(index)));
    cells.push(usage.objects.to_string());
    let unneeded = usage.unneeded_bytes + usage.foreign_bytes;
    let bytes = [usage.live_bytes, usage.shared_bytes, usage.history_bytes, unneeded, usage.bytes()];
    cells.extend(bytes.map(size));
    cells
}
