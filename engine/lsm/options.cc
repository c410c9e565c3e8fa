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

// These names are part of family names, which are stored: never change one, only append new ones.
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

// When one search or step passes this many tombstones and old versions in a memtable, RocksDB flushes the
// memtable.
constexpr uint32_t kHiddenEntriesMax = 10000;
// RocksDB compacts a file when 512 of 1024 entries in a row, or half of all its entries, are deletions.
constexpr size_t kDeletionWindow = 1024, kDeletionsInWindow = 512;
constexpr double kDeletionRatio = 0.5;

// The part of a memtable's size that its filter takes. With 0.005, an entry of 200 bytes gets eight bits; of
// a hundred searches for keys that the memtable lacks, three then still walk its skip list. The shared
// family's entries are smaller, so its filters get more.
constexpr double kMemtableFilterPart = 0.005, kSharedMemtableFilterPart = 0.02;
// The filters of all memtables together get at most the memtables' budget divided by this number.
constexpr uint64_t kFiltersPartOfBudget = 8;

// Gives memtables filters, so that a search by key does not walk the skip list of a memtable that lacks the
// key. Without filters, these walks were half of the cost of a lookup under TPC-C.
void filter_memtables(double part, rocksdb::ColumnFamilyOptions *options) {
  options->memtable_whole_key_filtering = true;
  options->memtable_prefix_bloom_size_ratio = part;
}

// With this many threads, compression is faster than the merge of the sorted runs, so more threads gain
// nothing.
constexpr int kCompressionThreadsMax = 4;

bool parse_number(std::string_view text, uint64_t *number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

// Why blocks have 16 KiB. Measured without filters, with 800,000 rows of a key of 14 bytes and a value of 42.
// Of the value, 33 bytes are random letters and digits, which need at least 24.6 bytes. The three numbers
// after each setting are the bytes of a row in the three forms that a block can have: split into two streams
// with differences (head_differences.h), split without differences (split_block.h), not split.
//
//   zstd 3, blocks of 16 KiB   25.2  27.9  31.8 bytes a row    zstd 1, 32 KiB   24.9  27.2  31.2
//                     32 KiB   24.9  27.2  30.6                zstd 6, 32 KiB   24.9  27.0  30.5
//                     64 KiB   24.8  26.4  29.7                zlib,   32 KiB   25.2  28.6  32.9
//
// Scans decompress 6 to 8 million rows a second on each core in all of these cases. Blocks of 16 KiB give
// nearly all of the gain; with larger blocks, each point read would decompress more bytes.
rocksdb::BlockBasedTableOptions table_options(const SharedParts &parts) {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = parts.block_cache;
  table.block_size = 16 * 1024;
  // A point lookup decodes the entries of half a restart interval. With RocksDB's default interval of 16,
  // that was a tenth of the lookup's instructions.
  table.block_restart_interval = 8;
  table.filter_policy = parts.filter;
  table.whole_key_filtering = true;
  // Index and filter blocks are in the block cache, so that its size limits their memory, however many tables
  // there are. The metadata of L0 files stays pinned, because every read uses it.
  table.cache_index_and_filter_blocks = true;
  table.cache_index_and_filter_blocks_with_high_priority = true;
  table.metadata_cache_options.unpartitioned_pinning = rocksdb::PinningTier::kFlushedAndSimilar;
  table.metadata_cache_options.top_level_index_pinning = rocksdb::PinningTier::kAll;
  table.index_type = rocksdb::BlockBasedTableOptions::kBinarySearch;
  table.checksum = rocksdb::kXXH3;
  table.format_version = 7;
  // Iterators increase the size of their reads up to this. One read is one bucket request; TableReader also
  // fetches ahead.
  table.max_auto_readahead_size = 1024 * 1024;
  table.initial_auto_readahead_size = 64 * 1024;
  return table;
}

// The options that the main and the temp database have in common.
rocksdb::DBOptions base_options(const SharedParts &parts) {
  rocksdb::DBOptions options;
  options.create_if_missing = true;
  options.write_buffer_manager = parts.write_buffers;
  options.statistics = parts.statistics;
  // max_background_jobs is not used, because it would give flushes only a quarter of the threads. A flush
  // mostly waits for fsync, and a shutdown with many families has many flushes to do. Concurrent flushes
  // share their MANIFEST syncs.
  options.max_background_flushes = std::clamp(parts.threads, 2, 4);
  options.max_background_compactions = std::max(parts.threads, 1);
  options.max_subcompactions = static_cast<uint32_t>(std::max(parts.threads, 1));
  options.max_total_wal_size = parts.wal_bytes_max;
  options.stats_dump_period_sec = 0;  // SHOW STATUS shows the statistics
  options.stats_persist_period_sec = 0;
  options.max_log_file_size = 4 << 20;
  options.keep_log_file_num = 3;
  return options;
}

}  // namespace

