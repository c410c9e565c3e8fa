//! The object layer of Atoll: everything that talks to the bucket.
//!
//! In the order in which a byte travels: [`files`] knows which table file is which object and uploads it;
//! [`cache`] keeps parts of objects on the local disk; [`protocol`] publishes roots, ships WAL and restores;
//! [`bucket`] sends the requests; [`client`] connects to S3 or to a directory. [`error`] says what the caller
//! does when any of it fails.
//!
//! No `unsafe` here: the C ABI is the crate `objstore-ffi`.

pub mod bucket;
mod cache;
pub mod certify;
pub mod client;
pub mod config;
pub mod crc;
mod credentials;
mod crypto;
mod direct;
pub mod error;
mod failure;
#[cfg(any(test, feature = "faults"))]
pub mod fault;
pub mod files;
mod http;
pub mod interrupt;
#[cfg(test)]
mod liar;
mod listing;
pub mod log;
mod machine;
mod origin;
pub mod protocol;
pub mod region;
pub mod retry;
mod s3_uploads;
#[cfg(test)]
mod sim;
pub mod stats;
#[cfg(test)]
mod stuck;
mod supervisor;
pub mod unfinished;
mod upload;
mod wire;

pub use bucket::{Bucket, SlotOutcome};
pub use config::{Durability, StoreConfig};
pub use error::{Code, Result, StoreError};
pub use interrupt::Interrupt;
pub use log::{Level, LogFn};
pub use stats::Stats;
pub use unfinished::UnfinishedUpload;
pub use upload::{PIECE_BYTES, UploadedFile};
