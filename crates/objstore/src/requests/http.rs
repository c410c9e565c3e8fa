//! The HTTP client below `object_store`: hyper with a keep-alive pool, and rustls for https.
//!
//! Why not `object_store`'s own client, reqwest: its TLS needs crates whose licences do not combine with the
//! plugin's, GPL-2.0-only. Some are under Apache-2.0 alone (openssl, sync_wrapper), others not combinable at
//! all (aws-lc, ring). All crates used here are under MIT, ISC or BSD terms (or a choice of them).
//! Certificates are checked against the authorities of the system, or those that SSL_CERT_FILE and
//! SSL_CERT_DIR name instead, and against those of `atoll_s3_ca_file`. Redirects are not followed: they mean
//! a wrong region, which failure.rs reports. There is no proxy support. The answers to listings are checked
//! here (s3/strict.rs).

use crate::error::{Result, StoreError};
use crate::requests::s3::strict;
use async_trait::async_trait;
use http_body_util::{BodyExt, Full};
use hyper::Response;
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::{Connect, HttpConnector as TcpConnector};
use hyper_util::client::legacy::{Client, Error as ClientError};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse,
    HttpResponseBody, HttpService,
};
use std::error::Error as StdError;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Idle connections kept per host: uploads (4 files x 2 pieces), 16 reads, 6 prefetches, WAL and roots.
const IDLE_CONNECTIONS_MAX: usize = 32;
/// The most bytes that one connection reads at once. Hyper's default is 400 KiB, and the buffers of several
/// connections then do not fit into a core's cache. With this smaller size a cold query spends 3 % less CPU
/// on 100 MB.
const READ_BYTES_MAX: usize = 128 << 10;
/// How long an idle connection is kept. Shorter than the idle limits of common S3 servers and load balancers
/// (60 s and more), so that they do not close it while a request is sent.
const IDLE_MAX: Duration = Duration::from_secs(30);
/// How many characters of an answer that is no listing an error shows.
const SHOWN_MAX: usize = 300;

/// Makes the clients that `object_store` asks for: one for the bucket, others for credentials.
#[derive(Clone)]
pub(crate) struct Transport {
    connect_timeout: Duration,
    tls: Option<rustls::ClientConfig>,
    line: Line,
}

/// Whether a connection damages uploads. `connect_damaging` chooses `Damaging`, to test whether the store
/// notices the damage. All other connections are `Clean`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line {
    /// Uploads arrive as they were sent.
    Clean,
    /// The connection changes one bit of each upload after the upload was signed.
    Damaging,
}

impl Transport {
    /// A transport for plain HTTP only.
    pub(crate) fn plain(connect_timeout: Duration) -> Self {
        Self { connect_timeout, tls: None, line: Line::Clean }
    }

    /// A transport that also speaks TLS. It trusts the system's authorities and those in the PEM file
    /// `ca_file` ("": no file).
    ///
    /// Errors: `Invalid` when this CPU is too old for the TLS library, or `ca_file` has no certificates.
    pub(crate) fn with_tls(connect_timeout: Duration, ca_file: &str) -> Result<Self> {
        if let Some(missing) = missing_cpu_feature() {
            return Err(StoreError::Invalid(format!(
                "https needs a CPU with {missing}, which this one lacks: use an http:// endpoint on this machine, \
                 for example a TLS proxy"
            )));
        }
        let mut roots = rustls::RootCertStore::empty();
        for certificate in rustls_native_certs::load_native_certs().certs {
            let _ = roots.add(certificate); // An unreadable one is left out.
        }
        for certificate in certificates_of(ca_file)? {
            roots.add(certificate).map_err(|e| {
                StoreError::Invalid(format!(
                    "a certificate in atoll_s3_ca_file {ca_file} cannot be used: {e}"
                ))
            })?;
        }
        let provider = Arc::new(rustls_graviola::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| StoreError::Bug(format!("setting up TLS: {e}")))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { connect_timeout, tls: Some(tls), line: Line::Clean })
    }

    /// The same transport, whose connections treat uploads as `line` says.
    pub(crate) fn over(self, line: Line) -> Self {
        Self { line, ..self }
    }
}

