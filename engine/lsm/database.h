// The interface of this folder, the only one that opens RocksDB: it sets RocksDB's options, makes column
// families, ingests bulk loads and reports counters.
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
  std::string local_dir;            // directory of the main database
  std::string temp_dir;             // directory of the temp database
  atoll_store *store = nullptr;     // nullptr: no bucket (tests)
  uint64_t block_cache_bytes = 0;   // 0: the smallest size that works
  uint64_t disk_bytes = 0;          // of a local disk that may be smaller than the database; 0: of no concern
  uint64_t memtable_bytes = 0;      // of all memtables (WriteBufferManager); 0: from block_cache_bytes
  uint64_t wal_bytes_max = 0;       // RocksDB's max_total_wal_size; 0: twice the budget for memtables
  Compression default_compression;  // of the shared family and of the pooled families (families.h)
  int background_threads = 0;       // 0: one for each core
  uint64_t bulk_sort_bytes = 128ull << 20;  // memory in which one statement's bulk loads sort rows
  // Writes a message to the server's error log. `level`: ATOLL_LOG_*. Null: no messages.
  std::function<void(int level, const std::string &)> log;
};

class PastDatabase;

// Both databases with all their interfaces. A class that needs only some of the interfaces takes pointers to
// these base classes.
class Database : public Rows, public Families, public Loads, public RunFiles, public Figures, public Upkeep {
 public:
  // Opens both databases, or creates them. Errors: kCorruption, kUnavailable, kNoSpace, kInvalid.
  static Status open(const DatabaseOptions &options, std::unique_ptr<Database> *out);

  // Makes a mount of the state to open, with its local files in `directory`: a call of atoll_store_mount() or
  // atoll_reader_view(), for example.
  using MountState = std::function<atoll_result(const char *directory, atoll_mount **out)>;
  // Opens a past state, or a state of another server's database, for reading. Its local files come into
  // `directory`, which must not exist. The state is read from the bucket, so the caller must have published
  // changes that were only on the local disk. Errors, requests: those of `mount`, and kCorruption.
  virtual Status open_past(const MountState &mount, const std::string &directory,
                           std::unique_ptr<PastDatabase> *out) = 0;

  // Flushes all memtables, so that the next open needs no WAL, and waits for background work. Destroy the
  // object afterwards.
  virtual Status shut_down() = 0;
};

}  // namespace atoll::lsm
