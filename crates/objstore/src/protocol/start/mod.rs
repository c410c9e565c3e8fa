//! From a process that starts to an open database: whose is the bucket, is somebody alive, which epoch, is the local
//! directory the newest, and what a restore builds.

pub(in crate::protocol) mod age;
#[cfg(test)]
pub(in crate::protocol) mod age_test;
pub(in crate::protocol) mod alive;
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
pub(in crate::protocol) mod restore;
