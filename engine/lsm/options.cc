#include "lsm/options.h"

#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/table_properties_collectors.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <thread>

#include "lsm/blocks/split_compression.h"
#include "lsm/figures/work_statistics.h"

namespace atoll::lsm {
namespace {

struct AlgorithmName {
  Algorithm algorithm;
  std::string_view name;
};

// Stored in family names: append only.
constexpr std::array<AlgorithmName, 4> kAlgorithms = {{{Algorithm::kNone, "none"},
                                                       {Algorithm::kLz4, "lz4"},
                                                       {Algorithm::kZstd, "zstd"},
                                                       {Algorithm::kZlib, "zlib"}}};

rocksdb::CompressionType to_rocksdb(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kNone:
      return rocksdb::kNoCompression;
    case Algorithm::kLz4:
      return rocksdb::kLZ4Compression;
    case Algorithm::kZstd:
      return rocksdb::kZSTD;
    case Algorithm::kZlib:
      return rocksdb::kZlibCompression;
  }
  return rocksdb::kNoCompression;
}

rocksdb::CompressionOptions compression_options(const Compression &compression) {
  rocksdb::CompressionOptions options;
  options.enabled = true;
  if (compression.level != 0) options.level = compression.level;
  return options;
}

// Tombstones and old versions that one search or step may pass in a memtable.
constexpr uint32_t kHiddenEntriesMax = 10000;
// A file is compacted when half of some entries in a row, or of all, are deletions.
constexpr size_t kDeletionWindow = 1024, kDeletionsInWindow = 512;
constexpr double kDeletionRatio = 0.5;

// The part of a memtable's size that its filter takes. It gives eight bits to each entry of 200 bytes; of a
// hundred searches for keys that the memtable lacks, three then still walk its skip list. The shared family's
// entries are smaller.
constexpr double kMemtableFilterPart = 0.005, kSharedMemtableFilterPart = 0.02;
constexpr uint64_t kFiltersPartOfBudget = 8;

// A search by key need not walk a memtable that lacks the key: that was half of a lookup under TPC-C.
void filter_memtables(double part, rocksdb::ColumnFamilyOptions *options) {
  options->memtable_whole_key_filtering = true;
  options->memtable_prefix_bloom_size_ratio = part;
}

// With this many threads, the merge of the sorted runs is slower than the compression.
constexpr int kCompressionThreadsMax = 4;

bool parse_number(std::string_view text, uint64_t *number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

// Measured with 800,000 rows of 14 + 42 bytes, 33 of them random letters and digits (24.6 bytes), without
// filters; in two streams with differences, without (split_block.h), and in one:
//
//   zstd 3, blocks of 16 KiB   25.2  27.9  31.8 bytes a row    zstd 1, 32 KiB   24.9  27.2  31.2
//                     32 KiB   24.9  27.2  30.6                zstd 6, 32 KiB   24.9  27.0  30.5
//                     64 KiB   24.8  26.4  29.7                zlib,   32 KiB   25.2  28.6  32.9
//
// Scans decompress 6 to 8 million rows a second and core in all of these cases. 16 KiB blocks give nearly all
// of the gain; larger ones make each point read decompress more.
rocksdb::BlockBasedTableOptions table_options(const SharedParts &parts) {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = parts.block_cache;
  table.block_size = 16 * 1024;
  // A point lookup decodes half an interval of entries; RocksDB's 16 made that a tenth of its instructions.
  table.block_restart_interval = 8;
  table.filter_policy = parts.filter;
  table.whole_key_filtering = true;
  // Index and filter blocks count against the block cache, so that one number bounds memory whatever the
  // number of tables; the metadata of L0 files, which every read consults, stays pinned.
  table.cache_index_and_filter_blocks = true;
  table.cache_index_and_filter_blocks_with_high_priority = true;
  table.metadata_cache_options.unpartitioned_pinning = rocksdb::PinningTier::kFlushedAndSimilar;
  table.metadata_cache_options.top_level_index_pinning = rocksdb::PinningTier::kAll;
  table.index_type = rocksdb::BlockBasedTableOptions::kBinarySearch;
  table.checksum = rocksdb::kXXH3;
  table.format_version = 7;
  // Iterators grow their reads up to this; one read is one bucket request, and TableReader fetches ahead.
  table.max_auto_readahead_size = 1024 * 1024;
  table.initial_auto_readahead_size = 64 * 1024;
  return table;
}

// Common to both databases.
rocksdb::DBOptions base_options(const SharedParts &parts) {
  rocksdb::DBOptions options;
  options.create_if_missing = true;
  options.write_buffer_manager = parts.write_buffers;
  options.statistics = parts.statistics;
  // max_background_jobs is not used, because it gives flushes a quarter of the threads: a flush mostly waits
  // for fsync, and a shutdown with many families has many flushes to do. They share their MANIFEST syncs.
  options.max_background_flushes = std::clamp(parts.threads, 2, 4);
  options.max_background_compactions = std::max(parts.threads, 1);
  options.max_subcompactions = static_cast<uint32_t>(std::max(parts.threads, 1));
  options.max_total_wal_size = parts.wal_bytes_max;
  options.stats_dump_period_sec = 0;  // SHOW STATUS does that
  options.stats_persist_period_sec = 0;
  options.max_log_file_size = 4 << 20;
  options.keep_log_file_num = 3;
  return options;
}

}  // namespace

// ---- Names ---------------------------------------------------------------------------------------

std::string format_family_name(const FamilyName &name) {
  std::string_view algorithm = "none";
  for (const AlgorithmName &entry : kAlgorithms) {
    if (entry.algorithm == name.compression.algorithm) algorithm = entry.name;
  }
  char text[64];
  std::snprintf(text, sizeof(text), "t%08llu.%.*s.%d", static_cast<unsigned long long>(name.sequence),
                static_cast<int>(algorithm.size()), algorithm.data(), name.compression.level);
  return text;
}

std::optional<FamilyName> parse_family_name(std::string_view name) {
  const size_t first = name.find('.');
  const size_t second = first == std::string_view::npos ? first : name.find('.', first + 1);
  if (second == std::string_view::npos || name.front() != 't') return std::nullopt;
  FamilyName result;
  uint64_t level = 0;
  if (!parse_number(name.substr(1, first - 1), &result.sequence)) return std::nullopt;
  if (!parse_number(name.substr(second + 1), &level) || level > 100) return std::nullopt;
  result.compression.level = static_cast<int>(level);
  const std::string_view algorithm = name.substr(first + 1, second - first - 1);
  for (const AlgorithmName &entry : kAlgorithms) {
    if (entry.name != algorithm) continue;
    result.compression.algorithm = entry.algorithm;
    return result;
  }
  return std::nullopt;
}

// ---- Shared --------------------------------------------------------------------------------------

uint64_t block_cache_capacity(uint64_t requested_bytes) {
  // Below this, index blocks evict each other and nothing works.
  constexpr uint64_t kBytesMin = 8ull << 20;
  return std::max(requested_bytes, kBytesMin);
}

SharedParts make_shared_parts(const DatabaseOptions &options) {
  SharedParts parts;
  // HyperClockCache: lookups take no lock, so parallel scans and many connections do not meet in it; LRU
  // takes a shard mutex at each hit.
  rocksdb::HyperClockCacheOptions cache(block_cache_capacity(options.block_cache_bytes), 0);
  parts.block_cache = cache.MakeSharedCache();
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  parts.threads = options.background_threads > 0 ? options.background_threads : cores;
  // Memtables get a quarter of the cache, as their size decides how often data is rewritten, not how fast it
  // is read. They have a budget of their own and are not charged to the block cache: a load must not evict
  // what readers have warmed.
  const uint64_t derived = std::clamp<uint64_t>(options.block_cache_bytes / 4, 64ull << 20, 512ull << 20);
  const uint64_t budget = options.memtable_bytes != 0 ? options.memtable_bytes : derived;
  parts.write_buffers = std::make_shared<rocksdb::WriteBufferManager>(budget);
  parts.memtable_bytes = std::clamp<uint64_t>(budget / 2, 1ull << 20, 64ull << 20);
  // Set explicitly, because RocksDB's default is four times the size of all memtables: one idle family pinned
  // 206 MB.
  parts.wal_bytes_max = options.wal_bytes_max != 0 ? options.wal_bytes_max : 2 * budget;
  parts.statistics = std::make_shared<WorkStatistics>();
  parts.deletions =
      rocksdb::NewCompactOnDeletionCollectorFactory(kDeletionWindow, kDeletionsInWindow, kDeletionRatio);
  parts.filter.reset(rocksdb::NewBloomFilterPolicy(10));
  return parts;
}

// ---- Databases -----------------------------------------------------------------------------------

uint64_t filtered_families_max(const SharedParts &parts) {
  const double filter_bytes = static_cast<double>(parts.memtable_bytes) * kMemtableFilterPart;
  const uint64_t filters_budget = parts.write_buffers->buffer_size() / kFiltersPartOfBudget;
  return static_cast<uint64_t>(static_cast<double>(filters_budget) / filter_bytes);
}

rocksdb::DBOptions main_database_options(const DatabaseOptions & /*options*/, const SharedParts &parts) {
  rocksdb::DBOptions options = base_options(parts);
  // A torn end of the newest WAL is what a crash leaves and ends recovery; anything behind a hole is
  // dropped with it, so that what comes back is a prefix. Closed WALs are synced before the flush that
  // follows them, so a hole before the end is damage, which RocksDB reports for families already ahead.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  options.recycle_log_file_num = 0;  // shipped WAL bytes are never overwritten
  options.avoid_flush_during_shutdown = false;
  options.avoid_flush_during_recovery = false;
  // A cold start must not read every table's index from the bucket. A finite limit makes RocksDB open
  // tables when they are first read; DatabaseImpl raises this after open (see kOpenFilesAtStart there).
  options.max_open_files = 20;
  options.skip_stats_update_on_db_open = true;
  options.verify_sst_unique_id_in_manifest = true;
  options.max_manifest_file_size = 8ull << 20;  // each roll is copied to the bucket whole
  options.allow_2pc = true;
  // Retries of background work after a full disk or a silent bucket: for ever, once a second.
  options.max_bgerror_resume_count = std::numeric_limits<int>::max();
  options.bgerror_resume_retry_interval = 1000000;
  // A flush or compaction has at most two such pieces on their way to the disk: the sync of the log, which
  // commits wait for, would have to wait behind all of them.
  options.bytes_per_sync = 1 << 20;
  options.strict_bytes_per_sync = true;
  options.enable_pipelined_write = false;
  return options;
}

rocksdb::DBOptions temp_database_options(const DatabaseOptions & /*options*/, const SharedParts &parts) {
  rocksdb::DBOptions options = base_options(parts);
  options.max_open_files = -1;
  options.allow_2pc = false;
  options.avoid_flush_during_shutdown = true;  // wiped at the next start
  options.paranoid_checks = false;
  return options;
}

rocksdb::TransactionDBOptions transaction_options() {
  rocksdb::TransactionDBOptions options;
  options.write_policy = rocksdb::TxnDBWritePolicy::WRITE_COMMITTED;
  options.skip_concurrency_control = true;  // locks are Atoll's own (engine/txn)
  options.num_stripes = 1;                  // of its unused lock tables, which it makes for each family
  options.transaction_lock_timeout = 0;
  options.default_lock_timeout = 0;
  return options;
}

// ---- Families ------------------------------------------------------------------------------------

rocksdb::ColumnFamilyOptions family_options(const Compression &compression, const SharedParts &parts) {
  rocksdb::ColumnFamilyOptions options;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table_options(parts)));
  options.write_buffer_size = parts.memtable_bytes;
  options.max_write_buffer_number = 4;
  // 5,000 families each hold at least one arena block while they have a row in memory.
  options.arena_block_size = 128 * 1024;
  options.level_compaction_dynamic_level_bytes = true;
  options.target_file_size_base = kTableFileBytes;
  options.max_bytes_for_level_base = 4 * kTableFileBytes;
  options.compaction_pri = rocksdb::kMinOverlappingRatio;
  // Upper levels are rewritten soon and hold a tenth of the data: fast compression there, the chosen one at
  // the bottom. It is set through bottommost_*, because compression_opts.level would apply to LZ4 as well.
  const bool plain = compression.algorithm == Algorithm::kNone;
  options.compression = plain ? rocksdb::kNoCompression : rocksdb::kLZ4Compression;
  options.bottommost_compression = to_rocksdb(compression.algorithm);
  options.bottommost_compression_opts = compression_options(compression);
  options.compression_manager = split_compression_manager();
  options.memtable_batch_lookup_optimization =
      true;  // a MultiGet's keys are sorted: each search begins at the last
  // A table used as a queue deletes rows at the end that it reads from. Without the next two options, each
  // read of the queue's head would pass all entries deleted since the last compaction. With them, a read that
  // passes kHiddenEntriesMax of these makes RocksDB flush the memtable, and RocksDB compacts files full of
  // deletions.
  options.memtable_op_scan_flush_trigger = kHiddenEntriesMax;
  options.table_properties_collector_factories = {parts.deletions};
  options.optimize_filters_for_hits = false;  // unique checks ask for absent keys
  if (parts.filters_memtables) filter_memtables(kMemtableFilterPart, &options);
  return options;
}

