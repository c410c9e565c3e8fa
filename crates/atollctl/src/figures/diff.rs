//! `atollctl diff`: what differs between two states of a database, by table.

use crate::figures::usage::Names;
use crate::output::{Printer, Table, shown, size};
use crate::rows::{self, ChangedRows, Place};
use objstore::StoreError;
use objstore::date::utc;
use objstore::protocol::{ComparedState, Inspector, StateDiff, TableBytes};
use serde::Serialize;

/// How the bytes of one table differ between the two states.
#[derive(Serialize)]
struct Row {
    name: String,
    change: &'static str,
    #[serde(flatten)]
    bytes: TableBytes,
}

#[derive(Serialize)]
struct Shown<'a> {
    first: &'a ComparedState,
    second: &'a ComparedState,
    /// The table with the largest difference comes first.
    tables: Vec<Row>,
    problem: &'a str,
    /// Tables whose rows differ. None when the user did not ask for rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    rows: Option<Vec<ChangedRows>>,
}

/// Shows which tables differ between the states `first` and `second`. If `place` is given, also counts the
/// rows that differ. Always returns true: a difference is no problem of the database.
pub(crate) async fn run(
    printer: &Printer,
    inspector: &Inspector,
    first: &str,
    second: &str,
    place: Option<&Place>,
) -> Result<bool, StoreError> {
    let diff = inspector.diff(first, second).await?;
    let rows = match place {
        None => None,
        Some(place) => Some(rows::diff(place, &diff.names, first, second).await?),
    };
    let (first, second, problem) = (&diff.first, &diff.second, diff.problem.as_str());
    let shown = Shown { first, second, tables: tables(&diff), problem, rows };
    match printer.is_json() {
        true => printer.json(&shown),
        false => print(printer, &shown),
    }
    Ok(true)
}

fn tables(diff: &StateDiff) -> Vec<Row> {
    let names = Names::new(&diff.names, &diff.families);
    let differs = diff.tables.iter().filter(|(_, bytes)| bytes.only_first + bytes.only_second > 0);
    let mut rows: Vec<Row> = differs
        .map(|(owner, bytes)| Row { name: names.table(*owner), change: change(bytes), bytes: bytes.clone() })
        .collect();
    rows.sort_by_key(|row| u64::MAX - (row.bytes.only_first + row.bytes.only_second));
    rows
}

fn change(bytes: &TableBytes) -> &'static str {
    match (bytes.only_first + bytes.both, bytes.both + bytes.only_second) {
        (0, _) => "added",
        (_, 0) => "dropped",
        _ => "changed",
    }
}

fn print(printer: &Printer, diff: &Shown<'_>) {
    for (which, state) in [("first", diff.first), ("second", diff.second)] {
        let when = match state.commit_us {
            0 => String::new(),
            commit_us => format!(", table files made with the commits until {} UTC", utc(commit_us)),
        };
        printer.line(&format!("{which}: root {}/{}{when}", state.epoch, state.slot));
    }
    let mut table = Table::new(&["table", "change", ">only in the first", ">in both", ">only in the second"]);
    for Row { name, change, bytes } in &diff.tables {
        let [first, both, second] = [bytes.only_first, bytes.both, bytes.only_second].map(size);
        table.row(&[shown(name), (*change).to_owned(), first, both, second]);
    }
    match diff.tables.is_empty() {
        true => {
            printer.line("the table files are the same; what differs is in the log: --rows counts its rows")
        }
        false => printer.table(&table),
    }
    match &diff.rows {
        None => {}
        Some(rows) if rows.is_empty() => printer.line("both have the same rows"),
        Some(rows) => {
            printer.line("");
            printer.table(&rows::table(rows));
        }
    }
    if !diff.problem.is_empty() {
        printer.line(&format!("some table files have no name: {}", shown(diff.problem)));
    }
}

#[cfg(test)]
#[path = "diff_test.rs"]
mod tests;
