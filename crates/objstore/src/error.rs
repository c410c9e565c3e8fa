//! What can go wrong between RocksDB and the bucket, and what the caller does next.
//!
//! A variant says how the caller reacts, not what caused the error. Its `code()` is the number that C++ sees
//! (engine/base/status.h). The text is one or two sentences for a DBA: which operation, which object, what
//! the bucket answered, what to do. retry.rs decides about retries, and failure.rs reads the bucket's
//! answers.

use std::fmt::Display;

/// The numbers of `atoll::Code` in engine/base/status.h. A new code gets a new number, and no number changes,
/// because C++ uses the same numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Code {
    /// Success.
    Ok = 0,
    /// There is no such object or file. The caller expects this case.
    NotFound = 1,
    /// The wait was ended on purpose: the statement was killed or the store is being closed.
    Interrupted = 5,
    /// The bucket did not answer in time. Nothing is damaged; retry later.
    Unavailable = 6,
    /// A disk or a quota is full. Free space, then retry.
    NoSpace = 7,
    /// A newer writer owns the bucket. Stop writing.
    Fenced = 8,
    /// This server is not allowed to write to this bucket or directory.
    ReadOnly = 9,
    /// The configuration cannot work. Report the message to the user.
    Invalid = 10,
    /// Stored bytes do not match their checksum or break an invariant. Never retry, never ignore.
    Corruption = 11,
    /// Our own code has broken a contract, so this is a bug.
    Bug = 12,
}

/// A failed call of the object layer. It is cheap to clone, because many readers may wait for one GET, and
/// each gets its error.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// No object or file has this name. The caller decides whether that is an error.
    #[error("{operation} {object}: there is no such object")]
    NotFound {
        /// What was tried, e.g. `reading`.
        operation: &'static str,
        /// The key of the object, relative to the prefix of the database, or the number of a file.
        object: String,
    },
    /// The bucket did not answer, or not in time. After a conditional write the outcome is unknown: call
    /// again with the same bytes.
    #[error("{0}")]
    Unavailable(String),
    /// The bucket answered, but refuses the request: wrong key, wrong bucket, clock skew. The cause can pass
    /// (for example when keys are replaced or the clock is set), so the server waits, also at its start.
    #[error("{0}")]
    Refused(String),
    /// A disk, a quota or the bucket is full.
    #[error("{0}")]
    NoSpace(String),
    /// A newer writer has closed this epoch, for ever.
    #[error("{0}")]
    Fenced(String),
    /// This process is not allowed to write here, because another owner lives, the bucket has no conditional
    /// writes, or a permission is missing.
    #[error("{0}")]
    ReadOnly(String),
    /// The configuration cannot work.
    #[error("{0}")]
    Invalid(String),
    /// Bytes do not match their checksum or break an invariant.
    #[error("{0}")]
    Corruption(String),
    /// An object that the database needs is missing in the bucket, or shorter than it must be. Its rows cannot be
    /// read until it is put back. The store has logged it. C++ knows this error by the text "damaged; run
    /// `atollctl verify`" (engine/base/messages/lost_object.h).
    #[error("{0}")]
    Lost(String),
    /// The store is being closed, or the caller gave up.
    #[error("{0}")]
    Interrupted(String),
    /// Our own code has broken a contract. The message says which.
    #[error("internal error, please report it: {0}")]
    Bug(String),
}

/// The result of every fallible call of this crate.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

impl StoreError {
    /// The code that tells C++ how to react. The match has no wildcard, so the compiler demands a code for
    /// each new variant.
    pub fn code(&self) -> Code {
        match self {
            Self::NotFound { .. } => Code::NotFound,
            Self::Unavailable(_) | Self::Refused(_) => Code::Unavailable,
            Self::NoSpace(_) => Code::NoSpace,
            Self::Fenced(_) => Code::Fenced,
            Self::ReadOnly(_) => Code::ReadOnly,
            Self::Invalid(_) => Code::Invalid,
            Self::Corruption(_) | Self::Lost(_) => Code::Corruption,
            Self::Interrupted(_) => Code::Interrupted,
            Self::Bug(_) => Code::Bug,
        }
    }

    /// The same error with `context` in front: "opening the bucket: ...".
    pub fn with(self, context: impl Display) -> Self {
        let add = |message: String| format!("{context}: {message}");
        match self {
            Self::NotFound { operation, object } => {
                Self::NotFound { operation, object: format!("{object} ({context})") }
            }
            Self::Unavailable(m) => Self::Unavailable(add(m)),
            Self::Refused(m) => Self::Refused(add(m)),
            Self::NoSpace(m) => Self::NoSpace(add(m)),
            Self::Fenced(m) => Self::Fenced(add(m)),
            Self::ReadOnly(m) => Self::ReadOnly(add(m)),
            Self::Invalid(m) => Self::Invalid(add(m)),
            Self::Corruption(m) => Self::Corruption(add(m)),
            Self::Lost(m) => Self::Lost(add(m)),
            Self::Interrupted(m) => Self::Interrupted(add(m)),
            Self::Bug(m) => Self::Bug(add(m)),
        }
    }

    /// Whether the error only says that the object is absent.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    /// Makes the error for a failed operation on the local disk: `action` says what was tried on `path`.
    pub fn from_io(action: &str, path: &std::path::Path, error: &std::io::Error) -> Self {
        let message = format!("{action} {}: {error}", path.display());
        match error.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT) => {
                Self::NoSpace(format!("{message}. Free space on that file system"))
            }
            Some(libc::EROFS | libc::EACCES | libc::EPERM) => {
                Self::ReadOnly(format!("{message}. The server's user needs write access there"))
            }
            Some(libc::ENOENT) => {
                Self::NotFound { operation: "opening", object: format!("{} ({action})", path.display()) }
            }
            _ => Self::Unavailable(message),
        }
    }
}
