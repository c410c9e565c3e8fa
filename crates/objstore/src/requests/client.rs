//! Builds the connection to the bucket from a [`StoreConfig`]. No request is made here.

use crate::config::{Location, StoreConfig, endpoint_url};
use crate::error::{Result, StoreError};
use crate::requests::bucket::{Bucket, Parts};
use crate::requests::http::{Line, Transport};
use crate::requests::retry::RetryPolicy;
use crate::requests::s3::credentials::{GivenKeys, ProfileFile, from_environment};
use crate::requests::s3::crypto::RustCrypto;
use crate::requests::s3::direct::Direct;
use crate::requests::s3::region::DEFAULT_REGION;
use crate::requests::s3::s3_uploads::S3Uploads;
use crate::requests::wire::{Addressing, Encryption};
use crate::stats::Stats;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::client::HttpConnector;
use object_store::local::LocalFileSystem;
use object_store::{ClientOptions, RetryConfig};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Makes the bucket that `config` names.
///
/// Errors: `Invalid` when the configuration cannot work; disk errors for `file://`.
/// Requests: none.
pub fn connect(config: &StoreConfig, stats: Arc<Stats>) -> Result<Bucket> {
    connect_over(config, stats, Line::Clean)
}

/// As [`connect`], but the connection changes one bit of every upload after the upload was signed. This
/// bucket is only for [`Bucket::refuses_damage`].
///
/// Errors: as `connect`; `Invalid` for `file://`, which uses no network.
pub fn connect_damaging(config: &StoreConfig, stats: Arc<Stats>) -> Result<Bucket> {
    connect_over(config, stats, Line::Damaging)
}

fn connect_over(config: &StoreConfig, stats: Arc<Stats>, line: Line) -> Result<Bucket> {
    let policy = RetryPolicy { request_timeout: config.request_timeout, ..RetryPolicy::default() };
    match Location::parse(&config.url)? {
        Location::Directory(path) if line == Line::Damaging => Err(StoreError::Invalid(format!(
            "{} is a directory: nothing is sent to it that could be damaged on the way",
            path.display()
        ))),
        Location::Directory(path) => connect_directory(&path, stats, policy),
        Location::S3 { bucket, prefix } => connect_s3(config, &bucket, &prefix, stats, policy, line),
    }
}

pub(crate) fn connect_directory(path: &Path, stats: Arc<Stats>, policy: RetryPolicy) -> Result<Bucket> {
    std::fs::create_dir_all(path)
        .map_err(|e| StoreError::from_io("creating the bucket directory", path, &e))?;
    let root =
        path.canonicalize().map_err(|e| StoreError::from_io("opening the bucket directory", path, &e))?;
    let store = LocalFileSystem::new_with_prefix(&root)
        .map_err(|e| StoreError::Invalid(format!("opening the bucket directory {}: {e}", root.display())))?
        .with_fsync(true);
    Ok(Bucket::new(Parts {
        store: Arc::new(store),
        multipart: None,
        direct: None,
        uploads: None,
        keys: None,
        prefix: String::new(),
        directory: Some(root.clone()),
        place: format!("directory {}", root.display()),
        stats,
        policy,
    }))
}

