// Every RocksDB option Atoll sets, and why. No other file of the engine fills in option structs.
//
// A family's options follow from its NAME alone ("t00000042.zstd.6"), because a database restored from the
// bucket has no OPTIONS file: the MANIFEST names the families and nothing else survives.
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

// Files are cut at these sizes: big enough that a bucket holds few objects. Those of a load are smaller, as
// nothing overlaps the upload of the last one.
constexpr uint64_t kTableFileBytes = 64ull << 20;
constexpr uint64_t kBulkFileBytes = 32ull << 20;

// ---- Names of families -----------------------------------------------------------------------------
struct FamilyName {
  uint64_t sequence = 0;  // never reused, so that names never are
  Compression compression;
};

std::string format_family_name(const FamilyName &name);
std::optional<FamilyName> parse_family_name(std::string_view name);

// ---- What all families share -------------------------------------------------------------------------
struct SharedParts {
  std::shared_ptr<rocksdb::Cache> block_cache;
  std::shared_ptr<rocksdb::WriteBufferManager> write_buffers;
  std::shared_ptr<rocksdb::Statistics> statistics;
  std::shared_ptr<const rocksdb::FilterPolicy> filter;
  std::shared_ptr<rocksdb::TablePropertiesCollectorFactory> deletions;  // marks files full of them
  uint64_t memtable_bytes = 0;                                          // of one family
  uint64_t wal_bytes_max = 0;
  int threads = 0;
  bool filters_memtables = true;  // of all families; see filtered_families_max()
};

// The greatest number of families of which all have filters in their memtables. With more, only the shared
// one has: each filter takes its memory whether the family is written or not, and together they may take an
// eighth of the memtables' budget.
uint64_t filtered_families_max(const SharedParts &parts);

SharedParts make_shared_parts(const DatabaseOptions &options);

rocksdb::DBOptions main_database_options(const DatabaseOptions &options, const SharedParts &parts);
rocksdb::DBOptions temp_database_options(const DatabaseOptions &options, const SharedParts &parts);
rocksdb::TransactionDBOptions transaction_options();

rocksdb::ColumnFamilyOptions family_options(const Compression &compression, const SharedParts &parts);
// The options of the family `name`, whose compression its name tells; an unknown name gets `fallback`.
rocksdb::ColumnFamilyOptions family_options_by_name(std::string_view name, const Compression &fallback,
                                                    const SharedParts &parts);
// What RocksDB needs to open the families of these names.
std::vector<rocksdb::ColumnFamilyDescriptor> family_descriptors(const std::vector<std::string> &names,
                                                                const Compression &fallback,
                                                                const SharedParts &parts);
// The options for files of a bulk load: those of the lowest level of a family with this compression.
rocksdb::Options bulk_file_options(const Compression &compression, const SharedParts &parts,
                                   rocksdb::Env *env, StreamKind kind);

uint64_t block_cache_capacity(uint64_t requested_bytes);

}  // namespace atoll::lsm
