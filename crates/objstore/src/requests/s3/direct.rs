//! S3 requests that the crate `object_store` cannot make: the listing of unfinished multipart uploads, the
//! create-only completion of a multipart upload, and the requests of object lock. They are signed as those of
//! `object_store` are.

use crate::requests::bucket::Attempt;
use crate::requests::failure::Failure;
use crate::requests::s3::crypto::RustCrypto;
use bytes::Bytes;
use hyper::header::HeaderMap;
use hyper::{Method, StatusCode};
use object_store::aws::{AwsAuthorizer, AwsCredentialProvider};
use object_store::client::{HttpClient, HttpRequest, HttpRequestBody};
use std::fmt;

/// An answer of any HTTP status. `text` is its body.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) text: String,
}

impl Answer {
    /// Makes the failure of an attempt from this answer, which refuses the request.
    pub(crate) fn refusal(&self) -> Failure {
        unclear(format!("status code: {}: {}", self.status, self.text))
    }
}

/// Sends signed requests to one bucket.
pub(crate) struct Direct {
    client: HttpClient,
    credentials: AwsCredentialProvider,
    region: String,
    /// The URL with the bucket in its host or path, without a slash at the end.
    bucket_url: String,
}

impl fmt::Debug for Direct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Direct({})", self.bucket_url)
    }
}

impl Direct {
    pub(crate) fn new(
        client: HttpClient,
        credentials: AwsCredentialProvider,
        region: &str,
        bucket_url: String,
    ) -> Self {
        Self { client, credentials, region: region.to_owned(), bucket_url }
    }

    /// Sends one request. `path` is the full name of an object in the bucket, "" for the bucket itself.
    /// `query` is `name=value&name=`, percent-encoded.
    ///
    /// Errors: no answer came, or the answer asks to come back later. The caller interprets every other
    /// answer, refusals included.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        query: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Attempt<Answer> {
        // S3 signs URLs in a canonical form, which encodes '='. No other character of our object names needs
        // encoding.
        let url = format!("{}/{}?{query}", self.bucket_url, path.replace('=', "%3D"));
        let mut request = HttpRequest::new(HttpRequestBody::from(body));
        *request.method_mut() = method;
        *request.uri_mut() = url.parse().map_err(|e| unclear(format!("the URL {url}: {e}")))?;
        *request.headers_mut() = headers;
        let credential = self.credentials.get_credential().await.map_err(|e| Failure::new(&e))?;
        AwsAuthorizer::new(&credential, "s3", &self.region)
            .with_crypto(&RustCrypto)
            .try_authorize(&mut request, None)
            .map_err(|e| Failure::new(&e))?;
        let answer = self.client.execute(request).await.map_err(|e| unclear(e.to_string()))?;
        let status = answer.status();
        let body = answer.into_body().bytes().await.map_err(|e| unclear(e.to_string()))?;
        let text = String::from_utf8_lossy(&body).into_owned();
        if status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED {
            return Err(unclear(format!("Server returned non-2xx status code: {status}: {text}")));
        }
        Ok(Answer { status, text })
    }
}

/// Makes a failure whose text has the form of an `object_store` error, because failure.rs parses that form.
pub(crate) fn unclear(words: String) -> Failure {
    Failure::new(&object_store::Error::Generic { store: "S3", source: words.into() })
}
