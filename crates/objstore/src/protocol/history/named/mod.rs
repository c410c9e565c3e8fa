//! What belongs to the names of snapshots: the records with the names, protections until a date, and locks of
//! the objects in the bucket.

pub(in crate::protocol) mod lock;
pub(in crate::protocol) mod protect;
#[cfg(test)]
pub(in crate::protocol) mod protect_test;
pub(in crate::protocol) mod snapshot_names;
#[cfg(test)]
pub(in crate::protocol) mod snapshot_names_test;
