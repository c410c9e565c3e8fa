// When the memtable of one family is full, flushes the other families too, if they have only a few rows in
// memory.
//
// The log is kept from the oldest row on that any family has in memory. Beside a table of BLOBs, the few rows
// of a small table would keep hundreds of megabytes of log on the local disk and in the bucket. With
// durability local, these rows would be the only reason to upload that log: a root is published only when the
// log that it needs is uploaded (gate PUB-G2). A flush of these rows is one small file.
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

  // In three cases the other families are not flushed: together they have more than `bytes_max` bytes in
  // memory, so RocksDB will soon flush them anyway; more than kCompanionsMax of them have rows in memory; or
  // one of them has a full memtable that waits for its flush.
  explicit CompanionFlush(uint64_t bytes_max);

  // Call it once. `db` and the families must stay valid until stop().
  void start(rocksdb::DB *db, LiveFamilies live_families);
  void stop() { task_.stop(); }

  // RocksDB calls this function from its own threads, without holding its mutex.
  void OnFlushBegin(rocksdb::DB *db, const rocksdb::FlushJobInfo &flush) noexcept override;

 private:
  void flush_companions();

  const uint64_t bytes_max_;
  Mutex mutex_;
  rocksdb::DB *db_ ATOLL_GUARDED_BY(mutex_) = nullptr;
  LiveFamilies live_families_ ATOLL_GUARDED_BY(mutex_);
  uint32_t full_family_ ATOLL_GUARDED_BY(mutex_) = 0;  // id of the family whose memtable was full last
  RepeatedTask task_;  // declared last, because its thread uses the other members
};

}  // namespace atoll::lsm
