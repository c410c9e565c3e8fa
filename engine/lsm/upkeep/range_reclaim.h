// Gives back the space of deleted ranges: whole files at once, the rest by compaction, one range at a time
// on a thread of its own. Nothing here is needed for correctness; what is pending at shutdown is forgotten
// and left to ordinary compaction.
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
  // `store`: null without a bucket.
  RangeReclaim(rocksdb::DB *db, atoll_store *store);

  // [begin, end) of `family` is covered by a range tombstone that is already written.
  void add(Family *family, std::string begin, std::string end);
  size_t pending();
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
  size_t running_ ATOLL_GUARDED_BY(mutex_) = 0;
  RepeatedTask task_;  // last: uses all of the above
};

}  // namespace atoll::lsm