/// The certificates in the PEM file `ca_file`; an empty list for "".
fn certificates_of(ca_file: &str) -> Result<Vec<rustls::pki_types::CertificateDer<'static>>> {
    if ca_file.is_empty() {
        return Ok(Vec::new());
    }
    let read = rustls_native_certs::load_certs_from_paths(Some(Path::new(ca_file)), None);
    match (read.errors.first(), read.certs.is_empty()) {
        (Some(error), _) => Err(StoreError::Invalid(format!(
            "reading the certificates of atoll_s3_ca_file {ca_file}: {error}"
        ))),
        (None, true) => Err(StoreError::Invalid(format!(
            "atoll_s3_ca_file {ca_file} holds no certificate: it must be a PEM file of certificate authorities"
        ))),
        (None, false) => Ok(read.certs),
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.tls.is_some() { "Transport(http, https)" } else { "Transport(http)" })
    }
}

impl HttpConnector for Transport {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        let mut tcp = TcpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(self.connect_timeout));
        tcp.set_keepalive(Some(Duration::from_secs(30)));
        Ok(match &self.tls {
            None => HttpClient::new(Pool::new(tcp, self.line)),
            Some(tls) => {
                let https: HttpsConnector<TcpConnector> = HttpsConnectorBuilder::new()
                    .with_tls_config(tls.clone())
                    .https_or_http()
                    .enable_http1()
                    .wrap_connector(tcp);
                HttpClient::new(Pool::new(https, self.line))
            }
        })
    }
}

/// A pool of keep-alive connections.
struct Pool<C> {
    client: Client<C, HttpRequestBody>,
    line: Line,
}

impl<C: Connect + Clone> Pool<C> {
    fn new(connector: C, line: Line) -> Self {
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_MAX)
            .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
            .http1_max_buf_size(READ_BYTES_MAX)
            .build(connector);
        Self { client, line }
    }
}

impl<C> fmt::Debug for Pool<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pool")
    }
}

#[async_trait]
impl<C: Connect + Clone + Send + Sync + 'static> HttpService for Pool<C> {
    async fn call(&self, request: HttpRequest) -> std::result::Result<HttpResponse, HttpError> {
        let request = match self.line {
            Line::Clean => request,
            Line::Damaging => damage(request).await?,
        };
        let listing = request.uri().query().filter(|query| strict::is_listing(query)).map(str::to_owned);
        let response = self.client.request(request).await.map_err(request_error)?;
        match listing {
            Some(query) if response.status().is_success() => checked_listing(&query, response).await,
            _ => Ok(response.map(|body: Incoming| HttpResponseBody::new(body.map_err(body_error)))),
        }
    }
}

/// Reads the whole answer to a request for a listing, and checks it (rule BUCKET-5).
async fn checked_listing(
    query: &str,
    response: Response<Incoming>,
) -> std::result::Result<HttpResponse, HttpError> {
    let (head, body) = response.into_parts();
    let bytes = body.collect().await.map_err(body_error)?.to_bytes();
    strict::check(query, &bytes).map_err(|why| {
        let begin: String = String::from_utf8_lossy(&bytes).chars().take(SHOWN_MAX).collect();
        let text = format!("the answer to a listing is no such listing: {why}. It begins with: {begin}");
        HttpError::new(HttpErrorKind::Decode, Told(text))
    })?;
    let body = HttpResponseBody::new(Full::new(bytes).map_err(|never| match never {}));
    Ok(HttpResponse::from_parts(head, body))
}

