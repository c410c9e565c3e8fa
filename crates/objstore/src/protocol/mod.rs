//! The bucket protocol: who owns the database, what the owner publishes, and what a restore reads.
//!
//! The modules in the order in which a database uses them: `identity` names the database. `open` decides
//! whether the local directory can be used; `lineage` refuses a bucket of another history, and `age` a bucket
//! older than the directory. `alive` and `opener` refuse to take over from an owner that still runs. `claim`
//! takes the next epoch and fences the former ones. `local_wal` repairs damaged local logs from the bucket.
//! `restore` builds the directory from one root, which `image` reads. `publisher` creates root after root,
//! `shipper` uploads the WAL, commits ask `lag` how far the bucket is behind the local disk, and `gc` deletes
//! objects that nothing needs. `records`, `codec` and `names` are the formats
//! (docs/internals/formats-bucket.md). [`Store`] is the interface to all of them; docs/internals/bucket.md
//! explains the whole protocol.
//!
//! The folders: `start` opens a database, `wal` ships and replays the log, `publish` creates roots, `gc`
//! deletes objects, `history` keeps and restores states that are not the newest, `copies` makes second
//! databases, `inspection` shows what a bucket holds, `format` defines the objects in the bucket.
//!
//! The invariants, which the tests quote:
//!
//! IMAGE-1: a root can be restored as long as it is the newest, because it is created only after its table
//!     files (gate PUB-G1), its MANIFEST bytes and the WAL that it needs (gates PUB-G2, PUB-G7) are in
//!     the bucket.
//! IMAGE-2: the content of a slot never changes. A publish happens exactly once, even if the reply to its
//!     request is lost.
//! IMAGE-3: once an epoch is fenced, its owner can neither publish nor, with durability `sync`, acknowledge a
//!     commit.
//! IMAGE-4: a restore finds all commits up to one of them, and none that is later. All covered commits are
//!     among them, because a commit counts as covered only when a restore would replay it (gate PUB-G8).
//! IMAGE-5: no object that the newest root needs is deleted.

mod copies;
mod format;
mod gc;
mod history;
mod inspection;
mod kept_settings;
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
pub use copies::left_behind::LeftBehind;
pub use copies::materialize::MaterializeStatus;
pub use copies::mirror::{CopyRequest, CopyStatus};
pub use copies::prove::{LastProof, Proof};
pub use copies::remove::RemovalStatus;
pub use copies::reset::check_clone_of;
#[cfg(any(test, feature = "fuzzing"))]
pub use format::fuzzing;
pub use gc::{GcPlan, HistoryLimits};
pub use history::clone::{CloneRequest, CloneStatus};
pub use history::hand_over::{Choice, HandOvers, Outcome, origin_of};
pub use history::mounts::mount::Mount;
pub use history::mounts::reader::Reader;
pub use history::mounts::visitor::Visitor;
pub use history::own_snapshots::readers_of;
pub use history::past::Past;
pub use history::replica::check_replica_start;
pub use history::rewind::{RewindRequest, RewindStatus};
pub use history::snapshot::{SNAPSHOT_NAME_BYTES_MAX, SnapshotStatus};
pub use inspection::diff::{ComparedState, PRESENT, StateDiff, TableBytes};
pub use inspection::families::FileOwner;
pub use inspection::fsck::{FsckOptions, FsckReport, Unneeded};
pub use inspection::inspect::{DatabaseStatus, FileStatus, Inspector, ObjectCount, OwnerStatus, RootStatus};
pub use inspection::sharing::Sharing;
pub use inspection::space::{ObjectKind, Space, SpaceObject, SpaceUse};
pub use inspection::table_names::{NamedIndex, NamedTable, TableNames};
pub use inspection::tail::{FileChange, Follower, TailEvent};
pub use inspection::verify::{KeptReport, VerifyReport};
pub use kept_settings::{KeptSettings, SettingsChange};
pub use start::identity::Parent;
pub use start::opener::Opener;
pub use store::Store;
pub use store_stats::StoreStats;
#[cfg(test)]
pub(crate) use testing::test_random::Random;
pub use wal::marks::{BinlogPosition, Commit, CommitReader, Gtid};
pub use wal::position::NotedCommit;
