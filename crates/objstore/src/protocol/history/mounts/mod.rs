//! States of a database that are held and read, beside its owner or by it.

pub(in crate::protocol) mod mount;
#[cfg(test)]
pub(in crate::protocol) mod mount_test;
pub(in crate::protocol) mod visitor;
#[cfg(test)]
pub(in crate::protocol) mod visitor_test;
