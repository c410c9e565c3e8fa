//! The configuration of one store, as the C ABI and the command line give it, and the spellings it accepts.
//!
//! Nothing here uses the network or the disk. The defaults are meant for tests, because the server passes all
//! fields.

use crate::error::{Result, StoreError};
use crate::interrupt::Interrupt;
use crate::protocol::HistoryLimits;
use crate::requests::s3::credentials::Keys;
use std::path::PathBuf;
use std::time::Duration;

/// Where a transaction is durable when COMMIT returns. The numbers are `ATOLL_DURABILITY_*` of objstore.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Durability {
    /// The commit is in the local WAL.
    Local = 0,
    /// The commit is in the local WAL, and the shipper uploads it afterwards. Commits wait while the lag
    /// exceeds its limit.
    #[default]
    Async = 1,
    /// The commit is in the bucket.
    Sync = 2,
}

impl Durability {
    /// Reads the number that the C ABI passes; an unknown number is a configuration error.
    pub fn from_number(number: u8) -> Result<Self> {
        match number {
            0 => Ok(Self::Local),
            1 => Ok(Self::Async),
            2 => Ok(Self::Sync),
            other => {
                Err(StoreError::Invalid(format!("atoll_durability has no value {other}: use 0, 1 or 2")))
            }
        }
    }
}

/// The default bound for the bytes of table files that wait for their upload. 1 GiB is 16 files of 64 MiB, or
/// about 10 s of a 1 Gbit/s line. With a larger bound, a local disk could fill before RocksDB's own write
/// stalls slow the writers down.
pub const BACKLOG_BYTES_MAX: u64 = 1 << 30;

/// Everything that opening a store needs.
#[derive(Clone)]
#[allow(missing_docs)] // The fields are those of atoll_store_config in objstore.h.
pub struct StoreConfig {
    pub url: String,
    pub endpoint: String,
    pub region: String,
    pub access_key: String,
    pub secret_key: String,
    pub session_token: String,
    pub ca_file: String,
    pub addressing: String,
    pub sse: String,
    pub sse_kms_key_id: String,
    pub local_dir: PathBuf,
    pub cache_dir: PathBuf,
    pub server_id: String,
    pub cache_bytes: u64,
    pub backlog_bytes_max: u64,
    pub lag_bytes_max: u64,
    pub lag_max: Duration,
    pub request_timeout: Duration,
    pub durability: Durability,
    pub take_over: bool,
    pub history: HistoryLimits,
    pub interrupt: Interrupt,
}

impl StoreConfig {
    /// The access keys in the configuration. They are empty when the keys come from elsewhere, for example
    /// from the environment.
    pub(crate) fn keys(&self) -> Keys {
        Keys {
            access_key: self.access_key.clone(),
            secret_key: self.secret_key.clone(),
            session_token: self.session_token.clone(),
        }
    }

    /// Returns a copy of this configuration in which `keys` replace the access keys.
    pub(crate) fn with_keys(&self, keys: Keys) -> Self {
        let Keys { access_key, secret_key, session_token } = keys;
        Self { access_key, secret_key, session_token, ..self.clone() }
    }
}

impl std::fmt::Debug for StoreConfig {
    /// Shows where the store is and which server uses it, without the secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreConfig")
            .field("url", &self.url)
            .field("endpoint", &self.endpoint)
            .field("region", &self.region)
            .field("local_dir", &self.local_dir)
            .field("server_id", &self.server_id)
            .field("durability", &self.durability)
            .finish_non_exhaustive()
    }
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            url: String::new(),
            endpoint: String::new(),
            region: String::new(),
            access_key: String::new(),
            secret_key: String::new(),
            session_token: String::new(),
            ca_file: String::new(),
            addressing: String::new(),
            sse: String::new(),
            sse_kms_key_id: String::new(),
            local_dir: PathBuf::new(),
            cache_dir: PathBuf::new(),
            server_id: String::from("unknown"),
            cache_bytes: 1 << 30,
            backlog_bytes_max: BACKLOG_BYTES_MAX,
            lag_bytes_max: 64 << 20,
            lag_max: Duration::from_secs(1),
            request_timeout: Duration::from_secs(30),
            durability: Durability::default(),
            take_over: false,
            history: HistoryLimits::default(),
            interrupt: Interrupt::default(),
        }
    }
}

/// Where the bucket is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// A directory of this machine.
    Directory(PathBuf),
    /// An S3-compatible bucket and the prefix of this database in it ("" = the whole bucket).
    S3 {
        /// The bucket's name.
        bucket: String,
        /// The prefix, without slashes at its ends.
        prefix: String,
    },
}

