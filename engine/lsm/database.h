// The only place that opens RocksDB: options, column families, bulk ingestion, numbers.
//
// Two databases are open in one server: `main`, whose files live in the bucket (cloudfs), and `temp`, for
// TEMPORARY tables: plain local files, no WAL, wiped at start.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "bridge/objstore.h"
#include "lsm/family.h"
#include "lsm/figures/figures.h"
#include "lsm/load/loads.h"
#include "lsm/rows.h"
#include "lsm/upkeep/upkeep.h"

namespace atoll::lsm {

struct DatabaseOptions {
  std::string local_dir;           // main
  std::string temp_dir;            // temp
  atoll_store *store = nullptr;    // nullptr: no bucket (tests)
  uint64_t block_cache_bytes = 0;  // 0: smallest possible
  uint64_t memtable_bytes = 0;     // one budget for all families (WriteBufferManager); 0: derived
  uint64_t wal_bytes_max = 0;      // max_total_wal_size; 0: derived
  Compression default_compression;
  int background_threads = 0;               // 0: cores
  uint64_t bulk_sort_bytes = 128ull << 20;  // memory of one statement for unsorted streams
  std::function<void(int level, const std::string &)> log;
};

class PastDatabase;

// The two databases in all their roles. A class that uses some of the roles takes only those.
class Database : public Rows, public Families, public Loads, public RunFiles, public Figures, public Upkeep {
 public:
  // Opens or creates. Errors: kCorruption, kUnavailable, kNoSpace, kInvalid.
  static Status open(const DatabaseOptions &options, std::unique_ptr<Database> *out);

  // Opens the state that `when` names, a snapshot or a moment, in `directory`, which must not exist.
  // `schema`: for people. State that is only on the local disk must have been published before. Errors,
  // requests: those of atoll_store_mount(), and kCorruption.
  virtual Status open_past(const std::string &when, const std::string &schema, const std::string &directory,
                           std::unique_ptr<PastDatabase> *out) = 0;

  // Flushes memtables so that no WAL is needed, and waits for background work. Destroy the object afterwards.
  virtual Status shut_down() = 0;
};

}  // namespace atoll::lsm
