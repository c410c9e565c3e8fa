//! `atollctl certify`: tests whether a provider has the properties that Atoll relies on, and prints a table
//! with a verdict for each.

use crate::output::{Printer, Table};
use objstore::certify::{Certificate, CertifyOptions, Fitness, Verdict, certify};
use objstore::{Bucket, StoreError};

/// Examines `bucket` and prints its certificate. [`certify`] explains `damaging`.
pub(crate) async fn run(
    printer: &Printer,
    bucket: &Bucket,
    damaging: Option<&Bucket>,
    options: &CertifyOptions,
) -> Result<Fitness, StoreError> {
    let certificate = certify(bucket, damaging, options).await?;
    if printer.is_json() {
        printer.json(&certificate);
    } else {
        print(printer, &certificate);
    }
    Ok(certificate.fitness)
}

fn print(printer: &Printer, certificate: &Certificate) {
    let mut table = Table::new(&["property", "verdict", ""]);
    for finding in &certificate.findings {
        let verdict = match finding.verdict {
            Verdict::Ok => "ok",
            Verdict::Note => "note",
            Verdict::Warning => "warning",
            Verdict::Failed => "FAILED",
            Verdict::Unknown => "UNKNOWN",
        };
        table.row(&[finding.property.to_owned(), verdict.to_owned(), finding.text.clone()]);
    }
    printer.table(&table);
    printer.line("");
    let words = match certificate.fitness {
        Fitness::Fit => "FIT: Atoll can be used there",
        Fitness::Unfit => "UNFIT: do not use Atoll there, data would be lost",
        Fitness::Unknown => "UNKNOWN: nothing wrong was found, but not everything could be examined",
    };
    printer.line(&format!("{} after {} requests: {words}", certificate.place, certificate.requests));
}
