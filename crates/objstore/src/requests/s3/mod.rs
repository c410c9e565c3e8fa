//! What only S3 has: keys and signatures, regions, and requests that `object_store` does not make.

pub(crate) mod credentials;
pub(crate) mod crypto;
pub(crate) mod direct;
pub(crate) mod object_lock;
pub mod region;
pub(crate) mod s3_uploads;