/// Flips the lowest bit of the last byte of a request's body, after the request was signed.
async fn damage(request: HttpRequest) -> std::result::Result<HttpRequest, HttpError> {
    let (head, body) = request.into_parts();
    let mut bytes = body.collect().await?.to_bytes().to_vec();
    if let Some(last) = bytes.last_mut() {
        *last ^= 1;
    }
    Ok(HttpRequest::from_parts(head, HttpRequestBody::from(bytes)))
}

/// Converts an error that occurred before the headers of the reply had come.
fn request_error(error: ClientError) -> HttpError {
    let kind = if error.is_connect() { HttpErrorKind::Connect } else { HttpErrorKind::Request };
    HttpError::new(kind, Told(chain(&error)))
}

/// Converts an error that occurred while the body of the reply was read.
fn body_error(error: hyper::Error) -> HttpError {
    HttpError::new(HttpErrorKind::Interrupted, Told(chain(&error)))
}

/// The text of an error with all its causes: hyper itself only says "client error (Connect)".
fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text.push_str(": ");
        text.push_str(&next.to_string());
        cause = next.source();
    }
    text
}

/// An error that consists of a text only.
#[derive(Debug)]
struct Told(String);

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StdError for Told {}

/// The first CPU feature that the TLS library needs and this CPU lacks. None if this CPU has all.
///
/// Source: README of graviola 0.4.
fn missing_cpu_feature() -> Option<&'static str> {
    #[cfg(target_arch = "x86_64")]
    let features = [
        ("AES", is_x86_feature_detected!("aes")),
        ("SSSE3", is_x86_feature_detected!("ssse3")),
        ("AVX2", is_x86_feature_detected!("avx2")),
        ("ADX", is_x86_feature_detected!("adx")),
        ("BMI2", is_x86_feature_detected!("bmi2")),
        ("PCLMULQDQ", is_x86_feature_detected!("pclmulqdq")),
    ];
    #[cfg(target_arch = "aarch64")]
    let features = [
        ("AES", std::arch::is_aarch64_feature_detected!("aes")),
        ("SHA2", std::arch::is_aarch64_feature_detected!("sha2")),
        ("PMULL", std::arch::is_aarch64_feature_detected!("pmull")),
    ];
    features.into_iter().find(|(_, is_there)| !is_there).map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use crate::config::StoreConfig;
    use crate::error::StoreError;
    use crate::requests::client::connect;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::Arc;

    /// A server that answers every request with `body` and status 200. Returns its port.
    fn serve(body: String) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut request = [0; 4096];
                let _ = stream.read(&mut request);
                let length = body.len();
                let head =
                    format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
                let _ = stream.write_all(format!("{head}{body}").as_bytes());
            }
        });
        port
    }

    async fn list(body: &str) -> crate::error::Result<usize> {
        let config = StoreConfig {
            url: "s3://some-bucket/some/prefix".to_owned(),
            endpoint: format!("127.0.0.1:{}", serve(body.to_owned())),
            access_key: "k".to_owned(),
            secret_key: "s".to_owned(),
            region: "r".to_owned(),
            ..StoreConfig::default()
        };
        let bucket = connect(&config, Arc::default()).unwrap();
        bucket.list("pin/", None).await.map(|objects| objects.len())
    }

    /// Rule BUCKET-5.
    #[tokio::test]
    async fn an_error_with_status_200_is_no_empty_listing() {
        let listing = "<ListBucketResult><Name>b</Name><Prefix>some/prefix/pin/</Prefix><KeyCount>0</KeyCount>\
            <IsTruncated>false</IsTruncated></ListBucketResult>";
        assert_eq!(list(listing).await.unwrap(), 0);
        for wrong in ["<Error><Code>InternalError</Code></Error>", "<html><body>Welcome</body></html>"] {
            let error = list(wrong).await.unwrap_err();
            assert!(matches!(&error, StoreError::Unavailable(_)), "{error:?}");
            assert!(error.to_string().contains("root element"), "{error}");
        }
    }
}
