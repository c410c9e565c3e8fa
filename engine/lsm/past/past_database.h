// A state of the past, open for reading beside the present.
//
// It is a RocksDB database of its own in a local directory, whose table files are read through a mount. It
// shares the block cache of the present; a block that both databases have is in it once.
#pragma once

#include <memory>
#include <string>

#include "bridge/objstore.h"
#include "lsm/database.h"

namespace atoll::lsm {

// Families are of Side::kPast. Threads: any. Lives as long as anybody reads it; the present must live longer.
class PastDatabase {
 public:
  virtual ~PastDatabase() = default;  // ends the mount and removes the directory
  PastDatabase(const PastDatabase &) = delete;
  PastDatabase &operator=(const PastDatabase &) = delete;

  virtual Family *catalog_family() = 0;
  virtual Family *find_family(uint32_t id) = 0;  // nullptr: no such family
  // When the newest commit was made, in microseconds since 1970; 0: there was no commit.
  virtual uint64_t commit_us() const = 0;

 protected:
  PastDatabase() = default;
};

}  // namespace atoll::lsm
