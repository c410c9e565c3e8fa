//! The object lock of S3: the store refuses to delete a locked version of an object until a date, whoever
//! asks.
//!
//! A bucket with object lock keeps the old versions of deleted and overwritten objects. A delete marker or a
//! newer version can still hide a locked version. Deleting the marker or the newer version makes it visible
//! again.

use crate::date::{parse, utc_seconds};
use crate::error::{Result, StoreError};
use crate::requests::bucket::{Attempt, Bucket};
use crate::requests::failure::{Failure, LOCKING};
use crate::requests::s3::crypto::sha256;
use crate::requests::s3::direct::{Answer, Direct, unclear};
use crate::requests::s3::s3_uploads::text_of;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};

/// The modes of an object lock. They differ in which account can end the lock before its date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockMode {
    /// An account with the right `s3:BypassGovernanceRetention` can end the lock early.
    Governance,
    /// No account can end the lock early, not even the bucket owner's.
    Compliance,
}

impl LockMode {
    fn word(self) -> &'static str {
        match self {
            Self::Governance => "GOVERNANCE",
            Self::Compliance => "COMPLIANCE",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        [Self::Governance, Self::Compliance].into_iter().find(|mode| mode.word() == word)
    }
}

impl Bucket {
    /// Whether object lock is enabled for the bucket; false for a store that has no object lock. Errors:
    /// those of a request. Requests: one GET.
    pub async fn has_object_lock(&self) -> Result<bool> {
        let Some(direct) = &self.parts.direct else { return Ok(false) };
        self.repeat(LOCKING, "snapshots", &self.parts.stats.requests_get, 0, || async {
            let answer = direct.send(Method::GET, "", "object-lock=", HeaderMap::new(), Bytes::new()).await?;
            if answer.status.is_success() {
                return Ok(text_of(&answer.text, "ObjectLockEnabled").as_deref() == Some("Enabled"));
            }
            match text_of(&answer.text, "Code").as_deref() {
                Some("ObjectLockConfigurationNotFoundError" | "NotImplemented" | "MethodNotAllowed") => {
                    Ok(false)
                }
                _ => Err(answer.refusal()),
            }
        })
        .await
    }

    /// Locks the object `key` of this database, or of a parent in the same bucket, until `until_s`, in
    /// seconds since 1970. An existing lock that is at least as strong is not changed. An existing lock of
    /// mode Compliance keeps its mode and gets the later date.
    ///
    /// Errors: `Invalid` for a bucket that is a directory; `NotFound`; `Refused`. Requests: a PUT. When it is
    /// refused, a GET of the existing lock and perhaps another PUT.
    pub async fn lock_object(&self, key: &str, mode: LockMode, until_s: u64) -> Result<()> {
        let Some(direct) = &self.parts.direct else {
            return Err(StoreError::Invalid(format!("{} has no object lock", self.place())));
        };
        let (_, path) = self.source(key)?;
        self.repeat(LOCKING, key, &self.parts.stats.requests_put, 0, || async {
            let answer = put_retention(direct, path.as_ref(), mode, until_s).await?;
            match answer.status {
                status if status.is_success() => return Ok(()),
                StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => {
                    return Err(absent(path.as_ref(), &answer));
                }
                StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => return Err(answer.refusal()),
                _ => {}
            }
            match retention_of(direct, path.as_ref()).await? {
                Some((has, until)) if has >= mode && until >= until_s => Ok(()),
                Some((LockMode::Compliance, _)) if mode < LockMode::Compliance => {
                    let longer = put_retention(direct, path.as_ref(), LockMode::Compliance, until_s).await?;
                    if longer.status.is_success() { Ok(()) } else { Err(longer.refusal()) }
                }
                _ => Err(answer.refusal()),
            }
        })
        .await
    }
}

async fn put_retention(direct: &Direct, path: &str, mode: LockMode, until_s: u64) -> Attempt<Answer> {
    let body = Bytes::from(retention(mode, until_s));
    direct.send(Method::PUT, path, "retention=", checksum_header(&body)?, body).await
}

/// The mode of an object's lock, and its end in seconds since 1970. None if the object has no lock or the
/// store refuses to show it.
async fn retention_of(direct: &Direct, path: &str) -> Attempt<Option<(LockMode, u64)>> {
    let answer = direct.send(Method::GET, path, "retention=", HeaderMap::new(), Bytes::new()).await?;
    Ok(if answer.status.is_success() { parse_retention(&answer.text) } else { None })
}

fn parse_retention(text: &str) -> Option<(LockMode, u64)> {
    let mode = LockMode::parse(&text_of(text, "Mode")?)?;
    Some((mode, parse(&text_of(text, "RetainUntilDate")?).ok()? / 1_000_000))
}

fn retention(mode: LockMode, until_s: u64) -> String {
    let until = utc_seconds(until_s).replace(' ', "T");
    format!(
        "<Retention xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Mode>{}</Mode><RetainUntilDate>{until}Z</RetainUntilDate>\
         </Retention>",
        mode.word()
    )
}

/// S3 accepts a request that sets a lock only with a checksum of its body.
fn checksum_header(body: &[u8]) -> Attempt<HeaderMap> {
    let value = HeaderValue::from_str(&BASE64_STANDARD.encode(sha256(body)))
        .map_err(|error| unclear(format!("a checksum as a header: {error}")))?;
    Ok(HeaderMap::from_iter([(HeaderName::from_static("x-amz-checksum-sha256"), value)]))
}

fn absent(path: &str, answer: &Answer) -> Failure {
    let source = answer.text.clone().into();
    Failure::new(&object_store::Error::NotFound { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_is_written_as_s3_reads_it() {
        let body = retention(LockMode::Compliance, 1_800_000_000);
        assert_eq!(text_of(&body, "Mode").unwrap(), "COMPLIANCE");
        assert_eq!(text_of(&body, "RetainUntilDate").unwrap(), "2027-01-15T08:00:00Z");
    }

    #[test]
    fn what_was_set_is_read_back() {
        for mode in [LockMode::Governance, LockMode::Compliance] {
            assert_eq!(parse_retention(&retention(mode, 1000)), Some((mode, 1000)));
        }
        assert!(LockMode::Compliance > LockMode::Governance);
        assert_eq!(parse_retention("<Error/>"), None);
        let other = retention(LockMode::Governance, 1000).replace("GOVERNANCE", "OTHER");
        assert_eq!(parse_retention(&other), None);
    }
}
