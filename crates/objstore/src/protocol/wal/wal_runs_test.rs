//! Goal:   the number of objects stays bounded whatever the chunks are like, and merging writes a byte only a
//!         few times.
//! Method: long streams of chunks of several sizes, and of random sizes from a printed seed, go through a
//!         RunTable alone.

use crate::protocol::testing::test_random::Random;
use crate::protocol::wal::wal_record::WalRun;
use crate::protocol::wal::wal_runs::*;

const LIMITS: MergeLimits = MergeLimits::SERVER;

/// A stream of chunks. Each merge that the table plans is done at once, and a root is published after each
/// merge.
#[derive(Default)]
struct Stream {
    table: RunTable,
    cut: u64,
    bytes_cut: u64,
    bytes_merged: u64,
    merges: u64,
    most: usize,
}

impl Stream {
    fn chunk(&mut self, bytes: u64) {
        self.table.chunk_cut(bytes);
        self.cut += 1;
        self.bytes_cut += bytes;
        while let Some(merge) = self.table.plan(&LIMITS, self.cut) {
            self.check(&merge);
            let size = merge.sources.iter().map(|source| match source {
                Source::Run(run) => run.bytes,
                Source::Chunk(_) => bytes,
            });
            let size = size.sum::<u64>().min(LIMITS.run_bytes_max);
            self.bytes_merged += size;
            self.merges += 1;
            self.table.merged(&merge, size);
            assert_eq!(
                self.table.plan(&LIMITS, self.cut),
                None,
                "nothing is planned before a root names the run"
            );
            let runs = self.table.runs().to_vec();
            self.table.root_published(&runs, 0);
        }
        self.most = self.most.max(self.table.objects());
        let runs = self.table.runs();
        let ends = runs.iter().map(|run| run.end).collect::<Vec<_>>();
        assert!(
            runs.iter().skip(1).map(|run| run.first).eq(ends.iter().copied().take(runs.len().max(1) - 1))
        );
        assert_eq!(
            ends.last().unwrap_or(&0) + (self.table.objects() - self.table.runs().len()) as u64,
            self.cut
        );
    }

    fn check(&self, merge: &Merge) {
        let mut next = merge.first;
        for source in &merge.sources {
            next = match source {
                Source::Run(run) if run.first == next => run.end,
                Source::Chunk(chunk) if *chunk == next => next + 1,
                other => panic!("{other:?} does not follow chunk {next}"),
            };
        }
        assert_eq!(next, merge.end);
        assert!(merge.sources.len() > 1);
    }
}

#[test]
fn a_trickle_of_four_days_stays_below_eighty_objects() {
    // One commit of 400 bytes a second.
    let mut stream = Stream::default();
    for _ in 0..4 * 86_400 {
        stream.chunk(400);
    }
    assert!(stream.most <= LIMITS.objects_max + 1, "{} objects", stream.most);
    let times = stream.bytes_merged / stream.bytes_cut;
    assert!(times <= 8, "each byte was written {times} times more");
}

#[test]
fn a_gigabyte_of_any_chunks_stays_below_eighty_objects() {
    for bytes in [4_000, 40_000, 400_000, 2 << 20] {
        let mut stream = Stream::default();
        while stream.bytes_cut < 1 << 30 {
            stream.chunk(bytes);
        }
        assert!(stream.most <= LIMITS.objects_max + 1, "chunks of {bytes} bytes: {} objects", stream.most);
        let times = stream.bytes_merged / stream.bytes_cut;
        assert!(times <= 6, "chunks of {bytes} bytes: each byte was written {times} times more");
    }
}

#[test]
fn bursts_and_trickles_stay_below_eighty_objects() {
    let mut random = Random::from_environment("bursts_and_trickles_stay_below_eighty_objects");
    for _ in 0..5 {
        let mut stream = Stream::default();
        while stream.bytes_cut < 1 << 30 {
            let bytes = [100, 5_000, 200_000, 2 << 20][random.below(4) as usize];
            for _ in 0..random.below(500) {
                stream.chunk(1 + random.below(bytes));
            }
        }
        assert!(stream.most <= LIMITS.objects_max + 1, "seed {}: {} objects", random.seed, stream.most);
    }
}

#[test]
fn chunks_that_have_not_arrived_are_not_merged() {
    let mut table = RunTable::default();
    for _ in 0..40 {
        table.chunk_cut(10);
    }
    assert_eq!(table.plan(&LIMITS, 23), None);
    let merge = table.plan(&LIMITS, 25).unwrap();
    assert_eq!((merge.first, merge.end, merge.sources.len()), (0, 25, 25));
}

#[test]
fn a_load_whose_wal_is_flushed_in_time_is_not_written_again() {
    // With a small block cache, RocksDB keeps at most 128 MiB of WAL: 64 chunks of 2 MiB.
    const LIVE_CHUNKS: u64 = 64;
    let mut table = RunTable::default();
    for cut in 1..=2_000_u64 {
        table.chunk_cut(2 << 20);
        assert_eq!(table.plan(&LIMITS, cut), None, "chunk {cut}");
        table.root_published(&[], cut.saturating_sub(LIVE_CHUNKS));
    }
}

#[test]
fn a_run_that_became_superfluous_is_named_once_and_then_forgotten() {
    let mut table = RunTable::default();
    for _ in 0..40 {
        table.chunk_cut(10);
    }
    let merge = table.plan(&LIMITS, 40).unwrap();
    table.begin(&merge);
    assert_eq!(table.on_their_way().count(), 1);
    // While the merge is on its way, a flush publishes a root that needs none of its chunks.
    table.root_published(&[], 40);
    table.merged(&merge, 1000);
    assert!(table.is_unnamed());
    let runs = table.runs().to_vec();
    assert_eq!(runs, vec![WalRun { first: 0, end: 40, bytes: 1000 }]);
    table.root_published(&runs, 40);
    assert!(!table.is_unnamed() && table.runs().is_empty() && table.objects() == 0);
    assert_eq!(table.on_their_way().count(), 0, "the collector would keep its object");
}
