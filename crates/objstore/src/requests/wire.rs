//! Translates settings of an S3 connection into requests: the URL of the bucket, and the encryption to ask
//! for.

use crate::error::{Result, StoreError};

/// Whether the bucket's name is in the host or in the path of a request's URL. The DBA chooses it with
/// `atoll_s3_addressing`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Addressing {
    /// In the host for Amazon, if the bucket's name has no dot: Amazon's certificate covers only such hosts.
    /// Otherwise, and for all other endpoints, in the path.
    Auto,
    /// In the path: `https://host/bucket/key`
    Path,
    /// In the host: `https://bucket.host/key`
    Virtual,
}

impl Addressing {
    /// Reads the value of `atoll_s3_addressing`; "" is `auto`.
    ///
    /// Errors: `Invalid` for any other spelling.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        match text {
            "" | "auto" => Ok(Self::Auto),
            "path" => Ok(Self::Path),
            "virtual" => Ok(Self::Virtual),
            other => Err(StoreError::Invalid(format!(
                "atoll_s3_addressing has no value '{other}': use auto, path or virtual"
            ))),
        }
    }

    /// The URL of a bucket, without a slash at its end. `endpoint` is a full URL; None means Amazon's
    /// endpoint in `region`.
    ///
    /// Errors: `Invalid` when the bucket's name cannot become a part of the endpoint's host name.
    pub(crate) fn bucket_url(self, endpoint: Option<&str>, region: &str, bucket: &str) -> Result<String> {
        let amazon = format!("https://s3.{region}.amazonaws.com");
        let base = endpoint.unwrap_or(&amazon);
        let is_virtual = match self {
            Self::Auto => endpoint.is_none() && !bucket.contains('.'),
            Self::Path => false,
            Self::Virtual => true,
        };
        if !is_virtual {
            return Ok(format!("{base}/{bucket}"));
        }
        let (scheme, host) = base.split_once("://").unwrap_or(("https", base));
        let is_address = host.starts_with('[')
            || host.split(':').next().is_some_and(|name| name.parse::<std::net::IpAddr>().is_ok());
        if is_address {
            return Err(StoreError::Invalid(format!(
                "atoll_s3_addressing=virtual puts the bucket's name in front of the host's, and atoll_s3_endpoint is the \
                 address {host}: give the host's name, or use path"
            )));
        }
        Ok(format!("{scheme}://{bucket}.{host}"))
    }
}

/// The server-side encryption that every upload asks for. The DBA chooses it with `atoll_s3_sse`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Encryption {
    /// Uploads ask for nothing: the bucket's own default applies.
    BucketDefault,
    /// SSE-S3: encryption with keys of the store.
    Store,
    /// SSE-KMS: encryption with this key of the provider's key service; None means its default key.
    Kms(Option<String>),
}

impl Encryption {
    /// Reads the values of `atoll_s3_sse` and `atoll_s3_sse_kms_key_id`.
    ///
    /// Errors: `Invalid` for an unknown value of `sse`, and for a `key_id` when `sse` is not `aws:kms`.
    pub(crate) fn parse(sse: &str, key_id: &str) -> Result<Self> {
        let is_header = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        match (sse, key_id) {
            ("", "") => Ok(Self::BucketDefault),
            ("AES256", "") => Ok(Self::Store),
            ("aws:kms", "") => Ok(Self::Kms(None)),
            ("aws:kms", key) if is_header(key) => Ok(Self::Kms(Some(key.to_owned()))),
            ("aws:kms", _) => {
                Err(StoreError::Invalid("atoll_s3_sse_kms_key_id is no identifier of a key".to_owned()))
            }
            ("" | "AES256", _) => Err(StoreError::Invalid(
                "atoll_s3_sse_kms_key_id is set and atoll_s3_sse is not aws:kms: set both or neither"
                    .to_owned(),
            )),
            (other, _) => Err(StoreError::Invalid(format!(
                "atoll_s3_sse has no value '{other}': use AES256, aws:kms, or leave it empty"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bucket_stands_in_the_path_or_in_the_host() {
        let url = |style: &str, endpoint: Option<&str>, bucket: &str| {
            Addressing::parse(style).unwrap().bucket_url(endpoint, "eu-west-1", bucket)
        };
        let minio = Some("http://minio:9000");
        assert_eq!(url("", None, "shop").unwrap(), "https://shop.s3.eu-west-1.amazonaws.com");
        assert_eq!(url("auto", None, "my.shop").unwrap(), "https://s3.eu-west-1.amazonaws.com/my.shop");
        assert_eq!(url("auto", minio, "shop").unwrap(), "http://minio:9000/shop");
        assert_eq!(url("path", None, "shop").unwrap(), "https://s3.eu-west-1.amazonaws.com/shop");
        assert_eq!(url("virtual", minio, "shop").unwrap(), "http://shop.minio:9000");
        for address in ["http://127.0.0.1:9000", "http://[::1]:9000"] {
            assert!(url("virtual", Some(address), "shop").unwrap_err().to_string().contains("path"));
        }
        assert!(Addressing::parse("host").unwrap_err().to_string().contains("auto, path or virtual"));
    }

    #[test]
    fn encryption_needs_a_known_kind_and_a_key_only_for_kms() {
        assert_eq!(Encryption::parse("", "").unwrap(), Encryption::BucketDefault);
        assert_eq!(Encryption::parse("AES256", "").unwrap(), Encryption::Store);
        assert_eq!(Encryption::parse("aws:kms", "k1").unwrap(), Encryption::Kms(Some("k1".to_owned())));
        for (sse, key) in [("", "k1"), ("AES256", "k1"), ("aes256", ""), ("aws:kms", "a\nb"), ("sse-c", "")] {
            assert!(matches!(Encryption::parse(sse, key), Err(StoreError::Invalid(_))), "{sse} {key}");
        }
    }
}
