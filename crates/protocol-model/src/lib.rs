//! The protocol of `objstore::protocol` as a model: claim, fence, publish, ship, collect. A model checker
//! tries every order of the model's steps within a bound ([`Bound`]). In each state it checks the
//! [`invariants`], which docs/internals/rules.md and docs/internals/bucket.md promise.
//!
//! The modules, in the best order for reading: [`bucket`] has the objects and the requests on their way,
//! [`disk`] a local directory, [`owner`] the process that writes, [`publish`] its roots, [`claim`] the steps
//! by which a starting server takes over, [`open`] what that server does with its directory, [`restore`] what
//! a restore finds in the bucket alone, [`step`] the steps, and [`model`] all of
//! them together. [`pin`] is a separate model, of
//! pins and the collector.
//!
//! # What is in the model
//!
//! * Several servers, each with a directory. Any of them may start at any time, whatever the others do, as
//!   with `atoll_take_over=ON`. So safety does not depend on a new server waiting for the old owner. A
//!   process may die after each step, and its directory may be lost.
//! * A create-only PUT is a message that the bucket carries out at any later time: before or after the death
//!   of its sender, and a second time when it is repeated. Its sender learns the outcome only by reading the
//!   slot, so a lost reply is no special case. DELETEs are messages, too.
//! * The listing with which a claim begins may be stale. The listing behind the fence may be wrong: it may lack
//!   the newest slots, the fence among them.
//! * A transaction writes to two families, A and B, which are flushed one at a time. So one half of a
//!   transaction may be in a table file while the other half is only in the WAL. Families are created and
//!   dropped.
//!
//! # What is left out
//!
//! Uploads of table files are carried out at once, because a late one only creates an object that is never
//! read. One transaction is one chunk. The MANIFEST and the file map are part of their root, because the code
//! uploads both under names of their own before the root. Merged WAL objects, damaged objects and buckets
//! that were put back to an older state are not modelled.

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
pub mod step;

pub use model::{Protocol, State};
pub use step::Step;

/// How many events of each kind may happen in one history, which is one order of steps. The checker tries all
/// histories within this bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    /// The number of servers: each has a directory, in which one process may run.
    pub servers: u8,
    /// The most starts in one history, those of all servers together. Each start takes an epoch.
    pub starts: u8,
    /// The number of transactions.
    pub commits: u8,
    /// The number of flushes. Each flushes one family.
    pub flushes: u8,
    /// The number of compactions. Each merges all table files into one.
    pub compactions: u8,
    /// How many families are created.
    pub creates: u8,
    /// How many families are dropped.
    pub drops: u8,
    /// The number of roots of all owners together.
    pub roots: u8,
    /// How often a process dies. The end of a fenced process does not count.
    pub crashes: u8,
    /// How often a directory is lost while no process runs in it.
    pub lost_disks: u8,
    /// How often a local log loses its newest bytes while no process runs.
    pub damages: u8,
    /// How many PUTs are carried out a second time.
    pub repeats: u8,
    /// How many listings behind a fence are wrong.
    pub lies: u8,
    /// How many roots before the newest an owner keeps. The code keeps 16.
    pub roots_kept: u8,
}

impl Bound {
    /// A bound that allows `starts` starts of `servers` servers, `commits` transactions and `roots` roots,
    /// and no other events.
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
            lies: 0,
            roots_kept: 0,
        }
    }
}

/// The rules of the protocol. True: the rule is in force. Tests switch off one rule at a time (false), and
/// the checker must then find the error that the rule prevents.
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
    /// PUB-G6: a local table file is deleted only after a root that names it.
    pub root_before_evict: bool,
    /// PUB-G7: a root waits until the WAL is shipped up to its end at the time when a column family was
    /// dropped last.
    pub drop_before_root: bool,
    /// PUB-G8: a restore does not replay WAL that was written after a MANIFEST edit over a root without the
    /// edit.
    pub edit_before_replay: bool,
    /// PUB-G8: WAL that was written after a MANIFEST edit does not count as covered before a root with the
    /// edit is published.
    pub edit_before_cover: bool,
    /// STREAM-2: WAL bytes that follow bytes which were never shipped are treated like bytes that follow a
    /// MANIFEST edit.
    pub skip_is_edit: bool,
    /// Step 2 of the claim: a fence closes the roots of each former epoch.
    pub fence_roots: bool,
    /// CLAIM-4: after its fence was created, the claim looks for records in later slots. There are some if
    /// the fence came late and took the slot of a root that the owner had deleted.
    pub look_behind_fence: bool,
    /// LIST-1: the claim does not believe a listing without the fence that it has put, and lists again.
    pub fence_is_listed: bool,
    /// Step 4 of the claim: a fence closes the WAL of the base, the root from which the new epoch starts.
    pub fence_wal: bool,
    /// SLOT-1: a server that finds a slot taken reads which server won it. If the slot holds a record and no
    /// fence, the server continues with the next slot.
    pub read_lost_slot: bool,
    /// SHIP-1: only the contiguous prefix of chunks counts as shipped.
    pub contiguous_prefix: bool,
    /// CLAIM-3: no transaction counts as covered before the first root of an epoch.
    pub root_before_cover: bool,
    /// DIR-2: the local record of a root is written before the root.
    pub marker_before_root: bool,
    /// A local directory that is older than the base is set aside, not used, because it can lack transactions
    /// of the base.
    pub old_directory_aside: bool,
    /// Transactions that the bucket has and the local WAL lacks are added to the local WAL.
    pub compare_wals: bool,
}

impl Gates {
    /// All rules on: the protocol of the code.
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
        fence_is_listed: true,
        fence_wal: true,
        read_lost_slot: true,
        contiguous_prefix: true,
        root_before_cover: true,
        marker_before_root: true,
        old_directory_aside: true,
        compare_wals: true,
    };
}
