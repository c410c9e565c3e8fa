//! Finds out what a copy of a database does not have: `atollctl copy` copies the present state only.

use crate::error::Result;
use crate::protocol::history::snapshot::{HISTORY, SNAPSHOT};
use crate::protocol::inspection::inspect::Inspector;
use serde::Serialize;

/// What stays in the source and is not in the copy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LeftBehind {
    /// The names of all snapshots, and of those that are protected until a date.
    pub snapshots: Vec<String>,
    #[allow(missing_docs)]
    pub protected_snapshots: Vec<String>,
    /// Whether the source has a history. A server that is started on the copy begins its own.
    pub history: bool,
}

impl Inspector {
    /// Returns what a copy of this database would not have. Errors, requests: as [`Inspector::pins`].
    pub(in crate::protocol) async fn left_behind(&self) -> Result<LeftBehind> {
        let mut left = LeftBehind::default();
        for pin in self.pins().await? {
            if pin.kind == HISTORY {
                left.history = true;
            }
            if pin.kind == SNAPSHOT {
                left.protected_snapshots.extend(pin.protected_until_s.map(|_| pin.name.clone()));
                left.snapshots.push(pin.name);
            }
        }
        Ok(left)
    }
}
