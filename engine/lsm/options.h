// The RocksDB options of databases, families and bulk-load files, and why Atoll sets them.
//
// A family's options follow from its NAME alone ("t00000042.zstd.6"). A database restored from the bucket has
// no OPTIONS file, so the families' names in the MANIFEST are all that it knows of their options.
#pragma once

#include <rocksdb/advanced_cache.h>
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/statistics.h>
#include <rocksdb/utilities/transaction_db.h>
#include <rocksdb/write_buffer_manager.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lsm/database.h"

namespace atoll::lsm {

constexpr std::string_view kCatalogFamilyName = "catalog";
constexpr std::string_view kSharedFamilyName = "shared";

// The sizes at which table files are cut, large enough that a bucket has few objects. Files of a bulk load
// are smaller, because the load has nothing left to do while its last file is uploaded.
constexpr uint64_t kTableFileBytes = 64ull << 20;
constexpr uint64_t kBulkFileBytes = 32ull << 20;

// ---- Names of families -----------------------------------------------------------------------------
struct FamilyName {
  uint64_t sequence = 0;  // each family gets a new number, so that no name is ever used twice
  Compression compression;
};

std::string format_family_name(const FamilyName &name);
// Returns nullopt if `name` is not the name of a table's own family.
std::optional<FamilyName> parse_family_name(std::string_view name);

// ---- What all families share -------------------------------------------------------------------------
struct SharedParts {
  std::shared_ptr<rocksdb::Cache> block_cache;
  std::shared_ptr<rocksdb::WriteBufferManager> write_buffers;  // counts the memory of all memtables
  std::shared_ptr<rocksdb::Statistics> statistics;
  std::shared_ptr<const rocksdb::FilterPolicy> filter;  // of table files
  // Marks table files with many deletions, so that RocksDB compacts them.
  std::shared_ptr<rocksdb::TablePropertiesCollectorFactory> deletions;
  uint64_t memtable_bytes = 0;    // size at which RocksDB flushes a family's memtable
  uint64_t wal_bytes_max = 0;     // with more WAL, RocksDB flushes the families that need the oldest WAL
  uint64_t table_file_bytes = 0;  // of a flushed or compacted file; kTableFileBytes except on a small disk
  // How much one compaction may read, and so write to the disk before its files replace others. 0: RocksDB's
  // default, 25 files.
  uint64_t compaction_bytes_max = 0;
  int threads = 0;                // for background work and for bulk loads
  bool filters_memtables = true;  // false: only memtables of the shared family have filters
};

// With at most this many families, all memtables have filters; with more, only those of the shared family. A
// filter takes its memory even if nothing is written to the family, and all filters together must not take
// more than an eighth of the memtables' budget.
uint64_t filtered_families_max(const SharedParts &parts);

SharedParts make_shared_parts(const DatabaseOptions &options);

rocksdb::DBOptions main_database_options(const DatabaseOptions &options, const SharedParts &parts);
rocksdb::DBOptions temp_database_options(const DatabaseOptions &options, const SharedParts &parts);
rocksdb::TransactionDBOptions transaction_options();

rocksdb::ColumnFamilyOptions family_options(const Compression &compression, const SharedParts &parts);
// Returns the options of the family `name`. The compression is part of a table family's name; families with
// other names get `fallback`. The catalog and the default family get LZ4.
rocksdb::ColumnFamilyOptions family_options_by_name(std::string_view name, const Compression &fallback,
                                                    const SharedParts &parts);
// Returns the descriptors with which RocksDB opens the families of these names.
std::vector<rocksdb::ColumnFamilyDescriptor> family_descriptors(const std::vector<std::string> &names,
                                                                const Compression &fallback,
                                                                const SharedParts &parts);
// The options for files of a bulk load: those of the lowest level of a family with this compression.
rocksdb::Options bulk_file_options(const Compression &compression, const SharedParts &parts,
                                   rocksdb::Env *env, StreamKind kind);

// The size that the block cache gets when `requested_bytes` are configured: never less than 8 MiB.
uint64_t block_cache_capacity(uint64_t requested_bytes);

}  // namespace atoll::lsm
