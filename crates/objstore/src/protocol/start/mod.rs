//! From the start of a process to an open database: check that bucket and local directory belong together,
//! look for a live owner, claim an epoch, and restore the directory when it is not the newest.

pub(in crate::protocol) mod age;
#[cfg(test)]
pub(in crate::protocol) mod age_test;
pub(in crate::protocol) mod alive;
pub(in crate::protocol) mod aside;
pub(in crate::protocol) mod claim;
pub(in crate::protocol) mod home;
pub(in crate::protocol) mod identity;
pub(in crate::protocol) mod lineage;
#[cfg(test)]
pub(in crate::protocol) mod lineage_test;
pub(in crate::protocol) mod local;
pub(in crate::protocol) mod local_wal;
#[cfg(test)]
pub(in crate::protocol) mod local_wal_test;
pub(in crate::protocol) mod open;
#[cfg(test)]
pub(in crate::protocol) mod open_test;
pub(in crate::protocol) mod opener;
pub(in crate::protocol) mod precheck;
pub(in crate::protocol) mod restore;
