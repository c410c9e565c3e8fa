//! The bucket protocol: who owns the database, what is published, what a restore finds.
//!
//! In the order in which a database lives: `identity` names it; `open` decides about the local directory,
//! `lineage` refuses a bucket of another history, `age` a bucket older than the directory, `alive` and
//! `opener` are polite to a live owner, `claim` takes the next epoch and fences the former ones, `local_wal`
//! brings damaged local logs to what the bucket has; `restore` builds the directory from an `image` of the
//! bucket; `publisher` moves the bucket from root to root, `shipper` brings the WAL behind the newest root,
//! `lag` is what a commit looks at, `gc` deletes what no root needs. `records`, `codec` and `names` are the
//! formats (docs/internals/formats-bucket.md). [`Store`] is the facade; docs/internals/bucket.md tells the
//! whole story.
//!
//! The folders: `start` opens, `wal` ships and replays the log, `publish` moves the bucket, `gc` cleans it,
//! `history` keeps and brings back states that are not the newest, `copies` makes second databases,
//! `inspection` shows a database, `format` defines what stands in the bucket.
//!
//! Invariants, quoted by the tests:
//!
//! IMAGE-1: a root in the bucket is restorable: its table files (PUB-G1), its MANIFEST bytes and the WAL it needs
//!          (PUB-G2) are there.
//! IMAGE-2: a slot has one content for ever; a publish happens exactly once, whatever reply is lost.
//! IMAGE-3: once an epoch is fenced its owner can neither publish nor acknowledge a synchronous commit.
//! IMAGE-4: what a restore finds is a prefix of the history of commits, and contains every covered one (PUB-G8).
//! IMAGE-5: nothing that the newest root needs is deleted.

mod copies;
mod format;
mod gc;
mod history;
mod inspection;
mod own_keys;
mod publish;
mod shared;
mod start;
mod store;
mod store_stats;
#[cfg(test)]
mod testing;
mod wal;

pub use copies::adopt::{Adopted, Progress};
pub use copies::materialize::MaterializeStatus;
pub use copies::mirror::{CopyRequest, CopyStatus};
pub use copies::prove::Proof;
#[cfg(any(test, feature = "fuzzing"))]
pub use format::fuzzing;
pub use gc::{GcPlan, HistoryLimits};
pub use history::clone::{CloneRequest, CloneStatus};
pub use history::mounts::mount::Mount;
pub use history::mounts::visitor::Visitor;
pub use history::past::Past;
pub use history::rewind::{RewindRequest, RewindStatus};
pub use history::snapshot::{SNAPSHOT_NAME_BYTES_MAX, SnapshotStatus};
pub use inspection::diff::{ComparedState, PRESENT, StateDiff, TableBytes};
pub use inspection::families::FileOwner;
pub use inspection::fsck::{FsckOptions, FsckReport, Unneeded};
pub use inspection::inspect::{
    DatabaseStatus, FileStatus, Inspector, ObjectCount, OwnerStatus, RootStatus, VerifyReport,
};
pub use inspection::space::{ObjectKind, Space, SpaceObject, SpaceUse};
pub use inspection::table_names::{NamedIndex, NamedTable, TableNames};
pub use inspection::tail::{FileChange, Follower, TailEvent};
pub use start::identity::Parent;
pub use start::opener::Opener;
pub use store::Store;
pub use store_stats::StoreStats;
#[cfg(test)]
pub(crate) use testing::test_random::Random;
pub use wal::marks::{BinlogPosition, Commit, CommitReader, Gtid};
pub use wal::position::NotedCommit;
