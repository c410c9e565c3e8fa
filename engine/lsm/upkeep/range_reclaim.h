// Frees the disk space of deleted ranges, one range at a time, on a thread of its own. Files that lie wholly
// in the range are deleted at once; files that lie partly in it are compacted. Correctness does not depend on
// this: ranges that are pending at a shutdown are forgotten, and RocksDB's ordinary compaction frees their
// space.
#pragma once

#include <rocksdb/db.h>

#include <atomic>
#include <functional>
#include <list>
#include <string>

#include "base/mutex.h"
#include "base/threads/repeated_task.h"
#include "bridge/objstore.h"
#include "lsm/family.h"

namespace atoll::lsm {

class RangeReclaim {
 public:
  // `store`: nullptr when the database has no bucket.
  RangeReclaim(rocksdb::DB *db, atoll_store *store);

  // Queues [begin, end) of `family` to be reclaimed. Requires: its range tombstone has been written.
  void add(Family *family, std::string begin, std::string end);
  size_t pending();  // number of ranges that are queued or being reclaimed
  void stop() { task_.stop(); }

 private:
  struct Job {
    Family *family;
    std::string begin, end;
  };
  void reclaim_first();
  void reclaim(const Job &job);

  rocksdb::DB *const db_;
  atoll_store *const store_;
  Mutex mutex_;
  std::list<Job> jobs_ ATOLL_GUARDED_BY(mutex_);
  size_t running_ ATOLL_GUARDED_BY(mutex_) = 0;  // 1 while a range is being reclaimed, otherwise 0
  RepeatedTask task_;                            // declared last, because its thread uses the other members
};

}  // namespace atoll::lsm
