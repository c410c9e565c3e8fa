//! States of a database that are not the newest: snapshots and moments of the history. A state can be cloned,
//! opened for reading (a mount), or made the present state again (a rewind).

pub(in crate::protocol) mod clone;
#[cfg(test)]
pub(in crate::protocol) mod clone_test;
pub(in crate::protocol) mod hand_over;
#[cfg(test)]
mod hand_over_test;
#[cfg(test)]
pub(in crate::protocol) mod history_test;
pub(in crate::protocol) mod log_copy;
#[cfg(test)]
mod log_copy_test;
pub(in crate::protocol) mod log_cut;
pub(in crate::protocol) mod mounts;
pub(in crate::protocol) mod named;
pub(in crate::protocol) mod own_snapshots;
pub(in crate::protocol) mod past;
pub(in crate::protocol) mod pin;
pub(in crate::protocol) mod replica;
pub(in crate::protocol) mod rewind;
#[cfg(test)]
pub(in crate::protocol) mod rewind_test;
pub(in crate::protocol) mod snapshot;
#[cfg(test)]
pub(in crate::protocol) mod snapshot_test;
pub(in crate::protocol) mod state_copy;
