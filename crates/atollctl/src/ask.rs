//! Questions that a command asks before it gives something up, and the name of this process in the
//! bucket's records.

use objstore::StoreError;
use std::io::{BufRead, IsTerminal, Write};

/// Whether the user has agreed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Consent {
    /// The user has agreed with --yes.
    Given,
    /// The user has not agreed yet and must be asked.
    Asked,
}

impl Consent {
    /// Says what will be done and returns when the user agrees.
    ///
    /// Errors: `Invalid` when the user does not, or cannot be asked because nobody sits at a terminal.
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

/// `host:process`, for records that say who made them.
pub(crate) fn this_process() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("atollctl@{}:{}", host.trim(), std::process::id())
}
