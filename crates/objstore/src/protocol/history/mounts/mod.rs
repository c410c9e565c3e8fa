//! States of a database that are pinned and opened for reading, by its owner or by another program.

pub(in crate::protocol) mod mount;
#[cfg(test)]
pub(in crate::protocol) mod mount_test;
pub(in crate::protocol) mod visitor;
#[cfg(test)]
pub(in crate::protocol) mod visitor_test;
