// When the memtable of one family is full, flushes the others with it, where they hold little.
//
// The log reaches back to the oldest row that any family has in memory. Beside a table of BLOBs, the few rows
// of a small table would keep hundreds of megabytes of log: on the local disk, in the bucket, and with
// durability local they would be the only reason to upload it (gate PUB-G2). A flush of these rows is one
// small file.
#pragma once

#include <rocksdb/db.h>
#include <rocksdb/listener.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "base/mutex.h"
#include "base/threads/repeated_task.h"
#include "lsm/families.h"

namespace atoll::lsm {

class CompanionFlush final : public rocksdb::EventListener {
 public:
  using LiveFamilies = std::function<std::vector<FamilyImpl *>()>;

  // Leaves the other families alone when they hold more than `bytes_max` of memory, because such rows are
  // worth a file of their own soon; when there are more than kCompanionsMax of them; and when one is being
  // flushed.
  explicit CompanionFlush(uint64_t bytes_max);

  // Called once; `db` and the families are used from now on, until stop().
  void start(rocksdb::DB *db, LiveFamilies live_families);
  void stop() { task_.stop(); }

  // RocksDB's side: called from its threads, not with its mutex held.
  void OnFlushBegin(rocksdb::DB *db, const rocksdb::FlushJobInfo &flush) noexcept override;

 private:
  void flush_companions();

  const uint64_t bytes_max_;
  Mutex mutex_;
  rocksdb::DB *db_ ATOLL_GUARDED_BY(mutex_) = nullptr;
  LiveFamilies live_families_ ATOLL_GUARDED_BY(mutex_);
  uint32_t full_family_ ATOLL_GUARDED_BY(mutex_) = 0;  // the last one whose memtable was full
  RepeatedTask task_;                                  // last: uses all of the above
};

}  // namespace atoll::lsm
