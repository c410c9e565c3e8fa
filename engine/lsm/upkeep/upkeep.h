// Maintenance of the databases: flushes, compactions, checks of table files, and the size of the block cache.
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

  virtual Status flush(Family *family) = 0;  // nullptr: all families of main
  // Compacts all files with keys in [begin, end). Blocks: until the compaction has ended, which also waits
  // while the upload backlog is full. Errors: kInterrupted: the statement was killed; the compaction then
  // ends in the background.
  virtual Status compact(Family *family, std::string_view begin, std::string_view end) = 0;
  // Writes the rows of all families of main into new files: without former versions, without deleted rows,
  // and without the MANIFEST and the log that have them. *last_former: no table file with this number or a
  // lower one is part of main any more. RocksDB deletes such files when nothing reads them any more, and it
  // deletes the files of dropped families half a minute later. Blocks: as compact(). Errors: kUnavailable: a
  // snapshot from before the call keeps former versions, or another compaction kept a file; the caller
  // repeats the call. Those of flush() and compact().
  virtual Status rewrite(uint64_t *last_former) = 0;
  // Reads all table files with keys in [begin, end), past the block cache, and compares every block with its
  // checksum. Like any read, it reads the local file, or else cached parts, or else the bucket. It calls
  // `is_cancelled` before each read of at most 2 MiB; once `is_cancelled` has returned true, it must always
  // return true. Errors: kCorruption (the message names file and offset), kUnavailable, kInterrupted.
  virtual Status verify_files(Family *family, std::string_view begin, std::string_view end,
                              const std::function<bool()> &is_cancelled) = 0;

  virtual void set_block_cache_bytes(uint64_t bytes) = 0;  // the block cache's new size limit
  virtual uint64_t block_cache_bytes() const = 0;
  virtual uint64_t block_cache_bytes_used() const = 0;
};

}  // namespace atoll::lsm
