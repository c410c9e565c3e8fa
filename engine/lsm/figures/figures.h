// Figures about the database: sizes of ranges, table files, compactions, counters.
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
  uint64_t bytes = 0;    // in table files, compressed, plus in memtables
  uint64_t entries = 0;  // an estimate; from estimate() for a small range in memory: the exact number
};

// A table file of the main database.
struct TableFile {
  uint64_t number = 0;  // RocksDB's file number
  uint32_t family_id = 0;
  int level = 0;           // in the LSM tree of the family
  uint64_t entries = 0;    // tombstones included; 0: not known, because the file was not read since the start
  uint64_t deletions = 0;  // how many of the entries are tombstones
  std::string smallest_key, largest_key;
};

// A compaction of the main database that runs or has ended since the start of the server.
struct Compaction {
  enum class State : uint8_t { kRunning, kDone, kFailed };
  int job = 0;  // RocksDB's number of the compaction, as in its own log
  uint32_t family_id = 0;
  State state = State::kRunning;
  std::string reason;  // in RocksDB's words
  int input_level = 0, output_level = 0;
  uint64_t input_files = 0, output_files = 0;
  uint64_t input_bytes = 0, output_bytes = 0;  // 0 while it runs
  uint64_t started_us = 0;                     // since 1970
  uint64_t took_us = 0;                        // 0 while it runs
};

// Requests to the bucket: estimate(), sizes(), takes_more_than() and split() make a few if the index or data
// blocks that they read are not local; the other functions make none.
class Figures {
 public:
  virtual ~Figures() = default;

  // Estimates the bytes and entries in [begin, end). Small ranges are counted if their blocks are in memory.
  virtual RangeEstimate estimate(Family *family, std::string_view begin, std::string_view end) = 0;
  // As estimate(), but the entries of small ranges are not counted.
  virtual RangeEstimate sizes(Family *family, std::string_view begin, std::string_view end) = 0;
  // Returns the bytes that the whole family takes in table files and memtables. Exact, and without I/O.
  virtual uint64_t total_bytes(Family *family) = 0;
  // True if [begin, end) takes more than `bytes_max` bytes, in files and in memory. RocksDB estimates the
  // size of entries in a memtable by the average of all its entries, which is far too high for small entries
  // beside large ones. So if the estimate is more than `bytes_max`, this function reads up to `bytes_max`
  // bytes of entries to make sure.
  virtual bool takes_more_than(Family *family, std::string_view begin, std::string_view end,
                               uint64_t bytes_max) = 0;
  // Keys that split [begin, end) into about `pieces` equal parts, ascending, for parallel scans.
  virtual std::vector<std::string> split(Family *family, std::string_view begin, std::string_view end,
                                         size_t pieces) = 0;

  // The last background error; kOk if there is none. After kNoSpace and kUnavailable, background work resumes
  // by itself.
  virtual Status background_error() = 0;

  // name/value pairs for SHOW STATUS (memtable bytes, stalls, compaction debt, WAL syncs, ...).
  virtual std::vector<std::pair<std::string, uint64_t>> counters() = 0;
  virtual std::vector<TableFile> table_files() = 0;   // in any order
  virtual std::vector<Compaction> compactions() = 0;  // at most the last 200, oldest first
};

}  // namespace atoll::lsm
