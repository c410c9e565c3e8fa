//! Keys of table files that lie in the prefix of another database: those that a clone shares with its parent.
//!
//! An *origin* is such a prefix: the path of the parent in the same bucket, or its directory on the same machine. The key of a
//! foreign file is `/<origin>/sst/...`, so it starts with a slash; an own key is relative to the own prefix and never does.
//!
//! O1: a foreign object is only read. Every request that writes or deletes refuses its key (`Bucket::path`).

/// The folder of table files in every prefix.
const FILES: &str = "sst/";

/// Whether `key` names an object of another database.
pub(crate) fn is_foreign(key: &str) -> bool {
    key.starts_with('/')
}

/// The origin of `key`, None for an own one, and the key below that origin.
pub(crate) fn split(key: &str) -> (Option<&str>, &str) {
    let Some(full) = key.strip_prefix('/') else { return (None, key) };
    // The part behind the last folder of table files has no slashes that could be taken for another one.
    match full.rfind(FILES) {
        Some(0) => (Some(""), full),
        Some(at) if full.as_bytes()[at - 1] == b'/' => (Some(&full[..at - 1]), &full[at..]),
        _ => (Some(""), full),
    }
}

/// The key of the object that `origin` calls `key`.
pub(crate) fn join(origin: &str, key: &str) -> String {
    if origin.is_empty() { format!("/{key}") } else { format!("/{origin}/{key}") }
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
