// The figures of the databases for SHOW STATUS, SHOW ENGINE ATOLL STATUS and INFORMATION_SCHEMA.
#include <rocksdb/metadata.h>
#include <rocksdb/statistics.h>

#include <map>
#include <unordered_map>

#include "lsm/database_impl.h"

namespace atoll::lsm {
namespace {

using Properties = rocksdb::DB::Properties;

uint64_t aggregated(rocksdb::DB *db, const std::string &name) {
  uint64_t value = 0;
  return db->GetAggregatedIntProperty(name, &value) ? value : 0;
}

uint64_t property(rocksdb::DB *db, const std::string &name) {
  uint64_t value = 0;
  return db->GetIntProperty(name, &value) ? value : 0;
}

// Adds the number of files and bytes of each level. GetMapProperty() is cheaper than
// GetColumnFamilyMetaData(), which copies the list of files. Its map lacks empty levels; they count as 0.
void add_levels(rocksdb::DB *db, rocksdb::ColumnFamilyHandle *family,
                std::vector<std::pair<std::string, uint64_t>> *counters) {
  std::map<std::string, std::string> levels;
  db->GetMapProperty(family, Properties::kCFStats, &levels);
  const auto number = [&levels](const std::string &name) -> uint64_t {
    const auto found = levels.find(name);
    return found == levels.end() ? 0 : static_cast<uint64_t>(std::stod(found->second));
  };
  for (int level = 0; level < db->NumberLevels(family); ++level) {
    const std::string of_level = "compaction.L" + std::to_string(level);
    const std::string suffix = "_level_" + std::to_string(level);
    counters->emplace_back("shared_family_files" + suffix, number(of_level + ".NumFiles"));
    counters->emplace_back("shared_family_bytes" + suffix, number(of_level + ".SizeBytes"));
  }
}

}  // namespace

std::vector<std::pair<std::string, uint64_t>> DatabaseImpl::counters() {
  rocksdb::DB *const main = base(Side::kMain);
  const rocksdb::Statistics &statistics = *parts_.statistics;
  const auto ticker = [&](uint32_t type) { return statistics.getTickerCount(type); };
  const auto [compactions_done, compactions_failed] = compactions_->ended();
  std::vector<std::pair<std::string, uint64_t>> counters = {
      {"memtable_bytes", parts_.write_buffers->memory_usage()},
      {"memtable_bytes_max", parts_.write_buffers->buffer_size()},
      {"block_cache_bytes", parts_.block_cache->GetCapacity()},
      {"block_cache_bytes_used", parts_.block_cache->GetUsage()},
      {"block_cache_hits", ticker(rocksdb::BLOCK_CACHE_HIT)},
      {"block_cache_misses", ticker(rocksdb::BLOCK_CACHE_MISS)},
      {"stall_us", ticker(rocksdb::STALL_MICROS)},
      {"write_stopped", property(main, Properties::kIsWriteStopped)},
      {"compaction_pending_bytes", aggregated(main, Properties::kEstimatePendingCompactionBytes)},
      {"flushes_running", property(main, Properties::kNumRunningFlushes)},
      {"compactions_running", property(main, Properties::kNumRunningCompactions)},
      {"flush_bytes_written", ticker(rocksdb::FLUSH_WRITE_BYTES)},
      {"compaction_bytes_written", ticker(rocksdb::COMPACT_WRITE_BYTES)},
      {"compaction_bytes_read", ticker(rocksdb::COMPACT_READ_BYTES)},
      {"wal_syncs", ticker(rocksdb::WAL_FILE_SYNCED)},
      {"wal_bytes_written", ticker(rocksdb::WAL_FILE_BYTES)},
      {"bloom_useful", ticker(rocksdb::BLOOM_FILTER_USEFUL)},
      {"table_opens", ticker(rocksdb::NO_FILE_OPENS)},
      {"live_table_bytes", aggregated(main, Properties::kLiveSstFilesSize)},
      {"background_errors", errors_->errors()},
      {"families", families_->live().size()},
      {"families_pooled", families_->pooled()},
      {"ranges_to_reclaim", reclaim_->pending()},
      {"compactions_done", compactions_done},
      {"compactions_failed", compactions_failed},
  };
  add_levels(main, shared_->handle(), &counters);
  return counters;
}

std::vector<TableFile> DatabaseImpl::table_files() {
  std::unordered_map<std::string, uint32_t> ids;
  for (const FamilyImpl *family : families_->live()) ids[family->name()] = family->id();
  std::vector<rocksdb::LiveFileMetaData> live;
  base(Side::kMain)->GetLiveFilesMetaData(&live);
  std::vector<TableFile> files;
  for (rocksdb::LiveFileMetaData &file : live) {
    const auto family = ids.find(file.column_family_name);
    if (family == ids.end()) continue;  // the family was dropped
    files.push_back({file.file_number, family->second, file.level, file.num_entries, file.num_deletions,
                     std::move(file.smallestkey), std::move(file.largestkey)});
  }
  return files;
}

}  // namespace atoll::lsm
