//! Copies of a database: a clone is made independent of its parent, a copy in another bucket is kept up to
//! date, and a trial restore proves that the bucket is complete.

pub(in crate::protocol) mod adopt;
pub(in crate::protocol) mod left_behind;
pub(in crate::protocol) mod materialize;
#[cfg(test)]
pub(in crate::protocol) mod materialize_test;
pub(in crate::protocol) mod mirror;
#[cfg(test)]
pub(in crate::protocol) mod mirror_test;
pub(in crate::protocol) mod prove;
#[cfg(test)]
pub(in crate::protocol) mod prove_test;
pub(in crate::protocol) mod remove;
pub(in crate::protocol) mod reset;
