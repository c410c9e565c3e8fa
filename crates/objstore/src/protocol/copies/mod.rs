//! A database in a second place: a clone made independent, another bucket kept in step, and the proof of a restore.

pub(in crate::protocol) mod adopt;
pub(in crate::protocol) mod materialize;
#[cfg(test)]
pub(in crate::protocol) mod materialize_test;
pub(in crate::protocol) mod mirror;
#[cfg(test)]
pub(in crate::protocol) mod mirror_test;
pub(in crate::protocol) mod prove;
#[cfg(test)]
pub(in crate::protocol) mod prove_test;
