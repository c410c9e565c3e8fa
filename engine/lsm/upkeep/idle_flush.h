// Flushes families that nobody writes to any more but that still have rows in memory: such a family pins
// the whole WAL behind its oldest row, and when the WAL limit is reached RocksDB flushes all of them at
// once, with writers waiting. Here they go one by one, long before.
#pragma once

#include <rocksdb/db.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "base/threads/repeated_task.h"
#include "lsm/families.h"

namespace atoll::lsm {

class IdleFlush {
 public:
  struct Settings {
    // A family that was not written for this long is idle. Each flush is one object in the bucket, so this
    // also bounds what tables with a row now and then cost: at most one small PUT per this time and table.
    std::chrono::milliseconds idle_after{300000};
    std::chrono::milliseconds look_every{10000};
  };
  IdleFlush(rocksdb::DB *db, std::function<std::vector<FamilyImpl *>()> live_families, Settings settings);
  void stop() { task_.stop(); }

 private:
  struct Seen {
    uint64_t rows = 0;
    std::chrono::steady_clock::time_point since;
  };
  void look();
  bool is_idle(FamilyImpl *family);

  rocksdb::DB *const db_;
  const std::function<std::vector<FamilyImpl *>()> live_families_;
  const Settings settings_;
  std::unordered_map<uint32_t, Seen> seen_;  // by family; only the task's
  RepeatedTask task_;                        // last: uses all of the above
};

}  // namespace atoll::lsm
