//! The write-ahead log on its way to the bucket and back: it is cut, shipped, merged and replayed, and its
//! commits are read.

#[cfg(test)]
pub(in crate::protocol) mod bounded_test;
pub(in crate::protocol) mod lag;
pub(in crate::protocol) mod marks;
pub(in crate::protocol) mod merger;
pub(in crate::protocol) mod pace;
pub(in crate::protocol) mod position;
pub(in crate::protocol) mod replay;
#[cfg(test)]
pub(in crate::protocol) mod replay_test;
pub(in crate::protocol) mod shipper;
#[cfg(test)]
pub(in crate::protocol) mod short_wal_test;
pub(in crate::protocol) mod undecided;
pub(in crate::protocol) mod wal_record;
pub(in crate::protocol) mod wal_runs;
#[cfg(test)]
pub(in crate::protocol) mod wal_runs_test;
pub(in crate::protocol) mod wal_table;
#[cfg(test)]
pub(in crate::protocol) mod wal_table_test;
