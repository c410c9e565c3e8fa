//! The protocol of `objstore::protocol` as a model: claim, fence, publish, ship, collect. A checker walks through every
//! order of its steps within a bound ([`Bound`]) and looks in each state whether what
//! docs/internals/rules.md and docs/internals/bucket.md promise holds ([`invariants`]).
//!
//! In the order in which a reader meets them: [`bucket`] has the objects and the requests on their way, [`disk`] a local
//! directory, [`owner`] the process that writes, [`publish`] its roots, [`claim`] the steps of a newcomer, [`open`]
//! what it makes of its directory, [`restore`] what is found in the bucket alone, [`model`] all steps together.
//! [`pin`] is a model of its own: pins and the collector.
//!
//! # What is in the model
//!
//! * Several servers, each with a directory. Any of them may start at any time, whatever the others do (`atoll_take_over=ON`
//!   always: politeness is no argument for safety). A process may die after each step, and its directory may be lost.
//! * A create-only PUT is a message that lands when it likes: before or after the death of its sender, and once more,
//!   when it is repeated. Its sender learns the outcome by reading the slot only, so a reply that was lost is no special
//!   case. DELETEs are messages as well.
//! * The listing with which a claim begins may be old.
//! * A transaction writes to two families, A and B, which are flushed one at a time: half of it may be in a table file while
//!   the other half is in the WAL only. Families are created and dropped.
//!
//! # What is left out
//!
//! Uploads of table files land at once: one that lands late makes an object without a reader. One transaction is one chunk.
//! The MANIFEST and the file map are part of their root: both are in the bucket before it, under names of their own.
//! Merged WAL objects, damaged objects and buckets that were put back are not modelled.

pub mod bucket;
pub mod claim;
pub mod disk;
pub mod invariants;
pub mod model;
pub mod open;
pub mod owner;
pub mod pin;
pub mod publish;
pub mod restore;

pub use model::{Protocol, State, Step};

/// How much may happen in one history: the checker walks through all histories that stay within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    /// Directories, each of which may have a process.
    pub servers: u8,
    /// Starts of all servers together; each takes an epoch.
    pub starts: u8,
    /// Transactions.
    pub commits: u8,
    /// Flushes of one family.
    pub flushes: u8,
    /// Compactions, each of all table files into one.
    pub compactions: u8,
    /// Families created.
    pub creates: u8,
    /// Families dropped.
    pub drops: u8,
    /// Roots of all owners together.
    pub roots: u8,
    /// Deaths of a process; a fenced process ends without one.
    pub crashes: u8,
    /// Directories lost while no process runs in them.
    pub lost_disks: u8,
    /// Local logs that lose their end while no process runs.
    pub damages: u8,
    /// PUTs that land once more after they have landed.
    pub repeats: u8,
    /// Roots that an owner keeps in front of its newest; the code keeps 16.
    pub roots_kept: u8,
}

impl Bound {
    /// Nothing happens but `starts` starts of `servers` servers with `commits` transactions and `roots` roots.
    pub const fn new(servers: u8, starts: u8, commits: u8, roots: u8) -> Self {
        Self {
            servers,
            starts,
            commits,
            flushes: 0,
            compactions: 0,
            creates: 0,
            drops: 0,
            roots,
            crashes: 0,
            lost_disks: 0,
            damages: 0,
            repeats: 0,
            roots_kept: 0,
        }
    }
}

/// The rules of the protocol, each of which can be switched off to see that the checker finds what it prevents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gates {
    /// PUB-G1: a root waits until every table file it names is in the bucket.
    pub files_before_root: bool,
    /// PUB-G2: a root waits until the WALs below the newest are shipped.
    pub wal_before_root: bool,
    /// PUB-G3: an object is deleted only after a root without it.
    pub root_before_delete: bool,
    /// PUB-G4: WAL chunks and roots are deleted only after a root that does not need them.
    pub root_before_trim: bool,
    /// PUB-G6: a local table file is given up only after a root that names it.
    pub root_before_evict: bool,
    /// PUB-G7: a root waits until the WAL is shipped up to the last drop of a family.
    pub drop_before_root: bool,
    /// PUB-G8: WAL behind a MANIFEST edit is not replayed over a root without the edit.
    pub edit_before_replay: bool,
    /// PUB-G8: WAL behind a MANIFEST edit is not counted as covered before a root with the edit.
    pub edit_before_cover: bool,
    /// STREAM-2: WAL bytes that follow bytes which were never shipped are treated like bytes that follow a MANIFEST edit.
    pub skip_is_edit: bool,
    /// Step 2 of the claim: a fence closes the roots of each former epoch.
    pub fence_roots: bool,
    /// The claim looks for records behind its fence, because the owner may have deleted roots in front of a late fence.
    pub look_behind_fence: bool,
    /// Step 4 of the claim: a fence closes the WAL of the base.
    pub fence_wal: bool,
    /// SLOT-1: a server that finds a slot taken reads which server won, and goes on behind a
    /// record.
    pub read_lost_slot: bool,
    /// SHIP-2: only the contiguous prefix of chunks counts as shipped.
    pub contiguous_prefix: bool,
    /// CLAIM-3: nothing counts as covered before the first root of an epoch.
    pub root_before_cover: bool,
    /// DIR-2: the local record of a root is written before the root.
    pub marker_before_root: bool,
    /// A directory that is older than the base is set aside.
    pub old_directory_aside: bool,
    /// The local WAL gets what only the bucket has.
    pub compare_wals: bool,
}

impl Gates {
    /// The protocol as it is.
    pub const ALL: Self = Self {
        files_before_root: true,
        wal_before_root: true,
        root_before_delete: true,
        root_before_trim: true,
        root_before_evict: true,
        drop_before_root: true,
        edit_before_replay: true,
        edit_before_cover: true,
        skip_is_edit: true,
        fence_roots: true,
        look_behind_fence: true,
        fence_wal: true,
        read_lost_slot: true,
        contiguous_prefix: true,
        root_before_cover: true,
        marker_before_root: true,
        old_directory_aside: true,
        compare_wals: true,
    };
}