fn connect_s3(
    config: &StoreConfig,
    bucket: &str,
    prefix: &str,
    stats: Arc<Stats>,
    policy: RetryPolicy,
    line: Line,
) -> Result<Bucket> {
    let endpoint = endpoint_url(&config.endpoint)?;
    let region = if config.region.is_empty() { DEFAULT_REGION } else { config.region.as_str() };
    let connect_timeout = config.request_timeout.min(Duration::from_secs(5));
    let is_plain = endpoint.as_deref().is_some_and(|e| e.starts_with("http://"));
    // With configured keys and a plain HTTP endpoint, no request needs TLS. Without configured keys, the keys
    // of a role may have to be fetched over HTTPS.
    let transport = if is_plain && !config.access_key.is_empty() {
        Transport::plain(connect_timeout)
    } else {
        Transport::with_tls(connect_timeout, &config.ca_file)?
    };
    let transport = transport.over(line);
    let url = Addressing::parse(&config.addressing)?.bucket_url(endpoint.as_deref(), region, bucket)?;
    let options = ClientOptions::new().with_allow_http(is_plain);
    let http = transport.connect(&options).map_err(|e| StoreError::Bug(format!("making a client: {e}")))?;
    let no_retry = RetryConfig { max_retries: 0, ..RetryConfig::default() };
    let mut builder = AmazonS3Builder::new()
        .with_bucket_name(bucket)
        .with_region(region)
        .with_client_options(options)
        .with_http_connector(transport.clone())
        .with_retry(no_retry) // Bucket retries, counts and bounds every attempt itself.
        // The SHA-256 of each body is part of its signature, which every S3 server checks. So bytes that were
        // damaged on the way are refused. A core hashes 1.5 to 2 GB/s with SHA-NI, about 0.4 GB/s without.
        .with_unsigned_payload(false)
        .with_crypto_provider(Arc::new(RustCrypto))
        .with_disable_bulk_delete(true)
        // With this setting, object_store takes the endpoint as the URL of the bucket, so `url` may have
        // either addressing style.
        .with_endpoint(&url)
        .with_virtual_hosted_style_request(true);
    builder = with_encryption(builder, config)?;
    let keys = given_keys(config)?;
    builder = match &keys {
        Some(keys) => builder.with_credentials(Arc::clone(keys) as _),
        None => with_found_credentials(builder),
    };
    let store = builder.build().map_err(|e| StoreError::Invalid(format!("opening {}: {e}", config.url)))?;
    let direct = Arc::new(Direct::new(http, Arc::clone(store.credentials()), region, url));
    let store = Arc::new(store);
    let shown = endpoint.unwrap_or_else(|| format!("S3, region {region}"));
    Ok(Bucket::new(Parts {
        store: Arc::clone(&store) as _,
        multipart: Some(store),
        direct: Some(Arc::clone(&direct)),
        uploads: Some(Arc::new(S3Uploads { direct })),
        keys,
        prefix: prefix.to_owned(),
        directory: None,
        place: format!("bucket {bucket} at {shown}"),
        stats,
        policy,
    }))
}

/// Makes every PUT of a whole object, and every request that starts an upload in pieces, ask for the
/// configured encryption.
fn with_encryption(builder: AmazonS3Builder, config: &StoreConfig) -> Result<AmazonS3Builder> {
    let kind = match Encryption::parse(&config.sse, &config.sse_kms_key_id)? {
        Encryption::BucketDefault => return Ok(builder),
        Encryption::Kms(Some(key_id)) => return Ok(builder.with_sse_kms_encryption(key_id)),
        Encryption::Kms(None) => "aws:kms",
        Encryption::Store => "AES256",
    };
    let setting: AmazonS3ConfigKey = "aws_server_side_encryption"
        .parse()
        .map_err(|e| StoreError::Bug(format!("object_store knows no encryption: {e}")))?;
    Ok(builder.with_config(setting, kind))
}

/// The access keys in the configuration; None if it has none.
fn given_keys(config: &StoreConfig) -> Result<Option<Arc<GivenKeys>>> {
    match (config.access_key.is_empty(), config.secret_key.is_empty()) {
        (false, false) => Ok(Some(Arc::new(GivenKeys::new(config)))),
        (false, true) => Err(StoreError::Invalid(
            "atoll_s3_access_key is set and atoll_s3_secret_key is not: set both or neither".into(),
        )),
        (true, false) => Err(StoreError::Invalid(
            "atoll_s3_secret_key is set and atoll_s3_access_key is not: set both or neither".into(),
        )),
        (true, true) => Ok(None),
    }
}

/// Looks for keys when none are configured: in the environment, then by web identity, then in the profile
/// file, then from the role of this machine (ECS, EKS, EC2).
fn with_found_credentials(builder: AmazonS3Builder) -> AmazonS3Builder {
    if let Some(keys) = from_environment() {
        let builder = builder.with_access_key_id(keys.key_id).with_secret_access_key(keys.secret_key);
        return match keys.token {
            Some(token) => builder.with_token(token),
            None => builder,
        };
    }
    if std::env::var_os("AWS_WEB_IDENTITY_TOKEN_FILE").is_none()
        && let Some(profile) = ProfileFile::find()
    {
        return builder.with_credentials(Arc::new(profile));
    }
    with_role_variables(builder)
}

/// Passes on the environment variables by which a cloud platform describes the role of this machine.
fn with_role_variables(mut builder: AmazonS3Builder) -> AmazonS3Builder {
    let variables = [
        ("AWS_WEB_IDENTITY_TOKEN_FILE", AmazonS3ConfigKey::WebIdentityTokenFile),
        ("AWS_ROLE_ARN", AmazonS3ConfigKey::RoleArn),
        ("AWS_ROLE_SESSION_NAME", AmazonS3ConfigKey::RoleSessionName),
        ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", AmazonS3ConfigKey::ContainerCredentialsRelativeUri),
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", AmazonS3ConfigKey::ContainerCredentialsFullUri),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", AmazonS3ConfigKey::ContainerAuthorizationTokenFile),
    ];
    for (name, key) in variables {
        if let Ok(value) = std::env::var(name) {
            builder = builder.with_config(key, value);
        }
    }
    builder
}