// ---- Names of families ---------------------------------------------------------------------------

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

// ---- Caches and budgets --------------------------------------------------------------------------

uint64_t block_cache_capacity(uint64_t requested_bytes) {
  // In a smaller cache, index blocks keep evicting each other, and the database becomes unusable.
  constexpr uint64_t kBytesMin = 8ull << 20;
  return std::max(requested_bytes, kBytesMin);
}

// The smallest budget for all memtables. With less, files are so small that compactions rewrite them too
// often.
constexpr uint64_t kMemtablesBytesMin = 8ull << 20;

// On a disk below 16 GiB the files that are not in the bucket yet are kept small: memtables, and with them
// the WAL, get 1/32 and 1/16 of the disk, a compaction writes at most 1/8 of it, and the upload backlog has
// 1/8 (engine/engine.cc). A database can be many times as large as such a disk, so nothing here depends on
// the database's size.
void fit_disk(uint64_t disk_bytes, uint64_t *memtables_budget, SharedParts *parts) {
  parts->table_file_bytes = kTableFileBytes;
  if (disk_bytes == 0) return;
  *memtables_budget = std::min(*memtables_budget, std::max(disk_bytes / 32, kMemtablesBytesMin));
  parts->table_file_bytes = std::clamp<uint64_t>(disk_bytes / 64, 4ull << 20, kTableFileBytes);
  parts->compaction_bytes_max = std::min(disk_bytes / 8, 25 * kTableFileBytes);
}

SharedParts make_shared_parts(const DatabaseOptions &options) {
  SharedParts parts;
  // HyperClockCache finds blocks without a lock, so parallel scans and many connections do not wait for each
  // other. RocksDB's LRU cache would lock the mutex of a shard at each hit.
  rocksdb::HyperClockCacheOptions cache(block_cache_capacity(options.block_cache_bytes), 0);
  parts.block_cache = cache.MakeSharedCache();
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  parts.threads = options.background_threads > 0 ? options.background_threads : cores;
  // By default, memtables get a quarter of the block cache's size, because the size of memtables decides how
  // often data is rewritten, not how fast it is read. Their budget is separate from the block cache: a load
  // of rows must not evict blocks that readers use.
  const uint64_t derived = std::clamp<uint64_t>(options.block_cache_bytes / 4, 64ull << 20, 512ull << 20);
  uint64_t budget = options.memtable_bytes != 0 ? options.memtable_bytes : derived;
  fit_disk(options.disk_bytes, &budget, &parts);
  parts.write_buffers = std::make_shared<rocksdb::WriteBufferManager>(budget);
  parts.memtable_bytes = std::clamp<uint64_t>(budget / 2, 1ull << 20, 64ull << 20);
  // The limit of the WAL is set explicitly, because RocksDB's default is four times the size of all
  // memtables: with the default, one idle family kept 206 MB of WAL.
  parts.wal_bytes_max = options.wal_bytes_max != 0 ? options.wal_bytes_max : 2 * budget;
  parts.statistics = std::make_shared<WorkStatistics>();
  parts.deletions =
      rocksdb::NewCompactOnDeletionCollectorFactory(kDeletionWindow, kDeletionsInWindow, kDeletionRatio);
  parts.filter.reset(rocksdb::NewBloomFilterPolicy(10));
  return parts;
}

// ---- Options of databases ------------------------------------------------------------------------

uint64_t filtered_families_max(const SharedParts &parts) {
  const double filter_bytes = static_cast<double>(parts.memtable_bytes) * kMemtableFilterPart;
  const uint64_t filters_budget = parts.write_buffers->buffer_size() / kFiltersPartOfBudget;
  return static_cast<uint64_t>(static_cast<double>(filters_budget) / filter_bytes);
}

