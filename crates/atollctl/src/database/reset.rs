//! `atollctl reset`: puts a clone back to a state of its parent.

use crate::ask::{self, Consent};
use crate::clone::tell;
use crate::output::Printer;
use objstore::StoreError;
use objstore::protocol::{CloneRequest, Inspector, Past};

/// Asks the user, then puts the clone at `url` back to the state `past` of its parent; None: the present one.
/// `takes_over`: its server did not end in order, and surely does not run any more. Returns true when this is
/// done. False: the request cannot be carried out or the user does not agree, and a message says so.
pub(crate) async fn run(
    printer: &Printer,
    inspector: &Inspector,
    url: &str,
    past: Option<Past>,
    takes_over: bool,
    consent: Consent,
) -> Result<bool, StoreError> {
    if let Err(error) = inspector.plan_reset(takes_over).await {
        return refused(error);
    }
    let what = format!(
        "Putting {url} back to its parent: everything that was changed in it is lost, with its snapshots."
    );
    if let Err(error) = consent.to(&what) {
        return refused(error);
    }
    let (place, creator) = (url.to_owned(), ask::this_process());
    let request = CloneRequest { past, place, creator, discards_unfinished: true, expires_s: None };
    match inspector.reset_clone(&request, takes_over).await {
        Err(error) => refused(error),
        Ok(made) => {
            tell(printer, &made);
            if !printer.is_json() {
                printer.line("before you start its server, move #atoll of its data directory away: it belongs to the former clone");
            }
            Ok(true)
        }
    }
}

/// Prints an error that the user can correct, and returns false, which gives exit status 1.
pub(crate) fn refused(error: StoreError) -> Result<bool, StoreError> {
    match error {
        StoreError::Invalid(_) | StoreError::ReadOnly(_) | StoreError::NotFound { .. } => {
            eprintln!("atollctl: {error}");
            Ok(false)
        }
        error => Err(error),
    }
}
