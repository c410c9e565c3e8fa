// What keeps the files of the database in order, and the memory for its blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "base/status.h"
#include "lsm/family.h"

namespace atoll::lsm {

class Upkeep {
 public:
  virtual ~Upkeep() = default;

  virtual Status flush(Family *family) = 0;  // nullptr: all
  // Compacts all files with keys in [begin, end). Blocks: until that is done and the new files are uploaded.
  // Errors: kInterrupted: the statement was killed; the compaction then ends in the background.
  virtual Status compact(Family *family, std::string_view begin, std::string_view end) = 0;
  // Reads all table files with keys in [begin, end), past the block cache, and compares every block with its
  // checksum. As any read does, it takes the local file, else cached parts, else the bucket. `is_cancelled`
  // is asked before each read of at most 2 MiB; once true, it must stay so. Errors: kCorruption (names file
  // and offset), kUnavailable, kInterrupted.
  virtual Status verify_files(Family *family, std::string_view begin, std::string_view end,
                              const std::function<bool()> &is_cancelled) = 0;

  virtual void set_block_cache_bytes(uint64_t bytes) = 0;  // the most that it may take
  virtual uint64_t block_cache_bytes() const = 0;
  virtual uint64_t block_cache_bytes_used() const = 0;
};

}  // namespace atoll::lsm