rocksdb::DBOptions main_database_options(const DatabaseOptions & /*options*/, const SharedParts &parts) {
  rocksdb::DBOptions options = base_options(parts);
  // A crash leaves the newest WAL with a torn end, and recovery ends there. Recovery also drops everything
  // after a hole in the WALs, so that the recovered changes are a prefix of the history. RocksDB syncs closed
  // WALs before the flush that follows. So a hole in an older WAL is damage; RocksDB reports it as an error
  // if the table files of a family already contain changes from after the hole.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  options.recycle_log_file_num = 0;  // WAL files that are being uploaded must not be overwritten
  options.avoid_flush_during_shutdown = false;
  options.avoid_flush_during_recovery = false;
  // A start without local files must not read the index of every table from the bucket. With a finite limit,
  // RocksDB opens a table when it is first read. DatabaseImpl::raise_open_files_limit() raises the limit
  // after open.
  options.max_open_files = 20;
  options.skip_stats_update_on_db_open = true;
  options.verify_sst_unique_id_in_manifest = true;
  options.max_manifest_file_size = 8ull << 20;  // each new MANIFEST is uploaded whole
  options.allow_2pc = true;
  // After a full disk or while the bucket does not answer, RocksDB retries background work once a second, for
  // ever.
  options.max_bgerror_resume_count = std::numeric_limits<int>::max();
  options.bgerror_resume_retry_interval = 1000000;
  // A flush or compaction writes its file to disk in pieces of this size, at most two at a time. With more
  // unwritten bytes, the sync of the log, for which commits wait, would have to wait for all of them.
  options.bytes_per_sync = 1 << 20;
  options.strict_bytes_per_sync = true;
  options.enable_pipelined_write = false;
  return options;
}

rocksdb::DBOptions temp_database_options(const DatabaseOptions & /*options*/, const SharedParts &parts) {
  rocksdb::DBOptions options = base_options(parts);
  options.max_open_files = -1;
  options.allow_2pc = false;
  options.avoid_flush_during_shutdown = true;  // the next start removes all files
  options.paranoid_checks = false;
  return options;
}

rocksdb::TransactionDBOptions transaction_options() {
  rocksdb::TransactionDBOptions options;
  options.write_policy = rocksdb::TxnDBWritePolicy::WRITE_COMMITTED;
  options.skip_concurrency_control = true;  // locks are Atoll's own (engine/txn)
  options.num_stripes = 1;                  // smallest size of RocksDB's own lock tables, which are not used
  options.transaction_lock_timeout = 0;
  options.default_lock_timeout = 0;
  return options;
}

// ---- Options of families -------------------------------------------------------------------------

rocksdb::ColumnFamilyOptions family_options(const Compression &compression, const SharedParts &parts) {
  rocksdb::ColumnFamilyOptions options;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table_options(parts)));
  options.write_buffer_size = parts.memtable_bytes;
  options.max_write_buffer_number = 4;
  // Small, because each family with a row in memory has at least one arena block, and a database can have
  // 5,000 families.
  options.arena_block_size = 128 * 1024;
  options.level_compaction_dynamic_level_bytes = true;
  options.target_file_size_base = parts.table_file_bytes;
  options.max_bytes_for_level_base = 4 * parts.table_file_bytes;
  options.max_compaction_bytes = parts.compaction_bytes_max;
  options.compaction_pri = rocksdb::kMinOverlappingRatio;
  // The upper levels have a tenth of the data and are rewritten soon, so they use LZ4, which is fast. Only
  // the bottom level uses the table's compression. The compression is set through bottommost_*, because
  // compression_opts.level would apply to LZ4 as well.
  const bool plain = compression.algorithm == Algorithm::kNone;
  options.compression = plain ? rocksdb::kNoCompression : rocksdb::kLZ4Compression;
  options.bottommost_compression = to_rocksdb(compression.algorithm);
  options.bottommost_compression_opts = compression_options(compression);
  options.compression_manager = split_compression_manager();
  options.memtable_batch_lookup_optimization =
      true;  // a MultiGet's keys are sorted: each search begins where the last one ended
  // In a table used as a queue, rows are read and deleted at the same end. Without the next two options, each
  // read at that end would pass all entries deleted since the last compaction. With them, RocksDB flushes a
  // memtable when a read passes kHiddenEntriesMax deleted entries in it, and compacts files full of
  // deletions.
  options.memtable_op_scan_flush_trigger = kHiddenEntriesMax;
  options.table_properties_collector_factories = {parts.deletions};
  options.optimize_filters_for_hits = false;  // checks of unique keys search for absent keys
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
  // At the end of a load of one stream, only the thread that writes the file is still busy, so other threads
  // can compress blocks for it. LZ4 is so fast that handing over a block costs more than it saves.
  if (compression.algorithm == Algorithm::kZstd || compression.algorithm == Algorithm::kZlib)
    options.compression_opts.parallel_threads =
        static_cast<uint32_t>(std::clamp(parts.threads, 1, kCompressionThreadsMax));
  options.bottommost_compression = rocksdb::kDisableCompressionOption;
  if (kind == StreamKind::kSought) return options;
  rocksdb::BlockBasedTableOptions table = table_options(parts);
  // A filter would take 1.25 bytes a key. It saves reads when a search is for an absent key, but readers of a
  // kKnown stream do not search for absent keys.
  table.filter_policy = nullptr;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

}  // namespace atoll::lsm
