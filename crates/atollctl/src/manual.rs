//! `atollctl completion` and `atollctl man`: both are generated from the description of the command line that
//! `--help` shows.

use crate::output::Printer;
use clap::CommandFactory;
use clap_complete::Shell;
use objstore::StoreError;
use std::path::Path;

/// Prints the completion script for `shell`.
pub(crate) fn completion<C: CommandFactory>(printer: &Printer, shell: Shell) -> Result<bool, StoreError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut C::command(), "atollctl", &mut script);
    printer.line(String::from_utf8_lossy(&script).trim_end());
    Ok(true)
}

/// Writes a man page for the tool and one for each command into `directory`.
///
/// Errors: `Invalid` when the directory cannot be written to.
pub(crate) fn pages<C: CommandFactory>(printer: &Printer, directory: &Path) -> Result<bool, StoreError> {
    let written =
        std::fs::create_dir_all(directory).and_then(|()| clap_mangen::generate_to(C::command(), directory));
    written.map_err(|error| {
        StoreError::Invalid(format!("writing man pages to {}: {error}", directory.display()))
    })?;
    printer.line(&format!("wrote the man pages to {}", directory.display()));
    Ok(true)
}
