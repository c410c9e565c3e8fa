//! The code for S3 only: access keys and signatures, regions, and requests that the crate `object_store`
//! cannot make.

pub(crate) mod credentials;
pub(crate) mod crypto;
pub(crate) mod direct;
pub(crate) mod object_lock;
pub mod region;
pub(crate) mod s3_uploads;
pub(crate) mod strict;
