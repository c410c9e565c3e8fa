//! Interprets an `object_store` error: whether another attempt can help, and what to tell the DBA.
//!
//! `object_store` keeps the HTTP status and the S3 error body in private types, so they are taken from the
//! text of the error; the tests against MinIO and versitygw in tests/s3_servers.rs fail when that text
//! changes.

use crate::error::StoreError;
use object_store::Error as StoreCrateError;
use object_store::client::{HttpError, HttpErrorKind};
use std::error::Error as StdError;

/// What a failed attempt means for its request. [`classify`] chooses the class. `Bucket::repeat` makes
/// another attempt only after `Transient`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// The bucket says that the object is absent.
    NotFound,
    /// A create-only PUT found an existing object or a concurrent PUT. This does not prove that another
    /// writer won.
    Exists,
    /// The outcome is unknown, or the bucket asks to come back later: try again.
    Transient,
    /// The same request will fail again until the DBA corrects the configuration, the permissions or the
    /// clock.
    Refused,
    /// The disk under a `file://` bucket, or the bucket's quota, is full.
    NoSpace,
    /// The bucket does not implement this kind of request.
    Unsupported,
}

/// The S3 error codes for an upload whose bytes do not match their checksum.
const DAMAGED: [&str; 4] =
    ["XAmzContentSHA256Mismatch", "XAmzContentChecksumMismatch", "BadDigest", "InvalidDigest"];

/// Part of the text of an error about a symbolic link to a folder in which it lies.
const LOOP: &str = "File system loop";

/// The operation name of requests that read or set an object lock. They need permissions that no other
/// request needs.
pub(crate) const LOCKING: &str = "locking";

/// One failed attempt, with what its error text says. An Option is None when the text has no such part.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) class: Class,
    text: String,
    status: Option<u16>,
    s3_code: Option<String>,
    /// True: no connection to the bucket could be made.
    connect: bool,
}

impl Failure {
    /// Reads class, HTTP status and S3 error code from `error`.
    pub(crate) fn new(error: &StoreCrateError) -> Self {
        let text = error.to_string();
        let status = status_in(&text);
        let s3_code = tag_in(&text, "Code");
        let http_kind = http_kind_of(error);
        let connect = http_kind == Some(HttpErrorKind::Connect);
        let class = classify(error, status, s3_code.as_deref(), http_kind);
        let text = format!("{text}{}", innermost(error, &text));
        Self { class, text, status, s3_code, connect }
    }

    /// Makes the failure of an attempt that got no complete answer within `after`.
    pub(crate) fn timeout(after: std::time::Duration) -> Self {
        Self {
            class: Class::Transient,
            text: format!("no complete answer within {} ms", after.as_millis()),
            status: None,
            s3_code: None,
            connect: false,
        }
    }

    /// Whether the store refused an upload because its bytes were damaged on the way.
    pub(crate) fn is_damaged_upload(&self) -> bool {
        self.s3_code.as_deref().is_some_and(|code| DAMAGED.contains(&code))
    }

    /// Whether the bucket answered that it gets too many requests ("slow down").
    pub(crate) fn is_throttled(&self) -> bool {
        matches!(self.s3_code.as_deref(), Some("SlowDown" | "SlowDownRead" | "SlowDownWrite"))
            || matches!(self.status, Some(429 | 503))
    }

    /// The error for the caller.
    ///
    /// `place` describes bucket and endpoint. `attempts` is the number of attempts made.
    pub(crate) fn into_error(
        self,
        operation: &'static str,
        key: &str,
        place: &str,
        attempts: u32,
    ) -> StoreError {
        let answer = self.answer();
        let hint = self.hint(operation);
        let tries = if attempts > 1 { format!(" after {attempts} attempts") } else { String::new() };
        let message = format!("{operation} {key} in {place} failed{tries}: {answer}{hint}");
        match self.class {
            Class::NotFound => StoreError::NotFound { operation, object: key.to_owned() },
            Class::Exists | Class::Transient => StoreError::Unavailable(message),
            Class::Refused => StoreError::Refused(message),
            Class::NoSpace => StoreError::NoSpace(message),
            Class::Unsupported => StoreError::ReadOnly(message),
        }
    }

