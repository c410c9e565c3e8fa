//! What can go wrong between RocksDB and the bucket, and what the caller does next.
//!
//! A variant is a reaction, not a cause: its `code()` is the number C++ sees (engine/base/status.h). The text
//! is one or two sentences for a DBA: which operation, which object, what the bucket answered, what to do.
//! This file is not about retrying (retry.rs) nor about reading the bucket's answers (failure.rs).

use std::fmt::Display;

/// The numbers of `atoll::Code` in engine/base/status.h. Append only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Code {
    /// Success.
    Ok = 0,
    /// No such object or file. Expected.
    NotFound = 1,
    /// The wait was ended on purpose.
    Interrupted = 5,
    /// The bucket did not answer in time. Nothing is damaged; retry later.
    Unavailable = 6,
    /// A disk or a quota is full. Free space, then retry.
    NoSpace = 7,
    /// A newer writer owns the bucket. Stop writing.
    Fenced = 8,
    /// This server may not write here.
    ReadOnly = 9,
    /// The configuration cannot work. Tell the user.
    Invalid = 10,
    /// Stored bytes broke a checksum or an invariant. Never retry, never ignore.
    Corruption = 11,
    /// The caller broke a contract.
    Bug = 12,
}

/// A failed call of the object layer. Cheap to clone, because one failed GET may answer many readers.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// No object or file has this name. The caller decides whether that is an error.
    #[error("{operation} {object}: there is no such object")]
    NotFound {
        /// What was tried, e.g. `reading`.
        operation: &'static str,
        /// Key relative to the prefix, or a file number.
        object: String,
    },
    /// The bucket did not answer, or not in time. After a conditional write the outcome is unknown: call
    /// again with the same bytes.
    #[error("{0}")]
    Unavailable(String),
    /// The bucket answered, and refuses: wrong key, wrong bucket, clock skew. While running this is a state
    /// to wait out (keys rotate), at start it is a configuration error: see [`StoreError::at_open`].
    #[error("{0}")]
    Refused(String),
    /// A disk, a quota or the bucket is full.
    #[error("{0}")]
    NoSpace(String),
    /// A newer writer has closed this epoch. Final.
    #[error("{0}")]
    Fenced(String),
    /// This process may not write here: another live owner, or a bucket without conditional writes.
    #[error("{0}")]
    ReadOnly(String),
    /// The configuration cannot work.
    #[error("{0}")]
    Invalid(String),
    /// Bytes do not match their checksum or break an invariant.
    #[error("{0}")]
    Corruption(String),
    /// The store is being closed, or the caller gave up.
    #[error("{0}")]
    Interrupted(String),
    /// A contract was broken; the message says which.
    #[error("internal error, please report it: {0}")]
    Bug(String),
}

/// The result of every fallible call of this crate.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

impl StoreError {
    /// The reaction C++ must choose. There is no wildcard, so that each new variant must choose one.
    pub fn code(&self) -> Code {
        match self {
            Self::NotFound { .. } => Code::NotFound,
            Self::Unavailable(_) | Self::Refused(_) => Code::Unavailable,
            Self::NoSpace(_) => Code::NoSpace,
            Self::Fenced(_) => Code::Fenced,
            Self::ReadOnly(_) => Code::ReadOnly,
            Self::Invalid(_) => Code::Invalid,
            Self::Corruption(_) => Code::Corruption,
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
            Self::Interrupted(m) => Self::Interrupted(add(m)),
            Self::Bug(m) => Self::Bug(add(m)),
        }
    }

    /// Turns a refusal into a configuration error. Use while opening, when waiting will not mend it.
    pub fn at_open(self) -> Self {
        match self {
            Self::Refused(message) => Self::Invalid(message),
            other => other,
        }
    }

    /// Whether the object was simply absent.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    /// An error of the local disk while doing `action` on `path`.
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
