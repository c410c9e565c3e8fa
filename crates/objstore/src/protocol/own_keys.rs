//! Changes the access keys of the bucket for an open database, without a restart.

use super::store::Store;
use crate::error::{Result, StoreError};
use crate::machine::fill_random;
use crate::protocol::format::names;
use crate::protocol::start::identity;
use crate::requests::bucket::Bucket;
use crate::requests::client;
use crate::requests::s3::credentials::{GivenKeys, Keys};
use std::sync::Arc;

impl Store {
    /// Checks that the database can be read and written with `keys`. It opens a separate connection for this,
    /// so the open database still uses its present keys.
    ///
    /// Errors: `Invalid` when the configuration gave no keys at the start, or when the bucket shows no
    /// database or another one with `keys`; `Refused` and others as the bucket answers; `Interrupted`.
    /// Requests: a GET of the database's identity, and those that write and delete a test object; six in all.
    pub fn try_keys(&self, keys: Keys) -> Result<()> {
        let shared = &self.shared;
        let connection = self.given_keys()?.connection_with(keys);
        // An error of these requests is no error of the open database, so they have counters of their own.
        let bucket = client::connect(&connection, Arc::default())?;
        shared.files.block_on(try_bucket(bucket, shared.db_uuid.clone()))?
    }

    /// Signs all requests from now on with `keys`, which the caller has checked with [`Store::try_keys`].
    /// This includes retries of requests that the bucket refused with the former keys. Sends no request
    /// itself. Errors: `Invalid` as for `try_keys`.
    pub fn set_keys(&self, keys: Keys) -> Result<()> {
        self.given_keys().map(|given| given.replace(keys))
    }

    fn given_keys(&self) -> Result<&GivenKeys> {
        self.shared.bucket.parts.keys.as_deref().ok_or_else(|| {
            StoreError::Invalid(format!(
                "the server was started without atoll_s3_access_key and atoll_s3_secret_key, so the keys of {} come from the \
                 environment, the profile file or the role, or none are needed. Change them there (a profile file is read \
                 again when it changes), or set both variables in the configuration and restart",
                self.shared.bucket.place()
            ))
        })
    }
}

async fn try_bucket(bucket: Bucket, db_uuid: String) -> Result<()> {
    match identity::read(&bucket).await? {
        Some(found) if found.db_uuid == db_uuid => {}
        _ => {
            return Err(StoreError::Invalid(format!(
                "these keys do not give access to this database in {}",
                bucket.place()
            )));
        }
    }
    let mut random = [0; 8];
    fill_random(&mut random)?;
    bucket.probe_conditional_put(&names::probe(u64::from_le_bytes(random))).await
}