    /// The bucket's answer, such as `HTTP 403 SignatureDoesNotMatch`. If the bucket has not answered, the
    /// text of the HTTP client's error.
    fn answer(&self) -> String {
        match (self.status, &self.s3_code) {
            (Some(status), Some(code)) => {
                let detail = tag_in(&self.text, "Message").map(|m| format!(" ({m})")).unwrap_or_default();
                format!("HTTP {status} {code}{detail}")
            }
            (Some(status), None) => format!("HTTP {status}"),
            _ => first_chars(&self.text, 400),
        }
    }

    /// Advice for the DBA, as text to append to the message; empty when there is none.
    fn hint(&self, operation: &str) -> &'static str {
        match self.s3_code.as_deref() {
            Some("InvalidAccessKeyId" | "XAdminUserNotFound") => {
                return ". The endpoint does not know this access key: check atoll_s3_access_key";
            }
            Some("SignatureDoesNotMatch") => {
                return ". The secret does not belong to the access key: check atoll_s3_secret_key and atoll_s3_access_key";
            }
            Some("RequestTimeTooSkewed") => {
                return ". The clocks of this machine and of the bucket differ too much: set the time (NTP)";
            }
            Some(code) if DAMAGED.contains(&code) => {
                return ". The bytes were damaged on their way to the bucket, which has refused them: look for a faulty proxy, network card or memory";
            }
            Some("NotImplemented") => {
                return ". The provider lacks something Atoll needs, most likely conditional PUT (If-None-Match): use another provider or a newer version";
            }
            Some("NoSuchBucket") => {
                return ". There is no bucket of this name: create it, or correct the bucket URL";
            }
            Some("AccessDenied") if operation == LOCKING => {
                return ". Grant the key s3:PutObjectRetention, GetObjectRetention and GetBucketObjectLockConfiguration";
            }
            Some("AccessDenied" | "AllAccessDisabled") => return missing_right(operation),
            Some("ExpiredToken" | "TokenRefreshRequired" | "InvalidToken") => {
                return ". The session token is no longer valid: renew the credentials";
            }
            Some(
                "AuthorizationHeaderMalformed" | "PermanentRedirect" | "IllegalLocationConstraintException",
            ) => {
                return ". The bucket is in another region: set atoll_s3_region";
            }
            _ => {}
        }
        if self.text.contains(LOOP) {
            return ". Remove this symbolic link from the directory of the bucket";
        }
        let lower = self.text.to_ascii_lowercase();
        if lower.contains("metadata") || lower.contains("/latest/api/token") {
            return ". No credentials were found: set atoll_s3_access_key and atoll_s3_secret_key, AWS_ACCESS_KEY_ID, or a profile in ~/.aws/credentials";
        }
        if ["certificate", "ssl", "tls", "corrupt message"].iter().any(|word| lower.contains(word)) {
            return ". The TLS handshake failed: name the endpoint's certificate authority in atoll_s3_ca_file, or write http:// in atoll_s3_endpoint if it speaks plain HTTP";
        }
        if lower.contains("lookup address")
            || lower.contains("dns error")
            || lower.contains("name or service")
        {
            return ". The host name cannot be resolved: check atoll_s3_endpoint";
        }
        if self.connect {
            return ". Nothing answers there: check atoll_s3_endpoint and that the service runs";
        }
        if lower.contains("without location") {
            return ". The bucket is in another region: set atoll_s3_region";
        }
        match self.status {
            Some(401 | 403) => ". Check atoll_s3_access_key and its permissions",
            _ => "",
        }
    }
}

/// Names the right that a key lacks. A store also answers so if it hides that an object is absent.
fn missing_right(operation: &str) -> &'static str {
    match operation {
        "deleting" => {
            ". The key is valid but may not do this: grant it s3:DeleteObject, or check atoll_s3_access_key"
        }
        "listing" => {
            ". The key is valid but may not do this: grant it s3:ListBucket, or check atoll_s3_access_key"
        }
        "writing" | "creating" | "uploading" => {
            ". The key is valid but may not do this: grant it s3:PutObject, or check atoll_s3_access_key"
        }
        "reading" | "looking at" => {
            ". The key is valid but may not do this: grant it s3:GetObject and s3:ListBucket, or check atoll_s3_access_key"
        }
        _ => {
            ". The key is valid but may not do this: grant it s3:GetObject, PutObject, DeleteObject and ListBucket, or check atoll_s3_access_key"
        }
    }
}

