//! Asks the user for consent before a command deletes or replaces something; and the name that this process
//! writes into the bucket's records.

use objstore::StoreError;
use std::io::{BufRead, IsTerminal, Write};

/// Whether the user has agreed already, by an option on the command line, or must be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Consent {
    /// The user has agreed with --yes.
    Given,
    /// The user has not agreed yet and must be asked.
    Asked,
}

impl Consent {
    /// `yes`: whether the user has given the option `--yes`.
    pub(crate) fn of(yes: bool) -> Self {
        if yes { Self::Given } else { Self::Asked }
    }

    /// Prints `what`, which says what will be done, and returns when the user agrees.
    ///
    /// Errors: `Invalid` when the user does not agree, or when standard input is no terminal, so that nobody
    /// can be asked.
    pub(crate) fn to(self, what: &str) -> Result<(), StoreError> {
        if self == Self::Given {
            return Ok(());
        }
        if !std::io::stdin().is_terminal() {
            return Err(StoreError::Invalid(format!(
                "{what} Nothing was changed: give --yes if that is what you want"
            )));
        }
        eprint!("{what}\nGo on? Type yes: ");
        let _ = std::io::stderr().flush();
        let mut answer = String::new();
        let read = std::io::stdin().lock().read_line(&mut answer);
        match (read, answer.trim()) {
            (Ok(_), "yes") => Ok(()),
            _ => Err(StoreError::Invalid("nothing was changed".to_owned())),
        }
    }
}

/// `atollctl@host:process`: the creator's name in the records that this process writes to the bucket.
pub(crate) fn this_process() -> String {
    format!("atollctl@{}:{}", host(), std::process::id())
}

/// Returns the name of this machine.
pub(crate) fn host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}
