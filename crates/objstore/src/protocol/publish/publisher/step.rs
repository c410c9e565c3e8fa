//! The result of one attempt to publish.

/// How one attempt to publish, or one of its steps, ended.
pub(super) enum Step {
    /// The newest root has everything that the snapshot has.
    Published,
    /// `put_manifest`: the MANIFEST is in the bucket. `publish`: this process is fenced and can publish no
    /// more.
    Done,
    /// RocksDB has removed a file or a MANIFEST of the snapshot; take a new snapshot at once.
    Again,
    /// There is nothing to publish now, or it cannot be published yet.
    Nothing,
}