/// Decides the class of a failure. The S3 code is examined first, because it says more than the HTTP status:
/// for example, a missing bucket and a missing object both give a 404.
fn classify(
    error: &StoreCrateError,
    status: Option<u16>,
    s3_code: Option<&str>,
    http_kind: Option<HttpErrorKind>,
) -> Class {
    match s3_code {
        // A missing bucket is also a 404 and must never look like a missing object.
        Some("NoSuchBucket" | "RequestTimeTooSkewed") => return Class::Refused,
        Some("XMinioStorageFull" | "QuotaExceeded" | "InsufficientCapacity") => return Class::NoSpace,
        Some("SlowDown" | "RequestTimeout" | "InternalError" | "ServiceUnavailable") => {
            return Class::Transient;
        }
        // The store has kept nothing, so the same bytes may be sent again.
        Some(code) if DAMAGED.contains(&code) => return Class::Transient,
        _ => {}
    }
    if let Some(io) = io_error_of(error) {
        match io.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT) => return Class::NoSpace,
            Some(libc::EACCES | libc::EPERM | libc::EROFS) => return Class::Refused,
            _ => {}
        }
    }
    match error {
        // Some servers answer 404 for a wrong access key, and proxies answer 404 for a wrong path. If such an
        // answer counted as an absent object, a full bucket would look empty. Only the code `NoSuchKey`, or a
        // 404 without a body (HEAD), means absent.
        StoreCrateError::NotFound { .. } if status == Some(404) && !is_about_the_key(error, s3_code) => {
            Class::Refused
        }
        StoreCrateError::NotFound { .. } => Class::NotFound,
        StoreCrateError::AlreadyExists { .. }
        | StoreCrateError::Precondition { .. }
        | StoreCrateError::NotModified { .. } => Class::Exists,
        StoreCrateError::PermissionDenied { .. }
        | StoreCrateError::Unauthenticated { .. }
        | StoreCrateError::InvalidPath { .. }
        | StoreCrateError::UnknownConfigurationKey { .. } => Class::Refused,
        StoreCrateError::NotImplemented { .. } | StoreCrateError::NotSupported { .. } => Class::Unsupported,
        _ => match (status, http_kind) {
            (Some(501), _) => Class::Unsupported,
            (Some(507), _) => Class::NoSpace,
            (Some(408 | 429), _) => Class::Transient,
            (Some(code), _) if (300..500).contains(&code) => Class::Refused,
            _ if error.to_string().contains("without LOCATION") || is_loop(error) => Class::Refused,
            _ => Class::Transient,
        },
    }
}

/// Whether a listing of a directory came upon a symbolic link to a folder in which it lies.
fn is_loop(error: &StoreCrateError) -> bool {
    format!("{error}{}", innermost(error, "")).contains(LOOP)
}

/// Whether a 404 means that the requested object (or upload) is absent.
fn is_about_the_key(error: &StoreCrateError, s3_code: Option<&str>) -> bool {
    match s3_code {
        Some(code) => matches!(code, "NoSuchKey" | "NoSuchUpload" | "NoSuchVersion"),
        None => error.to_string().trim_end().ends_with("404 Not Found:"),
    }
}

/// The HTTP status: the number after `status code: `. None if `text` has none.
fn status_in(text: &str) -> Option<u16> {
    let (_, rest) = text.split_once("status code: ")?;
    rest.get(..3)?.parse().ok()
}

/// The content of the first `<tag>` element, at most 300 characters. None if there is no such element.
fn tag_in(text: &str, tag: &str) -> Option<String> {
    let (_, rest) = text.split_once(&format!("<{tag}>"))?;
    let (content, _) = rest.split_once(&format!("</{tag}>"))?;
    Some(first_chars(&unescaped(content), 300))
}

/// Replaces the entities of XML by their characters.
fn unescaped(text: &str) -> String {
    let entities =
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&#39;", "'"), ("&#34;", "\"")];
    let plain = entities.iter().fold(text.to_owned(), |text, (entity, plain)| text.replace(entity, plain));
    plain.replace("&amp;", "&")
}

