//! Keys of table files in the prefix of another database, which a clone shares with its parent.
//!
//! An *origin* is the prefix of the other database: its path in the same bucket, or its directory on the same
//! machine. The key of a file there (a foreign key) is `/<origin>/sst/...`, so it starts with a slash. A key
//! of this database is relative to its own prefix and never starts with a slash.
//!
//! O1: a foreign object is only read. Every request that writes or deletes refuses its key (`Bucket::path`).

use crate::error::{Result, StoreError};
use crate::requests::bucket::{Bucket, Parts, parse_path};
use crate::requests::client::connect_directory;
use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use object_store::path::Path as ObjectPath;
use std::path::Path;
use std::sync::Arc;

/// The store that holds an object, and the path of the object in that store.
pub(crate) type Source = (Arc<dyn ObjectStore>, ObjectPath);

/// The folder of table files in every prefix.
const FILES: &str = "sst/";

/// Whether `key` names an object of another database.
pub(crate) fn is_foreign(key: &str) -> bool {
    key.starts_with('/')
}

/// Splits `key` into its origin and the key below that origin. The origin is None for a key of this database.
pub(crate) fn split(key: &str) -> (Option<&str>, &str) {
    let Some(full) = key.strip_prefix('/') else { return (None, key) };
    // An origin may contain `sst/` itself, but the key below it contains it only once, at its beginning. So
    // the last `sst/` ends the origin.
    match full.rfind(FILES) {
        Some(0) => (Some(""), full),
        Some(at) if full.as_bytes()[at - 1] == b'/' => (Some(&full[..at - 1]), &full[at..]),
        _ => (Some(""), full),
    }
}

/// The foreign key of the object that has the key `key` in the database at `origin`.
pub(crate) fn join(origin: &str, key: &str) -> String {
    if origin.is_empty() { format!("/{key}") } else { format!("/{origin}/{key}") }
}

impl Bucket {
    /// The origin by which other databases name this one: its prefix, or its directory without the first
    /// slash.
    pub fn origin(&self) -> String {
        let directory = self.parts.directory.as_ref().map(|root| root.to_string_lossy().into_owned());
        directory.unwrap_or_else(|| self.parts.prefix.clone()).trim_matches('/').to_owned()
    }

    /// Returns the bucket of the database at `origin`, from which this database reads files. It is another
    /// prefix of the same bucket, or another directory.
    ///
    /// Errors: `NotFound` when there is no such directory.
    pub fn sibling(&self, origin: &str) -> Result<Self> {
        let given_up = Arc::default();
        if !self.is_directory() {
            let parts = Arc::new(Parts { prefix: origin.to_owned(), ..Parts::clone(&self.parts) });
            return Ok(Self { parts, given_up, ..self.clone() });
        }
        let directory = Path::new("/").join(origin);
        if !directory.is_dir() {
            return Err(StoreError::NotFound {
                operation: "opening",
                object: directory.display().to_string(),
            });
        }
        connect_directory(&directory, Arc::clone(&self.parts.stats), self.policy.clone())
    }

    /// The store and the path from which the object `key` is read. `key` names an object of this or of
    /// another database.
    pub(crate) fn source(&self, key: &str) -> Result<Source> {
        if !is_foreign(key) {
            return Ok((Arc::clone(&self.parts.store), self.path(key)?));
        }
        let (origin, below) = split(key);
        let origin = origin.unwrap_or_default();
        if !self.is_directory() {
            let path = parse_path(key.trim_start_matches('/'))?;
            return Ok((Arc::clone(&self.parts.store), path));
        }
        let directory = Path::new("/").join(origin);
        let store = LocalFileSystem::new_with_prefix(&directory).map_err(|error| {
            StoreError::Unavailable(format!(
                "{}, where this database reads files of the one it was cloned from, cannot be opened: {error}",
                directory.display()
            ))
        })?;
        Ok((Arc::new(store), parse_path(below)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_split_where_it_was_joined() {
        for origin in ["", "db", "a/b", "sst", "sst/sst/x", "mnt/résumé of sst/db"] {
            let key = "sst/0f/00000000000000000003-s7.sst";
            let full = join(origin, key);
            assert!(is_foreign(&full));
            assert_eq!(split(&full), (Some(origin), key), "{full}");
        }
        assert_eq!(split("sst/0f/3-7.sst"), (None, "sst/0f/3-7.sst"));
        assert!(!is_foreign("sst/0f/3-7.sst"));
    }
}
