//! The bucket protocol: who owns the database, what is published, what a restore finds.
//!
//! In the order in which a database lives: `identity` names it; `open` decides about the local directory, `age`
//! refuses a bucket that is older, `alive` and `opener` are polite to a live owner, `claim` takes the next epoch and
//! fences the former ones, `local_wal` brings damaged local logs to what the bucket has; `restore` builds the directory
//! from an `image` of the bucket; `publisher` moves the bucket from root to root, `shipper` brings the WAL behind the
//! newest root, `lag` is what a commit looks at, `gc` deletes what no root needs. `records`, `codec` and `names` are
//! the formats (docs/internals/formats-bucket.md). [`Store`] is the facade; docs/internals/bucket.md tells the whole story.
//!
//! Invariants, quoted by the tests:
//!
//! IMAGE-1: a root in the bucket is restorable: its table files (PUB-G1), its MANIFEST bytes and the WAL it needs
//!          (PUB-G2) are there.
//! IMAGE-2: a slot has one content for ever; a publish happens exactly once, whatever reply is lost.
//! IMAGE-3: once an epoch is fenced its owner can neither publish nor acknowledge a synchronous commit.
//! IMAGE-4: what a restore finds is a prefix of the history of commits, and contains every covered one (PUB-G8).
//! IMAGE-5: nothing that the newest root needs is deleted.

mod age;
mod alive;
mod claim;
mod clone;
mod codec;
mod compact;
mod fsck;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod gc;
mod home;
mod identity;
mod image;
mod inspect;
mod labels;
mod lag;
mod local;
mod local_map;
mod local_wal;
mod map_record;
mod map_writer;
mod marks;
mod merger;
mod names;
mod open;
mod opener;
mod own_snapshots;
mod pin;
mod position;
mod publisher;
mod records;
mod replay;
mod restore;
mod rewind;
mod shared;
mod shipper;
mod slots;
mod snapshot;
mod state_copy;
mod store;
mod wal_record;
mod wal_runs;
mod wal_table;

pub use clone::{CloneRequest, CloneStatus};
pub use fsck::{FsckOptions, FsckReport, Unneeded};
pub use gc::GcPlan;
pub use identity::Parent;
pub use inspect::{
    DatabaseStatus, FileStatus, Inspector, ObjectCount, OwnerStatus, RootStatus, VerifyReport,
};
pub use marks::{BinlogPosition, Commit, CommitReader, Gtid};
pub use opener::Opener;
pub use position::NotedCommit;
pub use rewind::{RewindRequest, RewindStatus};
pub use snapshot::{SNAPSHOT_NAME_BYTES_MAX, SnapshotStatus};
pub use store::{Store, StoreStats};
#[cfg(test)]
pub(crate) use test_random::Random;

#[cfg(test)]
mod age_test;
#[cfg(test)]
mod bounded_test;
#[cfg(test)]
mod clone_test;
#[cfg(test)]
mod fencing_test;
#[cfg(test)]
mod fixtures_test;
#[cfg(test)]
mod fsck_test;
#[cfg(test)]
mod fuzzing_test;
#[cfg(test)]
mod gc_model_test;
#[cfg(test)]
mod inspect_test;
#[cfg(test)]
mod local_wal_test;
#[cfg(test)]
mod map_record_test;
#[cfg(test)]
mod maps_test;
#[cfg(test)]
mod model_test;
#[cfg(test)]
mod open_test;
#[cfg(test)]
mod publish_test;
#[cfg(test)]
mod records_test;
#[cfg(test)]
mod replay_test;
#[cfg(test)]
mod rewind_test;
#[cfg(test)]
mod s3_test;
#[cfg(test)]
mod short_wal_test;
#[cfg(test)]
mod sim_checks;
#[cfg(test)]
mod sim_test;
#[cfg(test)]
mod sim_world;
#[cfg(test)]
mod snapshot_test;
#[cfg(test)]
mod supervision_test;
#[cfg(test)]
mod test_db;
#[cfg(test)]
mod test_found;
#[cfg(test)]
mod test_random;
#[cfg(test)]
mod wal_runs_test;
#[cfg(test)]
mod wal_table_test;
