//! Tests whether a bucket supports create-only PUTs, without which two servers could overwrite each other.

use crate::error::{Result, StoreError};
use crate::machine::fill_random;
use crate::requests::bucket::{Bucket, SlotOutcome};
use bytes::Bytes;

impl Bucket {
    /// Checks that the bucket supports create-only PUTs: a second PUT of `key` must not replace the first.
    ///
    /// `key` must be new. Errors: `ReadOnly` when the bucket overwrites the object, does not implement
    /// create-only PUTs, or does not list the object; those of the DELETE.
    pub async fn probe_conditional_put(&self, key: &str) -> Result<()> {
        self.probe_create_only(key).await?
    }

    /// As [`Bucket::probe_conditional_put`], but what became of the DELETE is the inner result: the key may lack
    /// this right. Then the object `key` stays.
    pub async fn probe_create_only(&self, key: &str) -> Result<Result<()>> {
        let mut first = [0u8; 16];
        let mut second = [0u8; 16];
        fill_random(&mut first)?;
        fill_random(&mut second)?;
        let refused = |what: &str| {
            StoreError::ReadOnly(format!(
                "{} {what}: without working create-only writes (If-None-Match: *) two servers could overwrite \
                 each other, so this server will not write there. Use a provider that supports them",
                self.place()
            ))
        };
        let mine = self.create_slot(key, Bytes::copy_from_slice(&first), &first).await?;
        let again = self.create_slot(key, Bytes::copy_from_slice(&second), &second).await;
        let listed = self.list(key.rsplit_once('/').map_or("", |(folder, _)| folder), None).await;
        let cleaned = self.delete(key).await;
        if mine != SlotOutcome::Mine {
            return Err(StoreError::Bug(format!("the probe {key} existed already")));
        }
        match again? {
            SlotOutcome::Lost(bytes) if bytes == first[..] => {}
            _ => return Err(refused("replaced an object that a create-only write must not replace")),
        }
        if !listed?.iter().any(|o| o.key == key) {
            return Err(refused("does not list an object that was just written"));
        }
        Ok(cleaned)
    }
}
