//! The steps of the model.

use crate::bucket::Request;

/// One step of the model. The first number, if there is one, is the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A server starts.
    Start(u8),
    /// A claiming process (the first number is its server) lists the roots of a former epoch. The listing
    /// shows the slots below the second number: all slots, or fewer if the listing is stale.
    List(u8, u8),
    /// A claiming process takes the next step of its claim.
    Claim(u8),
    /// A claiming process has listed the slots behind its fence, and the listing lacks that fence.
    Lie(u8),
    /// The owner commits a transaction.
    Commit(u8),
    /// RocksDB flushes family A (true) or B.
    Flush(u8, bool),
    /// RocksDB compacts all table files.
    Compact(u8),
    /// RocksDB deletes the WALs that it does not need any more.
    DeleteWal(u8),
    /// A family is created.
    Create(u8),
    /// A family is dropped.
    Drop(u8),
    /// The uploader uploads the table file with the second number.
    Upload(u8, u8),
    /// The owner deletes its local copy of the table file with the second number, which is in the bucket.
    Evict(u8, u8),
    /// The shipper sends a chunk.
    Ship(u8),
    /// The shipper reads the slot of the chunk with the second number, to learn whether the chunk is there.
    Shipped(u8, u8),
    /// The publisher takes a snapshot of the database for a root.
    Snapshot(u8),
    /// The publisher sends the root of its snapshot, or takes a new snapshot if that one is stale.
    Send(u8),
    /// The publisher reads the slot of its root to learn whether the root is there.
    Published(u8),
    /// The process dies.
    Crash(u8),
    /// The local directory is lost.
    LoseDisk(u8),
    /// The local WAL loses its newest bytes.
    Damage(u8),
    /// The bucket carries out a request.
    Land(Request),
    /// The bucket carries out a request, and will carry it out a second time.
    LandTwice(Request),
}
