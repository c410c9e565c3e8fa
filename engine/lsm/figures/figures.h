// What the database says about itself: sizes of ranges, files, compactions, counters.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "lsm/family.h"

namespace atoll::lsm {

struct RangeEstimate {
  uint64_t bytes = 0;    // on disk, compressed, plus memtables
  uint64_t entries = 0;  // estimated
};

// A table file of the main database.
struct TableFile {
  uint64_t number = 0;
  uint32_t family_id = 0;
  int level = 0;
  uint64_t entries = 0;
  uint64_t deletions = 0;
  std::string smallest_key, largest_key;
};

// A compaction of the main database that runs or has ended since the start of the server.
struct Compaction {
  enum class State : uint8_t { kRunning, kDone, kFailed };
  int job = 0;
  uint32_t family_id = 0;
  State state = State::kRunning;
  std::string reason;  // RocksDB's word for it
  int input_level = 0, output_level = 0;
  uint64_t input_files = 0, output_files = 0;
  uint64_t input_bytes = 0, output_bytes = 0;  // 0 while it runs
  uint64_t started_us = 0;                     // since 1970
  uint64_t took_us = 0;                        // 0 while it runs
};

// Requests to the bucket: estimate() and takes_more_than() make those of a short read, the others none.
class Figures {
 public:
  virtual ~Figures() = default;

  // Estimates what is in [begin, end). Small ranges are counted.
  virtual RangeEstimate estimate(Family *family, std::string_view begin, std::string_view end) = 0;
  // As estimate(), but from sizes alone: nothing is counted.
  virtual RangeEstimate sizes(Family *family, std::string_view begin, std::string_view end) = 0;
  // What the whole family takes in files and in memory. Exact; costs nothing.
  virtual uint64_t total_bytes(Family *family) = 0;
  // Whether [begin, end) takes more than `bytes_max`, in files and in memory. When sizes() says so, this call
  // reads up to `bytes_max` to make sure, because RocksDB estimates the size of a memtable's entries by the
  // average of all entries in it.
  virtual bool takes_more_than(Family *family, std::string_view begin, std::string_view end,
                               uint64_t bytes_max) = 0;
  // Keys that split [begin, end) into about `pieces` equal parts, ascending, for parallel scans.
  virtual std::vector<std::string> split(Family *family, std::string_view begin, std::string_view end,
                                         size_t pieces) = 0;

  // The last background error, kOk if none. RocksDB resumes by itself after kNoSpace and kUnavailable.
  virtual Status background_error() = 0;

  // name/value pairs for SHOW STATUS (memtable bytes, stalls, compaction debt, WAL syncs, ...).
  virtual std::vector<std::pair<std::string, uint64_t>> counters() = 0;
  virtual std::vector<TableFile> table_files() = 0;   // in no order
  virtual std::vector<Compaction> compactions() = 0;  // oldest first, some hundred
};

}  // namespace atoll::lsm
