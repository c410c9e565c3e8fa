//! The object layer of Atoll: everything that talks to the bucket.
//!
//! The modules, in the order in which data passes through them on its way to the bucket: [`files`] knows
//! which table file is which object and uploads it; [`cache`] keeps parts of objects on the local disk;
//! [`protocol`] publishes roots, ships WAL and restores; [`bucket`] sends the requests; [`client`] connects
//! to S3 or to a directory. [`error`] says what the caller does when any of it fails.
//!
//! No `unsafe` here: the C ABI is the crate `objstore-ffi`.

mod cache;
pub mod certify;
pub mod config;
pub mod crc;
pub mod date;
pub mod error;
pub mod files;
pub mod interrupt;
pub mod last_error;
pub mod log;
pub mod lost_objects;
mod machine;
pub mod protocol;
mod requests;
#[cfg(test)]
mod sim;
pub mod stats;
mod supervisor;

pub use config::{Durability, StoreConfig};
pub use error::{Code, Result, StoreError};
pub use interrupt::{Interrupt, Wish};
pub use log::{Level, LogFn};
pub use requests::bucket::{Bucket, SlotOutcome};
#[cfg(any(test, feature = "faults"))]
pub use requests::fault;
pub use requests::s3::credentials::Keys;
pub use requests::s3::object_lock::LockMode;
pub use requests::s3::region;
pub use requests::unfinished::UnfinishedUpload;
pub use requests::upload::stream::Pace;
pub use requests::upload::{PIECE_BYTES, UploadedFile};
pub use requests::{bucket, client, retry, unfinished};
pub use stats::Stats;
