//! Mounts: states of a database that are pinned and opened for reading, by the owner (mount.rs) or by another
//! program (visitor.rs), or by another server that follows the owner (reader.rs).

pub(in crate::protocol) mod mount;
#[cfg(test)]
pub(in crate::protocol) mod mount_test;
pub(in crate::protocol) mod reader;
#[cfg(test)]
pub(in crate::protocol) mod reader_test;
pub(in crate::protocol) mod tip;
pub(in crate::protocol) mod visitor;
#[cfg(test)]
pub(in crate::protocol) mod visitor_test;
