//! Goal:   the copied log is the same, in whatever steps it is read.
//! Method: the log of a simulated database (test_db.rs) is read in large steps and chunk by chunk.

use crate::protocol::format::records::WalChunk;
use crate::protocol::history::log_copy::{LogReader, Sizes};
use crate::protocol::history::snapshot::Moment;
use crate::protocol::history::snapshot_test::Fixture;
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::testing::test_db::*;
use crate::requests::bucket::Bucket;

/// Returns the chunks, and the most bytes that one call returned.
fn read(from: &Bucket, moment: &Moment, sizes: Sizes) -> (Vec<WalChunk>, usize) {
    let mut reader = LogReader::with_sizes(from, 5, moment, sizes);
    let (mut all, mut most) = (Vec::new(), 0);
    while let Some(chunks) = block(reader.next()).unwrap() {
        most = most.max(chunks.iter().map(|chunk| chunk.bytes.len()).sum());
        all.extend(chunks);
    }
    (all, most)
}

#[test]
fn the_copied_log_is_the_same_in_whatever_steps_it_is_read() {
    let mut f = Fixture::new();
    // The commit that the fixture has made is not in the form of RocksDB.
    f.db.flush(0, true);
    f.db.flush(1, true);
    f.db.delete_obsolete_wals();
    for group in 0..20 {
        f.db.commit_group(1_000_000 + 3 * group, 1 + 3 * group, 3);
        f.db.sync();
        f.db.store.wait_shipped(f.db.store.wal_position(), WAIT).unwrap();
    }
    f.db.store.publish(WAIT).unwrap();
    // The owner stops: nothing pins the log that is read, so its collector could delete pieces of it.
    crash(f.db);
    let moment = block(Inspector::new(f.bucket.clone()).moment()).unwrap();
    for piece_bytes in [1, 200, 4 << 20] {
        let (whole, bytes) = read(&f.bucket, &moment, Sizes { step_bytes: usize::MAX, piece_bytes });
        let (steps, most) = read(&f.bucket, &moment, Sizes { step_bytes: 1, piece_bytes });
        assert!(whole == steps, "pieces of {piece_bytes}");
        assert!(whole.iter().enumerate().all(|(at, chunk)| (chunk.epoch, chunk.chunk) == (5, at as u64)));
        assert!(piece_bytes > 200 || most < bytes / 2, "{most} of {bytes} bytes at a time");
    }
}
