//! Finds out in which region a bucket is when the configuration does not name the region. S3 servers send it
//! in a header of every answer about a bucket, even when they refuse the request.

use crate::config::{Location, StoreConfig, endpoint_url};
use crate::requests::http::Transport;
use crate::requests::wire::Addressing;
use hyper::Method;
use object_store::ClientOptions;
use object_store::client::{HttpConnector, HttpRequest, HttpRequestBody};
use std::time::Duration;

/// The region that is assumed when none is known.
pub(crate) const DEFAULT_REGION: &str = "us-east-1";
/// The header of the answer that names the region.
const REGION_HEADER: &str = "x-amz-bucket-region";
/// The longest wait for the answer. If none comes, the default region is used, and the next request reports
/// what is wrong.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// Returns `config` with the region of its bucket. It is unchanged when it names a region already, when it is
/// no S3 bucket, or when the server does not send the region. In the last case `us-east-1` is used; if that
/// is wrong, the first request fails with an error that says so.
///
/// Requests: one HEAD without a signature when the region is not given.
pub async fn with_region(config: &StoreConfig) -> StoreConfig {
    let mut config = config.clone();
    if config.region.is_empty()
        && let Ok(Location::S3 { bucket, .. }) = Location::parse(&config.url)
        && let Ok(Some(region)) = tokio::time::timeout(WAIT_MAX, ask(&config, &bucket)).await
    {
        config.region = region;
    }
    config
}

/// As [`with_region`], for a caller outside of any tokio runtime.
pub(crate) fn with_region_blocking(config: &StoreConfig) -> StoreConfig {
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(with_region(config)),
        Err(_) => config.clone(), // Opening the store will fail and report this.
    }
}

/// The region that the server sends. None when it sends none or cannot be reached.
async fn ask(config: &StoreConfig, bucket: &str) -> Option<String> {
    let endpoint = endpoint_url(&config.endpoint).ok()?;
    let style = Addressing::parse(&config.addressing).ok()?;
    let url = style.bucket_url(endpoint.as_deref(), DEFAULT_REGION, bucket).ok()?;
    let transport = match url.starts_with("http://") {
        true => Transport::plain(WAIT_MAX),
        false => Transport::with_tls(WAIT_MAX, &config.ca_file).ok()?,
    };
    let client = transport.connect(&ClientOptions::new()).ok()?;
    let mut request = HttpRequest::new(HttpRequestBody::empty());
    *request.method_mut() = Method::HEAD;
    *request.uri_mut() = url.parse().ok()?;
    let answer = client.execute(request).await.ok()?;
    let told = answer.headers().get(REGION_HEADER)?.to_str().ok()?;
    let is_name = !told.is_empty() && told.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    is_name.then(|| told.to_owned())
}
