//! `atollctl doctor --policy`: prints the smallest AWS IAM policy that is sufficient for an access key of
//! Atoll. No request is made.

use objstore::StoreError;
use objstore::config::{Location, StoreConfig};
use serde_json::{Value, json};

/// The policy for the URL of `config`.
///
/// Errors: `Invalid` for a directory, which has no policies, or for a URL that cannot be parsed.
pub(crate) fn least(config: &StoreConfig) -> Result<Value, StoreError> {
    let Location::S3 { bucket, prefix } = Location::parse(&config.url)? else {
        return Err(StoreError::Invalid(format!("{} is a directory: it needs no policy", config.url)));
    };
    let partition = match config.region.as_str() {
        region if region.starts_with("cn-") => "aws-cn",
        region if region.starts_with("us-gov-") => "aws-us-gov",
        _ => "aws",
    };
    let bucket = format!("arn:{partition}:s3:::{bucket}");
    let objects = if prefix.is_empty() { format!("{bucket}/*") } else { format!("{bucket}/{prefix}/*") };
    let allow = |name: &str, actions: &[&str], resource: &str| json!({ "Sid": name, "Effect": "Allow", "Action": actions, "Resource": resource });
    let mut statements = vec![
        allow(
            "AtollObjects",
            &["s3:AbortMultipartUpload", "s3:DeleteObject", "s3:GetObject", "s3:PutObject"],
            &objects,
        ),
        // Listing is allowed for the whole bucket. If it were limited to the prefix, S3 would answer 403
        // instead of 404 for an absent object.
        allow("AtollListing", &["s3:ListBucket", "s3:ListBucketMultipartUploads"], &bucket),
    ];
    if config.sse == "aws:kms" {
        let key =
            if config.sse_kms_key_id.starts_with("arn:") { config.sse_kms_key_id.as_str() } else { "*" };
        statements.push(allow("AtollKey", &["kms:Decrypt", "kms:GenerateDataKey"], key));
    }
    Ok(json!({ "Version": "2012-10-17", "Statement": statements }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(url: &str, change: impl Fn(&mut StoreConfig)) -> Result<Value, StoreError> {
        let mut config = StoreConfig { url: url.to_owned(), ..StoreConfig::default() };
        change(&mut config);
        least(&config)
    }

    #[test]
    fn objects_are_those_of_the_prefix() {
        let found = policy("s3://shop/a/b/", |_| {}).unwrap();
        assert_eq!(found["Statement"][0]["Resource"], "arn:aws:s3:::shop/a/b/*");
        assert_eq!(found["Statement"][1]["Resource"], "arn:aws:s3:::shop");
        assert_eq!(found["Statement"].as_array().unwrap().len(), 2);
        let whole = policy("s3://shop", |config| config.region = "cn-north-1".to_owned()).unwrap();
        assert_eq!(whole["Statement"][0]["Resource"], "arn:aws-cn:s3:::shop/*");
        assert!(policy("file:///x", |_| {}).is_err());
    }

    #[test]
    fn a_key_of_the_key_service_needs_its_own_permission() {
        let key = "arn:aws:kms:eu-west-1:1:key/k";
        let found = policy("s3://shop/a", |config| {
            config.sse = "aws:kms".to_owned();
            config.sse_kms_key_id = key.to_owned();
        });
        assert_eq!(found.unwrap()["Statement"][2]["Resource"], key);
    }
}