impl Location {
    /// Reads `file:///absolute/path` or `s3://bucket/prefix`.
    ///
    /// Errors: `Invalid`, with a message that shows the right spelling.
    pub fn parse(url: &str) -> Result<Self> {
        if let Some(path) = url.strip_prefix("file://") {
            if !path.starts_with('/') || path.trim_end_matches('/').is_empty() {
                return Err(StoreError::Invalid(format!(
                    "the bucket URL {url} does not name an absolute directory: write file:///absolute/path"
                )));
            }
            return Ok(Self::Directory(PathBuf::from(path)));
        }
        let Some(rest) = url.strip_prefix("s3://") else {
            return Err(StoreError::Invalid(format!(
                "the bucket URL '{url}' is not understood: write file:///absolute/path or s3://bucket/prefix"
            )));
        };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.trim_matches('/');
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        if bucket.len() < 3 || !bucket.chars().all(is_name) {
            return Err(StoreError::Invalid(format!(
                "'{bucket}' in the bucket URL {url} is no bucket name: write s3://bucket/prefix"
            )));
        }
        let is_key = |c: char| is_name(c) || c == '/' || c == '=';
        if !prefix.chars().all(is_key)
            || prefix.split('/').any(|s| s == "." || s == "..")
            || prefix.contains("//")
        {
            return Err(StoreError::Invalid(format!(
                "the prefix '{prefix}' in the bucket URL may hold only letters, digits and - . _ = /"
            )));
        }
        Ok(Self::S3 { bucket: bucket.to_owned(), prefix: prefix.to_owned() })
    }
}

/// Makes the full URL of an endpoint that is spelled `host`, `host:port`, `http://...` or `https://...`. None
/// for "". Errors: `Invalid` for any other spelling.
///
/// An endpoint without a scheme gets https://, except on the loopback interface, where test servers speak
/// plain HTTP.
pub fn endpoint_url(endpoint: &str) -> Result<Option<String>> {
    let endpoint = endpoint.trim();
    if endpoint.is_empty() {
        return Ok(None);
    }
    let (scheme, rest) = match endpoint.split_once("://") {
        Some((scheme @ ("http" | "https"), rest)) => (scheme, rest),
        Some((scheme, _)) => {
            return Err(StoreError::Invalid(format!(
                "atoll_s3_endpoint has the scheme {scheme}://: write host:port, http://host:port or https://host:port"
            )));
        }
        None if is_loopback(endpoint) => ("http", endpoint),
        None => ("https", endpoint),
    };
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if rest.is_empty() || rest.contains(['/', ' ', '@', '?']) {
        return Err(StoreError::Invalid(format!(
            "atoll_s3_endpoint '{endpoint}' must be a host and optionally a port, without a path"
        )));
    }
    Ok(Some(format!("{scheme}://{rest}")))
}

/// Whether `host[:port]` is a loopback address.
fn is_loopback(host_port: &str) -> bool {
    let host = match host_port.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or(""),
        None => host_port.split(':').next().unwrap_or(""),
    };
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_parsed_or_refused() {
        let s3 = |b: &str, p: &str| Location::S3 { bucket: b.into(), prefix: p.into() };
        assert_eq!(Location::parse("s3://bucket").unwrap(), s3("bucket", ""));
        assert_eq!(Location::parse("s3://bucket/a/b/").unwrap(), s3("bucket", "a/b"));
        assert_eq!(Location::parse("file:///x/y").unwrap(), Location::Directory("/x/y".into()));
        for wrong in [
            "",
            "bucket",
            "s3://",
            "s3:///x",
            "s3://a b/x",
            "file://x",
            "file:///",
            "gs://b",
            "s3://bkt/a/../b",
            "s3://bkt/a//b",
        ] {
            let error = Location::parse(wrong).unwrap_err();
            assert!(matches!(error, StoreError::Invalid(_)), "{wrong}: {error}");
        }
    }

    #[test]
    fn secrets_are_in_no_debug_text() {
        let secret = || "hidden".to_owned();
        let config = StoreConfig {
            access_key: secret(),
            secret_key: secret(),
            session_token: secret(),
            url: "s3://shown".to_owned(),
            ..StoreConfig::default()
        };
        let text = format!("{config:?}");
        assert!(text.contains("s3://shown") && !text.contains("hidden"), "{text}");
    }

    #[test]
    fn plain_http_needs_the_scheme_or_the_loopback() {
        let url = |s: &str| endpoint_url(s).unwrap();
        assert_eq!(url(""), None);
        assert_eq!(url("127.0.0.1:9000").as_deref(), Some("http://127.0.0.1:9000"));
        assert_eq!(url("localhost").as_deref(), Some("http://localhost"));
        assert_eq!(url("[::1]:9000").as_deref(), Some("http://[::1]:9000"));
        assert_eq!(url("minio:9000").as_deref(), Some("https://minio:9000"));
        assert_eq!(url("http://minio:9000/").as_deref(), Some("http://minio:9000"));
        for wrong in ["ftp://x", "http://", "a/b", "user@host"] {
            assert!(endpoint_url(wrong).is_err(), "{wrong}");
        }
    }
}