rocksdb::ColumnFamilyOptions family_options_by_name(std::string_view name, const Compression &fallback,
                                                    const SharedParts &parts) {
  if (name == kCatalogFamilyName || name == rocksdb::kDefaultColumnFamilyName) {
    return family_options(Compression{Algorithm::kLz4, 0}, parts);
  }
  const std::optional<FamilyName> parsed = parse_family_name(name);
  rocksdb::ColumnFamilyOptions options = family_options(parsed ? parsed->compression : fallback, parts);
  if (name == kSharedFamilyName) filter_memtables(kSharedMemtableFilterPart, &options);
  return options;
}

std::vector<rocksdb::ColumnFamilyDescriptor> family_descriptors(const std::vector<std::string> &names,
                                                                const Compression &fallback,
                                                                const SharedParts &parts) {
  std::vector<rocksdb::ColumnFamilyDescriptor> descriptors;
  for (const std::string &name : names)
    descriptors.emplace_back(name, family_options_by_name(name, fallback, parts));
  return descriptors;
}

rocksdb::Options bulk_file_options(const Compression &compression, const SharedParts &parts,
                                   rocksdb::Env *env, StreamKind kind) {
  rocksdb::Options options(rocksdb::DBOptions(), family_options(compression, parts));
  options.env = env;
  options.bytes_per_sync = 4ull << 20;  // write-back starts early, so that the sync at the end is short
  options.compression = to_rocksdb(compression.algorithm);
  options.compression_opts = compression_options(compression);
  // At the end of a load of one stream, only the thread that writes the file is still busy; other threads can
  // compress for it. LZ4 is too cheap to be worth the hand-over.
  if (compression.algorithm == Algorithm::kZstd || compression.algorithm == Algorithm::kZlib)
    options.compression_opts.parallel_threads =
        static_cast<uint32_t>(std::clamp(parts.threads, 1, kCompressionThreadsMax));
  options.bottommost_compression = rocksdb::kDisableCompressionOption;
  if (kind == StreamKind::kSought) return options;
  rocksdb::BlockBasedTableOptions table = table_options(parts);
  // A filter takes 1.25 bytes a key and would spare reads of absent keys, but nobody asks for those here.
  table.filter_policy = nullptr;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

}  // namespace atoll::lsm
