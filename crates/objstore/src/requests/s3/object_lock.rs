//! The object lock of S3: a version of an object that the store deletes for nobody until a date.
//!
//! Only a bucket that was made with it has it, and such a bucket keeps the old versions of what is deleted. A locked object can
//! still be hidden by a delete marker; who takes the marker away has the object back.

use crate::date::{parse, utc};
use crate::error::{Result, StoreError};
use crate::requests::bucket::{Attempt, Bucket};
use crate::requests::s3::crypto::sha256;
use crate::requests::s3::direct::{Answer, Direct, unclear};
use crate::requests::s3::s3_uploads::text_of;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};
use std::sync::Arc;

/// Who may end a lock before its date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockMode {
    /// An account with the right `s3:BypassGovernanceRetention`.
    Governance,
    /// Nobody, the owner of the account included.
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
    /// Whether the bucket was made with object lock. Errors: those of a request. Requests: one GET.
    pub async fn has_object_lock(&self) -> Result<bool> {
        let Some(direct) = &self.parts.direct else { return Ok(false) };
        self.repeat("asking for the object lock", "", &self.parts.stats.requests_get, 0, || async {
            let answer = direct.send(Method::GET, "", "object-lock=", HeaderMap::new(), Bytes::new()).await?;
            match answer.status {
                status if status.is_success() => {
                    Ok(text_of(&answer.text, "ObjectLockEnabled").as_deref() == Some("Enabled"))
                }
                // Also of a server that does not know the question.
                StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST | StatusCode::NOT_IMPLEMENTED => Ok(false),
                _ => Err(refusal(&answer)),
            }
        })
        .await
    }

    /// Locks the object `key`, which may belong to a parent in the same bucket, until `until_s`, in seconds since 1970. A lock that
    /// it has, and that is as strong, stays.
    ///
    /// Errors: `Invalid` for a bucket that is a directory; `NotFound`; `Refused`. Requests: a PUT; a GET when that is refused.
    pub async fn lock_object(&self, key: &str, mode: LockMode, until_s: u64) -> Result<()> {
        let Some(direct) = &self.parts.direct else {
            return Err(StoreError::Invalid(format!("{} has no object lock", self.place())));
        };
        let (_, path) = self.source(key)?;
        let body = Bytes::from(retention(mode, until_s));
        let headers = checksum_header(&body)?;
        self.repeat("locking", key, &self.parts.stats.requests_put, 0, || async {
            let request = (Method::PUT, headers.clone(), body.clone());
            let answer = direct.send(request.0, path.as_ref(), "retention=", request.1, request.2).await?;
            match answer.status {
                status if status.is_success() => Ok(()),
                // Which status an object with a stronger lock gives depends on the store.
                status
                    if status.is_client_error()
                        && is_locked(direct, path.as_ref(), mode, until_s).await? =>
                {
                    Ok(())
                }
                _ => Err(refusal(&answer)),
            }
        })
        .await
    }
}

/// Whether an object is locked at least so.
async fn is_locked(direct: &Arc<Direct>, path: &str, mode: LockMode, until_s: u64) -> Attempt<bool> {
    let answer = direct.send(Method::GET, path, "retention=", HeaderMap::new(), Bytes::new()).await?;
    Ok(answer.status.is_success() && is_as_strong(&answer.text, mode, until_s))
}

fn is_as_strong(retention: &str, mode: LockMode, until_s: u64) -> bool {
    let has = text_of(retention, "Mode").and_then(|word| LockMode::parse(&word));
    let until_us = text_of(retention, "RetainUntilDate").and_then(|date| parse(&date).ok());
    has.is_some_and(|has| has >= mode) && until_us.is_some_and(|until_us| until_us / 1_000_000 >= until_s)
}

fn retention(mode: LockMode, until_s: u64) -> String {
    let until = utc(until_s.saturating_mul(1_000_000));
    let until = until.split('.').next().unwrap_or_default().replace(' ', "T");
    format!(
        "<Retention xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Mode>{}</Mode><RetainUntilDate>{until}Z</RetainUntilDate>\
         </Retention>",
        mode.word()
    )
}

/// S3 takes such a request with a checksum only.
fn checksum_header(body: &[u8]) -> Result<HeaderMap> {
    let value = HeaderValue::from_str(&BASE64_STANDARD.encode(sha256(body)))
        .map_err(|error| StoreError::Bug(format!("a checksum as a header: {error}")))?;
    Ok(HeaderMap::from_iter([(HeaderName::from_static("x-amz-checksum-sha256"), value)]))
}

fn refusal(answer: &Answer) -> crate::requests::failure::Failure {
    unclear(format!("status code: {}: {}", answer.status, answer.text))
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
    fn a_weaker_or_shorter_lock_does_not_do() {
        let now = retention(LockMode::Governance, 1000);
        assert!(is_as_strong(&now, LockMode::Governance, 1000));
        assert!(!is_as_strong(&now, LockMode::Governance, 1001));
        assert!(!is_as_strong(&now, LockMode::Compliance, 1000));
        assert!(is_as_strong(&retention(LockMode::Compliance, 1001), LockMode::Governance, 1000));
        assert!(!is_as_strong("<Error/>", LockMode::Governance, 1000));
    }
}
