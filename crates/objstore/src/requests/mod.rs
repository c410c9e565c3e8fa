//! Requests to the bucket, an S3 service or a directory: how each request is sent, signed, limited in time,
//! repeated and counted.

pub mod bucket;
pub mod client;
pub(crate) mod failure;
#[cfg(any(test, feature = "faults"))]
pub mod fault;
pub(crate) mod http;
pub(crate) mod kept;
#[cfg(test)]
pub(crate) mod liar;
pub(crate) mod listing;
pub(crate) mod origin;
pub(crate) mod probe;
pub mod retry;
pub(crate) mod s3;
pub(crate) mod staged;
#[cfg(test)]
pub(crate) mod stuck;
pub mod unfinished;
pub(crate) mod upload;
pub(crate) mod wire;
