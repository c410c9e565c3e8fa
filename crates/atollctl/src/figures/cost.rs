//! `atollctl cost`: shows what it costs to store the bytes of a database for a month, by table and use, and
//! what the requests of a running server cost.

use crate::figures::prices::{Prices, RequestCost};
use crate::figures::usage::{Summary, Usage, summarize};
use crate::output::{Printer, Table, now_ms, shown, size};
use clap::Args;
use objstore::StoreError;
use objstore::protocol::{Inspector, Space};
use serde::Serialize;
use std::path::PathBuf;

/// Where prices and requests come from.
#[derive(Args, Clone)]
pub(crate) struct CostOptions {
    /// Price list: JSON, see docs/atollctl.md. Default: an example, which is no provider's.
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,
    /// Status variables of the server that owns the database: mariadb -Ne "SHOW GLOBAL STATUS" > FILE. Adds what its requests cost.
    #[arg(long, value_name = "FILE")]
    pub(crate) status: Option<PathBuf>,
}

/// What a database costs.
#[derive(Serialize)]
pub(crate) struct CostReport {
    pub(crate) prices: Prices,
    /// True: the user gave a price list. False: the prices are those of the example.
    pub(crate) prices_given: bool,
    pub(crate) space: Summary,
    /// What it costs to store everything that is in the bucket now for a month. `history_per_month` is the
    /// part for bytes that only the past needs, `unneeded_per_month` the part for bytes that nothing needs.
    pub(crate) stored_per_month: f64,
    pub(crate) history_per_month: f64,
    pub(crate) unneeded_per_month: f64,
    /// The requests of a running server and their cost; empty when the user did not give the server's status.
    pub(crate) requests: Vec<RequestCost>,
}

/// Shows what the database costs. Always returns true: a cost is no problem of the database.
pub(crate) async fn run(
    printer: &Printer,
    inspector: &Inspector,
    options: &CostOptions,
) -> Result<bool, StoreError> {
    let report = report_of(&inspector.space().await?, options)?;
    if printer.is_json() {
        printer.json(&report);
    } else {
        print(printer, &report);
    }
    Ok(true)
}

/// Adds up the cost. Errors: `Invalid` when a file that `options` name cannot be read or has a wrong format.
pub(crate) fn report_of(space: &Space, options: &CostOptions) -> Result<CostReport, StoreError> {
    let prices = Prices::read(options.prices.as_deref())?;
    let requests = match &options.status {
        None => Vec::new(),
        Some(path) => {
            let failed = |error| StoreError::Invalid(format!("reading {}: {error}", path.display()));
            prices.requests(&std::fs::read_to_string(path).map_err(failed)?)?
        }
    };
    let space = summarize(space, false, now_ms());
    let (total, prices_given) = (space.total, options.prices.is_some());
    Ok(CostReport {
        stored_per_month: prices.stored(total.bytes()),
        history_per_month: prices.stored(total.history_bytes),
        unneeded_per_month: prices.stored(unneeded(&total)),
        prices,
        prices_given,
        space,
        requests,
    })
}

fn unneeded(usage: &Usage) -> u64 {
    usage.unneeded_bytes + usage.foreign_bytes
}

/// An amount with four digits after the point. An amount that these do not show is no zero.
fn money(amount: f64) -> String {
    match amount {
        0.0 => "0".to_owned(),
        small if small < 0.00005 => "< 0.0001".to_owned(),
        amount => format!("{amount:.4}"),
    }
}

fn print(printer: &Printer, report: &CostReport) {
    let (prices, currency) = (&report.prices, shown(&report.prices.currency));
    if !report.prices_given {
        printer.line("The prices are an example and no provider's: give --prices FILE.");
    }
    let money = |bytes| money(prices.stored(bytes));
    let headings = ["table", ">stored", ">per month", ">of that history", ">per month", ">not needed"];
    let mut table = Table::new(&headings);
    let mut row = |name: &str, usage: &Usage| {
        let (bytes, history) = (usage.bytes(), usage.history_bytes);
        let cells =
            [shown(name), size(bytes), money(bytes), size(history), money(history), size(unneeded(usage))];
        table.row(&cells);
    };
    report.space.rows.iter().for_each(|of| row(&of.name, &of.usage));
    row("total", &report.space.total);
    printer.table(&table);
    printer.line(&format!(
        "stored: {} {currency} per month, of which {} for the past and {} for what is not needed",
        self::money(report.stored_per_month),
        self::money(report.history_per_month),
        self::money(report.unneeded_per_month)
    ));
    if report.requests.is_empty() {
        return printer.line(
            "requests are known to the server only: mariadb -Ne \"SHOW GLOBAL STATUS\" > FILE, then --status FILE",
        );
    }
    let mut table =
        Table::new(&["requests", ">since the start", ">per month", &format!(">{currency} per month")]);
    for of in &report.requests {
        let (count, month) = (format!("{:.1}", of.count), format!("{:.0}", of.per_month));
        table.row(&[of.kind.to_owned(), count, month, self::money(of.money_per_month)]);
    }
    printer.line("");
    printer.table(&table);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_amount_is_no_zero() {
        assert_eq!([0.0, 0.00004, 0.00006, 12.5].map(money), ["0", "< 0.0001", "0.0001", "12.5000"]);
    }
}