/// Searches the chain of causes for the HTTP client's kind of error. None if no cause is an error of the HTTP
/// client.
fn http_kind_of(error: &StoreCrateError) -> Option<HttpErrorKind> {
    let mut cause: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(e) = cause {
        if let Some(http) = e.downcast_ref::<HttpError>() {
            return Some(http.kind());
        }
        cause = e.source();
    }
    None
}

/// Searches the chain of causes for an error of the operating system. None if there is none.
fn io_error_of(error: &StoreCrateError) -> Option<&std::io::Error> {
    let mut cause: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(e) = cause {
        if let Some(io) = e.downcast_ref::<std::io::Error>() {
            return Some(io);
        }
        cause = e.source();
    }
    None
}

/// The text of the deepest cause, such as "Connection refused"; empty if `text` contains it already.
fn innermost(error: &StoreCrateError, text: &str) -> String {
    let mut deepest = String::new();
    let mut cause = error.source();
    while let Some(e) = cause {
        deepest = e.to_string();
        cause = e.source();
    }
    if deepest.is_empty() || text.contains(&deepest) { String::new() } else { format!(": {deepest}") }
}

/// At most `count_max` characters of `text`.
fn first_chars(text: &str, count_max: usize) -> String {
    text.chars().take(count_max).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn not_found(body: &str) -> Failure {
        let source = format!(
            "Error performing GET http://h/b/k in 1ms - Server returned non-2xx status code: 404 Not Found: {body}"
        );
        Failure::new(&StoreCrateError::NotFound { path: "k".to_owned(), source: source.into() })
    }

    #[test]
    fn only_an_absent_key_counts_as_absent() {
        let code = |code: &str| format!("<Error><Code>{code}</Code><Message>m</Message></Error>");
        assert_eq!(not_found("").class, Class::NotFound);
        assert_eq!(not_found(&code("NoSuchKey")).class, Class::NotFound);
        for other in ["NoSuchBucket", "XAdminUserNotFound", "SomethingNew"] {
            assert_eq!(not_found(&code(other)).class, Class::Refused, "{other}");
        }
        assert_eq!(not_found("<html>nginx</html>").class, Class::Refused);
        let local = StoreCrateError::NotFound { path: "k".to_owned(), source: "gone".into() };
        assert_eq!(Failure::new(&local).class, Class::NotFound);
    }

    #[test]
    fn full_buckets_and_skewed_clocks_are_told_apart() {
        let generic = |text: &str| {
            Failure::new(&StoreCrateError::Generic { store: "S3", source: text.to_owned().into() })
        };
        let status = |rest: &str| generic(&format!("Server returned non-2xx status code: {rest}"));
        assert_eq!(status("507 Insufficient Storage: <Code>XMinioStorageFull</Code>").class, Class::NoSpace);
        assert_eq!(status("503 Service Unavailable: <Code>SlowDown</Code>").class, Class::Transient);
        assert_eq!(status("501 Not Implemented: ").class, Class::Unsupported);
        assert_eq!(
            status("400 Bad Request: <Code>AuthorizationHeaderMalformed</Code>").class,
            Class::Refused
        );
        let skew = status("403 Forbidden: <Code>RequestTimeTooSkewed</Code><Message>late</Message>");
        assert_eq!(skew.class, Class::Refused);
        let message = skew.into_error("reading", "k", "bucket b", 1).to_string();
        assert!(
            message.contains("HTTP 403 RequestTimeTooSkewed (late)") && message.contains("NTP"),
            "{message}"
        );
        let denied = "403 Forbidden: <Code>AccessDenied</Code><Message>&#39;k&#39; is &amp;#39;</Message>";
        let message = status(denied).into_error("deleting", "k", "bucket b", 1).to_string();
        assert!(message.contains("('k' is &#39;)") && message.contains("s3:DeleteObject"), "{message}");
        assert!(!message.contains("PutObject"), "{message}");
        assert_eq!(generic("the connection was reset").class, Class::Transient);
        let damaged = status("400 Bad Request: <Code>XAmzContentSHA256Mismatch</Code>");
        assert!(damaged.is_damaged_upload() && damaged.class == Class::Transient);
        let message = damaged.into_error("writing", "k", "bucket b", 5).to_string();
        assert!(message.contains("damaged on their way"), "{message}");
    }
}
