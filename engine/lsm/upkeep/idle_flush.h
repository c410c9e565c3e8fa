// Flushes families that are not written any more but still have rows in memory. Such a family keeps the whole
// WAL from its oldest row on. When the WAL reaches its limit, RocksDB would flush all such families at once,
// and writers would wait. IdleFlush flushes them one by one, long before that.
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
    // A family that was not written for this long is idle. Each flush makes one object in the bucket. So this
    // time also limits the cost of a table that gets a row now and then: at most one small PUT per this time.
    std::chrono::milliseconds idle_after{300000};
    std::chrono::milliseconds look_every{10000};  // how often the task looks for idle families
  };
  IdleFlush(rocksdb::DB *db, std::function<std::vector<FamilyImpl *>()> live_families, Settings settings);
  void stop() { task_.stop(); }

 private:
  // How many rows a family had in its memtable, and since when it has had exactly this many.
  struct Seen {
    uint64_t rows = 0;
    std::chrono::steady_clock::time_point since;
  };
  void look();
  bool is_idle(FamilyImpl *family);

  rocksdb::DB *const db_;
  const std::function<std::vector<FamilyImpl *>()> live_families_;
  const Settings settings_;
  std::unordered_map<uint32_t, Seen> seen_;  // by family id; used by the task's thread only
  RepeatedTask task_;                        // declared last, because its thread uses the other members
};

}  // namespace atoll::lsm
